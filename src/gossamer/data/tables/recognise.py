"""Whether DATA is a table: rows of values in columns, with no column of pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.data.readers import parquet_csv
from gossamer.data.readers.read import split_of
from gossamer.data.source import is_place, source_of
from gossamer.data.tables.csv_rows import SUFFIXES
from gossamer.data.tables.read import PARQUET
from gossamer.data.tables.table import Table


def is_table(data: Any) -> bool:
    """Whether DATA is a table, by its form and the names and types of its columns alone.

    Args:
        data: what `fit` takes. DataFrames, tables of pyarrow and dicts of columns are tables. So are .csv, .tsv and .parquet
            files without pictures, and folders with train and test in these forms.

    Raises:
        DataError: a .parquet file that cannot be read.
    """
    data = source_of(data).records
    if not is_place(data):
        return isinstance(data, Table | Mapping) or hasattr(data, "iloc") or hasattr(data, "to_batches")
    path = Path(split_of(str(data))[0])
    if path.is_dir():
        if any(entry.is_dir() for entry in path.iterdir()):  # of pictures, beside a list
            return False
        return any(_is_file_of_table(path / f"train{suffix}") for suffix in (*SUFFIXES, PARQUET))
    return _is_file_of_table(path)


def _is_file_of_table(path: Path) -> bool:
    name = path.name.lower()
    if not path.is_file():
        return False
    if name.endswith(PARQUET):
        return not parquet_csv.has_pictures(path)
    return name.endswith(SUFFIXES) and not parquet_csv.is_csv_of_samples(path)
