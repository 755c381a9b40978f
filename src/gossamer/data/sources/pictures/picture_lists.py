"""Lists of pictures: tables with a column of their names, and one of their labels or units."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from gossamer.data.problems import Problems
from gossamer.data.sources.json_lines import open_json_lines
from gossamer.data.sources.relation import Relation
from gossamer.data.sources.text_file import open_text
from gossamer.errors import DataError

NAMES = ("file_name", "name", "filename", "file", "image", "image_name", "image_id", "path")
"""Columns that may name the picture, in any case; the first of them that is there does."""
LABEL, UNIT = "label", "unit"
_HOT = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}


class _Places:
    """Finds pictures by what lists call them.

    Args:
        pictures: paths below the folder, with slashes.
    """

    def __init__(self, pictures: Sequence[str]) -> None:
        self._there = {*pictures}
        self._near = defaultdict[str, list[str]](list)
        for picture in pictures:
            path = PurePosixPath(picture)
            for name in {path.name, path.stem, str(path.with_suffix(""))} - {picture}:
                self._near[name].append(picture)

    def find(self, name: str) -> list[str]:
        """The pictures of this path; else those of this file name, or of this name without its ending."""
        name = str(PurePosixPath(name if name in self._there else name.replace("\\", "/")))
        return [name] if name in self._there else self._near[name]


def read_list(path: Path, pictures: Sequence[str], key: str | None, problems: Problems) -> dict[str, tuple[str, int]]:
    """The label or unit of each picture that a list names, as text, and its row, counted from 0; in the order of the list.

    A list is read as any table is. A picture may be called by its path below the folder, by its file name if no other has it,
    or by either without the ending. A backslash is a slash.

    Args:
        path: a .csv or .jsonl file.
        pictures: paths below the folder, with slashes.
        key: the column with the label or the unit; or, for one-hot labels, several with commas between. None: `label`, or
            else all other columns, if they hold nothing but 0 and 1.
        problems: takes the rows that are not read.

    Raises:
        DataError: the list cannot be read, or lacks a column.
    """
    opened = open_json_lines(path) if path.suffix == ".jsonl" else open_text(path, (*NAMES, key or LABEL))
    positions = _positions(opened.names, key)
    called = [opened.names[at] for at in positions[1:]]
    if len(positions) < 2 or (len(called) == 1 and called[0].casefold() != (key or LABEL).casefold()):
        raise _unlike(path, opened.names, key)
    places = _Places(pictures)
    found = dict[str, tuple[str, int]]()
    for row, name, *cells in _rows(opened, positions):
        matches = places.find(name.strip())
        label, wrong = cells[0], ""
        if len(cells) > 1:
            hot = [_HOT.get(cell.strip().casefold()) for cell in cells]
            if None in hot:
                raise _unlike(path, opened.names, key)
            if hot.count(True) == 1:
                label = called[hot.index(True)]
            else:
                wrong = "one-hot labels hold one 1 in each row"
        if not matches:
            wrong = "there is no such picture: correct the row, or take it out"
        elif len(matches) > 1:
            wrong = "several pictures have this name: give their paths below the folder of the list"
        elif matches[0] in found:
            wrong = f"row {found[matches[0]][1]} names this picture too: keep one"
        if wrong:
            problems.add(_place(path, row), wrong)
        else:
            found[matches[0]] = label, row
    for row in opened.ragged:
        problems.add(_place(path, row), "it has another number of cells than the first line")
    return found


def _positions(names: Sequence[str], key: str | None) -> list[int]:
    """The position of the names of pictures, then those of their labels or units; fewer: there are none."""
    names = [name.casefold() for name in names]
    wanted = (key or LABEL).casefold()
    several = [wanted] if wanted in names else wanted.split(",")
    at = next((names.index(name) for name in NAMES if name in names and name not in several), None)
    if at is None:
        return []
    if {*several} <= {*names}:
        return [at, *map(names.index, several)]
    return [at, *(other for other in range(len(names)) if other != at and key is None)]


def _unlike(path: Path, names: Sequence[str], key: str | None) -> DataError:
    """The error for a list without a column that it needs."""
    others = (
        ", or name that of the labels with `labels_key`. One-hot labels are several columns that hold one 1 in each row, and 0 "
        "elsewhere"
    )
    return DataError(
        f"{path}: the first line must name a column of pictures ({NAMES[0]}) and a column {key or LABEL}, and it names "
        f"{', '.join(names)}. Rename them{others if key != UNIT else ''}"
    )


def _place(path: Path, row: int) -> str:
    return f"{path}, row {row} (counted from 0)"


def _rows(opened: Relation, positions: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """The number of each row, the name of its picture, and its labels or its unit, as text."""
    for numbers, columns in opened.blocks(positions):
        cells = [["" if cell is None else str(cell) for cell in column.to_pylist()] for column in columns]
        yield from zip(numbers.tolist(), *cells, strict=True)
