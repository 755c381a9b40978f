"""Files of Parquet and Arrow IPC as relations: every cell has the type that the file declares for its column."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gossamer.data.problems import sound
from gossamer.data.sources.blocks import from_batches
from gossamer.data.sources.relation import Relation
from gossamer.errors import DataError
from gossamer.lazy import Lazy, pa

parquet: Any = Lazy("pyarrow.parquet")

_ROWS = 1 << 16
PARQUET = ".parquet"
_MAGIC = b"ARROW1"


def open_arrow(path: Path) -> Relation:
    """Open a .parquet file, or Arrow's IPC in a file or a stream. Raises DataError: it is damaged."""
    return from_batches(schema_of(path).names, lambda positions: batches_of(path, positions))


def schema_of(path: Path) -> Any:
    """The names and types of a file's columns. Raises DataError."""
    with _opened(path) as file:
        schema = file.schema_arrow if hasattr(file, "schema_arrow") else file.schema
        _ = schema.names  # a name that is no UTF-8 raises
        return schema


def rows_of(path: Path) -> int:
    """The number of rows that a .parquet file declares, for the space that they need. 0: it declares none."""
    if path.suffix.lower() == PARQUET:
        with suppress(DataError), _opened(path) as file:  # a damaged file is told where it is read
            return int(file.metadata.num_rows)
    return 0


def batches_of(path: Path, positions: Sequence[int], rows: int = _ROWS) -> Iterator[Any]:
    """The columns at some positions, in batches of so many rows at most. Raises DataError."""
    with _opened(path) as file:
        for batch in _batches(file, positions, rows):
            batch.validate(full=True)
            yield batch


def _batches(file: Any, positions: Sequence[int], rows: int) -> Iterator[Any]:
    if hasattr(file, "iter_batches"):
        names = file.schema_arrow.names
        by_name = len({*names}) == len(names) and not any("." in name for name in names)
        columns = [names[at] for at in positions]
        for batch in file.iter_batches(rows, columns=columns if by_name else None, use_threads=False):
            yield batch.select(columns if by_name else positions)
        return
    count = getattr(file, "num_record_batches", None)
    for batch in file if count is None else map(file.get_batch, range(count)):
        yield from (batch.select(positions).slice(start, rows) for start in range(0, len(batch), rows))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A reader of the file. Errors of pyarrow become a DataError."""
    with (
        sound(path, f"this is no sound {path.suffix} file: copy or write it again"),
        pa.memory_map(str(path)) as file,  # of a plain file it asks for as many bytes as a damaged header declares
    ):
        if path.suffix.lower() == PARQUET:
            yield parquet.ParquetFile(file)
        else:
            begin = file.read(len(_MAGIC))
            file.seek(0)
            yield pa.ipc.open_file(file) if begin == _MAGIC else pa.ipc.open_stream(file)
