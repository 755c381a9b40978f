"""Linked tables as they come: keys, orders, numbers of rows; and what is refused, in one paragraph without a value."""

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gossamer.data.source import Source
from gossamer.data.tables.linked.card import LinkedCard
from gossamer.data.tables.linked.read import LinkedRecords, read_linked
from gossamer.errors import CardError, DataError

TEXT = """
declared_size = 4
unit = "patient"
[table.patients]
key = "id"
[[table.patients.column]]
name = "sex"
kind = "category"
values = ["f", "m"]
[table.visits]
parent = "patients"
parent_key = "who"
key = "number"
order = "day"
max_rows = 3
[[table.visits.column]]
name = "day"
kind = "date"
bounds = [2020-01-01, 2020-12-31]
bins = 12
[[table.visits.column]]
name = "ill"
kind = "category"
values = ["no", "yes"]
[table.drugs]
parent = "visits"
parent_key = "visit"
max_rows = 2
[[table.drugs.column]]
name = "name"
kind = "category"
values = ["a", "b"]
"""
CARD = LinkedCard.loads(TEXT)


def day(number: int) -> datetime.date:
    return datetime.date(2020, 1, 1) + datetime.timedelta(days=number)


def tables(**changed: Any) -> dict[str, Any]:
    """Four patients: with no visit, one, two on one day, and five. Rows are in no order."""
    given = {
        "patients": {"id": ["p1", "p2", "p3", "p4"], "sex": ["f", "m", "f", "m"]},
        "visits": {
            "who": ["p4", "p2", "p3", "p4", "p4", "p3", "p4", "p4"],
            "number": [f"v{k}" for k in range(8)],
            "day": [day(k) for k in (40, 0, 7, 30, 20, 7, 10, 366 - 1)],
            "ill": ["yes", "no", "no", "no", "yes", "yes", "no", "no"],
        },
        "drugs": {"visit": ["v0", "v0", "v1"], "name": ["a", "b", "b"]},
    }
    return {**given, **changed}


def read(given: Any) -> LinkedRecords:
    return read_linked(Source(given), CARD)


def codes(records: LinkedRecords, table: str, column: str) -> list[int]:
    part = CARD.parts[CARD.names.index(table)]
    found: list[int] = records.parts[CARD.names.index(table)].codes[:, part.card.names.index(column)].tolist()
    return found


def test_rows_have_their_unit_the_row_before_and_the_numbers_of_rows() -> None:
    records = read(tables())
    patients, visits, drugs = records.parts
    assert patients.units is not None
    assert visits.units is not None
    assert drugs.units is not None
    assert patients.units.tolist() == [0, 1, 2, 3]
    assert visits.units.tolist() == [1, 2, 2, 3, 3, 3, 3, 3]
    assert drugs.units.tolist() == [1, 3, 3]
    assert codes(records, "patients", "rows.visits") == [0, 1, 2, 3], "five rows count as the declared three"
    assert codes(records, "visits", "rows.visits") == [1, 2, 2, 3, 3, 3, 3, 3]
    assert codes(records, "visits", "patients.sex") == [1, 0, 0, 1, 1, 1, 1, 1]
    assert codes(records, "visits", "ill") == [0, 0, 1, 0, 1, 0, 1, 0], "by patient, then day; a tie keeps its order"
    assert codes(records, "visits", "before.ill") == [2, 2, 0, 2, 0, 1, 0, 1], "2 stands for no row before"
    assert codes(records, "visits", "rows.drugs") == [1, 0, 0, 0, 0, 0, 2, 0]
    assert codes(records, "drugs", "visits.ill") == [0, 1, 1]
    assert codes(records, "drugs", "patients.sex") == [1, 1, 1]


def test_the_step_is_the_distance_from_the_row_before() -> None:
    part = CARD.parts[1]
    column, found = part.card.columns[part.step], codes(read(tables()), "visits", "step.day")
    none, zero = column.size - 1, column.plain
    assert [code for code in found if code == none] == [none] * 3
    assert found[2] == zero, "two visits on one day"
    for code, step in zip(found[4:], (10, 10, 10, 325), strict=True):
        low, high = column.cuts[code], column.cuts[code + 1]
        assert low <= step < high


def test_the_order_of_rows_in_the_files_does_not_count() -> None:
    given, expected = tables(), read(tables())
    for name, table in given.items():
        order = np.random.default_rng(1).permutation(len(next(iter(table.values()))))
        if name == "patients":
            continue  # their order is that of the units
        if name == "visits":
            order = np.array([7, 6, 4, 3, 2, 1, 5, 0])  # the tie of p3 keeps its order
        given[name] = {column: [cells[k] for k in order] for column, cells in table.items()}
    found = read(given)
    assert np.array_equal(found.parts[1].codes, expected.parts[1].codes)


def test_units_without_one_leave_all_its_rows_out() -> None:
    left = read(tables())[np.array([0, 1, 3])]
    assert left.parts[1].units is not None
    assert left.parts[1].units.tolist() == [1, 2, 2, 2, 2, 2]
    assert len(left.parts[2]) == 3


def test_files_in_folders_are_read_like_tables_in_memory(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for name, table in tables().items():
        rows = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
        (tmp_path / "train" / f"{name}.csv").write_text("\n".join(rows) + "\n")
    found = read_linked(Source(tmp_path), CARD)
    for one, other in zip(found.parts, read(tables()).parts, strict=True):
        assert np.array_equal(one.codes, other.codes)
    assert found.notes == (), "keys are no columns that were left out"


def test_a_thousand_rows_of_one_patient_count_as_the_declared_number() -> None:
    visits = {
        "who": ["p1"] * 1_000,
        "number": [*map(str, range(1_000))],
        "day": [day(k % 366) for k in range(1_000)],
        "ill": ["no"] * 1_000,
    }
    records = read(tables(visits=visits, drugs={"visit": ["5"], "name": ["a"]}))
    assert codes(records, "patients", "rows.visits") == [3, 0, 0, 0]
    assert len(records.parts[1]) == 1_000


REFUSED = {
    "a child without a parent": ({"drugs": {"visit": ["v0", "v99"], "name": ["a", "b"]}}, "1 rows have a 'visit' that no"),
    "two patients of one key": ({"patients": {"id": ["p1", "p1"], "sex": ["f", "m"]}}, "the key 'id' is not unique"),
    "a missing key": ({"patients": {"id": ["p1", None], "sex": ["f", "m"]}}, "row 1"),
    "a missing day": (
        {"visits": {"who": ["p1"], "number": ["v0"], "day": ["", ], "ill": ["no"]}, "drugs": {"visit": ["v0"], "name": ["a"]}},
        "column 'day': the value is missing",
    ),
    "no such table": ({"drugs": None}, "there is no table drugs"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refuses(what: str) -> None:
    changed, said = REFUSED[what]
    given = {name: table for name, table in tables(**changed).items() if table is not None}
    with pytest.raises(DataError, match=said) as refused:
        read(given)
    assert not any(value in str(refused.value) for value in ("p1", "v99", "v0"))


def test_refuses_records_whose_rows_are_without_units() -> None:
    """From Python alone: each row would weigh as a unit of its own."""
    records = read(tables())
    parts = tuple(replace(part, units=None) for part in records.parts)
    with pytest.raises(DataError, match="rows have no units"):
        read_linked(Source(replace(records, parts=parts)), CARD)


WRONG = {
    "no root": (
        '[table.patients]\nkey = "id"',
        '[table.patients]\nkey = "id"\nparent = "visits"\nmax_rows = 1',
        "no parent",
    ),
    "two roots": ('parent = "visits"\nparent_key = "visit"\nmax_rows = 2', "", "no parent"),
    "no bound": ("max_rows = 3\n", "", "max_rows is missing"),
    "an order that is no column": ('order = "day"', 'order = "dya"', "Did you mean 'day'"),
    "an order of categories": ('order = "day"', 'order = "ill"', "order needs plain numbers, dates or times"),
    "a key that is learnt": ('key = "number"', 'key = "ill"', "take its .*column.* out"),
    "no key": ('key = "number"\n', "", "key is missing: other tables refer"),
    "the key of the parent": ('key = "number"', 'key = "who"', "is the column with the key of the parent"),
    "records": ('unit = "patient"', "", "unit must say"),
}


@pytest.mark.parametrize("what", WRONG)
def test_refuses_a_card(what: str) -> None:
    old, new, said = WRONG[what]
    assert TEXT.count(old) == 1
    with pytest.raises(CardError, match=said):
        LinkedCard.loads(TEXT.replace(old, new))


def test_what_is_said_once_holds_for_each_table() -> None:
    """Else a table could weigh a unit five times, where the certificate says that its rows count as one."""
    own = [replace(each, card=replace(each.card, max_rows=5, declared_size=9)) for each in CARD.tables]
    card = LinkedCard(tables=tuple(own), declared_size=4, unit="patient")
    assert [part.card.max_rows for part in card.parts] == [1, 1, 1]
    assert [part.card.declared_size for part in card.parts] == [4, 4, 4]
    assert LinkedCard.from_dict(card.to_dict()) == card == CARD


def test_a_card_survives_its_own_text() -> None:
    assert LinkedCard.loads(CARD.dumps()) == CARD
    assert LinkedCard.from_dict(CARD.to_dict()) == CARD


def test_codes_of_a_time_after_another_are_those_of_its_part() -> None:
    """Times of whole minutes, by their format: so are their differences, and the distances of rows."""
    begin = TEXT[: TEXT.index("[[table.visits.column]]")].replace('order = "day"', 'order = "came"')
    text = f"""{begin}
[[table.visits.column]]
name = "came"
kind = "datetime"
bounds = [2020-01-01T00:00:00, 2020-01-01T12:00:00]
format = "%Y-%m-%d %H:%M"
[[table.visits.column]]
name = "left"
kind = "datetime"
format = "%d.%m.%Y %H:%M"
after = "came"
bounds = ["0:00:00", "1:00:00"]
bins = 1000
"""
    card = LinkedCard.loads(text)
    (visits,) = (part for part in card.parts if part.name == "visits")
    declared = next(table for table in card.tables if table.name == "visits").card.columns
    for own, column in zip(visits.card.columns[visits.own :], declared, strict=False):
        assert np.array_equal(own.cuts, column.cuts) and own.size == column.size, own.name
    assert declared[1].plain == 61
    assert visits.card.columns[visits.step].unit == 60
