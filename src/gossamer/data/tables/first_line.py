"""Whether the first line of a table names its columns, or is a record.

Names are public. Where the first line is a record and nobody says so, the values of one person become public.
"""

import datetime
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gossamer.errors import DataError

NUMBERED = "column_{}"
"""The name of a column without one, by its position from 1."""
READ_AGAIN = "If they are a row, read the file again without a header (header=None in pandas)."
"""The remedy for a table in memory, or in a file that always has names."""
NO_HEADER = "If the first line is a row, add --no-header to `gossamer card` and `gossamer split`."
ONLY_TABLES = "--header and --no-header are for tables, and the data are pictures. Leave it out."
_DATES = ("%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
_COPY = re.compile(r"(.+?)(\.\d+|_duplicated_\d+)")
"""What pandas and polars make of a name that is there before."""

Block = tuple[np.ndarray, Sequence[Any]]
"""The numbers of some rows, int64 [n], and the values of each column, n each: texts or an array."""
Blocks = Callable[[list[int]], Iterator[Block]]
"""From the positions of some columns to their blocks."""


def is_numbered(names: Sequence[str]) -> bool:
    """Whether all names are those of columns without one: no record holds such values."""
    return all(re.fullmatch(NUMBERED.format(r"\d+"), name) for name in names)


def looks_like_value(name: str) -> bool:
    """Whether a name is a number, a date or a time: digits without a letter, and what Python reads as one."""
    if not any(map(str.isdigit, name)):
        return False
    return not any(map(str.isalpha, name)) or _is_number(name) or _is_date(name)


def watched(names: Sequence[str], blocks: Blocks, where: str, remedy: str) -> Blocks:
    """The blocks of a table, which refuse a name that is a value of its own column.

    Raises DataError at once if a name looks like a number or a date. Quotes no name: they may belong to a person.
    """
    if found := [at for at, name in enumerate(names, 1) if looks_like_value(name)]:
        raise _refused(where, "numbers or dates", found, remedy)
    known = [
        {name, copied[1]} if (copied := _COPY.fullmatch(name)) and copied[1] in names else {name} for name in names
    ]

    def watching(positions: list[int]) -> Iterator[Block]:
        for numbers, columns in blocks(positions):
            pairs = zip(positions, columns, strict=True)
            if found := [at + 1 for at, column in pairs if names[at] and _has(column, known[at])]:
                raise _refused(where, "values of their own column", found, remedy)
            yield numbers, columns

    return watching


def _refused(where: str, what: str, found: list[int], remedy: str) -> DataError:
    which = ", ".join(map(str, found[:12])) + (" ..." if found[12:] else "")
    return DataError(
        f"{where}: names of columns look like {what}, by position from 1: {which}. {remedy} If they are names, add --header, "
        "or say header = true in the card."
    )


def _has(column: Any, names: set[str]) -> bool:
    """Whether a column has one of these names as a value. Numbers and dates have none, or `looks_like_value` has seen it."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "OUb":
            return False
        column = [str(value).strip() for value in column.tolist() if isinstance(value, str | bool)]
    return not names.isdisjoint(column)


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


def _is_date(name: str) -> bool:
    for read in (datetime.datetime.fromisoformat, *(_by(form) for form in _DATES)):
        try:
            read(name)
        except ValueError:
            continue
        return True
    return False


def _by(form: str) -> Callable[[str], datetime.datetime]:
    return lambda text: datetime.datetime.strptime(text, form)
