"""Folders of pictures: class folders, with a folder per unit below each where that is asked for; a list; or no labels.

A list is metadata.csv or metadata.jsonl, as Hugging Face's imagefolder has it, or labels.csv.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data import units
from gossamer.data.labels import NONE, numbered, place
from gossamer.data.problems import TABLES, TEXTS, Problems, no_pictures
from gossamer.data.sources.pictures import dicom
from gossamer.data.sources.pictures.image_files import KINDS, SUFFIXES, is_picture
from gossamer.data.sources.pictures.picture_lists import NAMES, UNIT, read_list
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


def owners_of(listing: Listing, spec: Any, missing: units.Missing) -> units.Units:
    """The units of pictures in folders. Only the heads of DICOM files are opened. Raises DataError, RequestError."""
    how = units.matched(spec)
    if how == "folder":
        if missing == "refuse" and not any(listing.units):
            raise DataError(
                f"{listing.folder}: units need DATA/CLASS/UNIT/picture, and there is none. Or give FILE.csv (name,unit)"
            )
        return units.numbered(listing.units, missing, lambda at: str(listing.paths[at]))
    if how == "pattern":
        return units.from_pattern(spec, listing.names(listing.paths), missing)
    if how == "dicom":
        ids = dicom.texts(listing.paths, spec.removeprefix(units.DICOM))  # only a hash of each is kept
        return units.numbered([units.pseudonym(text) for text in ids], missing, lambda at: str(listing.paths[at]))
    if how == "position":
        which = spec if isinstance(spec, str) else "units"
        raise DataError(f"{which}: pictures in folders have no order, as an array needs: give `units={FOR_FOLDERS}`")
    return _by_list(Path(spec), listing, missing)


def _by_list(path: Path, listing: Listing, missing: units.Missing) -> units.Units:
    """Units from a table with columns of the names and of the units.

    The list names every picture of DATA once, and nothing else: a list that fits in part was made for another folder. It may
    name the pictures of the other split. Raises DataError.
    """
    pictures, problems = listing.names(listing.paths), Problems()
    found = read_list(path, [*pictures, *listing.names(listing.others)], UNIT, problems)
    for name in pictures:
        if name not in found and not problems:
            problems.add(path, f"no row names the picture {name}: every picture needs its unit")
    problems.refuse()
    ids, rows = zip(*(found[name] for name in pictures), strict=True)
    return units.numbered(ids, missing, lambda at: f"{path}, row {rows[at]} (counted from 0)")


def list_pictures(
    folder: Path,
    split: str,
    *,
    must_split: bool,
    labels_key: str | None,
    unit_folders: bool = False,
    declared: Sequence[str] = (),
) -> Listing:
    """The pictures of one split, none of them opened.

    Args:
        folder: of the data set, or of its splits `train` and `test`.
        split: to list.
        must_split: refuse a folder without splits.
        labels_key: the column of labels in a list, whole numbers or names, see `read_list`. "none": there are no labels.
        unit_folders: a class folder may hold folders of units with pictures.
        declared: the names of classes that the card declares.

    Raises:
        DataError: no pictures, or no such split. A damaged list, lines without picture, pictures without a line, one picture
            twice. No class folders, or other files in them.
    """
    by_list = labels_key != NONE and has_list(folder)
    if labels_key == NONE or by_list:
        places = {name: folder / name for name in SPLITS}
        splits = {name: place for name, place in places.items() if (_list_in(place) if by_list else place.is_dir())}
    else:
        splits = _split_folders(folder)
    if (must_split or splits) and split not in splits:
        raise DataError(f"{folder}: there is no subfolder {split} with pictures: add it, or leave the split out")
    root, rest = splits.pop(split, folder), [*splits.values()]
    if by_list:
        listing = _listed(folder, root, rest, labels_key, declared)
    elif labels_key == NONE:
        paths, others = _all_pictures(root), [path for other in rest for path in _all_pictures(other)]
        listing = Listing(folder, root, paths, np.zeros(len(paths), np.int64), [""] * len(paths), others)
    else:
        listing = _in_classes(folder, root, rest, unit_folders)
    if not listing.paths:
        raise DataError(f"{root}: its folders hold no {KINDS}")
    return listing


def _in_classes(folder: Path, root: Path, rest: list[Path], unit_folders: bool) -> Listing:
    """The pictures in class folders.

    The sorted names of the class folders give the labels from 0: first numbers, as numbers, then other names. An empty class
    folder counts. If the folder holds `train` and `test` only, the classes are those of both, and one split is read.
    """
    roots, problems = [root, *rest], Problems()
    names = sorted({name for other in roots for name in _subfolders(other)}, key=place)
    if not names:
        raise _no_classes(folder)
    for entry in (entry for other in roots for entry in _visible(other) if is_picture(entry)):
        problems.add(Path(entry), "this picture lies beside the class folders and is of no class: move it")
    found = partial(_pictures, unit_folders=unit_folders, problems=problems)
    by_class = [found(root / name) for name in names]
    others = [path for other in rest for name in names for path in found(other / name)]
    problems.refuse()
    paths = [path for of_class in by_class for path in of_class]
    labels = np.repeat(np.arange(len(names)), [*map(len, by_class)])
    own = [path.parent.name if unit_folders and path.parent.parent != root else "" for path in paths]
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
        f"{folder}: no class folders: put the pictures of each class into a folder; or say `labels_key=none`{hint}"
    )


def _split_folders(folder: Path) -> dict[str, Path]:
    """The split folders by name; empty where the subfolders are classes. Raises DataError: they look like other splits."""
    subfolders = _subfolders(folder)
    if not subfolders or not {name.casefold() for name in subfolders} <= _LIKE_SPLITS:
        return {}
    if others := ", ".join(sorted({*subfolders} - {*SPLITS})):
        raise DataError(
            f"{folder}: splits are called train and test, in small letters, and here is {others}: rename it"
        )
    return subfolders


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, sorted by name, without hidden files. An entry knows what it is, so no file is asked for it."""
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _subfolders(folder: Path) -> dict[str, Path]:
    return {entry.name: folder / entry.name for entry in _visible(folder) if entry.is_dir()}


def _pictures(folder: Path, unit_folders: bool, problems: Problems) -> list[Path]:
    """The files of one class, sorted. Hidden files and a few known others are passed over; the rest are problems."""
    pictures = []
    for entry in _visible(folder) if folder.is_dir() else []:
        path = folder / entry.name
        if unit_folders and entry.is_dir():
            pictures += _pictures(path, False, problems)
        elif is_picture(entry):
            pictures.append(path)
        elif entry.name.casefold() not in _PASSED_OVER:
            more = ", and a folder of each unit only with `units=folder`" if entry.is_dir() else ""
            problems.add(path, f"a class folder holds {KINDS} only{more}: move it away")
    return pictures


def has_list(folder: Path) -> bool:
    """Whether a folder, or a split folder in it, holds a list of its pictures."""
    return any(_list_in(place) is not None for place in (folder, *(folder / split for split in SPLITS)))


def _listed(folder: Path, root: Path, rest: list[Path], key: str | None, declared: Sequence[str]) -> Listing:
    """The pictures and their labels from the list, in the order of the list. key, declared: see `list_pictures`."""
    problems, listed = Problems(), dict[Path, dict[Path, str]]()
    for of_split in (root, *rest):
        where = _list_in(of_split)
        assert where is not None
        there = [path.relative_to(of_split).as_posix() for path in _all_pictures(of_split)]
        found = read_list(where, there, key, problems)
        listed[of_split] = {of_split / name: label for name, (label, _) in found.items()}
        for name in [] if problems else there:
            if name not in found:  # nobody would see that it is missing
                problems.add(of_split / name, "the list in its folder has no row for it: add one")
    problems.refuse()
    own = listed.pop(root)
    others = {path: label for rows in listed.values() for path, label in rows.items()}
    labels, names = numbered([*own.values()], [*others.values()], where=str(folder), declared=declared)
    return Listing(folder, root, [*own], labels, [""] * len(own), [*others], names, by_list=True)


def _all_pictures(root: Path) -> list[Path]:
    """Sorted. Hidden files and folders are passed over."""
    there = (path for path in root.rglob("*") if not any(part.startswith(".") for part in path.relative_to(root).parts))
    return sorted(path for path in there if path.name not in LISTS and is_picture(path))


def _list_in(folder: Path) -> Path | None:
    """The list of a folder's pictures, which names their column: a list of units does not."""
    for path in (folder / name for name in LISTS):
        if path.is_file():
            with path.open("rb") as file:
                head = file.read(1 << 12).replace(b"\0", b"").lower()  # in UTF-16 each letter has one
            if path.name == LABELS_CSV or NAMES[0].encode() in head:
                return path
    return None
