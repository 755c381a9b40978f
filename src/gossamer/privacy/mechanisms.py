"""What may be released, each kind of release with its cost.

A mechanism holds the sampling, the clipping bound and the noise, and declares them as one `DpEvent`: they cannot drift
apart. A query computes on the drawn records and knows gradients, not privacy. The contract of every query: with the coins
of each record fixed, adding or removing a record (a unit, where the unit is a person), at any position, moves the result
by at most the declared bounds.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import dp_accounting
import numpy as np
from dp_accounting import DpEvent
from torch import Tensor

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


Records = TypeVar("Records", bound=Population)


@dataclass(frozen=True)
class Bounds:
    """How much one record may contribute, per group of parameters.

    Args:
        norms: L2 bound of each group; infinity switches clipping off (the non-private twin).
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
    """A way out of `Confined`, with its price."""

    @property
    def rng(self) -> Rng:
        """Source of its coins and noise."""
        ...

    @property
    def event(self) -> DpEvent:
        """What one call costs."""
        ...

    def __call__(self, held: Held, query: Any, /) -> Tensor:
        """Sample, ask, add noise. Each mechanism declares the query it asks."""
        ...


@dataclass(frozen=True, kw_only=True)
class PoissonGaussianSum:
    """The subsampled Gaussian mechanism: each unit is drawn by its own secret coin, the clipped sum is noised once.

    Bie et al. 2023, Algorithm 1, lines 4, 6 and 7. Add-or-remove-one: the sum moves by at most `max_norm`.

    Args:
        sampling_rate: probability with which each unit is drawn.
        max_norm: L2 bound on one unit's contribution.
        noise_multiplier: standard deviation of the noise / max_norm. Zero: the non-private twin, charged as infinity.
        rng: source of the secret coins and of the noise.
    """

    sampling_rate: float
    max_norm: float
    noise_multiplier: float
    rng: Rng

    @property
    def event(self) -> DpEvent:
        """PoissonSampled(Gaussian): what one call costs."""
        return poisson_gaussian(sampling_rate=self.sampling_rate, noise_multiplier=self.noise_multiplier)

    def __call__(self, held: Records, query: ClippedSum[Records], /) -> Tensor:
        """Sum over the drawn units, noised. [D]"""
        total = self._ask(held, query)
        if self.noise_multiplier > 0:
            self.rng.add_gaussian_(total, self.noise_multiplier * self.max_norm)
        return total

    def _ask(self, held: Records, query: ClippedSum[Records]) -> Tensor:
        """The exact answer, before noise. An empty draw is an ordinary answer of zeros."""
        chosen = self.rng.poisson_sample(held.population, self.sampling_rate)
        return query.clipped_sum(held.take(chosen), Bounds(norms=(self.max_norm,)))


def poisson_gaussian(*, sampling_rate: float, noise_multiplier: float) -> DpEvent:
    """The event of one `PoissonGaussianSum`: what its call charges, and what a plan reserves."""
    return dp_accounting.PoissonSampledDpEvent(sampling_rate, dp_accounting.GaussianDpEvent(noise_multiplier))
