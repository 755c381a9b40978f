"""A table, as a file or in memory, to codes. Its card says how; nothing after this module sees a raw value."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.columns.texts import parts
from gossamer.data.labels import listed
from gossamer.data.memory_mapped import ROOM, Filling, in_threads, remarks
from gossamer.data.source import Data, Split, is_place, refuse_keys, source_of, split_of
from gossamer.data.sources.names import clean_names
from gossamer.data.sources.pictures import npz
from gossamer.data.sources.relation import Block, Relation
from gossamer.data.sources.tables import file_of, open_table
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.data.tables.by_engine import table_by_engine
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.encode import Faults, TableEncoder
from gossamer.data.tables.raw_rows import RawRows, sums_of
from gossamer.data.tables.table import CODES, Owners, Table
from gossamer.data.units import checked, from_array, numbered
from gossamer.errors import CardError, DataError
from gossamer.lazy import pa


def read_table(
    data: Data, card: TableCard, *, split: Split = "train", called: str = "data", only_counts: bool = False
) -> Table:
    """Read a table.

    Args:
        data: a path; `:train` or `:test` at its end picks a split of a folder, and overrides `split`. Or columns in memory. The
            units of a `Source` are the column with the id of the unit (such as a person) of each row, which is no column of
            the table. Or FILE.npz:KEY, or an array, with one id for each row. None: each row is a unit, or the units of a
            `Table` stay.
        card: declares the columns. Others, and those that it generates, have no code. They are read for the mark alone.
        split: the split to read where the source is a folder.
        called: what messages call a table in memory.
        only_counts: rows are only counted. So a column of units becomes weights, in constant memory, and what a server holds is
            counted there.

    Raises:
        RequestError: the source has keys, which are for pictures.
        DataError: what cannot be read, and all values that the card does not allow. Names columns and rows, never a value.
        CardError: the column of the units is a column of the card too.
    """
    source, units = source_of(data).records, source_of(data).units
    refuse_keys(source_of(data))
    where = str(source) if is_place(source) else called
    if isinstance(source, Table):
        return _with_units(_checked(source, card, where), units, card)
    opened, wanted, faults = open_for(source, card, split, where)
    unit_at = _unit_column(units, opened.names, card, faults)
    if missing := [name for name, at in zip(card.names, wanted, strict=True) if at < 0]:
        raise _without(missing, card, where)
    faults.refuse()
    left_out = [at for at, name in enumerate(opened.names) if at not in wanted and at != unit_at]
    if only_counts and opened.session is not None:
        if units is not None and unit_at is None:
            raise DataError(f"{where}: `units` must name the column with the id of each row's unit.")
        counted: Any = table_by_engine(opened.session, card, wanted, unit_at, where)
        seen: Table = replace(counted, notes=tuple(_left_out(left_out, opened.names, card)))
        return seen
    encoder = TableEncoder(card, faults, guessed=not is_place(source))
    filling, raw_rows, began = Filling(in_memory=ROOM), RawRows(), _state(source)
    ids: list[str] = []
    owners = Owners()
    every = [at for at, name in enumerate(opened.names) if opened.names.count(name) == 1]

    def coded(given: Block) -> tuple[np.ndarray, dict[int, Any], np.ndarray, np.ndarray]:
        columns = dict(zip(every, given[1], strict=True))
        _refuse_nested(card.names, [columns[at] for at in wanted], faults)
        return given[0], columns, encoder.encode([columns[at] for at in wanted]), sums_of(given[1])

    for rows, columns, codes, sums in in_threads(coded, opened.blocks(every)):
        raw_rows.add(sums)
        encoder.check(codes, rows)
        if unit_at is not None:
            own = columns[unit_at]
            if only_counts and pa.types.is_signed_integer(own.type) and not own.null_count:
                owners.add_numbers(np.asarray(own))
            elif only_counts:
                place = partial(row_name, where, rows=rows)
                owners.add(checked(unit_ids(own, where), card.missing_unit, place))
            else:
                ids.extend(unit_ids(own, where))
        filling.add(codes.astype(CODES))
    faults.refuse(opened.ragged)
    if _state(source) != began:
        raise DataError(
            f"{where}: the table has changed while it was read. Wait until nothing writes to it, and begin again."
        )
    codes = filling.array((-1, len(wanted)), CODES)
    if not len(codes):
        raise DataError(f"{where}: the table holds no rows below the names of the columns")
    notes = sorted({*opened.notes, *remarks(codes), *_left_out(left_out, opened.names, card)})
    table = Table(codes, notes=tuple(notes), mark=raw_rows.digest())
    if unit_at is None:
        return _with_units(table, units, card)
    if only_counts:
        return owners.weighted(table, card.max_rows)
    units = numbered(ids, card.missing_unit, partial(row_name, where))
    return replace(table, units=units.numbers, names=units.names)


def row_name(where: str, at: int, rows: np.ndarray | None = None) -> str:
    """What messages call a row, by its position among rows with these numbers."""
    return f"{where}, row {at if rows is None else rows[at]} (counted from 0)"


def _state(source: Any) -> list[tuple[str, int, int]]:
    """Size and time of the last change of each file of a table; none of a table in memory."""
    path = file_of(split_of(str(source))[0])[0] if is_place(source) else None
    files = [] if path is None else sorted(path.iterdir()) if path.is_dir() else [path]
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()]


def read_values(source: Any, card: TableCard, *, split: Split, called: str) -> np.ndarray:
    """The values of a table that `read_table` has read, as numbers. float64 [N, columns], see `decode.to_numbers`.

    Only `evaluate` needs them: its classifiers learn from values that no bin has made coarse.
    """
    where = str(source) if is_place(source) else called
    opened, wanted, faults = open_for(source, card, split, where)
    encoder = TableEncoder(card, faults, guessed=not is_place(source))
    return np.concatenate([encoder.values(columns) for _, columns in opened.blocks(wanted)])


def open_for(source: Any, card: TableCard, split: str, where: str) -> tuple[Relation, list[int], Faults]:
    """A source, the positions of the columns of the card (-1: there is none), and what is wrong with their names."""
    relation = open_table(source, split=split, wanted=card.names, where=where, header=card.header, decimal=card.decimal)
    faults = Faults(where)
    return relation, [_position(relation.names, name, faults) for name in card.names], faults


def unit_column(relation: Relation, units: str | None, where: str) -> int | None:
    """The position of the column of the units; None: there are no units. Raises DataError: no such column."""
    if units is None:
        return None
    name = clean_names([units])[0]
    if name not in relation.names:
        raise DataError(f"{where}: the table has no column {units!r}. Name the column with the id of each unit.")
    return relation.names.index(name)


def _refuse_nested(names: Sequence[str], columns: Sequence["pa.Array"], faults: Faults) -> None:
    """Refuse declared columns whose cells are no single values, with all faults so far. Raises DataError."""
    types = [[part.type for _, part in parts(column)] for column in columns]
    nested = [any(pa.types.is_nested(kind) or pa.types.is_binary(kind) for kind in kinds) for kinds in types]
    for name in itertools.compress(names, nested):
        faults.add(f"column {name!r}: it holds lists, structures or bytes. Take it off the card, or write text into it")
    if any(nested):
        faults.refuse()


def _position(names: list[str], name: str, faults: Faults) -> int:
    """The position of a declared column; -1: there is none."""
    found = [at for at, other in enumerate(names) if other == clean_names([name])[0]]
    if len(found) > 1:
        faults.add(f"column {name!r}: {len(found)} columns have this name: rename the others, or take them out")
    return found[0] if found else -1


def _without(missing: list[str], card: TableCard, where: str) -> DataError:
    if len(missing) == len(card.names):
        return DataError(
            f"{where}: the first line names no column of the card. Add a line of names. Or draft a card without: "
            "`gossamer.draft_card(DATA, header=False)`."
        )
    return DataError(f"{where}: the table has no column {listed([*map(repr, missing)])}: upper and lower case counts")


def _left_out(positions: list[int], names: list[str], card: TableCard) -> list[str]:
    """A note on columns that the card neither names nor drops. Their names are no public facts, so it counts them."""
    known = {*clean_names([*(name for name, _ in card.drop), *(column.name for column in card.generated)])}
    others = [str(at + 1) for at in positions if names[at] not in known]
    note = f"Columns that the card does not name were left out, by position from 1: {listed(others)}."
    return [note] if others else []


def _unit_column(units: Any, names: list[str], card: TableCard, faults: Faults) -> int | None:
    """The position of the column of the units; None: they are elsewhere, or there are none."""
    if not isinstance(units, str) or clean_names([units])[0] not in names:
        return None
    if units in card.names:
        raise CardError(
            f"the column {units!r} is of the units, so it cannot be a column of the table: take it off the card"
        )
    return _position(names, units, faults)


def _with_units(table: Table, units: Any, card: TableCard) -> Table:
    """A table with these ids of units, by position. None: as it is."""
    if units is None:
        return table
    ids = unit_ids(_unit_array(units) if isinstance(units, str) else units, "units")
    owners = from_array(ids, len(table), card.missing_unit, where="units")
    return replace(table, units=owners.numbers, names=owners.names)


def _unit_array(units: str) -> np.ndarray:
    file, colon, key = units.rpartition(":")
    if not colon or not Path(file).is_file():
        raise DataError(
            f"units: there is no column {units!r}, and this is no FILE.npz:KEY. Name the column of the ids."
        )
    return npz.member(Path(file), key)


def _checked(table: Table, card: TableCard, where: str) -> Table:
    """A table in memory whose codes fit the card."""
    if table.codes.shape[1:] != (len(card.columns),):
        raise DataError(
            f"{where}: the card declares {len(card.columns)} columns, and the table {table.codes.shape[1:]}"
        )
    for at, column in enumerate(card.columns):
        if len(table) and not 0 <= int(table.codes[:, at].min()) <= int(table.codes[:, at].max()) < column.size:
            raise DataError(f"{where}: column {column.name!r} holds codes outside 0 to {column.size - 1}.")
    return table
