"""A draft of the card of a table: names and kinds, and what is measured as comments."""

import re

import pandas as pd
import pytest

from gossamer.data.source import Source
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.read import read_table
from gossamer.errors import CardError, DataError

ROWS = [
    [
        f"p{n // 2}",
        f"k{n}",
        n % 40,
        f"{n % 3},5",
        ["f", "m", ""][n % 3],
        f"{n % 28 + 1:02}.12.2031",
        "x",
        f"free text {n}",
        f"0{n % 5}123",
    ]
    for n in range(60)
]
NAMES = ["pid", "key", "age", "dose", "sex", "day", "same", "note", "zip"]


@pytest.fixture
def place(tmp_path):
    lines = ";".join(NAMES) + "\n" + "".join(";".join(map(str, row)) + "\n" for row in ROWS)
    (tmp_path / "t.csv").write_text(lines)
    return tmp_path / "t.csv"


def test_measured_values_are_comments(place):
    text, hints = draft_table_card(Source(place, units="pid"))
    facts = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "p1" not in facts and "39" not in facts and '"f"' not in facts and "2031" not in facts
    for part in (
        'unit = "person"', "declared_size = 30", 'decimal = ","',
        '"same" = "constant"', '"note" = "free text: each row has another"',
        'name = "key"\nkind = "key"\n\n',
        'name = "age"\nkind = "integer"\n# measured: bounds = [0, 39]\n',
        'name = "dose"\nkind = "number"\n# measured: bounds = [0.5, 2.5]\n',
        'name = "sex"\nkind = "category"\n# measured: values = ["f", "m"]\nmissing = true\n',
        'name = "day"\nkind = "date"\nformat = "%d.%m.%Y"\n# measured: bounds = [2031-12-01, 2031-12-28]\n',
        'name = "zip"\nkind = "category"\n',
    ):  # fmt: skip
        assert part in text, part
    assert '"pid"' not in text
    assert any("dictionary" in hint for hint in hints) and any("drops" in hint for hint in hints)
    assert any("look like identifiers: 1." in hint for hint in hints)
    with pytest.raises(CardError, match="column 'age', bounds: give bounds"):
        TableCard.loads(text)


def test_a_draft_whose_comments_were_moved_reads_the_table(place):
    text, _ = draft_table_card(Source(place, units="pid"))
    card = TableCard.loads(text.replace("# measured: ", ""))
    table = read_table(Source(place, units="pid"), card)
    assert (len(table), table.population, table.notes) == (60, 30, ())
    assert card.names == ("age", "dose", "sex", "day", "zip")
    assert [column.name for column in card.written] == ["key", *card.names], "a key has its place in the file"


def test_a_dictionary_declares_without_comments(place, tmp_path):
    (tmp_path / "d.csv").write_text(
        "name,kind,values,low,high,missing,description\nage,integer,,0,120,,years\nsex,category,f|m|d,,,true,\n"
        "day,date,,2031-01-01,2031-12-31,,\ngone,number,,0,1.5,,\nnote,key,,,,,\n"
    )
    text, hints = draft_table_card(place, dictionary=tmp_path / "d.csv")
    assert '# years\n[[column]]\nname = "age"\nkind = "integer"\nbounds = [0, 120]\n' in text
    assert 'name = "sex"\nkind = "category"\nvalues = ["f", "m", "d"]\nmissing = true\n' in text
    assert 'name = "note"\nkind = "key"\n' in text
    assert "bounds = [2031-01-01, 2031-12-31]" in text and "gone" not in text
    assert any("1 columns that the table does not have: gone" in hint for hint in hints)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("column,kind\nage,integer\n", "must name the columns name and kind"),
        ("name,kind,low,high\nage,integer,0,x\n", "line 2: low and high must be numbers"),
        ("name,kind,low,high\nage,int,0,9\n", "line 2: column 'age', kind"),
        ("name,kind\nage\n", "line 2 has another number"),
    ],
)
def test_refused_dictionaries(place, tmp_path, content, words):
    (tmp_path / "d.csv").write_text(content)
    with pytest.raises((CardError, DataError), match=re.escape(words)):
        draft_table_card(place, dictionary=tmp_path / "d.csv")


def test_columns_without_a_name_of_their_own_are_counted():
    frame = pd.DataFrame([[1, 2, 3, 4], [5, 6, 7, 9]], columns=["a", "b", "b", ""])
    text, hints = draft_table_card(pd.DataFrame({"a": [1, 2]}))
    assert 'name = "a"' in text
    text, hints = draft_table_card(frame.loc[:, ["a", ""]])
    assert text.count("[[column]]") == 1
    assert any("by position from 1: 2." in hint for hint in hints)
    with pytest.raises(DataError, match="no rows"):
        draft_table_card(frame[:0][["a"]])


def test_days_of_times_with_a_zone_are_those_that_a_run_reads(tmp_path):
    """In UTC, as in a file that has types; the last evening of the year 9999 has no such day."""
    times = [f"2031-03-{n % 5 + 1:02}T23:30:00-05:00" for n in range(40)]
    pd.DataFrame({"seen": times, "x": ["a", "b"] * 20}).to_csv(tmp_path / "t.csv", index=False)
    text, _ = draft_table_card(tmp_path / "t.csv")
    assert "bounds = [2031-03-02, 2031-03-06]" in text
    read_table(tmp_path / "t.csv", TableCard.loads(text.replace("# measured: ", "")))
    pd.DataFrame({"seen": [*times, "9999-12-31T23:30:00-05:00"]}).to_csv(tmp_path / "u.csv", index=False)
    assert "9999" not in draft_table_card(tmp_path / "u.csv")[0].partition("[[column]]")[0]


def test_a_column_whose_values_are_all_missing_is_dropped(tmp_path):
    """Two words for a missing value are no two values."""
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{n % 7},{['', 'NA'][n % 2]}\n" for n in range(60)))
    text, _ = draft_table_card(tmp_path / "t.csv")
    assert '"b" = "constant"' in text and 'name = "b"' not in text
