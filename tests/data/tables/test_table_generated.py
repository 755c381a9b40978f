"""Columns that samples have and no run learns: keys, and columns that follow from another one."""

import datetime
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gossamer.data.columns.column import Column
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.source import Source
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import decode, to_numbers
from gossamer.data.tables.read import read_table
from gossamer.data.tables.samples import TableSamples
from gossamer.errors import CardError

TEXT = """\
declared_size = 100

[[column]]
name = "id"
kind = "key"
prefix = "P-"
digits = 4

[[column]]
name = "city"
kind = "category"
values = ["Lyon", "Bonn", "Köln"]
outside = "other"
missing = true

[[column]]
name = "country"
kind = "derived"
follows = "city"
mapping = { Lyon = "France", Bonn = "Germany", "Köln" = "Germany" }

[[column]]
name = "age"
kind = "integer"
bounds = [0, 99]
missing = true

[[column]]
name = "group"
kind = "derived"
follows = "age"
mapping = { 65 = "old", 0 = "young", 18 = "adult" }

[[column]]
name = "row"
kind = "key"
start = 0
"""
CARD = TableCard.loads(TEXT)
NAMES = ["id", "city", "country", "age", "group", "row"]


def samples(n: int = 400, card: TableCard = CARD) -> TableSamples:
    draw = np.random.default_rng(0)
    return TableSamples(np.stack([draw.integers(size, size=n) for size in card.domain], axis=1).astype(np.int32), card)


def test_the_card_keeps_the_order_of_the_file(tmp_path):
    assert [column.name for column in CARD.written] == NAMES
    assert (CARD.names, CARD.domain) == (("city", "age"), (5, 17)), "what is generated has no code"
    CARD.save(tmp_path / "card.toml")
    assert TableCard.load(tmp_path / "card.toml") == TableCard.from_dict(CARD.to_dict()) == CARD
    assert hash(TableCard.loads(CARD.dumps())) == hash(CARD)
    last = TableCard(
        columns=CARD.columns, declared_size=100, generated=(GeneratedColumn(name="id", kind="key", place=None),)
    )
    assert [column.name for column in last.written] == ["city", "age", "id"]


def test_keys_are_running_numbers_of_rows_and_not_of_pieces():
    whole = samples().columns()
    assert [*whole] == NAMES
    assert whole["id"][:2].tolist() == ["P-0001", "P-0002"] and whole["row"].tolist() == [*range(400)]
    assert samples()[5:][2:4].columns()["id"].tolist() == ["P-0008", "P-0009"]
    assert whole["row"].dtype == np.int64


def test_a_derived_column_follows_from_the_value_in_its_row():
    values = samples().columns()
    country = {"Lyon": "France", "Bonn": "Germany", "Köln": "Germany", "other": "other", "": ""}
    assert values["country"].tolist() == [country[city] for city in values["city"]]
    group = ["" if np.isnan(age) else "young" if age < 18 else "adult" if age < 65 else "old" for age in values["age"]]
    assert values["group"].tolist() == group and set(group) == {"", "young", "adult", "old"}


def test_a_value_at_a_lower_end_belongs_to_it():
    day = Column(name="day", kind="date", bounds=("2020-01-01", "2020-01-04"))
    dose = Column(name="dose", kind="number", bounds=(0, 0.3), bins=3, decimals=1, outside="other")
    pairs = (("day", "2020-01-03", "2020-01-01"), ("dose", "0.2", "0"))
    derived = tuple(
        GeneratedColumn(name=f"of {name}", kind="derived", follows=name, mapping={high: "high", low: "low"})
        for name, high, low in pairs
    )
    card = TableCard(columns=(day, dose), declared_size=9, generated=derived)
    values = decode(np.array([[0, 0], [1, 1], [2, 2], [3, 3]], np.int32), card, seed=0)
    assert values["of day"].tolist() == ["low", "low", "high", "high"]
    numbers = [value if value == "other" else float(value) for value in values["dose"]]
    assert values["of dose"].tolist() == [n if n == "other" else "high" if n >= 0.2 else "low" for n in numbers]
    assert values["of dose"].tolist()[2:] == ["high", "other"]


def test_an_order_between_columns_comes_before_what_follows():
    low = Column(name="low", kind="integer", bounds=(0, 9))
    card = TableCard(
        columns=(low, Column(name="high", kind="integer", bounds=(0, 9), at_least="low")),
        declared_size=9,
        generated=(GeneratedColumn(name="half", kind="derived", follows="high", mapping={"0": "lower", "5": "upper"}),),
    )
    values = decode(np.array([[7, 1]], np.int32), card, seed=0)
    assert (values["high"].tolist(), values["half"].tolist()) == ([7], ["upper"])


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_files_have_the_columns_and_readers_leave_them_out(tmp_path, ending):
    samples().save(tmp_path / f"s{ending}")
    frame = (pd.read_csv if ending == ".csv" else pd.read_parquet)(tmp_path / f"s{ending}")
    assert [*frame] == NAMES and frame["id"].tolist()[-1] == "P-0400" and frame["row"].dtype == np.int64
    assert frame["country"].fillna("").tolist() == samples().columns()["country"].tolist()
    table = read_table(tmp_path / f"s{ending}", CARD)
    assert np.array_equal(table.codes, samples().codes) and table.notes == ()
    pd.testing.assert_series_equal(
        samples().to_pandas()["group"].fillna(""), frame["group"].fillna(""), check_dtype=False
    )


def test_records_need_no_generated_column_and_may_contradict_it():
    plain = {"city": ["Lyon", "Bonn"], "age": [3, 70]}
    wrong = {**plain, "country": ["Xanthippe", "France"], "group": ["old", ""], "id": ["X1", "X1"], "row": [None, 2]}
    read, other = (read_table(each, CARD) for each in (plain, wrong))
    assert np.array_equal(read.codes, other.codes) and other.notes == ()


def test_the_column_of_units_may_be_a_key():
    records = {"id": ["a", "a", "b"], "city": ["Lyon", "Bonn", "Bonn"], "age": [3, 4, 5]}
    assert read_table(Source(records, units="id"), CARD).population == 2
    assert decode(np.zeros((3, 2), np.int32), CARD, seed=0)["id"].tolist() == ["P-0001", "P-0002", "P-0003"]


def test_numbers_for_metrics_are_those_of_columns_that_are_learnt():
    codes = samples().codes
    learnt = TableCard(columns=CARD.columns, declared_size=100)
    assert np.array_equal(to_numbers(codes, CARD, seed=4), to_numbers(codes, learnt, seed=4), equal_nan=True)


def test_pages_and_notes_have_them():
    page = samples()._repr_html_()
    assert "<th>country</th>" in page and "<td>P-0010</td>" in page and "P-0011" not in page
    assert samples().notes == ()
    formula = (GeneratedColumn(name="id", kind="key", prefix="="), GeneratedColumn(
        name="sum", kind="derived", follows="city", mapping=dict.fromkeys(CARD.columns[0].values, "+1")
    ))  # fmt: skip
    card = TableCard(columns=CARD.columns, declared_size=100, generated=formula)
    assert "'id', 'sum' begin with =, +, - or @" in samples(card=card).notes[0]


def _card(*generated: GeneratedColumn, **column: Any) -> TableCard:
    given = {"name": "age", "kind": "integer", "bounds": (1, 99), **column}
    return TableCard(columns=(CARD.columns[0], Column(**given)), declared_size=9, generated=generated)


def _derived(follows: str, mapping: Any) -> GeneratedColumn:
    return GeneratedColumn(name="x", kind="derived", follows=follows, mapping=mapping)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GeneratedColumn(name="x", kind="keys"), "Did you mean 'key'"),
        (lambda: GeneratedColumn(name="x", kind="key", digits=0), "digits: it must be a whole number from 1"),
        (lambda: GeneratedColumn(name="x", kind="key", start=-1), "start: it must"),
        (lambda: GeneratedColumn(name="x", kind="key", prefix="a\nb"), "prefix: it must"),
        (
            lambda: GeneratedColumn(name="x", kind="key", follows="age"),
            "follows: it is no entry of a column of kind key",
        ),
        (lambda: GeneratedColumn(name="x", kind="key", place=-1), "place: it must"),
        (lambda: GeneratedColumn(name="x", kind="derived", mapping={"a": "b"}), "follows: name the column"),
        (lambda: _derived("age", {"0": ""}), "mapping: give a value for each"),
        (lambda: _derived("age", (("0", "a"), ("0", "b"))), "keep one"),
        (lambda: _card(_derived("agge", {"0": "a"})), "it must name a column that is learnt. Did you mean 'age'?"),
        (
            lambda: _card(_derived("city", {"Lyon": "F", "Bonn": "D"})),
            "each value of 'city' once, and no other: 1 differ",
        ),
        (lambda: _card(_derived("age", {"0": "a"}), special=(-1,)), "'age' has special values"),
        (lambda: _card(_derived("age", {"2": "a"})), "begin at the smallest value of 'age'"),
        (lambda: _card(_derived("age", {"1": "a"}), zero=True), "begin at the smallest value of 'age'"),
        (lambda: _card(_derived("age", {"0": "a", "0.0": "b"})), "lower ends must differ"),
        (lambda: _card(_derived("age", {"low": "a"})), "must be numbers, as 'age' is of kind integer"),
        (lambda: _card(_derived("age", {"nan": "a"})), "must be numbers"),
        (lambda: _card(GeneratedColumn(name="city", kind="key")), "'city' is on the card twice"),
        (lambda: _card("x"), "must be a tuple of GeneratedColumn"),  # type: ignore[arg-type]  # what is refused
        (lambda: TableCard.loads(TEXT.replace("digits", "digit")), "Did you mean 'digits'"),
        (lambda: TableCard.loads(TEXT.replace('name = "id"\n', "")), "a [[column]] lacks name"),
        (lambda: TableCard.loads(f'label = "id"\n{TEXT}'), "label must name a column"),
        (lambda: Column(name="x", kind="key"), "in Python is a GeneratedColumn"),  # type: ignore[arg-type]  # what is refused
    ],
)
def test_refused(make, words):
    with pytest.raises(CardError, match=re.escape(words)):
        make()


def test_dates_are_lower_ends_in_their_form():
    day = {"kind": "date", "bounds": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))}
    assert _card(_derived("age", {"2020-01-01": "a"}), **day).written[-1].name == "x"
    with pytest.raises(CardError, match="must be dates as 2031-12-24"):
        _card(_derived("age", {"1.1.2020": "a"}), **day)
