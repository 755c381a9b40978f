"""Split the file of a table into train and test, by whole units. No card is needed, and values are written as they are."""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from gossamer.data.fingerprint import is_taken
from gossamer.data.readers import parquet_csv
from gossamer.data.readers.columns import unit_ids
from gossamer.data.readers.picture_folders import SPLITS
from gossamer.data.tables.csv_rows import CsvRows
from gossamer.data.tables.encode import Faults, texts_of
from gossamer.data.tables.read import PARQUET, open_source
from gossamer.data.units import Missing, numbered


def split_table(
    where: str, out: Path, share: float, salt: str, units: str | None, missing: Missing, *, header: bool | None
) -> tuple[list[str], np.ndarray]:
    """Write out/train and out/test in the form of the source, for the owner alone.

    The side of a unit follows from its id. The side of a row without a unit follows from the text of the row.

    Args:
        where: a .csv, .tsv, .csv.gz, .tsv.gz or .parquet file. A compressed one becomes a plain one.
        out: a new folder; nothing is there yet.
        share: expected share of test, between 0 and 1.
        salt: the public key of the hash.
        units: the column with the id of each row's unit.
        missing: a row without an id: `refuse` it as a mistake, or `own`: it is a unit of its own.
        header: whether the first line of the source names the columns. If not, that of the parts does: column_1, column_2 ...
            None: it does, and names that are values are refused.

    Returns:
        The id of each row's unit, "" without one; and whether the row goes to test, bool [N].

    Raises:
        DataError: the source cannot be read.
    """
    path = Path(where)
    source = open_source(path, split="train", where=where, header=header)
    at = source.unit_column(units, where)
    ids: list[str] = []

    def rows() -> Iterator[bytes]:
        for _, columns in source.blocks([*range(len(source.names))]):
            texts = [texts_of(column) for column in columns]
            ids.extend([""] * len(texts[0]) if at is None else unit_ids(columns[at], where))
            yield from (json.dumps(row).encode() for row in zip(*texts, strict=True))

    test = np.fromiter(sides(rows(), share=share, salt=salt), bool)
    faults = Faults(where)
    if source.ragged:
        faults.add("the row has another number of values than the first line has names", source.ragged)
    faults.refuse()
    if at is not None:
        owners = numbered(ids, missing, lambda row: f"{where}, row {row} (counted from 0)")
        of_unit = np.array([name != "" and is_taken(name, share=share, salt=salt) for name in owners.names.tolist()])
        ids = owners.names[owners.numbers].tolist()
        test = np.where(owners.names[owners.numbers] == "", test, of_unit[owners.numbers])
    out.mkdir(mode=0o700)
    if path.suffix.lower() == PARQUET:
        _write_parquet(path, out, test)
    else:
        _write_csv(CsvRows(path, header=header is not False), path.name.lower(), out, test)
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


def _write_csv(rows: CsvRows, name: str, folder: Path, test: np.ndarray) -> None:
    suffix = name[name.rindex(".tsv" if ".tsv" in name else ".csv") :][:4]
    with ExitStack() as stack:
        writers = []
        for side in SPLITS:
            place = folder / f"{side}{suffix}"
            place.touch(mode=0o600)
            file = stack.enter_context(place.open("w", encoding="utf-8", newline=""))
            writers.append(csv.writer(file, delimiter=rows.delimiter, lineterminator="\n"))
            writers[-1].writerow(rows.names)
        for numbers, columns in rows.blocks():
            for falls, row in zip(test[numbers].tolist(), zip(*columns, strict=True), strict=True):
                writers[falls].writerow(row)


def _write_parquet(path: Path, folder: Path, test: np.ndarray) -> None:
    from pyarrow import array, parquet  # noqa: PLC0415 (an optional extra, there because the file was read)

    start = 0
    with parquet_csv.opened(path) as (schema, batches), ExitStack() as stack:
        writers = []
        for side in SPLITS:
            place = folder / f"{side}{PARQUET}"
            place.touch(mode=0o600)
            writers.append(stack.enter_context(parquet.ParquetWriter(place, schema)))
        for batch in batches(list(schema.names)):
            here = test[start : start + len(batch)]
            for falls, writer in enumerate(writers):
                writer.write_batch(batch.filter(array(here == bool(falls))))
            start += len(batch)
