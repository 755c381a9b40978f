"""What all mechanisms have in common, and Poisson sampling.

A mechanism holds sampling, clipping bound and noise, and declares them as one `DpEvent`. So they cannot drift apart.
It is known before a record is read. Its random numbers are given with the records, by `Confined`. No PyTorch is loaded here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
from dp_accounting import DpEvent

from gossamer.privacy.accounting.events import poisson_gaussian

if TYPE_CHECKING:
    from torch import Tensor

    from gossamer.privacy.random.noise import Rng

Value = TypeVar("Value", contravariant=True)


class Population(Protocol):
    """Records that a mechanism can sample: it sees their number and nothing else."""

    @property
    def population(self) -> int:
        """Number of units."""

    def take(self, unit_numbers: np.ndarray, /) -> Self:
        """The records of the chosen units."""


AnyPopulation = TypeVar("AnyPopulation", bound=Population)


class Mechanism(Protocol[Value]):
    """A way out of `Confined`, with its cost: what leaves is `noised(exact(held, query, rng), query, rng)`.

    All secret choices and all noise come from `rng`. Exact answers over disjoint parts of the records add up to the exact
    answer. Ranks rely on that (`distributed.py`).
    """

    @property
    def event(self) -> DpEvent:
        """What one call costs."""

    def exact(self, value: Value, query: Any, rng: "Rng", /) -> "Tensor":
        """Sample and ask. The answer has no noise and stays inside. Each mechanism declares the query it asks."""

    def noised(self, total: "Tensor", query: Any, rng: "Rng", /) -> "Tensor":
        """The exact answer with its noise; `total` is overwritten. It uses only public facts of the query: sizes."""


@dataclass(frozen=True, kw_only=True)
class PoissonSampled(ABC):
    """What the mechanisms over Poisson draws share: each unit is sampled in secret, independently of all others.

    noise_multiplier: standard deviation of the noise / sensitivity. Zero: the non-private run, charged as infinity.
    """

    sampling_rate: float
    noise_multiplier: float

    @property
    def event(self) -> DpEvent:
        """PoissonSampled(Gaussian): what one call costs."""
        return poisson_gaussian(sampling_rate=self.sampling_rate, noise_multiplier=self.noise_multiplier)

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
