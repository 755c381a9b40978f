"""A table: rows of codes and, where the unit is a person, the person of each row. No raw value is in it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.data.fingerprint import Identity, digests, fingerprint_of, mark
from gossamer.data.memory_mapped import chosen_rows
from gossamer.data.tables.counting import GRID, Clique, Countable, Map, row_weights, size_of

CODES: np.dtype[Any] = np.dtype(np.int16)
"""Of codes in memory. A column has at most 10,000, see `MOST_CODES`."""
_ROWS, _TABLES = 2**18, 128
"""Rows and tables that are counted at once."""


@dataclass(frozen=True, repr=False)
class Table(Countable):
    """Rows of codes, as a `TableCard` declares them. Some of the rows have no mark.

    Args:
        codes: int16 [N, columns], each from 0 to the column's number of codes - 1; in memory or memory-mapped.
        units: int64 [N], from 0; rows with equal numbers belong to one unit. None: every row is its own unit.
        names: text [population], the id of each unit, "" for a row without one. None: no unit has one.
        notes: what the readers converted, in words: for the terminal, and for no file.
        mark: digest of the rows as they were read, see `RawRows`. Empty: it is not known.
    """

    codes: np.ndarray
    units: np.ndarray | None = None
    names: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    mark: str = ""

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        """Show number and shape: a log or a notebook that shows a table must not show what is in it."""
        return f"Table({self.in_words})"

    @property
    def in_words(self) -> str:
        """Number of rows and columns, without a code."""
        return f"{len(self):,} rows of {self.codes.shape[1]} columns"

    def __getitem__(self, which: slice | np.ndarray) -> "Table":
        """Some of the rows, by position. A slice makes no copy. Raises DataError: the disk is too full for a copy."""
        codes = self.codes[which] if isinstance(which, slice) else chosen_rows(self.codes, which)
        return Table(codes, None if self.units is None else self.units[which], self.names, self.notes)

    def _sums(self, maps: Sequence[Map], cliques: Sequence[Clique], max_rows: int) -> Iterator[np.ndarray]:
        """See `Countable`. In float64, which is exact up to 2^53. A code out of range is the nearest: a message would leak."""
        weights = row_weights(self.units, max_rows)
        for first in range(0, len(cliques), _TABLES):
            some = cliques[first : first + _TABLES]
            sums = [np.zeros(math.prod(size_of(maps[k]) for k in clique)) for clique in some]
            for rows in (slice(start, start + _ROWS) for start in range(0, len(self), _ROWS)):
                own = None if weights is None else weights[rows]
                merged = {k: _merged(self.codes[rows, maps[k][0]], maps[k][1]) for k in {*()}.union(*some)}
                for at, clique in enumerate(some):
                    cells = np.zeros(len(self.codes[rows]), np.int64)
                    for k in clique:
                        cells *= size_of(maps[k])
                        cells += merged[k]
                    sums[at] += np.bincount(cells, own, len(sums[at]))
            yield from ((each * (GRID if weights is None else 1)).astype(np.int64) for each in sums)


def _merged(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The merged value of each code, in as few bytes as they need."""
    return values.astype(np.min_scalar_type(values.max()))[np.clip(codes, 0, len(values) - 1)]


def identify(table: Table) -> Identity:
    """The fingerprint of a table in its order, of codes, and the mark of its rows in any order.

    The mark is of the rows as they were read, so that a copy is recognised whatever its card says. It is of codes where only
    codes are known.

    Raises:
        DataError: the digests are too many for the memory, and the disk is full.
    """
    rows = digests(table.codes.astype(CODES, copy=False))
    width = table.codes.shape[1]
    return Identity(
        fingerprint_of(table, "table 2", [len(table), width], rows, []),
        table.mark or mark(f"table {width}", rows),
    )
