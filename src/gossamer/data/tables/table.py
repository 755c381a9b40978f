"""A table: rows of codes and, where the unit is a person, the person of each row. No raw value is in it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.data.fingerprint import Identity, digests, fingerprint_of, mark
from gossamer.data.memory_mapped import chosen_rows
from gossamer.data.units import Grouped

CODES: np.dtype[Any] = np.dtype(np.int16)
"""Of codes in memory. A column has at most 10,000, see `MOST_CODES`."""


@dataclass(frozen=True, repr=False)
class Table(Grouped):
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
