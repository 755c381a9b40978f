"""`gossamer.Engine`: private gradients for a training loop of your own (docs/own-model.md).

Sampling, clipping, noise, cost and the end of training are one object, so that they cannot drift apart. It is made of what the
methods use: records inside `Confined`, one mechanism, and a query for gradients.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from weakref import finalize

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import default_collate

from gossamer.data.records import on_device, sent
from gossamer.data.source import MapStyle, Source, source_of
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.data.units import Grouped, from_array
from gossamer.errors import BudgetError, RequestError
from gossamer.files import at_home, write_atomically
from gossamer.privacy import (
    Confined,
    Guarantee,
    PerRecordGradient,
    PrivacyLedger,
    Rng,
    calibrate_noise,
)
from gossamer.privacy.certificate import statements
from gossamer.privacy.certificate.certificate import recompute
from gossamer.privacy.device_check import check_device
from gossamer.privacy.distributed import ALONE, Group, Ranks
from gossamer.privacy.guarantee import Plan
from gossamer.privacy.ledger import merge, plan_to_json
from gossamer.privacy.mechanisms.banded import gradient_sum
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum
from gossamer.privacy.per_sample_gradients.clipping import place
from gossamer.privacy.per_sample_gradients.gradients import Tensors, assign
from gossamer.privacy.per_sample_gradients.rounding import Precision
from gossamer.run.storage.run_folder import today
from gossamer.run.storage.versions import versions
from gossamer.run.training.plan import checked_delta
from gossamer.run.validation import checked_arguments

Loss: TypeAlias = Callable[..., Tensor]
"""Called with the network and the parts of a batch. It returns one loss for each example, [n]."""

RESPONSIBILITIES = (
    "the declared size, the unit and all settings are public: nobody chose them by looking at these records",
    "nothing that leaves the program has another source in these records than the gradients of the engine: no loss, no metric, "
    "no number of records, no first weights",
    "how an example is prepared depends on that example alone",
    "the loss of an example depends on that example alone. Gossamer asks it about made-up examples, which cannot show every "
    "mixing",
)
"""What the author of the loop answers for. A certificate lists it."""


@dataclass(frozen=True, repr=False)
class Examples(Tensors, Grouped):
    """Examples in memory: tensors [n, ...], and the unit of each."""

    names: np.ndarray | None = None


@dataclass(frozen=True)
class EngineCertificate:
    """What an `Engine` promises, of everything that follows from its gradients. It states the reserved plan.

    Args:
        statement: the guarantee, and what it means.
        guarantee: the bound that counts.
        facts: the bounds of all accountants, the plan, what the author of the loop answers for, the ledger, versions and date.
    """

    statement: str
    guarantee: Guarantee
    facts: dict[str, object]

    def save(self, path: str | Path) -> None:
        """Write it as JSON. Raises OSError: the file cannot be written."""
        body = {"statement": self.statement, **self.guarantee.to_json(), **self.facts}
        write_atomically(at_home(path), json.dumps(body, indent=2) + "\n")


class Engine:
    """Private gradients for a training loop of your own.

    Each step samples, clips, adds noise and records its cost. The loop ends where the plan does.

    Args:
        data: a tensor or an array [n, ...], a tuple of them, or a dataset with a length, whose items are tuples. It is read
            once. In a `Source`, with `units`: whose each example is. Where `torch.distributed` has several ranks, all get the
            same data, and each takes the gradients of its share of the units.
        declared_size: number of units in the data, a public fact. It need not be exact.
        expected_batch_size: units that a step samples, on average.
        steps: number of steps.
        max_norm: L2 bound on what one unit adds to a gradient.
        delta: chance that the epsilon bound fails, for example 1e-5.
        epsilon: privacy budget. Infinity trains without privacy.
        noise_multiplier: standard deviation of the noise / `max_norm`. Default: follows from epsilon.
        bands: steps over which noise is correlated, so that sums over steps have less of it. 1: independent noise.
        unit: what a unit is called in the certificate.
        ledger: file of the ledger. One that is there is continued, after a crash. Default: in memory. Not for several ranks.

    Raises:
        RequestError: if the arguments contradict each other, the data are none of these, or ranks got different data.
        BudgetError: if the plan costs more than epsilon, or nothing meets it.
    """

    @checked_arguments
    def __init__(  # noqa: PLR0913 (they are what a run is)
        self,
        data: MapStyle | Source,
        *,
        declared_size: int,
        expected_batch_size: int,
        steps: int,
        max_norm: float,
        delta: float,
        epsilon: float | None = None,
        noise_multiplier: float | None = None,
        bands: int = 1,
        unit: str = "record",
        ledger: str | Path | None = None,
    ) -> None:
        if not 1 <= expected_batch_size <= declared_size or min(steps, bands) < 1 or not 0 < max_norm < math.inf:
            raise RequestError(
                "Give at least one step, at least one band, a finite `max_norm` above 0, and an `expected_batch_size` from 1 "
                "to `declared_size`."
            )
        if epsilon is None and noise_multiplier is None:
            raise BudgetError("give `epsilon` (the budget) or `noise_multiplier`.")
        self.declared_size, self.expected_batch_size, self.unit = declared_size, expected_batch_size, unit
        self.sampling_rate = expected_batch_size / declared_size
        checked_delta(delta, epsilon, self)

        def mechanism(noise: float) -> PoissonGaussianSum:
            return gradient_sum(
                sampling_rate=self.sampling_rate, max_norm=max_norm, noise_multiplier=noise, steps=steps, bands=bands
            )

        def plan(noise: float) -> Plan:
            return [(mechanism(noise).event, -(-steps // bands))]

        if noise_multiplier is None:
            noise_multiplier = calibrate_noise(plan, epsilon=epsilon or 0.0, delta=delta, unit=unit)
        self.noise_multiplier = float(noise_multiplier)
        self._mechanism = mechanism(self.noise_multiplier)
        self._ledger = PrivacyLedger(budget=math.inf if epsilon is None else epsilon, delta=delta, unit=unit)
        self._ledger.reserve(plan(self.noise_multiplier))
        ranks = Group() if dist.is_available() and dist.is_initialized() else ALONE
        if ledger is not None:
            if ranks.count > 1:
                raise RequestError("With several ranks, the ledger is in memory: leave `ledger` out.")
            self._put(Path(ledger))
            finalize(self, self._ledger.close)
        self._private = Confined(_share(_examples(source_of(data)), ranks), self._ledger, Rng(), ranks)

    def _put(self, path: Path) -> None:
        """Put the ledger on disk, or go on with the one that is there."""
        if not path.exists():
            self._ledger.create(path)
            return
        found, mine = PrivacyLedger.resume(path), self._ledger
        if merge(found.plan) != merge(mine.plan) or (found.delta, found.unit) != (mine.delta, mine.unit):
            found.close()
            raise RequestError(
                f"{path} is the ledger of another plan. Name a new file, or give the arguments of its run."
            )
        self._ledger = found

    def __repr__(self) -> str:
        return f"Engine({self._ledger.promise()}; {self.remaining:,} steps left)"

    @property
    def remaining(self) -> int:
        """How many more steps the plan holds."""
        return self._mechanism.left(self._private.remaining)

    def steps(
        self, net: nn.Module, loss: Loss, *, physical_batch_size: int = 512, precision: Precision = "fp32"
    ) -> Iterator[Tensor]:
        """Take the steps that are left: each puts a private gradient into `grad` of every parameter, and yields it.

        The gradient is that of the mean loss over the expected batch: the noisy sum, divided by `expected_batch_size`. A loop
        that is left early keeps its other steps for another call. So does another network.

        Args:
            net: the network. Parameters that do not learn get no gradient.
            loss: called as loss(net, *parts of a batch); one loss for each example, [n].
            physical_batch_size: examples in memory at a time. The result depends on it by rounding only.
            precision: number format of forward and backward passes.

        Yields:
            The gradient, [D], in the order of `net.parameters()`. It may be published.

        Raises:
            RequestError: if the loss is not one number for each example, or the network or the loss mixes examples.
            ConfinedError: if the data or the loss fail. The message is withheld, because it could hold a record.
        """
        device = place(net)

        def losses(module: nn.Module, batch: Tensors) -> Tensor:
            return loss(module, *(sent(part, device) for part in batch.parts))

        query: PerRecordGradient[Tensors] = PerRecordGradient(net, losses, physical_batch_size, precision=precision)
        if checks := check_device(str(device), {"precision": precision}):
            self._ledger.note_device(checks)
        learning = [parameter for parameter in net.parameters() if parameter.requires_grad]
        for total in self._private.answers(self._mechanism, query):
            gradients = total.div_(self.expected_batch_size)
            parts = zip(net.parameters(), gradients.split(query.sizes), strict=True)
            assign(learning, [part.view_as(p).to(p.dtype) for p, part in parts if p.requires_grad])
            yield gradients

    def certificate(self) -> EngineCertificate:
        """State what the plan promises, and what you answer for. It holds at any time: it counts all steps."""
        ledger, settings = self._ledger, {"public": statements.NO_PUBLIC}
        bounds = recompute(ledger)
        best = min(bounds, key=lambda entry: float(entry["epsilon"]))
        size = f"declared size: {self.declared_size:,} {self.unit}s"
        facts = {
            "guarantees": bounds,
            "plan": plan_to_json(ledger.plan),
            "assumptions": [size, *RESPONSIBILITIES, statements.NOISE],
            "adds_up": statements.adds_up(settings),
            "ledger": {"lines": ledger.lines, "last_hash": ledger.last_hash},
            "versions": versions(),
            "created": today(),
        }
        return EngineCertificate(statements.statement(ledger, settings, best), ledger.promise(), facts)


def _share(examples: Examples, ranks: Ranks) -> Examples:
    """The units of this rank. Raises RequestError: ranks got different data, so a unit could be on two of them."""
    if ranks.count == 1:
        return examples
    digest = hashlib.sha256()
    for part in (*examples.parts, *([] if examples.units is None else [torch.from_numpy(examples.units)])):
        digest.update(part.cpu().contiguous().view(torch.uint8).numpy().data)
    others = ranks.broadcast(digest.digest())

    def same() -> None:
        if digest.digest() != others:
            raise RequestError("`data`: all ranks must get the same examples and units. Each takes its own share.")

    ranks.run_on_all(same)
    shard = ranks.shard(examples.population)
    return examples.take(np.arange(shard.start, shard.stop))


def _examples(source: Source) -> Examples:
    """Data as tensors, read once. Raises RequestError: they are none, or differ in length."""
    data: Any = source.records
    if isinstance(data, str) or not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise RequestError(
            f"`data` must be tensors, arrays or a dataset with a length, not of type {type(data).__name__}."
        )
    parts = data if isinstance(data, tuple) else getattr(data, "tensors", (data,))  # of a TensorDataset
    if not all(isinstance(part, Tensor | np.ndarray) for part in parts):
        parts = default_collate([data[at] for at in range(len(data))])
    parts = tuple(part if isinstance(part, Tensor) else on_device(part, "cpu") for part in parts)
    if len({len(part) for part in parts}) > 1:
        raise RequestError("`data`: the tensors must be of one length, with one row for each example.")
    if source.units is None:
        return Examples(parts)
    return Examples(parts, from_array(unit_ids(source.units, "units"), len(parts[0]), "refuse", where="units").numbers)
