"""Pictures in tables: .parquet and .arrow files as the hubs write them, and samples that Gossamer wrote as .csv or .parquet.

Other tables are read by `data.tables`.
"""

import csv
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.labels import NONE
from gossamer.data.memory_mapped import Filling
from gossamer.data.problems import Problems, no_pictures
from gossamer.data.readers.decode_workers import Source
from gossamer.data.readers.image_files import Decoder, stacked
from gossamer.data.readers.stored import Stored
from gossamer.data.sources.arrow_files import batches_of, parquet, schema_of
from gossamer.errors import DataError
from gossamer.lazy import pa

_BATCH = 256
_LABELS = ("label", "labels")
_PIXELS, _CLASS = "pixels", "class"
_HEAD = 1 << 24
"""Letters of the first line of samples, at most."""
_MOST_NAMED = 10_000
"""Classes of samples with names: a damaged label could ask for any number of them."""


def read_csv(path: Path, shape: tuple[int, ...] | None) -> Stored:
    """Samples that Gossamer wrote: a column label, a column class if classes have names, then pixel0, pixel1 ...

    The file does not tell the pictures' shape. It is the card's, if that has as many pixels. Else pictures are square, in
    colour if they must be.

    Raises:
        DataError: another table, or a line that is cut or holds anything but whole numbers, pixels 0 to 255.
    """
    try:
        with path.open(encoding="utf-8") as file:
            has_names, count = _head_of_samples(file.readline(_HEAD))
            if not count:
                raise no_pictures(path)
            pieces, line, problems = [], 2, Problems()
            called: set[tuple[int, str]] = set()
            while lines := list(itertools.islice(file, 4096)):
                names = [_without_name(line) for line in lines] if has_names else []
                pieces.append(_numbers([rest for rest, _ in names] or lines, 1 + count, problems, path, line))
                called.update(zip(pieces[-1][0].tolist(), (name for _, name in names), strict=False))
                line += len(lines)
    except UnicodeDecodeError:
        raise no_pictures(path) from None
    problems.refuse()
    if not pieces:
        raise DataError(f"{path}: the file holds no samples below its first line: copy or write it again")
    labels = np.concatenate([labels for labels, _ in pieces])
    images = np.concatenate([pixels for _, pixels in pieces])
    return Stored(images.reshape(-1, *_shape_of(count, shape, path)), labels, class_names=_called(called, path))


def _head_of_samples(line: str) -> tuple[bool, int]:
    """Whether the first line of samples names classes, and the number of pixels; 0: it is that of another table."""
    head = line.strip().split(",")
    has_names = head[1:2] == [_CLASS]
    count = len(head) - 1 - has_names
    sound = head[0] == "label" and head[1 + has_names :] == [f"pixel{at}" for at in range(count)]
    return has_names, max(count, 0) if sound else 0


def _without_name(line: str) -> tuple[str, str]:
    """A line of samples without the name of its class, and the name. A damaged line becomes empty."""
    with suppress(csv.Error, StopIteration, ValueError):
        label, name, *pixels = next(csv.reader([line]))
        return ",".join([label, *pixels]), name
    return "", ""


def _called(pairs: set[tuple[int, str]], path: Path) -> tuple[str, ...]:
    """The names of classes, label 0 first, from the labels and names of samples. A class without samples is called so."""
    labelled = [(label, name) for label, name in pairs if label >= 0]
    names = dict(labelled)
    if not len(names) == len(set(names.values())) == len(labelled):
        raise DataError(f"{path}: the columns label and class contradict each other: write the file again")
    if max(names, default=0) >= _MOST_NAMED:
        raise DataError(f"{path}: a label is {_MOST_NAMED:,} or more: the file is damaged, write it again")
    return tuple(names.get(label, f"class {label} (no sample)") for label in range(max(names, default=-1) + 1))


def _numbers(
    lines: list[str], columns: int, problems: Problems, path: Path, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels int64 [n] and pixels uint8 [n, columns - 1] of some lines of a file, the first of them number `first`.

    Damaged lines become problems, and there is nothing then: n = 0.
    """
    values = _parsed(lines, columns)
    if values is None:
        for at in [at for at, line in enumerate(lines, first) if _parsed([line], columns) is None] or [first]:
            says = f"a sample is a label and {columns - 1} pixels from 0 to 255: write the file again"
            problems.add(f"{path}, line {at}", says)
        values = np.empty((0, columns), np.int32)
    return values[:, 0].astype(np.int64), values[:, 1:].astype(np.uint8)


def _parsed(lines: list[str], columns: int) -> np.ndarray | None:
    """The numbers of some lines, int32 [n, columns]. None: one of them is damaged."""
    if not all(line.isascii() and line.strip() for line in lines):
        return None
    try:
        values = np.loadtxt(lines, np.int32, delimiter=",", comments=None, ndmin=2)
    except (ValueError, OverflowError):
        return None
    sound = values.shape == (len(lines), columns) and values[:, 1:].min() >= 0 and values[:, 1:].max() <= 255
    return values if sound else None


def read_arrow(
    paths: Sequence[Path], others: Sequence[Path], decoder: Decoder, *, images_key: str | None, labels_key: str | None
) -> Stored:
    """Pictures of .parquet or .arrow files, in order.

    A column of pictures holds the bytes of picture files, alone or, as the hubs write them, in a struct with a field `bytes`.
    Samples that Gossamer wrote have a column of pixels instead.

    Args:
        paths: the files of a split; all have the same columns.
        others: those of the other split.
        decoder: decodes the pictures.
        images_key: the column of pictures. None: the only one.
        labels_key: the column of labels, whole numbers or text. None: `label` or `labels`. "none": there are no labels.

    Raises:
        DataError: a table without pictures, no such column, or a damaged file.
    """
    schema = schema_of(paths[0])
    column = _picture_column(schema, images_key, paths[0])
    target = _label_column(schema, labels_key, paths[0])
    is_samples = _is_pixels(schema.field(column).type)
    if is_samples:
        images = decoder.formed(_pixels(paths, column, decoder))
    else:
        images = stacked(_pictures(paths, column), decoder, where=str(paths[0]), count=_rows(paths))
    if target is None:
        return Stored(images, np.zeros(len(images), np.int64), formed=True)
    if _is_text(schema.field(target).type):
        return Stored(images, column_of(paths, target), others=column_of(others, target), formed=True)
    labels = np.array([math.nan if value is None else value for value in _values(paths, target)])
    if not is_samples:
        names = _class_names(schema, target, paths[0])
    elif target == "label" and _CLASS in schema.names and _is_text(schema.field(_CLASS).type):
        names = _called({*zip(labels.tolist(), column_of(paths, _CLASS).tolist(), strict=True)}, paths[0])
    else:
        names = ()
    return Stored(images, labels, class_names=names, formed=True)


def _class_names(schema: Any, column: str, path: Path) -> tuple[str, ...]:
    """The names of the labels of a column in Hugging Face's metadata, which are JSON in the schema."""
    try:
        stated = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names = stated.get("info", {}).get("features", {}).get(column, {}).get("names", [])
        if all(isinstance(name, str) for name in names):
            return tuple(names)
    except (ValueError, AttributeError, TypeError, RecursionError):
        pass
    raise DataError(f"{path}: what the file says about its labels is damaged: copy or write it again")


def column_of(paths: Sequence[Path], key: str) -> np.ndarray:
    """A column of whole numbers or text of .parquet or .arrow files, as text; a missing one is "". [N] Raises DataError."""
    for path in paths:
        schema = schema_of(path)
        _check_there(schema, key, path)
        if not _is_label(schema.field(key).type):
            raise DataError(f"{path}: the column {key!r} holds neither whole numbers nor text")
    return np.array(["" if value is None else str(value) for value in _values(paths, key)], np.str_)


def _values(paths: Sequence[Path], key: str) -> Iterator[Any]:
    """The values of a column of .parquet or .arrow files; None: one is missing. Raises DataError."""
    for array in itertools.chain.from_iterable(_arrays(path, key) for path in paths):
        yield from array.to_pylist()


def _arrays(path: Path, key: str) -> Iterator[Any]:
    """A column in arrays of some rows. Raises DataError: there is none, or the file is damaged."""
    schema = schema_of(path)
    _check_there(schema, key, path)
    return (batch.column(0) for batch in batches_of(path, [schema.names.index(key)], _BATCH))


def _rows(paths: Sequence[Path]) -> int:
    """How many rows .parquet files have together. 0: not known, of a stream or a damaged file."""
    if any(path.suffix != ".parquet" for path in paths):
        return 0
    with suppress(Exception):  # what is damaged is refused when it is read
        return sum(int(parquet.read_metadata(path).num_rows) for path in paths)
    return 0


def _check_there(schema: Any, name: str, path: Path) -> None:
    if schema.names.count(name) != 1:
        raise DataError(f"{path}: there is no column {name}; the columns are: {', '.join(schema.names) or 'none'}")


def _picture_column(schema: Any, key: str | None, path: Path) -> str:
    """The column that --images-key names, or the only one that holds pictures."""
    fitting = _of_pictures(schema)
    if key is not None:
        _check_there(schema, key, path)
        if key not in fitting:
            raise DataError(f"{path}: the column {key} holds no pictures (files of pictures as bytes)")
        return key
    if not fitting:
        raise no_pictures(path)
    if len(fitting) > 1:
        raise DataError(f"{path}: several columns hold pictures ({', '.join(fitting)}): choose one with `images_key`")
    return fitting[0]


def _of_pictures(schema: Any) -> list[str]:
    """The columns of pictures, and of pixels that Gossamer wrote."""
    return [each.name for each in schema if _is_picture(each.type) or (each.name == _PIXELS and _is_pixels(each.type))]


def _label_column(schema: Any, key: str | None, path: Path) -> str | None:
    """The column of labels, None where there are none."""
    if key == NONE:
        return None
    name = key or next((name for name in _LABELS if name in schema.names), None)
    if name is None:
        raise DataError(
            f"{path}: there is no column label; the columns are: {', '.join(schema.names)}. Name it with `labels_key` "
            f"({NONE}: there are no labels)"
        )
    _check_there(schema, name, path)
    kind, types = schema.field(name).type, pa.types
    if not (_is_label(kind) or types.is_boolean(kind) or types.is_floating(kind)):
        raise DataError(f"{path}: the column {name} holds no labels: they are whole numbers or names")
    return name


def _is_picture(kind: Any) -> bool:
    """Bytes, or a struct with bytes in it."""
    types = pa.types
    if types.is_struct(kind):
        inner = kind.get_field_index("bytes")
        return inner >= 0 and _is_picture(kind.field(inner).type)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_pixels(kind: Any) -> bool:
    """A list of bytes as numbers."""
    types = pa.types
    return bool(types.is_fixed_size_list(kind) and types.is_uint8(kind.value_type))


def _is_label(kind: Any) -> bool:
    """Whole numbers or text."""
    return bool(_is_text(kind) or pa.types.is_integer(kind))


def _is_text(kind: Any) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _pictures(paths: Sequence[Path], column: str) -> Iterator[Source]:
    """Place and picture file of each row; of a file that cannot be read, the error."""
    for path in paths:
        row = itertools.count()
        try:
            for value in itertools.chain.from_iterable(_arrays(path, column)):
                picture = value.as_py()
                raw = picture.get("bytes") if isinstance(picture, dict) else picture
                if not isinstance(raw, bytes) or not raw:
                    raw = DataError("there is no picture in this row: store the bytes of files, not their paths")
                yield f"{path}, row {next(row)} (counted from 0)", raw
        except DataError as error:
            yield str(path), error


def _pixels(paths: Sequence[Path], column: str, decoder: Decoder) -> np.ndarray:
    """Pixels of samples that Gossamer wrote, whose shape is in the file's metadata. uint8 [N, C, H, W]"""
    values, shape, path = Filling(), decoder.form.shape, paths[0]
    for path in paths:
        stated = (schema_of(path).metadata or {}).get(b"shape", b"").decode("ascii", "replace").split(",")
        is_shape = len(stated) == 3 and all(side.isdecimal() for side in stated)
        stored = tuple(map(int, stated)) if is_shape else decoder.form.shape
        for pixels in _arrays(path, column):
            flat = pixels.flatten()
            if pixels.null_count or flat.null_count:
                raise DataError(f"{path}: a sample lacks pixels: the file is damaged, write it again")
            shape = _shape_of(pixels.type.list_size, stored, path)
            values.add(flat.to_numpy())
    if not len(values) or shape is None:
        raise DataError(f"{path}: the file holds no samples: copy or write it again")
    return values.array((-1, *shape))


def _shape_of(pixels: int, shape: tuple[int, ...] | None, path: Path) -> tuple[int, ...]:
    """The shape of a picture of so many pixels."""
    if shape is not None and min(shape) > 0 and math.prod(shape) == pixels:
        return shape
    for channels in (1, 3):
        side = math.isqrt(pixels // channels)
        if side > 0 and channels * side * side == pixels:
            return channels, side, side
    raise DataError(f"{path}: {pixels} pixels make no square picture: give a card with the shape of the samples")
