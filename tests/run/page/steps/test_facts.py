"""The card as a form: nothing that was measured becomes public unless the user accepts it."""

import pytest

from gossamer.data.source import Source
from gossamer.data.tables.any_card import load_card
from gossamer.errors import CardError
from gossamer.kinds.draft import draft_text
from gossamer.run.page.steps import facts as card_form

ROWS = ["id,sex,age,seen,weight,note"] + [
    f"P{n:03},{'fm'[n % 2]},{20 + n % 50},2024-0{1 + n % 9}-01,{50 + n / 10},text {n} of many words" for n in range(60)
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "clinic.csv"
    path.write_text("\n".join(ROWS) + "\n")
    return path


@pytest.fixture
def draft(table, tmp_path):
    path = tmp_path / "draft.toml"
    path.write_text(draft_text(str(table))[0])
    return card_form.draft_of(path)


@pytest.fixture
def pictures():
    return {
        "title": "", "data_set": "", "shape": [1, 28, 28], "resize": "squash", "invert": False, "classes": 2,
        "class_names": ["a", "b"], "declared_size": 1400, "label_prior": "uniform", "unit": "record",
        "missing_unit": "refuse", "missing_label": "refuse", "window": False, "pixel_range": [0, 4095],
    }  # fmt: skip


FACTS = {"title": "Visits", "data_set": "clinic", "declared_size": "60", "label": "sex"}
COLUMNS = {
    "column.0.kind": "key",
    "column.1.kind": "category", "column.1.values": "f | m | x",
    "column.2.kind": "integer", "column.2.low": "0", "column.2.high": "120", "column.2.outside": "clip",
    "column.3.kind": "date", "column.3.low": "2024-01-01", "column.3.high": "2024-12-31",
    "column.4.kind": "number", "column.4.low": "20", "column.4.high": "200.5", "column.4.decimals": "1",
    "column.4.missing": "1",
    "column.5.kind": "",
}  # fmt: skip


def test_a_draft_tells_what_was_measured_from_what_is_declared(draft):
    sex, age = draft["column"][1], draft["column"][2]
    assert (sex["measured_values"], age["measured_bounds"]) == (["f", "m"], [20, 69])
    assert "values" not in sex and "bounds" not in age


def test_a_form_becomes_the_card(draft, tmp_path):
    card = card_form.card_from(draft, {}, FACTS | COLUMNS)
    card.save(tmp_path / "card.toml")
    stated = load_card(tmp_path / "card.toml").to_dict()
    columns = {column["name"]: column for column in stated["column"]}
    assert (stated["title"], stated["data_set"], stated["declared_size"], stated["label"]) == (
        "Visits",
        "clinic",
        60,
        "sex",
    )
    assert columns["sex"]["values"] == ["f", "m", "x"]
    assert (columns["age"]["bounds"], columns["age"]["outside"]) == ([0, 120], "clip")
    assert columns["seen"]["bounds"] == ["2024-01-01", "2024-12-31"]
    assert (columns["weight"]["bounds"], columns["weight"]["decimals"], columns["weight"]["missing"]) == (
        [20, 200.5],
        1,
        True,
    )
    assert columns["id"]["kind"] == "key"
    assert set(columns) == {"id", "sex", "age", "seen", "weight"}, "a column that is left out is not named"


@pytest.mark.parametrize("left_out", ["declared_size", "column.1.values"])
def test_what_was_measured_is_not_taken_by_itself(draft, left_out):
    form = {key: text for key, text in (FACTS | COLUMNS).items() if key != left_out}
    with pytest.raises(
        CardError, match="accept the measured value" if left_out == "declared_size" else "'sex', values"
    ):
        card_form.card_from(draft, {}, form)


def test_a_measured_value_counts_where_it_is_accepted(draft):
    form = {key: text for key, text in (FACTS | COLUMNS).items() if key not in ("declared_size", "column.1.values")}
    form |= {"accept.declared_size": "1", "accept.column.1": "1"}
    stated = card_form.card_from(draft, {}, form).to_dict()
    assert (stated["declared_size"], stated["column"][1]["values"]) == (60, ["f", "m"])
    del form["column.2.low"], form["column.2.high"]
    with pytest.raises(CardError, match="'age', bounds"):
        card_form.card_from(draft, {}, form)


def test_a_written_value_goes_before_an_accepted_one(draft):
    form = FACTS | COLUMNS | {"accept.declared_size": "1", "declared_size": "1,000", "accept.column.2": "1"}
    stated = card_form.card_from(draft, {}, form).to_dict()
    assert (stated["declared_size"], stated["column"][2]["bounds"]) == (1000, [0, 120])


def test_entries_that_the_form_does_not_ask_for_stay(draft):
    """A card that was edited by hand goes through the form without a loss."""
    card = card_form.card_from(draft, {}, FACTS | COLUMNS).to_dict()
    card["column"][2] |= {"special": [-1], "bins": 7}
    shown = card_form.columns_of(draft, card)[2]
    assert (shown["ends"], shown["other"]) == (["0", "120"], "special = -1")
    stated = card_form.card_from(draft, card, FACTS | COLUMNS).to_dict()
    assert (stated["column"][2]["special"], stated["column"][2]["bins"]) == ([-1], 7)


def test_another_value_is_no_mistake_where_values_were_only_measured(draft):
    """Values of the test records that training lacks would stop `evaluate` after the run has used its epsilon."""
    assert [column["outside"] for column in card_form.columns_of(draft, {})[1:5]] == ["other", "clip", "clip", "clip"]
    card = card_form.card_from(draft, {}, FACTS | COLUMNS).to_dict()
    assert [column["outside"] for column in card_form.columns_of(draft, card)[1:4]] == ["refuse", "clip", "refuse"]


def test_that_values_are_missing_is_measured_too(table, tmp_path):
    gaps = tmp_path / "gaps.csv"
    gaps.write_text(table.read_text().replace(",f,", ",,", 1))
    path = tmp_path / "draft.toml"
    path.write_text(draft_text(str(gaps))[0])
    draft = card_form.draft_of(path)
    shown = card_form.columns_of(draft, {})[1]
    assert (shown["some_missing"], shown["missing"]) == (True, False)
    assert (
        not card_form.card_from(draft, {}, FACTS | COLUMNS | {"accept.column.1": "1"})
        .to_dict()["column"][1]
        .get("missing")
    )
    stated = card_form.card_from(draft, {}, FACTS | COLUMNS | {"column.1.missing": "1"}).to_dict()
    assert stated["column"][1]["missing"] is True
    assert card_form.columns_of(draft, stated)[1]["missing"]


def test_words_for_missing_count_where_they_are_accepted_or_written(table, tmp_path):
    gaps = tmp_path / "gaps.csv"
    gaps.write_text(table.read_text().replace(",51.0,", ",-,").replace(",52.0,", ",.,"))
    path = tmp_path / "draft.toml"
    path.write_text(draft_text(str(gaps))[0])
    draft = card_form.draft_of(path)
    shown = card_form.columns_of(draft, {})[4]
    assert shown["measured"] == "50.0 to 55.9, words for missing: - | ." and shown["has_words"]
    form = FACTS | COLUMNS | {"column.4.missing_words": "- | n/k"}
    stated = card_form.card_from(draft, {}, form).to_dict()
    assert stated["column"][4]["missing_words"] == ["-", "n/k"]
    assert card_form.columns_of(draft, stated)[4]["missing_words"] == "- | n/k"
    form = FACTS | COLUMNS | {"column.4.low": "", "column.4.high": "", "column.4.missing_words": ""}
    accepted = card_form.card_from(draft, {}, form | {"accept.column.4": "1"}).to_dict()
    assert accepted["column"][4]["missing_words"] == ["-", "."]
    assert "missing_words" not in card_form.card_from(draft, accepted, FACTS | COLUMNS).to_dict()["column"][4]


def test_a_column_that_was_left_out_is_shown_as_left_out(draft):
    card = card_form.card_from(draft, {}, FACTS | COLUMNS | {"column.3.kind": ""}).to_dict()
    assert [column["kind"] for column in card_form.columns_of(draft, card)] == [
        "key",
        "category",
        "integer",
        "",
        "number",
        "",
    ]


def test_pictures_need_each_measured_fact_accepted(pictures):
    form = {"title": "Scans", "data_set": "scans", "resize": "pad", "invert": "true", "label_prior": "0.25 | 0.75",
            "missing_label": "drop"}  # fmt: skip
    measured = ("declared_size", "classes", "class_names", "shape")
    for missing in measured:
        with pytest.raises(CardError, match="accept the measured value"):
            card_form.card_from(pictures, {}, form | {f"accept.{name}": "1" for name in measured if name != missing})
    stated = card_form.card_from(pictures, {}, form | {f"accept.{name}": "1" for name in measured}).to_dict()
    assert (stated["declared_size"], stated["class_names"], stated["shape"]) == (1400, ["a", "b"], [1, 28, 28])
    assert (stated["resize"], stated["invert"], stated["label_prior"]) == ("pad", True, [0.25, 0.75])
    assert stated["pixel_range"] == [0, 4095], "how deep pixels are read comes from the draft"
    written = form | {"declared_size": "2000", "classes": "2", "class_names": "a|b", "shape": "1 x 32 x 32"}
    assert card_form.card_from(pictures, {}, written).to_dict()["shape"] == [1, 32, 32]


def test_units_are_asked_for_where_there_are_units(table, tmp_path):
    path = tmp_path / "draft.toml"
    path.write_text(draft_text(Source(str(table), units="id"))[0])
    draft = card_form.draft_of(path)
    assert card_form.stated(draft, {})["unit"] == "person" and card_form.measured(draft) == {"declared_size": "60"}
    form = FACTS | {
        key.replace(f"column.{n}", f"column.{n - 1}"): text for key, text in COLUMNS.items() if (n := int(key[7])) > 0
    }
    card = card_form.card_from(draft, {}, form | {"unit": "patient", "missing_unit": "own", "max_rows": "3"})
    assert (card.unit, card.missing_unit, card.max_rows) == ("patient", "own", 3)
