"""A sheet of an Excel file as a relation: each cell has the type that Excel gave it. The extra `excel` is needed."""

import itertools
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gossamer.data.columns.column import NUMBERED
from gossamer.data.problems import sound
from gossamer.data.sources.blocks import from_rows
from gossamer.data.sources.relation import Relation
from gossamer.errors import DataError, RequestError

_EMPTY_FORMULA = re.compile(rb"</f>(<v ?/>|<v></v>)?</c>|<f[^>]*/>(<v ?/>|<v></v>)?</c>")
"""A formula whose result no program has written into the file."""
_PIECE = 1 << 20
_UNSOUND = "this is no sound .xlsx file, or has a password. Save it again."


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
            f"{path}: row 1 has 1 name, and row {len(above)} has {widths[-1]} values. Delete the title above."
        )
    if header is False:
        names = [NUMBERED.format(at + 1) for at in range(max(widths))]
    else:
        names = ["" if cell is None else str(cell) for cell in above[0][: widths[0]]]

    def filled() -> Iterator[Sequence[Any]]:
        with _rows(path, sheet) as rows:
            for row in itertools.islice(rows, int(header is not False), None):
                if any(cell is not None for cell in row):
                    yield *row, *[None] * (len(names) - len(row))

    return from_rows(names, filled)


@contextmanager
def _rows(path: Path, sheet: str) -> Iterator[Iterator[tuple[Any, ...]]]:
    """The rows of a sheet. Raises DataError."""
    try:
        from openpyxl import load_workbook  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise RequestError(".xlsx files need openpyxl: pip install 'gossamer[excel]'") from None
    with sound(path, _UNSOUND), closing(load_workbook(path, read_only=True, data_only=True)) as book:
        if sheet and sheet not in book.sheetnames:
            raise DataError(f"{path}: there is no sheet {sheet!r}; the sheets are: {', '.join(book.sheetnames)}")
        found = book[sheet] if sheet else book.worksheets[0]
        found.reset_dimensions()  # some programs write wrong ones, and rows would be left out
        with closing(found.iter_rows(values_only=True)) as rows:  # it keeps the file open
            yield rows


def _refuse_formulas(path: Path) -> None:
    """Raise DataError if a formula has no result: openpyxl reads it as a missing value."""
    with sound(path, _UNSOUND), zipfile.ZipFile(path) as packed:
        for name in packed.namelist():
            with packed.open(name) as file:
                last = b""
                while name.startswith("xl/worksheets/") and (piece := file.read(_PIECE)):
                    if _EMPTY_FORMULA.search(last + piece):
                        raise DataError(
                            f"{path}: formulas have no result in the file. Open it in a spreadsheet program, and save it."
                        )
                    last = piece[-64:]
