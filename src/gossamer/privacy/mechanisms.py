"""What may be released, each kind of release with its cost.

A mechanism holds the sampling, the clipping bound and the noise, and declares them as one `DpEvent`: they cannot drift
apart. A query computes on the drawn records and knows gradients, not privacy. The contract of every query: with the coins
of each record fixed, adding or removing a record (a unit, where the unit is a person), at any position, moves the result
by at most the declared bounds.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from dp_accounting import DpEvent
from torch import Tensor

from gossamer.errors import RequestError
from gossamer.privacy.costs import poisson_gaussian
from gossamer.privacy.noise import Rng

Held = TypeVar("Held", contravariant=True)


class Population(Protocol):
    """Records that a mechanism can sample: it sees their number and nothing else."""

    @property
    def population(self) -> int:
        """Number of units."""
        ...

    def take(self, chosen: np.ndarray, /) -> Self:
        """The records of the chosen units."""
        ...


AnyPopulation = TypeVar("AnyPopulation", bound=Population)


@dataclass(frozen=True)
class Bounds:
    """How much one record may contribute, per group of parameters.

    Args:
        norms: L2 bound of each group; infinity switches clipping off (the non-private run).
        groups: for each parameter tensor, in the order of `module.parameters()`, the number of its group. None: one group.
    """

    norms: tuple[float, ...]
    groups: tuple[int, ...] | None = None


Drawn = TypeVar("Drawn", contravariant=True)


class ClippedSum(Protocol[Drawn]):
    """A query: the sum over the drawn units of clipped gradients."""

    @property
    def dimension(self) -> int:
        """Length D of the answer."""
        ...

    def clipped_sum(self, records: Drawn, bounds: Bounds, /) -> Tensor:
        """[D]; group j of one unit's gradient adds at most bounds.norms[j] in L2."""
        ...


class Mechanism(Protocol[Held]):
    """A way out of `Confined`, with its price: what leaves is `noised(exact(held, query), query)`.

    The exact answer to a part of the records is a part of the exact answer: over disjoint parts they add up, which is what
    ranks rely on (`ranks.py`).
    """

    @property
    def rng(self) -> Rng:
        """Source of its coins and noise."""
        ...

    @property
    def event(self) -> DpEvent:
        """What one call costs."""
        ...

    def exact(self, held: Held, query: Any, /) -> Tensor:
        """Sample and ask. The answer has no noise and stays inside. Each mechanism declares the query it asks."""
        ...

    def noised(self, total: Tensor, query: Any, /) -> Tensor:
        """The exact answer with its noise; `total` is overwritten. Of the query it asks public facts only: sizes."""
        ...


class GroupedSum(ClippedSum[Drawn], Protocol[Drawn]):
    """A query whose answer is made of several parameter tensors, which can be clipped in groups."""

    @property
    def sizes(self) -> Sequence[int]:
        """Length of each tensor's part of the answer, in order; they add up to `dimension`."""
        ...


@dataclass(frozen=True, kw_only=True)
class PoissonSampled(ABC):
    """What the mechanisms over Poisson draws share: each unit is drawn by its own secret coin.

    Args:
        sampling_rate: probability with which each unit is drawn.
        noise_multiplier: standard deviation of the noise / sensitivity. Zero: the non-private run, charged as infinity.
        rng: source of the secret coins and of the noise.
    """

    sampling_rate: float
    noise_multiplier: float
    rng: Rng

    @property
    def event(self) -> DpEvent:
        """PoissonSampled(Gaussian): what one call costs."""
        return poisson_gaussian(sampling_rate=self.sampling_rate, noise_multiplier=self.noise_multiplier)

    @abstractmethod
    def exact(self, held: Any, query: Any, /) -> Tensor:
        """See `Mechanism`."""

    @abstractmethod
    def noised(self, total: Tensor, query: Any, /) -> Tensor:
        """See `Mechanism`."""

    def __call__(self, held: Any, query: Any, /) -> Tensor:
        """The whole mechanism, on records that are all here."""
        return self.noised(self.exact(held, query), query)

    def _drawn(self, held: AnyPopulation) -> AnyPopulation:
        """The units of one draw."""
        return held.take(self.rng.poisson_sample(held.population, self.sampling_rate))


@dataclass(frozen=True, kw_only=True)
class PoissonGaussianSum(PoissonSampled):
    """The subsampled Gaussian mechanism: noise is added once to the clipped sum over a Poisson draw.

    Bie et al. 2023, Algorithm 1, lines 4, 6 and 7. Add-or-remove-one: the sum moves by at most `max_norm`.

    Args:
        max_norm: L2 bound on one unit's contribution.
    """

    max_norm: float

    def exact(self, held: AnyPopulation, query: ClippedSum[AnyPopulation], /) -> Tensor:
        """Sum over the drawn units. An empty draw is an ordinary answer of zeros. [D]"""
        return query.clipped_sum(self._drawn(held), Bounds(norms=(self.max_norm,)))

    def noised(self, total: Tensor, query: object = None, /) -> Tensor:  # noqa: ARG002 (what every mechanism is asked)
        """The sum, with noise. [D]"""
        if self.noise_multiplier > 0:
            self.rng.add_gaussian_(total, self.noise_multiplier * self.max_norm)
        return total


@dataclass(frozen=True, kw_only=True)
class GroupedGaussianSum(PoissonSampled):
    """The subsampled Gaussian with a bound of its own for each of k groups of parameters.

    Zhang, Ji, Wang 2018, Algorithm 3, lines 7 to 12. All groups see the same record, so they are one release, not k parallel
    ones: group j moves by at most c_j, its noise has standard deviation noise_multiplier x c_j / w_j, and with the squares
    of w adding up to 1 the whole moves by at most 1 / noise_multiplier in units of its noise (`docs/accounting.md`, dp-GAN).

    Args:
        bounds: c_j, and the group of each parameter tensor. They may differ from call to call, if they come from public
            values; the event stays the same.
        weights: w_j, whose squares add up to 1. None: equal ones, so that the noise is noise_multiplier x sqrt(k) x c_j.
    """

    bounds: Bounds
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_weights(self.weights, len(self.bounds.norms))
        if self.noise_multiplier > 0 and any(not 0 < norm < math.inf for norm in self.bounds.norms):
            raise RequestError("every bound of a sum with noise must be a finite number above zero")

    def exact(self, held: AnyPopulation, query: GroupedSum[AnyPopulation], /) -> Tensor:
        """Sum over the drawn units. [D]"""
        return query.clipped_sum(self._drawn(held), self.bounds)

    def noised(self, total: Tensor, query: GroupedSum[Any], /) -> Tensor:
        """The sum, with noise on each group. [D]"""
        if self.noise_multiplier > 0:
            groups = self.bounds.groups or (0,) * len(query.sizes)
            for part, group in zip(total.split(list(query.sizes)), groups, strict=True):
                self.rng.add_gaussian_(part, self.noise_multiplier * self.bounds.norms[group] / self._weight(group))
        return total

    def _weight(self, group: int) -> float:
        return len(self.bounds.norms) ** -0.5 if self.weights is None else self.weights[group]


def check_weights(weights: tuple[float, ...] | None, count: int) -> None:
    """Refuse weights that would make the joint noise smaller than it is said to be."""
    if weights is None:
        return
    if (
        len(weights) != count
        or any(not 0 < weight <= 1 for weight in weights)
        or sum(w * w for w in weights) > 1 + 1e-9
    ):
        raise RequestError(f"weights must be {count} numbers above zero whose squares add up to 1")


def clipped_to(max_norm: float, *, noise_multiplier: float) -> float:
    """The bound of a release. Without noise there is no clipping: the non-private run. The one home of this rule."""
    return max_norm if noise_multiplier > 0 else math.inf
