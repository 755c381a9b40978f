"""A data dictionary declares the columns of a card, with every entry that a card has."""

import re
import tomllib
from typing import Any

import pandas as pd
import pytest

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.drafting.dictionary import FIELDS, OWN, read_dictionary
from gossamer.errors import CardError, DataError


@pytest.fixture
def place(tmp_path):
    frame = pd.DataFrame(
        {"age": range(60), "sex": ["f", "m"] * 30, "bill": [n * 1.25 for n in range(60)], "day": "24.12.2031"}
    )
    frame["pid"] = [f"P{n:04}" for n in range(60)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_a_dictionary_declares_without_comments(place, tmp_path):
    (tmp_path / "d.csv").write_text(
        "name,kind,values,low,high,missing,description\nage,integer,,0,120,,years\nsex,category,f|m|d,,,true,\n"
        "day,date,,2031-01-01,2031-12-31,,\ngone,number,,0,1.5,,\npid,key,,,,,\n"
    )
    text, hints = draft_table_card(place, dictionary=tmp_path / "d.csv")
    assert '# years\n[[column]]\nname = "age"\nkind = "integer"\nbounds = [0, 120]\n' in text
    assert 'name = "sex"\nkind = "category"\nvalues = ["f", "m", "d"]\nmissing = true\n' in text
    assert 'name = "pid"\nkind = "key"\n' in text
    assert "bounds = [2031-01-01, 2031-12-31]" in text and "gone" not in text
    assert any("1 columns that the table does not have: gone" in hint for hint in hints)


def test_a_dictionary_has_every_entry_of_a_column(place, tmp_path):
    (tmp_path / "d.csv").write_text(
        "name;kind;values;edges;low;high;bins;log;zero;special;decimals;missing;missing_words;ordered;outside;format;label;"
        "at_least;prefix;digits;follows;mapping\n"
        "age;integer;;0|18|65|120;;;;;;;;;;;clip;;;;;;;\n"
        "sex;category;m|f;;;;;;;;;true;-|k.A.;yes;other;;true;;;;;\n"
        'bill;number;;;0.25;900;8;true;1;-9|-99.5;2;;;;;"$1,234.50";;;;;;\n'
        "day;date;;;2031-01-01;2031-12-31;;;;9999-12-31;;;;;;%d.%m.%Y;;;;;;\n"
        "pid;key;;;;;;;;;;;;;;;;;Q;5;;\n"
        "group;derived;;;;;;;;;;;;;;;;;;;age;0=young|18=grown|65=old\n"
    )
    text, _ = draft_table_card(place, dictionary=tmp_path / "d.csv")
    card = TableCard.loads(text)
    columns = {column.name: column for column in card.written}
    assert card.label == "sex"
    assert (columns["age"].edges, columns["age"].outside) == ((0, 18, 65, 120), "clip")
    assert (columns["sex"].ordered, columns["sex"].missing_words, columns["sex"].outside) == (
        True,
        ("-", "k.A."),
        "other",
    )
    bill = columns["bill"]
    assert (bill.bins, bill.log, bill.zero, bill.special, bill.decimals, bill.format) == (
        8,
        True,
        True,
        (-9, -99.5),
        2,
        "$1,234.50",
    )
    assert str(columns["day"].special[0]) == "9999-12-31" and columns["day"].format == "%d.%m.%Y"
    assert (columns["pid"].prefix, columns["pid"].digits) == ("Q", 5)
    assert "group" not in columns, "the table does not have it"


def test_a_dictionary_declares_rules(tmp_path):
    (tmp_path / "d.csv").write_text(
        "name,kind,values,low,high,missing,after,only,missing_with,follows,mapping,formula,decimals\n"
        "came,integer,,0,9,true,,,,,,,\nleft,integer,,0,3,true,came,,,,,,\nsex,category,f|m,,,,,,,,,,\n"
        "job,category,a|b,,,true,,sex=m=a|sex=f=a=b=,,,,,\nfirm,category,c|d,,,true,,,job,,,,\n"
        "sort,derived,,,,,,,,sex|job,f=a=1|f=b=2|m=a=3|m=b=4,,\nstay,derived,,,,,,,,,,left - came,1\n"
    )
    names = ("came", "left", "sex", "job", "firm", "sort", "stay")
    text, _ = draft_table_card({name: ["1", "2"] for name in names}, dictionary=tmp_path / "d.csv")
    columns: Any = {column.name: column for column in TableCard.loads(text).written}
    assert columns["left"].after == "came" and columns["firm"].missing_with == "job"
    assert columns["job"].only == (("sex", "m", "a"), ("sex", "f", "a", "b", ""))
    assert columns["sort"].follows == ("sex", "job") and columns["sort"].mapping[1] == ("f", "b", "2")
    assert (columns["stay"].formula, columns["stay"].decimals) == ("left - came", 1)


def test_a_new_entry_of_a_column_is_one_of_a_dictionary():
    assert {"zone", "missing_words", "format", "start"} <= FIELDS.keys()
    assert not {*OWN} & FIELDS.keys()
    assert all(entry.type in (bool, str, int, int | None) or "tuple" in str(entry.type) or "Literal" in str(entry.type)
               for entry in Column.__dataclass_fields__.values() if entry.metadata)  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("column,kind\nage,integer\n", "must name the columns name and kind"),
        ("name,kind,lowest\nage,integer,0\n", "a dictionary has no column 'lowest'. Did you mean 'low'?"),
        ("name,kind,low,high\nage,integer,0,x\n", "line 2: low and high must be numbers"),
        ("name,kind,low,high\nage,int,0,9\n", "line 2: column 'age', kind"),
        (
            "name,kind,low,high,zero\nage,integer,0,9,maybe\n",
            "line 2: zero must be true or false. It means: true: zero has",
        ),
        ("name,kind,low,high,bins\nage,integer,0,9,few\n", "line 2: bins must be a number."),
        ("name,kind\nage\n", "line 2 has another number"),
    ],
)
def test_refused_dictionaries(place, tmp_path, content, words):
    (tmp_path / "d.csv").write_text(content)
    with pytest.raises((CardError, DataError), match=re.escape(words)):
        draft_table_card(place, dictionary=tmp_path / "d.csv")


def test_a_dictionary_gives_fine_bins_that_grow_where_bounds_span_two_decades(place, tmp_path):
    (tmp_path / "d.csv").write_text(
        "name,kind,low,high,decimals,bins\nage,integer,0,120,,\nbill,number,0,500000,2,\nday,date,2031-01-01,2031-12-31,,\n"
        "pid,integer,5,20000,,\nsex,integer,0,20000,,4\n"
        "rate,number,5,31,2,\nclock,integer,0,8600,,\nshare,number,0,100,1,\n"
    )
    entries, _ = read_dictionary(tmp_path / "d.csv")
    columns = {name: Column(**tomllib.loads(text)["column"][0]) for name, text in entries.items()}
    age, bill, day, pid, sex = (columns[name] for name in ("age", "bill", "day", "pid", "sex"))
    assert (age.bins, age.log, age.zero, age.plain) == (1_000, False, False, 121), "each value has a bin"
    assert (bill.bins, bill.log, bill.zero, bill.bounds) == (1_000, True, True, (0.01, 500_000.0))
    assert min(bill.grid_counts) == 1 and bill.plain < 1_000, "no bin is narrower than a cent"
    assert (day.plain, pid.log, pid.bounds) == (365, True, (5, 20_000))
    assert (sex.bins, sex.log, sex.zero) == (4, False, False)
    rate, clock = columns["rate"], columns["clock"]
    assert columns["share"].plain == 1_001, "100.0 is not with 99.9"
    assert (rate.plain, rate.log, clock.plain, clock.log) == (2_601, False, 8_601, False), "up to 9,000 have a bin each"
