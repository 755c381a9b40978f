"""A folder of class folders of pictures, with a folder per unit below each class where that is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gossamer.data.problems import TABLES, TEXTS, Problems, no_pictures
from gossamer.data.readers import dicom
from gossamer.data.readers.image_files import KINDS, SUFFIXES, is_picture
from gossamer.errors import DataError

SPLITS = ("train", "test")
_LIKE_SPLITS = {*SPLITS, "training", "testing", "val", "valid", "validation", "dev", "eval", "holdout"}
"""Usual names of splits, in small letters."""
_PASSED_OVER = ("thumbs.db", "ehthumbs.db", "desktop.ini", dicom.INDEX)
"""Files of Windows, and the list that an archive writes beside DICOM files; in small letters."""
_ARRAYS = (".npz", ".csv")
"""Endings of files that are data sets by themselves."""


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
    """

    folder: Path
    root: Path
    paths: list[Path]
    labels: np.ndarray
    units: list[str]
    others: list[Path]
    class_names: tuple[str, ...] = ()

    def names(self, paths: Sequence[Path]) -> list[str]:
        """Paths below the folder, with slashes."""
        return [path.relative_to(self.folder).as_posix() for path in paths]


def list_folder(folder: Path, split: str, *, must_split: bool, unit_folders: bool = False) -> Listing:
    """The pictures of one split, none of them opened.

    The sorted names of the class folders give the labels from 0: first numbers, as numbers, then other names. An empty class
    folder counts. If the folder holds `train` and `test` only, the classes are those of both, and one split is read.

    Args:
        folder: of the data set.
        split: to list.
        must_split: refuse a folder without splits.
        unit_folders: a class folder may hold folders of units with pictures.

    Raises:
        DataError: no class folders, no pictures, or other files.
    """
    splits = _split_folders(folder)
    if must_split and split not in splits:
        raise DataError(f"{folder}: there is no subfolder {split}: leave the split out, or make the subfolder")
    roots = list(splits.values()) or [folder]
    names = sorted({path.name for other in roots for path in _subfolders(other)}, key=_place)
    root = splits.get(split) if splits else folder
    if root is None or not names:
        single = sorted(path for path in folder.iterdir() if path.suffix.lower() in _ARRAYS)
        hint = f"; or name the file that is meant, {single[0]}" if single else ""
        if any(is_picture(path) for path in folder.iterdir()):
            hint = "; or label them by a file labels.csv beside them, with the columns file_name and label"
        kinds = {path.suffix.lower(): path for path in folder.iterdir()}
        if not {*SUFFIXES, *_ARRAYS} & {*kinds} and (unlike := {*TABLES, *TEXTS} & {*kinds}):
            raise no_pictures(kinds[min(unlike)])
        raise DataError(
            f"{folder}: no {'subfolder ' + split if splits else 'class folders'}: put the pictures of each class into a folder "
            f"of their own, optionally below train and test; or say `labels_key=none` if there are no classes{hint}"
        )
    problems = Problems()
    for other in roots:
        _find_loose(other, problems)
    found = partial(_pictures, unit_folders=unit_folders, problems=problems)
    files = [(path, label) for label, name in enumerate(names) for path in found(root / name)]
    others = [path for other in roots if other != root for name in names for path in found(other / name)]
    problems.refuse()
    if not files:
        raise DataError(f"{root}: the class folders hold no {KINDS}")
    return Listing(
        folder,
        root,
        paths=[path for path, _ in files],
        labels=np.array([label for _, label in files], np.int64),
        units=[path.parent.name if path.parent.parent != root else "" for path, _ in files],
        others=others,
        class_names=tuple(names),
    )


def _split_folders(folder: Path) -> dict[str, Path]:
    """The split folders by name; empty where the subfolders are classes. Raises DataError: they look like other splits."""
    subfolders = {path.name: path for path in _subfolders(folder)}
    if subfolders and {name.casefold() for name in subfolders} <= _LIKE_SPLITS and not set(subfolders) <= set(SPLITS):
        others = ", ".join(sorted(set(subfolders) - set(SPLITS)))
        raise DataError(
            f"{folder}: splits are called train and test, in small letters, and here is {others}: rename it, move it away, or "
            "name one folder"
        )
    return subfolders if subfolders and set(subfolders) <= set(SPLITS) else {}


def _find_loose(root: Path, problems: Problems) -> None:
    """Add the pictures beside the class folders, which have no class."""
    for path in sorted(path for path in root.iterdir() if is_picture(path)):
        if not path.name.startswith("."):
            problems.add(path, "this picture lies beside the class folders and is of no class: move it")


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _place(name: str) -> tuple[bool, int, str]:
    """The sort key of a class name: decimal numbers first, so that 10 comes after 9.

    It depends on no other name. Else the folder of one picture could change the order of all others, which a model shows.
    """
    number = name.isascii() and name.isdigit()
    return not number, int(name) if number else 0, name


def _pictures(folder: Path, unit_folders: bool, problems: Problems) -> list[Path]:
    """The files of one class, sorted. Hidden files and a few known others are passed over; the rest are problems."""
    if not folder.is_dir():
        return []
    pictures = []
    there = (path for path in folder.iterdir() if path.name.casefold() not in _PASSED_OVER)
    for path in sorted(path for path in there if not path.name.startswith(".")):
        if path.is_dir() and unit_folders:
            pictures += _pictures(path, False, problems)
        elif is_picture(path):
            pictures.append(path)
        else:
            units = ", and a folder of each unit only with `units=folder`" if path.is_dir() else ""
            problems.add(path, f"a class folder holds {KINDS} only{units}: move it away")
    return pictures
