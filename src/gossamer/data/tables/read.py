"""A table, as a file or in memory, to codes. Its card says how; nothing after this module sees a raw value."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gossamer.data.memory_mapped import Filling, remarks
from gossamer.data.readers import npz, parquet_csv
from gossamer.data.readers.columns import column_array, unit_ids
from gossamer.data.readers.read import split_of
from gossamer.data.source import Data, is_place, refuse_keys, source_of
from gossamer.data.tables.card import TableCard
from gossamer.data.columns.column import NUMBERED, is_numbered
from gossamer.data.tables.csv_rows import NO_HEADER, READ_AGAIN, SUFFIXES, CsvRows, clean_names, watched
from gossamer.data.tables.encode import Faults, Raw, TableEncoder
from gossamer.data.tables.raw_rows import RawRows
from gossamer.data.tables.table import Table
from gossamer.data.units import from_array, numbered
from gossamer.errors import CardError, DataError

FORMS = "a .csv, .tsv, .csv.gz or .parquet file, or a folder with train and test in one of these forms"
IN_MEMORY = "a DataFrame, a table of pyarrow, or a dict with one array for each column"
PARQUET = ".parquet"
_ROWS = 1 << 14

Block = tuple[np.ndarray, Sequence[Raw]]
"""The numbers of some rows, int64 [n], and the values of each column, n each."""


class Source:
    """Columns of a table, from a file or from memory.

    Args:
        names: of all columns, in the order of the file.
        blocks: from the positions of some columns to their blocks.
        notes: what was converted.
        ragged: the rows that do not fit the first line, once all blocks are read.
    """

    def __init__(self, names: Sequence[str], blocks: Callable[[list[int]], Iterator[Block]]) -> None:
        self.names, self.blocks = list(names), blocks
        self.notes: Collection[str] = ()
        self.ragged: list[int] = []
        self.delimiter = ","
        self.remedy = READ_AGAIN
        """What to do if its names are a record. Empty: they cannot be."""

    def unit_column(self, units: str | None, where: str) -> int | None:
        """The position of the column of the units; None: there are no units. Raises DataError: no such column."""
        if units is None:
            return None
        name = clean_names([units])[0]
        if name not in self.names:
            raise DataError(f"{where}: the table has no column {units!r}. Name the column with the id of each unit.")
        return self.names.index(name)


def read_table(
    data: Data, card: TableCard, *, split: Literal["train", "test"] = "train", called: str = "data"
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
    opened = open_source(source, split=split, wanted=card.names, where=where, header=card.header, decimal=card.decimal)
    faults = Faults(where)
    wanted = [_position(opened.names, name, faults) for name in card.names]
    unit_at = _unit_column(units, opened.names, card, faults)
    if missing := [name for name, at in zip(card.names, wanted, strict=True) if at < 0]:
        raise _without(missing, card, where)
    faults.refuse()
    encoder, filling, raw_rows = TableEncoder(card, faults, guessed=not is_place(source)), Filling(), RawRows()
    ids: list[str] = []
    every = [at for at, name in enumerate(opened.names) if opened.names.count(name) == 1]
    for rows, block in opened.blocks(every):
        columns = dict(zip(every, block, strict=True))
        if unit_at is not None:
            ids.extend(unit_ids(columns[unit_at], where))
        raw_rows.add(block)
        filling.add(encoder.encode([columns[at] for at in wanted], rows))
    if opened.ragged:
        faults.add("the row has another number of values than the first line has names", opened.ragged)
    faults.refuse()
    codes = filling.array((-1, len(wanted)), np.dtype(np.int32))
    if not len(codes):
        raise DataError(
            f"{where}: the table holds no rows. A file has one line with the names of the columns, then the rows."
        )
    left_out = [at for at, name in enumerate(opened.names) if at not in wanted and at != unit_at]
    notes = sorted({*opened.notes, *remarks(codes), *_left_out(left_out, opened.names, card)})
    table = Table(codes, notes=tuple(notes), mark=raw_rows.digest())
    if unit_at is None:
        return _with_units(table, units, card)
    owners = numbered(ids, card.missing_unit, lambda at: f"{where}, row {at} (counted from 0)")
    return replace(table, units=owners.numbers, names=owners.names)


def read_values(source: Any, card: TableCard, *, split: Literal["train", "test"], called: str) -> np.ndarray:
    """The values of a table that `read_table` has read, as numbers. float64 [N, columns], see `decode.to_numbers`.

    Only `evaluate` needs them: its classifiers learn from values that no bin has made coarse.
    """
    where = str(source) if is_place(source) else called
    opened = open_source(source, split=split, wanted=card.names, where=where, header=card.header, decimal=card.decimal)
    faults = Faults(where)
    wanted = [_position(opened.names, name, faults) for name in card.names]
    encoder = TableEncoder(card, faults, guessed=not is_place(source))
    return np.concatenate([encoder.values(columns) for _, columns in opened.blocks(wanted)])


def open_source(
    source: Any,
    *,
    split: str,
    wanted: Collection[str] = (),
    where: str,
    header: bool | None = None,
    decimal: str = "",
) -> Source:
    """The columns of a source.

    Args:
        source: see `read_table`.
        split: see `read_table`.
        wanted: names that help to find the delimiter.
        where: what messages call the source.
        header: whether the first line names the columns, see `TableCard`. None: it does, and names that are values are refused.
        decimal: the decimal point, where it is declared.

    Raises:
        DataError: what cannot be read, and names that are values, now or with the rows.
    """
    opened = _opened(source, split, wanted, where, (header, decimal))
    if header is False and not is_numbered(opened.names):
        raise DataError(
            f"{where}: these columns have names, and header = false is for columns that have none. {READ_AGAIN} Or leave "
            "`header=False` out."
        )
    if header is None and opened.remedy:
        opened.blocks = watched(opened.names, opened.blocks, where, opened.remedy)
    return opened


def _opened(
    source: Any, split: str, wanted: Collection[str], where: str, first_line: tuple[bool | None, str]
) -> Source:
    """The columns of a source as they are. first_line: see `open_source`: header, decimal."""
    header, decimal = first_line
    if not is_place(source):
        return _in_memory(source, where, header=header)
    name, named_split = split_of(str(source))
    path = Path(name)
    if path.is_dir():
        path = _of_split(path, named_split or split)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder. Give {FORMS}.")
    if path.suffix.lower() == PARQUET:
        return _of_parquet(path)
    if not path.name.lower().endswith(SUFFIXES):
        raise DataError(f"{path}: this kind of file is not read as a table. Give {FORMS}.")
    rows = CsvRows(path, wanted, header=header is not False, decimal=decimal)

    def blocks(positions: list[int]) -> Iterator[Block]:
        for numbers, columns in rows.blocks():
            yield numbers, [columns[at] for at in positions]

    opened = Source(rows.names, blocks)
    opened.notes, opened.ragged, opened.delimiter = rows.notes, rows.ragged, rows.delimiter
    opened.remedy = NO_HEADER
    return opened


def _of_split(folder: Path, split: str) -> Path:
    """The file of a split in a folder."""
    files = [folder / f"{split}{suffix}" for suffix in (*SUFFIXES, PARQUET)]
    there = [file for file in files if file.exists()]
    if len(there) != 1:
        raise DataError(
            f"{folder}: a folder of a table holds one file called {split}, and here are {len(there)}. Give {FORMS}."
        )
    return there[0]


def _of_parquet(path: Path) -> Source:
    with parquet_csv.opened(path) as (schema, _):
        names = list(schema.names)

    def blocks(positions: list[int]) -> Iterator[Block]:
        wanted, start = [names[at] for at in positions], 0
        with parquet_csv.opened(path, rows=_ROWS) as (_, batches):
            for batch in batches(wanted):
                columns = [batch.column(at) for at in range(len(wanted))]
                yield np.arange(start, start + len(batch)), [column_array(column) for column in columns]
                start += len(batch)

    return Source(clean_names(names), blocks)


def _in_memory(data: Any, where: str, *, header: bool | None) -> Source:
    """A DataFrame, a table of pyarrow, a dict: recognised by what they can do."""
    labels = list(data) if isinstance(data, Mapping) else getattr(data, "column_names", getattr(data, "columns", None))
    if labels is None or isinstance(labels, Mapping):
        raise DataError(f"{where} is of type {type(data).__name__}. A table is a path, {IN_MEMORY}.")
    labels = list(labels)

    def blocks(positions: list[int]) -> Iterator[Block]:
        columns = [column_array(data[labels[at]]) for at in positions]
        if len({len(column) for column in columns}) > 1 or any(column.ndim != 1 for column in columns):
            raise DataError(f"{where}: the columns must be of one length, with one value for each row.")
        yield np.arange(len(columns[0])), columns

    opened = Source(clean_names([str(label) for label in labels]), blocks)
    if all(isinstance(label, int | np.integer) and label == at for at, label in enumerate(labels)):
        opened.remedy = ""  # positions, as pandas gives them to a file without names
        if header is False:
            opened.names = [NUMBERED.format(at + 1) for at in range(len(labels))]
    return opened


def _position(names: list[str], name: str, faults: Faults) -> int:
    """The position of a declared column; -1: there is none."""
    found = [at for at, other in enumerate(names) if other == clean_names([name])[0]]
    if len(found) > 1:
        faults.add(f"column {name!r}: {len(found)} columns have this name: rename the others, or take them out")
    return found[0] if found else -1


def _without(missing: list[str], card: TableCard, where: str) -> DataError:
    if len(missing) == len(card.names):
        return DataError(
            f"{where}: the first line names no column of the card. Write the names into a line above the first row, in upper "
            "and lower case as in the card. Or draft a card without names: `gossamer.draft_card(DATA, header=False)`."
        )
    some = ", ".join(map(repr, missing[:12])) + (f" and {len(missing) - 12:,} more" if len(missing) > 12 else "")
    return DataError(
        f"{where}: the table has no column {some}. Correct the names in the card or in the table; upper and lower case counts."
    )


def _left_out(positions: list[int], names: list[str], card: TableCard) -> list[str]:
    """A note on columns that the card neither names nor drops. Their names are no public facts, so it counts them."""
    known = {*clean_names([*(name for name, _ in card.drop), *(column.name for column in card.generated)])}
    others = [at + 1 for at in positions if names[at] not in known]
    if not others:
        return []
    which = ", ".join(map(str, others[:12])) + (" ..." if len(others) > 12 else "")
    return [f"Columns that the card does not name were left out, by position from 1: {which}."]


def _unit_column(units: Any, names: list[str], card: TableCard, faults: Faults) -> int | None:
    """The position of the column of the units; None: they are elsewhere, or there are none."""
    if not isinstance(units, str) or clean_names([units])[0] not in names:
        return None
    if units in card.names:
        raise CardError(
            f"the column {units!r} names the unit of each row, so it cannot be a column of the table. Take it off the card."
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
            f"units: the table has no column {units!r}, and this is no FILE.npz:KEY. Name the column with the id of each unit."
        )
    return npz.member(Path(file), key)


def _checked(table: Table, card: TableCard, where: str) -> Table:
    """A table in memory whose codes fit the card."""
    if table.codes.ndim != 2 or table.codes.shape[1] != len(card.columns):
        raise DataError(
            f"{where}: the card declares {len(card.columns)} columns, and the table has {table.codes.shape[1]}."
        )
    for at, column in enumerate(card.columns):
        if len(table) and not 0 <= int(table.codes[:, at].min()) <= int(table.codes[:, at].max()) < column.size:
            raise DataError(f"{where}: column {column.name!r} holds codes outside 0 to {column.size - 1}.")
    return table


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
