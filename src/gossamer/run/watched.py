"""What an auditor sees of a run: `Watched` stands in the place of `Confined`, and lets canaries into its queries.

Charges, sampling, clipping and noise stay those of the run. Each kind of `Watch` knows one kind of canary
(`attacks/canaries.py`), and keeps how far every release went along it, in units of the most that a record may add.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from dp_accounting import DpEvent
from torch import Tensor

from gossamer.attacks import canaries
from gossamer.attacks.arrays import Scores
from gossamer.attacks.canaries import WithCanaries
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.privacy.confined import Confined
from gossamer.privacy.engine.gradients import PerRecordGradient
from gossamer.privacy.engine.penalty import PenaltyGradient
from gossamer.privacy.mechanisms import Bounds, GroupedGaussianSum, Mechanism, PoissonGaussianSum
from gossamer.privacy.rows import SanitizedRows
from gossamer.privacy.termwise import TermwiseGaussianSum

T = TypeVar("T")
U = TypeVar("U")


@dataclass
class Watch(ABC):
    """What the attacker keeps of the releases of one run.

    Args:
        seen: of each release, how far it went along each canary, in units of what a record may add: [canaries].
        rates: the sampling rate that was declared for each.
        noise: the noise multiplier that was.
    """

    seen: list[Scores] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)

    @abstractmethod
    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """Ask with canaries in the query, keep what is seen, and give the loop its own part of the answer."""

    def keep(self, x: Any, *, rate: float, noise: float) -> None:
        """What one release showed."""
        self.seen.append(np.atleast_1d(np.asarray(x, dtype=np.float64)))
        self.rates.append(rate)
        self.noise.append(noise)


class Watched(Confined[T]):
    """The same value, with someone at the door who lets canaries in and looks at what comes out."""

    __slots__ = ("_inner", "_watch")

    def __init__(self, inner: Confined[T], watch: Watch) -> None:
        self._inner, self._watch = inner, watch

    def map(self, fn: Callable[[T], U]) -> "Watched[U]":
        """See `Confined.map`."""
        return Watched(self._inner.map(fn), self._watch)

    def update(self, fn: Callable[[T], object]) -> None:
        """See `Confined.update`."""
        self._inner.update(fn)

    def release(self, mechanism: Mechanism[T], query: object) -> Tensor:
        """Charges and reads like `Confined.release`, which it calls."""
        return self._watch.release(self._inner, mechanism, query)

    def remaining(self, event: DpEvent) -> int:
        """See `Confined.remaining`."""
        return self._inner.remaining(event)


@dataclass
class Gradients(Watch):
    """Many canaries in one run, each with a weight of its own that pulls: half of them are among the records.

    Args:
        count: canaries.
    """

    count: int = 0
    known: dict[int, tuple[Any, Any, WithCanaries]] = field(default_factory=dict)

    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """See `Watch`. A query that asks for no gradients (a quantile) is let through as it is."""
        if isinstance(mechanism, TermwiseGaussianSum) and mechanism.max_norm_batch > 0:
            raise RequestError("a batch-wise term takes one canary a run")
        gradient = query.phi if isinstance(mechanism, TermwiseGaussianSum) else query
        if not isinstance(gradient, PerRecordGradient | PenaltyGradient):
            return inner.release(mechanism, query)
        groups = len(mechanism.bounds.norms) if isinstance(mechanism, GroupedGaussianSum) else 1
        asked, tables = self._with_canaries(gradient, groups)
        if gradient is not query:
            asked = dataclasses.replace(query, phi=asked)
        released = inner.release(_widened(mechanism, gradient, groups), asked)
        size = released.shape[-1] - tables.size
        tail = released[..., size:].reshape(-1, groups, self.count + 1)[0, :, 1:].double().numpy()
        self.keep(_in_units(tail, mechanism), rate=mechanism.sampling_rate, noise=mechanism.noise_multiplier)
        return released[..., :size].contiguous()

    def _with_canaries(self, gradient: Any, groups: int) -> tuple[Any, WithCanaries]:
        """The query with canaries in it, one for each query of the loop, because a query remembers its network."""
        key = id(gradient)
        if key not in self.known or len(self.known[key][2].tables) != groups:
            if isinstance(gradient, PenaltyGradient):
                self.known[key] = gradient, *canaries.pulling_points(gradient, self.count, groups)
            else:
                self.known[key] = gradient, *canaries.pulling(gradient, self.count)
        return self.known[key][1:]


def _widened(mechanism: Any, gradient: Any, groups: int) -> Any:
    """The mechanism, whose groups of parameters have the canaries' tables too."""
    if not isinstance(mechanism, GroupedGaussianSum):
        return mechanism
    own = mechanism.bounds.groups or (0,) * len(gradient.sizes)
    return dataclasses.replace(mechanism, bounds=Bounds(mechanism.bounds.norms, (*own, *range(groups))))


def _in_units(tail: Scores, mechanism: Any) -> Scores:
    """What each canary added, as a share of the most that it may. tail: [groups, canaries]; gives [canaries]."""
    if not isinstance(mechanism, GroupedGaussianSum):
        return np.asarray(tail[0] / mechanism.max_norm)
    norms = np.array(mechanism.bounds.norms)
    squares = np.full(len(norms), 1 / len(norms)) if mechanism.weights is None else np.square(mechanism.weights)
    return np.asarray((squares / norms) @ tail)


@dataclass
class OneRecord(Watch):
    """One canary, a record of its own, in a release over all records.

    Args:
        canary: the record.
    """

    canary: Records | None = None
    lengths: list[float] = field(default_factory=list)

    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """See `Watch`."""
        assert self.canary is not None
        if not isinstance(mechanism, PoissonGaussianSum) or mechanism.sampling_rate != 1:
            raise RequestError("one record is looked for in releases over all records")
        alone = canaries.Alone(query, self.canary)
        released = inner.release(mechanism, alone)
        along, length = alone.seen(released, mechanism.max_norm)
        # Added up to s where the bound is 1: in units of s, the noise is larger by 1 / s.
        self.keep(along / length, rate=1.0, noise=mechanism.noise_multiplier / length)
        return released


@dataclass
class OneCritic(Watch):
    """One canary, whose shard turns its critic around.

    Args:
        present: whether it is among the records, as the first of them.
    """

    present: bool = False

    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """See `Watch`."""
        if not isinstance(mechanism, SanitizedRows) or mechanism.draw != "secret":
            raise RequestError("critics are audited with --draw secret: the others tell who answers.")
        released = inner.release(mechanism, canaries.TurnedCritics(query, 0 if self.present else None))
        along = released.view(mechanism.answers, mechanism.batch_size, -1)[:, :, 0].double().mean(1)
        joint = mechanism.noise_multiplier / math.sqrt(mechanism.batch_size)
        for answer in along:
            self.keep(float(answer) / (2 * mechanism.max_norm) + 0.5, rate=1 / mechanism.critics, noise=joint)
        return released


@dataclass
class OneInBothTerms(Watch):
    """One canary that adds to the sample-wise sum, and turns the gradient of its group around."""

    known: tuple[Any, Any, int] | None = None

    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """See `Watch`."""
        if not isinstance(mechanism, TermwiseGaussianSum) or mechanism.max_norm_batch == 0:
            raise RequestError("there is no batch-wise term: leave --divergence none to canaries of gradients")
        if self.known is None or self.known[0] is not query:
            phi, tables = canaries.pulling(query.phi, 1)
            joined = dataclasses.replace(query, phi=phi)
            self.known = query, canaries.TurnedGroup(joined, query.group_gradient, tables.size), tables.size
        released = inner.release(mechanism, self.known[1])
        first, second = mechanism.weights or (0.5**0.5, 0.5**0.5)
        samples = float(released[0, -1]) / mechanism.max_norm
        batches = float(released[1, -1]) / (2 * mechanism.max_norm_batch) + mechanism.partitions / 2
        self.keep(
            first**2 * samples + second**2 * batches, rate=mechanism.sampling_rate, noise=mechanism.noise_multiplier
        )
        return released[:, : -self.known[2]].contiguous()
