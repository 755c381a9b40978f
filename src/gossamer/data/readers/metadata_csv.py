"""Pictures that a list labels, or that nothing labels.

A list is metadata.csv or metadata.jsonl, as Hugging Face's imagefolder has it, or labels.csv.
"""

import csv
import json
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.labels import numbered
from gossamer.data.problems import SHOWN, Problems
from gossamer.data.readers.class_folders import SPLITS, Listing
from gossamer.data.readers.image_files import KINDS, is_picture
from gossamer.errors import DataError

LABELS_CSV = "labels.csv"
LISTS = ("metadata.csv", "metadata.jsonl", LABELS_CSV)

_FILE = "file_name"
_NAMES = (_FILE, "name", "filename", "file", "image", "path")
"""Columns of labels.csv that may name the picture; the first of them that is there does."""


def has_list(folder: Path) -> bool:
    """Whether a folder, or a split folder in it, holds a list of its pictures."""
    return any(_list_in(place) is not None for place in (folder, *(folder / split for split in SPLITS)))


def read_list(folder: Path, split: str, *, must_split: bool, labels_key: str | None) -> Listing:
    """The pictures of one split and their labels from the list, in the order of the list, none of them opened.

    The list is in the folder, or in its subfolders train and test.
    labels_key: the column of labels, whole numbers or names; None: `label`.

    Raises:
        DataError: a damaged list, lines without picture, pictures without a line, one picture twice, or no such split.
    """
    root, rest = _roots(folder, split, must_split, lambda subfolder: _list_in(subfolder) is not None)
    problems = Problems()
    listed = {place: dict(_rows(place, labels_key or "label", problems)) for place in (root, *rest)}
    problems.refuse()
    if not listed[root]:
        raise DataError(f"{root}: the list names no pictures")
    for place, rows in listed.items():
        _refuse_unlisted(place, rows)
    own = listed.pop(root)
    others = {path: label for rows in listed.values() for path, label in rows.items()}
    labels, names = numbered([*own.values()], [*others.values()], where=str(folder))
    return Listing(folder, root, [*own], labels, [""] * len(own), [*others], names)


def _refuse_unlisted(folder: Path, listed: Container[Path]) -> None:
    """Refuse a list that leaves pictures out: nobody would see that they are missing."""
    there = _all_pictures(folder)
    if left_out := [path for path in there if path not in listed]:
        first = ", ".join(path.relative_to(folder).as_posix() for path in left_out[:SHOWN])
        more = f" and {len(left_out) - SHOWN:,} more" if len(left_out) > SHOWN else ""
        raise DataError(
            f"{_list_in(folder)}: the list names {len(there) - len(left_out):,} of the {len(there):,} pictures in its folder. "
            f"Add a line for each of the others, or move them away: {first}{more}"
        )


def unlabelled(folder: Path, split: str, *, must_split: bool) -> Listing:
    """All pictures below a folder, sorted by their paths, in one class. Raises DataError: there are none, or no such split."""
    root, rest = _roots(folder, split, must_split, Path.is_dir)
    paths = _all_pictures(root)
    if not paths:
        raise DataError(f"{folder}: the folder holds no {KINDS}")
    others = [path for other in rest for path in _all_pictures(other)]
    return Listing(folder, root, paths, np.zeros(len(paths), np.int64), [""] * len(paths), others)


def _roots(folder: Path, split: str, must_split: bool, has: Callable[[Path], bool]) -> tuple[Path, list[Path]]:
    """The folder of a split and those of the other; the folder itself and none, if it has no splits."""
    roots = {name: folder / name for name in SPLITS if has(folder / name)}
    if (must_split or roots) and split not in roots:
        raise DataError(f"{folder}: there is no subfolder {split} (with a list): add it, or leave the split out")
    return roots.pop(split, folder), list(roots.values())


def _all_pictures(root: Path) -> list[Path]:
    """Sorted. Hidden files and folders are passed over."""
    there = (path for path in root.rglob("*") if not any(part.startswith(".") for part in path.relative_to(root).parts))
    return sorted(path for path in there if path.name not in LISTS and is_picture(path))


def _list_in(folder: Path) -> Path | None:
    """The list of a folder's pictures, which names their column: a list of units does not."""
    for path in (folder / name for name in LISTS):
        if path.is_file():
            with path.open("rb") as file:
                head = file.read(1 << 12)
            if path.name == LABELS_CSV or _FILE.encode() in head:
                return path
    return None


def _rows(folder: Path, key: str, problems: Problems) -> Iterator[tuple[Path, str]]:
    """The picture and the label of each line of a folder's list; other lines are problems."""
    where = _list_in(folder)
    assert where is not None
    line_of: dict[Path, int] = {}
    try:
        with where.open(encoding="utf-8-sig", newline="") as file:
            for line, column, row in _lines(file, where, key, problems):
                name, label = row.get(column), row.get(key)
                wrong = ""
                if not isinstance(name, str) or not name or key not in row or not isinstance(label, str | int | None):
                    name = ""
                    wrong = (
                        f"the columns {column} and {key} are needed, with a picture and a number or name; "
                        "`labels_key` names another column"
                    )
                elif Path(name).is_absolute() or ".." in Path(name).parts:
                    wrong = f"{column} is the path of a picture below the list's folder"
                elif folder / name in line_of:
                    wrong = f"line {line_of[folder / name]} names this picture too: keep one"
                elif not (folder / name).is_file():
                    wrong = "there is no such picture: correct the line, or take it out"
                elif not is_picture(folder / name):
                    wrong = f"{column} is the path of a picture below the list's folder"
                if wrong:
                    problems.add(f"{where}, line {line}", wrong)
                    continue
                line_of[folder / name] = line
                yield folder / name, "" if label is None else str(label)
    except (csv.Error, ValueError, RecursionError):  # also what is not UTF-8
        raise DataError(f"{where}: the list is not sound: write it anew in UTF-8, as CSV or lines of JSON") from None


def _column_of_names(columns: Sequence[str], where: Path, key: str) -> str:
    """The column with the names of the pictures. Raises DataError: labels.csv lacks it, or the column of labels."""
    if where.name != LABELS_CSV:
        return _FILE
    column = next((name for name in _NAMES if name in columns and name != key), None)
    if column is None or key not in columns:
        raise DataError(
            f"{where}: the first line must name a column of pictures ({_FILE}) and one of labels ({key}), and it names "
            f"{', '.join(columns) or 'none'}. Rename them, or name that of the labels with `labels_key`"
        )
    return column


def _lines(file: Any, where: Path, key: str, problems: Problems) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The number of each line, the column with the name of its picture, and its fields; other lines are problems."""
    if where.suffix == ".csv":
        rows = csv.DictReader(file, skipinitialspace=True, strict=True)
        column = _column_of_names(rows.fieldnames or [], where, key)
        for row in rows:
            if None in row or None in row.values():
                problems.add(f"{where}, line {rows.line_num}", "the line does not fit the first one")
            else:
                yield rows.line_num, column, row
        return
    for line, text in enumerate(file, 1):
        if text.strip():
            row = json.loads(text)
            if isinstance(row, dict):
                yield line, _FILE, row
            else:
                problems.add(f"{where}, line {line}", "a line is a JSON object in braces")
