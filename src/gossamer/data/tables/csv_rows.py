"""Rows of a CSV file in blocks: delimiter, quotes, encoding. And for all tables: whether their first line is a row.

The first line, which is no record, decides the delimiter. Of a file without such a line, name and declared decimal point do.
Each line is decoded by itself. So no record changes how the others are read.

Names are public. Where the first line is a row and nobody says so, the values of one person become public.
"""

import csv
import datetime
import gzip
import itertools
import math
import re
import unicodedata
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from gossamer.data.columns.column import NUMBERED, is_numbered
from gossamer.data.tables.encode import MISSING_WORDS, Raw
from gossamer.errors import DataError

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
LATIN = "Some lines are not UTF-8. They were read as Windows-1252 (Latin-1)."

_DELIMITERS = (",", ";", "\t", "|")
_CELLS = 1 << 14
"""Values of a block: they fit into the processor's cache, which makes reading twice as fast."""
READ_AGAIN = "If they are a row, read the file again without a header (header=None in pandas)."
"""The remedy for a table in memory, or in a file that always has names."""
NO_HEADER = (
    "If the first line is a row, use `gossamer.draft_card(DATA, header=False)`, and the same for `gossamer.split`."
)
ONLY_TABLES = "`header` is for tables, and the data are pictures. Leave it out."
_DATES = ("%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
_COPY = re.compile(r"(.+?)(\.\d+|_duplicated_\d+)")
"""What pandas and polars make of a name that is there before."""
_LOOKED_AT = 1_000
"""Values by which a column is taken for one of numbers or dates."""

Block = tuple[np.ndarray, Sequence[Raw]]
Blocks = Callable[[list[int]], Iterator[Block]]
"""From the positions of some columns to their blocks."""


class CsvRows:
    """The rows of a CSV file.

    Args:
        path: the file.
        wanted: names of columns. The delimiter is the one by which the first line has the most of them; of none, the one by
            which it has the most names.
        header: whether the first line names the columns. If not, they are called column_1, column_2 and so on.
        decimal: the decimal point, which decides the delimiter of a file without a header. Empty: the first line does.

    Raises:
        DataError: the file cannot be read, or is empty.
    """

    def __init__(self, path: Path, wanted: Collection[str] = (), *, header: bool = True, decimal: str = "") -> None:
        self.notes: set[str] = set()
        self.ragged: list[int] = []
        """Rows, counted from 0, with another number of values than the first line."""
        self._path = path
        with self._lines() as lines:
            line = next(lines, "")
        if not line.strip():
            raise DataError(f"{path}: the file is empty, or its first line is: the first line must name the columns")
        if "\0" in line:
            raise DataError(f"{path}: the first line holds NUL bytes, as text in UTF-16 does: save the file as UTF-8")
        heads = {
            mark: clean_names(next(csv.reader([line], delimiter=mark, skipinitialspace=True)))
            for mark in (_DELIMITERS if header else _of_rows(path, decimal))
        }
        known = set(wanted)
        self.delimiter = max(heads, key=lambda mark: (len(known.intersection(heads[mark])), len(heads[mark])))
        self.names = heads[self.delimiter]
        """The names of the first line, without space around them."""
        self._header = header or is_numbered(self.names)  # as `split` and samples have it
        if not self._header:
            self.names = [NUMBERED.format(at + 1) for at in range(len(self.names))]
        while self.names[1:] and not self.names[-1]:
            self.names.pop()  # a delimiter at the end of the line

    def blocks(self) -> Iterator[tuple[np.ndarray, list[Sequence[str]]]]:
        """The numbers of the rows of a block, int64 [n], and the texts of each column, n each. Raises DataError."""
        width, start, line = len(self.names), 0, 1
        size = max(64, _CELLS // width)
        try:
            with self._lines() as lines:
                reader = csv.reader(lines, delimiter=self.delimiter, skipinitialspace=True, strict=True)
                if self._header:
                    next(reader)
                while rows := list(itertools.islice(reader, size)):
                    line = reader.line_num
                    rows = [row for row in rows if row]  # blank lines
                    numbers = np.arange(start, start + len(rows))
                    start += len(rows)
                    if set(map(len, rows)) - {width}:
                        rows = [row[:width] if not any(row[width:]) else row for row in rows]
                        fits = np.array([len(row) == width for row in rows])
                        self.ragged += numbers[~fits].tolist()
                        numbers, rows = numbers[fits], [row for row in rows if len(row) == width]
                    if rows:
                        yield numbers, list(zip(*rows, strict=True))
        except csv.Error:
            raise DataError(
                f"{self._path}: the file is no sound CSV: a quote after line {line} is not closed, or stands inside a value. "
                "Write the file again."
            ) from None

    @contextmanager
    def _lines(self) -> Iterator[Iterator[str]]:
        opener = gzip.open if self._path.suffix.lower() == ".gz" else open
        try:
            with opener(self._path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
                yield self._mended(file)
        except (OSError, EOFError, zlib.error) as error:
            why = getattr(error, "strerror", None) or "it is cut or damaged"
            raise DataError(f"{self._path}: the file cannot be read ({why}).") from None

    def _mended(self, file: IO[str]) -> Iterator[str]:
        """The lines; those that are not UTF-8 are decoded anew."""
        for number, line in enumerate(file):
            if "\0" in line and number:
                raise DataError(
                    f"{self._path}: line {number + 1} holds a NUL byte: the file is damaged, write it again"
                )
            if not line.isascii():
                try:
                    line.encode()
                except UnicodeEncodeError:
                    self.notes.add(LATIN)
                    yield line.encode("utf-8", "surrogateescape").decode("cp1252", "replace")
                    continue
            yield line


def _of_rows(path: Path, decimal: str) -> Sequence[str]:
    """The delimiters that a file without a header may have. No record decides which, if the decimal point is declared."""
    if ".tsv" in path.name.lower():
        return ("\t",)
    return {",": (";",), ".": (",",)}.get(decimal, (",", ";"))


def clean_names(names: Sequence[str]) -> list[str]:
    """Names of columns without space around them; how an accent is composed does not count."""
    return [unicodedata.normalize("NFC", name).strip() for name in names]


def rows_of(path: Path) -> int:
    """Number of rows of a CSV file. Raises DataError."""
    return sum(len(numbers) for numbers, _ in CsvRows(path).blocks())


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
        f"{where}: names of columns look like {what}, by position from 1: {which}. {remedy} If they are names, add "
        "`header=True`, or say header = true in the card."
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
