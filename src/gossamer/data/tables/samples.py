"""Synthetic rows: codes with their card, and the ways to use them elsewhere."""

import csv
import html
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.samples.samples import frame
from gossamer.data.samples.writers import new_place, parquet_file
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.column import Column
from gossamer.data.tables.decode import decode, texts
from gossamer.data.tables.generated import AnyColumn
from gossamer.errors import RequestError

SHOWN = 10
"""Rows that a notebook shows."""
FORMULAS = ("=", "+", "-", "@")
"""A spreadsheet may run a text that begins with one of these."""
_ROWS = 1 << 14


@dataclass(frozen=True, repr=False)
class TableSamples:
    """Synthetic rows: the output of a generator. They belong to no unit.

    `samples.columns()` and `samples.to_pandas()` have the values. A slice, positions or a mask gives TableSamples with the same
    values in these rows.

    Args:
        codes: int32 [n, columns].
        card: declares the columns.
        seed: of the values within bins.
        numbers: int64 [n], of the rows, from which their values follow with the seed. None: from 0.
    """

    codes: np.ndarray
    card: TableCard
    seed: int = 0
    numbers: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"TableSamples({len(self):,} rows of {len(self.card.columns)} columns)"

    def __getitem__(self, which: "slice | list[int] | np.ndarray") -> "TableSamples":
        """Return the rows at a slice, positions or a mask."""
        numbers = np.arange(len(self)) if self.numbers is None else self.numbers
        return TableSamples(self.codes[which], self.card, self.seed, numbers[which])

    def columns(self) -> dict[str, np.ndarray]:
        """Return the values of each column, [n]; `decode` says of which type."""
        return decode(self.codes, self.card, seed=self.seed, rows=self.numbers)

    def to_pandas(self) -> Any:
        """Return a DataFrame. A missing value is None, NaN, NaT or, among whole numbers (Int64), NA.

        Raises:
            RequestError: pandas is not installed.
        """
        values = self.columns()
        for name, column in values.items():
            if column.dtype == object:
                column[column == ""] = None
            values[name] = column.astype("datetime64[s]") if column.dtype.kind == "M" else column
        table = frame(values)
        whole = {c.name: "Int64" for c in self.card.columns if c.kind == "integer" and values[c.name].dtype.kind == "f"}
        return table.astype(whole)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the samples to a .csv or .parquet file. `read_table` reads them back.

        Raises:
            RequestError: another ending, no samples, or .parquet without pyarrow.
            RunFolderError: the path is taken and `force` is not set, or cannot be written.
        """
        write_table_samples(path, [self], force=force)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of a file of these samples should know."""
        risky = [column.name for column in self.card.written if any(t.startswith(FORMULAS) for t in _said(column))]
        if not risky:
            return ()
        return (
            f"Values of {', '.join(map(repr, risky))} begin with =, +, - or @, as the card lists them. A spreadsheet may take "
            "them for formulas: import these columns as text.",
        )

    def _repr_html_(self) -> str:
        """Show the first rows, in a notebook."""
        first = self[:SHOWN]
        columns = first.columns()
        cells = [texts(column, columns[column.name]) for column in self.card.written]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in zip(*cells, strict=True)]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table><p>{html.escape(repr(self))}</p>"


def _said(column: AnyColumn) -> Iterable[str]:
    """Texts that a card declares of a column, and that samples have."""
    return column.values if isinstance(column, Column) else (column.prefix, *dict(column.mapping).values())


def write_table_samples(path: str | Path, chunks: Iterable[TableSamples], *, force: bool = False) -> None:
    """Write samples chunk by chunk, all or nothing. With a decimal comma in the card, a .csv has semicolons.

    Raises:
        RequestError: an ending other than .csv and .parquet, no samples, or .parquet without pyarrow.
        RunFolderError: something is there already and `force` is not set, or the place cannot be written.
    """
    path = Path(path)
    writer = {".csv": write_csv, ".parquet": _write_parquet}.get(path.suffix.lower())
    if writer is None:
        raise RequestError(f"{path}: samples of a table are written as .csv or .parquet")
    with new_place(path, force=force) as whole:
        if not writer(whole, (chunk[at : at + _ROWS] for chunk in chunks for at in range(0, len(chunk), _ROWS))):
            raise RequestError(f"{path}: there is nothing to write, the number of samples is 0: ask for at least 1")


def write_csv(path: Path, chunks: Iterable[TableSamples]) -> int:
    """Write chunks as text, over what is there. Return the number of rows."""
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for chunk in chunks:
            card, values = chunk.card, chunk.columns()
            writer = csv.writer(file, delimiter=";" if card.decimal == "," else ",", lineterminator="\n")
            if not count:
                writer.writerow(values)
            cells = [texts(column, values[column.name], decimal=card.decimal) for column in card.written]
            writer.writerows(zip(*cells, strict=True))
            count += len(chunk)
    return count


def _write_parquet(path: Path, chunks: Iterable[TableSamples]) -> int:
    """Return the number of rows that were written. A column of numbers with "other" is written as text."""
    count = 0
    with parquet_file(path) as (pa, write):
        for chunk in chunks:
            arrays = {}
            for column, values in zip(chunk.card.written, chunk.columns().values(), strict=True):
                if values.dtype == object:
                    cells = texts(column, values, decimal=chunk.card.decimal)
                    arrays[column.name] = pa.array([text or None for text in cells], pa.string())
                else:
                    whole = pa.int64() if column.kind == "integer" else None
                    arrays[column.name] = pa.array(values, whole, from_pandas=True)
            write(pa.table(arrays))
            count += len(chunk)
    return count
