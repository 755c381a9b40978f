"""What is asked of a table: counts of cliques, how far a model is from them, and interactions of the label with columns.

Their sensitivities are proved here.

A unit with m rows gives each row the weight K/m, or 1 where it has at most K rows. K is `max_rows` of the card, so the table
of a clique has at most K of each unit. Weights are multiples of 2^-20, rounded down. Their sums are exact in float64, in any
order, up to 2^32 rows. So no unit changes how the counts of another unit are rounded. Noise is added to sums that are exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from gossamer.data.tables.table import GRID, Countable, size_of
from gossamer.methods.marginals.tree import Clique
from gossamer.privacy.queries import Bounds

MOST_EXPECTED = 2.0**32
"""Rows that a model may expect: errors are exact sums up to there."""
_SIGNS = np.array([-1, 1])
"""Of the halves."""


@dataclass(frozen=True)
class Counts:
    """The query: the tables of some cliques, counted in merged values.

    Sensitivity: the weights of a unit's rows add up to at most K, and each row is in one cell of each table. So a unit moves
    each table by at most K in L1, hence in L2. Each table is a group with the bound K.

    Args:
        maps: int64 [values of the column] for each column, public or released: the merged value of each code. Further ones
            are second maps of some columns.
        cliques: whose tables are counted, as positions of maps.
        max_rows: K, public.
        again: the columns of the further maps.
        groups: of each table the group of each cell, int64 [cells], public or released: groups are counted, and not cells. A
            row is in one group of a table. Empty: cells are.
    """

    maps: Sequence[Tensor]
    cliques: Sequence[Clique]
    max_rows: int = 1
    again: Sequence[int] = ()
    groups: Sequence[Tensor] = ()

    def total(self, answer: Tensor) -> float:
        """The number of rows by a noisy answer, each with its weight."""
        return float(answer.double().sum()) / max(1, len(self.cliques))

    @property
    def about(self) -> str:
        """What is counted, in words: sites compare it."""
        return f"columns {', '.join('-'.join(map(str, clique)) for clique in self.cliques)} in {sum(self.sizes)} cells"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of each table."""
        if self.groups:
            return [(int(each.max()) + 1,) for each in self.groups]
        sizes = [int(each.max()) + 1 for each in self.maps]
        return [tuple(sizes[column] for column in clique) for clique in self.cliques]

    @property
    def sizes(self) -> list[int]:
        """Number of cells of each table."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def norms(self) -> tuple[float, ...]:
        """How far a unit moves each table in L2, at most."""
        return (float(self.max_rows),) * len(self.cliques)

    @property
    def dimension(self) -> int:
        """Number of cells of all tables."""
        return sum(self.sizes)

    def clipped_sum(self, rows: Countable, bounds: Bounds, /) -> Tensor:
        """[dimension] float64, multiples of 1 / GRID. Each table moves by at most K.

        Raises:
            ValueError: a bound below K. Bounds are public.
        """
        if min(bounds.norms) < self.max_rows:
            raise ValueError(f"a unit moves a table of counts by up to {self.max_rows}, not {min(bounds.norms):g}")
        counted = _counted(rows, self)
        if self.groups:
            counted = [torch.bincount(*each) for each in zip(self.groups, counted, strict=True)]
        return torch.cat([torch.zeros(0, dtype=torch.float64), *counted]) / GRID

    def tables(self, answer: Tensor) -> list[Tensor]:
        """The tables of an answer, each with the shape of its clique."""
        parts = answer.split(self.sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


@dataclass(frozen=True)
class Errors:
    """The query: the L1 distance between each candidate's counts and what a model expects.

    Sensitivity: a unit moves a candidate's table by at most K in L1, see `Counts`. By the triangle inequality it moves the
    distance by at most K. The vector of k distances moves by at most K sqrt(k) in L2.

    The interactions are a second group of the answer, see `Interactions`.

    The answer is no sum over units: only one process may ask.

    Args:
        counts: the candidates.
        expected: counts of each candidate by the model, float64, from released values; rounded to the grid.
        interactions: what is asked beside the errors; None: nothing.
    """

    counts: Counts
    expected: Sequence[Tensor]
    interactions: "Interactions | None" = None

    @property
    def sizes(self) -> list[int]:
        """k, the number of candidates; and the number of interactions."""
        return [len(self.counts.cliques), *([len(self.interactions.sets)] if self.interactions else [])]

    @property
    def dimension(self) -> int:
        """Length of the answer."""
        return sum(self.sizes)

    @property
    def norms(self) -> tuple[float, ...]:
        """How far a unit moves each group of the answer in L2, at most: K sqrt(its size), or K where it is empty."""
        return tuple(self.counts.max_rows * math.sqrt(max(1, size)) for size in self.sizes)

    def clipped_sum(self, rows: Countable, bounds: Bounds, /) -> Tensor:
        """[dimension] float64, multiples of 1 / GRID: exact sums of whole numbers below 2^53.

        Raises:
            ValueError: a bound below `norms`. Bounds are public.
        """
        for size, given, least in zip(self.sizes, bounds.norms, self.norms, strict=True):
            if given < least:
                raise ValueError(f"a unit moves {size} errors by up to {least:g}, not {given:g}")
        if not all(float(model.abs().sum()) <= MOST_EXPECTED for model in self.expected):
            raise ValueError("a model expects more rows than exact sums of errors allow")
        errors = [
            (counted - (model.flatten() * GRID).round()).abs().sum()[None] / GRID
            for counted, model in zip(_counted(rows, self.counts), self.expected, strict=True)
        ]
        if self.interactions:
            errors.append(self.interactions.of(rows, self.counts.max_rows))
        return torch.cat([torch.zeros(0, dtype=torch.float64), *errors])


@dataclass(frozen=True)
class Interactions:
    """How the label goes with several columns at once, each cut into halves: coefficients of a Walsh-Hadamard transform.

    A value of a column is in a half, +1 or -1. The coefficient of a set of columns is the sum over all rows of the weight times
    the halves of the set and of the label. If the label is the parity of the set, it is the number of rows, and those of all
    smaller sets may be 0. Barak et al. 2007 release such coefficients as counts of contingency tables.

    Sensitivity: a row adds its weight or takes it off. So a unit moves a coefficient by at most K, and k of them by K sqrt(k).

    Args:
        halves: float64 [values of the column] for each column, +1 or -1, public or released.
        label: the position of the label column.
        sets: rising and without the label, the smaller first. Of each, all but its last column are a set too.
    """

    halves: Sequence[Tensor]
    label: int
    sets: Sequence[Clique]

    def of(self, rows: Countable, max_rows: int) -> Tensor:
        """The coefficients, [sets] float64, multiples of 1 / GRID: sums of the cells, each with the sign of its halves."""
        cliques = [tuple(sorted((*each, self.label))) for each in self.sets]
        maps = [(column, (half > 0).numpy().astype(np.int64)) for column, half in enumerate(self.halves)]
        signs = [_SIGNS[: size_of(each)] for each in maps]
        tables = zip(cliques, rows.counts(maps, cliques, max_rows), strict=True)
        sums = [reduce(lambda left, k: signs[k] @ left.reshape(len(signs[k]), -1), *each) for each in tables]
        return torch.tensor(np.ravel(sums), dtype=torch.float64) / GRID


def _counted(rows: Countable, query: Counts) -> list[Tensor]:
    """The flat table of each clique in steps of the grid: whole numbers below 2^53, as float64."""
    columns = [*range(len(query.maps) - len(query.again)), *query.again]
    maps = [(column, own.numpy()) for column, own in zip(columns, query.maps, strict=True)]
    return [torch.from_numpy(each).double() for each in rows.counts(maps, query.cliques, query.max_rows)]
