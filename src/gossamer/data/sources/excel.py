"""A sheet of an Excel file as a relation: each cell has the type that Excel gave it. The extra `excel` is needed."""

import itertools
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.columns.column import NUMBERED
from gossamer.data.sources.cells import of_objects
from gossamer.data.sources.names import READ_AGAIN, clean_names
from gossamer.data.sources.relation import Block, Relation
from gossamer.errors import DataError, RequestError

_ROWS = 1 << 13
_EMPTY_FORMULA = re.compile(rb"</f>(<v ?/>|<v></v>)?</c>|<f[^>]*/>(<v ?/>|<v></v>)?</c>")
"""A formula whose result no program has written into the file."""
_PIECE = 1 << 20


def open_excel(path: Path, sheet: str = "", *, header: bool | None) -> Relation:
    """Open a sheet of an .xlsx file. Errors such as #N/A are text.

    Args:
        path: the file.
        sheet: its name; empty: the first.
        header: False: the first row is no line of names.

    Raises:
        RequestError: openpyxl is not installed.
        DataError: a damaged file, no such sheet, a title above the names, or formulas without a result.
    """
    _refuse_formulas(path)
    with _rows(path, sheet) as rows:
        above = [*itertools.islice(rows, 3)]
    if not above or not any(cell is not None for cell in above[0]):
        raise DataError(f"{path}: the sheet is empty, or its first row is: the first row must name the columns")
    widths = [max(at for at, cell in enumerate((0, *row)) if cell is not None) for row in above]
    if widths[0] == 1 < widths[-1] and header is None:
        raise DataError(
            f"{path}: row 1 has 1 name, and row {len(above)} has {widths[-1]} values. Delete the title above the names."
        )
    width = max(widths) if header is False else widths[0]
    names = [NUMBERED.format(at + 1) if header is False else "" for at in range(width)]
    for at, cell in enumerate(above[0][:width] if header is not False else ()):
        names[at] = "" if cell is None else str(cell)
    relation = Relation(clean_names(names), lambda positions: blocks(positions), remedy=READ_AGAIN)

    def blocks(positions: Sequence[int]) -> Iterator[Block]:
        start = 0
        relation.ragged.clear()
        with _rows(path, sheet) as rows:
            if header is not False:
                next(rows)
            filled = (row for row in rows if any(cell is not None for cell in row))
            while block := [*itertools.islice(filled, _ROWS)]:
                fits = np.array([not any(cell is not None for cell in row[width:]) for row in block])
                numbers = np.arange(start, start + len(block))
                relation.ragged += numbers[~fits].tolist()
                whole = [(*row, *[None] * (width - len(row))) for row, fit in zip(block, fits, strict=True) if fit]
                if whole:
                    yield numbers[fits], [of_objects([row[at] for row in whole]) for at in positions]
                start += len(block)

    return relation


@contextmanager
def _rows(path: Path, sheet: str) -> Iterator[Iterator[tuple[Any, ...]]]:
    """The rows of a sheet. Raises DataError."""
    try:
        from openpyxl import load_workbook  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise RequestError(".xlsx files need openpyxl: pip install 'gossamer[excel]'") from None
    try:
        with closing(load_workbook(path, read_only=True, data_only=True)) as book:
            if sheet and sheet not in book.sheetnames:
                raise DataError(f"{path}: there is no sheet {sheet!r}; the sheets are: {', '.join(book.sheetnames)}")
            found = book[sheet] if sheet else book.worksheets[0]
            found.reset_dimensions()  # some programs write wrong ones, and rows would be left out
            with closing(found.iter_rows(values_only=True)) as rows:  # it keeps the file open
                yield rows
    except DataError:
        raise
    except Exception as error:  # what openpyxl raises on damaged files is open-ended
        raise DataError(f"{path}: the file cannot be read ({type(error).__name__}): copy or write it again") from None


def _refuse_formulas(path: Path) -> None:
    """Raise DataError if a formula has no result: openpyxl reads it as a missing value."""
    try:
        with zipfile.ZipFile(path) as packed:
            for name in packed.namelist():
                with packed.open(name) as file:
                    last = b""
                    while name.startswith("xl/worksheets/") and (piece := file.read(_PIECE)):
                        if _EMPTY_FORMULA.search(last + piece):
                            raise DataError(
                                f"{path}: formulas have no result in the file. Open it in a spreadsheet program, and save it."
                            )
                        last = piece[-64:]
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: the file cannot be read ({type(error).__name__}): copy or write it again") from None
