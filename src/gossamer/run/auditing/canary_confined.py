"""What an auditor sees of a run: `CanaryConfined` replaces `Confined`, and inserts canaries into its queries.

Ledger, sampling, clipping and noise stay those of the run. Each `CanaryObserver` has one kind of `attacks/canaries.py`.
It keeps the projection of every noisy answer on the canary, in units of the most that a record may add.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from dp_accounting import DpEvent
from numpy.typing import NDArray
from torch import Tensor

from gossamer.attacks import canaries
from gossamer.attacks.arrays import Scores
from gossamer.attacks.canaries import WithCanaries
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.privacy.confined import Confined
from gossamer.privacy.mechanisms.banded import BandedGaussianSum
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum, PoissonGaussianSum
from gossamer.privacy.mechanisms.moves import deviations
from gossamer.privacy.mechanisms.sanitized_rows import SanitizedRows
from gossamer.privacy.mechanisms.two_term import TermwiseGaussianSum
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient
from gossamer.privacy.per_sample_gradients.penalty import PenaltyGradient
from gossamer.privacy.queries import Bounds, Mechanism
from gossamer.privacy.random.noise import Rng

T = TypeVar("T")
U = TypeVar("U")


@dataclass(kw_only=True)
class CanaryObserver(ABC):
    """What the attacker keeps of the noisy queries of one run.

    Args:
        observed: for each query, its projection on each canary: [canaries].
        rates: the declared sampling rate of each query.
        noise: the declared noise multiplier of each query.
        present: whether the canary takes part, where there is one at a time. It may change between queries.
    """

    observed: list[Scores] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    present: bool = True

    @abstractmethod
    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """Ask with canaries in the query, keep their part of the answer, and return the loop's own part."""

    def keep(self, x: Any, *, rate: float, noise: float) -> None:
        """Keep what one query showed."""
        self.observed.append(np.atleast_1d(np.asarray(x, dtype=np.float64)))
        self.rates.append(rate)
        self.noise.append(noise)

    def present_records(self, inner: Confined[Any]) -> Confined[Any]:
        """Return the records, without the canary where it does not take part."""
        return inner if self.present else inner.map(canaries.others)

    def mapped(self, fn: Callable[[Any], Any]) -> "CanaryObserver":
        """Return the observer of queries on fn(records). One that holds a record maps it too."""
        del fn
        return self


class CanaryConfined(Confined[T]):
    """A `Confined` whose queries hold canaries and are observed."""

    __slots__ = ("_inner", "_observer")

    def __init__(self, inner: Confined[T], observer: CanaryObserver) -> None:
        self._inner, self._observer = inner, observer

    def map(self, fn: Callable[[T], U]) -> "CanaryConfined[U]":
        """See `Confined.map`."""
        return CanaryConfined(self._inner.map(fn), self._observer.mapped(fn))

    def update(self, fn: Callable[[T], object]) -> None:
        """See `Confined.update`."""
        self._inner.update(fn)

    def release(self, mechanism: Mechanism[T], query: object) -> Tensor:
        """Release through the observer, which calls `Confined.release`."""
        return self._observer.release(self._inner, mechanism, query)

    def remaining(self, event: DpEvent) -> int:
        """See `Confined.remaining`."""
        return self._inner.remaining(event)


@dataclass(kw_only=True)
class GradientCanaries(CanaryObserver):
    """Many canaries in one run, each with a gradient on a weight of its own; half of them are among the records.

    Where a query has a batch-wise term too, one canary adds to the sample-wise sum, and turns the gradient of its group around.

    Args:
        count: number of canaries.
        steered: the one canary has a gradient on all weights of the network, for attackers who see only these.
        banded: the mechanism, where its noise is banded. The attacker is told the groups, which the proof allows.
    """

    count: int
    steered: bool = False
    banded: BandedGaussianSum | None = None
    cached: dict[int, tuple[Any, Any, WithCanaries]] = field(default_factory=dict)

    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """See `CanaryObserver`. A query for no gradients (a quantile) stays as it is."""
        termwise = isinstance(mechanism, TermwiseGaussianSum)
        gradient = query.phi if termwise else query
        if not isinstance(gradient, PerRecordGradient | PenaltyGradient):
            return inner.release(mechanism, query)
        groups = len(mechanism.bounds.norms) if isinstance(mechanism, GroupedGaussianSum) else 1
        canary_query, tables = self._with_canaries(gradient, groups)
        if termwise:
            canary_query = dataclasses.replace(query, phi=canary_query)
        if _has_batch_term(mechanism):
            if self.count > 1:
                raise RequestError("a batch-wise term takes one canary a run")
            canary_query = canaries.TurnedGroup(canary_query)
        released = self.present_records(inner).release(_widened(mechanism, gradient, groups), canary_query)
        size = released.shape[-1] - tables.size
        own, canary_part = released[..., :size].contiguous(), released[..., size:]
        pulls = canary_part.reshape(-1, groups, self.count + 1)[:, :, 1:]
        x = _in_units(pulls.double().numpy(), mechanism)
        self.keep(x, rate=mechanism.sampling_rate, noise=mechanism.noise_multiplier)
        self.banded = mechanism if isinstance(mechanism, BandedGaussianSum) else None
        if not self.steered:
            return own
        of_tensor = (mechanism.bounds.groups if groups > 1 else None) or (0,) * len(gradient.sizes)
        return steered(own.reshape(-1, own.shape[-1]), pulls[:, :, 0], gradient.sizes, of_tensor).view_as(own)

    @property
    def members(self) -> NDArray[np.bool_]:
        """Which canaries are among the records: the first half. After cycles of banded noise, those of the first group."""
        there = np.arange(1, self.count // 2 + 1) if self.banded is None else self.banded.next_group.marks
        return np.isin(np.arange(1, self.count + 1), there)

    def _with_canaries(self, gradient: Any, groups: int) -> tuple[Any, WithCanaries]:
        """Return the query with canaries, one for each query of the loop, because a query remembers its network."""
        key = id(gradient)
        if key not in self.cached or len(self.cached[key][2].tables) != groups:
            if isinstance(gradient, PenaltyGradient):
                self.cached[key] = gradient, *canaries.pulling_points(gradient, self.count, groups)
            else:
                self.cached[key] = gradient, *canaries.pulling(gradient, self.count)
        return self.cached[key][1:]


def steered(own: Tensor, pulls: Tensor, sizes: Sequence[int], of_tensor: Sequence[int]) -> Tensor:
    """Return the answer with the canary's gradient in one direction of the network, in place of a weight beside it.

    In each group of tensors, the projection on one fixed direction u becomes that of the canary's weight. This is the answer to
    a canary with clipped gradient C u, where no other record has a part along u. Noise is alike in all directions.

    Args:
        own: [rows, D], the loop's part of the answer.
        pulls: [rows, groups], the canary's.
        sizes: of the tensors, which add up to D.
        of_tensor: the group of each tensor.
    """
    member = torch.repeat_interleave(torch.tensor(list(of_tensor)), torch.tensor(list(sizes)))
    signs = torch.randint(2, (own.shape[1],), generator=torch.Generator().manual_seed(0)).to(own) * 2 - 1
    release = own.clone()
    for group in range(pulls.shape[1]):
        here = torch.where(member == group, signs, 0)
        u = here / here.norm()
        release += (pulls[:, group] - own @ u)[:, None] * u
    return release


def _widened(mechanism: Any, gradient: Any, groups: int) -> Any:
    """Return the mechanism with the canaries' tables in its groups of parameters."""
    if not isinstance(mechanism, GroupedGaussianSum):
        return mechanism
    own = mechanism.bounds.groups or (0,) * len(gradient.sizes)
    return dataclasses.replace(mechanism, bounds=Bounds(mechanism.bounds.norms, (*own, *range(groups))))


def _has_batch_term(mechanism: Any) -> bool:
    return isinstance(mechanism, TermwiseGaussianSum) and mechanism.max_norm_batch > 0


def _in_units(tail: Scores, mechanism: Any) -> Scores:
    """Return what each canary added, as a share of the most that it may. tail: [rows, groups, canaries]; result: [canaries]."""
    if _has_batch_term(mechanism):
        first, second = mechanism.weights or (0.5**0.5, 0.5**0.5)
        batches = tail[1, 0] / (2 * mechanism.max_norm_batch) + mechanism.partitions / 2
        return np.asarray(first**2 * tail[0, 0] / mechanism.max_norm + second**2 * batches)
    if not isinstance(mechanism, GroupedGaussianSum):
        return np.asarray(tail[0, 0] / mechanism.max_norm)
    norms = np.array(mechanism.bounds.norms)
    squares = np.full(len(norms), 1 / len(norms)) if mechanism.weights is None else np.square(mechanism.weights)
    return np.asarray((squares / norms) @ tail[0])


@dataclass(kw_only=True)
class RecordCanary(CanaryObserver):
    """One canary, a record of its own, in a query over all records."""

    canary: Records

    def mapped(self, fn: Callable[[Any], Any]) -> "RecordCanary":
        """Return an observer with fn(canary). What it keeps goes to the same lists; who takes part is that of now."""
        return dataclasses.replace(self, canary=fn(self.canary))

    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """See `CanaryObserver`."""
        if not isinstance(mechanism, PoissonGaussianSum) or mechanism.sampling_rate != 1:
            raise RequestError("one record is looked for in releases over all records")
        wrapped_query = canaries.Alone(query, self.canary)
        released = self.present_records(inner).release(mechanism, wrapped_query)
        projection, length = wrapped_query.seen(released, mechanism.max_norm)
        # Added up to s where the bound is 1: in units of s, the noise is larger by 1 / s.
        self.keep(projection / length, rate=1.0, noise=mechanism.noise_multiplier / length)
        return released


@dataclass(kw_only=True)
class RowCanary(CanaryObserver):
    """One canary, the last unit of a table or of linked tables, in queries over all rows. They need not be sums over rows.

    The attacker has the other rows, so they compute each answer with the canary and without it. They keep the likelihood ratio
    of the two, in units of the noise: x for which `attacks.audit.log_likelihood_ratio` gives it. Where the canary
    moves an answer by all that it may, x is 1 with it and 0 without, plus the noise.

    Args:
        rows: with the canary.
        others: without it.
    """

    rows: Any
    others: Any

    def mapped(self, fn: Callable[[Any], Any]) -> "RowCanary":
        """Return an observer of a part of the rows. What it keeps goes to the same lists."""
        return dataclasses.replace(self, rows=fn(self.rows), others=fn(self.others))

    def present_records(self, inner: Confined[Any]) -> Confined[Any]:
        """Return the rows, without the canary where it does not take part."""
        return inner if self.present else inner.map(lambda _: self.others)

    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """See `CanaryObserver`."""
        if not isinstance(mechanism, PoissonGaussianSum | GroupedGaussianSum) or mechanism.sampling_rate != 1:
            raise RequestError("a row of a table is looked for in releases over all rows")
        released = self.present_records(inner).release(mechanism, query)
        rng = Rng()  # unused: all rows are asked, and no noise is added
        without = mechanism.exact(self.others, query, rng)
        each = deviations(mechanism, query, without)
        added, seen = (mechanism.exact(self.rows, query, rng) - without) / each, (released - without) / each
        log_ratio = float(seen @ added - added @ added / 2)
        self.keep(0.5 + mechanism.noise_multiplier**2 * log_ratio, rate=1.0, noise=mechanism.noise_multiplier)
        return released


@dataclass(kw_only=True)
class CriticCanary(CanaryObserver):
    """One canary, the last record, whose shard turns its critic around.

    With the secret draw the attacker does not know which critic answers. With the other draws it is public, and the
    attacker knows the canary's critic. Answers of other critics show nothing, and are kept as 1/2.
    """

    def release(self, inner: Confined[Any], mechanism: Any, query: Any) -> Tensor:
        """See `CanaryObserver`. With round_robin, only the answers of the canary's own critic are kept: one per pass."""
        if not isinstance(mechanism, SanitizedRows):
            raise RequestError("there are no critics here that one record could turn around")
        turned = canaries.TurnedCritics(query, -1, present=self.present)
        released = inner.release(mechanism, turned)
        projections = released.view(mechanism.answers, mechanism.batch_size, -1)[:, :, 0].double().mean(1)
        joint = mechanism.noise_multiplier / math.sqrt(mechanism.batch_size)
        rate = 1.0 if mechanism.draw == "round_robin" else 1 / mechanism.critics
        for answer, own in zip(projections, turned.own, strict=True):
            if mechanism.draw == "secret" or own:
                self.keep(float(answer) / (2 * mechanism.max_norm) + 0.5, rate=rate, noise=joint)
            elif mechanism.draw == "paper":
                self.keep(0.5, rate=rate, noise=joint)
        return released
