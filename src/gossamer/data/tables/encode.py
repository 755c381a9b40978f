"""From raw columns to codes, by the card alone: no other row decides how a row is encoded. No message quotes a value."""

from collections.abc import Iterable, Sequence

import numpy as np

from gossamer.data.columns.column import Column
from gossamer.data.columns.reading import BROKEN, FAULTS, Reader
from gossamer.data.columns.rules import broken, in_turn
from gossamer.data.problems import SHOWN, Problems
from gossamer.data.tables.card import TableCard
from gossamer.lazy import pa

_MOST_KINDS = 20
RAGGED = (
    "the row has another number of values than the first line has names. Mend such rows. If the lines above the names are a "
    "title, delete them"
)


class Faults:
    """What is wrong with a table: for each column and kind of fault, the first rows and the number of the others."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._rows: dict[str, tuple[list[int], int]] = {}

    def add(self, problem: str, rows: Iterable[int] = ()) -> None:
        """Add rows, counted from 0, with a problem; no rows: of the whole table."""
        first, count = self._rows.get(problem, ([], 0))
        rows = [*rows]
        self._rows[problem] = ([*first, *rows][:SHOWN], count + len(rows))

    def refuse(self, ragged: Sequence[int] = ()) -> None:
        """Raise DataError if there is a fault, with all of them. ragged: rows with another number of cells."""
        if ragged:
            self.add(RAGGED, ragged)
        problems = Problems(_MOST_KINDS)
        for problem, (rows, count) in self._rows.items():
            which = f"row{'s' if rows[1:] else ''} {', '.join(map(str, rows))} (counted from 0)" if rows else ""
            more = f" and {count - len(rows):,} more" if count > len(rows) else ""
            problems.add(self._where, f"{which}{more}: {problem}" if rows else problem)
        problems.refuse()


class TableEncoder:
    """Encodes blocks of rows, and collects what is wrong with them.

    Args:
        card: declares the columns.
        faults: gets the faults. The codes of a faulty cell are negative.
        guessed: whether a program may have guessed the types of columns, from all rows. Then no value is used that would have
            another code as the text that it may have been: one row more would change it.
    """

    def __init__(self, card: TableCard, faults: Faults, *, guessed: bool = False) -> None:
        self._faults, self._columns = faults, card.columns
        self._readers = [Reader(column, card.decimal, guessed=guessed) for column in card.columns]
        self._after = [at for at in in_turn(card.columns) if card.columns[at].after]

    def encode(self, block: "Sequence[pa.Array]") -> np.ndarray:
        """Codes of a block, from any thread. int32 [n, columns]; negative ones are faults, see `check`.

        block: the cells of each column of the card, in its order; n each.
        """
        codes = np.empty((len(self._readers), len(block[0])), np.int32).T
        for reader, cells, base, own in zip(self._readers, block, self.bases(block), codes.T, strict=True):
            own[:] = reader.codes(cells, base)
        for at, wrong, _, can in broken(codes, self._columns):
            codes[wrong, at] = by_rule(self._columns[at], can)
        return codes

    def check(self, codes: np.ndarray, rows: np.ndarray) -> None:
        """Add the faults among the codes of a block. rows: their numbers in the source, int64 [n]"""
        for column, own in zip(self._columns, codes.T, strict=True):
            if own.min(initial=0) < 0:
                for fault, problem in FAULTS.items():
                    if len(found := np.flatnonzero(own == fault)):
                        self._faults.add(f"column {column.name!r}: {problem}", rows[found].tolist())

    def values(self, block: "Sequence[pa.Array]") -> np.ndarray:
        """Values of a block as numbers, which no bin has made coarse. float64 [n, columns], see `decode.to_numbers`."""
        given = zip(self._readers, block, self.bases(block), strict=True)
        return np.column_stack([reader.values(cells, base) for reader, cells, base in given])

    def bases(self, block: "Sequence[pa.Array]") -> "list[np.ndarray | None]":
        """The values that each column is counted from, float64 [n], see `after`. None: from 0."""
        names = [column.name for column in self._columns]
        found: list[np.ndarray | None] = [None] * len(names)
        for at in self._after:
            low = names.index(self._columns[at].after)
            found[at] = self._readers[low].values(block[low], found[low])
        return found


def by_rule(column: Column, can: np.ndarray) -> int:
    """The code of a cell that breaks a rule: what the rule leaves, or "other"; a fault where the card refuses it.

    can: the codes that the rule leaves.
    """
    left = [code for code in can.tolist() if len(can) == 1 or code == column.other_code]
    return int(left[0]) if left and column.outside != "refuse" else BROKEN
