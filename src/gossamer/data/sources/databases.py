"""A table of an SQLite or a DuckDB file as a relation. Files are opened for reading alone, and nothing is downloaded."""

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gossamer.data.problems import sound
from gossamer.data.sources.blocks import from_batches, from_rows
from gossamer.data.sources.relation import Relation
from gossamer.data.sources.servers import quoted
from gossamer.data.sources.text_file import LATIN, decoded
from gossamer.errors import DataError, RequestError

QUERY, TABLE = "?query=", "?table="
"""What is behind the name of a file, before a query or the name of a table."""
_ROWS = 1 << 14
_UNSOUND = (
    "the database cannot be read: it is damaged or in use, or the query is none of it. Export the table as .parquet."
)
_SQLITE_TABLES = (
    "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite@_%' escape '@'"
)
_DUCKDB_TABLES = "select table_name from information_schema.tables where table_schema = current_schema()"
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "threads": 1,
}
"""DuckDB reads the one file, and loads no extension."""


def open_sqlite(path: Path, inside: str = "") -> Relation:
    """Open a table of an SQLite file: each cell has its own type.

    Args:
        path: the file.
        inside: `?table=NAME` or `?query=SELECT`. Empty: the only table.

    Raises:
        DataError: a damaged file, no such table, or several.
    """
    # without a journal, nothing is written beside the file
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    address = f"file:{quote(str(path.absolute()))}?{mode}"
    notes: set[str] = set()

    def text(raw: bytes) -> str:
        found = decoded(raw)
        notes.update(() if found.encode() == raw else {LATIN})
        return found

    def rows(query: str) -> Iterator[Any]:
        """First the names of the columns, then the rows."""
        with sound(path, _UNSOUND), closing(sqlite3.connect(address, uri=True)) as connection:
            connection.text_factory = text
            cursor = connection.execute(query)
            yield [column[0] for column in cursor.description]
            yield from cursor

    _, *named = rows(_SQLITE_TABLES)
    query = f"select * from {_chosen([name for (name,) in named], inside, path)}"
    relation = from_rows(next(rows(query)), lambda: itertools.islice(rows(query), 1, None))
    relation.notes = notes
    return relation


def open_duckdb(path: Path, inside: str = "") -> Relation:
    """Open a table of a DuckDB file: each column has its declared type. See `open_sqlite`.

    Raises:
        RequestError: duckdb is not installed.
        DataError: a damaged file, no such table, or several.
    """
    try:
        import duckdb  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise RequestError(".duckdb files need duckdb: pip install 'gossamer[duckdb]'") from None

    def batches(query: str) -> Iterator[Any]:
        """First the schema, then batches."""
        with sound(path, _UNSOUND), duckdb.connect(str(path), read_only=True, config=_OFFLINE) as connection:
            reader = connection.sql(query).to_arrow_reader(_ROWS)
            yield reader.schema
            yield from reader

    _, *named = batches(_DUCKDB_TABLES)
    found = _chosen([name for batch in named for name in batch.column(0).to_pylist()], inside, path)
    names = next(batches(f"select * from {found}")).names

    def of_columns(positions: Sequence[int]) -> Iterator[Any]:
        wanted = ", ".join(quoted(names[at]) for at in positions)
        return itertools.islice(batches(f"select {wanted} from {found}"), 1, None)

    return from_batches(names, of_columns)


def tables_in(path: Path, *, sqlite: bool) -> list[str]:
    """The names of all tables and views of a file. Raises as `open_sqlite` and `open_duckdb`."""
    opened = open_sqlite(path, QUERY + _SQLITE_TABLES) if sqlite else open_duckdb(path, QUERY + _DUCKDB_TABLES)
    return [name for _, (names,) in opened.blocks([0]) for name in names.to_pylist()]


def _chosen(tables: Sequence[str], inside: str, path: Path) -> str:
    """SQL of what is read: a query, or the quoted name of a table. Names of tables are public, as those of columns are."""
    if inside.startswith(QUERY):
        return f"({inside.removeprefix(QUERY)})"
    table = inside.removeprefix(TABLE).removeprefix(":")
    if table and table not in tables:
        raise DataError(f"{path}: there is no table {table!r}; the tables are: {', '.join(sorted(tables)) or 'none'}")
    if not table and len(tables) != 1:
        raise DataError(
            f"{path}: the file holds {len(tables)} tables. Choose one: {path}{TABLE}NAME. The tables are: "
            f"{', '.join(sorted(tables)) or 'none'}"
        )
    return quoted(table or tables[0])
