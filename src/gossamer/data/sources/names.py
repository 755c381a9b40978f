"""Names of columns, which are public: how they are compared, and whether they are a row that nobody declared public."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from gossamer.data.columns.texts import MISSING_WORDS
from gossamer.data.labels import listed
from gossamer.data.sources.relation import Block, Relation
from gossamer.data.units import number_of
from gossamer.errors import DataError
from gossamer.lazy import pa, pc

READ_AGAIN = "If they are a row, read the file again without a header (header=None in pandas)."
"""The remedy for a table in memory, or in a file that always has names."""
ONLY_TABLES = "`header` is for tables, and the data are pictures. Leave it out."
_DATES = ("%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
_COPY = re.compile(r"(.+?)(\.\d+|_duplicated_\d+)")
"""What pandas and polars make of a name that is there before."""
_LOOKED_AT = 1_000
"""Values by which a column is taken for one of numbers or dates."""


def clean_names(names: Sequence[str]) -> list[str]:
    """Names of columns without space around them; how an accent is composed does not count."""
    return [unicodedata.normalize("NFC", name).strip() for name in names]


def watch(relation: Relation, where: str) -> None:
    """Have a relation refuse names that are values of a row. No message quotes a name.

    Names that look like numbers or dates are refused at once. With the blocks, so are two names that occur as values of their
    own columns. One is enough where no column of numbers or dates has a word as its name: only a line of names has that.

    Raises:
        DataError: by position, what looks like values.
    """
    names, blocks, remedy = relation.names, relation.blocks, relation.remedy
    if found := [at for at, name in enumerate(names, 1) if _is_value(name)]:
        raise _refused(where, "numbers or dates", found, remedy)
    known = [
        {name, copied[1]} if (copied := _COPY.fullmatch(name)) and copied[1] in names else {name} for name in names
    ]

    def watching(positions: Sequence[int]) -> Iterator[Block]:
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

    relation.blocks = watching


def _refused(where: str, what: str, found: list[int], remedy: str) -> DataError:
    return DataError(
        f"{where}: names of columns look like {what}, by position from 1: {listed([*map(str, found)])}. {remedy} If they are "
        "names, add `header=True`, or say header = true in the card."
    )


def _is_value(text: str) -> bool:
    """Whether a text is a number, a date or a time: digits without a letter, or what Python reads as one."""
    if not any(map(str.isdigit, text)):
        return False
    return not any(map(str.isalpha, text)) or number_of(text) is not None or _is_date(text)


def _of_values(column: Any) -> bool:
    """Whether a column holds numbers or dates, and nothing else."""
    types = pa.types
    if types.is_integer(column.type) or types.is_floating(column.type) or types.is_temporal(column.type):
        return True
    values = [str(value).strip() for value in column[:_LOOKED_AT].to_pylist() if value is not None]
    texts = [text for text in values if text.casefold() not in MISSING_WORDS]
    return bool(texts) and all(map(_is_value, texts))


def _has(column: Any, names: set[str]) -> bool:
    """Whether a column has one of these names as a value. Numbers and dates have none: `_is_value` has seen to that."""
    if pa.types.is_union(column.type):
        return any(_has(column.field(at), names) for at in range(column.type.num_fields))
    if pa.types.is_boolean(column.type):
        column = pa.array([str(value) for value in column.unique().to_pylist()])
    if not pa.types.is_string(column.type):
        return False
    texts = pc.utf8_trim_whitespace(column.unique())
    return bool(pc.any(pc.is_in(texts, pa.array([*names], pa.string()))).as_py())


def _is_date(text: str) -> bool:
    for form in ("", *_DATES):
        with suppress(ValueError):
            return bool(datetime.strptime(text, form) if form else datetime.fromisoformat(text))
    return False
