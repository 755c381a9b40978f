"""What a card may declare of columns, and how they are written and read again."""

import datetime
import re
from typing import Any

import numpy as np
import pytest

from gossamer.data.columns.column import Column
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.tables.card import TableCard
from gossamer.errors import CardError
from gossamer.privacy.certificate.statements import assumptions

CARD = """\
declared_size = 100
unit = "record"
label = "sick"

[[column]]
name = "sick"
kind = "boolean"
missing = true
missing_words = ["-", "k.A."]

[[column]]
name = "came"
kind = "datetime"
edges = [2031-01-01T00:00:00, 2031-06-01T12:00:00, 2032-01-01]
format = "%d.%m.%Y %H:%M"
zone = "Europe/Berlin"
special = [1900-01-01]

[[column]]
name = "stay"
kind = "duration"
bounds = ["0 days 00:00:00", "P9DT12H"]
bins = 2
zero = true

[[column]]
name = "bill"
kind = "number"
bounds = [0, 9000]
format = "1.234,50 €"
outside = "clip"
"""


def test_a_card_of_new_kinds() -> None:
    card = TableCard.loads(CARD)
    sick, came, stay, bill = card.columns
    assert sick.values == ("False", "True") and sick.size == 3
    assert "values" not in sick.to_dict() and sick.to_dict()["missing_words"] == ["-", "k.A."]
    assert came.edges[2] == datetime.datetime(2032, 1, 1) and came.unit == 60
    assert stay.bounds == ("0 days 00:00:00", "9 days 12:00:00") and stay.cuts.tolist() == [0, 410_400, 820_801]
    assert bill.decimals == 2 and bill.grid == 100
    assert TableCard.loads(card.dumps()) == card == TableCard.from_dict(card.to_dict())
    assert "edges = [2031-01-01T00:00:00, 2031-06-01T12:00:00, 2032-01-01T00:00:00]" in card.dumps()
    assert 'bounds = ["0 days 00:00:00", "9 days 12:00:00"]' in card.dumps()
    assert card.to_dict()["column"][1]["special"] == ["1900-01-01T00:00:00"]


def test_names_of_codes() -> None:
    sick, came, stay, _ = TableCard.loads(CARD).columns
    assert sick.code_names == ["False", "True", "missing"]
    assert came.code_names == [
        "2031-01-01 00:00:00 to 2031-06-01 11:59:00", "2031-06-01 12:00:00 to 2032-01-01 00:00:00", "1900-01-01 00:00:00",
    ]  # fmt: skip
    assert stay.code_names == ["0 days 00:00:00 to 4 days 17:59:59", "4 days 18:00:00 to 9 days 12:00:00", "0"]


def test_sentences_of_a_certificate() -> None:
    card = TableCard.loads(CARD).to_dict()
    settings = {"card": card, "public": {"kind": "none"}, "methods": []}
    columns = [fact for fact in assumptions(settings, proved=False) if fact.startswith("column ")]
    refused = "another value was refused as a mistake, so the run would not have begun"
    own = "and codes of their own for"
    assert columns == [
        f"column sick: true or false, {own} a missing value (also written -, k.A.); {refused}",
        "column came: time from 2031-01-01T00:00:00 to 2032-01-01T00:00:00 in 2 declared bins, in the zone Europe/Berlin, "
        f"{own} 1900-01-01T00:00:00; {refused}",
        f"column stay: duration from 0 days 00:00:00 to 9 days 12:00:00 in at most 2 bins, {own} zero; {refused}",
        "column bill: number from 0 to 9000 in at most 16 bins; a value beyond the bounds became the nearer bound",
    ]


DAYS, HOURS = ("2031-01-01", "2031-12-31"), ("0:00:00", "1:00:00")
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "boolean", "values": ("no", "yes")}, "'x', values: a boolean has the values False and True: leave them out"),
    ({"kind": "boolean", "format": "yes"}, "'x', format: it must show how true is written: \"true\", \"True\" or \"TRUE\""),
    ({"kind": "boolean", "outside": "clip"}, "'x', outside: a boolean has no bounds to clip to"),
    ({"kind": "boolean", "bounds": (0, 1)}, "bounds: it is no entry of a column of kind boolean"),
    ({"kind": "boolean", "ordered": True}, "ordered: it is no entry of a column of kind boolean"),
    ({"kind": "boolean", "numbers": True}, "numbers: it is no entry of a column of kind boolean"),
    ({"kind": "category", "values": ("1", "one"), "numbers": True}, "numbers: each value must be a number, such as 36"),
    ({"kind": "category", "values": ("1", "1.0"), "numbers": True}, "and no two the same number"),
    ({"kind": "category", "values": ("1", "nan"), "numbers": True}, "numbers: each value must be a number"),
    ({"kind": "boolean", "missing_words": ("-",)}, "missing_words: they need missing = true"),
    ({"kind": "boolean", "missing": True, "missing_words": (" -",)}, "missing_words: each must be a line of text"),
    ({"kind": "boolean", "missing": True, "missing_words": "-"}, "missing_words: it must be a list in brackets"),
    ({"kind": "boolean", "missing": True, "missing_words": ("X", "x")}, "missing_words: no two may be the same"),
    ({"kind": "boolean", "missing": True, "missing_words": ("TRUE",)}, "none may be a declared value"),
    ({"kind": "number", "bounds": (0, 1), "format": "%d"}, 'format: it must show how 1234 is written, such as "1,234.50"'),
    ({"kind": "integer", "bounds": (0, 1), "format": "1235"}, "format: it must show how 1234 is written"),
    ({"kind": "number", "bounds": (0, 1), "zone": "UTC"}, "zone: it is no entry of a column of kind number"),
    ({"kind": "duration", "bounds": HOURS, "format": "%d"}, "format: it must be text with the hours of a time of day"),
    ({"kind": "duration", "bounds": HOURS, "format": "%M:%S"}, "format: it must be text with the hours of a time of day"),
    ({"kind": "duration", "bounds": (HOURS[0], "1 days"), "format": "%I:%M %p"}, "bounds: in this format no"),
    ({"kind": "duration", "bounds": HOURS, "special": ("-1:00:00",), "format": "%H"}, "bounds: in this format no"),
    ({"kind": "duration", "bounds": (HOURS[0], "0:00:01"), "format": "%H:%M"}, "bounds: it has smaller parts of time than"),
    ({"kind": "duration", "bounds": HOURS, "format": "%H:%M", "decimals": 1}, "the format shows no fractions of seconds"),
    ({"kind": "duration", "bounds": HOURS, "step": 7_200}, "bounds: it has smaller parts of time than samples"),
    ({"kind": "duration", "bounds": HOURS, "step": 60, "decimals": 1}, "decimals: seconds have at most 6, and none with a"),
    ({"kind": "duration", "bounds": HOURS, "step": 0}, "step: it must be a whole number from 1 to"),
    ({"kind": "integer", "bounds": (0, 150), "step": 100}, "bounds: it must hold multiples of step"),
    ({"kind": "integer", "bounds": (0, 900), "special": (999,), "step": 100}, "special: it must hold multiples of step"),
    ({"kind": "integer", "bounds": (0, 2300), "clock": True, "step": 5}, "bounds: it must hold multiples of step. Of a clock"),
    ({"kind": "date", "bounds": DAYS, "step": 60}, "step: it is no entry of a column of kind date"),
    ({"kind": "duration", "bounds": (0, 1)}, 'bounds: it must hold durations as "2 days 03:00:00"'),
    ({"kind": "duration", "bounds": ("0:00:00", "0:00:01.5")}, "bounds: it has smaller parts of time than samples"),
    ({"kind": "duration", "bounds": ("0:00:00", "x")}, 'bounds: it must hold durations as "2 days 03:00:00"'),
    ({"kind": "date", "bounds": DAYS, "zone": "Berlin"}, 'zone: it must be the name of a time zone, such as "Europe/Berlin"'),
    ({"kind": "date", "bounds": DAYS, "zone": "../etc"}, "zone: it must be the name of a time zone"),
    (
        {"kind": "datetime", "bounds": DAYS, "zone": "Europe/Berlin", "format": "%Y-%m-%dT%H:%M:%SZ"},
        "format: its Z says that times are in UTC: leave zone out, or the format",
    ),
    ({"kind": "date", "bounds": DAYS, "format": "%d.%m"}, "format: it must be text with day, month and year"),
    ({"kind": "date", "bounds": DAYS, "decimals": 1}, "decimals: it is no entry of a column of kind date"),
    ({"kind": "datetime", "bounds": (1, 2)}, "bounds: it must hold times as 2031-12-24T10:00:00, without an offset"),
    ({"kind": "datetime", "bounds": (DAYS[0], "2031-12-31T00:00Z")}, "bounds: it must hold times as 2031-12-24T10:00:00"),
    ({"kind": "datetime", "bounds": DAYS, "format": "%d.%m.%Y"}, "format: it must be text with day, month, year and hours"),
    ({"kind": "datetime", "bounds": DAYS, "decimals": 7}, "decimals: seconds have at most 6"),
    ({"kind": "datetime", "bounds": DAYS, "decimals": 1, "format": "%c"}, "the format shows no fractions of seconds"),
    ({"kind": "datetime", "bounds": (DAYS[0], "2031-12-31T00:00:01"), "format": "%d.%m.%Y %H:%M"}, "smaller parts of time"),
    ({"kind": "number", "bounds": (0, 8e13), "decimals": 9}, "2^53 are not exact: measure in a larger unit, or take fewer"),
    ({"kind": "datetime", "bounds": (DAYS[0], "9999-12-31"), "decimals": 6}, "numbers beyond 2^53 are not exact"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "words"), REFUSED)
def test_refused(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(CardError, match=re.escape(words)):
        Column.from_dict({"name": "x", **facts})


def test_order_of_times() -> None:
    """Only values of one axis can be exchanged."""

    def card(**facts: Any) -> TableCard:
        low = Column(name="low", kind="datetime", bounds=DAYS)
        high: dict[str, Any] = {"name": "high", "kind": "datetime", "bounds": DAYS, "at_least": "low", **facts}
        return TableCard(columns=(low, Column(**high)), declared_size=9)

    assert card().columns[1].at_least == "low"
    wrong: list[dict[str, Any]] = [
        {"kind": "date"},
        {"zone": "Europe/Berlin"},
        {"format": "%d.%m.%Y %H:%M"},
        {"decimals": 1},
    ]
    for facts in wrong:
        with pytest.raises(CardError, match="'low' must have the same kind, decimals"):
            card(**facts)


def test_what_follows_from_times_and_truth() -> None:
    def card(kind: Any, mapping: dict[str, str], **facts: Any) -> TableCard:
        made = GeneratedColumn(name="y", kind="derived", follows="x", mapping=mapping)
        return TableCard(columns=(Column(name="x", kind=kind, **facts),), declared_size=9, generated=(made,))

    card("boolean", {"False": "a", "True": "b"})
    card("duration", {"0:00:00": "a", "PT5H": "b"}, bounds=("0:00:00", "9:00:00"))
    for kind, mapping, facts, words in (
        ("boolean", {"False": "a"}, {}, "each value of 'x' once, and no other: 1 differ"),
        (
            "datetime",
            {"2031-01-01T00:00Z": "a"},
            {"bounds": DAYS},
            "the lower ends must be times as 2031-12-24T10:00:00",
        ),
        ("duration", {"soon": "a"}, {"bounds": ("0:00:00", "9:00:00")}, 'the lower ends must be durations as "2 days'),
        ("duration", {"1:00:00": "a"}, {"bounds": ("0:00:00", "9:00:00")}, "begin at the smallest value of 'x'"),
    ):
        with pytest.raises(CardError, match=re.escape(words)):
            card(kind, mapping, **facts)


def test_bins_of_times_end_between_minutes() -> None:
    def column(**facts: Any) -> Column:
        return Column(name="x", kind="datetime", **{"bounds": ("2031-01-01T00:00", "2031-01-01T00:10"), **facts})

    assert np.diff(column(bins=3).cuts).tolist() == column(bins=3).grid_counts.tolist() == [200, 200, 201]
    minutes = column(bins=3, format="%y%m%d %H:%M")
    assert np.diff(minutes.cuts).tolist() == [180, 240, 240] and minutes.grid_counts.tolist() == [3, 4, 4]
    assert column(bounds=("2031-01-01T00:00", "2031-01-01T02:00"), format="%y%m%d %H").plain == 3
    hours = column(bounds=("2031-01-01", "2031-01-02"), bins=24)
    assert hours.code_names[13] == "2031-01-01 13:00:00 to 2031-01-01 13:59:59"
