"""A private quantile of gradient norms, which clipping bounds follow.

Andrew, Thakkar, McMahan, Ramaswamy 2021, "Differentially Private Learning with Adaptive Clipping", Algorithm 1. Each sampled
unit votes whether its norm is below the bound, and the share of these votes is released with noise. The bound moves
geometrically until the share is the wanted quantile.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from gossamer.privacy.per_sample_gradients.gradients import AnyBatch, Gradients
from gossamer.privacy.queries import Bounds

RAMP = 1e-3
"""Share of the bound: this close to it, a vote is fractional. So the last bits of a norm move a vote by little."""


@dataclass(frozen=True)
class SharesBelow(Generic[AnyBatch]):
    """The query: for each of k groups, the number of sampled units with a norm at or below its threshold, minus half of them.

    A unit adds +1/2 or -1/2 to each of the k numbers, or less where its norm is within `RAMP` of the threshold. That is at most
    `sqrt(k) / 2` in L2, and a tighter bound of the mechanism scales it. A norm that is not a number counts as above.
    groups: the group of each parameter tensor.
    """

    gradients: Gradients[AnyBatch]
    thresholds: tuple[float, ...]
    groups: Sequence[int]

    @property
    def dimension(self) -> int:
        """k."""
        return len(self.thresholds)

    @property
    def sensitivity(self) -> float:
        """What one unit adds, in L2: the max_norm to ask with."""
        return math.sqrt(self.dimension) / 2

    def clipped_sum(self, records: AnyBatch, bounds: Bounds, /) -> Tensor:
        """[k]"""
        self.gradients.inspect(records)
        thresholds = torch.tensor(self.thresholds)
        beyond = (self.gradients.norms(records, self.groups) - thresholds) / (RAMP * thresholds).clamp_min(1e-30)
        votes = (-beyond).nan_to_num(-0.5).clamp(-0.5, 0.5)
        return votes.sum(0) * min(1.0, bounds.norms[0] / self.sensitivity)


def moved(
    thresholds: Sequence[float], answer: Tensor, *, expected_batch_size: int, quantile: float, rate: float
) -> tuple[float, ...]:
    """The bounds after one released answer, [k]: each times exp(-rate (share below - quantile)). Line 11 of the algorithm."""
    shares = (answer.double() / expected_batch_size + 0.5).tolist()  # never by the sampled number
    return tuple(bound * math.exp(-rate * (share - quantile)) for bound, share in zip(thresholds, shares, strict=True))
