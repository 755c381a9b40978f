"""The score of a run: the share of records that a model gets right, which learns from samples alone. One noisy query.

A unit adds the share of its records that are right to one sum, and the share that is wrong to another. So it moves both
together by at most 1 in L2. The accuracy is the first of the two by their sum. Its interval covers noise and sampling
(`figures.noisy_share`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gossamer.lazy import torch
from gossamer.methods.common.declared import once
from gossamer.methods.contract import Query

if TYPE_CHECKING:
    from torch import Tensor

Plan: TypeAlias = Sequence[tuple[Any, int]]
"""What may be released, and how often."""
SCORE = "score"
"""The name of the query, and of its entry in config.json."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score that a run asks for. Pure: known before a record is read.

    Args:
        noise_multiplier: standard deviation of the noise on both sums. 0: no noise.
        judge: what answers for the samples, in words; see `Kind.judge`.
    """

    noise_multiplier: float
    judge: str

    @property
    def query(self) -> Query:
        """The noisy query, which is asked once."""
        return once(SCORE, self.noise_multiplier)


@dataclass(frozen=True)
class Facts:
    """A query: units by the share of their records of which a fact is true, for each of some facts.

    Args:
        are_true: from records to bool [n, facts]. What it says of one record depends on no other.
        most: of how many facts a record can be true at once. What a unit adds is divided by the root.
        dimension: the number of facts.
        of: from what a run reads to the records that it is about, each of the same unit.
    """

    are_true: Callable[[Any], np.ndarray]
    most: int
    dimension: int
    of: Callable[[Any], Any] = lambda records: records

    def clipped_sum(self, records: Any, bounds: Any, /) -> "Tensor":
        """float64 [facts]; what one unit adds is at most 1 long, and at most bounds.norms[0]."""
        records = self.of(records)
        if len(records) == 0:
            return torch.zeros(self.dimension, dtype=torch.float64)
        true = self.are_true(records).astype(np.float64)
        if records.units is not None:
            owners = np.unique(records.units, return_inverse=True)[1]
            true = np.stack([np.bincount(owners, each) / np.bincount(owners) for each in true.T], axis=1)
        return torch.from_numpy(true.sum(0)).mul_(min(bounds.norms[0], 1.0) / math.sqrt(self.most))


def right_and_wrong(is_right: Callable[[Any], np.ndarray], of: Callable[[Any], Any] = lambda records: records) -> Facts:
    """The query of a score. is_right: from records to bool [n], as `Kind.is_right` gives it. of: see `Facts`."""

    def are_true(records: Any) -> np.ndarray:
        right = is_right(records)
        return np.stack([right, ~right], axis=1)

    return Facts(are_true, most=1, dimension=2, of=of)
