"""Tables from files and from memory: twenty nasty CSV files, and the other forms."""

import csv
import gzip
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from shared_data import SHARED, needs

from gossamer.data.card import check_units
from gossamer.data.columns.column import MOST_CODES, Column
from gossamer.data.source import Source
from gossamer.data.sources.text_file import LATIN
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.read import read_table, read_values
from gossamer.data.tables.table import Table
from gossamer.errors import CardError, DataError, RequestError

CARD = TableCard(
    columns=(
        Column(name="age", kind="integer", bounds=(0, 99), bins=100),
        Column(name="city", kind="category", values=("Bonn", 'New "York", NY', "Zürich"), missing=True),
        Column(name="dose", kind="number", bounds=(0, 10), bins=10, missing=True),
    ),
    declared_size=100,
)
ROWS = [[31, 0, 1], [8, 2, 9], [99, 3, 10]]
"""Of 31 Bonn 1.5, 8 Zürich 9.25, and 99 with the rest missing."""
PLAIN = "age,city,dose\n31,Bonn,1.5\n8,Zürich,9.25\n99,,\n"
NAN = float("nan")
SECRET = "Mx-Secret-4711"


def read(tmp_path: Path, content: str | bytes, card: TableCard = CARD, units: object = None) -> Table:
    (tmp_path / "t.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(Source(tmp_path / "t.csv", units=units), card)


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        PLAIN.rstrip("\n"),
        PLAIN.replace("\n", "\n\n"),
        PLAIN.replace("\n", ",\n"),
        "age,city,dose\n31,Bonn,1.5,\n8,Zürich,9.25,,\n99,,\n",
        'age , "city", dose\n 31 , Bonn , 1.5 \n8 ,"Zürich ",  9.25\n 99 , , \n',
        'dose,city,age\n1.5,"Bonn","31"\n"9.25",Zürich,8\n,"",99\n',
        PLAIN.replace("ü", "u\u0308"),
        PLAIN.replace("99,,", "99,NA,nan").replace("31", "31.0"),
    ],
    ids=["plain", "bom", "crlf", "semicolons", "tabs", "bars", "no last line end", "blank lines", "trailing delimiter",
         "trailing delimiter in rows", "spaces", "quotes and order", "composed accents", "words for missing"],
)  # fmt: skip
def test_nasty_files_that_are_read(tmp_path, content):
    table = read(tmp_path, content)
    assert table.codes.tolist() == ROWS
    assert table.codes.dtype == np.int16
    assert table.notes == ()


def test_quotes_and_line_ends_in_values(tmp_path):
    card = TableCard(columns=(CARD.columns[1],), declared_size=9)
    content = 'note,city\n"two\r\nlines, and a ""quote""","New ""York"", NY"\r\n"",Bonn\n'
    assert read(tmp_path, content, card).codes.tolist() == [[1], [0]]


def test_the_delimiter_is_the_one_that_separates_declared_names(tmp_path):
    content = "age;p,q,r,s,t;city;dose\n31;,,,;Bonn;1.5\n"
    assert read(tmp_path, content).codes.tolist() == ROWS[:1]


def test_decimal_commas(tmp_path):
    card = TableCard(columns=(CARD.columns[0], CARD.columns[2]), declared_size=9, decimal=",")
    assert read(tmp_path, "age;dose\n31;1,5\n8;9,25\n99;\n", card).codes.tolist() == [[31, 1], [8, 9], [99, 10]]
    with pytest.raises(DataError, match='For a decimal comma, say decimal = ","'):
        read(tmp_path, "age;city;dose\n31;;1,5\n")


def test_a_line_that_is_not_utf_8_changes_no_other(tmp_path):
    lines = PLAIN.encode().split(b"\n")
    table = read(tmp_path, b"\n".join([*lines[:3], "99,Zürich,".encode("latin-1"), b""]))
    assert table.codes.tolist() == [*ROWS[:2], [99, 2, 10]]
    assert table.notes == (LATIN,)


def test_columns_that_the_card_does_not_name_are_counted_and_never_named(tmp_path):
    content = (
        PLAIN.replace("age,", f"{SECRET},age,pid,")
        .replace("\n31", "\nx,31,1")
        .replace("\n8", "\nx,8,2")
        .replace("\n99", "\nx,99,3")
    )
    card = TableCard(columns=CARD.columns, declared_size=9, drop={"pid": "identifier"})
    table = read(tmp_path, content, card)
    assert table.codes.tolist() == ROWS
    assert table.notes == ("Columns that the card does not name were left out, by position from 1: 1.",)
    assert SECRET not in repr(table)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file or its first line is empty"),
        ("\n\n", "the file or its first line is empty"),
        ("age,city,dose\n", "holds no rows"),
        (f"31,Bonn,{SECRET}\n8,Bonn,2\n", "look like numbers or dates, by position from 1: 1. If the first line is a row"),
        (f"age,city,Dose,{SECRET}\n1,Bonn,2,3\n", "no column 'dose': upper and lower case"),
        (f"age,city,dose,city\n1,Bonn,2,{SECRET}\n", "column 'city': 2 columns have this name"),
        (f"age,city,dose\n1,Bonn\n2,Bonn,1,{SECRET}\n3,Bonn,1\n", "rows 0, 1 \\(counted from 0\\): the row has another number"),
        (f"age,city,dose\n1,{SECRET},2\n", "row 0 .* column 'city': the value is not declared"),
        ("age,city,dose\n1,bonn,2\n", "in upper and lower case only"),
        (f"age,city,dose\n1,Bonn,2\n{SECRET},Bonn,2\n", "row 1 .* column 'age': the text is no number"),
        ("age,city,dose\n" + "123456789" * 40 + ",Bonn,2\n", "'age': the text is no number"),
        ("age,city,dose\n1,Bonn,inf\n", "'dose': the text is no number"),
        ("age,city,dose\n,Bonn,2\n", "'age': the value is missing"),
        (f'age,city,dose\n1,"{SECRET},2\n3,Bonn,4\n', "a quote after line"),
        (f'age,city,dose\n1,"{SECRET}"x,2\n', "a quote after line"),
        (f"age,city,dose\n1,{SECRET}\0,2\n", "line 2 holds a NUL byte"),
        (PLAIN.encode("utf-16-le"), "save it as CSV UTF-8"),
        ("age,city,dose\n1,Bonn," + "7" * 200_000 + "\n", "'dose': the text is no number"),
        (f"age,city,dose\n1,Bonn,=1+{SECRET}\n", "no number"),
    ],
)  # fmt: skip
def test_nasty_files_that_are_refused(tmp_path, content, words):
    with pytest.raises(DataError, match=words) as error:
        read(tmp_path, content)
    place, text = str(tmp_path / "t.csv"), str(error.value)
    assert text.startswith(place) and len(text.split()) < 60
    text = text.removeprefix(place)  # which holds a number of its own
    assert SECRET not in text and "777" not in text and "2345" not in text and "bonn" not in text
    assert not re.search(r"\n(?!  )", text)


def test_a_million_categories_are_refused_with_their_number(tmp_path):
    lines = "".join(f"1,city {n},2\n" for n in range(100_001))
    with pytest.raises(DataError, match=r"rows 0, 1, 2, 3, 4 \(counted from 0\) and 99,996 more: column 'city'"):
        read(tmp_path, "age,city,dose\n" + lines)


def test_codes_take_two_bytes_and_are_those_of_as_many_values_as_a_column_can_have():
    values = [f"v{number:04}" for number in range(MOST_CODES)]
    card = TableCard(columns=(Column(name="a", kind="category", values=tuple(values)),), declared_size=9)
    codes = read_table({"a": values[::-1]}, card).codes
    assert codes.dtype == np.int16 and codes[:, 0].tolist() == [*range(MOST_CODES)][::-1]


def test_all_problems_of_a_file_are_told_at_once(tmp_path):
    with pytest.raises(DataError) as error:
        read(tmp_path, f"age,city,dose\n{SECRET},Bonn,2\n1,{SECRET},3\n2,Bonn\n3,Bonn,99\n")
    text = str(error.value)
    assert "4 problems" in text and SECRET not in text
    for words in (
        "row 0 (counted from 0): column 'age'",
        "row 1 (counted from 0): column 'city'",
        "row 3",
        "row 2 (counted from 0): the row",
    ):
        assert words in text


def test_dates_in_three_forms(tmp_path):
    def column(form: str) -> TableCard:
        return TableCard(
            columns=(Column(name="d", kind="date", bounds=("2020-01-01", "2020-12-31"), bins=366, format=form),),
            declared_size=9,
        )

    assert read(tmp_path, "d\n2020-02-01\n", column("")).codes.tolist() == [[31]]
    assert read(tmp_path, "d\n01.02.2020\n", column("%d.%m.%Y")).codes.tolist() == [[31]]
    assert read(tmp_path, "d\n02/01/2020\n", column("%m/%d/%Y")).codes.tolist() == [[31]]
    with pytest.raises(DataError, match="no date of the declared format"):
        read(tmp_path, "d\n01.02.2020\n", column(""))


def test_other_forms_give_the_same_codes(tmp_path):
    frame = pd.read_csv(io.StringIO(PLAIN))
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(PLAIN.encode()))
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits/train.csv").write_text(PLAIN.splitlines()[0] + "\n1,Bonn,1\n")
    (tmp_path / "splits/test.csv").write_text(PLAIN)
    lists = {"age": [31, 8, 99], "city": ["Bonn", "Zürich", None], "dose": [1.5, "9.25", None]}
    cities = pa.array(["Bonn", "Zürich", None]).dictionary_encode()
    frame.astype({"city": "category"}).to_parquet(tmp_path / "d.parquet")
    for source in (
        tmp_path / "t.parquet", tmp_path / "t.csv.gz", f"{tmp_path}/splits:test", frame, lists, frame.convert_dtypes(),
        pa.table({"dose": [1.5, 9.25, None], "age": [31, 8, 99], "city": cities}),
        tmp_path / "d.parquet",
        {name: np.array(values, object) for name, values in lists.items()}, read_table(frame, CARD),
    ):  # fmt: skip
        assert read_table(source, CARD).codes.tolist() == ROWS
    assert len(read_table(tmp_path / "splits", CARD)) == 1


def test_units_of_a_column_are_no_column(tmp_path):
    content = "pid,age,city,dose\nb,1,,\na,2,,\nb,3,,\n"
    table = read(tmp_path, content, units="pid")
    assert (table.population, table.names.tolist(), table.units.tolist()) == (2, ["a", "b"], [1, 0, 1])
    assert table.take(np.array([1])).codes[:, 0].tolist() == [1, 3]
    assert table.take(np.array([1])).units.tolist() == [0, 0]
    np.savez(tmp_path / "u.npz", who=np.array(["x", "y", "x"]))
    assert read(tmp_path, content, units=f"{tmp_path}/u.npz:who").units.tolist() == [0, 1, 0]
    assert read(tmp_path, content, units=[7, 7, 8]).population == 2
    frame = pd.DataFrame({"pid": ["b", "a", None], "age": [1, 2, 3], "city": "", "dose": None})
    own = TableCard(columns=CARD.columns, declared_size=9, unit="patient", missing_unit="own")
    assert read_table(Source(frame, units="pid"), own).names.tolist() == ["a", "b", ""]
    with pytest.raises(DataError, match="'pid': 2 columns have this name"):
        read(tmp_path, "pid,age,city,dose,pid\nb,1,,,c\n", units="pid")
    with pytest.raises(CardError, match="Give `units`: the name of the column"):
        check_units(own, None, where="t.csv")
    with pytest.raises(CardError, match="cannot be a column of the table"):
        read(tmp_path, content, units="age")
    with pytest.raises(DataError, match="no column 'patient'"):
        read(tmp_path, content, units="patient")
    with pytest.raises(DataError, match=r"t.csv, row 1 \(counted from 0\): this record has no unit"):
        read(tmp_path, content.replace("\na,", "\n,"), units="pid")
    with pytest.raises(DataError, match="3 records need one unit each"):
        read(tmp_path, content, units=["a"])


def test_sources_that_are_no_table(tmp_path):
    (tmp_path / "t.ods").write_text("x")
    (tmp_path / "bad.csv.gz").write_text("x")
    (tmp_path / "bad.parquet").write_text("x")
    for source, words in (
        (tmp_path / "none.csv", "no such file"), (tmp_path / "t.ods", "not read as a table"),
        (tmp_path, "one file called train"),
        (tmp_path / "bad.csv.gz", "cannot be read"), (tmp_path / "bad.parquet", "no sound .parquet file"), (3, "of type int"),
        ({"age": [1], "city": ["", ""], "dose": [1]}, "of one length"),
        (Table(np.zeros((2, 2), np.int32)), "declares 3 columns"),
        (Table(np.full((2, 3), 99, np.int32)), "codes outside"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=words):
            read_table(source, CARD)


def test_blocks_make_no_difference(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    content = "age,city,dose\n" + "".join(
        f"{a},{'Bonn' if a % 2 else ''},{a / 10}\n" for a in rng.integers(0, 100, 1000)
    )
    whole = read(tmp_path, content)
    monkeypatch.setattr("gossamer.data.sources.text_file._CHUNK", 64)
    assert np.array_equal(read(tmp_path, content).codes, whole.codes)


@pytest.mark.parametrize("form", ["csv", "frame"])
def test_values_are_those_of_the_file_and_not_those_of_a_bin(tmp_path, form):
    card = TableCard(
        columns=(
            Column(name="d", kind="date", bounds=("1970-01-01", "1970-12-31"), bins=2, missing=True),
            Column(name="age", kind="integer", bounds=(18, 90), bins=2, outside="clip", special=(-1,)),
            Column(name="city", kind="category", values=("Bonn", "Ulm"), outside="other"),
            Column(name="dose", kind="number", bounds=(0, 10), bins=2, outside="other", missing=True),
        ),
        declared_size=100,
    )
    (tmp_path / "t.csv").write_text("age,x,d,dose,city\n19,,1970-01-05,1.25,Ulm\n99,,,,Bonn\n-1,,1970-03-01,11,Rom\n")
    source = tmp_path / "t.csv" if form == "csv" else pd.read_csv(tmp_path / "t.csv")
    found = read_values(source, card, split="train", called="data")
    expected = [[4, 19, 1, 1.25], [NAN, 99, 0, NAN], [59, -1, 2, NAN]]
    assert np.array_equal(found, expected, equal_nan=True)
    assert read_table(source, card).codes.tolist() == [[0, 0, 1, 0], [2, 1, 0, 3], [0, 2, 2, 2]]


@needs("adult")
def test_adult():
    place = SHARED / "adult/adult.data"
    names = ["age", "workclass", "fnlwgt", "education", "education-num"]
    with place.open() as file:
        rows = [row[:5] for row in csv.reader(file) if len(row) == 15]
    card = TableCard(
        columns=(
            Column(name="age", kind="integer", bounds=(17, 90), bins=74),
            Column(name="workclass", kind="category", values=("Private",), outside="other", missing=True),
            Column(name="education-num", kind="integer", bounds=(1, 16)),
        ),
        declared_size=30_000,
    )
    table = read_table(dict(zip(names, zip(*rows, strict=True), strict=True)), card)
    assert len(table) == 32_561
    assert table.codes[:2].tolist() == [[22, 1, 12], [33, 1, 12]], "39 State-gov 13, 50 Self-emp-not-inc 13"
    assert np.bincount(table.codes[:, 1]).tolist() == [22_696, 8_029, 1_836]
