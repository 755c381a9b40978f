"""A first line that is a row: it is refused wherever tables come in, and no message quotes it; the card can say what it is."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shared_data import SHARED, needs

import gossamer
from gossamer.data.columns.column import Column
from gossamer.data.sources.names import _is_value
from gossamer.data.sources.tables import open_table
from gossamer.data.sources.text_file import open_text
from gossamer.data.split import split
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.read import read_table
from gossamer.errors import CardError, DataError

FIRST = ["64.5", "Male", "1896-04-12", "yes", "Zanzibar"]
"""One person, whose town nobody else lives in."""
NAMES = ["age", "sex", "day", "ill", "town"]


def people(count: int = 200) -> list[list[str]]:
    more = [
        [f"{n % 60}.5", ["Male", "Female"][n % 2], f"19{n % 90 + 10}-01-02", ["yes", "no"][n % 3 > 1], f"town {n % 7}"]
        for n in range(count)
    ]
    return [FIRST, *more]


def written(path: Path, rows: list[list[str]], delimiter: str = ",") -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def look(data: Any, **options: Any) -> None:
    """Read all columns, as every door does."""
    opened = open_table(data, split="train", where="data", **options)
    for _ in opened.blocks([*range(len(opened.names))]):
        pass


def refused(data: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        look(data, **options)
    assert not any(cell in str(caught.value) for cell in FIRST)
    return str(caught.value)


CARD = TableCard(
    columns=(
        Column(name="64.5", kind="number", bounds=(0, 100), outside="clip"),
        Column(name="yes", kind="category", values=("yes", "no")),
    ),
    declared_size=200,
)


def test_every_door_refuses_a_row_as_names_and_quotes_none(tmp_path: Path, gossamer: Any) -> None:
    place = written(tmp_path / "people.csv", people())
    CARD.save(tmp_path / "old.toml")
    epsilon = ["--epsilon", "1", "--delta", "1e-5", "--out", tmp_path / "RUN"]
    for words in (
        ["card", place],
        ["split", place, "-o", tmp_path / "parts"],
        ["fit", "marginals", "--data", place, "--card", tmp_path / "old.toml", *epsilon],
    ):
        said = gossamer(*words)
        assert said.status == 2, words
        assert (
            "names of columns look like numbers or dates, by position from 1: 1, 3. If the first line is a row, use "
            in said.err
        )
        assert "use `gossamer card DATA --no-header`" in said.err and "header = true in the card" in said.err
        assert not any(cell in said.out + said.err for cell in FIRST)
    assert not (tmp_path / "RUN").exists() and not (tmp_path / "parts").exists()


def test_python_refuses_a_frame_whose_names_are_a_row(tmp_path: Path) -> None:
    place = written(tmp_path / "people.csv", people())
    wrong = pd.read_csv(place)
    with pytest.raises(DataError, match=r"header=None in pandas\)\. If they are names, add `header=True`") as caught:
        gossamer.draft_card(wrong)
    assert not any(cell in str(caught.value) for cell in FIRST)
    with pytest.raises(DataError, match="by position from 1: 1, 3"):
        read_table(wrong, CARD)
    pytest.importorskip("pyarrow")
    wrong.to_parquet(tmp_path / "people.parquet")
    assert "by position from 1: 1, 3" in refused(tmp_path / "people.parquet")
    assert "by position from 1: 1, 3" in refused({name: wrong[name].to_numpy() for name in wrong})


@pytest.mark.parametrize(
    "text",
    ["39", "0.1", "-7", "1e5", "5E3", "+49 170 123", "1,234.50", "$12", "12 %", "2031-12-24", "24.12.2031", "3/4/99", "12:30",
     "2031-12-24T10:00:00Z", "24-Dec-2031", "Dec 24, 2031", "1_3", "39.1", "٣٩", "20230623"],
)  # fmt: skip
def test_numbers_and_dates_are_values(text: str) -> None:
    assert _is_value(text)


@pytest.mark.parametrize(
    "text",
    ["age", "x1", "1st visit", "hba1c", "5 year survival", "inf", "nan", "NA", "#", "%", "column_1", "Unnamed: 0", "V12",
     "Q3_2", "Größe", "血圧1", "2019_income", "e10", ""],
)  # fmt: skip
def test_words_are_names(text: str) -> None:
    assert not _is_value(text)


TEXTS = [["Anna", "Ulm", "no"], ["Berta", "Bonn", "yes"], ["Carl", "Ulm", "no"], ["Dora", "Bonn", "no"]]


def test_names_that_occur_as_values_of_their_columns_are_refused(tmp_path: Path) -> None:
    assert "values of their own columns, by position from 1: 2, 3" in refused(written(tmp_path / "a.csv", TEXTS))
    mangled = pd.DataFrame({"yes": ["no", "yes"], "yes.1": ["yes", "no"], "n": ["a", "b"]})
    assert "from 1: 1, 2." in refused(mangled)
    assert "from 1: 1." in refused(pd.DataFrame({"True": [True, False], "n": ["a", "b"]}))
    assert "from 1: 2." in refused(pd.DataFrame({"a": ["x", "y"], "Ulm": pd.Categorical(["Bonn", "Ulm"])}))
    late = [["a", "b", "c"], *[["x", "y", "z"]] * 20_000, ["x", "b", "z"]]
    assert "from 1: 2." in refused(written(tmp_path / "late.csv", late)), "the last of all rows counts"
    look(pd.DataFrame({"a": ["x", None], "b": [pd.NA, "y"], "": ["", ""]}))


def test_one_name_may_be_a_value_where_numbers_have_a_word_as_their_name(tmp_path: Path) -> None:
    """As in Titanic: survived, died."""
    titanic = [["survived", "age"], ["died", "29"], ["survived", ""], ["died", "2.5"]]
    look(written(tmp_path / "t.csv", titanic))
    look(pd.DataFrame({"survived": ["died", "survived"], "age": [29, 2]}))
    words = [[row[0], "old"] for row in titanic]
    assert "from 1: 1." in refused(written(tmp_path / "w.csv", [["survived", "age"], *words[1:]]))
    two = [["survived", "age", "first"], ["died", "29", "first"], ["survived", "3", "second"]]
    assert "from 1: 1, 3." in refused(written(tmp_path / "two.csv", two))
    missing = [["survived", "?"], ["died", "29"], ["survived", "3"]]
    assert "from 1: 1." in refused(written(tmp_path / "m.csv", missing)), "a missing value is no name"


@needs("adult", "tabular")
@pytest.mark.parametrize("name", ["adult/adult.data", "tabular/pima-indians-diabetes.csv"])
def test_adult_and_pima_as_they_are_distributed(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("".join((SHARED / name).read_text().splitlines(keepends=True)[:2_000]))
    with pytest.raises(DataError, match="look like numbers or dates, by position from 1: 1, "):
        draft_table_card(tmp_path / "t.csv")
    text, _ = draft_table_card(tmp_path / "t.csv", header=False)
    assert "header = false\n" in text and 'name = "column_1"\n' in text
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = sum(1 for row in csv.reader(file) if row)
    table = read_table(tmp_path / "t.csv", TableCard.loads(text.replace("# measured: ", "")))
    assert len(table) == rows, "no person is lost"


def test_a_file_without_names_is_read_as_the_card_says_in_all_its_forms(tmp_path: Path) -> None:
    rows = people()
    place = written(tmp_path / "people.csv", rows)
    text, _ = draft_table_card(place, header=False)
    card = TableCard.loads(text.replace("# measured: ", ""))
    assert card.header is False and TableCard.loads(card.dumps()) == card
    assert card.names == ("column_1", "column_2", "column_3", "column_4", "column_5")
    codes = read_table(place, card).codes
    assert len(codes) == len(rows)
    named = written(tmp_path / "named.csv", [NAMES, *rows])
    columns = tuple(
        Column.from_dict({**column.to_dict(), "name": name}) for column, name in zip(card.columns, NAMES, strict=True)
    )
    assert np.array_equal(codes, read_table(named, TableCard(columns=columns, declared_size=200)).codes)
    assert np.array_equal(codes, read_table(pd.read_csv(place, header=None, dtype=str), card).codes)
    counts = split(place, out=tmp_path / "parts", header=False).records
    parts = [read_table(tmp_path / "parts", card, split=side).codes for side in ("train", "test")]
    assert tuple(map(len, parts)) == counts and sum(counts) == len(rows)
    assert sorted(np.concatenate(parts).tolist()) == sorted(codes.tolist())
    again, _ = draft_table_card(tmp_path / "parts")
    assert 'name = "column_5"' in again and "header" not in again, "the parts have names"
    with pytest.raises(DataError, match="these columns have names, and header = false"):
        read_table(pd.read_csv(named), card)


def test_no_row_decides_how_a_file_without_names_is_divided(tmp_path: Path) -> None:
    """Of a file with names, the first line decides the delimiter. A row must not: another one would be read otherwise."""
    rows = [["1", "a;b;c;d;e"], ["2", "f"], ["3", "g"]]
    place = written(tmp_path / "t.csv", rows)
    for decimal, names in ((".", 2), (",", 5)):
        assert len(open_text(place, header=False, decimal=decimal).names) == names
    assert len(open_text(written(tmp_path / "t.tsv", [["1,5;3", "x"]], "\t"), header=False).names) == 2
    empty = written(tmp_path / "empty.csv", [["1", "", ""], ["2", "x", "y"]])
    ((numbers, columns),) = open_text(empty, header=False, decimal=".").blocks([0, 1, 2])
    assert numbers.tolist() == [0, 1]
    assert [column.to_pylist() for column in columns] == [["1", "2"], ["", "x"], ["", "y"]]
    semicolons, _ = draft_table_card(written(tmp_path / "s.csv", [["1", "2"], ["3", "4"]], ";"), header=False)
    assert 'decimal = ","' in semicolons


def test_years_are_names_if_the_card_says_so(tmp_path: Path, gossamer: Any) -> None:
    rows = [["country", "2019", "2020"], *[[f"c{n % 5}", str(n), str(n + 1)] for n in range(40)]]
    place = written(tmp_path / "wide.csv", rows)
    assert gossamer("card", place).status == 2
    said = gossamer("card", place, "--header", "-o", tmp_path / "card.toml")
    assert said.status == 0 and "header = true\n" in (tmp_path / "card.toml").read_text()
    card = TableCard.loads((tmp_path / "card.toml").read_text().replace("# measured: ", ""))
    assert card.header is True and len(read_table(place, card)) == 40
    assert gossamer("split", place, "--header", "-o", tmp_path / "parts").status == 0
    years = pd.DataFrame({2019: [1, 2], 2020: [3, 4]})
    refused(years)
    look(years, header=True)
    look(pd.DataFrame([[39, "x"], [40, "y"]]))  # positions are no values


def test_pictures_have_no_header(tmp_path: Path, gossamer: Any) -> None:
    for words in (["card", "digits", "--no-header"], ["split", "digits", "--header", "-o", tmp_path / "p.npz"]):
        said = gossamer(*words)
        assert said.status == 2 and "--header is for tables" in said.err


def test_a_card_says_it_in_one_way() -> None:
    facts = CARD.to_dict()
    assert "header" not in facts and "header" not in CARD.dumps(), "certificates of earlier runs stay what they are"
    for value in ("no", 0):
        with pytest.raises(CardError, match="header must be true or false"):
            TableCard.from_dict({**facts, "header": value})
    with pytest.raises(CardError, match="Call them column_1, column_2"):
        TableCard.from_dict({**facts, "header": False})
