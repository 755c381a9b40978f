"""A column of a draft, or of a card, declared in Python."""

import pandas as pd
import pytest

import gossamer
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.tables.card import TableCard, TableDraft
from gossamer.errors import CardError

DRAFT = TableDraft("""\
# A draft.

# declared public: number of records
declared_size = 80

# declared public: columns that are left out, each with the reason
[drop]
"note" = "free text"

# declared public: the columns and everything that is said of them
[[column]]
name = "ward"
kind = "category"
# measured: values = ["A17", "B4"]
missing = true

# 2 of 80 cells are no numbers: rows 3, 70.
[[column]]
name = "weight"
kind = "number"
# Most values have 1 digit after the point.
# measured: bounds = [41.7, 118.3]

# Each row has another value here.
[[column]]
name = "case"
kind = "key"
""")
CARD = TableCard.loads("""
declared_size = 80
label = "ward"
[drop]
"note" = "free text"
[[column]]
name = "ward"
kind = "category"
values = ["a", "b"]
outside = "other"
[[column]]
name = "case"
kind = "key"
prefix = "C"
[[column]]
name = "weight"
kind = "number"
bounds = [30, 200]
bins = 8
""")


def test_a_declared_column_is_no_longer_measured_and_the_others_stay_as_they_are():
    draft = DRAFT.with_column("ward", values=("ward 1", "ward 2"))
    assert draft.measured == ("weight",) and DRAFT.measured == ("ward", "weight")
    assert "A17" not in draft.text and "missing = true" in draft.text
    rest = DRAFT.text.index("# 2 of 80 cells")
    assert draft.text.endswith(DRAFT.text[rest:]), "the other columns, with their remarks"
    assert draft.text.startswith(DRAFT.text[: DRAFT.text.index("[[column]]")])
    card = draft.with_column("weight", bounds=(30, 200), decimals=1).declared()
    assert [(each.name, each.kind) for each in card.written] == [
        ("ward", "category"), ("weight", "number"), ("case", "key")
    ]  # fmt: skip
    assert (card.columns[0].values, card.columns[0].missing) == (("ward 1", "ward 2"), True)
    assert (card.columns[1].bounds, card.columns[1].decimals) == ((30, 200), 1)


def test_what_is_not_declared_stays_measured():
    draft = DRAFT.with_column("weight", decimals=1, log=True)
    assert "# measured: bounds = [41.7, 118.3]\n" in draft.text and "# 2 of 80" not in draft.text
    assert "decimals = 1\n" in draft.text and "log = true\n" in draft.text
    assert draft.measured == ("ward", "weight")
    with pytest.raises(
        CardError, match=r"2 columns, such as 'ward'\)\. Declare each, as in draft = draft.with_column\('ward'"
    ):
        draft.declared()
    edges = DRAFT.with_column("weight", edges=(0, 50, 100))
    assert "41.7" not in edges.text and edges.measured == ("ward",)


def test_the_kind_can_change_and_a_dropped_column_comes_back():
    draft = DRAFT.with_column("case", kind="integer", bounds=(0, 999)).with_column("weight", kind="key")
    assert "Each row has another" not in draft.text and "118.3" not in draft.text
    draft = draft.with_column("note", kind="category", values=("x", "y"), outside="other")
    card = draft.with_column("ward", values=("a",)).declared()
    assert card.drop == () and card.names == ("ward", "case", "note")
    assert card.columns[1].bounds == (0, 999) and card.generated == (
        GeneratedColumn(name="weight", kind="key", place=1),
    )
    with pytest.raises(CardError, match=r"column 'weight', values: give the list"):
        DRAFT.with_column("weight", kind="category")


@pytest.mark.parametrize("whole", [DRAFT, CARD], ids=["draft", "card"])
@pytest.mark.parametrize(
    ("name", "entries", "words"),
    [
        ("wards", {"values": ("a", "b")}, "has no column 'wards'. Did you mean 'ward'? For a new column, give its kind"),
        ("notes", {"values": ("a", "b")}, "Did you mean 'note'?"),
        ("weight", {"bound": (0, 9)}, "column 'weight' has no entry 'bound'. Did you mean 'bounds'?"),
        ("weight", {"kind": "intger", "bounds": (0, 9)}, "Did you mean 'integer'?"),
        ("ward", {"bounds": (0, 9)}, "column 'ward', bounds: it is no entry of a column of kind category"),
        ("weight", {"bounds": (200, 30)}, "column 'weight', bounds: give two values, the smaller first"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_without_measured_values(whole, name, entries, words):
    with pytest.raises(CardError) as caught:
        whole.with_column(name, **entries)
    assert words in str(caught.value)
    assert not any(value in str(caught.value) for value in ("A17", "41.7", "118.3"))


def test_a_card_with_another_column():
    card = CARD.with_column("weight", edges=(0, 50, 100)).with_column("ward", values=("a", "b", "c"))
    assert [each.name for each in card.written] == ["ward", "case", "weight"] and card.label == "ward"
    assert card.columns[1].edges == (0, 50, 100) and card.columns[1].bounds == ()
    assert (card.columns[0].values, card.columns[0].outside) == (("a", "b", "c"), "other")
    assert card.with_column("weight", bounds=(0, 9)).columns[1].bounds == (0, 9)
    more = CARD.with_column("note", kind="category", values=("x",)).with_column("age", kind="integer", bounds=(0, 120))
    assert more.names == ("ward", "weight", "note", "age") and more.drop == ()
    assert CARD.names == ("ward", "weight"), "a card does not change"


def test_a_frame_is_learnt_from_a_draft_that_was_declared_in_python(capsys):
    frame = pd.DataFrame({"age": [20 + n % 50 for n in range(300)], "ill": ["no", "yes", "no"] * 100})
    draft = gossamer.draft_card(frame)
    assert "draft = draft.with_column(NAME" in capsys.readouterr().err
    card = draft.with_column("age", bounds=(0, 99)).with_column("ill", values=("no", "yes"))
    made = gossamer.fit("marginals", data=frame, card=card, epsilon=100, delta=1e-5)
    assert set(made.sample(50, seed=0).columns()["ill"]) == {"no", "yes"}
