"""Whether the first line of a table names its columns, or is a row.

Names are public. Where the first line is a row and nobody says so, the values of one person become public.
"""

import datetime
import math
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gossamer.data.tables.encode import MISSING_WORDS, Raw
from gossamer.errors import DataError

READ_AGAIN = "If they are a row, read the file again without a header (header=None in pandas)."
"""The remedy for a table in memory, or in a file that always has names."""
NO_HEADER = "If the first line is a row, add --no-header to `gossamer card` and `gossamer split`."
ONLY_TABLES = "--header and --no-header are for tables, and the data are pictures. Leave it out."
_DATES = ("%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
_COPY = re.compile(r"(.+?)(\.\d+|_duplicated_\d+)")
"""What pandas and polars make of a name that is there before."""
_LOOKED_AT = 1_000
"""Values by which a column is taken for one of numbers or dates."""

Block = tuple[np.ndarray, Sequence[Raw]]
Blocks = Callable[[list[int]], Iterator[Block]]
"""From the positions of some columns to their blocks."""


def watched(names: Sequence[str], blocks: Blocks, where: str, remedy: str) -> Blocks:
    """The blocks of a table, which refuse names that are values of a row. No message quotes a name.

    Names that look like numbers or dates are refused at once. With the blocks, so are two names that occur as values of their
    own columns. One is enough where no column of numbers or dates has a word as its name: only a line of names has that.

    Raises:
        DataError: by position, what looks like values.
    """
    if found := [at for at, name in enumerate(names, 1) if _is_value(name)]:
        raise _refused(where, "numbers or dates", found, remedy)
    known = [
        {name, copied[1]} if (copied := _COPY.fullmatch(name)) and copied[1] in names else {name} for name in names
    ]

    def watching(positions: list[int]) -> Iterator[Block]:
        found: set[int] = set()
        at_most = -1
        for numbers, columns in blocks(positions):
            named = [(at, column) for at, column in zip(positions, columns, strict=True) if names[at]]
            if at_most < 0:
                words = (column for at, column in named if names[at].casefold() not in MISSING_WORDS)
                at_most = int(any(map(_of_values, words)))
            found |= {at + 1 for at, column in named if at + 1 not in found and _has(column, known[at])}
            if len(found) > at_most:
                raise _refused(where, "values of their own columns", sorted(found), remedy)
            yield numbers, columns

    return watching


def _refused(where: str, what: str, found: list[int], remedy: str) -> DataError:
    which = ", ".join(map(str, found[:12])) + (" ..." if found[12:] else "")
    return DataError(
        f"{where}: names of columns look like {what}, by position from 1: {which}. {remedy} If they are names, add --header, "
        "or say header = true in the card."
    )


def _is_value(text: str) -> bool:
    """Whether a text is a number, a date or a time: digits without a letter, or what Python reads as one."""
    if not any(map(str.isdigit, text)):
        return False
    return not any(map(str.isalpha, text)) or _is_number(text) or _is_date(text)


def _of_values(column: Raw) -> bool:
    """Whether a column holds numbers or dates, and nothing else."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind != "O":
            return column.dtype.kind in "iufM"
        column = [str(value) for value in column[:_LOOKED_AT].tolist()]
    texts = [text for text in column[:_LOOKED_AT] if text.strip().casefold() not in MISSING_WORDS]
    return bool(texts) and all(map(_is_value, texts))


def _has(column: Raw, names: set[str]) -> bool:
    """Whether a column has one of these names as a value. Numbers and dates have none: `_is_value` has seen to that."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "OUb":
            return False
        column = [str(value).strip() for value in column.tolist() if isinstance(value, str | bool)]
    return not names.isdisjoint(column)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_date(text: str) -> bool:
    for read in (datetime.datetime.fromisoformat, *map(_by, _DATES)):
        try:
            read(text)
        except ValueError:
            continue
        return True
    return False


def _by(form: str) -> Callable[[str], datetime.datetime]:
    return lambda text: datetime.datetime.strptime(text, form)
