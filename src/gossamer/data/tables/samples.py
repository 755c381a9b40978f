"""Synthetic rows: codes with their card, and the ways to use them elsewhere. And noisy counts, as recipients see them."""

import csv
import html
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gossamer.data.columns import times
from gossamer.data.columns.column import Column
from gossamer.data.columns.generated import AnyColumn, shown_as
from gossamer.data.columns.rules import keep_rules
from gossamer.data.samples.samples import frame
from gossamer.data.samples.synthetic_records import SyntheticRecords
from gossamer.data.samples.writers import parquet_file
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import decode, texts
from gossamer.lazy import pa

if TYPE_CHECKING:
    import pandas as pd

ROWS = 20_000
"""Rows that are made at once: within them, the shares of values are nearly exact."""
SHOWN = 10
"""Rows that a notebook shows."""
FORMULAS = ("=", "+", "-", "@")
"""A spreadsheet may run a text that begins with one of these."""
_WRITTEN = 1 << 14
"""Rows that are written at once."""


@dataclass(frozen=True, repr=False)
class TableSamples(SyntheticRecords):
    """Synthetic rows: the output of a generator. They belong to no unit.

    `samples.columns()` and `samples.to_pandas()` have the values. A slice, positions or a mask gives TableSamples with the same
    values in these rows.

    Args:
        codes: int [n, columns].
        card: declares the columns.
        seed: of the values within bins.
        numbers: int64 [n], of the rows, from which their values follow with the seed. None: from 0.
        given: values of some columns as numbers, float64 [n] by name, in place of such that follow from the codes.
    """

    codes: np.ndarray
    card: TableCard
    seed: int = 0
    numbers: np.ndarray | None = None
    given: Mapping[str, np.ndarray] = field(default_factory=dict)
    file: ClassVar[str] = "samples.csv"
    written_as: ClassVar[str] = "samples of a table are written as .csv or .parquet"
    loader: ClassVar[tuple[str, ...]] = ("load_table.txt", "numpy")

    @classmethod
    def sizes(cls, card: TableCard) -> tuple[int, int]:
        """Rows of codes."""
        return ROWS, 4 * len(card.columns)

    @classmethod
    def piece(cls, card: TableCard, class_names: tuple[str, ...], seed: int, first: int, drawn: Any) -> Self:
        """Codes that keep the rules of the card, and the numbers of their rows."""
        codes, *_ = drawn
        kept = keep_rules(codes.numpy().astype(np.int32), card.columns)
        return cls(kept, card, seed, np.arange(first, first + len(kept)))

    @classmethod
    def joined(cls, pieces: Iterable[Self], n: int, card: TableCard, class_names: tuple[str, ...]) -> Self:
        """The values stay those of the pieces."""
        made = [*pieces]
        codes = [np.empty((0, len(card.columns)), np.int32), *(piece.codes for piece in made)]
        numbers = [piece.numbers for piece in made if piece.numbers is not None]
        given = {
            name: np.concatenate([piece.given[name] for piece in made]) for name in (made[0].given if made else ())
        }
        seed = made[0].seed if made else 0
        return cls(np.concatenate(codes), card, seed, np.concatenate(numbers) if made else None, given)

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"TableSamples({len(self):,} rows of {len(self.card.columns)} columns)"

    def __getitem__(self, which: "slice | list[int] | np.ndarray") -> "TableSamples":
        """Return the rows at a slice, positions or a mask."""
        numbers = np.arange(len(self)) if self.numbers is None else self.numbers
        given = {name: values[which] for name, values in self.given.items()}
        return TableSamples(self.codes[which], self.card, self.seed, numbers[which], given)

    def columns(self) -> dict[str, np.ndarray]:
        """Return the values of each column, [n]; `decode` says of which type."""
        return decode(self.codes, self.card, seed=self.seed, rows=self.numbers, given=self.given)

    def to_pandas(self) -> "pd.DataFrame":
        """Return a DataFrame. A missing value is None, NaN, NaT or NA: among whole numbers (Int64) and truth values (boolean).

        Times of a column with a zone have the zone.

        Raises:
            RequestError: pandas is not installed.
        """
        values = self.columns()
        for name, column in values.items():
            if column.dtype == object:
                column[column == ""] = None
            values[name] = column.astype("datetime64[s]") if column.dtype == "datetime64[D]" else column
        types = {}
        for made in self.card.written:
            each = shown_as(made, self.card.columns)
            cells = values[made.name]
            if not isinstance(each, Column):
                continue
            if each.is_whole and cells.dtype.kind == "f":
                types[made.name] = "Int64"
            elif each.kind == "boolean" and cells.dtype == object and each.other_code is None:
                types[made.name] = "boolean"
            elif each.kind == "datetime" and each.zone and cells.dtype.kind == "M":
                values[made.name] = times.with_zone(pa.array(cells), each.zone).to_pandas()
        return frame(values).astype(types)

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
        head = "".join(f"<th>{html.escape(column.name)}</th>" for column in self.card.written)
        rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in row_texts(self[:SHOWN])]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table><p>{html.escape(repr(self))}</p>"


def row_texts(samples: TableSamples) -> Iterator[tuple[str, ...]]:
    """Each row as a file has it."""
    card, values = samples.card, samples.columns()
    shown = [shown_as(each, card.columns) for each in card.written]
    return zip(*(texts(each, values[each.name], decimal=card.decimal) for each in shown), strict=True)


def _said(column: AnyColumn) -> Iterable[str]:
    """Texts that a card declares of a column, and that samples have."""
    return column.values if isinstance(column, Column) else (column.prefix, *(row[-1] for row in column.mapping))


def _in_parts(chunks: Iterator[TableSamples]) -> Iterator[TableSamples]:
    return (chunk[at : at + _WRITTEN] for chunk in chunks for at in range(0, len(chunk), _WRITTEN))


def write_csv(path: Path, chunks: Iterable[TableSamples]) -> int:
    """Write chunks as text, over what is there. Return the number of rows."""
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for chunk in chunks:
            writer = csv.writer(file, delimiter=";" if chunk.card.decimal == "," else ",", lineterminator="\n")
            if not count:
                writer.writerow(column.name for column in chunk.card.written)
            writer.writerows(row_texts(chunk))
            count += len(chunk)
    return count


def _write_parquet(path: Path, chunks: Iterable[TableSamples]) -> None:
    """Write chunks. A column with "other" among numbers, times or truth values is written as text."""
    with parquet_file(path) as (pa, write):
        for chunk in chunks:
            values, card = chunk.columns(), chunk.card
            shown = [shown_as(each, card.columns) for each in card.written]
            write(pa.table({each.name: _cells(each, values[each.name], card.decimal) for each in shown}))


def _cells(column: AnyColumn, values: np.ndarray, decimal: str) -> "pa.Array":
    """Values of a column as Parquet has them."""
    if column.kind == "boolean" and isinstance(column, Column) and column.other_code is None:
        return pa.array(values, pa.bool_())
    if values.dtype == object:
        return pa.array([text or None for text in texts(column, values, decimal=decimal)], pa.string())
    is_whole = isinstance(column, Column) and column.is_whole
    cells = pa.array(values, pa.int64() if is_whole else None, from_pandas=True)
    if column.kind == "datetime" and isinstance(column, Column) and column.zone:
        return times.with_zone(cells, column.zone)
    return cells


TableSamples.forms = {
    ".csv": (lambda path, chunks, _: write_csv(path, _in_parts(chunks)), lambda _: 0),
    ".parquet": (lambda path, chunks, _: _write_parquet(path, _in_parts(chunks)), lambda _: 0),
}


@dataclass(frozen=True)
class NoisyTable:
    """Noisy counts of the combinations of values of some columns.

    A count is below zero where the noise is. It lies within 1.96 standard errors of the true one in 95 of 100 releases.

    Args:
        names: of the columns.
        values: of each column, what each position along its axis stands for.
        counts: float64 [values of each column], in rows, each with its weight.
        standard_errors: float64, the same shape.
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    counts: np.ndarray
    standard_errors: np.ndarray

    def to_pandas(self) -> "pd.DataFrame":
        """Return a DataFrame with a row for each cell. Raises RequestError: pandas is not installed."""
        cells = zip(self.names, zip(*itertools.product(*self.values), strict=True), strict=True)
        numbers = {"count": self.counts.ravel(), "standard_error": self.standard_errors.ravel()}
        return frame({**{name: np.array(own, dtype=object) for name, own in cells}, **numbers})


def merged_texts(column: Column, merged: Sequence[int]) -> tuple[str, ...]:
    """What each merged value of a column stands for: a list of values, or an interval of neighbouring bins.

    merged: the merged value of each code.
    """
    names, found = column.code_names, []
    for value in range(max(merged) + 1):
        codes = [code for code, own in enumerate(merged) if own == value]
        bins = [] if column.values else [code for code in codes if code < column.plain]
        texts = [column.interval(*column.cuts[[bins[0], bins[-1] + 1]])] if bins else []
        found.append(", ".join([*texts, *(names[code] for code in codes[len(bins) :])]))
    return tuple(found)
