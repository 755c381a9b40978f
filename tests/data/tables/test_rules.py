"""Rules between columns: each holds in every sample, records that break one are refused or follow it, and no code is added."""

import datetime
import itertools
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gossamer
from gossamer.data.columns.column import Column
from gossamer.data.columns.formulas import compute
from gossamer.data.columns.rules import keep_rules
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import decode, to_numbers
from gossamer.data.tables.drafting.rule_check import BELOW, DIFFERS, MOST_ROWS, TAKEN, WARNING, RuleSearch
from gossamer.data.tables.read import read_table, read_values
from gossamer.data.tables.samples import TableSamples
from gossamer.errors import CardError, DataError
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.certificate import statements

TEXT = """\
declared_size = 1000

[[column]]
name = "came"
kind = "date"
bounds = [2020-01-01, 2021-12-31]
missing = true

[[column]]
name = "left"
kind = "date"
after = "came"
bounds = [1, 40]
bins = 40
zero = true
special = [365]
missing = true

[[column]]
name = "seen"
kind = "date"
after = "left"
bounds = [-9, 9]
missing = true

[[column]]
name = "sex"
kind = "category"
values = ["f", "m"]

[[column]]
name = "carries"
kind = "category"
values = ["yes", "no", "not known"]
only = [["sex", "m", "no"], ["age", "0..11", "no", "not known"]]

[[column]]
name = "smokes"
kind = "boolean"

[[column]]
name = "years"
kind = "number"
bounds = [0.5, 60]
decimals = 1
zero = true
missing = true
only = [["smokes", "False", "0", ""]]
missing_with = "came"

[[column]]
name = "age"
kind = "integer"
edges = [0, 12, 40, 99]

[[column]]
name = "paid"
kind = "number"
bounds = [0, 90]
decimals = 2
missing = true

[[column]]
name = "fee"
kind = "number"
bounds = [1, 9]
decimals = 2
zero = true

[[column]]
name = "total"
kind = "derived"
formula = "paid + fee"

[[column]]
name = "days"
kind = "derived"
formula = "left - came"

[[column]]
name = "ratio"
kind = "derived"
formula = "-paid / (2 * fee)"
decimals = 3

[[column]]
name = "admitted"
kind = "derived"
follows = "came"

[[column]]
name = "group"
kind = "derived"
follows = ["sex", "smokes"]
mapping = [["f", "True", "A"], ["f", "False", "B"], ["m", "True", "C"], ["m", "False", "D"]]
"""
CARD = TableCard.loads(TEXT)


class Drawn:
    """Codes as a generator gives them."""

    def __init__(self, codes: np.ndarray) -> None:
        self.numpy = lambda: codes


def random_codes(n: int, card: TableCard = CARD, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return np.stack([draw.integers(size, size=n) for size in card.domain], axis=1).astype(np.int32)


def samples(n: int = 4_000) -> TableSamples:
    return TableSamples.piece(CARD, (), 5, 0, (Drawn(random_codes(n)),))


def test_a_card_keeps_its_rules():
    assert TableCard.loads(CARD.dumps()) == TableCard.from_dict(CARD.to_dict()) == CARD
    assert hash(TableCard.loads(TEXT)) == hash(CARD)


def test_every_rule_holds_in_every_sample():
    values = samples().columns()
    came, left, seen, years, paid, fee = (values[name] for name in ("came", "left", "seen", "years", "paid", "fee"))
    stay = (left - came)[~np.isnat(left)].astype(int)
    assert set(stay.tolist()) == {*range(41), 365} and not np.isnat(came[~np.isnat(left)]).any()
    assert set((seen - left)[~np.isnat(seen)].astype(int).tolist()) == {*range(-9, 10)}
    assert np.isnat(left).mean() > np.isnat(came).mean() > 0.03
    men, young = values["sex"] == "m", values["age"] < 12
    assert set(values["carries"][men]) == {"no"} and set(values["carries"][young & ~men]) == {"no", "not known"}
    assert set(values["carries"][~young & ~men]) == {"yes", "no", "not known"}
    assert np.array_equal(np.isnan(years), np.isnat(came)) and (years[~np.isnan(years) & ~values["smokes"]] == 0).all()
    assert (years[values["smokes"]] > 0).any()
    assert np.array_equal(values["total"], np.round(paid + fee, 2), equal_nan=True)
    with np.errstate(divide="ignore"):
        ratio = np.where(fee == 0, np.nan, -paid / (2 * fee))
    assert np.allclose(values["ratio"], ratio, atol=0.0005, equal_nan=True) and np.isnan(ratio[~np.isnan(paid)]).any()
    assert np.array_equal(values["days"][~np.isnat(left)], stay) and np.isnan(values["days"][np.isnat(left)]).all()
    assert np.array_equal(values["admitted"], came, equal_nan=True)
    group = {("f", True): "A", ("f", False): "B", ("m", True): "C", ("m", False): "D"}
    pairs = zip(values["sex"], values["smokes"].tolist(), strict=True)
    assert values["group"].tolist() == [group[pair] for pair in pairs]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_files_of_samples_are_read_as_their_codes(tmp_path, ending):
    made = samples()
    made.save(tmp_path / f"s{ending}")
    assert np.array_equal(read_table(tmp_path / f"s{ending}", CARD).codes, made.codes)
    values = read_values(tmp_path / f"s{ending}", CARD, split="train", called="x")
    assert np.array_equal(values, to_numbers(made.codes, CARD, seed=5), equal_nan=True)
    frame = (pd.read_csv if ending == ".csv" else pd.read_parquet)(tmp_path / f"s{ending}")
    assert np.array_equal(frame["total"], made.columns()["total"], equal_nan=True)
    assert made.to_pandas().dtypes.astype(str)[["days", "total", "admitted"]].tolist() == [
        "Int64",
        "float64",
        "datetime64[s]",
    ]
    assert gossamer.check_card(tmp_path / f"s{ending}", CARD).findings == tuple(
        each for each in gossamer.check_card(tmp_path / f"s{ending}", CARD).findings if each.what == "missing"
    )


def test_a_code_that_breaks_a_rule_becomes_that_of_a_row_in_the_same_case():
    card = TableCard(
        columns=(
            Column(name="a", kind="category", values=("x", "y")),
            Column(name="b", kind="category", values=("1", "2", "3"), only=(("a", "x", "1", "2"),)),
        ),
        declared_size=9,
    )
    codes = np.array([[0, 2], [0, 1], [1, 0], [0, 2], [1, 2]], np.int32)
    assert keep_rules(codes, card.columns).tolist() == [[0, 1], [0, 1], [1, 0], [0, 1], [1, 2]], (
        "never that of a row with y"
    )
    none = keep_rules(np.array([[0, 2]] * 4, np.int32), card.columns)
    assert none[:, 1].tolist() == [0, 0, 1, 1], "equal shares where no row has what is allowed"
    assert codes[0, 1] == 2, "the given codes stay"


def test_a_range_has_zero_and_special_values_within():
    wide = Column(name="n", kind="integer", edges=(-2, 0, 5, 9), zero=True, special=(-1, 20))
    limited = Column(name="x", kind="category", values=("1", "2"), only=(("n", "-2..4", "1"),))
    card = TableCard(columns=(wide, limited), declared_size=9)
    codes = np.array([[code, 1] for code in range(wide.size)], np.int32)
    kept = keep_rules(codes, card.columns)[:, 1].tolist()
    assert kept == [0, 0, 1, 0, 0, 1], "two bins, one beyond; zero and -1 are within, 20 is not"


def test_a_rule_changes_no_share_where_it_holds():
    codes = random_codes(9_000)
    kept = keep_rules(codes, CARD.columns)
    women = (codes[:, 3] == 0) & (codes[:, 7] > 0)
    assert np.array_equal(kept[women, 4], codes[women, 4])
    assert np.array_equal(kept[:, [0, 3, 5, 7, 8, 9]], codes[:, [0, 3, 5, 7, 8, 9]]), "columns without rules stay"


RECORDS = {
    "came": ["2020-05-01", "2020-05-01", "", "2021-12-31"],
    "left": ["2020-05-04", "2020-05-01", "", "2022-12-31"],
    "seen": ["2020-05-03", "2020-05-10", "", "2022-12-31"],
    "sex": ["f", "m", "f", "f"],
    "carries": ["yes", "no", "not known", "no"],
    "smokes": [True, False, False, True],
    "years": ["12.5", "0", "", "0.5"],
    "age": [40, 30, 5, 11],
    "paid": ["0.10", "", "5", "90"],
    "fee": ["0.00", "1", "9", "0"],
}


def test_bounds_belong_to_the_difference():
    codes = read_table(RECORDS, CARD).codes
    left, seen = CARD.columns[1:3]
    assert codes[:, 1].tolist() == [2, 40, left.missing_code, 41], "three days, zero, none, the special value"
    for row, days in ((0, -1), (1, 9), (3, 0)):
        assert seen.cuts[codes[row, 2]] <= days < seen.cuts[codes[row, 2] + 1]
    values = read_values(RECORDS, CARD, split="train", called="x")
    days = [datetime.date.fromisoformat(day).toordinal() - 719163 if day else np.nan for day in RECORDS["left"]]
    assert np.array_equal(values[:, 1], days, equal_nan=True)
    assert (left.written(3), left.axis, left.beyond(3)) == ("3", "integer", 4)


def test_what_a_row_has_depends_on_no_other_row():
    """So a record still has one code in each column, and counts change by at most 1."""
    made = samples(300)
    columns = {each.name: made.columns()[each.name] for each in CARD.columns}
    whole = read_table(columns, CARD).codes
    for rows in (slice(0, 1), slice(7, 9), slice(0, 299)):
        assert np.array_equal(read_table({name: own[rows] for name, own in columns.items()}, CARD).codes, whole[rows])
    for width in (1, 2):
        for of in itertools.combinations(range(len(CARD.columns)), width):
            sizes = [CARD.domain[at] for at in of]
            counts = [np.zeros(sizes), np.zeros(sizes)]
            for table, count in zip((whole, whole[:-1]), counts, strict=True):
                np.add.at(count, tuple(table[:, at] for at in of), 1)
            assert np.abs(counts[0] - counts[1]).sum() == 1


BROKEN: dict[str, tuple[int, str, Any, str]] = {
    "a man": (1, "carries", "yes", "the row breaks a rule"),
    "a child": (2, "carries", "yes", "the row breaks a rule"),
    "does not smoke": (1, "years", "3", "the row breaks a rule"),
    "missing alone": (0, "years", "", "the row breaks a rule"),
    "there alone": (2, "years", "4.5", "the row breaks a rule"),
    "no day to count from": (2, "left", "2020-05-01", "the row breaks a rule"),
    "a day before": (0, "left", "2020-04-30", "the value is outside"),
    "too late": (0, "seen", "2020-07-01", "the value is outside"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_row_that_breaks_a_rule_is_refused_without_its_values(case: str):
    row, name, value, words = BROKEN[case]
    wrong = {**RECORDS, name: [*RECORDS[name][:row], value, *RECORDS[name][row + 1 :]]}
    with pytest.raises(DataError, match=f"row {row} .counted from 0.: column '{name}': {words}") as told:
        read_table(wrong, CARD)
    assert not value or value not in str(told.value)
    findings = gossamer.check_card(wrong, CARD).findings
    assert [each.rows for each in findings if each.what.startswith("refused") and each.column == name] == [[row]]


def pair(**facts: Any) -> TableCard:
    base = {"name": "x", "kind": "category", "values": ("1", "2"), "missing": True, "outside": "other"}
    return TableCard(
        columns=(Column(**{**base, "name": "a", "outside": "refuse"}), Column(**{**base, **facts})), declared_size=9
    )


def test_a_rule_may_decide_in_place_of_a_refusal():
    """What it leaves, if that is one code; else "other"; a fault where neither is."""
    card = pair(only=(("a", "1", "2"),))
    assert read_table({"a": ["1", "2"], "x": ["1", "1"]}, card).codes[:, 1].tolist() == [1, 0]
    found = gossamer.check_card({"a": ["1", "2"], "x": ["1", "1"]}, card).findings
    assert [(each.column, each.what, each.rows) for each in found] == [("x", TAKEN, [0])]
    card = pair(only=(("a", "1", "2", "other"),))
    assert read_table({"a": ["1"], "x": ["1"]}, card).codes[0, 1] == 2
    together = pair(missing_with="a")
    assert read_table({"a": ["", "1"], "x": ["2", ""]}, together).codes[:, 1].tolist() == [3, 2]
    with pytest.raises(DataError, match="breaks a rule"):
        read_table({"a": ["1"], "x": ["1"]}, pair(only=(("a", "1", "2", ""),)))


def test_a_difference_of_clipped_values():
    low = Column(name="low", kind="integer", bounds=(0, 9), missing=True)
    high = Column(name="high", kind="integer", after="low", bounds=(0, 3), bins=4, outside="clip", missing=True)
    card = TableCard(columns=(low, high), declared_size=9)
    records = {"low": [5, 5, None, 9], "high": [4, 7, 8, 99]}
    assert read_table(records, card).codes[:, 1].tolist() == [0, 2, 4, 3]  # 4: no value to count from
    assert read_values(records, card, split="train", called="x")[:2].tolist() == [[5, 4], [5, 7]]


def test_times_and_numbers_are_differences_too(tmp_path):
    columns = (
        Column(name="in", kind="datetime", bounds=("2020-01-01", "2020-01-09"), format="%d.%m.%Y %H:%M"),
        Column(
            name="out", kind="datetime", after="in", bounds=("0:00:00", "5:00:00"), bins=300, format="%d.%m.%Y %H:%M"
        ),
        Column(name="net", kind="number", bounds=(0, 1), decimals=1, bins=11),
        Column(name="gross", kind="number", after="net", bounds=(0.1, 0.5), decimals=1, bins=2, special=(7.3,)),
    )
    card = TableCard(columns=columns, declared_size=9)
    codes = random_codes(2_000, card)
    values = decode(codes, card, seed=0)
    hours = (values["out"] - values["in"]).astype(int) / 3600
    assert hours.min() >= 0 and hours.max() <= 5 and set((values["out"].astype(int) % 60).tolist()) == {0}
    tenths = {round(each * 10) for each in values["gross"] - values["net"]}
    assert tenths == {1, 2, 3, 4, 5, 73}
    assert np.array_equal(np.round(values["gross"], 1), values["gross"]), "and not 0.30000000000000004"
    TableSamples(codes, card).save(tmp_path / "s.csv")
    assert np.array_equal(read_table(tmp_path / "s.csv", card).codes, codes)


def test_zero_is_in_order_too():
    """Before, a zero with a code of its own stayed above a column that was at least as large."""
    columns = (
        Column(name="low", kind="integer", bounds=(0, 9)),
        Column(name="high", kind="integer", bounds=(1, 9), zero=True, at_least="low"),
    )
    card = TableCard(columns=columns, declared_size=9)
    values = decode(random_codes(500, card), card, seed=0)
    assert (values["low"] <= values["high"]).all() and (values["high"] == 0).any()


def test_the_stay_keeps_its_quantiles_and_the_cost_is_the_same():
    """F5: with an order alone, 3 days became 20."""
    draw = np.random.default_rng(1)
    came = np.datetime64("2020-01-01") + draw.integers(0, 700, 20_000)
    left = came + np.minimum(draw.gamma(1.2, 3.5, 20_000).astype(int), 40)
    bounds = (datetime.date(2020, 1, 1), datetime.date(2022, 12, 31))
    card = TableCard(
        columns=(
            Column(name="came", kind="date", bounds=bounds),
            Column(name="left", kind="date", after="came", bounds=(0, 40), bins=41),
        ),
        declared_size=20_000,
    )
    codes = read_table({"came": came, "left": left}, card).codes
    made = TableSamples.piece(card, (), 1, 0, (Drawn(codes[draw.integers(20_000, size=20_000)]),)).columns()
    real, drawn = (
        np.quantile((b - a).astype(int), [0.25, 0.5, 0.75]) for a, b in ((came, left), (made["came"], made["left"]))
    )
    assert np.abs(real - drawn).max() <= 0.05 * (real[2] - real[0])
    columns = [Column(name=f"c{size}", kind="date", bounds=bounds, bins=size) for size in card.domain]
    free = TableCard(columns=tuple(columns), declared_size=20_000)
    of = [Job.of(METHODS["marginals"], {"noise_multiplier": 3.0}, each).plan for each in (card, free)]
    assert of[0] == of[1]


def values_of(**columns: list[float]) -> Any:
    return lambda name: (np.array(columns[name], dtype=float), 1)


@pytest.mark.parametrize(
    ("formula", "expected", "digits"),
    [
        ("a + b", [0.3, 3.0], 1),
        ("'a' - b * 0.25", [0.05, 0.5], 3),
        ("a * b", [0.02, 2.0], 2),
        ("a / b", [0.5, 0.5], None),
        ("-(a - 1)", [0.9, 0.0], 1),
        ("a / 0", [np.nan, np.nan], None),
        ("a * 9007199254740992", [900719925474099.2, np.nan], 1),
        ("a + 1e-05", [0.10001, 1.00001], None),
    ],
)
def test_formulas(formula: str, expected: list[float], digits: int | None):
    values, given = compute(formula, values_of(a=[0.1, 1.0], b=[0.2, 2.0]))
    assert (np.round(values, 12).tolist(), given) == (pytest.approx(expected, nan_ok=True), digits)
    assert digits is None or np.array_equal(np.round(values, digits), values, equal_nan=True)


@pytest.mark.parametrize(
    "formula", ["", "a +", "5", "a ** 2", "abs(a)", "a if b else a", "a; b", "(" * 300 + "a", "a" + "+a" * 999, "a < b"]
)  # fmt: skip
def test_what_is_no_formula(formula: str):
    with pytest.raises(ValueError):
        compute(formula, values_of(a=[1], b=[2]))


def edited(old: str, new: str) -> Any:
    assert TEXT.count(old) == 1
    return lambda: TableCard.loads(TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (edited('after = "came"', 'after = "come"'), "The label has no rules. Did you mean 'came'"),
        (edited('after = "came"', 'after = "seen"'), "the rules of the columns 'seen', 'left' go in a circle"),
        (edited('after = "came"', 'after = "years"'), "'years' must have the same kind"),
        (edited('special = [365]\nmissing = true', ""), "'came' may have no value: say missing = true here"),
        (edited('special = [365]', "special = [2920000]"), "beyond the year 9999"),
        (edited('bounds = [-9, 9]', "bounds = [-999999, 9]"), "beyond the year 9999"),
        (edited('bounds = [-9, 9]', 'bounds = [2020-01-01, 2021-01-01]'), "bounds: it must hold whole numbers"),
        (edited('missing_with = "came"', 'missing_with = "age"'), "'age' is never missing"),
        (edited('"m", "no"]', '"d", "no"]'), "column 'sex' has no code for 'd'"),
        (edited('"m", "no"]', '"m"]'), "only: each has a column"),
        (edited('"m", "no"]', '"m", "maybe"]'), "column 'carries' has no code for 'maybe'"),
        (edited('"0..11"', '"0..17"'), "column 'age' has no code for '0..17'"),
        (edited('"0..11"', '"0.."'), "column 'age' has no code for '0..'"),
        (edited('"0..11", "no"', '"0..11", "yes"'), "its rules leave no value in some rows"),
        (edited('"0..11", "no", "not known"', '"0..11", ""'), "column 'carries' has no code for ''"),
        (edited('name = "fee"', 'name = "fee"\nat_least = "paid"\nonly = [["age", "0..11", "0"]]'), "at_least exchanges"),
        (edited('name = "seen"', 'name = "seen"\nat_least = "came"'), "at_least exchanges"),
        (edited('declared_size', 'label = "carries"\ndeclared_size'), "The label has no rules"),
        (edited('"paid + fee"', '"paid + fees"'), "formula: it must have learnt columns"),
        (edited('"paid + fee"', '"paid + sex"'), "formula: it must have learnt columns"),
        (edited('formula = "paid + fee"', ""), "follows: name the column that it follows from"),
        (edited('formula = "paid + fee"', 'formula = "fee"\nmapping = { a = "b" }'), "formula: it goes"),
        (edited('follows = "came"', 'follows = "came"\ndecimals = 2'), "formula: it goes with decimals"),
        (edited('["sex", "smokes"]', '[["sex"], "smokes"]'), "follows: name the column"),
        (edited(', ["m", "False", "D"]', ""), "each value of 'sex' with each of 'smokes' once, and no other: 1 differ"),
        (edited('["m", "False", "D"]', '["m", "False"]'), "mapping: give a value for each"),
        (edited('["sex", "smokes"]', '["age", "smokes"]'), "several must be categories"),
        (edited(TEXT[TEXT.rindex("mapping") :], ""), "each value of 'sex'"),
        (lambda: pair(after="a"), "after: it is no entry of a column of kind category"),
        (lambda: pair(missing_with="a", missing=False), "missing_with: it needs missing = true"),
        (lambda: Column(name="x", kind="boolean", only=(("a", "b", 1),)), "only: each has a column"),  # type: ignore[arg-type]  # what is refused
    ],
)  # fmt: skip
def test_refused(make: Any, words: str):
    with pytest.raises(CardError, match=re.escape(words)):
        make()


def test_the_certificate_tells_rules():
    said = {each["name"]: statements._column(each) for each in CARD.to_dict()["column"]}
    assert "after column came by an amount from 1 to 40 in at most 40 bins" in said["left"]
    assert said["carries"].endswith("; only no where column sex is m; only no or not known where column age is 0..11")
    assert said["years"].endswith("; missing where column came is; only 0 or missing where column smokes is False")
    assert said["total"] == "column total: not learnt; in samples it is paid + fee"
    assert said["admitted"] == "column admitted: not learnt; in samples it is a copy of column came"
    assert "follows from column sex and smokes, by 4 values" in said["group"]


def test_differences_need_a_grid():
    columns = [
        Column(name="a", kind="number", bounds=(0, 1)),
        Column(name="b", kind="number", bounds=(0, 1), after="a"),
    ]
    with pytest.raises(CardError, match="it needs numbers with decimals"):
        TableCard(columns=tuple(columns), declared_size=9)


def test_check_counts_rows_that_contradict_what_is_computed():
    made = samples(900)
    frame = pd.DataFrame(made.columns())[[*made.columns()]]
    frame["group"] = frame["group"].where(frame.index != 3, "Z")
    frame["total"] += (frame.index == 4) * 0.01
    frame["admitted"] += pd.to_timedelta((frame.index == 6).astype(int), "D")
    frame["ratio"] += (frame.index == 5) * 0.0004
    wrong = [at for at, name in ((3, "group"), (4, "total"), (6, "admitted")) if not pd.isna(frame[name][at])]
    found = {each.column: each for each in gossamer.check_card(frame, CARD).findings if each.what != "missing"}
    assert {each.what for each in found.values()} == {DIFFERS}
    assert [found[name].rows for name in ("group", "total", "admitted") if name in found] == [[at] for at in wrong]
    assert "ratio" not in found, "half a digit is rounding"
    columns = (
        Column(name="a", kind="integer", bounds=(0, 9)),
        Column(name="b", kind="integer", bounds=(0, 9), at_least="a"),
    )
    order = gossamer.check_card({"a": [1, 5], "b": [1, 4]}, TableCard(columns=columns, declared_size=9))
    assert [(each.column, each.what, each.rows) for each in order.findings] == [("b", BELOW, [1])]


def bank(n: int = 1_500) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    parts = {name: draw.integers(1, 9_000, n) / 100 for name in ("principal", "interest")}
    opened = np.datetime64("2020-01-01") + draw.integers(0, 900, n)
    city, plan = draw.integers(0, 9, n), draw.choice(["a", "b", ""], n)
    return pd.DataFrame({
        **parts, "late fee": draw.choice([0.0, 5.0], n),
        "opened": opened, "closed": opened + draw.poisson(9, n), "start": opened, "other": draw.permutation(opened),
        "city": city.astype(str), "region": (city // 3).astype(str), "plan": plan,
        "since": np.where(plan == "", "", draw.choice(["x", "y"], n)),
    })  # fmt: skip


BANK = (
    *(Column(name=name, kind="number", bounds=(0, 300), decimals=2) for name in ("principal", "interest", "late fee", "total")),
    *(Column(name=name, kind="date", bounds=("2019-01-01", "2029-01-01")) for name in ("opened", "closed", "start", "other")),
    Column(name="city", kind="category", values=tuple(map(str, range(9)))),
    Column(name="region", kind="category", values=("0", "1", "2")),
    Column(name="plan", kind="category", values=("a", "b"), missing=True),
    Column(name="since", kind="category", values=("x", "y"), missing=True),
)  # fmt: skip


def test_check_names_rules_for_the_owner_to_judge():
    frame = bank()
    frame["total"] = (frame["principal"] + frame["interest"] + frame["late fee"]).round(2)
    card = TableCard(columns=BANK, declared_size=9)
    rules = gossamer.check_card(frame, card).rules
    assert rules == (
        "Rules that all of 1,500 rows keep, taken evenly from the table:",
        '"total" is never below "principal": after = "principal", or at_least = "principal"',
        '"total" is never below "interest": after = "interest", or at_least = "interest"',
        '"closed" is never below "opened": after = "opened", or at_least = "opened"',
        '"start" equals "opened": kind = "derived", follows = "opened"',
        '"city" decides "region": kind = "derived", follows = "city"',
        '"since" is missing where "plan" is: missing_with = "plan"',
        """"total" is a sum: kind = "derived", formula = "'principal' + 'interest' + 'late fee'\"""",
        WARNING,
    )  # fmt: skip
    assert str(gossamer.check_card(frame, card)).endswith(f"{WARNING}\n")
    frame.loc[3, "total"] += 1
    frame.loc[4, "region"] = "0" if frame["region"][4] != "0" else "1"
    frame.loc[5, "since"] = "" if frame["since"][5] else "x"
    frame.loc[6, "closed"] = np.datetime64("2019-02-01")
    frame["start"] += pd.to_timedelta((frame.index == 7).astype(int) - (frame.index == 8), "D")
    fewer = gossamer.check_card(frame, card).rules
    assert [line.split(":")[0] for line in fewer[1:-1]] == [
        '"total" is never below "principal"',
        '"total" is never below "interest"',
    ]


def test_a_search_takes_rows_from_the_whole_table():
    search = RuleSearch([Column(name="a", kind="integer", bounds=(0, 9))])
    for begin in range(0, 70_000, 1_000):
        search.add(np.arange(begin, begin + 1_000), np.zeros((1_000, 1)))
    assert search.lines() == [] and len(search._rows) <= MOST_ROWS
    assert np.array_equal(search._rows, np.arange(0, 70_000, 16))
