"""Weighted counts of cliques of columns: all that a query asks of the rows of a table, wherever they are.

A unit with m rows gives each row the weight K/m, or 1 where it has at most K rows. Weights are multiples of 2^-20, rounded
down. So sums are whole numbers of these steps, and any engine gives the same bits in any order.
"""

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from gossamer.data.units import Grouped

GRID = 2**20
"""Weights are multiples of 1 / GRID. A unit with more than K x GRID rows has no weight."""
MOST_CELLS = 2**18
"""Cells of a table that is counted for several cliques at once."""
Clique: TypeAlias = tuple[int, ...]
Map: TypeAlias = tuple[int, np.ndarray]
"""A column, and the merged value of each of its codes, int [codes]."""


class Countable(Grouped):
    """Rows that are counted. A table is counted once, and its counts stay as private as the rows."""

    @cached_property
    def _known(self) -> dict[Any, np.ndarray]:
        return {}

    def counts(self, maps: Sequence[Map], cliques: Sequence[Clique], max_rows: int) -> list[np.ndarray]:
        """The sums of weights in the cells of each clique, in steps of the grid. int64 [cells]

        Args:
            maps: what is counted of a column; several may be of one column.
            cliques: rising positions of maps.
            max_rows: K.
        """
        names = [(column, values.tobytes()) for column, values in maps]
        keys = [(max_rows, *(names[k] for k in clique)) for clique in cliques]
        new = {clique: key for key, clique in zip(keys, cliques, strict=True) if key not in self._known}
        covers = together(new, [size_of(each) for each in maps])
        for (cover, own), sums in zip(covers.items(), self._sums(maps, [*covers], max_rows), strict=True):
            table = sums.reshape([size_of(maps[k]) for k in cover])
            for clique in own:
                others = tuple(axis for axis, k in enumerate(cover) if k not in clique)
                self._known[new[clique]] = table.sum(others).ravel()
        return [self._known[key] for key in keys]

    @abstractmethod
    def _sums(self, maps: Sequence[Map], cliques: Sequence[Clique], max_rows: int) -> Iterator[np.ndarray]:
        """The same for some cliques, each counted by itself."""


def size_of(merged: Map) -> int:
    """Number of merged values."""
    return int(merged[1].max()) + 1


def together(cliques: Iterable[Clique], sizes: Sequence[int]) -> dict[Clique, list[Clique]]:
    """Cliques that hold some of these each. Their tables have at most MOST_CELLS cells, or those of one clique.

    Columns are put into blocks, and cliques of the same blocks are counted together. So 19,900 pairs of columns of six values
    need 2,278 tables.
    """
    cliques, blocks, number, cells = [*cliques], {}, 0, 1
    widest = max(map(len, cliques), default=1)
    for k in sorted({*()}.union(*cliques)):
        cells *= sizes[k]
        if cells**widest > MOST_CELLS:
            number, cells = number + 1, sizes[k]
        blocks[k] = number
    groups = defaultdict(list)
    for clique in cliques:
        groups[frozenset(blocks[k] for k in clique)].append(clique)
    found: dict[Clique, list[Clique]] = {}
    for own in groups.values():
        cover = tuple(sorted({*()}.union(*own)))
        small = math.prod(sizes[k] for k in cover) <= MOST_CELLS
        found.update({cover: own} if small else {clique: [clique] for clique in own})
    return found


def row_weights(units: np.ndarray | None, max_rows: int) -> np.ndarray | None:
    """min(1, max_rows / m) for each row of a unit with m rows, in steps of the grid and rounded down, float64 [N].

    None: every row is its own unit, and weighs 1.
    """
    if units is None:
        return None
    _, own, counts = np.unique(units, return_inverse=True, return_counts=True)
    weights: np.ndarray = np.minimum(GRID, GRID * max_rows // counts)[own.reshape(-1)].astype(np.float64)
    return weights
