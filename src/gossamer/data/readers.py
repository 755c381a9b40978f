"""DATA, as the command line takes it, to records."""

from pathlib import Path
from typing import Literal

import numpy as np

from gossamer.data import folders, idx, npz
from gossamer.data.digits import digits
from gossamer.data.glyphs import glyphs
from gossamer.data.images import as_images, as_labels, resize
from gossamer.data.records import Records
from gossamer.errors import DataError

Split = Literal["train", "test"]

_FORMS = "an .npz file, a folder with MNIST's idx files, a folder of class folders of pictures, `digits` or `glyphs`"


def read(
    source: str,
    *,
    split: Split,
    labels_key: str | None = None,
    units: str | None = None,
    shape: tuple[int, ...] | None = None,
) -> Records:
    """Read records.

    Args:
        source: a path, `digits` or `glyphs`; `:train` or `:test` at its end picks a split and overrides `split`.
        split: the split to read where the source has several. A source without splits is read whole, unless its name
            ends in a split.
        labels_key: for an .npz file, the key of the labels in place of `labels` or `train_labels`.
        units: `FILE.npz:KEY`, whole numbers [N] aligned with the records: equal numbers are one unit, and a record with
            a negative number is a unit of its own. None: every record is its own unit.
        shape: the card's channels, height and width, to which images are resized. None: as they are.

    Raises:
        DataError: anything that cannot be read as records; names the file and the index, never a value.
    """
    name, chosen = _split_of(source)
    try:
        images, labels = _arrays(
            name, chosen or split, must_split=chosen is not None, labels_key=labels_key, shape=shape
        )
    except OSError as error:
        raise DataError(f"{name}: the data cannot be read ({error.strerror or error})") from None
    pixels = as_images(images, where=source)
    numbers = as_labels(labels, count=len(pixels), where=source)
    if shape is not None:
        pixels = resize(pixels, shape, where=source)
    return Records(pixels, numbers, None if units is None else _read_units(units, len(pixels)))


def _split_of(source: str) -> tuple[str, Split | None]:
    """The source without its split, and the split."""
    name, colon, end = source.rpartition(":")
    if colon and end == "train":
        return name, "train"
    if colon and end == "test":
        return name, "test"
    return source, None


def _arrays(
    name: str, split: Split, *, must_split: bool, labels_key: str | None, shape: tuple[int, ...] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels as they are stored."""
    path = Path(name)
    if labels_key is not None and path.suffix != ".npz":
        raise DataError(f"{name}: --labels-key names an array in an .npz file, and this is none: leave it out")
    if name in ("digits", "glyphs"):
        embedded = digits(split) if name == "digits" else glyphs(split)
        return embedded.images, embedded.labels
    if path.is_dir():
        if idx.is_idx_folder(path):
            return idx.read_folder(path, split)
        return folders.read_folder(path, split, must_split=must_split, shape=shape)
    if not path.exists():
        raise DataError(f"{name}: there is no such file or folder; DATA is {_FORMS}")
    if path.suffix == ".npz":
        return _npz_arrays(path, split, must_split=must_split, labels_key=labels_key)
    if "-idx" in path.name:
        raise DataError(f"{name}: this is a single idx file: give the folder that holds it, for the images and labels")
    raise DataError(f"{name}: this kind of file is not read; DATA is {_FORMS}")


def _npz_arrays(path: Path, split: Split, *, must_split: bool, labels_key: str | None) -> tuple[np.ndarray, np.ndarray]:
    """The split's arrays, else the whole file's."""
    there = npz.keys(path)
    if f"{split}_images" in there:
        prefix = f"{split}_"
    elif must_split or "images" not in there:
        raise npz.missing(path, f"{split}_images", *([] if must_split else ["images"]))
    else:
        prefix = ""
    wanted = [prefix + (labels_key or "labels")] + ([labels_key] if labels_key else [])
    found = [key for key in wanted if key in there]
    if not found:
        raise npz.missing(path, *dict.fromkeys(wanted))
    return npz.member(path, f"{prefix}images"), npz.member(path, found[0])


def _read_units(spec: str, count: int) -> np.ndarray:
    """Unit numbers from 0, int64 [N]: first the numbered units in rising order, then the records that stand alone."""
    file, colon, key = spec.rpartition(":")
    if not colon or not file or not key:
        raise DataError(f"{spec}: --units takes FILE.npz:KEY")
    if not Path(file).exists():
        raise DataError(f"{file}: there is no such file; --units takes FILE.npz:KEY")
    numbers = npz.member(Path(file), key)
    if numbers.dtype.kind not in "ui":
        raise DataError(
            f"{spec}: units must be whole numbers, not {numbers.dtype}: "
            "np.unique(names, return_inverse=True)[1] turns names into numbers"
        )
    if numbers.shape != (count,):
        raise DataError(
            f"{spec}: {count} records need one unit each, and the shape here is {list(numbers.shape)}: "
            "check that both come from the same split"
        )
    alone = numbers < 0
    renumbered = np.empty(count, np.int64)
    known, renumbered[~alone] = np.unique(numbers[~alone], return_inverse=True)
    renumbered[alone] = len(known) + np.arange(alone.sum())
    return renumbered
