"""Synthetic rows: values, DataFrames, files."""

import dataclasses
import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import decode
from gossamer.data.tables.read import read_table
from gossamer.data.tables.samples import TableSamples
from gossamer.errors import CardError, DataError, RequestError, RunFolderError

CARD = TableCard(
    columns=(
        Column(name="age", kind="integer", bounds=(0, 99), missing=True),
        Column(name="sum", kind="category", values=("=1+1", "a,b", 'q"', "<i>"), missing=True, outside="other"),
        Column(name="day", kind="date", bounds=("2020-01-01", "2020-12-31"), missing=True, format="%d.%m.%Y"),
        Column(name="dose", kind="number", bounds=(0, 10), decimals=2, outside="other", missing=True),
        Column(name="n", kind="integer", bounds=(0, 9)),
    ),
    declared_size=100,
)


def test_a_category_of_numbers_gives_numbers(tmp_path: Any) -> None:
    card = TableCard(
        columns=(
            Column(name="term", kind="category", values=("36", "60"), numbers=True, missing=True),
            Column(name="dose", kind="category", values=("0.0", "0.50"), numbers=True),
            Column(name="code", kind="category", values=("1", "2"), numbers=True, outside="other"),
        ),
        declared_size=3,
    )
    made = TableSamples(np.array([[0, 0, 0], [1, 1, 2], [2, 0, 1]], np.int32), card)
    for name in ("t.csv", "t.parquet"):
        made.save(tmp_path / name)
        assert np.array_equal(read_table(tmp_path / name, card).codes, made.codes), name
    assert (tmp_path / "t.csv").read_text() == "term,dose,code\n36,0.0,1\n60,0.50,other\n,0.0,2\n"
    kinds = [str(kind) for kind in pd.read_parquet(tmp_path / "t.parquet", dtype_backend="pyarrow").dtypes]
    assert kinds == ["int64[pyarrow]", "double[pyarrow]", "string[pyarrow]"]
    table = made.to_pandas()
    assert [str(kind) for kind in table.dtypes] == ["Int64", "float64", "object"]
    assert table["term"].tolist() == [36, 60, pd.NA] and table["dose"].tolist() == [0.0, 0.5, 0.0]
    assert np.array_equal(read_table(table, card).codes, made.codes)


def samples(n: int = 500, card: TableCard = CARD) -> TableSamples:
    rng = np.random.default_rng(0)
    return TableSamples(np.stack([rng.integers(0, size, n) for size in card.domain], axis=1).astype(np.int32), card)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_files_are_read_back_as_the_same_codes(tmp_path, ending, decimal):
    card = TableCard(columns=CARD.columns, declared_size=9, decimal=decimal)
    written = samples(card=card)
    written.save(tmp_path / f"s{ending}")
    assert np.array_equal(read_table(tmp_path / f"s{ending}", card).codes, written.codes)
    with pytest.raises(RunFolderError, match="already"):
        written.save(tmp_path / f"s{ending}")
    written[:3].save(tmp_path / f"s{ending}", force=True)
    assert np.array_equal(read_table(tmp_path / f"s{ending}", card).codes, written.codes[:3])


@pytest.mark.parametrize("form", ["", "true", "True", "TRUE"])
def test_truth_values_are_written_as_the_card_shows(tmp_path, form):
    column = Column(name="b", kind="boolean", format=form, missing=True, outside="other")
    card = TableCard(columns=(column,), declared_size=9)
    made = TableSamples(np.array([[1], [0], [2], [3]], np.int32), card)
    made.save(tmp_path / "s.csv")
    true, false = form or "True", {"true": "false", "TRUE": "FALSE"}.get(form, "False")
    assert (tmp_path / "s.csv").read_text().split("\n")[1:5] == [true, false, "other", '""']
    assert read_table(tmp_path / "s.csv", card).codes[:, 0].tolist() == [1, 0, 2, 3]


def test_chunks_make_the_same_file(tmp_path):
    whole = samples()
    whole.save(tmp_path / "a.csv")
    TableSamples.write(tmp_path / "b.csv", [whole[:99], whole[99:100], whole[100:]], count=len(whole))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "age,sum,day,dose,n"


def test_a_data_frame_has_types_and_missing_values():
    frame = samples().to_pandas()
    assert frame.dtypes.astype(str).tolist()[0] == "Int64"
    assert [str(kind) for kind in frame.dtypes[["day", "n"]]] == ["datetime64[s]", "int64"]
    assert frame.isna().any().tolist() == [True, True, True, True, False]
    with pytest.raises(DataError, match="column 'day': there are numbers or dates in place of text"):
        read_table(frame, CARD)  # as pandas reads 01.02.2020 for the second of January
    day = Column(name="day", kind="date", bounds=("2020-01-01", "2020-12-31"), missing=True)
    plain = TableCard(columns=(*CARD.columns[:2], day, *CARD.columns[3:]), declared_size=100)
    assert np.array_equal(read_table(frame, plain).codes, samples().codes)
    assert set(frame["sum"].dropna()) == {"=1+1", "a,b", 'q"', "<i>", "other"}


def test_some_rows_have_the_values_they_had():
    whole = samples().to_pandas()
    pd.testing.assert_frame_equal(samples()[10:12].to_pandas(), whole[10:12].reset_index(drop=True), check_dtype=False)
    assert len(samples()[np.arange(500) < 7]) == len(samples()[[1, 2, 3, 4, 5, 6, 7]]) == 7
    assert samples()[5:][2:].numbers[0] == 7


def test_a_notebook_shows_ten_rows():
    page = samples()._repr_html_()
    assert page.count("<tr>") == 11 and "&lt;i&gt;" in page and "<i>" not in page
    assert repr(samples()) == "TableSamples(500 rows of 5 columns)"


def test_values_that_a_spreadsheet_may_run_are_said():
    assert "'sum' begin with =, +, - or @" in samples().notes[0]
    assert TableSamples(np.zeros((1, 1), np.int32), TableCard(columns=CARD.columns[:1], declared_size=9)).notes == ()


def test_refused_files(tmp_path):
    with pytest.raises(RequestError, match=r"written as .csv or .parquet"):
        samples().save(tmp_path / "s.npz")
    for ending in (".csv", ".parquet"):
        with pytest.raises(RequestError, match="nothing to write"):
            samples(0).save(tmp_path / f"s{ending}")
        assert not (tmp_path / f"s{ending}").exists()


def _visit(name: str, at_least: str = "", **more: Any) -> Column:
    given = {"kind": "date", "bounds": (datetime.date(2020, 1, 1), datetime.date(2022, 12, 31)), "bins": 6, **more}
    return Column(name=name, at_least=at_least, **given)


def test_a_column_that_is_at_least_another_is_so_in_every_row():
    columns = (_visit("left", "treated"), _visit("came", missing=True), _visit("treated", "came"), _visit("paid"))
    card = TableCard(columns=columns, declared_size=9)
    codes = np.random.default_rng(0).integers(0, 6, (3_000, 4)).astype(np.int32)
    codes[::7, 1] = card.columns[1].missing_code
    values, free = decode(codes, card, seed=1), decode(codes, _without_order(card), seed=1)
    came, treated, left = (values[name] for name in ("came", "treated", "left"))
    assert (treated <= left).all() and (came <= treated)[~np.isnat(came)].all()
    assert np.isnat(came).sum() == np.isnat(free["came"]).sum() > 0
    names = ("came", "treated", "left")
    assert (np.sort([values[n] for n in names], axis=0) == np.sort([free[n] for n in names], axis=0))[:, 1::7].all()
    assert (values["paid"] == free["paid"]).all()
    assert (free["treated"] > free["left"]).mean() > 0.3, "without the entry, the order is wrong"


def _without_order(card: TableCard) -> TableCard:
    return dataclasses.replace(card, columns=tuple(dataclasses.replace(c, at_least="") for c in card.columns))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([_visit("a", "b")], "must name another learnt column"),
        ([_visit("a", "aa"), _visit("aaa")], "Did you mean 'aaa'"),
        ([_visit("a", "a")], "the columns 'a' go in a circle"),
        ([_visit("a", "b"), _visit("b", "a")], "go in a circle"),
        ([_visit("a", "b"), Column(name="b", kind="integer", bounds=(0, 9))], "the same kind"),
        ([_visit("a", "b"), _visit("b", bounds=(datetime.date(2021, 1, 1), datetime.date(2022, 12, 31)))], "neither bound"),
    ],
)  # fmt: skip
def test_an_order_that_cannot_be_kept_is_refused(columns: list[Column], told: str):
    with pytest.raises(CardError, match=told):
        TableCard(columns=tuple(columns), declared_size=9)
