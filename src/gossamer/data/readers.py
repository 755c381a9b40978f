"""DATA, as the command line takes it, to records."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from gossamer.data import classes, folders, idx, npz
from gossamer.data.digits import digits
from gossamer.data.glyphs import glyphs
from gossamer.data.images import Form, Resize, as_images, as_labels
from gossamer.data.records import Records
from gossamer.data.units import FOLDERS, Missing, Units, from_array, from_csv, matched, numbered
from gossamer.errors import DataError

Split = Literal["train", "test"]

EMBEDDED = ("digits", "glyphs")
DIGITS = tuple("0123456789")
"""What the classes of embedded data are called."""
CLASS_NAMES = "class_names"
"""The key of an .npz under which the names of its labels stand, label 0 first: text [classes]."""

_FORMS = "an .npz file, a folder with MNIST's idx files, a folder of class folders of pictures, `digits` or `glyphs`"
_FOR_FOLDERS = "FILE.csv (name,unit) or `folder` (class/unit/picture)"
_FOR_ARRAYS = "FILE.npz:KEY, matched by position, or :KEY in the .npz that is read"


@dataclass(frozen=True)
class _Stored:
    """Images and labels as they are stored, what the labels are called, and, for a folder of pictures, where each lies."""

    images: np.ndarray
    labels: np.ndarray
    listing: folders.Listing | None = None
    class_names: tuple[str, ...] = ()


def read(
    source: str,
    *,
    split: Split,
    labels_key: str | None = None,
    units: str | None = None,
    missing_unit: Missing = "refuse",
    unit_folders: bool = False,
    shape: tuple[int, ...] | None = None,
    resize: Resize = "squash",
    invert: bool = False,
    class_names: Sequence[str] = (),
) -> Records:
    """Read records. The card's `reading` gives the last four arguments.

    Args:
        source: a path, `digits` or `glyphs`; `:train` or `:test` at its end picks a split and overrides `split`.
        split: the split to read where the source has several. A source without splits is read whole, unless its name
            ends in a split.
        labels_key: for an .npz file, the key of the labels in place of `labels` or `train_labels`.
        units: whose each record is; ids are text or whole numbers, and equal ids are one unit. For class folders
            `FILE.csv` with the columns name and unit, or `folder`: source/class/unit/picture. For everything else
            `FILE.npz:KEY` (`:KEY`: in the .npz that is read), [N], matched by position. None: every record is its own unit.
        missing_unit: what a record without an id is, an error or a unit of its own.
        unit_folders: look into folders of units even without `units`, and forget them; for evaluation.
        shape: the card's channels, height and width, to which images are resized. None: as they are.
        resize: what becomes of pictures of other proportions, see `data.images.resize`.
        invert: exchange dark and light; `digits` and `glyphs` are white on black, and stay so.
        class_names: the declared names of the classes. Where the source names its own (class folders, `class_names` in an
            .npz, `digits`, `glyphs`), records are matched by name; elsewhere labels are numbers. Empty: the names, in the
            order, of the source.

    Raises:
        DataError: anything that cannot be read as records; names the file and the index, never a value.
    """
    name, chosen = split_of(source)
    must_split = chosen is not None
    deeper = unit_folders or units == FOLDERS
    form = Form(shape, resize, invert and name not in EMBEDDED)
    try:
        stored = _arrays(
            name, chosen or split, must_split=must_split, labels_key=labels_key, unit_folders=deeper, form=form
        )
    except OSError as error:
        raise DataError(f"{name}: the data cannot be read ({error.strerror or error})") from None
    pixels = as_images(stored.images, where=source)
    numbers = as_labels(stored.labels, count=len(pixels), where=source)
    if stored.listing is None:  # pictures in folders were brought to it one by one
        pixels = form.of(pixels, where=source)
    names = stored.class_names
    if names:
        numbers = classes.matched(numbers, names, class_names or names, where=source)
    names = tuple(class_names) or names
    if units is None:
        return Records(pixels, numbers, class_names=names)
    found = _units(units, name, chosen or split, stored, len(pixels), missing_unit)
    return Records(pixels, numbers, found.numbers, found.names, names)


def listed(source: str, *, split: Split, unit_folders: bool = True) -> folders.Listing | None:
    """The pictures of class folders, none of them opened; None where the source is something else.

    Raises:
        DataError: as `read`.
    """
    name, chosen = split_of(source)
    try:
        if name in EMBEDDED or not Path(name).is_dir() or idx.is_idx_folder(Path(name)):
            return None
        return folders.list_folder(
            Path(name), chosen or split, must_split=chosen is not None, unit_folders=unit_folders
        )
    except OSError as error:
        raise DataError(f"{name}: the data cannot be read ({error.strerror or error})") from None


def split_of(source: str) -> tuple[str, Split | None]:
    """The source without its split, and the split."""
    name, colon, end = source.rpartition(":")
    if colon and end == "train":
        return name, "train"
    if colon and end == "test":
        return name, "test"
    return source, None


def _arrays(
    name: str,
    split: Split,
    *,
    must_split: bool,
    labels_key: str | None,
    unit_folders: bool,
    form: Form,
) -> _Stored:
    """Images and labels as they are stored."""
    path = Path(name)
    if labels_key is not None and path.suffix != ".npz":
        raise DataError(f"{name}: --labels-key names an array in an .npz file, and this is none: leave it out")
    if name in EMBEDDED:
        embedded = digits(split) if name == "digits" else glyphs(split)
        return _Stored(embedded.images, embedded.labels, class_names=DIGITS)
    if path.is_dir():
        if idx.is_idx_folder(path):
            return _Stored(*idx.read_folder(path, split))
        listing = folders.list_folder(path, split, must_split=must_split, unit_folders=unit_folders)
        return _Stored(folders.load(listing.paths, form), listing.labels, listing, listing.class_names)
    if not path.exists():
        raise DataError(f"{name}: there is no such file or folder; DATA is {_FORMS}")
    if path.suffix == ".npz":
        return _npz_arrays(path, split, must_split=must_split, labels_key=labels_key)
    if "-idx" in path.name:
        raise DataError(f"{name}: this is a single idx file: give the folder that holds it, for the images and labels")
    raise DataError(f"{name}: this kind of file is not read; DATA is {_FORMS}")


def _npz_arrays(path: Path, split: Split, *, must_split: bool, labels_key: str | None) -> _Stored:
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
    names = npz.names(path, CLASS_NAMES) if CLASS_NAMES in there and labels_key is None else ()
    return _Stored(npz.member(path, f"{prefix}images"), npz.member(path, found[0]), class_names=names)


def _units(spec: str, name: str, split: Split, stored: _Stored, count: int, missing: Missing) -> Units:
    """The units of the records that were read. Pictures are matched by name or folder, arrays by position."""
    listing, how = stored.listing, matched(spec)
    if listing is None and how != "position":
        raise DataError(
            f"{spec}: --units {_FOR_FOLDERS} is for class folders of pictures, and {name} is none: give {_FOR_ARRAYS}"
        )
    if listing is None:
        file, key = _array_of(spec, name)
        if Path(name).suffix == ".npz" and Path(file).samefile(name) and f"{split}_{key}" in npz.keys(Path(file)):
            key = f"{split}_{key}"
        return from_array(npz.member(Path(file), key), count, missing, where=f"{file}:{key}")
    return units_of(listing, spec, missing)


def units_of(listing: folders.Listing, spec: str, missing: Missing) -> Units:
    """The units of pictures in class folders, none of them opened. Raises DataError."""
    if matched(spec) == "folder":
        return numbered(listing.units, missing, lambda at: str(listing.paths[at]))
    if matched(spec) == "position":
        raise DataError(
            f"{spec}: pictures in folders have no order that an array could follow: give --units {_FOR_FOLDERS}"
        )
    return from_csv(Path(spec), listing.names(listing.paths), listing.names(listing.others), missing)


def _array_of(spec: str, name: str) -> tuple[str, str]:
    """File and key of an array of ids; without a file, it is the one that is read."""
    file, colon, key = spec.rpartition(":")
    if not file and colon and Path(name).suffix == ".npz":
        file = name
    if not file or not key:
        raise DataError(f"{spec}: --units takes {_FOR_ARRAYS}; for class folders of pictures {_FOR_FOLDERS}")
    if not Path(file).exists():
        raise DataError(f"{file}: there is no such file; --units takes {_FOR_ARRAYS}")
    return file, key
