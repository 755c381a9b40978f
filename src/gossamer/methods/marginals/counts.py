"""What is asked of a table: counts of cliques, and how far a model is from them. Both sensitivities are proved here.

A unit with m rows gives each row the weight K/m, or 1 where it has at most K rows. K is `max_rows` of the card, so the table
of a clique has at most K of each unit. Weights are multiples of 2^-20, rounded down. Their sums are exact in float64, in any
order, up to 2^32 rows. So no unit changes how the counts of another unit are rounded. Noise is added to sums that are exact.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gossamer.data.tables.table import Table
from gossamer.methods.marginals.tree import Clique
from gossamer.privacy.queries import Bounds

GRID = 2**20
"""Weights and expected counts are multiples of 1 / GRID. A unit with more than K x GRID rows has no weight."""


@dataclass(frozen=True)
class Counts:
    """The query: the tables of some cliques, counted in merged values.

    Sensitivity: the weights of a unit's rows add up to at most K, and each row is in one cell of each table. So a unit moves
    each table by at most K in L1, hence in L2. Each table is a group with the bound K.

    Args:
        maps: int64 [values of the column] for each column, public or released: the merged value of each code.
        cliques: whose tables are counted.
        max_rows: K, public.
    """

    maps: Sequence[Tensor]
    cliques: Sequence[Clique]
    max_rows: int = 1

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of each table."""
        sizes = [int(each.max()) + 1 for each in self.maps]
        return [tuple(sizes[column] for column in clique) for clique in self.cliques]

    @property
    def sizes(self) -> list[int]:
        """Number of cells of each table."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def dimension(self) -> int:
        """Number of cells of all tables."""
        return sum(self.sizes)

    def clipped_sum(self, rows: Table, bounds: Bounds, /) -> Tensor:
        """[dimension] float64, multiples of 1 / GRID. Each table moves by at most K.

        Raises:
            ValueError: a bound below K. Bounds are public.
        """
        if min(bounds.norms) < self.max_rows:
            raise ValueError(f"a unit moves a table of counts by up to {self.max_rows}, not {min(bounds.norms):g}")
        return torch.cat([torch.zeros(0, dtype=torch.float64), *_counted(rows, self)]) / GRID

    def tables(self, answer: Tensor) -> list[Tensor]:
        """The tables of an answer, each with the shape of its clique."""
        parts = answer.split(self.sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


@dataclass(frozen=True)
class Errors:
    """The query: the L1 distance between each candidate's counts and what a model expects.

    Sensitivity: a unit moves a candidate's table by at most K in L1, see `Counts`. By the triangle inequality it moves the
    distance by at most K. The vector of k distances moves by at most K sqrt(k) in L2.

    The answer is no sum over units: only one process may ask.

    Args:
        counts: the candidates.
        expected: counts of each candidate by the model, float64, from released values; rounded to the grid.
    """

    counts: Counts
    expected: Sequence[Tensor]

    @property
    def dimension(self) -> int:
        """k, the number of candidates."""
        return len(self.counts.cliques)

    @property
    def bound(self) -> float:
        """How far a unit moves the answer in L2, at most: K sqrt(k), or K where there is no candidate."""
        return self.counts.max_rows * math.sqrt(max(1, self.dimension))

    def clipped_sum(self, rows: Table, bounds: Bounds, /) -> Tensor:
        """[k] float64, multiples of 1 / GRID: exact sums of whole numbers below 2^53.

        Raises:
            ValueError: a bound below `bound`. Bounds are public.
        """
        if bounds.norms[0] < self.bound:
            raise ValueError(f"a unit moves {self.dimension} errors by up to {self.bound:g}, not {bounds.norms[0]:g}")
        errors = torch.zeros(self.dimension, dtype=torch.float64)
        for k, (counted, model) in enumerate(zip(_counted(rows, self.counts), self.expected, strict=True)):
            errors[k] = (counted - (model.flatten() * GRID).round()).abs().sum() / GRID
        return errors


def _counted(rows: Table, query: Counts) -> Iterator[Tensor]:
    """The flat table of each clique in steps of the grid: whole numbers, as float64."""
    weights = row_weights(rows.units, query.max_rows)
    merged = {
        column: query.maps[column].int().numpy()[np.clip(rows.codes[:, column], 0, len(query.maps[column]) - 1)]
        for column in {column for clique in query.cliques for column in clique}
    }
    for clique, shape in zip(query.cliques, query.shapes, strict=True):
        cells = np.ravel_multi_index([merged[column] for column in clique], shape)
        if weights is None:
            counted: np.ndarray = np.bincount(cells, minlength=math.prod(shape)).astype(np.float64) * GRID
        else:
            counted = np.bincount(cells, weights, minlength=math.prod(shape))
        yield torch.from_numpy(counted)


def row_weights(units: np.ndarray | None, max_rows: int) -> np.ndarray | None:
    """min(1, max_rows / m) for each row of a unit with m rows, in steps of the grid and rounded down, float64 [N].

    None: every row is its own unit, and weighs 1.
    """
    if units is None:
        return None
    _, own, counts = np.unique(units, return_inverse=True, return_counts=True)
    weights: np.ndarray = np.minimum(GRID, GRID * max_rows // counts)[own.reshape(-1)].astype(np.float64)
    return weights
