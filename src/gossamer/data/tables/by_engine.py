"""A table that an engine counts where it lives: only sums of weights come back, as whole numbers, the same from every engine.

No rule of how a cell is read stands here. The codes of a column of numbers, dates or times are steps, and `Reader` itself is
asked where they begin. Other columns are compared as text. `Reader` is asked for the codes of their different texts, and those
that the card does not declare are numbered by the engine. So a query holds constants of the card, and no value of a row.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gossamer.data.columns import times
from gossamer.data.columns.column import Column
from gossamer.data.columns.reading import FAULTS, Reader
from gossamer.data.sources.servers import PostgreSql, quoted
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.encode import Faults
from gossamer.data.tables.table import GRID, Clique, Map, Together, size_of
from gossamer.data.units import checked
from gossamer.errors import CardError, DataError
from gossamer.lazy import pa

MOST_TEXTS = 10_000
"""Different texts of a column that the card does not declare."""
_TOGETHER = 32
"""Tables that are counted by one query."""
_DAY = 86_400 * 10**6
"""Microseconds."""
_INFINITE = 0x7FF0 << 48
"""The place of infinity among floating-point numbers. That of NaN is the next one: engines sort it above."""
_ENDS = {"int64": (1 - 2**63, 2**63 - 1), "bool": (0, 1), "double": (-_INFINITE, _INFINITE + 1)}
_DAYS = (-719_162, 2_932_896)
"""The first and the last day that Python's dates have, from 1970."""


@dataclass(frozen=True)
class Steps:
    """The codes of a column as steps.

    Args:
        value: SQL of its values.
        starts: SQL of the value at which each step begins, the first one is not used.
        codes: int64 [steps + 1], the code of each step, and that of no value. A negative one is a fault.
    """

    value: str
    starts: Sequence[str]
    codes: np.ndarray

    def sql(self, name: str, values: np.ndarray) -> str:
        """A number for each step and for no value, as SQL. name: of the column that holds `value`. values: int [steps + 1]"""
        *steps, none = values.tolist()
        begins = np.flatnonzero(np.diff(steps, prepend=-1)).tolist()
        found = _nested(name, [self.starts[at] for at in begins], [steps[at] for at in begins])
        return f"case when {name} is null then {none} else {found} end"


@dataclass(frozen=True, kw_only=True)
class TableByEngine(Together):
    """Rows that an engine counts. The mark is by its own hashes, so it recognises copies in this engine alone.

    Args:
        session: of the engine. One of another engine has the same attributes.
        base: SQL that gives the values of each column of the card, x0, x1 and so on, and the id of each row's unit.
        columns: their codes.
        count: number of rows.
        has_units: whether rows belong to units. If not, each is its own.
    """

    session: PostgreSql
    base: str
    columns: tuple[Steps, ...]
    count: int
    has_units: bool

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"TableByEngine({self.count:,} rows in {self.session.name})"

    def _sums(self, maps: Sequence[Map], cliques: Sequence[Clique], max_rows: int) -> Iterator[np.ndarray]:
        """See `Countable`."""
        merged = [(k, values[np.maximum(self.columns[k].codes, 0)]) for k, values in maps]
        for first in range(0, len(cliques), _TOGETHER):
            yield from self.grouped(merged, cliques[first : first + _TOGETHER], max_rows)

    def grouped(self, merged: Sequence[Map], cliques: Sequence[Clique], max_rows: int | None) -> list[np.ndarray]:
        """The sums of weights in the cells of each clique, by one query. merged: a number for each step of a column."""
        used, sizes = sorted({*()}.union(*cliques)), [size_of(each) for each in merged]
        values = [f"{self.columns[merged[k][0]].sql(f'x{merged[k][0]}', merged[k][1])} as m{k}" for k in used]
        cells = []
        for clique in cliques:
            cell = f"m{clique[0]}"
            for k in clique[1:]:
                cell = f"({cell} * {sizes[k]} + m{k})"
            cells.append(cell)
        names = [f"c{at}" for at in range(len(cells))]
        number = " ".join(f"when {name} is not null then {at}" for at, name in enumerate(names))
        query = (
            f"select case {number} end, coalesce({', '.join([*names, '0'])}), cast(sum(w) as bigint) from (select "
            f"{', '.join(f'{cell} as {name}' for cell, name in zip(cells, names, strict=True))}, w from (select "
            f"{', '.join(values)}, w from {self._weighted(max_rows)} y offset 0) z offset 0) c "
            f"group by grouping sets ({', '.join(f'({name})' for name in names)})"
        )
        found = [np.zeros(np.prod([sizes[k] for k in clique], dtype=int), np.int64) for clique in cliques]
        for at, cell, total in self.session.ask(query):
            found[at][cell] = total
        return found

    def _weighted(self, max_rows: int | None) -> str:
        """SQL of the rows, with their weights w in steps of the grid, see `row_weights`. None: all weigh 1."""
        if max_rows is None or not self.has_units:
            return f"(select x.*, cast({GRID} as bigint) as w from {self.base} x)"
        most = GRID * max_rows
        weight = f"cast(({most} - {most} % n) / n as bigint)"  # whole, also where an engine divides in floating point
        return (
            f"(select x.*, case when n > {max_rows} then {weight} else {GRID} end as w from {self.base} x left join "
            f"(select id as own, count(*) as n from {self.base} i where id is not null group by id) u on id = own)"
        )


def table_by_engine(
    session: PostgreSql, card: TableCard, positions: Sequence[int], unit_at: int | None, where: str
) -> TableByEngine:
    """Look at a table, so that nothing that its rows hold can fail later.

    Args:
        session: holds the rows.
        card: declares the columns.
        positions: of its columns among those of the rows.
        unit_at: position of the column with the ids of units. None: each row is its own unit.
        where: what messages call the table.

    Raises:
        CardError: a rule between columns, which an engine does not apply.
        DataError: values that the card does not allow, ids that need care, and what the engine refuses.
    """
    if ruled := [each.name for each in card.columns if each.after or each.missing_with or each.only]:
        raise CardError(f"column {ruled[0]!r}: an engine does not apply rules between columns. Export the table.")
    schema, faults = session.schema(), Faults(where)
    every = [session.text.format(f"r.{quoted(name)}") for name in schema.names]
    fields, joins, columns = [], [], []
    for k, (column, at) in enumerate(zip(card.columns, positions, strict=True)):
        name, reader = f"r.{quoted(schema.names[at])}", Reader(column, card.decimal)
        steps, join = _steps(session, reader, column, name, schema.types[at], f"l{k}")
        fields.append(f"{steps.value} as x{k}")
        joins += [join] if join else []
        columns.append(steps)
    own = "null"
    if unit_at is not None:
        whole = pa.types.is_integer(schema.types[unit_at])
        own = f"r.{quoted(schema.names[unit_at])}" if whole else f"nullif({every[unit_at]}, '')"
        _check_ids(session, own, schema.types[unit_at], where)
    base = f"(select {', '.join(fields)}, {own} as id from {session.rows} r {' '.join(joins)})"
    hashes = " + ".join(f"cast({session.hash.format(f'coalesce({each}, chr(1))')} as decimal(38, 0))" for each in every)
    row = session.hash.format(session.text.format(hashes))
    ((count, named, units, mark),) = session.ask(
        f"select count(*), count({own}), count(distinct {own}), sum(cast({row} as decimal(38, 0))) from {session.rows} r"
    )
    if not count:
        raise DataError(f"{where}: the table holds no rows below the names of the columns")
    if unit_at is not None and named < count and card.missing_unit == "refuse":
        faults.add(f'{count - named:,} rows have no id of a unit. Give it, or say missing_unit = "own" in the card')
    stated = f"rows in {session.name.split()[0]} 1 {count} {mark}"
    table = TableByEngine(
        session=session,
        base=base,
        columns=tuple(columns),
        count=count,
        population=units + count - named,
        without_id=0 if unit_at is None else count - named,
        has_units=unit_at is not None,
        mark=hashlib.sha256(stated.encode()).hexdigest(),
    )
    steps_of = [(k, np.arange(len(each.codes))) for k, each in enumerate(columns)]
    for first in range(0, len(columns), _TOGETHER):
        some = [(k,) for k in range(first, min(len(columns), first + _TOGETHER))]
        for (k,), sums in zip(some, table.grouped(steps_of, some, None), strict=True):
            for fault, problem in FAULTS.items():
                if wrong := int(sums[columns[k].codes == fault].sum()) // GRID:
                    faults.add(f"column {card.columns[k].name!r}, {wrong:,} rows: {problem}")
    faults.refuse()
    return table


def _check_ids(session: PostgreSql, own: str, kind: "pa.DataType", where: str) -> None:
    """Refuse ids that `spelled` writes in another way: the engine would take two spellings for two units."""
    if pa.types.is_integer(kind):
        return
    if not pa.types.is_string(kind):
        raise DataError(f"{where}: the id of the unit must be a whole number or text")
    for (each,) in session.ask(f"select distinct {own} from {session.rows} r"):
        if each and checked([each], "own", lambda _: where) != [each]:
            raise DataError(
                f"{where}: an id of a unit has space around it, zeros in front, or accents that are not composed. The engine "
                "would take two spellings for two units. Clean the ids in a view, and name that."
            )


def _steps(
    session: PostgreSql, reader: Reader, column: Column, name: str, kind: "pa.DataType", alias: str
) -> tuple[Steps, str]:
    """The codes of a column, and what its value has to be joined with; empty: nothing. name: of the column in the rows."""
    fractions = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    as_text = fractions and (column.values or column.kind == "integer") and not reader.refuses(kind)
    if pa.types.is_string(kind) or as_text:
        return _of_texts(session, reader, column, session.text.format(name), alias)
    name = f"cast({name} as text)" if pa.types.is_float32(kind) else name  # see `widened`
    kind = pa.float64() if fractions else kind
    none = reader.codes(pa.nulls(1, kind)).astype(np.int64)
    starts, codes = _starts(reader, column, kind)
    word = session.types.get(str(kind), str(kind).removesuffix("[day]").replace("date32", "date"))
    value = f"cast({name} as {word})" if fractions else f"case {name} when true then 1 when false then 0 end"
    value = value if fractions or pa.types.is_boolean(kind) else name
    numbers = _values(starts, pa.int64() if pa.types.is_boolean(kind) else kind)
    texts = numbers.cast(pa.string()).to_pylist()
    sql = texts if not fractions and not pa.types.is_temporal(kind) else [f"cast('{text}' as {word})" for text in texts]
    return Steps(value, sql, np.append(codes, none)), ""


def _of_texts(session: PostgreSql, reader: Reader, column: Column, text: str, alias: str) -> tuple[Steps, str]:
    """The codes of texts. Declared ones have a number each, and all others of one code another one, or each its own."""
    declared = ["'" + value.replace("'", "''") + "'" for value in column.values]
    others = f"{text} is not null" + (f" and {text} not in ({', '.join(declared)})" if declared else "")
    distinct = f"(select distinct {text} as v from {session.rows} r where {others})"
    found = [each for (each,) in session.ask(f"select v from {distinct} d order by v limit {MOST_TEXTS + 1}")]
    if len(found) > MOST_TEXTS:
        raise DataError(
            f"column {column.name!r}: it holds more than {MOST_TEXTS:,} different texts that the card does not declare. "
            "Store numbers and dates as such, or join rare texts in a view, and name that."
        )
    codes = reader.codes(pa.array([*column.values, *found, None], pa.string())).astype(np.int64)
    known = len(declared)
    alike, number, join = len({*codes[known:-1].tolist()}) < 2, str(known), ""
    if alike:
        codes = np.delete(codes, slice(known + 1, -1))
    else:
        number = f"{known} + {alias}.k"
        join = f"left join (select v, row_number() over (order by v) - 1 as k from {distinct} d) {alias} on {text} = {alias}.v"
    cases = " ".join(f"when {value} then {at}" for at, value in enumerate(declared))
    value = (
        f"case when {text} is null then null else {f'case {text} {cases} else {number} end' if cases else number} end"
    )
    return Steps(value, [*map(str, range(len(codes) - 1))], codes), join


def _starts(reader: Reader, column: Column, kind: "pa.DataType") -> tuple[np.ndarray, np.ndarray]:
    """Where steps begin among the values of a type, as whole numbers in their order, and the code of each. int64 [steps]"""
    unit = {"date": _DAY, "datetime": 10**6}.get(column.kind, 1) if pa.types.is_temporal(kind) else 1
    places = reader.places[np.isfinite(reader.places)] * unit
    if pa.types.is_date(kind):
        places /= _DAY
    ends = _ENDS.get(str(kind)) or (_DAYS if pa.types.is_date(kind) else (_DAYS[0] * _DAY, (_DAYS[1] + 1) * _DAY - 1))
    at = (
        _ordered(places)
        if pa.types.is_floating(kind)
        else np.floor(places.clip(-(2.0**62), 2.0**62)).astype(np.int64).clip(*ends)
    )
    if getattr(kind, "tz", None) and column.zone:
        days = np.unique(at[:, None] + _DAY * np.arange(-2, 3)).clip(*ends)
        moments = _changes(lambda each: _ahead(each, column.zone), days)
        ahead = np.unique(_ahead(moments, column.zone))
        at = np.append(moments, (at[:, None] - ahead).ravel())
    at = np.unique(np.append((at[:, None] + np.arange(-1, 2)).ravel().clip(*ends), ends))
    at = np.union1d(at, _between(at[:-1], at[1:]))

    def codes(each: np.ndarray) -> np.ndarray:
        return reader.codes(_values(each, kind)).astype(np.int64)

    at = _changes(codes, at)
    found = codes(at)
    first = np.append(True, found[1:] != found[:-1])
    return at[first], found[first]


def _changes(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Rising whole numbers, and more of them: until each change of a function is between neighbours."""
    while True:
        found = function(at)
        apart = (found[1:] != found[:-1]) & (at[1:] != at[:-1] + 1)
        if not apart.any():
            return at
        at = np.union1d(at, _between(at[:-1][apart], at[1:][apart]))


def _between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """In the middle, in 64 bits."""
    return np.asarray((low >> 1) + (high >> 1) + (low & high & 1))


def _ahead(micros: np.ndarray, zone: str) -> np.ndarray:
    """Microseconds that the clock of a zone is ahead of UTC."""
    moments = _values(micros, pa.timestamp("us", "UTC"))
    clock: np.ndarray = np.asarray(times.on_clock(moments, zone).cast(pa.int64()))
    return np.asarray(clock - micros)


def _ordered(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of floating-point numbers, whose neighbours are neighbours. int64 [n]"""
    bits = np.abs(numbers).view(np.int64)
    return np.asarray(np.where(numbers < 0, -bits, bits))


def _values(at: np.ndarray, kind: "pa.DataType") -> "pa.Array":
    """The values of a type at places in their order."""
    if pa.types.is_floating(kind):
        return pa.array(np.copysign(np.abs(at).view(np.float64), at))
    if pa.types.is_boolean(kind):
        return pa.array(at == 1)
    return pa.array(at.astype(np.int32)).view(kind) if pa.types.is_date(kind) else pa.array(at).view(kind)


def _nested(name: str, starts: Sequence[str], values: Sequence[int]) -> str:
    """SQL of the value of the last step that begins at or below a column; below all of them the first."""
    if len(values) == 1:
        return str(values[0])
    half = len(values) // 2
    below, above = _nested(name, starts[:half], values[:half]), _nested(name, starts[half:], values[half:])
    return f"case when {name} < {starts[half]} then {below} else {above} end"
