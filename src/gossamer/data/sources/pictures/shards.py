"""The files of a split, for a data set that is stored in pieces as the hubs and WebDataset name them."""

import re
from collections.abc import Sequence
from pathlib import Path

from gossamer.errors import DataError

_SPLIT = re.compile(r"(train|test|validation|valid|val|dev)(?![a-z])")


def endings(folder: Path, suffixes: Sequence[str]) -> list[str]:
    """The endings, of those given, that the files of a folder have."""
    return [suffix for suffix in suffixes if _files(folder, suffix)]


def other_folders(folder: Path) -> list[str]:
    """Subfolders in which no pieces of a data set are sought: perhaps class folders."""
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [name for name in names if name not in ("data", "train", "test")]


def of_split(folder: Path, suffix: str, split: str, *, must_split: bool) -> tuple[list[Path], list[Path]]:
    """The files of a split, at least one, sorted by name; and those of the other split.

    They are in the folder, or in its subfolders `data`, `train` and `test`. A file's name begins with its split, or its folder
    is called so. If no name says train or test, all files belong to either split. A validation split is passed over. Raises
    DataError: there is no such split.
    """
    of = {"train": list[Path](), "test": list[Path]()}
    files = _files(folder, suffix)
    for path in files:
        of.setdefault(_split_of(path), []).append(path)
    other = "test" if split == "train" else "train"
    if not (of[split] or of[other] or must_split):
        return files, []
    if not of[split]:
        raise DataError(
            f"{folder}: no {suffix} file is named after the split {split}: leave the split out, or name another"
        )
    return of[split], of[other]


def _files(folder: Path, suffix: str) -> list[Path]:
    """The files with an ending, without hidden ones and the cache of `datasets`."""
    places = (folder, folder / "data", folder / "train", folder / "test")
    paths = [path for place in places for path in sorted(place.glob(f"*{suffix}"))]
    return [path for path in paths if path.is_file() and not path.name.startswith((".", "cache-"))]


def _split_of(path: Path) -> str:
    """train, test, validation ..., or nothing."""
    match = _SPLIT.match(path.name) or _SPLIT.fullmatch(path.parent.name)
    return match.group(1) if match else ""
