"""`check_card` tells what a card changes in a table: refused, moved, lost, cut, merged and missing cells, by column."""

import datetime

import numpy as np
import pandas as pd
import pytest

import gossamer
from gossamer.data.card import DataCard
from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.check import CUT, LOST, MISSING, MOVED, NO_TIME
from gossamer.errors import DataError, RequestError


def found(frame, *columns, **facts):
    card = TableCard(columns=columns, declared_size=100, **facts)
    result = gossamer.check_card(frame, card)
    return {(finding.column, finding.what): (finding.cells, finding.rows) for finding in result.findings}, str(result)


def test_cells_outside_the_bounds():
    frame = pd.DataFrame({"x": [5, -1, 12, 7, 99], "y": [5, -1, 12, 7, 99], "z": [5, -1, 12, 7, 99]})
    made = [Column(name=name, kind="integer", bounds=(0, 10), outside=outside)
            for name, outside in (("x", "clip"), ("y", "other"), ("z", "refuse"))]  # fmt: skip
    findings, text = found(frame, *made)
    assert findings["x", MOVED] == (3, [1, 2, 4]) and findings["y", LOST] == (3, [1, 2, 4])
    assert any(name == "z" and what.startswith("refused: the value is outside") for name, what in findings)
    assert text.startswith("Private: do not publish. What the card does to 5 rows:\n")
    assert "x, rows 1, 2, 4 (counted from 0): moved to the nearer bound\n" in text


def test_missing_cells_have_a_share_or_are_refused():
    frame = pd.DataFrame({"x": ["1", "", "NA", "3"], "y": ["a", "b", "", "a"]})
    findings, text = found(
        frame,
        Column(name="x", kind="integer", bounds=(0, 9), missing=True),
        Column(name="y", kind="category", values=("a", "b")),
    )
    assert findings["x", MISSING] == (2, [1, 2]) and "(50.0%): missing" in text
    assert any(name == "y" and what.startswith("refused: the value is missing") for name, what in findings)


def test_what_is_cut(tmp_path):
    times = ["2031-05-01 00:00:00", "2031-05-02 13:30:00", "2031-05-03 00:00:00.250"]
    frame = pd.DataFrame({"day": times, "seen": times, "paid": ["1.25", "1.2", "3"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    low, high = datetime.datetime(2031, 1, 1), datetime.datetime(2031, 12, 31)
    columns = (
        Column(name="day", kind="date", bounds=(low.date(), high.date())),
        Column(name="seen", kind="datetime", bounds=(low, high)),
        Column(name="paid", kind="number", bounds=(0, 9), bins=2, decimals=1),
    )
    findings, _ = found(tmp_path / "t.csv", *columns)
    assert findings == {("day", NO_TIME): (2, [1, 2]), ("seen", CUT): (1, [2]), ("paid", CUT): (1, [0])}
    findings, _ = found(tmp_path / "t.csv", Column(name="seen", kind="datetime", bounds=(low, high), step=3_600))
    assert findings == {("seen", CUT): (2, [1, 2])}
    pd.DataFrame({"day": pd.to_datetime(times, format="mixed")}).to_parquet(tmp_path / "t.parquet")
    findings, _ = found(tmp_path / "t.parquet", columns[0])
    assert findings == {("day", NO_TIME): (2, [1, 2])}


def test_numbers_whose_writing_samples_do_not_have(tmp_path):
    cells = ["02139", "00501", "+5", "1e3", "1.5e3", "12345678901234567", "7", "0", "0.5", "-07", "word"]
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{cell},1\n" for cell in cells))
    column = Column(name="x", kind="number", bounds=(-9, 99_999), outside="other")
    findings, text = found(tmp_path / "t.csv", column)
    written = {
        what.rpartition("without ")[2]: at for (_, what), at in findings.items() if "samples are written" in what
    }
    assert written == {"a leading zero": (3, [0, 1, 9]), "a plus sign": (1, [2]), "an exponent": (1, [3])}
    assert findings["x", LOST] == (2, [5, 10]), "what is lost is not counted twice"
    assert "x, row 2 (counted from 0): read as a number: samples are written without a plus sign\n" in text
    pd.DataFrame({"x": [2139, 5, 1000]}).to_parquet(tmp_path / "t.parquet")
    assert found(tmp_path / "t.parquet", column)[0] == {}, "a number has no writing"


def test_texts_that_become_one_value():
    frame = pd.DataFrame({"x": ["1", "1.0", "01", "2"], "y": ["a", "b", "a", "c"]})
    findings, _ = found(
        frame,
        Column(name="x", kind="category", values=("1", "2")),
        Column(name="y", kind="category", values=("a", "b", "c")),
    )
    assert findings == {("x", "merged: 3 texts are '1'"): (3, [])}


def test_a_card_that_changes_nothing(tmp_path):
    pd.DataFrame({"x": np.arange(70_000) % 9}).to_parquet(tmp_path / "t.parquet")
    findings, text = found(tmp_path / "t.parquet", Column(name="x", kind="integer", bounds=(0, 8)))
    assert findings == {} and text == "Private: do not publish. The card changes nothing in 70,000 rows.\n"
    findings, _ = found(tmp_path / "t.parquet", Column(name="x", kind="integer", bounds=(0, 7), outside="clip"))
    (cells, rows), = findings.values()  # fmt: skip
    assert (cells, rows) == (7_777, [8, 17, 26, 35, 44]), "counted over all blocks"


def test_what_cannot_be_checked(tmp_path):
    frame = pd.DataFrame({"weight": [1, 2]})
    with pytest.raises(DataError, match=r"no column 'wieght'\. Did you mean 'weight'"):
        found(frame, Column(name="wieght", kind="integer", bounds=(0, 9)))
    with pytest.raises(RequestError, match="describes pictures"):
        gossamer.check_card(frame, DataCard(shape=(1, 28, 28), classes=2, declared_size=10))
