"""Split the file of a table into train and test, by whole units. No card is needed, and values are written as they are."""

import csv
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from gossamer.data.readers import parquet_csv
from gossamer.data.readers.class_folders import SPLITS
from gossamer.data.readers.columns import unit_ids
from gossamer.data.tables.csv_rows import CsvRows
from gossamer.data.tables.encode import Faults, texts_of
from gossamer.data.tables.identity import sides, unit_side
from gossamer.data.tables.read import PARQUET, Source, open_source
from gossamer.data.units import Missing, numbered
from gossamer.errors import RequestError, RunFolderError


def split_table(
    source: str | Path,
    *,
    out: str | Path,
    share: float = 0.2,
    seed: int = 0,
    units: str | None = None,
    missing_unit: Missing = "refuse",
    header: bool | None = None,
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Write out/train and out/test in the form of the source, for the owner alone. Return the rows and the units of both.

    The side of a unit follows from its id. The side of a row without a unit follows from the text of the row.

    Args:
        source: a .csv, .tsv, .csv.gz, .tsv.gz or .parquet file. A compressed one becomes a plain one.
        out: a new folder; nothing is there yet.
        share: expected share of test, between 0 and 1.
        seed: number that fixes the split.
        units: the column with the id of each row's unit.
        missing_unit: a row without an id: `refuse` it as a mistake, or `own`: it is a unit of its own.
        header: whether the first line of the source names the columns. If not, that of the parts does: column_1, column_2 ...
            None: it does, and names that are values are refused.

    Raises:
        DataError: the source cannot be read.
        RequestError: a side without a row.
        RunFolderError: it cannot be written.
    """
    path, out = Path(source), Path(out)
    opened = open_source(path, split="train", where=str(path), header=header)
    test, ids = _falls_to_test(path, opened, share, f"gossamer split {seed}", units, missing_unit)
    counts = int((~test).sum()), int(test.sum())
    for side, count in zip(SPLITS, counts, strict=True):
        if not count:
            raise RequestError(f"no row fell to {side}, which happens with few rows: give another --share or --seed.")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
            whole = Path(scratch) / "whole"
            whole.mkdir(mode=0o700)
            if path.suffix.lower() == PARQUET:
                _write_parquet(path, whole, test)
            else:
                _write_csv(CsvRows(path, header=header is not False), path.name.lower(), whole, test)
            whole.rename(out)
    except OSError as error:
        raise RunFolderError(f"{out}: the split cannot be written ({error.strerror or error}).") from None
    if ids is None:
        return counts, counts
    return counts, (len(np.unique(ids[~test])), len(np.unique(ids[test])))


def _falls_to_test(
    path: Path, source: Source, share: float, salt: str, units: str | None, missing: Missing
) -> tuple[np.ndarray, np.ndarray | None]:
    """Whether each row goes to test, bool [N], and the number of its unit, int64 [N]; None: there are no units."""
    names: list[str] = []
    at = source.unit_column(units, str(path))

    def rows() -> Iterator[bytes]:
        for _, columns in source.blocks([*range(len(source.names))]):
            texts = [texts_of(column) for column in columns]
            names.extend([""] * len(texts[0]) if at is None else unit_ids(columns[at], str(path)))
            yield from (json.dumps(row).encode() for row in zip(*texts, strict=True))

    test = np.fromiter(sides(rows(), share=share, salt=salt), bool)
    faults = Faults(str(path))
    if source.ragged:
        faults.add("the row has another number of values than the first line has names", source.ragged)
    faults.refuse()
    if at is None:
        return test, None
    owners = numbered(names, missing, lambda row: f"{path}, row {row} (counted from 0)")
    of_unit = np.array([name != "" and unit_side(name, share=share, salt=salt) for name in owners.names.tolist()])
    alone = owners.names[owners.numbers] == ""
    return np.where(alone, test, of_unit[owners.numbers]), owners.numbers


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
