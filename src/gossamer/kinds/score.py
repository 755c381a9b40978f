"""The score of a run: what a model gets right that learns from samples alone, and which counts samples have. One noisy query.

A record is right or wrong, and in a cell of each column that is compared. Each of these facts has a weight, so that a record
moves all sums together by at most 1 in L2. A unit adds the mean of its records. What the sums mean: `figures.score`.
"""

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
_AT_MOST = 1 + 1e-12
"""Squares of weights add up to 1 but for rounding."""
SCORE = "score"
"""The name of the query, and of its entry in config.json."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score that a run asks for. Pure: known before a record is read.

    Args:
        noise_multiplier: standard deviation of the noise on both sums. 0: no noise.
        judge: what answers for the samples, in words; empty: nothing does.
        categories: columns of a table whose frequent values are counted.
        numbers: columns whose quartiles are.
    """

    noise_multiplier: float
    judge: str
    categories: int = 0
    numbers: int = 0

    @property
    def query(self) -> Query:
        """The noisy query, which is asked once."""
        return once(SCORE, self.noise_multiplier)


@dataclass(frozen=True)
class Facts:
    """A query: units by the share of their records of which a fact is true, for each of some facts.

    Args:
        are_true: from records to bool [n, facts]. What it says of one record depends on no other.
        weights: of each fact. The squares for what is true of a record add up to 1 at most: a record with more counts as none.
        of: from what a run reads to the records that it is about, each of the same unit.
    """

    are_true: Callable[[Any], np.ndarray]
    weights: Sequence[float]
    of: Callable[[Any], Any] = lambda records: records

    @property
    def dimension(self) -> int:
        """The number of facts."""
        return len(self.weights)

    def clipped_sum(self, records: Any, bounds: Any, /) -> "Tensor":
        """float64 [facts]; what one unit adds is at most 1 long, and at most bounds.norms[0]."""
        records = self.of(records)
        if len(records) == 0:
            return torch.zeros(self.dimension, dtype=torch.float64)
        true = self.are_true(records)
        true[np.einsum("nf,f", true, np.square(self.weights)) > _AT_MOST] = False
        if records.units is not None:
            owners = np.unique(records.units, return_inverse=True)[1]
            true = np.stack([np.bincount(owners, each) / np.bincount(owners) for each in true.T], axis=1)
        return torch.from_numpy(true.sum(0) * np.array(self.weights)).mul_(min(bounds.norms[0], 1.0))


def right_and_wrong(is_right: Callable[[Any], np.ndarray]) -> Callable[[Any], np.ndarray]:
    """The facts of a judge. is_right: from records to bool [n]."""
    return lambda records: np.stack([right := is_right(records), ~right], axis=1)


def cells_of(samples: np.ndarray, size: int, in_order: int, cells: int) -> np.ndarray:
    """The cell of each code of a column, from 0: quarters of the samples in order, or the most frequent values and the rest.

    Args:
        samples: codes [N].
        size: the number of codes.
        in_order: how many of the first codes follow an order. The others are behind them.
        cells: how many there are.
    """
    counts = np.bincount(samples, minlength=size)
    if in_order:
        return np.asarray((cells * (np.cumsum(counts) - counts / 2) / len(samples)).astype(int).clip(0, cells - 1))
    return np.argsort(np.argsort(-counts, kind="stable")).clip(max=cells - 1)
