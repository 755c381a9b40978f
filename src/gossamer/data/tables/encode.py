"""From raw columns to codes, by the card alone: no other row decides how a row is encoded. No message quotes a value."""

import datetime
import decimal as decimals
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gossamer.data.columns.reading import FAULTS, Reader
from gossamer.data.columns.texts import MISSING_WORDS
from gossamer.data.problems import SHOWN, Problems
from gossamer.data.tables.card import TableCard
from gossamer.lazy import pa

_MOST_KINDS = 20


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

    def refuse(self) -> None:
        """Raise DataError if there is a fault, with all of them."""
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
        self._faults = faults
        self._readers = [(column.name, Reader(column, card.decimal, guessed=guessed)) for column in card.columns]

    def encode(self, block: "Sequence[pa.Array]", rows: np.ndarray) -> np.ndarray:
        """Codes of a block. int32 [n, columns]

        Args:
            block: the cells of each column of the card, in its order; n each.
            rows: their numbers in the source, int64 [n]; for messages.
        """
        codes = np.empty((len(rows), len(self._readers)), np.int32)
        for at, ((name, reader), cells) in enumerate(zip(self._readers, block, strict=True)):
            codes[:, at] = reader.codes(cells)
            if codes[:, at].min(initial=0) < 0:
                for fault, problem in FAULTS.items():
                    if len(found := np.flatnonzero(codes[:, at] == fault)):
                        self._faults.add(f"column {name!r}: {problem}", rows[found].tolist())
        return codes

    def values(self, block: "Sequence[pa.Array]") -> np.ndarray:
        """Values of a block as numbers, which no bin has made coarse. float64 [n, columns], see `decode.to_numbers`."""
        return np.column_stack([reader.values(cells) for (_, reader), cells in zip(self._readers, block, strict=True)])


# Until every source gives cells of pyarrow. The modules that use what follows are about to be replaced.

Raw: TypeAlias = "Sequence[str] | np.ndarray"
MOST_REMEMBERED = 100_000
_EPOCH = datetime.datetime(1970, 1, 1)


def _same(value: Any) -> Any:
    return value


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and abs(value) >= 2**63


def cells_of(raw: Raw) -> "pa.Array":
    """Raw values as cells: a dense union where they have several types."""
    if not isinstance(raw, np.ndarray):
        return pa.array(raw, pa.string())
    if raw.dtype.kind != "O":
        return pa.array(raw.astype(str) if raw.dtype.kind in "US" else raw, from_pandas=True)
    values = raw.tolist()
    none = [value is None or type(value).__name__ in ("NAType", "NaTType") for value in values]
    kinds = sorted({type(value).__name__ for value, is_none in zip(values, none, strict=True) if not is_none})
    names = ["none", *kinds]
    parts: list[list[Any]] = [[] for _ in names]
    types, offsets = np.zeros(len(values), np.int8), np.zeros(len(values), np.int32)
    for at, (value, is_none) in enumerate(zip(values, none, strict=True)):
        types[at] = 0 if is_none else names.index(type(value).__name__)
        offsets[at] = len(parts[types[at]])
        parts[types[at]].append(None if is_none else value)
    large = {"int": decimals.Decimal}
    parts = [
        [*map(large.get(name, _same), part)] if any(map(_is_large, part)) else part
        for name, part in zip(names, parts, strict=True)
    ]
    children = [pa.array(part, pa.string() if not at else None) for at, part in enumerate(parts)]
    if len(children) == 2 and not parts[0]:
        return children[1]
    return pa.UnionArray.from_dense(pa.array(types), pa.array(offsets), children)


def texts_of(raw: Raw, decimal: str = ".") -> Sequence[str]:
    """Values as text: whole numbers without a point, dates as 2031-12-24, missing ones (None, NaN, NaT, NA) as "".

    decimal: the decimal point that numbers get. Texts stay as they are.
    """
    if not isinstance(raw, np.ndarray):
        return raw
    if raw.dtype.kind == "S":
        return [value.decode("utf-8", "replace") for value in raw.tolist()]
    if raw.dtype.kind == "M":
        raw = raw.astype("datetime64[us]")  # of nanoseconds, numpy gives numbers
    return [value if isinstance(value, str) else _text(value, decimal) for value in raw.tolist()]


def _text(value: Any, decimal: str) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.floating):
        value = float(value)  # of single precision too, as in an array of numbers
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return str(value).replace(".", decimal)
    if isinstance(value, decimals.Decimal):
        return format(value, "f").replace(".", decimal)
    text = value.isoformat() if isinstance(value, datetime.date) and value == value else str(value)  # noqa: PLR0124 (NaT)
    return "" if text.casefold() in MISSING_WORDS else text


def days(time: datetime.datetime) -> int:
    """The day of a time, from 1970. With a zone it is the day in UTC, as in columns of times."""
    return (time - _EPOCH.replace(tzinfo=None if time.tzinfo is None else datetime.UTC)).days
