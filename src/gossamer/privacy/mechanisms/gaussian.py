"""Poisson draws, and Gaussian noise on their clipped sums: one sum, or groups of parameters with a bound each."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dp_accounting import DpEvent

from gossamer.errors import RequestError
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.queries import AnyPopulation, Bounds, ClippedSum, GroupedSum

if TYPE_CHECKING:
    from torch import Tensor

    from gossamer.privacy.random.noise import Rng


@dataclass(frozen=True, kw_only=True)
class PoissonSampled(ABC):
    """What the mechanisms over Poisson draws share: each unit is sampled in secret, independently of all others.

    noise_multiplier: standard deviation of the noise / sensitivity. Zero: the non-private run, charged as infinity.
    """

    sampling_rate: float
    noise_multiplier: float

    @cached_property
    def event(self) -> DpEvent:
        """PoissonSampled(Gaussian): what one call costs."""
        return poisson_gaussian(sampling_rate=self.sampling_rate, noise_multiplier=self.noise_multiplier)

    def left(self, remaining: Callable[[DpEvent], int]) -> int:
        """How many more calls a plan holds. remaining: how many charges of an event it has left."""
        return remaining(self.event)

    @abstractmethod
    def exact(self, records: Any, query: Any, rng: "Rng", /) -> "Tensor": ...
    @abstractmethod
    def noised(self, total: "Tensor", query: Any, rng: "Rng", /) -> "Tensor": ...

    def __call__(self, records: Any, query: Any, rng: "Rng", /) -> "Tensor":
        """The whole mechanism, on records that are all here."""
        return self.noised(self.exact(records, query, rng), query, rng)

    def _drawn(self, records: AnyPopulation, rng: "Rng") -> AnyPopulation:
        """The units of one draw."""
        return records.take(rng.poisson_sample(records.population, self.sampling_rate))


@dataclass(frozen=True, kw_only=True)
class PoissonGaussianSum(PoissonSampled):
    """The subsampled Gaussian mechanism: noise is added once to the clipped sum over a Poisson draw.

    Bie et al. 2023, Algorithm 1, lines 4, 6 and 7. Add-or-remove-one: the sum moves by at most `max_norm`.

    Args:
        max_norm: L2 bound on one unit's contribution.
    """

    max_norm: float

    def exact(self, records: AnyPopulation, query: ClippedSum[AnyPopulation], rng: "Rng", /) -> "Tensor":
        """Sum over the drawn units. An empty draw is an ordinary answer of zeros. [D]"""
        return query.clipped_sum(self._drawn(records, rng), Bounds(norms=(self.max_norm,)))

    def noised(self, total: "Tensor", query: object, rng: "Rng", /) -> "Tensor":
        """The sum, with noise. [D]"""
        del query  # which every mechanism is given
        if self.noise_multiplier > 0:
            rng.add_gaussian_(total, self.noise_multiplier * self.max_norm)
        return total


@dataclass(frozen=True, kw_only=True)
class GroupedGaussianSum(PoissonSampled):
    """The subsampled Gaussian with a bound of its own for each of k groups of parameters.

    Zhang, Ji, Wang 2018, Algorithm 3, lines 7 to 12. All groups see the same record, so they are one release, not k parallel
    ones. Group j moves by at most c_j, and its noise has standard deviation noise_multiplier x c_j / w_j. So the whole moves by
    at most 1 / noise_multiplier in units of its noise (`docs/accounting.md`, dp-GAN).

    Args:
        bounds: c_j, from public values, and the group of each parameter tensor. They may differ from call to call.
        weights: w_j, whose squares add up to 1. None: equal ones, so that the noise is noise_multiplier x sqrt(k) x c_j.
    """

    bounds: Bounds
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_weights(self.weights, len(self.bounds.norms))
        if self.noise_multiplier > 0 and any(not 0 < norm < math.inf for norm in self.bounds.norms):
            raise RequestError("every bound of a sum with noise must be a finite number above zero")

    def exact(self, records: AnyPopulation, query: GroupedSum[AnyPopulation], rng: "Rng", /) -> "Tensor":
        """Sum over the drawn units. [D]"""
        return query.clipped_sum(self._drawn(records, rng), self.bounds)

    def noised(self, total: "Tensor", query: GroupedSum[Any], rng: "Rng", /) -> "Tensor":
        """The sum, with noise on each group. [D]"""
        if self.noise_multiplier > 0:
            groups = self.bounds.groups or (0,) * len(query.sizes)
            for part, group in zip(total.split(list(query.sizes)), groups, strict=True):
                rng.add_gaussian_(part, self.noise_multiplier * self.bounds.norms[group] / self._weight(group))
        return total

    def _weight(self, group: int) -> float:
        return len(self.bounds.norms) ** -0.5 if self.weights is None else self.weights[group]


def clipping_sum(*, sampling_rate: float, max_norm: float, noise_multiplier: float) -> PoissonGaussianSum:
    """A sum that is clipped to `max_norm`; without noise it is not, see `clipped_to`."""
    bound = clipped_to(max_norm, noise_multiplier=noise_multiplier)
    return PoissonGaussianSum(sampling_rate=sampling_rate, max_norm=bound, noise_multiplier=noise_multiplier)


def check_weights(weights: tuple[float, ...] | None, count: int) -> None:
    """Refuse weights that would make the joint noise smaller than it is said to be."""
    if weights is None:
        return
    fitting = len(weights) == count and all(0 < weight <= 1 for weight in weights)
    if not fitting or sum(w * w for w in weights) > 1 + 1e-9:
        raise RequestError(f"weights must be {count} numbers above zero whose squares add up to 1")


def clipped_to(max_norm: float, *, noise_multiplier: float) -> float:
    """The bound of a release. Without noise there is no clipping: the non-private run. All mechanisms use it."""
    return max_norm if noise_multiplier > 0 else math.inf
