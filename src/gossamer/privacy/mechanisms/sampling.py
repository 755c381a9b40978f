"""What all mechanisms have in common, and how those over Poisson draws sample: each unit by its own secret coin.

A mechanism holds the sampling, the clipping bound and the noise, and declares them as one `DpEvent`: they cannot drift
apart. Queries (`queries.py`) know nothing of them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from dp_accounting import DpEvent
from torch import Tensor

from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.random.noise import Rng

Value = TypeVar("Value", contravariant=True)


class Population(Protocol):
    """Records that a mechanism can sample: it sees their number and nothing else."""

    @property
    def population(self) -> int:
        """Number of units."""
        ...

    def take(self, unit_numbers: np.ndarray, /) -> Self:
        """The records of the chosen units."""
        ...


AnyPopulation = TypeVar("AnyPopulation", bound=Population)


class Mechanism(Protocol[Value]):
    """A way out of `Confined`, with its price: what leaves is `noised(exact(held, query), query)`.

    The exact answer to a part of the records is a part of the exact answer: over disjoint parts they add up, which is what
    ranks rely on (`distributed.py`).
    """

    @property
    def rng(self) -> Rng:
        """Source of its coins and noise."""
        ...

    @property
    def event(self) -> DpEvent:
        """What one call costs."""
        ...

    def exact(self, value: Value, query: Any, /) -> Tensor:
        """Sample and ask. The answer has no noise and stays inside. Each mechanism declares the query it asks."""
        ...

    def noised(self, total: Tensor, query: Any, /) -> Tensor:
        """The exact answer with its noise; `total` is overwritten. Of the query it asks public facts only: sizes."""
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
    def exact(self, records: Any, query: Any, /) -> Tensor:
        """See `Mechanism`."""

    @abstractmethod
    def noised(self, total: Tensor, query: Any, /) -> Tensor:
        """See `Mechanism`."""

    def __call__(self, records: Any, query: Any, /) -> Tensor:
        """The whole mechanism, on records that are all here."""
        return self.noised(self.exact(records, query), query)

    def _drawn(self, records: AnyPopulation) -> AnyPopulation:
        """The units of one draw."""
        return records.take(self.rng.poisson_sample(records.population, self.sampling_rate))
