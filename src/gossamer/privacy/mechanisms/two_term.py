"""Mechanisms for losses that are no sum over records: PriVAE's two terms, and a whole answer clipped at once.

A batch-wise term (a divergence between the codes of a group of records and a prior) has one gradient per group. Clipped to C2,
it can move from any point of a ball of radius C2 to any other with one record more. So its sensitivity is the diameter, 2 C2.
Takahashi et al. 2020 take C2 (Lemma 2), which holds for sums of clipped vectors only.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.privacy.mechanisms.gaussian import PoissonSampled, check_weights
from gossamer.privacy.queries import AnyPopulation, Bounds, ClippedSum, Value

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gossamer.privacy.per_sample_gradients import rounding
    from gossamer.privacy.random.noise import Rng
else:
    torch, rounding = Lazy("torch"), Lazy("gossamer.privacy.per_sample_gradients.rounding")


class TwoTermSum(ClippedSum[Value], Protocol[Value]):
    """A query with a sample-wise term, clipped unit by unit, and a batch-wise term, asked group by group."""

    def group_gradient(self, records: Value, /) -> "Tensor":
        """[D], the gradient of the batch-wise term on one group of at least one unit. Any size: the mechanism clips it."""


class WholeAnswer(Protocol[Value]):
    """A query of which only the answer is known."""

    def whole(self, records: Value, /) -> "Tensor":
        """[D], of any size: the mechanism clips it."""


@dataclass(frozen=True, kw_only=True)
class TermwiseGaussianSum(PoissonSampled):
    """One Poisson draw, two sums, one Gaussian. Takahashi et al. 2020, Algorithm 1, with the sensitivity corrected.

    Add-or-remove-one: the sample-wise sum moves by at most C1. Each sampled unit goes to one of b groups, at random, in secret
    and independently. So one unit changes one group, and the batch-wise sum moves by at most 2 C2. The noise has standard
    deviation noise_multiplier x C1 / w1 on the first sum and noise_multiplier x 2 C2 / w2 on the second, w1^2 + w2^2 = 1. So
    the pair moves by at most 1 / noise_multiplier in units of its noise.

    Args:
        max_norm: C1, the L2 bound on one unit's sample-wise gradient.
        max_norm_batch: C2, the L2 bound on one group's gradient. Zero: no batch-wise term, and w1 is 1.
        partitions: b, the number of groups. weights: (w1, w2). None: equal ones.
    """

    max_norm: float
    max_norm_batch: float
    partitions: int
    weights: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_weights(self.weights, 2)
        if self.partitions < 1:
            raise RequestError(f"partitions must be at least 1, not {self.partitions}")
        if not (self.max_norm > 0 and self.max_norm_batch >= 0):
            raise RequestError("max_norm must be above zero and max_norm_batch zero or more")
        if self.noise_multiplier > 0 and not (self.max_norm < math.inf and self.max_norm_batch < math.inf):
            raise RequestError("every bound of a sum with noise must be a finite number")

    @property
    def deviations(self) -> tuple[float, float]:
        """Standard deviation of the noise on the sample-wise and on the batch-wise sum."""
        if self.noise_multiplier == 0:
            return 0.0, 0.0
        if self.max_norm_batch == 0:
            return self.noise_multiplier * self.max_norm, 0.0
        first, second = self.weights or (0.5**0.5, 0.5**0.5)
        sensitivity = 2 * self.max_norm_batch
        return self.noise_multiplier * self.max_norm / first, self.noise_multiplier * sensitivity / second

    def noised(self, total: "Tensor", query: object, rng: "Rng", /) -> "Tensor":  # noqa: ARG002 (what every mechanism is asked)
        """The two sums, each with noise. [2, D]"""
        for part, deviation in zip(total, self.deviations, strict=True):
            if deviation > 0:
                rng.add_gaussian_(part, deviation)
        return total

    def exact(self, records: AnyPopulation, query: TwoTermSum[AnyPopulation], rng: "Rng", /) -> "Tensor":
        """The sample-wise sum and the batch-wise sum. [2, D]"""
        drawn = self._drawn(records, rng)
        samples = query.clipped_sum(drawn, Bounds(norms=(self.max_norm,)))
        batches = torch.zeros_like(samples)
        if self.max_norm_batch > 0:
            coins = rng.integers(drawn.population, self.partitions)
            for group in np.unique(coins):
                members = drawn.take(np.flatnonzero(coins == group))
                batches += clip_whole(query.group_gradient(members), self.max_norm_batch)
        return torch.stack([samples, batches])


@dataclass(frozen=True, kw_only=True)
class WholeGaussian(PoissonSampled):
    """The answer to one Poisson draw, clipped as a whole. For answers to which a record contributes in unknown ways.

    Whatever the query does, its clipped answer lies in a ball of radius `max_norm`. So one unit moves it by at most
    2 max_norm. The noise has standard deviation noise_multiplier x 2 max_norm.
    """

    max_norm: float

    def __post_init__(self) -> None:
        if not self.max_norm > 0 or (self.noise_multiplier > 0 and math.isinf(self.max_norm)):
            raise RequestError("max_norm must be above zero, and finite where there is noise")

    def noised(self, total: "Tensor", query: object, rng: "Rng", /) -> "Tensor":  # noqa: ARG002 (what every mechanism is asked)
        """The clipped answer, with noise. [D]"""
        if self.noise_multiplier > 0:
            rng.add_gaussian_(total, self.noise_multiplier * 2 * self.max_norm)
        return total

    def exact(self, records: AnyPopulation, query: WholeAnswer[AnyPopulation], rng: "Rng", /) -> "Tensor":
        """The clipped answer. [D]"""
        return clip_whole(query.whole(self._drawn(records, rng)), self.max_norm)


def clip_whole(vector: "Tensor", max_norm: float) -> "Tensor":
    """The vector, shortened to at most max_norm in L2; zero if it is not finite. [D]"""
    return rounding.shortened(vector[None], max_norm)[0]
