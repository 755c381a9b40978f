"""Tables in memory as relations: frames, tables of pyarrow and Hugging Face, dicts, lists of dicts, arrays with fields.

Each is recognised by what it can do, so no library is imported for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.data.columns.column import NUMBERED
from gossamer.data.sources.cells import cells
from gossamer.data.sources.names import READ_AGAIN, clean_names
from gossamer.data.sources.relation import Block, Relation
from gossamer.errors import DataError
from gossamer.lazy import pa

IN_MEMORY = (
    "a DataFrame, a table of pyarrow or Hugging Face, a dict of columns, a list of dicts, or an array with named fields"
)
_ROWS = 1 << 16
"""Rows of a block."""
_REMEDIES = {
    "LazyFrame": "Write it to a file, `frame.sink_parquet('rows.parquet')`, and give its path.",
    "ibis": "Write it to a file, `expression.to_parquet('rows.parquet')`, and give its path.",
    "pyspark": "Write it to a folder, `frame.write.parquet('rows')`, and give its path.",
    "DuckDBPyRelation": "Write it to a file, `relation.write_parquet('rows.parquet')`, and give its path.",
    "RecordBatchReader": "Read it first: `reader.read_all()`.",
    "FileSystemDataset": "Read it first: `dataset.to_table()`.",
    "InMemoryDataset": "Read it first: `dataset.to_table()`.",
    "IterableDataset": "Load it without `streaming=True`.",
    "DatasetDict": "Choose a split, such as `data['train']`.",
    "Series": "Make a table of one column: `series.to_frame()`.",
}
"""What to do with objects that hold a table and are none, by the name of their library or their type."""


def is_frame(data: Any) -> bool:
    """Whether an object in memory is a table, by its type and those of its columns. Columns of pictures make it none."""
    if isinstance(data, Mapping):
        return bool(data) and not any(_is_picture(value) or _has_pictures(value) for value in data.values())
    if isinstance(data, list | tuple):
        first = data[0] if data else None
        return isinstance(first, Mapping) and not any(map(_is_picture, first.values()))
    if _is_hugging_face(data):
        return not any(type(feature).__name__ == "Image" for feature in data.features.values())
    if isinstance(data, np.ndarray):
        return data.dtype.names is not None
    return not _REMEDIES.keys().isdisjoint(_names(data)) or any(
        hasattr(data, name) for name in ("iloc", "to_struct_array", "get_columns")
    )


def open_memory(data: Any, where: str, *, header: bool | None) -> Relation:
    """Open a table in memory. Raises DataError: it is none, or its columns differ in length.

    header: False calls columns without names, which pandas numbers from 0, column_1, column_2 and so on.
    """
    labels, found = _columns(data, where)
    if len({len(column) for column in found}) > 1:
        raise _uneven(where)

    def blocks(positions: Sequence[int]) -> Iterator[Block]:
        count = len(found[0]) if found else 0
        for start in range(0, count, _ROWS):
            rows = slice(start, min(start + _ROWS, count))
            parts = (found[at].iloc[rows] if hasattr(found[at], "iloc") else found[at][rows] for at in positions)
            columns = [_as_text(part, f"{where}, column {at + 1}") for at, part in zip(positions, parts, strict=True)]
            if any(len(column) != rows.stop - start for column in columns):
                raise _uneven(where)
            yield np.arange(start, rows.stop), columns

    relation = Relation(clean_names([str(label) for label in labels]), blocks, guessed=True, remedy=READ_AGAIN)
    if all(isinstance(label, int | np.integer) and label == at for at, label in enumerate(labels)):
        relation.remedy = ""  # positions, as pandas gives them to a file without names
        if header is False:
            relation.names = [NUMBERED.format(at + 1) for at in range(len(labels))]
    return relation


def _as_text(values: Any, place: str) -> Any:
    """A column as an array of Arrow; NumPy's bytes are text, as those of other libraries are none.

    place: what messages call the column: by its position, as its name may be a value.
    """
    try:
        array = cells(values)
    except DataError as error:
        raise DataError(f"{place} (counted from 1): {error}") from None
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        return pa.array([value.decode("utf-8", "replace") for value in values.tolist()])
    return array


def _uneven(where: str) -> DataError:
    return DataError(f"{where}: the columns must be of one length, with one value for each row.")


def _columns(data: Any, where: str) -> tuple[Sequence[Any], Sequence[Any]]:
    """What the columns of a table are called, and the columns."""
    for name in _REMEDIES.keys() & _names(data):
        raise DataError(f"{where} is of type {'.'.join(_names(data))}, which is no table. {_REMEDIES[name]}")
    if _is_hugging_face(data):
        data = data.with_format("arrow")[:]  # which stays in its files
    if hasattr(data, "to_struct_array"):  # of pyarrow
        return data.schema.names, data.columns
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return [*data.columns], [data.iloc[:, at] for at in range(len(data.columns))]
    if hasattr(data, "get_columns"):
        return data.columns, data.get_columns()
    if isinstance(data, np.ndarray) and data.dtype.names:
        return data.dtype.names, [data[name] for name in data.dtype.names]
    if isinstance(data, Mapping) and data:
        if any(isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__") for value in data.values()):
            raise DataError(f"{where}: each column of a dict must be a list or an array, with one value for each row.")
        return [*data], [*data.values()]
    if isinstance(data, list | tuple) and data and isinstance(data[0], Mapping):
        return _of_dicts(data, where)
    raise DataError(f"{where} is of type {type(data).__name__}. A table is a path, {IN_MEMORY}.")


def _of_dicts(rows: Sequence[Mapping[Any, Any]], where: str) -> tuple[Sequence[Any], Sequence[Any]]:
    """The first row names the columns; a missing value is None, or its name is left out."""
    labels = [*rows[0]]
    known = {*labels}
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping) or not known.issuperset(row):
            raise DataError(
                f"{where}: row {at} (counted from 0) is no dict, or has a name that the first row has not: name all there"
            )
    return labels, [[row.get(label) for row in rows] for label in labels]


def _names(data: Any) -> tuple[str, str]:
    """The library and the name of a type."""
    return type(data).__module__.partition(".")[0], type(data).__name__


def _is_hugging_face(data: Any) -> bool:
    return hasattr(data, "with_format") and isinstance(getattr(data, "features", None), Mapping)


def _is_picture(value: Any) -> bool:
    """Whether a value is an array or a tensor with two dimensions or more, or a picture of Pillow."""
    return len(getattr(value, "shape", ())) > 1 or (hasattr(value, "mode") and hasattr(value, "getpixel"))


def _has_pictures(column: Any) -> bool:
    return isinstance(column, list | tuple) and bool(column) and _is_picture(column[0])
