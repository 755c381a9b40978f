"""Synthetic linked tables: rows of each table with keys that join, and the ways to use them elsewhere."""

import csv
import html
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gossamer.data.columns.rules import keep_rules
from gossamer.data.samples.synthetic_records import SyntheticRecords
from gossamer.data.tables.decode import to_numbers
from gossamer.data.tables.linked.card import LinkedCard
from gossamer.data.tables.linked.part import Part, codes_of
from gossamer.data.tables.linked.table import LinkedTable
from gossamer.data.tables.samples import TableSamples, row_texts

if TYPE_CHECKING:
    import pandas as pd

UNITS = 2_000
"""Units that are made at once."""
SHOWN = 5
"""Units that a notebook shows."""


@dataclass(frozen=True)
class LinkedRows:
    """The synthetic rows of one table.

    Args:
        table: declares it.
        samples: the rows without keys.
        keys: int64 [n].
        parent_keys: int64 [n]; None: this is the root.
    """

    table: LinkedTable
    samples: TableSamples
    keys: np.ndarray
    parent_keys: np.ndarray | None

    def columns(self) -> dict[str, np.ndarray]:
        """The keys, and the values of each column, [n]."""
        return self._keys() | self.samples.columns()

    def to_pandas(self) -> "pd.DataFrame":
        """The same as a DataFrame, see `TableSamples.to_pandas`. Raises RequestError: pandas is not installed."""
        rows = self.samples.to_pandas()
        for at, (name, keys) in enumerate(self._keys().items()):
            rows.insert(at, name, keys)
        return rows

    def _keys(self) -> dict[str, np.ndarray]:
        found = {self.table.key: self.keys} if self.table.key else {}
        return found if self.parent_keys is None else found | {self.table.parent_key: self.parent_keys}

    def write(self, file: Any, *, header: bool) -> None:
        """Add the rows to a text file. header: with the names first."""
        keys = self._keys()
        writer = csv.writer(file, delimiter=";" if self.samples.card.decimal == "," else ",", lineterminator="\n")
        if header:
            writer.writerow([*keys, *(column.name for column in self.samples.card.written)])
        numbers = zip(*(own.tolist() for own in keys.values()), strict=True)
        writer.writerows((*own, *cells) for own, cells in zip(numbers, row_texts(self.samples), strict=True))


@dataclass(frozen=True, repr=False)
class LinkedSamples(SyntheticRecords):
    """Synthetic linked tables: the output of a generator. `samples["visits"]` has the rows of a table.

    Args:
        card: declares the tables.
        tables: the rows of each, by its name.
    """

    card: LinkedCard
    tables: Mapping[str, LinkedRows]
    file: ClassVar[str] = "samples.zip"
    written_as: ClassVar[str] = (
        "linked tables are written as a .zip, or as a folder (no ending), with a .csv for each table"
    )
    loader: ClassVar[tuple[str, ...]] = ("load_linked.txt",)

    @classmethod
    def sizes(cls, card: LinkedCard) -> tuple[int, int]:
        """Units with all rows, as many as there may be."""
        return UNITS, 64 * sum(len(each.card.columns) * max(1, each.max_rows) for each in card.tables)

    @classmethod
    def piece(cls, card: LinkedCard, class_names: tuple[str, ...], seed: int, first: int, drawn: Any) -> Self:
        """Codes that keep the rules of the card, values in order, and keys.

        drawn: int64 [rows, 3 + columns]: the number of the table, the position of the parent among all rows, the code of the
            step from the row before, and the own codes.
        """
        codes = drawn[0].numpy()
        numbers, found = np.zeros(len(codes), np.int64), {}
        for at, (table, part) in enumerate(zip(card.tables, card.parts, strict=True)):
            here = np.flatnonzero(codes[:, 0] == at)
            parents, steps = codes[here, 1], codes[here, 2]
            turn = np.arange(len(here)) - np.searchsorted(parents, parents) if at else np.arange(len(here))
            numbers[here] = numbers[parents] * (table.max_rows + 1) + turn if at else first + turn
            own = keep_rules(codes[here, 3 : 3 + len(table.card.columns)].astype(np.int32), table.card.columns)
            samples = TableSamples(own, table.card, seed + at, numbers[here])
            if table.order:
                values = _in_order(samples, table, part, steps, turn)
                own[:, table.card.names.index(table.order)] = codes_of(table.order_column, values)
                samples = replace(samples, given={table.order: values})
            found[table.name] = LinkedRows(table, samples, numbers[here] + 1, numbers[parents] + 1 if at else None)
        return cls(card, found)

    @classmethod
    def joined(cls, pieces: Iterable[Self], n: int, card: LinkedCard, class_names: tuple[str, ...]) -> Self:
        """The rows of all pieces, table by table."""
        made, found = [*pieces], {}
        for table in card.tables:
            own = [piece.tables[table.name] for piece in made]
            samples = TableSamples.joined([each.samples for each in own], n, table.card, ())
            keys = [each.keys for each in own]
            parents = [each.parent_keys for each in own if each.parent_keys is not None]
            none = np.empty(0, np.int64)
            above = np.concatenate([none, *parents]) if table.parent else None
            found[table.name] = LinkedRows(table, samples, np.concatenate([none, *keys]), above)
        return cls(card, found)

    def __len__(self) -> int:
        """Number of units."""
        return len(self.tables[self.card.names[0]].keys)

    def __repr__(self) -> str:
        rows = " and ".join(f"{len(each.keys):,} {name}" for name, each in self.tables.items())
        return f"LinkedSamples({rows})"

    def __getitem__(self, name: str) -> LinkedRows:
        """The rows of a table. Raises KeyError: there is no table of this name."""
        return self.tables[name]

    def to_pandas(self) -> "dict[str, pd.DataFrame]":
        """Return a DataFrame of each table, by its name. Raises RequestError: pandas is not installed."""
        return {name: rows.to_pandas() for name, rows in self.tables.items()}

    def columns(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the values of each column of each table, by name, with the keys."""
        return {name: rows.columns() for name, rows in self.tables.items()}

    def _repr_html_(self) -> str:
        """Show the first rows of each table, in a notebook."""
        shown = [
            f"<p>{html.escape(name)}</p>{rows.samples[:SHOWN]._repr_html_()}" for name, rows in self.tables.items()
        ]
        return f"{''.join(shown)}<p>{html.escape(repr(self))}</p>"


def _in_order(samples: TableSamples, table: LinkedTable, part: Part, steps: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """The values of the order of each row, float64 [n]: the first of a parent as drawn, then step by step.

    Steps of a parent that lead beyond the declared bounds are shortened by one factor, so that the last row is where its own
    bin is.
    """
    column, at = table.order_column, table.card.names.index(table.order)
    drawn = to_numbers(samples.codes, table.card, seed=samples.seed, rows=samples.numbers)[:, at]
    step = replace(part.card, columns=(part.card.columns[part.step],), label=None)
    ways = to_numbers(steps[:, None], step, seed=samples.seed, rows=samples.numbers)[:, 0]
    ways = np.where(turn == 0, 0, np.nan_to_num(ways))
    begins = np.flatnonzero(turn == 0)
    lengths = np.diff(np.append(begins, len(turn)))
    far = np.cumsum(ways)
    far -= far[begins].repeat(lengths)
    most = column.cuts[-2:].max() if column.grid is None else float(column.from_steps(column.grid_ends[1][-1] - 1))
    first, ends, wanted = drawn[begins], drawn[begins + lengths - 1], far[begins + lengths - 1]
    room = np.clip(np.where(ends > first, ends, most) - first, 0, None)
    shorter = np.where(wanted > most - first, room / np.maximum(wanted, 1e-9), 1).repeat(lengths)
    whole = np.floor(column.to_steps(far * shorter) + 1e-6)
    return np.asarray(first.repeat(lengths) + column.from_steps(whole))


def _write_folder(path: Path, chunks: Iterable[LinkedSamples], _count: int) -> list[Path]:
    """A .csv for each table, in the order of the card."""
    path.mkdir()
    files: list[Path] = []
    for number, chunk in enumerate(chunks):
        files = [path / f"{name}.csv" for name in chunk.tables]
        for place, rows in zip(files, chunk.tables.values(), strict=True):
            with place.open("a", encoding="utf-8", newline="") as file:
                rows.write(file, header=number == 0)
    return files


def _write_zip(path: Path, chunks: Iterable[LinkedSamples], count: int) -> None:
    """The same in an archive without dates, so that equal samples give equal files."""
    folder = path.with_name(f"{path.name}.tables")
    files = _write_folder(folder, chunks, count)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            with archive.open(zipfile.ZipInfo(file.name), "w", force_zip64=True) as member, file.open("rb") as content:
                shutil.copyfileobj(content, member)
    shutil.rmtree(folder)


LinkedSamples.forms = {".zip": (_write_zip, lambda _: 0), "": (_write_folder, lambda _: 0)}
