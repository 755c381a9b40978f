"""Conditions on samples: which codes can meet them, and that the values do."""

import datetime

import numpy as np
import pytest

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.conditions import Conditions
from gossamer.data.tables.samples import TableSamples
from gossamer.errors import RequestError

CARD = TableCard(
    columns=(
        Column(name="sex", kind="category", values=("f", "m"), outside="other", missing=True),
        Column(name="age", kind="integer", bounds=(0, 99), bins=10),
        Column(name="bill", kind="number", bounds=(1.0, 1000.0), bins=3, log=True, zero=True, special=(-1,), missing=True),
        Column(name="day", kind="date", bounds=(datetime.date(2020, 1, 1), datetime.date(2020, 1, 10)), bins=5),
        Column(name="low", kind="integer", bounds=(0, 9), bins=10),
        Column(name="high", kind="integer", bounds=(0, 9), bins=10, at_least="low", missing=True),
        Column(name="left", kind="date", after="day", bounds=(0, 5), bins=3),
    ),
    declared_size=100,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "wanted", "codes"),
    [
        ("sex", "f", [0]),
        ("sex", ["f", None], [0, 3]),
        ("sex", "other", [2]),
        ("sex", "", [3]),
        ("age", (60, 80), [6, 7, 8]),
        ("age", "60..79", [6, 7]),
        ("age", 70, [7]),
        ("age", [99, (0, 9)], [0, 9]),
        ("bill", (-5, 5), [0, 3, 4]),
        ("bill", "1000", [2]),
        ("bill", "", [5]),
        ("day", "2020-01-03..2020-01-04", [1]),
        ("day", (datetime.date(2020, 1, 10), datetime.date(2021, 1, 1)), [4]),
        ("high", 3, list(range(10))),
        ("left", "2020-01-05", [0, 1, 2]),
    ],
)
def test_codes_that_can_meet_a_condition(name: str, wanted: object, codes: list[int]) -> None:
    """Of two columns in an order, any code can: the values of a row may be exchanged. So can any difference."""
    at = CARD.names.index(name)
    assert np.flatnonzero(Conditions.of({name: wanted}, CARD).codes[at]).tolist() == codes


@pytest.mark.parametrize(
    "where",
    [
        {"age": (65, 71)},
        {"bill": [(-5, 5), None]},
        {"day": "2020-01-04"},
        {"high": (3, 4)},
        {"left": "2020-01-04"},
        {"sex": ["f", None]},
        {"age": (15, 44), "low": "0..2"},
    ],
)
def test_rows_that_meet_conditions_are_those_whose_values_do(where: dict[str, object]) -> None:
    draw = np.random.default_rng(0)
    codes = np.stack([draw.integers(column.size, size=4_000) for column in CARD.columns], 1).astype(np.int32)
    rows = TableSamples(codes, CARD, seed=3)
    met = Conditions.of(where, CARD).met(rows)
    values = rows.columns()
    by_hand = np.ones(4_000, bool)
    for name in where:
        low, high = (65, 71) if len(where) == 1 else (15, 44)
        age, bill = values["age"], values["bill"]
        by_hand &= {
            "age": (age >= low) & (age <= high),
            "bill": np.isnan(bill) | ((bill >= -5) & (bill <= 5)),
            "day": values["day"] == np.datetime64("2020-01-04"),
            "sex": np.isin(codes[:, 0], [0, 3]),
            "left": values["left"] == np.datetime64("2020-01-04"),
            "high": (values["high"] == 3) | (values["high"] == 4),
            "low": values["low"] <= 2,
        }[name]
    assert met.tolist() == by_hand.tolist()
    assert 0 < met.sum() < 4_000


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"agee": 3}, "no column 'agee'. Did you mean 'age'?"),
        ({"sex": "x"}, "no value that the card declares of column 'sex'"),
        ({"age": (200, 300)}, "no value that the card declares of column 'age'"),
        ({"age": (80, 60)}, "no value that the card declares of column 'age'"),
        ({"age": "old"}, "column 'age' is 'old'. Write a number"),
        ({"age": None}, "column 'age' is None. Write a number"),
        ({"day": "1.1.2020"}, "Write dates as 2031-12-24"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(where: dict[str, object], message: str) -> None:
    with pytest.raises(RequestError) as refused:
        Conditions.of(where, CARD)
    assert message in str(refused.value)
