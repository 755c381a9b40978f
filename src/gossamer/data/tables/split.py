"""Split the file of a table into train and test, by whole units. No card is needed, and values are written as they are."""

import csv
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.columns.texts import parts, texts_of
from gossamer.data.fingerprint import is_taken
from gossamer.data.source import Source
from gossamer.data.sources.pictures.picture_folders import SPLITS
from gossamer.data.sources.relation import Relation
from gossamer.data.sources.tables import open_table
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.data.tables.encode import Faults
from gossamer.data.tables.raw_rows import row_keys
from gossamer.data.tables.read import unit_column
from gossamer.data.units import Missing, numbered
from gossamer.lazy import Lazy, pa

parquet: Any = Lazy("pyarrow.parquet")


def split_table(
    source: Source,
    where: str,
    out: Path,
    share: float,
    salt: str,
    missing: Missing,
    *,
    header: bool | None,
    unit_of: Mapping[str, str] | None = None,
) -> tuple[list[str], np.ndarray]:
    """Write out/train and out/test, for the owner alone: a text file as text in UTF-8, other forms as .parquet.

    The side of a unit follows from its id. The side of a row without a unit follows from its values.

    Args:
        source: a table, and the column with the id of each row's unit. A compressed file becomes a plain one.
        where: what messages call it.
        out: a new folder; nothing is there yet.
        share: expected share of test, between 0 and 1.
        salt: the public key of the hash.
        missing: a row without an id: `refuse` it as a mistake, or `own`: it is a unit of its own.
        header: whether the first line of the source names the columns. If not, that of the parts does: column_1, column_2 ...
            None: it does, and names that are values are refused.
        unit_of: the unit by the ids in that column; another id is that of a unit.

    Returns:
        The id of each row's unit, "" without one; and whether the row goes to test, bool [N].

    Raises:
        DataError: the source cannot be read.
    """
    relation = open_table(source.records, split="train", where=where, header=header)
    at = unit_column(relation, source.units, where)
    ids: list[str] = []
    types: list[set[Any]] = [set() for _ in relation.names]

    def rows() -> Iterator[bytes]:
        for _, columns in relation.blocks([*range(len(relation.names))]):
            own = [""] * len(columns[0]) if at is None else unit_ids(columns[at], where)
            ids.extend([unit_of.get(each, each) for each in own] if unit_of else own)
            for found, column in zip(types, columns, strict=True):
                found |= {part.type for _, part in parts(column)}
            yield from (key.tobytes() for key in row_keys(columns))

    test = np.fromiter(sides(rows(), share=share, salt=salt), bool)
    Faults(where).refuse(relation.ragged)
    if at is not None:
        owners = numbered(ids, missing, lambda row: f"{where}, row {row} (counted from 0)")
        of_unit = np.array([name != "" and is_taken(name, share=share, salt=salt) for name in owners.names.tolist()])
        ids = owners.names[owners.numbers].tolist()
        test = np.where(owners.names[owners.numbers] == "", test, of_unit[owners.numbers])
    out.mkdir(mode=0o700)
    _write(relation, pa.schema([*zip(relation.names, map(_common, types), strict=True)]), out, test)
    return ids, test


def sides(rows: Iterable[bytes], *, share: float, salt: str) -> Iterator[bool]:
    """Whether a share takes each row, by its content and its number among equal rows.

    By the content alone, all equal rows would be on one side. A table has few different rows, so the sides would then differ.
    A row that is added or removed moves no other: equal rows are interchangeable.
    """
    seen: Counter[bytes] = Counter()
    for row in rows:
        digest = hashlib.blake2b(row, digest_size=16).digest()
        yield is_taken("", digest + seen[digest].to_bytes(8, "big"), share=share, salt=salt, kind=b"row")
        seen[digest] += 1


def _write(relation: Relation, schema: "pa.Schema", folder: Path, test: np.ndarray) -> None:
    with ExitStack() as stack:
        writers = [_writer(relation, schema, folder, side, stack) for side in SPLITS]
        for numbers, columns in relation.blocks([*range(len(relation.names))]):
            batch = _batch(columns, schema)
            for falls, write in enumerate(writers):
                write(batch.filter(pa.array(test[numbers] == bool(falls))))


def _writer(
    relation: Relation, schema: "pa.Schema", folder: Path, side: str, stack: ExitStack
) -> "Callable[[pa.RecordBatch], object]":
    """What writes batches of one side into its file."""
    place = folder / (side + {"": ".parquet", "\t": ".tsv"}.get(relation.delimiter, ".csv"))
    place.touch(mode=0o600)
    if not relation.delimiter:
        to_parquet = stack.enter_context(parquet.ParquetWriter(place, schema))
        return lambda batch: to_parquet.write_batch(batch)
    file = stack.enter_context(place.open("w", encoding="utf-8", newline=""))
    writer = csv.writer(file, delimiter=relation.delimiter, lineterminator="\n")
    writer.writerow(relation.names)
    return lambda batch: writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _common(types: set[Any]) -> Any:
    """The type of a column in Parquet: that of all its cells, or text."""
    known = types - {pa.null()}
    return known.pop() if len(known) == 1 else pa.string()


def _batch(columns: Sequence["pa.Array"], schema: "pa.Schema") -> "pa.RecordBatch":
    """The columns of a block with the types of a schema; cells of several types become text."""
    cast = []
    for column, kind in zip(columns, schema.types, strict=True):
        texts = np.full(len(column), None, object)
        for positions, part in parts(column) if column.type != kind else ():
            texts[positions] = texts_of(part).to_pylist()
        cast.append(column if column.type == kind else pa.array(texts, pa.string()).cast(kind))
    return pa.record_batch(cast, schema=schema)
