"""Text files of tables (CSV, TSV) as relations: every cell is text, as it is written.

The first line, which is no record, decides the delimiter. Of a file without such a line, name and declared decimal point do.
Each line is decoded by itself. So no record changes how the others are read.
"""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.columns.column import NUMBERED, is_numbered
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
        wanted: names of columns. The delimiter is the one by which the first line has the most of them; of none, the one by
            which it has the most names. A first line `sep=;`, as Excel writes it, decides instead, and names nothing.
        header: whether the first line names the columns. If not, they are called column_1, column_2 and so on. None: it does,
            and a title in its place is refused.
        decimal: the decimal point, which decides the delimiter of a file without a header. Empty: the first line does.

    Raises:
        DataError: the file cannot be read, or is empty; with the blocks: what is no sound text or CSV, by line.
    """
    file = TextFile(path)
    lines: list[str] = []
    for piece in file.pieces():
        lines += io.StringIO(piece, newline="").readlines()
        if len(lines) > _LOOKED_AT:
            break
    marked = lines[0].rstrip("\r\n").casefold() if lines else ""
    file.skipped = int(marked[:4] == "sep=" and len(marked) == 5)
    lines = lines[file.skipped :]
    if not lines or not lines[0].strip():
        raise DataError(f"{path}: the file is empty, or its first line is: the first line must name the columns")
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
        start, skipped = 0, self.skipped
        self.ragged.clear()
        for piece in self.pieces():
            lines = io.StringIO(piece, newline="").readlines() if skipped else []
            text = "".join(lines[skipped:]) if skipped else piece
            skipped = max(skipped - len(lines), 0)
            if text.strip("\r\n"):
                table, misfits = self._parsed(text)
                count = len(table) + len(misfits)
                numbers, table = self._mended(table, misfits, start)
                columns = [table.column(at).combine_chunks() for at in positions]
                self._refuse_names(numbers, columns, positions)
                if len(numbers):
                    yield numbers, columns
                start += count

    def pieces(self) -> Iterator[str]:
        """The text in pieces: of whole rows, if the delimiter is known."""
        line, rest = 1, ""
        for piece in self._decoded():
            if "\0" in piece:
                self._refuse_nul(piece, line)
            text, rest = rest + piece, ""
            if self.delimiter and '"' in text:
                text, rest = self._whole_rows(text, line)
            line += text.count("\n") or text.count("\r")
            if text:
                yield text
        if rest:
            raise self._unsound(line)

    def _parsed(self, text: str) -> tuple[Any, dict[int, list[str]]]:
        """The rows of a piece with as many cells as there are columns, a table; and the others by number."""
        misfits: dict[int, list[str]] = {}

        def keep(row: Any) -> str:
            misfits[row.number - 1] = _cells(row.text, self.delimiter)
            return "skip"

        names, raw = [str(at) for at in range(len(self.names))], text.encode()
        table = pa_csv.read_csv(
            pa.BufferReader(raw),
            pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(raw) + 1),
            pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=keep),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
        return table, misfits

    def _mended(self, table: Any, misfits: dict[int, list[str]], start: int) -> tuple[np.ndarray, Any]:
        """The numbers of the rows that fit, and their cells. Delimiters at the end of a row count for nothing."""
        numbers = np.delete(np.arange(len(table) + len(misfits)), [*misfits])
        width = len(self.names)
        mended = {at: cells[:width] for at, cells in misfits.items() if cells[width:] and not any(cells[width:])}
        self.ragged += [start + at for at in misfits if at not in mended]
        if mended:
            columns = [pa.array(cells, pa.string()) for cells in zip(*mended.values(), strict=True)]
            numbers = np.append(numbers, [*mended])
            order = np.argsort(numbers)
            table = pa.concat_tables([table, pa.table(columns, names=table.column_names)]).take(order)
            numbers = numbers[order]
        return numbers + start, table

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
            f"{self.path}: row {numbers[found[0]]} (counted from 0) holds the names of the columns again, as where two files "
            "were joined. Delete such lines."
        )

    def _whole_rows(self, text: str, line: int) -> tuple[str, str]:
        """The rows of a text that end in it, and the rest, which begins with a row whose quote is open. Raises DataError.

        pyarrow takes quotes as they come, and a space before them for text. Where there are some, they are written anew.
        """
        lines = io.StringIO(text, newline="").readlines()
        reader = csv.reader(lines, delimiter=self.delimiter, skipinitialspace=True, strict=True)
        csv.field_size_limit(_LONGEST)  # of the process: the default refuses a cell of 131,072 letters
        rows, whole, is_spaced = [], 0, ' "' in text
        try:
            for row in reader:
                whole = reader.line_num
                if is_spaced and row:
                    rows.append(row)
        except csv.Error as error:
            if "unexpected end" not in str(error) or len(text) > _LONGEST:
                raise self._unsound(line + whole) from None
        rest = "".join(lines[whole:])
        if not is_spaced:
            return text[: len(text) - len(rest)], rest
        written = io.StringIO()
        csv.writer(written, delimiter=self.delimiter, lineterminator="\n").writerows(rows)
        return written.getvalue(), rest

    def _unsound(self, line: int) -> DataError:
        return DataError(
            f"{self.path}: the file is no sound CSV: a quote after line {max(line - 1, 1)} is not closed, or stands inside a "
            "value. Write the file again."
        )

    def _refuse_nul(self, text: str, line: int) -> None:
        line += text[: text.index("\0")].count("\n")
        if line == 1:
            raise DataError(
                f"{self.path}: the first line holds NUL bytes, so this is no text in UTF-8: save it as CSV UTF-8"
            )
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
        try:
            with self.path.open("rb") as plain:
                begin = plain.read(2)
                plain.seek(0)
                is_packed = begin == b"\x1f\x8b" or self.path.suffix.lower() == ".gz"
                file: Any = gzip.GzipFile(fileobj=plain) if is_packed else plain
                if begin in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                    file = codecs.EncodedFile(file, "utf-8", "utf-16")
                yield file
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is cut or damaged"
            raise DataError(f"{self.path}: the file cannot be read ({why}).") from None


def decoded(raw: bytes) -> str:
    """Text in UTF-8; what is none is taken for Windows-1252."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of one row."""
    csv.field_size_limit(_LONGEST)
    return next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter, skipinitialspace=True), [])


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
                "title above the names. If the first line names the only column, add `header=True`."
            )
