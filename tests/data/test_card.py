"""The card: what it accepts, what it refuses and how it says so."""

import numpy as np
import pytest

from gossamer.data.card import DataCard, check, check_units, meanings
from gossamer.data.columns.column import Column
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.records import Records
from gossamer.data.tables.any_card import load_card
from gossamer.data.tables.card import TableCard
from gossamer.errors import CardError
from gossamer.kinds.draft import draft

CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
TEXT = "shape = [1, 28, 28]\nclasses = 3\ndeclared_size = 100\n"


def records(n: int = 6, shape: tuple[int, ...] = (1, 28, 28), units: np.ndarray | None = None) -> Records:
    return Records(np.zeros((n, *shape), np.uint8), np.arange(n, dtype=np.int64) % 3, units)


@pytest.mark.parametrize(
    "card",
    [
        CARD,
        DataCard(
            shape=(3, 32, 32),
            classes=2,
            declared_size=1,
            label_prior=(0.1, 0.9),
            unit="client",
            missing_unit="own",
            title='a "quoted" \\ title, é 漢 #',
            missing_label="drop",
            pixel_range=(-1024, 3071.5),
        ),
    ],
)
def test_round_trip(tmp_path, card):
    card.save(tmp_path / "card.toml")
    assert DataCard.load(tmp_path / "card.toml") == card
    facts = [line for line in card.dumps().splitlines() if "=" in line and not line.startswith("#")]
    assert len(facts) == 14
    assert card.dumps().count("# declared public: ") == len(facts), "each fact has its comment"


def test_defaults_and_prior():
    card = DataCard.loads(TEXT)
    assert (card.unit, card.title, card.label_prior) == ("record", "", "uniform")
    assert card.probabilities == (1 / 3, 1 / 3, 1 / 3)
    assert DataCard.loads(TEXT + "label_prior = [0.5, 0.25, 0.25]").probabilities == (0.5, 0.25, 0.25)
    assert DataCard.loads(TEXT + "label_prior = [0.5, 0.25, 0.2500009]").probabilities[2] == 0.2500009


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace("classes", "clases"), "no entry 'clases'. Did you mean 'classes'"),
        (TEXT + "zzz = 1", "no entry 'zzz'. Known: title, data_set"),
        (TEXT.replace("declared_size = 100", ""), "lacks declared_size"),
        ("shape = [", "not TOML"),
        (TEXT.replace("[1, 28, 28]", "[28, 28]"), "shape must be three"),
        (TEXT.replace("[1, 28, 28]", "[1, 28, 0]"), "shape must be three"),
        (TEXT.replace("[1, 28, 28]", "[1, 28.0, 28]"), "shape must be three"),
        (TEXT.replace("[1, 28, 28]", "28"), "shape must be a list"),
        (TEXT.replace("[1, 28, 28]", "[2, 28, 28]"), "1 \\(grey\\) or 3"),
        (TEXT.replace("= 3", "= 0"), "classes must"),
        (TEXT.replace("= 3", "= true"), "classes must"),
        (TEXT.replace("= 100", '= "many"'), "declared_size must"),
        (TEXT + 'label_prior = "flat"', "label_prior must be"),
        (TEXT + "label_prior = [0.5, 0.5]", "one probability per class: it has 2 for 3"),
        (TEXT + "label_prior = [0.5, 0.5, 0.1]", "sum 1, and has 1.1"),
        (TEXT + "label_prior = [0.5, 0.5, 0.000002]", "sum 1"),
        (TEXT + "label_prior = [1.5, -0.25, -0.25]", "label_prior must be"),
        (TEXT + "label_prior = [nan, 0.5, 0.5]", "label_prior must be"),
        (TEXT + 'unit = ""', "unit must be a line of text in quotes: whose contribution"),
        (TEXT + "unit = 3", "unit must be a line of text"),
        (TEXT + 'missing_unit = "alone"', 'missing_unit must be one of "refuse", "own"'),
        (TEXT + 'missing_unit = "own"', 'no meaning where unit = "record"'),
        (TEXT + 'title = "a\\nb"', "title must be a line of text"),
        (TEXT + "invert = 1", "invert must be true or false: true: dark and light"),
        (TEXT + 'window = "yes"', "window must be true or false"),
        (TEXT + 'resize = "cropp"', 'resize must be one of "squash", "crop", "pad": .*Did you mean \'crop\''),
        (TEXT + 'missing_label = "own"', 'missing_label must be one of "refuse", "drop"'),
        (TEXT + 'class_names = "abc"', "class_names must be a list in brackets"),
        (TEXT.replace("= 3", "= 10001"), "classes must be a whole number from 1 to 10,000"),
        (TEXT.replace("= 100", "= 0"), "declared_size must be a whole number of at least 1"),
    ],
)
def test_malformed_cards_are_refused_by_name(tmp_path, text, words):
    path = tmp_path / "my card.toml"
    path.write_text(text)
    with pytest.raises(CardError, match=words) as caught:
        DataCard.load(path)
    assert str(caught.value).startswith(str(path))


def test_each_fact_is_explained_in_the_help_of_its_card():
    for kind in (DataCard, TableCard, Column, GeneratedColumn):
        assert meanings(kind) and all(f"{name}: {text}." in kind.__doc__ for name, text in meanings(kind).items())


def test_unreadable_cards(tmp_path):
    with pytest.raises(CardError, match=r"cannot be read.*gossamer\.draft_card\(DATA\)"):
        DataCard.load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"title = '\xe9'")
    with pytest.raises(CardError, match="UTF-8"):
        DataCard.load(tmp_path / "latin.toml")


SECRET = 4711


@pytest.mark.parametrize("load", [DataCard.load, load_card])
def test_the_text_of_a_card_is_no_path_and_no_message_quotes_it(load, tmp_path):
    """The text of a draft has measured values of records in it, and messages go to logs."""
    for text in (
        f"# measured: bounds = [0, {SECRET}]\n",
        f"declared_size = {SECRET}",
        f"x = {SECRET}\0",
        "a\n" * 5_000,
    ):
        with pytest.raises(CardError, match="this is the text of a card, not its path") as caught:
            load(text)
        assert str(SECRET) not in str(caught.value) and len(str(caught.value)) < 200
    with pytest.raises(CardError, match=f"{tmp_path}.*cannot be read"):
        load(tmp_path / "card.toml")


@pytest.mark.parametrize(
    "line", [f"{SECRET} = 1\n{SECRET} = 2", f"x = {{ {SECRET} = 1, {SECRET} = 2 }}", f"bounds = [0, {SECRET}"]
)
def test_a_card_that_is_no_toml_is_named_by_its_line(line, tmp_path):
    (tmp_path / "card.toml").write_text(f"\n{line}")
    with pytest.raises(CardError, match=r"card.toml: this is not TOML, at (line \d|end of document); ") as caught:
        load_card(tmp_path / "card.toml")
    assert str(SECRET) not in str(caught.value)


def test_a_card_is_saved_for_its_owner_alone(tmp_path):
    """It may be a draft, which is measured."""
    path = tmp_path / "card.toml"
    path.write_text("an older and longer text" * 100)
    path.chmod(0o644)
    CARD.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert DataCard.load(path) == CARD
    (tmp_path / "link.toml").symlink_to(path)
    CARD.save(tmp_path / "link.toml")
    assert (tmp_path / "link.toml").is_symlink() and DataCard.load(path) == CARD


def test_draft_proposes_and_does_not_measure():
    units = np.array([0, 0, 1, 1, 2, 2])
    text = draft(records(6, (3, 40, 50), units), unit="person")
    assert text.startswith("# A draft")
    assert "becomes a fact" in text
    expected = DataCard(shape=(3, 40, 50), classes=3, declared_size=10, unit="person")
    assert DataCard.loads(text) == expected
    assert DataCard.loads(draft(records(6, (3, 20, 50), units))).shape == (3, 32, 32)
    many = Records(np.zeros((1437, 1, 28, 28), np.uint8), np.zeros(1437, np.int64))
    assert DataCard.loads(draft(many)).declared_size == 1400, "rounded, not counted"
    assert DataCard.loads(draft(many)).shape == (1, 28, 28)
    few = Records(np.zeros((68, 1, 28, 28), np.uint8), np.zeros(68, np.int64))
    assert DataCard.loads(draft(few)).declared_size == 70, "68 would be a count"


def test_lists_and_the_mark_of_a_windows_editor_are_taken(tmp_path):
    card = DataCard(shape=[1, 28, 28], classes=2, declared_size=100, class_names=["a", "b"])
    assert (card.shape, card.class_names) == ((1, 28, 28), ("a", "b"))
    assert card == DataCard(shape=(1, 28, 28), classes=2, declared_size=100, class_names=("a", "b"))
    (tmp_path / "card.toml").write_text(TEXT, encoding="utf-8-sig")
    assert DataCard.load(tmp_path / "card.toml").declared_size == 100


def test_check_accepts_what_agrees():
    check(records(), CARD, where="here")
    units = np.zeros(6, np.int64)
    check(records(units=units), DataCard(shape=(1, 28, 28), classes=3, declared_size=1, unit="writer"), where="here")


def test_check_refuses_contradictions():
    with pytest.raises(CardError, match=r"here: the card declares images of shape 1x28x28 .*these are 3x32x32"):
        check(records(shape=(3, 32, 32)), CARD, where="here")
    two = DataCard(shape=(1, 28, 28), classes=2, declared_size=6)
    with pytest.raises(CardError, match=r"classes = 2, labels 0 to 1. Another label was found for records 2, 5 "):
        check(records(), two, where="here")


def test_a_card_and_units_must_agree_before_anything_is_read():
    writers = DataCard(shape=(1, 28, 28), classes=3, declared_size=1, unit="writer")
    check_units(CARD, None, where="here")
    check_units(writers, "people.csv", where="here")
    with pytest.raises(CardError, match=r"here: the card protects each writer.*Give `units`: a FILE\.csv"):
        check_units(writers, None, where="here")
    with pytest.raises(CardError, match=r'here: .*Name the unit in the card, such as unit = "person"'):
        check_units(CARD, "people.csv", where="here")


def test_a_refusal_never_offers_to_protect_records_in_place_of_their_unit():
    """Without units, a person with several records is not protected: the way there is no remedy."""
    writers = DataCard(shape=(1, 28, 28), classes=3, declared_size=1, unit="writer")
    for card, units in ((writers, None), (CARD, "people.csv")):
        with pytest.raises(CardError) as caught:
            check_units(card, units, where="here")
        assert "set unit" not in str(caught.value) and "leave units out" not in str(caught.value)


def test_check_never_prints_a_label():
    odd = Records(np.zeros((2, 1, 28, 28), np.uint8), np.array([0, 7777]))
    with pytest.raises(CardError) as caught:
        check(odd, CARD, where="here")
    assert "7777" not in str(caught.value)
