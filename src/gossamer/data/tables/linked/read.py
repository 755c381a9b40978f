"""Linked tables to records: of each table the flat rows of its part, by the card alone. No raw value is in them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gossamer.data.fingerprint import Identity
from gossamer.data.problems import SHOWN
from gossamer.data.source import Data, is_place, refuse_keys, source_of, split_of
from gossamer.data.sources.memory import is_frame
from gossamer.data.sources.tables import SUFFIXES, open_table, tables_of
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.data.tables.linked.card import LinkedCard
from gossamer.data.tables.linked.part import Part, codes_of
from gossamer.data.tables.linked.table import LinkedTable
from gossamer.data.tables.read import open_for, read_table, read_values, unit_column
from gossamer.data.tables.table import CODES, Table, identify
from gossamer.data.units import Grouped, numbered
from gossamer.errors import DataError

FORMS = (
    "a folder with a file for each table, such as patients.csv and visits.csv, a .sqlite or .duckdb file with all tables, or "
    "from Python a dict of tables by name"
)


@dataclass(frozen=True, repr=False)
class LinkedRecords(Grouped):
    """The parts of linked tables: each is a flat `Table`, whose units are the rows of the root.

    Args:
        parts: of each table, in the order of the card.
        units: int64 [population], the rows of the root.
        names: text [population], the key of each row of the root.
        notes: what the readers converted, in words: for the terminal, and for no file.
    """

    parts: tuple[Table, ...]
    units: np.ndarray
    names: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of units."""
        return len(self.units)

    def __repr__(self) -> str:
        return f"LinkedRecords({self.in_words})"

    @property
    def in_words(self) -> str:
        """Numbers of rows, without a value."""
        return f"{' and '.join(f'{len(part):,}' for part in self.parts)} rows of {len(self.parts)} tables"

    def __getitem__(self, which: slice | np.ndarray) -> "LinkedRecords":
        """The records of some units, by position. They keep their numbers in no part: units are numbered from 0 again."""
        chosen = np.arange(len(self))[which]
        number = np.full(len(self), -1)
        number[chosen] = np.arange(len(chosen))
        parts = []
        for part in self.parts:
            assert part.units is not None
            rows = np.flatnonzero(number[part.units] >= 0)
            rows = rows[np.argsort(number[part.units[rows]], kind="stable")]
            parts.append(Table(part.codes[rows], number[part.units[rows]]))
        names = None if self.names is None else self.names[chosen]
        return LinkedRecords(tuple(parts), np.arange(len(chosen)), names, self.notes)

    def take(self, unit_numbers: np.ndarray) -> "LinkedRecords":
        """The records of some units. unit_numbers: int64, in rising order."""
        return self[unit_numbers]


def read_linked(
    data: Data, card: LinkedCard, *, split: Literal["train", "test"] = "train", called: str = "data"
) -> LinkedRecords:
    """Read linked tables.

    Args:
        data: a folder with a file for each table; `:train` or `:test` at its end picks a folder in it. A database, with a
            table of each name. Or a mapping from the names of the tables to tables in memory.
        card: declares tables and columns.
        split: the folder to read where there are `train` and `test`.
        called: what messages call tables in memory.

    Raises:
        RequestError: the source has keys of pictures.
        DataError: what cannot be read, all values that the card does not allow, and keys that fit no row. Names tables,
            columns and rows, never a value.
    """
    refuse_keys(source_of(data))
    own: Any = source_of(data).records
    if isinstance(own, LinkedRecords):
        if any(part.units is None for part in own.parts):  # each row would weigh as a unit of its own
            raise DataError(f"{called}: rows have no units. Give the tables themselves.")
        return own
    places = _places(data, card, split, called)
    read: dict[str, _Read] = {}
    for table, part in zip(card.tables, card.parts, strict=True):
        read[table.name] = _flat(table, part, places[table.name], read, split, f"{called}, table {table.name}")
    for table, part in zip(card.tables, card.parts, strict=True):
        for at, name in enumerate(part.below):
            rows = read[name].above[table.name]
            counted = np.bincount(rows, minlength=len(read[table.name].codes)).astype(np.float64)
            column = part.card.columns[part.below_at + at]
            read[table.name].flat[:, part.below_at + at] = codes_of(column, counted)
    parts = tuple(Table(each.flat.astype(CODES), each.units) for each in read.values())
    root = read[card.names[0]]
    notes = [f"{name}: {note}" for name, each in read.items() for note in each.notes]
    return LinkedRecords(parts, np.arange(len(parts[0])), root.ids, tuple(notes))


def identify_linked(records: LinkedRecords) -> Identity:
    """The fingerprint of all parts in their order, and the mark of the rows of all tables in any order."""
    found = [identify(each) for each in records.parts]
    prints = hashlib.sha256("".join(each.fingerprint for each in found).encode()).hexdigest()
    marks = hashlib.sha256("".join(sorted(each.mark for each in found)).encode()).hexdigest()
    return Identity(prints, marks)


@dataclass
class _Read:
    """A table as it was read.

    Args:
        codes: of the own columns, [n, own].
        flat: of the part, [n, columns]; the numbers of rows below come last.
        units: the row of the root of each row, int64 [n].
        above: the row of each table above that each row belongs to, int64 [n] by name; the parent last.
        ids: the key of each row, text [n]; None: it has none.
        notes: of the readers.
    """

    codes: np.ndarray
    flat: np.ndarray
    units: np.ndarray
    above: dict[str, np.ndarray]
    ids: np.ndarray | None
    notes: tuple[str, ...]


def _flat(
    table: LinkedTable, part: Part, place: Any, read: Mapping[str, _Read], split: Literal["train", "test"], where: str
) -> _Read:
    """A table, and its part but for the numbers of rows below. read: the tables above."""
    where = str(place) if is_place(place) else where
    keys = [(name, "a key") for name in dict.fromkeys((table.key, table.parent_key)) if name]
    card = replace(table.card, unit="record", drop=(*table.card.drop, *keys))
    own = read_table(place, card, split=split, called=where)
    codes = own.codes
    ids = _ids(table, table.key, place, split, where) if table.key else None
    if ids is not None and len(np.unique(ids)) < len(ids):
        raise DataError(f"{where}: the key {table.key!r} is not unique: each row needs one of its own.")
    flat = np.zeros((len(codes), len(part.card.columns)), np.int64)
    if not table.parent:
        flat[:, : codes.shape[1]] = codes
        return _Read(codes, flat, np.arange(len(codes)), {}, ids, own.notes)
    parents = _parents(_ids(table, table.parent_key, place, split, where), read[table.parent].ids, table, where)
    order = np.argsort(parents, kind="stable")
    values = np.zeros(len(codes))
    if table.order:
        at = table.card.names.index(table.order)
        values = read_values(place, table.card, split=split, called=where)[:, at]
        order = np.lexsort((values, parents))
    codes, parents, values = codes[order], parents[order], values[order]
    units = read[table.parent].units[parents]
    above = {name: rows[parents] for name, rows in read[table.parent].above.items()} | {table.parent: parents}
    for k, (name, column) in enumerate(part.above):
        flat[:, k] = read[name].codes[above[name], column]
    counts = np.bincount(parents, minlength=len(read[table.parent].codes))[parents]
    flat[:, part.count] = codes_of(part.card.columns[part.count], counts.astype(np.float64))
    first = np.diff(parents, prepend=-1) != 0
    if part.before:
        columns = part.card.columns[part.first_before : part.step]
        none = np.array([column.size - 1 for column in columns])
        flat[:, part.first_before : part.step] = np.where(first[:, None], none, np.roll(codes, 1, axis=0))
        steps = np.where(first, np.nan, np.diff(values, prepend=0))
        flat[:, part.step] = codes_of(part.card.columns[part.step], steps)
    flat[:, part.own : part.own + codes.shape[1]] = codes
    return _Read(codes, flat, units, above, None if ids is None else ids[order], own.notes)


def _ids(table: LinkedTable, name: str, place: Any, split: str, where: str) -> np.ndarray:
    """The keys in a column, as text. Raises DataError: there is no such column, or a key is missing."""
    relation, _, _ = open_for(place, table.card, split, where)
    at = unit_column(relation, name, where)
    assert at is not None
    ids: list[str] = []
    for _, (column,) in relation.blocks([at]):
        ids.extend(unit_ids(column, where))
    owners = numbered(ids, "refuse", lambda row: f"{where}, row {row} (counted from 0)")
    return np.asarray(owners.names[owners.numbers])


def _parents(keys: np.ndarray, ids: np.ndarray | None, table: LinkedTable, where: str) -> np.ndarray:
    """The row of the parent of each row. Raises DataError: rows that have none; no key is named."""
    assert ids is not None
    order = np.argsort(ids)
    at = np.searchsorted(ids, keys, sorter=order).clip(0, max(0, len(ids) - 1))
    found = order[at] if len(ids) else np.zeros(len(keys), np.int64)
    wrong = np.flatnonzero(ids[found] != keys) if len(ids) else np.arange(len(keys))
    if len(wrong):
        first = ", ".join(map(str, wrong[:SHOWN]))
        raise DataError(
            f"{where}: {len(wrong):,} rows have a {table.parent_key!r} that no row of {table.parent} has: row {first} (counted "
            "from 0). Take them out, or add their parents."
        )
    return found


def _places(data: Data, card: LinkedCard, split: str, called: str) -> dict[str, Any]:
    """Where each table is. Raises DataError: one is not there."""
    found = places(data, split) or {}
    if missing := [name for name in card.names if name not in found]:
        raise DataError(f"{called}: there is no table {missing[0]}. Linked tables are {FORMS}.")
    return found


def places(data: Data, split: str = "train") -> dict[str, Any] | None:
    """Where each of several tables is, by name; None: the data are no tables with names.

    Raises:
        DataError: there are two files of one name.
    """
    records: Any = source_of(data).records
    if isinstance(records, Mapping):
        return {str(name): table for name, table in records.items()} if all(map(is_frame, records.values())) else None
    address, named = split_of(str(records)) if is_place(records) else ("", None)
    folder = Path(address)
    if not address or not folder.is_dir():
        return tables_of(address) or None
    folder = folder / (named or split) if (folder / (named or split)).is_dir() else folder
    found: dict[str, Any] = {}
    for file in sorted(folder.iterdir()):
        name = file.name.partition(".")[0]
        if file.name[0] in "._" or not file.name.endswith(SUFFIXES):
            continue
        if name in found:
            raise DataError(f"{folder}: there are two files of table {name}. Leave one.")
        found[name] = file
    return found


def are_linked(data: Data) -> bool:
    """Whether data are several tables with other columns each, by their names alone. Raises DataError."""
    found = places(data) or {}
    if len(found) < 2 or {"train", "test"} & found.keys():
        return False
    names = [open_table(place, split="train", where=name).names for name, place in found.items()]
    return any(each != names[0] for each in names)
