"""Rows of a CSV file in blocks: delimiter, quotes, encoding.

The first line, which is no record, decides the delimiter. Of a file without such a line, name and declared decimal point do.
Each line is decoded by itself. So no record changes how the others are read.
"""

import csv
import gzip
import itertools
import unicodedata
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from gossamer.data.tables.column import NUMBERED, is_numbered
from gossamer.errors import DataError

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
LATIN = "Some lines are not UTF-8. They were read as Windows-1252 (Latin-1)."

_DELIMITERS = (",", ";", "\t", "|")
_CELLS = 1 << 14
"""Values of a block: they fit into the processor's cache, which makes reading twice as fast."""


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
