"""Raw values to codes and back."""

import dataclasses
import datetime
import decimal
import math
import tempfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer
from gossamer.data import memory_mapped
from gossamer.data.columns.column import Column
from gossamer.data.sources.cells import cells
from gossamer.data.tables import read
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import decode, texts, to_numbers
from gossamer.data.tables.encode import Faults, TableEncoder
from gossamer.data.tables.read import read_table
from gossamer.data.tables.table import identify
from gossamer.errors import CardError, DataError

NAN = float("nan")


def encode(block, card: TableCard) -> np.ndarray:
    """Codes of whole columns. Raises DataError: all faults of all columns."""
    faults = Faults("data")
    encoder = TableEncoder(card, faults)
    found = encoder.encode([*map(cells, block)])
    encoder.check(found, np.arange(len(found)))
    faults.refuse()
    return found


def codes(column: Column, raw, **card) -> list[int]:
    return encode([raw], TableCard(columns=(column,), declared_size=9, **card))[:, 0].tolist()


def fault(column: Column, raw, **card) -> str:
    with pytest.raises(DataError) as error:
        codes(column, raw, **card)
    return str(error.value)


def test_categories():
    column = Column(name="x", kind="category", values=("yes", "no", "é"), missing=True, outside="other")
    assert codes(column, ["no", " yes ", "", "NA", "?", "Yes", "e\u0301"]) == [1, 0, 4, 4, 4, 3, 2]
    assert codes(Column(name="x", kind="category", values=("None", "a")), ["None", "a"]) == [0, 1], "declared words win"
    assert codes(Column(name="x", kind="category", values=("0", "1"), missing=True), np.array([1.0, NAN, 0])) == [
        1,
        2,
        0,
    ]
    assert codes(Column(name="x", kind="category", values=("True", "False")), np.array([True, False])) == [0, 1]
    assert codes(
        Column(name="x", kind="category", values=("7", "8.5")), np.array([decimal.Decimal(7), 8.5, 7], object)
    ) == [0, 1, 0]


def test_objects_of_pandas():
    column = Column(name="x", kind="category", values=("None", "a"), missing=True)
    assert codes(column, np.array([None, "None", pd.NA, pd.NaT, NAN, "", b"a"], object)) == [2, 0, 2, 2, 2, 2, 1]
    numbers = Column(name="x", kind="category", values=("a", "5"), missing=True)
    assert codes(numbers, np.array([5, 5.0, "5", "05", " 5.0", decimal.Decimal("5.00"), None, "a"], object)) == [
        1
    ] * 6 + [2, 0]


def test_times_are_no_categories():
    """pyarrow makes times of texts, and writes them in another way."""
    times = pd.Series(pd.to_datetime(["2020-01-04", None])).to_numpy("M8[ns]")
    column = Column(name="x", kind="category", values=("2020-01-04",), missing=True, outside="other")
    card = TableCard(columns=(column,), declared_size=9)
    for values in (times, [datetime.date(2020, 1, 4)], [None, datetime.time(12)], np.array([1], "m8[s]")):
        with pytest.raises(DataError, match="column 'x': there are numbers or dates in place of text"):
            read_table({"x": values}, card)
    assert read_table({"x": [None, pd.NaT, "2020-01-04"]}, card).codes[:, 0].tolist() == [2, 2, 0]
    assert codes(Column(name="x", kind="category", values=("2020-01-04T00:00:00",), missing=True), times) == [0, 1], (
        "a file"
    )


def test_whole_numbers():
    column = Column(name="x", kind="integer", bounds=(1, 8), bins=4, zero=True, special=(99,), missing=True)
    assert codes(column, ["1", "2", " 3", "8", "0", "99", "", "nan", "8.0"]) == [0, 0, 1, 3, 4, 5, 6, 6, 3]
    assert codes(column, np.array([1, 8, 0, 99])) == [0, 3, 4, 5]
    assert codes(column, np.array([1, NAN])) == [0, 6]
    assert codes(column, pd.Series([1, None], dtype="Int64").to_numpy()) == [0, 6]
    clipped = Column(name="x", kind="integer", bounds=(1, 8), bins=4, outside="clip")
    assert codes(clipped, ["-5", "9", "1e300"]) == [0, 3, 3]
    assert "no number" in fault(clipped, ["-inf"]) and "no number" in fault(clipped, np.array([-np.inf]))
    assert codes(Column(name="x", kind="integer", bounds=(1, 8), bins=4, outside="other"), ["9", "a", "2.5", "8"]) == [
        4,
        4,
        4,
        3,
    ]


@pytest.mark.parametrize("facts", [{}, {"zero": True}, {"special": (-1, 9999)}, {"special": (1230,)}])
@pytest.mark.parametrize("bins", [1, 7, 16, 1_440])
def test_samples_of_a_clock_have_minutes_below_60(facts, bins):
    column = Column(name="x", kind="integer", bounds=(0, 2359), bins=bins, clock=True, **facts)
    times = [100 * hour + minute for hour in range(24) for minute in range(60)]
    wanted = np.repeat(np.arange(column.size, dtype=np.int32), 300)[:, None]
    made = decode(wanted, TableCard(columns=(column,), declared_size=9), seed=3)["x"]
    assert {*made.tolist()} <= {*times, *facts.get("special", ())}
    assert np.array_equal(codes(column, made), wanted[:, 0])
    assert {*codes(column, times)} == {*range(column.size)} - {column.plain + k for k in range(2) if -1 in column.apart}
    if bins == 1_440:
        assert {*made.tolist()} >= {*times}
    for raw in (["1299"], np.array([765])):
        assert "no minutes" in fault(column, raw)


def test_numbers():
    column = Column(name="x", kind="number", bounds=(0, 1), bins=4)
    assert codes(column, ["0", "0.25", "0.2499", "1", "1.0e-3"]) == [0, 1, 0, 3, 0], "the last bin includes both edges"
    assert codes(
        Column(name="x", kind="number", edges=(0, 10, 1000)), ["9,99", "1.000", "1.000,0", "10"], decimal=","
    ) == [0, 1, 1, 1]


def test_dates():
    column = Column(name="x", kind="date", bounds=("2020-01-01", "2020-01-04"), bins=2, missing=True, format="%d.%m.%Y")
    assert codes(column, ["01.01.2020", " 3.1.2020", "02.01.2020", ""]) == [0, 1, 0, 2]
    assert "no date of the declared format" in fault(column, ["2020-01-03"])
    iso = replace(column, format="")
    assert codes(iso, ["2020-01-03", "2020-01-02T23:59:00", "20200101", "2020-01-04 00:30+01:00", ""]) == [
        1,
        0,
        0,
        1,
        2,
    ]
    assert codes(column, np.array(["2020-01-04", "NaT"], "datetime64[D]")) == [1, 2]
    assert codes(column, pd.Series(pd.to_datetime(["2020-01-04 13:00", None])).to_numpy()) == [1, 2]
    assert codes(column, np.array([datetime.date(2020, 1, 1), None], object)) == [0, 2]


def test_faults_name_column_and_rows_and_no_value():
    number = Column(name="dose", kind="number", bounds=(0, 1))
    assert "rows 1, 3 (counted from 0): column 'dose': the text is no number" in fault(
        number, ["0", "secret", "1", "12a"]
    )
    assert "row 0 (counted from 0): column 'dose': the value is outside the bounds" in fault(number, ["7654321"])
    assert "the value is missing" in fault(number, [""])
    assert "the value is missing" in fault(number, np.array([NAN]))
    assert "has a comma" in fault(number, ["0,5"])
    assert "has a comma" in fault(number, ["1,234.5"])
    assert "no number" in fault(number, ["0.5.1"], decimal=",")
    assert "not whole" in fault(Column(name="x", kind="integer", bounds=(0, 9)), ["2.5"])
    assert "no date" in fault(Column(name="x", kind="date", bounds=("2020-01-01", "2020-12-31")), ["12/24/2020"])
    assert "not declared" in fault(Column(name="x", kind="category", values=("a",)), ["secret"])
    assert "upper and lower case only" in fault(Column(name="x", kind="category", values=("a",)), ["A"])
    many = fault(number, ["x"] * 1000)
    assert "rows 0, 1, 2, 3, 4 (counted from 0) and 995 more" in many


def test_all_faults_are_told_at_once():
    card = TableCard(columns=[Column(name=f"c{at}", kind="category", values=["a"]) for at in range(9)], declared_size=9)
    with pytest.raises(DataError) as error:
        encode([["zzz"]] * 9, card)
    assert "9 problems" in str(error.value)
    assert "zzz" not in str(error.value)
    assert all(f"'c{at}'" in str(error.value) for at in range(9))


def test_reading_quotes_no_cell_that_the_card_does_not_allow(tmp_path):
    card = TableCard(columns=[Column(name="c", kind="category", values=["a", "b"])], declared_size=9)
    (tmp_path / "t.csv").write_text("c,d\na,quiet\nzzz,secret\n")
    with pytest.raises(DataError, match="row 1") as error:
        read_table(tmp_path / "t.csv", dataclasses.replace(card, drop=(("d", "a note"),)))
    assert "zzz" not in str(error.value)
    assert "secret" not in str(error.value)


@st.composite
def columns(draw) -> Column:
    kind = draw(st.sampled_from(["category", "integer", "number", "date"]))
    common = {"name": "x", "kind": kind, "missing": draw(st.booleans())}
    if kind == "category":
        values = draw(
            st.lists(
                st.text("abcXYZ 019-=?,;\"'é", min_size=1, max_size=5).map(str.strip).filter(bool),
                min_size=1,
                max_size=5,
                unique=True,
            )
        )
        return Column(**common, values=values, outside=draw(st.sampled_from(["refuse", "other"])))
    common["outside"] = draw(st.sampled_from(["refuse", "clip", "other"]))
    common["log"] = draw(st.booleans())
    low = draw(st.integers(1 if common["log"] else -1000, 1000))
    high = low + draw(st.integers(40, 10**6))
    if kind == "date":
        start = datetime.date(1970, 1, 1)
        high = min(high, 50_000)
        low, high = start + datetime.timedelta(low), start + datetime.timedelta(high)
        special = draw(st.sampled_from([(), ("9999-12-31",)]))
        return Column(**common, bounds=(low, high), bins=draw(st.integers(1, 20)), special=special)
    common["zero"] = draw(st.booleans())
    common["special"] = draw(st.sampled_from([(), (-5,), (999_999_999, low + 1 or 77)]))
    if kind == "number":
        common["decimals"] = draw(st.sampled_from([None, 0, 1, 3]))
        low, high = low + draw(st.sampled_from([0, 0.1, 0.25])), float(high)
    try:
        return Column(**common, bounds=(low, high), bins=draw(st.integers(1, 8)))
    except CardError as error:  # a narrow bin may hold a special value alone
        assert "holds only" in str(error)
        return Column(name="x", kind="integer", bounds=(0, 9))


@settings(max_examples=200, deadline=None)
@given(columns(), st.integers(0, 2**32), st.sampled_from([".", ","]))
def test_encode_undoes_decode(column, seed, decimal_point):
    card = TableCard(columns=(column,), declared_size=9, decimal=decimal_point)
    wanted = np.repeat(np.arange(column.size, dtype=np.int32), 20)[:, None]
    values = decode(wanted, card, seed=seed)["x"]
    assert np.array_equal(encode([values], card), wanted)
    assert np.array_equal(encode([texts(column, values, decimal=decimal_point)], card), wanted)


def test_types_and_forms_of_decoded_values():
    card = TableCard(
        columns=(
            Column(name="i", kind="integer", bounds=(5, 5 + 9), bins=1),
            Column(name="m", kind="integer", bounds=(5, 9), missing=True),
            Column(name="n", kind="number", bounds=(0, 1), bins=1, decimals=2),
            Column(name="d", kind="date", bounds=("2020-01-01", "2020-01-02"), bins=1, missing=True),
            Column(name="o", kind="integer", bounds=(3, 4), bins=1, outside="other", missing=True),
        ),
        declared_size=9,
    )
    values = decode(np.array([[0, 5, 0, 1, 1], [0, 0, 0, 0, 2], [0, 1, 0, 0, 0]], np.int32), card, seed=0)
    assert [values[name].dtype for name in "imndo"] == [np.int64, np.float64, np.float64, np.dtype("M8[D]"), object]
    assert np.isnan(values["m"][0]) and values["m"][1:].tolist() == [5, 6]
    assert np.isnat(values["d"][0])
    assert values["o"][:2].tolist() == ["other", ""] and values["o"][2] in (3, 4)
    assert texts(card.columns[1], values["m"]) == ["", "5", "6"]
    assert all(len(text) == 4 for text in texts(card.columns[2], values["n"]))
    assert texts(card.columns[3], values["d"])[0] == ""


def test_values_are_spread_over_their_bin():
    card = TableCard(
        columns=(
            Column(name="u", kind="number", bounds=(0, 10), bins=1),
            Column(name="l", kind="number", bounds=(1, 10_000), bins=1, log=True),
            Column(name="i", kind="integer", bounds=(0, 9), bins=1, zero=True, special=(4,)),
        ),
        declared_size=9,
    )
    values = decode(np.zeros((100_000, 3), np.int32), card, seed=1)
    assert abs(values["u"].mean() - 5) < 0.05
    assert abs(np.log10(values["l"]).mean() - 2) < 0.02
    numbers, counts = np.unique(values["i"], return_counts=True)
    assert numbers.tolist() == [1, 2, 3, 5, 6, 7, 8, 9]
    assert counts.min() > 0.95 * 12_500
    assert abs(np.corrcoef(values["u"], np.log(values["l"]))[0, 1]) < 0.01


def test_a_row_has_the_same_values_in_any_piece():
    card = TableCard(columns=(Column(name="u", kind="number", bounds=(0, 10)),), declared_size=9)
    wanted = np.zeros((50, 1), np.int32)
    whole = decode(wanted, card, seed=1)["u"]
    assert np.array_equal(decode(wanted[7:9], card, seed=1, rows=np.array([7, 8]))["u"], whole[7:9])
    assert not np.array_equal(decode(wanted, card, seed=2)["u"], whole)


def test_decoded_values_as_numbers():
    card = TableCard(
        columns=(
            Column(name="c", kind="category", values=("a", "b"), missing=True),
            Column(name="d", kind="date", bounds=("1970-01-02", "1970-01-09"), bins=8, missing=True),
            Column(name="i", kind="integer", bounds=(3, 4), bins=2, outside="other", missing=True),
            Column(name="n", kind="number", bounds=(0, 8), bins=8, special=(-1,)),
        ),
        declared_size=9,
    )
    wanted = np.array([[2, 0, 0, 8], [0, 7, 2, 3], [1, 8, 3, 5]], np.int32)
    found, values = to_numbers(wanted, card, seed=4), decode(wanted, card, seed=4)
    assert np.array_equal(found[:, :3], [[2, 1, 3], [0, 8, NAN], [1, NAN, NAN]], equal_nan=True)
    assert found[0, 3] == -1 and found[1:, 3].tolist() == values["n"][1:].tolist() and 3 <= found[1, 3] < 4
    assert np.array_equal(to_numbers(wanted[1:2], card, seed=4, rows=np.array([1]))[0], found[1], equal_nan=True)


def test_codes_of_a_large_table_are_in_a_file_without_a_name(tmp_path, monkeypatch):
    """Of a small table they are in memory, and the same. So are the digests, and the counts of a run."""
    frame = pd.DataFrame({"a": np.arange(9_000) % 7, "b": np.arange(9_000) % 31 * 300})
    card = TableCard.loads(
        "declared_size = 9000\n"
        "[[column]]\nname = 'a'\nkind = 'integer'\nbounds = [0, 6]\n"
        "[[column]]\nname = 'b'\nkind = 'integer'\nbounds = [0, 9000]\nbins = 9001\n"
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    small = read_table(frame, card)
    monkeypatch.setattr(read, "ROOM", small.codes.nbytes - 1)
    large = read_table(frame, card)
    assert memory_mapped.is_nameless(large.codes) and not memory_mapped.is_mapped(small.codes)
    assert {*large.notes} - {*small.notes} == {memory_mapped.ON_DISK} and not [*tmp_path.iterdir()]
    assert large.codes.dtype == small.codes.dtype and np.array_equal(large.codes, small.codes)
    assert np.array_equal(large[np.arange(1, 9_000, 2)].codes, small.codes[1::2])
    assert identify(large) == identify(small)
    runs = [
        gossamer.fit("marginals", data=replace(each, notes=()), card=card, epsilon=math.inf, delta=1e-6)
        for each in (small, large)
    ]
    assert np.array_equal(*(each.sample(500, seed=0).codes for each in runs))
