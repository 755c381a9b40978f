"""Pictures in tables: .parquet and .arrow files as the hubs write them, and samples that Gossamer wrote as .csv or .parquet.

Other tables are read by `data.tables`.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.labels import NONE, place
from gossamer.data.memory_mapped import Filling
from gossamer.data.problems import Problems, no_pictures
from gossamer.data.sources.arrow_files import batches_of, rows_of, schema_of
from gossamer.data.sources.pictures.decode_workers import Source
from gossamer.data.sources.pictures.image_files import Decoder, stacked
from gossamer.data.sources.pictures.stored import Stored
from gossamer.data.sources.text_file import open_text
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.errors import DataError
from gossamer.lazy import pa

SAMPLES = ".csv"
_BATCH = 256
_LABELS = ("label", "labels")
_PIXELS, _CLASS = "pixels", "class"
_MOST_NAMED = 10_000
"""Classes of samples with names: a damaged label could ask for any number of them."""


def read(
    paths: Sequence[Path], others: Sequence[Path], decoder: Decoder, *, images_key: str | None, labels_key: str | None
) -> Stored:
    """Pictures of .parquet or .arrow files, or of one .csv of samples, in order.

    A column of pictures holds the bytes of picture files, alone or, as the hubs write them, in a struct with a field `bytes`.
    Samples that Gossamer wrote have a column of pixels instead. A .csv does not tell their shape. It is the card's, if that has
    as many pixels. Else pictures are square, in colour if they must be.

    Args:
        paths: the files of a split; all have the same columns.
        others: those of the other split.
        decoder: decodes the pictures.
        images_key: the column of pictures. None: the only one.
        labels_key: the column of labels, whole numbers or text; or, for one-hot labels, several with commas between. None:
            `label` or `labels`. "none": there are no labels.

    Raises:
        DataError: a table without pictures, no such column, or a damaged file.
    """
    schema = _schema_of(paths[0])
    column = _picture_column(schema, images_key, paths[0])
    targets = _label_columns(schema, labels_key, paths[0])
    is_samples = _holds(schema.field(column).type) == _PIXELS
    is_named = is_samples and targets == ["label"] and _CLASS in schema.names
    wanted = [column, *targets, *([_CLASS] if is_named else [])]
    found: list[list[Any]] = [[] for _ in wanted[1:]]

    def blocks(path: Path) -> Iterator[Any]:
        for pictures, *columns in _blocks(path, wanted):
            for values, cells in zip(found, columns, strict=True):
                values.extend(cells.to_pylist())
            yield pictures

    if is_samples:
        images = decoder.formed(_pixels(paths, blocks, decoder.how.shape))
    else:
        images = stacked(_pictures(paths, blocks), decoder, where=str(paths[0]), count=sum(map(rows_of, paths)))
    if not targets:
        return Stored(images, np.zeros(len(images), np.int64), formed=True)
    if _holds(schema.field(targets[0]).type) == "names":
        beyond = np.array(column_of(others, targets[0]), np.str_)
        return Stored(images, _texts(found[0]), others=beyond, formed=True)
    labels = np.array([[math.nan if value is None else value for value in values] for values in found[: len(targets)]])
    if targets[1:]:
        return Stored(images, labels.T, class_names=tuple(targets), formed=True)
    names: tuple[str, ...] = ()
    if is_named:
        names = _called({*zip(labels[0].tolist(), map(str, found[1]), strict=True)}, paths[0])
    elif not is_samples:
        names = _class_names(schema, targets[0], paths[0])
    return Stored(images, labels[0], class_names=names, formed=True)


def _schema_of(path: Path) -> Any:
    """The names and types of columns; the pixels of a .csv are one."""
    if path.suffix.lower() != SAMPLES:
        return schema_of(path)
    names = open_text(path).names
    heads = ["label", *[_CLASS] * (names[1:2] == [_CLASS])]
    count = len(names) - len(heads)
    if count < 1 or names != [*heads, *(f"pixel{at}" for at in range(count))]:
        raise no_pictures(path)
    return pa.schema([*zip(heads, (pa.int64(), pa.string()), strict=False), (_PIXELS, pa.list_(pa.uint8(), count))])


def _blocks(path: Path, names: Sequence[str]) -> Iterator[list[Any]]:
    """Some columns, in arrays of some rows. Raises DataError: there is no such column, or the file is damaged."""
    schema = _schema_of(path)
    for name in names:
        _check_there(schema, name, path)
    positions = [schema.names.index(name) for name in names]
    if path.suffix.lower() == SAMPLES:
        yield from ([block[at] for at in positions] for block in _of_csv(path, schema.field(_PIXELS).type.list_size))
    else:
        yield from (batch.columns for batch in batches_of(path, positions, _BATCH))


def _of_csv(path: Path, count: int) -> Iterator[list[Any]]:
    """The columns of samples. Raises DataError: a row that is cut or holds anything but whole numbers, pixels 0 to 255."""
    opened, problems = open_text(path), Problems()
    for numbers, columns in opened.blocks(range(len(opened.names))):
        block = _as_numbers(columns, count)
        if block is not None:
            yield block
            continue
        rows = ((row, [column[at : at + 1] for column in columns]) for at, row in enumerate(numbers.tolist()))
        opened.ragged += [row for row, cells in rows if _as_numbers(cells, count) is None]
        break
    for row in sorted(opened.ragged):
        says = f"a sample is a label and {count} pixels from 0 to 255: write the file again"
        problems.add(f"{path}, row {row} (counted from 0)", says)
    problems.refuse()


def _as_numbers(columns: Sequence[Any], count: int) -> list[Any] | None:
    """The texts of samples as labels, names and pixels. None: one of them is damaged."""
    with suppress(pa.ArrowInvalid):
        pixels = pa.chunked_array(columns[-count:]).cast(pa.uint8()).to_numpy().reshape(count, -1)
        flat = pa.FixedSizeListArray.from_arrays(pa.array(pixels.T.reshape(-1)), count)
        return [columns[0].cast(pa.int64()), *columns[1:-count], flat]
    return None


def _called(pairs: set[tuple[int, str]], path: Path) -> tuple[str, ...]:
    """The names of classes, label 0 first, from the labels and names of samples. A class without samples is called so."""
    labelled = [(label, name) for label, name in pairs if label >= 0]
    names = dict(labelled)
    if not len(names) == len(set(names.values())) == len(labelled):
        raise DataError(f"{path}: the columns label and class contradict each other: write the file again")
    if max(names, default=0) >= _MOST_NAMED:
        raise DataError(f"{path}: a label is {_MOST_NAMED:,} or more: the file is damaged, write it again")
    return tuple(names.get(label, f"class {label} (no sample)") for label in range(max(names, default=-1) + 1))


def _class_names(schema: Any, column: str, path: Path) -> tuple[str, ...]:
    """The names of the labels of a column in Hugging Face's metadata, which are JSON in the schema."""
    with suppress(ValueError, AttributeError, TypeError, RecursionError):
        stated = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names = stated.get("info", {}).get("features", {}).get(column, {}).get("names", [])
        if all(isinstance(name, str) for name in names):
            return tuple(names)
    raise DataError(f"{path}: what the file says about its labels is damaged: copy or write it again")


def column_of(paths: Sequence[Path], key: str) -> list[str]:
    """A column of whole numbers or text of .parquet or .arrow files, as text; a missing one is "". [N] Raises DataError."""
    return [cell for path in paths for (column,) in _blocks(path, [key]) for cell in unit_ids(column, f"{path}")]


def _texts(values: Sequence[Any]) -> np.ndarray:
    return np.array(["" if value is None else str(value) for value in values], np.str_)


def _check_there(schema: Any, name: str, path: Path) -> None:
    if schema.names.count(name) != 1:
        raise DataError(f"{path}: there is no column {name}; the columns are: {', '.join(schema.names) or 'none'}")


def _picture_column(schema: Any, key: str | None, path: Path) -> str:
    """The column that --images-key names, or the only one that holds pictures or pixels that Gossamer wrote."""
    held: dict[str, str] = {each.name: _holds(each.type) for each in schema}
    fitting = [name for name, holds in held.items() if holds == "pictures" or name == holds == _PIXELS]
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


def _label_columns(schema: Any, key: str | None, path: Path) -> list[str]:
    """The column of labels, or several of one-hot labels; none where there are no labels."""
    if key == NONE:
        return []
    name = key or next((name for name in _LABELS if name in schema.names), None)
    if name is None:
        raise DataError(
            f"{path}: there is no column label; the columns are: {', '.join(schema.names)}. Name it with `labels_key` "
            f"({NONE}: there are no labels), or several one-hot columns with commas between"
        )
    names = [name] if name in schema.names else sorted(name.split(","), key=place)
    for each in names:
        _check_there(schema, each, path)
        if _holds(schema.field(each).type) not in (["numbers"] if names[1:] else ["numbers", "names"]):
            raise DataError(f"{path}: the column {each} holds no labels: they are whole numbers or names")
    return names


def _holds(kind: Any) -> str:
    """What a column of a type holds: pictures, pixels, names or numbers. Empty: something else."""
    types = pa.types
    if types.is_dictionary(kind):
        return _holds(kind.value_type)
    if types.is_struct(kind):
        inner = kind.get_field_index("bytes")
        return _holds(kind.field(inner).type) if inner >= 0 else ""
    if types.is_fixed_size_list(kind):
        return _PIXELS if types.is_uint8(kind.value_type) else ""
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "pictures"
    if types.is_string(kind) or types.is_large_string(kind):
        return "names"
    return "numbers" if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) else ""


def _pictures(paths: Sequence[Path], blocks: Callable[[Path], Iterator[Any]]) -> Iterator[Source]:
    """Place and picture file of each row; of a file that cannot be read, the error."""
    for path in paths:
        row = itertools.count()
        try:
            for picture in itertools.chain.from_iterable(block.to_pylist() for block in blocks(path)):
                raw = picture.get("bytes") if isinstance(picture, dict) else picture
                if not isinstance(raw, bytes) or not raw:
                    raw = DataError("there is no picture in this row: store the bytes of files, not their paths")
                yield f"{path}, row {next(row)} (counted from 0)", raw
        except DataError as error:
            yield str(path), error


def _pixels(
    paths: Sequence[Path], blocks: Callable[[Path], Iterator[Any]], card_shape: tuple[int, ...] | None
) -> np.ndarray:
    """Pixels of samples that Gossamer wrote, whose shape is in a file's metadata. uint8 [N, C, H, W]"""
    size = _schema_of(paths[0]).field(_PIXELS).type.list_size
    values, shape = Filling(size * sum(map(rows_of, paths))), card_shape
    for path in paths:
        stated = (_schema_of(path).metadata or {}).get(b"shape", b"").decode("ascii", "replace").split(",")
        is_shape = len(stated) == 3 and all(side.isdecimal() for side in stated)
        stored = tuple(map(int, stated)) if is_shape else card_shape
        for pixels in blocks(path):
            flat = pixels.flatten()
            if pixels.null_count or flat.null_count:
                raise DataError(f"{path}: a sample lacks pixels: the file is damaged, write it again")
            shape = _shape_of(pixels.type.list_size, stored, path)
            values.add(flat.to_numpy())
    if not len(values) or shape is None:
        raise DataError(f"{paths[0]}: the file holds no samples: copy or write it again")
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
