"""Numbers, codes and missing values as people write them: kinds K2, K3, K4, K5, K8, K10 and K14 of public bug reports.

One table has a column for each way of writing. Samples must look like the column, and have no value that it cannot have.
"""

import re

import numpy as np
import pandas as pd
import pytest
from stories import story

import gossamer
from gossamer.data.tables.read import read_table
from gossamer.data.tables.samples import TableSamples

N = 400
DRAW = np.random.default_rng(72)
AMOUNTS = np.round(DRAW.lognormal(7.5, 1, N), 2)
COLUMNS = {
    "plate": [f"{a}_{b}" for a, b in zip(DRAW.integers(10, 14, N), DRAW.integers(0, 3, N), strict=True)],
    "batch": [f"{a}E{b}" for a, b in zip(DRAW.integers(2, 5, N), DRAW.integers(2, 4, N), strict=True)],
    "dial": DRAW.choice(["+33", "+351", "+44"], N).tolist(),
    "dosage": DRAW.choice(["007", "7", "010"], N).tolist(),
    "pounds": [f"£{value:,.2f}" for value in AMOUNTS],
    "swiss": [f"{int(value):,}".replace(",", "'") for value in AMOUNTS],
    "share": [f"{value:.1f} %" for value in DRAW.uniform(0, 100, N)],
    "salary": DRAW.permutation(np.arange(21_000, 21_000 + 13 * N, 13)).tolist(),
    "agreed": DRAW.choice(["true", "false"], N).tolist(),
    "cents": [f"{value:.2f}" for value in DRAW.uniform(0, 80, N)],
    "town": ["Lyon"] * N,
    "member": np.where(DRAW.random(N) < 0.2, "", DRAW.integers(0, 2, N).astype(str)).tolist(),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("values")
    pd.DataFrame(COLUMNS).to_csv(folder / "t.csv", index=False)
    return story(folder, folder / "t.csv", learn=True)


@pytest.mark.parametrize("name", ["plate", "batch", "dial", "dosage", "town", "agreed", "member"])
def test_samples_have_no_value_that_the_column_lacks(told, name):
    """K3: `3_1`, `2E3` and `+33` are no numbers. K14: `007` is not `7`. K10: a constant stays. A flag stays a flag."""
    assert told.status == 0, told.said
    assert {text.lower() for text in told.samples[name]} == {text.lower() for text in COLUMNS[name]}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("plate", "category"), ("dosage", "category"), ("pounds", "number"), ("swiss", "integer"), ("share", "number"),
     ("salary", "integer"), ("agreed", "boolean"), ("cents", "number"), ("town", "category")],
)  # fmt: skip
def test_the_draft_proposes_the_kind_that_a_reader_sees(told, name, kind):
    assert told.columns[name]["kind"] == kind, told.about(name)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("pounds", r"£\d{1,3}(,\d{3})*\.\d\d"),
        ("swiss", r"\d{1,3}('\d{3})*"),
        ("share", r"\d{1,3}\.\d %"),
        ("salary", r"\d{5}"),
        ("cents", r"\d{1,2}\.\d\d"),
    ],
)
def test_numbers_are_written_as_they_were(told, name, form):
    """K5 and K10: money, thousands signs and per cent are numbers, and samples have their form and their decimals."""
    wrong = [text for text in told.samples[name] if not re.fullmatch(form, text)]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("name", ["pounds", "salary", "cents"])
def test_numbers_keep_their_size(told, name):
    def numbers(texts):
        return np.array([float(re.sub(r"[£,]", "", str(text))) for text in texts])

    real, made = numbers(COLUMNS[name]), numbers(told.samples[name])
    assert real.min() <= made.min() and made.max() <= real.max()
    assert abs(np.median(made) - np.median(real)) < 0.25 * (real.max() - real.min())


def test_values_that_stand_for_themselves_are_pointed_out(tell):
    """K2: zeros, one outlier, a code for "unknown", and a question with six answers. No value is proposed unasked."""
    draw = np.random.default_rng(3)
    bills = np.where(draw.random(N) < 0.7, 0, draw.integers(200, 9_000, N))
    wealth = np.append(np.round(draw.lognormal(9, 1.2, N - 1)), 7_500_000)
    height = np.where(draw.random(N) < 0.1, -99, draw.integers(140, 200, N))
    answers = draw.choice([1, 2, 3, 96, 97, 98], N, p=[0.4, 0.3, 0.2, 0.05, 0.03, 0.02])
    told = tell(pd.DataFrame({"bills": bills, "wealth": wealth.astype(int), "height": height, "answer": answers}))
    assert told.status == 0, told.said
    for name, words in {"bills": "zero", "wealth": "log", "height": "special", "answer": "category"}.items():
        assert words in told.about(name), told.about(name)
    assert "-99" in told.about("height")


def test_one_odd_cell_does_not_decide_the_kind(tell):
    """K4: a typo, an `inf` and a total below the table. The draft names the rows, and the kind is that of all others."""
    draw = np.random.default_rng(8)
    frame = pd.DataFrame(
        {"dose": [f"{value:.2f}" for value in draw.normal(40, 9, N)], "age": draw.integers(18, 90, N).astype(str)}
    )
    frame.loc[41, "dose"], frame.loc[233, "dose"], frame.loc[N - 1, "age"] = "3o.5", "inf", "Sum"
    told = tell(frame)
    assert (told.columns["dose"]["kind"], told.columns["age"]["kind"]) == ("number", "integer")
    spoken = told.said + told.text
    assert "41" in spoken and "233" in spoken and str(N - 1) in spoken
    assert told.status == 0 and "Sum" not in told.said and "3o.5" not in told.said
    assert told.columns["dose"]["outside"] == "other" and "other" in told.about("dose"), "what becomes of these cells"
    assert all(re.fullmatch(r"-?[\d.]+|other", text) for text in told.samples["dose"])


CARD = """
declared_size = 300
[[column]]
name = "land"
kind = "category"
values = ["NA", "DE", "none"]
[[column]]
name = "grade"
kind = "category"
values = ["1", "2"]
missing = true
[[column]]
name = "weight"
kind = "number"
bounds = [0, 200]
missing = true
missing_words = [".", "not done"]
"""


def test_declared_words_win_over_those_for_missing_and_new_ones_can_be_declared(tmp_path):
    """K8 and K14: Namibia is a country, `none` an answer, `.` a missing weight, and `1.0` of pandas the declared `1`."""
    rows = [("NA", "1.0", "."), ("DE", "2.0", "61.5"), ("none", "", "not done")] * 100
    pd.DataFrame(rows, columns=["land", "grade", "weight"]).to_csv(tmp_path / "t.csv", index=False)
    card = gossamer.TableCard.loads(CARD)
    codes = read_table(tmp_path / "t.csv", card).codes
    np.testing.assert_array_equal(codes[:3, :2], [[0, 0], [1, 1], [2, 2]])
    missing = card.columns[2].missing_code
    assert [code == missing for code in codes[:3, 2]] == [True, False, True]
    made = TableSamples(codes, card).to_pandas()
    assert set(made["land"]) == {"NA", "DE", "none"} and made["land"].notna().all()
    assert set(made["grade"].dropna()) == {"1", "2"} and made["grade"].isna().sum() == 100
    assert made["weight"].isna().sum() == 200


def test_german_money_keeps_its_points_and_commas(tell):
    """K5: `;`, thousands points and decimal commas, with whole amounts beside them, where `1.204` is 1204."""
    draw = np.random.default_rng(21)
    rows = [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in draw.lognormal(7, 1, N)]
    whole = [f"{int(v):,}".replace(",", ".") for v in draw.lognormal(8, 1, N)]
    told = tell("betrag;stueck\n" + "".join(f"{a};{b}\n" for a, b in zip(rows, whole, strict=True)))
    assert told.columns["betrag"]["kind"] == "number"
    if told.status == 0 and "stueck" in told.samples and told.columns["stueck"]["kind"] == "integer":
        assert all(re.fullmatch(r"\d{1,3}(\.\d{3})*", text) for text in told.samples["stueck"])
    assert "1.234" in told.about("stueck") or "1234" in told.about("stueck"), "both readings are asked"
    assert all(re.fullmatch(r"\d{1,3}(\.\d{3})*,\d\d", text) for text in told.samples["betrag"])


def test_amounts_in_hundreds_stay_amounts_in_hundreds(tell):
    """Loans and salaries are. Of years and ages, which have no step, nothing is said."""
    draw = np.random.default_rng(100)
    salaries = (draw.lognormal(10.5, 0.4, 2_000) // 100 * 100).astype(int)
    told = tell(pd.DataFrame({"salary": salaries, "age": draw.integers(18, 90, 2_000)}))
    assert told.columns["salary"]["step"] == 100 and "step" not in told.columns["age"]
    assert "All are multiples of 100, and so are samples." in told.about("salary")
    made = told.samples["salary"].astype(int)
    assert (made % 100 == 0).all() and abs(np.median(made) / np.median(salaries) - 1) < 0.1
