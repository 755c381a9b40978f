"""A table of a PostgreSQL server. All queries of a session see the same rows, and none of them can change a row.

The password is in the files or the environment of PostgreSQL (~/.pgpass, PGPASSWORD, PGSERVICE), and never passes here.
Messages have the code of an error and not its text, which may quote a value.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from weakref import finalize

from gossamer.data.source import Address
from gossamer.data.sources.blocks import from_rows
from gossamer.data.sources.relation import Relation
from gossamer.errors import DataError, RequestError
from gossamer.lazy import Lazy, pa

psycopg: Any = Lazy("psycopg")

_SETTINGS = """set time zone 'UTC'; set datestyle to iso; set intervalstyle to postgres; set extra_float_digits to 1;
set standard_conforming_strings to on; set synchronize_seqscans to off; set cursor_tuple_fraction to 1;
set work_mem to '64MB'"""
"""How values are written, in which order rows come, and how much memory a table of counts takes."""
_ROWS = 1 << 14
"""Rows that come at once."""
_REASONS = {
    "28": "The server has refused the user. Name another by PGUSER or in the address, and put the password into ~/.pgpass.",
    "3D": "There is no such database. Correct the name in the address.",
    "42501": "The user may not read this table. Ask its owner for GRANT SELECT.",
    "42": "There is no such table or column, or the query is none. Correct the address.",
    "53": "The server has too little memory or space for this query. Ask its operator, or take a part of the table.",
    "57014": "The server has stopped the query. Ask its operator for a longer statement_timeout.",
    "": "The connection is lost. No cost was recorded for the query. If a run has begun, go on with `gossamer.resume(RUN)`.",
    "57": "The server has ended the session. No cost was recorded for the query. If a run has begun: `gossamer.resume(RUN)`.",
}
_WITHHELD = "Its message is withheld, as it may quote a value. Look into the log of the server."
"""What to do, by the first characters of a code of PostgreSQL, the longest first."""


class PostgreSql:
    """A session in one snapshot that only reads.

    Args:
        address: of the table.

    Raises:
        RequestError: psycopg is not installed.
        DataError: the server or the table cannot be used.
    """

    text = '(cast({} as text) collate "C")'
    """An expression as text, in whose comparisons bytes count."""
    hash = "hashtextextended({}, 1)"
    """64 bits of a text."""
    types: ClassVar = {"double": "float8", "timestamp[us]": "timestamp", "timestamp[us, tz=UTC]": "timestamptz"}
    """What the engine calls types of Arrow, where it has other names."""

    def __init__(self, address: Address) -> None:
        if importlib.util.find_spec("psycopg") is None:
            raise RequestError("Tables of a server need psycopg: pip install 'gossamer[database]'")
        self._server = address.server
        with self._failing("The server does not answer, or has refused the user. Check address, PGUSER and ~/.pgpass."):
            self._connection = psycopg.connect(address.server)
            finalize(self, self._connection.close)
            self._connection.execute(_SETTINGS)
            self._connection.commit()
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self._connection.read_only = True
        version = self._connection.info.server_version
        self.name = f"PostgreSQL {version // 10_000}.{version % 10_000}"
        self.rows = address.inside
        if address.part != (0.0, 1.0):
            unit = f"cast({quoted(address.by)} as text)" if address.by else "cast(r as text)"
            low, high = (int(end * 2.0**64) - 2**63 for end in address.part)
            taken = self.hash.format(f"coalesce({unit}, '')")
            self.rows = f"(select * from {self.rows} r where {taken} >= {low} and {taken} < {high})"

    def schema(self) -> "pa.Schema":
        """The columns and their types. A type that is neither of numbers nor of times is one of texts."""
        with self._failing():
            found = self._connection.execute(f"select * from {self.rows} r limit 0").description
        times = {1082: pa.date32(), 1114: pa.timestamp("us"), 1184: pa.timestamp("us", "UTC")}
        numbers = {700: pa.float32(), 701: pa.float64(), 1700: pa.decimal128(38)}
        whole = dict.fromkeys((20, 21, 23), pa.int64())
        types = {16: pa.bool_(), **whole, **numbers, **times}
        return pa.schema([(each.name, types.get(each.type_code, pa.string())) for each in found])

    def ask(self, query: str) -> Iterator[Sequence[Any]]:
        """The rows of an answer. They are read as they come."""
        with self._failing(), self._connection.cursor(name="gossamer") as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(_ROWS):
                yield from rows

    @contextmanager
    def _failing(self, otherwise: str = _REASONS[""]) -> Iterator[None]:
        """Make a DataError of what PostgreSQL or its driver raises. otherwise: of an error without a code."""
        try:
            yield
        except psycopg.Error as error:
            code = error.sqlstate or ""
            known = [reason for begin, reason in _REASONS.items() if begin and code.startswith(begin)]
            gone = not code and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            reason = otherwise if gone else [*known, _WITHHELD][0]
            raise DataError(f"{self._server}: PostgreSQL failed (code {code or 'none'}). {reason}") from None


def open_server(address: Address) -> Relation:
    """A table of a server as a relation: rows come in their order on the disk, each column with its type."""
    session = PostgreSql(address)
    schema = session.schema()
    columns = [_readable(f"r.{quoted(field.name)}", field.type) for field in schema]
    relation = from_rows(schema.names, lambda: session.ask(f"select {', '.join(columns)} from {session.rows} r"))
    relation.remedy, relation.session = "", session
    return relation


def _readable(name: str, kind: "pa.DataType") -> str:
    """SQL of a column. Times that Python does not have, such as infinity, become the nearest that it has."""
    first, last = "'0001-01-01'", "'9999-12-31 23:59:59.999999'"
    inside = f"case when {name} < {first} then {first} when {name} > {last} then {last} else {name} end"
    return inside if pa.types.is_temporal(kind) else name


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'
