"""Lists of pictures: tables with a column of their names, and one of their labels or units."""

import math
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
            else all other columns, if they hold nothing but 0 and 1.
        problems: takes the rows that are not read.

    Raises:
        DataError: the list cannot be read, or lacks a column.
    """
    opened = open_json_lines(path) if path.suffix == ".jsonl" else open_text(path, (*NAMES, key or LABEL))
    names, wanted = [name.casefold() for name in opened.names], (key or LABEL).casefold().split(",")
    at = next((names.index(name) for name in NAMES if name in names and name not in wanted), None)
    unlike = DataError(
        f"{path}: the first line must name a column of pictures ({NAMES[0]}) and a column {key or LABEL}, and it names "
        f"{', '.join(opened.names)}. Rename them, or name that of the labels with `labels_key`. One-hot labels are several "
        "columns that hold one 1 in each row, and 0 elsewhere"
    )
    there = {*wanted} <= {*names}
    keys = [names.index(name) for name in wanted] if there else [each for each in range(len(names)) if each != at]
    if at is None or not keys or (not there and (key or len(keys) == 1)):
        raise unlike
    places, found = _Places(pictures), dict[str, tuple[str, int]]()
    for row, name, cells in _rows(opened, [at, *keys]):
        place, matches, wrong = f"{path}, row {row} (counted from 0)", places.find(name), ""
        hot = [*map(_number, cells)] if len(keys) > 1 else []
        if {*hot} - {0, 1}:
            raise unlike
        if not matches:
            wrong = "there is no such picture: correct the row, or take it out"
        elif len(matches) > 1:
            wrong = "several pictures have this name: give their paths below the folder of the list"
        elif matches[0] in found:
            wrong = f"row {found[matches[0]][1]} names this picture too: keep one"
        elif hot and sum(hot) != 1:
            wrong = "one-hot labels hold one 1 in each row"
        if wrong:
            problems.add(place, wrong)
        else:
            found[matches[0]] = opened.names[keys[hot.index(1)]] if hot else str(cells[0] or ""), row
    for row in opened.ragged:
        problems.add(f"{path}, row {row} (counted from 0)", "it has another number of cells than the first line")
    return found


def _rows(opened: Relation, positions: Sequence[int]) -> Iterator[tuple[int, str, list[Any]]]:
    """The number of each row, the name of its picture, and its labels or its unit."""
    for numbers, columns in opened.blocks(positions):
        cells = [column.to_pylist() for column in columns]
        for row, (name, *values) in zip(numbers.tolist(), zip(*cells, strict=True), strict=True):
            yield row, str(name or "").strip(), values


def _number(cell: Any) -> float:
    """The number in a cell; NaN: there is none."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan
