"""Text files of tables (CSV, TSV) as relations: every cell is text, as it is written.

The first line, which is no record, decides the delimiter. Of a file without such a line, name and declared decimal point do.
Each line is decoded by itself. So no record changes how the others are read.
"""

import codecs
import csv
import gzip
import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.columns.column import NUMBERED, is_numbered
from gossamer.data.problems import sound
from gossamer.data.sources.blocks import block_of
from gossamer.data.sources.names import clean_names
from gossamer.data.sources.relation import Block, Relation
from gossamer.errors import DataError
from gossamer.lazy import Lazy, pa, pc

pa_csv: Any = Lazy("pyarrow.csv")

LATIN = "Some lines are not UTF-8. They were read as Windows-1252 (Latin-1)."
NO_HEADER = (
    "If the first line is a row, use `gossamer.draft_card(DATA, header=False)`, and the same for `gossamer.split`."
)
_DELIMITERS = (",", ";", "\t", "|")
_CHUNK = 1 << 20
"""Bytes that are read at once."""
_LONGEST = 1 << 24
"""Letters of a row, at most: so many follow a quote that is never closed."""
_LOOKED_AT = 10
"""Lines below the first one that tell a title from names."""


def open_text(path: Path, wanted: Collection[str] = (), *, header: bool | None = True, decimal: str = "") -> Relation:
    """Open a text file, plain or compressed by gzip, in UTF-8, UTF-16 with its mark, or Windows-1252.

    Args:
        path: the file.
        wanted: names of columns. The delimiter is the one by which the first line has the most of them. Where it has none, it
            is the one that gives the most names. A first line `sep=;`, as Excel writes it, decides instead, and names nothing.
        header: whether the first line names the columns. If not, they are called column_1, column_2 and so on. None: it does,
            and a title in its place is refused.
        decimal: the decimal point, which decides the delimiter of a file without a header. Empty: the first line does.

    Raises:
        DataError: the file cannot be read, or is empty; with the blocks: what is no sound text or CSV, by line.
    """
    file = TextFile(path)
    lines: list[str] = []
    for _, piece in file.pieces():
        lines += _lines(piece)
        if len(lines) > _LOOKED_AT:
            break
    marked = lines[0].rstrip("\r\n").casefold() if lines else ""
    file.skipped = int(marked[:4] == "sep=" and len(marked) == 5)
    lines = lines[file.skipped :]
    if not lines or not lines[0].strip():
        raise DataError(f"{path}: the file or its first line is empty. The first line must name the columns")
    marks = marked[4] if file.skipped else _DELIMITERS if header is not False else _of_rows(path, decimal)
    heads = {mark: _cells(lines[0], mark) for mark in marks}
    cleaned = {mark: clean_names(heads[mark]) for mark in marks}
    known = set(wanted)
    file.delimiter = max(heads, key=lambda mark: (len(known.intersection(cleaned[mark])), len(heads[mark])))
    names = cleaned[file.delimiter]
    if any(sign in cell for cell in heads[file.delimiter] for sign in "\r\n"):
        raise DataError(f"{path}: a quote in the first line is not closed there. Write each name within one line.")
    if header is None and known.isdisjoint(names):
        _refuse_title(path, lines, file.skipped, len(names))
    if header is False and not is_numbered(names):  # `split` and samples write such names
        names = [NUMBERED.format(at + 1) for at in range(len(names))]
    else:
        file.skipped += 1
    while names[1:] and not names[-1]:
        names.pop()  # a delimiter at the end of the line
    file.names = names
    relation = Relation(names, file.blocks, delimiter=file.delimiter, remedy=NO_HEADER)
    file.notes, file.ragged = relation.notes, relation.ragged
    return relation


def rows_of(path: Path) -> int:
    """Number of rows of a text file. Raises DataError."""
    return sum(len(numbers) for numbers, _ in open_text(path).blocks([0]))


@dataclass
class TextFile:
    """A text file, in pieces of whole rows.

    Args:
        path: the file.
        delimiter: between the cells. Empty: not known yet.
        skipped: lines above the first row.
        names: of the columns.
        notes: see `Relation`.
        ragged: see `Relation`.
    """

    path: Path
    delimiter: str = ""
    skipped: int = 0
    names: Sequence[str] = ()
    notes: set[str] = field(default_factory=set)
    ragged: list[int] = field(default_factory=list)

    def blocks(self, positions: Sequence[int]) -> Iterator[Block]:
        """The blocks of some columns, see `Relation`."""
        start, read, rest = 0, 0, ""
        self.ragged.clear()
        for above, piece in self.pieces():
            text = rest + (piece if above >= self.skipped else "".join(_lines(piece)[self.skipped - above :]))
            table = None if '"' in text else self._table(text)  # without a quote, no row goes on
            if table is None:
                rows, read, rest = self._rows(text, max(above, self.skipped) - _count(rest))
                numbers, columns = block_of(rows, positions, len(self.names), start, self.ragged)
            else:
                rows = table
                numbers = np.arange(start, start + len(table))
                columns = [table.column(at).combine_chunks() for at in positions]
            if len(numbers):
                self._refuse_names(numbers, columns, positions)
                yield numbers, columns
            start += len(rows)
        if rest:
            raise self._unsound(read)

    def pieces(self) -> Iterator[tuple[int, str]]:
        """The text in pieces of whole lines, each with the number of lines above it."""
        above = 0
        for text in self._decoded():
            if "\0" in text:
                self._refuse_nul(above + 1 + text[: text.index("\0")].count("\n"))
            yield above, text
            above += _count(text)

    def _table(self, text: str) -> Any:
        """The rows of a text without quotes, as a table. None: some have other numbers of cells than there are columns."""
        names, raw = [str(at) for at in range(len(self.names))], text.encode()
        with suppress(pa.ArrowInvalid):
            return pa_csv.read_csv(
                pa.BufferReader(raw),
                pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(raw) + 1),
                pa_csv.ParseOptions(delimiter=self.delimiter),
                pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
            )
        return None

    def _rows(self, text: str, above: int) -> tuple[list[list[str]], int, str]:
        """The rows of a text that end in it, the lines above the rest, and the rest, whose quote is open. Raises DataError."""
        lines = _lines(text)
        rows, whole, wrong = _rows_of(lines, self.delimiter, strict=True)
        if wrong and ("unexpected end" not in wrong or len(text) > _LONGEST):
            raise self._unsound(above + whole)
        return rows, above + whole, "".join(lines[whole:])

    def _refuse_names(self, numbers: np.ndarray, columns: Sequence[Any], positions: Sequence[int]) -> None:
        """Raise DataError if a row holds the names of its columns, as where files were joined."""
        if len(positions) < 2:
            return
        found = np.arange(len(numbers))
        for position, column in zip(positions, columns, strict=True):
            texts = pc.utf8_trim_whitespace(column.take(found))
            found = found[pc.equal(texts, self.names[position]).to_numpy(zero_copy_only=False)]
            if not len(found):
                return
        raise DataError(
            f"{self.path}: row {numbers[found[0]]} (counted from 0) holds the names of the columns again. Delete it."
        )

    def _unsound(self, above: int) -> DataError:
        return DataError(
            f"{self.path}: this is no sound CSV: a quote after line {max(above, 1)} is not closed, or stands inside a value"
        )

    def _refuse_nul(self, line: int) -> None:
        if line == 1:
            raise DataError(f"{self.path}: the first line holds NUL bytes: save it as CSV UTF-8")
        raise DataError(f"{self.path}: line {line} holds a NUL byte: the file is damaged, write it again")

    def _decoded(self) -> Iterator[str]:
        """The text in pieces of whole lines."""
        rest, mark = b"", "\ufeff"
        with self._opened() as file:
            while chunk := file.read(_CHUNK):
                chunk = rest + chunk
                end = chunk.rfind(b"\n") + 1 or chunk[:-1].rfind(b"\r") + 1
                rest = chunk[end:]
                if end:
                    yield self._text(chunk[:end]).removeprefix(mark)
                    mark = ""
                elif len(rest) > _LONGEST:
                    raise DataError(f"{self.path}: a line has more than {_LONGEST:,} letters: the file is no table")
            if rest:
                yield self._text(rest).removeprefix(mark)

    def _text(self, raw: bytes) -> str:
        """Lines as text; those that are not UTF-8 are decoded anew."""
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.notes.add(LATIN)
            return "".join(map(decoded, raw.splitlines(keepends=True)))

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The file's bytes, decompressed; UTF-16 with its mark becomes UTF-8."""
        with sound(self.path, "the file cannot be read (it is cut or damaged)"), self.path.open("rb") as plain:
            begin = plain.read(2)
            plain.seek(0)
            is_packed = begin == b"\x1f\x8b" or self.path.suffix.lower() == ".gz"
            file: Any = gzip.GzipFile(fileobj=plain) if is_packed else plain
            if begin in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                file = codecs.EncodedFile(file, "utf-8", "utf-16")
            yield file


def decoded(raw: bytes) -> str:
    """Text in UTF-8; what is none is taken for Windows-1252."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _count(text: str) -> int:
    """The number of lines that end in a text."""
    return text.count("\n") or text.count("\r")


def _lines(text: str) -> list[str]:
    return io.StringIO(text, newline="").readlines()


def _rows_of(lines: Sequence[str], delimiter: str, *, strict: bool) -> tuple[list[list[str]], int, str]:
    """The rows of some lines that are not blank, how many lines they have, and what is wrong behind them."""
    rows: list[list[str]] = []
    whole, before = 0, csv.field_size_limit(_LONGEST)  # of the process: the default refuses a cell of 131,072 letters
    try:
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)
        for row in reader:
            whole = reader.line_num
            rows += [row] if row else []
    except csv.Error as error:
        return rows, whole, str(error)
    finally:
        csv.field_size_limit(before)
    return rows, whole, ""


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of one row."""
    rows, *_ = _rows_of([line], delimiter, strict=False)
    return rows[0] if rows else []


def _of_rows(path: Path, decimal: str) -> Sequence[str]:
    """The delimiters that a file without a header may have. No record decides which, if the decimal point is declared."""
    if ".tsv" in path.name.lower():
        return ("\t",)
    return {",": (";",), ".": (",",)}.get(decimal, (",", ";"))


def _refuse_title(path: Path, lines: Sequence[str], above: int, columns: int) -> None:
    """Raise DataError if the first line is one name, and the lines below are divided alike into more cells."""
    for mark in _DELIMITERS if columns == 1 else ():
        counts = [len(_cells(line, mark)) for line in lines[1 : _LOOKED_AT + 1]]
        first = next((at for at, count in enumerate(counts) if count > 1), len(counts))
        if len({*counts[first:]} - {0}) == 1:
            raise DataError(
                f"{path}: line {above + 1} has 1 name, and line {above + first + 2} has {counts[first]} values. Delete the "
                "title. If the first line names the only column, add `header=True`."
            )
