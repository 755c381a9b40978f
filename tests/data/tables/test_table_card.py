"""The card of a table: what it accepts, what it refuses and how it says so."""

import datetime
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.data.card import DataCard, meanings
from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.errors import CardError

AGE = Column(name="age", kind="integer", bounds=(0, 99), missing=True)
SEX = Column(name="sex", kind="category", values=("f", "m"), outside="other")
CARD = TableCard(
    columns=(
        AGE,
        SEX,
        Column(name="day", kind="date", bounds=("2020-01-01", "2020-12-31"), outside="clip", format="%d.%m.%Y"),
        Column(name="dose", kind="number", bounds=(1, 1000.0), log=True, decimals=1, zero=True, special=(-1,)),
    ),
    declared_size=500,
    label="sex",
    unit="patient",
    missing_unit="own",
    title='a "quoted" \\ title, é 漢 #',
    data_set="ward",
    decimal=",",
    drop={"pid": "identifier", "note": "free text"},
)
TEXT = 'declared_size = 100\n[[column]]\nname = "age"\nkind = "integer"\nbounds = [0, 99]\n'


def test_round_trip(tmp_path):
    CARD.save(tmp_path / "card.toml")
    assert TableCard.load(tmp_path / "card.toml") == CARD
    assert TableCard.from_dict(CARD.to_dict()) == CARD
    assert hash(TableCard.loads(CARD.dumps())) == hash(CARD)


def test_codes_of_each_column():
    assert CARD.domain == (17, 3, 16, 18)
    assert (CARD.label_index, CARD.names) == (1, ("age", "sex", "day", "dose"))
    assert TableCard.loads(TEXT).label_index is None
    assert [column.in_order for column in CARD.columns] == [16, 0, 16, 16]
    assert Column(name="x", kind="category", values=["low", "high"], ordered=True).in_order == 2
    assert (AGE.missing_code, AGE.other_code, SEX.other_code, SEX.missing_code) == (16, None, 2, None)
    assert CARD.columns[3].apart == (0.0, -1.0), "codes 16 and 17"


def test_edges_of_bins():
    assert Column(name="x", kind="integer", bounds=(1, 3)).cuts.tolist() == [1, 2, 3, 4], "no more bins than values"
    beyond = np.nextafter([1, 100], 200)
    assert Column(name="x", kind="number", bounds=(0, 1), bins=4).cuts.tolist() == [0, 0.25, 0.5, 0.75, beyond[0]]
    assert Column(name="x", kind="number", bounds=(1, 100), bins=2, log=True).cuts.tolist() == [1, 10, beyond[1]]
    assert Column(name="x", kind="integer", edges=(17, 30, 90)).cuts.tolist() == [17, 30, 91]
    days = Column(name="x", kind="date", bounds=(datetime.date(1970, 1, 1), datetime.date(1970, 1, 4)), bins=2)
    assert days.cuts.tolist() == [0, 2, 4]
    shares = Column(name="x", kind="number", bounds=(0, 100), decimals=2, bins=10)
    assert shares.cuts.tolist() == [*range(0, 100, 10), 100.01], "round edges stay round"
    assert Column(name="x", kind="integer", bounds=(0, 99), zero=True, special=(50,)).grid_counts.sum() == 98


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("decimals", "low", "high"), [(0, 17, 90), (1, 0.1, 100.0), (2, 0.29, 31.0), (3, -0.5, 0.25)])
def test_each_value_of_a_fine_grid_has_a_bin_of_its_own(decimals, low, high, log):
    """Whole numbers are a grid without decimals. The largest value shares its bin with none."""
    steps = np.arange(round(low * 10**decimals), round(high * 10**decimals) + 1)
    column = Column(name="x", kind="number", bounds=(low, high), decimals=decimals, bins=9_000, log=log and low > 0)
    values = steps / 10**decimals
    if not column.log:
        assert column.plain == len(values) and np.array_equal(column.cuts[:-1], values)
        assert column.code_names == [f"{value:.12g}" for value in values]
    assert column.grid_counts.sum() == len(values) and column.grid_counts.min() == 1
    assert column.grid_counts[-1] == np.count_nonzero(values >= column.cuts[-2])
    assert column.beyond(high) == column.cuts[-1] == (steps[-1] + 1) / 10**decimals


def test_values_with_a_code_of_their_own_leave_no_bin_empty():
    column = Column(name="x", kind="number", bounds=(0, 45), decimals=1, bins=9_000, zero=True, special=(9.5, 45))
    assert (column.cuts[0], column.cuts[-1], column.plain, column.grid_counts.tolist()) == (0.1, 45.1, 448, [1] * 448)
    wide = Column(name="x", kind="integer", bounds=(0, 99), bins=10, zero=True, special=(50,))
    assert wide.cuts.tolist() == [*range(0, 101, 10)], "a wide bin keeps its edges"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (dict(kind="integr"), "'x', kind: it must be .* Did you mean 'integer'"),
        (dict(kind="category"), "'x', values: give the list"),
        (dict(kind="category", values=["a", "a"]), "no two"),
        (dict(kind="category", values=[" a"]), "without space"),
        (dict(kind="category", values=[""]), "say missing = true"),
        (dict(kind="category", values=["a", "other"], outside="other"), "'x', outside: .other. is a declared value"),
        (dict(kind="category", values=["a"], outside="clip"), "no bounds to clip"),
        (
            dict(kind="category", values=["a"], bounds=[0, 1]),
            "'x', bounds: it is no entry of a column of kind category",
        ),
        (dict(kind="category", values=[str(n) for n in range(10_001)]), "has 10,001 codes, and at most 10,000"),
        (dict(kind="integer"), "give bounds"),
        (dict(kind="integer", bounds=[1, 0]), "the smaller first"),
        (dict(kind="integer", bounds=[0, 1.5]), "whole numbers"),
        (dict(kind="integer", bounds=[0, 2**60]), "beyond 2\\^53"),
        (dict(kind="integer", bounds=[0, 9], edges=[0, 9]), "give bounds"),
        (dict(kind="integer", edges=[0, 5, 5]), "must rise"),
        (dict(kind="integer", edges=[0, 5], bins=3), "leave bins out"),
        (dict(kind="integer", bounds=[0, 9], log=True), "smallest value above 0"),
        (dict(kind="integer", edges=[0, 1, 9], zero=True), "bin 0 .* holds only zero"),
        (dict(kind="integer", bounds=[0, 1], zero=True, special=[1]), "bin 0 .* holds only zero"),
        (dict(kind="integer", bounds=[0, 2399], clock=True), "clock.*below 60"),
        (dict(kind="integer", bounds=[0, 2400], clock=True, special=[1275]), "clock.*below 60"),
        (dict(kind="integer", bounds=[-100, 2400], clock=True), "clock.*below 60"),
        (dict(kind="integer", bounds=[1, 9], special=[0], zero=True), "no two special"),
        (dict(kind="integer", bounds=[1, 9], decimals=2), "'x', decimals: it is no entry of a column of kind integer"),
        (dict(kind="integer", bounds=[1, 9], missing=1), "true or false"),
        (dict(kind="integer", bounds=[1, 9], bins=0), "from 1 to"),
        (dict(kind="integer", bounds=[1, 9], outside="drop"), '"refuse", "clip", "other"'),
        (dict(kind="number", bounds=[0, float("inf")]), "finite"),
        (dict(kind="number", bounds=[0, 1], decimals=-1), "from 0 to 9"),
        (dict(kind="number", bounds=[0, 1], decimals="2"), "from 0 to 9"),
        (dict(kind="number", bounds=[0.01, 0.02], decimals=1), "holds only"),
        (dict(kind="date", bounds=["2020", "2021"]), "must hold dates as 2031-12-24"),
        (dict(kind="date", bounds=["2020-01-01", "2021-01-01"], format="%d"), "day, month and year"),
    ],
)
def test_refused_columns(entry, words):
    with pytest.raises(CardError, match=words):
        Column(name="x", **entry)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace("bounds", "bouns"), "column 'age' has no entry 'bouns'. Did you mean 'bounds'"),
        (TEXT.replace('name = "age"', ""), "lacks name"),
        (TEXT.replace("declared_size = 100", ""), "lacks declared_size"),
        ("declared_sise = 1\n" + TEXT, "no entry 'declared_sise'. Did you mean 'declared_size'"),
        ("bins = 3\n" + TEXT, "no entry 'bins'"),
        (TEXT + 'title = "x"', "no entry 'title'.* Facts about the whole table come before"),
        ('label = "agee"\n' + TEXT, "label must name a column.* Did you mean 'age'"),
        ('decimal = "x"\n' + TEXT, "decimal must be"),
        ('drop = ["a", "b"]\n' + TEXT, "drop must name columns with a reason"),
        ('header = "no"\n' + TEXT, "header must be true or false"),
        ('missing_unit = "own"\n' + TEXT, "no meaning"),
        (TEXT + TEXT.partition("\n")[2], "'age' is on the card twice"),
        ("declared_size = 1\n", "at least one column"),
        ("declared_size = 1\ncolumn = 3", "at least one column"),
        ("shape = [1, 2, 2]\nclasses = 2\ndeclared_size = 9", "describes pictures"),
    ],
)
def test_refused_cards(tmp_path, text, words):
    (tmp_path / "card.toml").write_text(text)
    with pytest.raises(CardError, match=words) as error:
        TableCard.load(tmp_path / "card.toml")
    assert str(error.value).startswith(str(tmp_path / "card.toml"))


def test_a_card_of_a_table_is_no_card_of_pictures():
    with pytest.raises(CardError, match="describes a table"):
        DataCard.loads(TEXT)


def test_a_repr_shows_no_more_than_shapes():
    assert repr(CARD) == "TableCard(4 columns, declared_size=500, unit='patient')"
    assert np.array_equal(CARD.columns[0].cuts, TableCard.loads(CARD.dumps()).columns[0].cuts)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from([*CARD.to_dict()]), ANYTHING, max_size=2),
    st.dictionaries(st.sampled_from([*meanings(Column)]), ANYTHING, max_size=2),
)
def test_any_facts_make_a_card_or_a_card_error(facts, entries):
    column = {"name": "x", "kind": "integer", "bounds": [0, 99]} | entries
    with suppress(CardError):
        TableCard.from_dict({"declared_size": 9, "column": [column]} | facts).dumps()


@pytest.mark.parametrize(
    ("codes", "label", "problem"),
    [
        ([[16, 2, 15, 17], [0, 0, 0, 0]], [2, 0], ""),
        ([[17, 2, 15, 17], [0, 0, 0, 0]], [2, 0], "a code is none of its column"),
        ([[16, 2, 15, 17], [0, -1, 0, 0]], [2, 0], "a code is none of its column"),
        ([[16, 2, 15, 17]], [2], "codes are torch.int64 [1, 4] and not int64 [2, 4]"),
        (
            [[16.0, 2.0, 15.0, 17.0], [0.0, 0.0, 0.0, 0.0]],
            [2, 0],
            "codes are torch.float32 [2, 4] and not int64 [2, 4]",
        ),
        ([[16, 2, 15, 17], [0, 0, 0, 0]], [3, 0], "labels are not all from 0 to 2"),
    ],
)
def test_what_is_no_sample_of_the_card_is_said(codes, label, problem):
    assert CARD.problem_of_samples(torch.tensor(codes), torch.tensor(label), 2) == problem
