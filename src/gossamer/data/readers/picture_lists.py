"""Lists of pictures: tables with a column of their names, and one of their labels or units."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from gossamer.data.labels import label_text
from gossamer.data.problems import Problems
from gossamer.data.sources.json_lines import open_json_lines
from gossamer.data.sources.relation import Relation
from gossamer.data.sources.text_file import open_text
from gossamer.errors import DataError

NAMES = ("file_name", "name", "filename", "file", "image", "image_name", "image_id", "path")
"""Columns that may name the picture, in any case; the first of them that is there does."""
LABEL = "label"


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
            else all other columns as one-hot labels.
        problems: takes the rows that are not read.

    Raises:
        DataError: the list cannot be read, or lacks a column.
    """
    opened = open_json_lines(path) if path.suffix == ".jsonl" else open_text(path, (*NAMES, key or LABEL))
    at, keys = _positions(opened, path, key)
    places, found = _Places(pictures), dict[str, tuple[str, int]]()
    for row, name, cells in _rows(opened, [at, *keys]):
        matches, wrong = places.find(name), ""
        if not matches:
            wrong = "there is no such picture: correct the row, or take it out"
        elif len(matches) > 1:
            wrong = "several pictures have this name: give their paths below the folder of the list"
        elif matches[0] in found:
            wrong = f"row {found[matches[0]][1]} names this picture too: keep one"
        try:
            label = label_text(cells[0]) if len(keys) == 1 else _hot(cells, [opened.names[column] for column in keys])
        except ValueError as error:
            wrong = wrong or str(error)
        if wrong:
            problems.add(f"{path}, row {row} (counted from 0)", wrong)
        else:
            found[matches[0]] = label, row
    for row in opened.ragged:
        problems.add(f"{path}, row {row} (counted from 0)", "it has another number of cells than the first line")
    return found


def _positions(opened: Relation, path: Path, key: str | None) -> tuple[int, list[int]]:
    """The position of the names of pictures, and of their labels or units. Raises DataError."""
    names = [name.casefold() for name in opened.names]
    wanted = [each.strip().casefold() for each in (key or LABEL).split(",")]
    at = next((names.index(name) for name in NAMES if name in names and name not in wanted), None)
    if {*wanted} <= {*names}:
        keys = [names.index(name) for name in wanted]
    else:
        keys = [column for column in range(len(names)) if column != at and not key]
    if at is None or not keys or (wanted != [names[column] for column in keys] and len(keys) == 1):
        raise DataError(
            f"{path}: the first line must name a column of pictures ({NAMES[0]}) and a column {key or LABEL}, and it names "
            f"{', '.join(opened.names) or 'none'}. Rename them, or name that of the labels with `labels_key`"
        )
    return at, keys


def _rows(opened: Relation, positions: Sequence[int]) -> Iterator[tuple[int, str, list[Any]]]:
    """The number of each row, the name of its picture, and its labels or its unit."""
    for numbers, columns in opened.blocks(positions):
        cells = [column.to_pylist() for column in columns]
        for row, (name, *values) in zip(numbers.tolist(), zip(*cells, strict=True), strict=True):
            yield row, str(name or "").strip(), values


def _hot(cells: Sequence[Any], names: Sequence[str]) -> str:
    """The name of the column that holds the 1 of a row. Raises ValueError: another is not 0, or there is none."""
    try:
        numbers = [float(cell) for cell in cells]
    except (TypeError, ValueError):
        numbers = []
    if sorted(numbers) != [0] * (len(cells) - 1) + [1]:
        raise ValueError(
            f"the columns {', '.join(names)} are read as one-hot labels, because no column is called {LABEL}: one 1 in each "
            "row, and 0 elsewhere. `labels_key` names another column"
        )
    return names[numbers.index(1)]
