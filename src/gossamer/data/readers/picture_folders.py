"""Folders of pictures: class folders, with a folder per unit below each where that is asked for; a list; or no labels.

A list is metadata.csv or metadata.jsonl, as Hugging Face's imagefolder has it, or labels.csv.
"""

import csv
import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data import units
from gossamer.data.labels import NONE, numbered
from gossamer.data.problems import SHOWN, TABLES, TEXTS, Problems, no_pictures
from gossamer.data.readers import dicom
from gossamer.data.readers.image_files import KINDS, SUFFIXES, is_picture
from gossamer.errors import DataError

SPLITS = ("train", "test")
FOR_FOLDERS = "FILE.csv (name,unit), `folder` (class/unit/picture), '(PATTERN)' of the name or dicom:PatientID"
"""What --units says of pictures in folders."""
_LIKE_SPLITS = {*SPLITS, "training", "testing", "val", "valid", "validation", "dev", "eval", "holdout"}
"""Usual names of splits, in small letters."""
_PASSED_OVER = ("thumbs.db", "ehthumbs.db", "desktop.ini", dicom.INDEX)
"""Files of Windows, and the list that an archive writes beside DICOM files; in small letters."""
_ARRAYS = (".npz", ".csv")
"""Endings of files that are data sets by themselves."""
LABELS_CSV = "labels.csv"
LISTS = ("metadata.csv", "metadata.jsonl", LABELS_CSV)
_FILE = "file_name"
_NAMES = (_FILE, "name", "filename", "file", "image", "path")
"""Columns of labels.csv that may name the picture; the first of them that is there does."""


@dataclass(frozen=True)
class Listing:
    """The pictures of one split, in the order of their classes and names, or of a list.

    Args:
        folder: the folder that was listed.
        root: the same, or the folder of the split in it.
        paths: the pictures. [N]
        labels: int64 [N].
        units: the name of the folder between class and picture; "": there is none. [N]
        others: the pictures of the other split.
        class_names: what the labels are called, label 0 first; empty where labels are numbers.
        by_list: whether a list gave the labels.
    """

    folder: Path
    root: Path
    paths: list[Path]
    labels: np.ndarray
    units: list[str]
    others: list[Path]
    class_names: tuple[str, ...] = ()
    by_list: bool = False

    def names(self, paths: Sequence[Path]) -> list[str]:
        """Paths below the folder, with slashes."""
        return [path.relative_to(self.folder).as_posix() for path in paths]


def owners_of(listing: Listing, spec: str, missing: units.Missing) -> units.Units:
    """The units of pictures in folders. Only the heads of DICOM files are opened. Raises DataError, RequestError."""
    how = units.matched(spec)
    if how == "folder":
        if missing == "refuse" and not any(listing.units):
            raise DataError(
                f"{listing.folder}: `units=folder` needs a folder of each unit, DATA/CLASS/UNIT/picture, and there is none. "
                "Give `units` a FILE.csv with the columns name,unit"
            )
        return units.numbered(listing.units, missing, lambda at: str(listing.paths[at]))
    if how == "pattern":
        return units.from_pattern(spec, listing.names(listing.paths), missing)
    if how == "dicom":
        ids = dicom.texts(listing.paths, spec.removeprefix(units.DICOM))  # only a hash of each is kept
        return units.numbered([units.pseudonym(text) for text in ids], missing, lambda at: str(listing.paths[at]))
    if how == "position":
        raise DataError(f"{spec}: pictures in folders have no order, as an array needs: give `units={FOR_FOLDERS}`")
    return units.from_csv(Path(spec), listing.names(listing.paths), listing.names(listing.others), missing)


def list_pictures(
    folder: Path, split: str, *, must_split: bool, labels_key: str | None, unit_folders: bool = False
) -> Listing:
    """The pictures of one split, none of them opened.

    Args:
        folder: of the data set, or of its splits `train` and `test`.
        split: to list.
        must_split: refuse a folder without splits.
        labels_key: the column of labels in a list, whole numbers or names; None: `label`. "none": there are no labels.
        unit_folders: a class folder may hold folders of units with pictures.

    Raises:
        DataError: no pictures, or no such split. A damaged list, lines without picture, pictures without a line, one picture
            twice. No class folders, or other files in them.
    """
    if labels_key == NONE:
        splits = {name: folder / name for name in SPLITS if (folder / name).is_dir()}
        return _unlabelled(folder, *_parts(folder, split, must_split, splits))
    if has_list(folder):
        splits = {name: folder / name for name in SPLITS if _list_in(folder / name) is not None}
        return _listed(folder, *_parts(folder, split, must_split, splits), labels_key or "label")
    return _in_classes(folder, *_parts(folder, split, must_split, _split_folders(folder)), unit_folders)


def _parts(folder: Path, split: str, must_split: bool, splits: dict[str, Path]) -> tuple[Path, list[Path]]:
    """The folder of a split and that of the other; the folder itself and none, if it has no splits."""
    if (must_split or splits) and split not in splits:
        raise DataError(f"{folder}: there is no subfolder {split} with pictures: add it, or leave the split out")
    return splits.pop(split, folder), [*splits.values()]


def _unlabelled(folder: Path, root: Path, rest: list[Path]) -> Listing:
    """All pictures below a folder, sorted by their paths, in one class."""
    paths, others = _all_pictures(root), [path for other in rest for path in _all_pictures(other)]
    if not paths:
        raise DataError(f"{folder}: the folder holds no {KINDS}")
    return Listing(folder, root, paths, np.zeros(len(paths), np.int64), [""] * len(paths), others)


def _in_classes(folder: Path, root: Path, rest: list[Path], unit_folders: bool) -> Listing:
    """The pictures in class folders.

    The sorted names of the class folders give the labels from 0: first numbers, as numbers, then other names. An empty class
    folder counts. If the folder holds `train` and `test` only, the classes are those of both, and one split is read.
    """
    roots, problems = [root, *rest], Problems()
    names = sorted({name for other in roots for name in _subfolders(other)}, key=_place)
    if not names:
        raise _no_classes(folder)
    for path in (path for other in roots for path in _visible(other) if is_picture(path)):
        problems.add(path, "this picture lies beside the class folders and is of no class: move it")
    found = partial(_pictures, unit_folders=unit_folders, problems=problems)
    files = [(path, label) for label, name in enumerate(names) for path in found(root / name)]
    others = [path for other in rest for name in names for path in found(other / name)]
    problems.refuse()
    if not files:
        raise DataError(f"{root}: the class folders hold no {KINDS}")
    paths = [path for path, _ in files]
    labels = np.array([label for _, label in files], np.int64)
    own = [path.parent.name if path.parent.parent != root else "" for path in paths]
    return Listing(folder, root, paths, labels, own, others, tuple(names))


def _no_classes(folder: Path) -> DataError:
    """The error for a folder without class folders, with what may have been meant."""
    kinds = {path.suffix.lower(): path for path in sorted(folder.iterdir(), reverse=True)}
    if not {*SUFFIXES, *_ARRAYS} & {*kinds} and (unlike := {*TABLES, *TEXTS} & {*kinds}):
        return no_pictures(kinds[min(unlike)])
    single = [kinds[suffix] for suffix in _ARRAYS if suffix in kinds]
    hint = f"; or name the file that is meant, {single[0]}" if single else ""
    if any(is_picture(path) for path in folder.iterdir()):
        hint = "; or label them by a file labels.csv beside them, with the columns file_name and label"
    return DataError(
        f"{folder}: no class folders: put the pictures of each class into a folder of their own, optionally below train and "
        f"test; or say `labels_key=none` if there are no classes{hint}"
    )


def _split_folders(folder: Path) -> dict[str, Path]:
    """The split folders by name; empty where the subfolders are classes. Raises DataError: they look like other splits."""
    subfolders = _subfolders(folder)
    if not subfolders or not {name.casefold() for name in subfolders} <= _LIKE_SPLITS:
        return {}
    if others := ", ".join(sorted({*subfolders} - {*SPLITS})):
        raise DataError(
            f"{folder}: splits are called train and test, in small letters, and here is {others}: rename it, move it away, or "
            "name one folder"
        )
    return subfolders


def _visible(folder: Path) -> list[Path]:
    """What is in a folder, sorted, without hidden files."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _subfolders(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in _visible(folder) if path.is_dir()}


def _place(name: str) -> tuple[bool, int, str]:
    """The sort key of a class name: decimal numbers first, so that 10 comes after 9.

    It depends on no other name. Else the folder of one picture could change the order of all others, which a model shows.
    """
    number = name.isascii() and name.isdigit()
    return not number, int(name) if number else 0, name


def _pictures(folder: Path, unit_folders: bool, problems: Problems) -> list[Path]:
    """The files of one class, sorted. Hidden files and a few known others are passed over; the rest are problems."""
    pictures = []
    for path in _visible(folder) if folder.is_dir() else []:
        if path.is_dir() and unit_folders:
            pictures += _pictures(path, False, problems)
        elif is_picture(path):
            pictures.append(path)
        elif path.name.casefold() not in _PASSED_OVER:
            more = ", and a folder of each unit only with `units=folder`" if path.is_dir() else ""
            problems.add(path, f"a class folder holds {KINDS} only{more}: move it away")
    return pictures


def has_list(folder: Path) -> bool:
    """Whether a folder, or a split folder in it, holds a list of its pictures."""
    return any(_list_in(place) is not None for place in (folder, *(folder / split for split in SPLITS)))


def _listed(folder: Path, root: Path, rest: list[Path], key: str) -> Listing:
    """The pictures and their labels from the list, in the order of the list. key: the column of labels."""
    problems = Problems()
    listed = {place: dict(_rows(place, key, problems)) for place in (root, *rest)}
    problems.refuse()
    if not listed[root]:
        raise DataError(f"{root}: the list names no pictures")
    for place, rows in listed.items():
        _refuse_unlisted(place, rows)
    own = listed.pop(root)
    others = {path: label for rows in listed.values() for path, label in rows.items()}
    labels, names = numbered([*own.values()], [*others.values()], where=str(folder))
    return Listing(folder, root, [*own], labels, [""] * len(own), [*others], names, by_list=True)


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
