"""Records that a Python program holds: arrays, tensors, `Records`, map-style datasets of PyTorch, datasets of Hugging Face.

No library of the user is imported here: each form is recognised by what it can do.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from gossamer.data.labels import NONE
from gossamer.data.problems import records
from gossamer.data.records import Records
from gossamer.data.source import Source
from gossamer.data.sources.pictures.decode_workers import Source as Picture
from gossamer.data.sources.pictures.image_files import Decoder, stacked
from gossamer.data.sources.pictures.stored import Stored
from gossamer.errors import DataError

FORMS = (
    "a path, (images, labels) as arrays or tensors, Records, a torch Dataset with a length, or one split of a Hugging Face "
    "dataset"
)
_IMAGES = ("image", "images", "img", "pixel_values")
_LABELS = ("label", "labels")
_AGAIN = 132
"""Items that are read twice. 0.9^132 < 1e-6: this is the chance that a transform which changes one in ten goes unnoticed. Items
that look the same when they are mirrored do not count."""
_PAIRS = 20 * _AGAIN
"""Most pairs of readings, where most items do not count."""


def stored_in_memory(source: Source, decoder: Decoder, *, where: str) -> Stored:
    """Return the images and labels of records in memory. Whole arrays are not copied.

    Args:
        source: of a pair (images, labels), a dict of columns, images alone, `Records`, or a dataset with a length. Images are
            [N, H, W], [N, C, H, W] or [N, H, W, C], or a list of pictures. Labels are [N], or one-hot [N, classes]. Images
            alone need `labels_key` "none". Items of a dataset are pairs or mappings; a key is an entry of such an item, or a
            column.
        decoder: brings pictures of Pillow to the card's form.
        where: what the data is called in messages, for example "train".

    Raises:
        DataError: anything else, and a dataset that returns other pictures when it is read again.
    """
    data: Any = source.records
    labels_key = source.labels_key
    if isinstance(data, Records):
        if labels_key == NONE:
            return Stored(data.images, np.zeros_like(data.labels))
        return Stored(data.images, data.labels, class_names=data.class_names)
    if hasattr(data, "iloc"):
        raise DataError(
            f"{where} is a table, and the card describes pictures: `gossamer.draft_card(DATA)` drafts another"
        )
    pair = data if isinstance(data, tuple | list) else getattr(data, "tensors", None)  # of a TensorDataset
    if isinstance(pair, tuple | list) and len(pair) == 2 and not isinstance(pair[0], Mapping):
        return _of_pair(pair[0], None if labels_key == NONE else pair[1], decoder, where=where)
    if hasattr(data, "__array__"):
        if labels_key != NONE:
            raise _no_labels(where)
        return _of_pair(data, None, decoder, where=where)
    if isinstance(getattr(data, "column_names", None), Mapping):
        splits = ", ".join(map(repr, data))
        raise DataError(f"{where}: this dataset has several splits ({splits}). Pass one of them.")
    if isinstance(data, Mapping) and 0 not in data:
        images, labels = (None if key is None else data[key] for key in _keys(source, data, where))
        return _of_pair(images, labels, decoder, where=where)
    if hasattr(data, "dataset") and not hasattr(data, "__getitem__"):
        raise DataError(f"{where} gives batches, perhaps in random order. Pass its dataset: loader.dataset.")
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        iterable = "an iterable dataset has no length to sample from" if hasattr(data, "__iter__") else "no records"
        raise DataError(f"{where} is of type {type(data).__name__}: {iterable}. It must be {FORMS}.")
    return _of_dataset(data, source, decoder, where=where)


def array_of(values: Any, *, where: str) -> np.ndarray:
    """Return an array, tensor or sequence as a NumPy array; a tensor comes to the CPU. Raises DataError."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    parts = values if isinstance(values, list | tuple) else [values]
    if any(np.ma.is_masked(part) for part in parts):
        raise DataError(f"{where}: some values are masked. Fill them, or leave out the records that have them.")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        raise DataError(f"{where}: this is no array of numbers.") from None
    if array.dtype == object:
        if array.ndim == 1 and all(isinstance(value, str) for value in array):
            return array.astype(np.str_)  # of pandas
        raise DataError(f"{where}: this is no array of numbers: its items differ in shape or type.")
    return array


def _of_pair(images: Any, labels: Any, decoder: Decoder, *, where: str) -> Stored:
    """Images and labels that are whole arrays, or lists of pictures. labels: None: there are none."""
    formed = isinstance(images, list | tuple) and len(images) > 0 and _is_file(images[0])
    if formed:
        sources = (_source(picture, where, at) for at, picture in enumerate(images))
        pixels = stacked(sources, decoder, where=where, count=len(images))
    else:
        pixels = array_of(images, where=f"{where}: images")
    if labels is None:
        return Stored(pixels, np.zeros(pixels.shape[:1], np.int64), formed=formed)
    return Stored(pixels, _labels(labels, where), formed=formed)


def _no_labels(where: str) -> DataError:
    return DataError(f'{where}: these images have no labels. Pass (images, labels), or labels_key="none".')


def _of_dataset(data: Any, source: Source, decoder: Decoder, *, where: str) -> Stored:
    """A dataset that is read item by item, in order."""
    count = len(data)
    if not count:
        raise DataError(f"{where}: there are no records in it.")
    first = data[0]
    keys = _keys(source, first, where)
    _check_repeats(data, keys, where)
    labels: list[Any] = []

    def pictures() -> Iterator[Any]:
        for at in range(count):
            picture, label = _parts(data[at], keys, where)
            labels.append(label)
            yield picture

    formed = _is_file(_parts(first, keys, where)[0])
    if formed:
        sources = (_source(picture, where, at) for at, picture in enumerate(pictures()))
        images = stacked(sources, decoder, where=where, count=count)
    else:
        images = _stack([_pixels(picture, where, at) for at, picture in enumerate(pictures())], where)
    names = () if source.labels_key == NONE else _class_names(data, keys)
    return Stored(images, _labels(labels, where), class_names=names, formed=formed)


def _is_file(picture: Any) -> bool:
    """Whether a picture is one of Pillow, or a picture file, alone or as Hugging Face has it; so is a missing one."""
    return picture is None or isinstance(picture, Image.Image | bytes | Mapping)


def _source(picture: Any, where: str, at: int) -> Picture:
    """The place of the picture of an item, and what is decoded; or why there is nothing."""
    found = picture.get("bytes") if isinstance(picture, Mapping) else picture
    if not isinstance(found, Image.Image | bytes) or found == b"":
        found = DataError("there is no picture in this item: store the bytes of files, not their paths")
    return f"{where}, item {at} (counted from 0)", found


def _check_repeats(data: Any, keys: "Keys", where: str) -> None:
    """Refuse a dataset whose items are other pictures when they are read again. It reads items from all parts of it."""
    count, counted = len(data), 0
    step = next(step for step in range(max(count * 5 // 8, 1), count + 1) if math.gcd(step, count) == 1)
    for number in range(_PAIRS):
        at = number * step % count  # all items, from everywhere, and then all of them again
        one, other = (_compared(_parts(data[at], keys, where)[0], where, at) for _ in range(2))
        if one.shape != other.shape or not np.array_equal(one, other):
            raise DataError(
                f"{where}: item {at} (counted from 0) is another picture each time it is read, perhaps by a random transform"
            )
        counted += not _is_symmetric(one)
        if counted == _AGAIN:
            return


def _compared(picture: Any, where: str, at: int) -> np.ndarray:
    """The picture of an item, or the bytes of its file, as an array."""
    place, found = _source(picture, where, at) if _is_file(picture) else (where, picture)
    if isinstance(found, DataError):
        raise DataError(f"{place}: {found}")
    return np.frombuffer(found, np.uint8) if isinstance(found, bytes) else _pixels(found, where, at)


def _is_symmetric(picture: np.ndarray) -> bool:
    """Whether a picture is its own mirror image, along any of its axes: then many transforms leave it as it is."""
    return any(
        np.array_equal(picture, np.flip(picture, axis)) for axis in range(picture.ndim) if picture.shape[axis] > 4
    )


Keys = tuple[Any, Any]
"""Of the picture and of the label in an item: positions, or names. None for a label: there is none."""


def _keys(source: Source, item: Any, where: str) -> Keys:
    """Return where picture and label are in each item."""
    images_key, labels_key = source.images_key, source.labels_key
    if not isinstance(item, Mapping):
        if not isinstance(item, Sequence) or isinstance(item, str) or len(item) < 1:
            item = (item,)
        if labels_key == NONE:
            return 0, None
        if len(item) < 2:
            raise _no_labels(where)
        return 0, 1
    names = list(item)
    features = getattr(source.records, "features", None) or {}
    of_type = [name for name in names if type(features.get(name)).__name__ == "Image"]
    usual = of_type or [name for name in _IMAGES if name in names]
    images_key = images_key or (usual[0] if len(usual) == 1 else None)
    labels_key = labels_key or next((name for name in _LABELS if name in names), None)
    for key, what in ((images_key, "images"), (labels_key, "labels")):
        if key not in names and key != NONE:
            asked = f"there is no column {key!r}; the columns are" if key else f"choose its {what} by {what}_key"
            none = "" if key or what == "images" else '; "none" if all are of one class'
            raise DataError(f"{where}: {asked}: {', '.join(names)}{none}.")
    return images_key, None if labels_key == NONE else labels_key


def _parts(item: Any, keys: Keys, where: str) -> tuple[Any, Any]:
    """Return picture and label of an item; label 0 where there is none."""
    image_key, label_key = keys
    whole = item if isinstance(item, Mapping | Sequence) and not isinstance(item, str) else (item,)
    try:
        return whole[image_key], 0 if label_key is None else whole[label_key]
    except (KeyError, IndexError):
        raise DataError(f"{where}: its items differ in form: each must have a picture and a label.") from None


def _pixels(picture: Any, where: str, at: int) -> np.ndarray:
    """Return the picture of an item as an array."""
    return array_of(picture, where=f"{where}: the picture of item {at} (counted from 0)")


def _stack(pictures: list[np.ndarray], where: str) -> np.ndarray:
    """Return pictures of one shape and type as [N, ...]."""
    forms = [(picture.shape, picture.dtype) for picture in pictures]
    if odd := records((at for at, form in enumerate(forms) if form != forms[0]), "item"):
        raise DataError(f"{where}: {odd} differs from the first in shape or type. Return pictures of Pillow.")
    return np.stack(pictures)


def _labels(values: Any, where: str) -> np.ndarray:
    """Return labels as numbers or text, [N]. A missing one (None, NaN, NA) is NaN or ""."""
    array = values if isinstance(values, list) or hasattr(values, "detach") else np.asanyarray(values)
    if isinstance(array, list) or array.dtype == object:
        missing = "" if any(isinstance(value, str) for value in array) else math.nan
        array = [missing if _is_missing(value) else value for value in array]
    return array_of(array, where=f"{where}: labels")


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and math.isnan(value))


def _class_names(data: Any, keys: Keys) -> tuple[str, ...]:
    """Return what a dataset calls its labels; empty: it does not say."""
    label = (getattr(data, "features", None) or {}).get(keys[1])
    names: Any = getattr(label, "names", None) or getattr(data, "classes", ())
    return tuple(names) if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names) else ()
