"""A draft of the card of a table: what is proposed, with which reason, and what is measured as comments."""

import datetime
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from gossamer.data.source import Source
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.read import read_table
from gossamer.errors import DataError

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
RANDOM = np.random.default_rng(72)
N = 400


@pytest.fixture(autouse=True)
def _same_draws():
    """Each test draws the same, whatever ran before it."""
    RANDOM.bit_generator.state = np.random.default_rng(72).bit_generator.state


@pytest.fixture
def place(tmp_path):
    lines = ";".join(NAMES) + "\n" + "".join(";".join(map(str, row)) + "\n" for row in ROWS)
    (tmp_path / "t.csv").write_text(lines)
    return tmp_path / "t.csv"


def declared(text):
    """A card as a first-time user makes it of a draft."""
    return TableCard.loads(text.replace("# measured: ", ""))


def drafted(tmp_path, values, sep=",", name="x"):
    """The card and the text of the draft of a file with this column and another one, which the card reads without a fault."""
    place = tmp_path / "own.csv"
    pd.DataFrame({name: values, "f": ["a", "b"] * (len(values) // 2)}).to_csv(place, index=False, sep=sep)
    text, hints = draft_table_card(place)
    card = declared(text)
    read_table(place, card)
    return {column.name: column for column in card.written}, text, hints, dict(card.drop)


def test_measured_values_are_comments(place):
    text, hints = draft_table_card(Source(place, units="pid"))
    facts = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "p1" not in facts and "39" not in facts and '"f"' not in facts and "2031" not in facts
    for part in (
        'unit = "person"', "declared_size = 30", 'decimal = ","',
        '"note" = "free text: each row has another"',
        'name = "key"\nkind = "key"\n\n',
        'name = "age"\nkind = "integer"\n# measured: bounds = [0, 39]\n',
        'name = "dose"\nkind = "category"\n# measured: values = ["0,5", "1,5", "2,5"]\n',
        'name = "sex"\nkind = "category"\n# measured: values = ["f", "m"]\nmissing = true\n',
        'name = "day"\nkind = "date"\nformat = "%d.%m.%Y"\n# measured: bounds = [2031-12-01, 2031-12-28]\n',
        'name = "same"\nkind = "category"\n# measured: values = ["x"]\n',
        'a number would lose a leading zero, such as rows 0, 1, 2, 3, 4 (counted from 0).\n[[column]]\nname = "zip"\n',
    ):  # fmt: skip
        assert part in text, part
    assert '"pid"' not in text
    assert any("dictionary" in hint for hint in hints)
    assert any("the draft drops, with a reason: note." in hint for hint in hints)
    assert any("look like identifiers: key." in hint for hint in hints)


def test_a_draft_whose_comments_were_moved_reads_the_table(place):
    text, _ = draft_table_card(Source(place, units="pid"))
    card = declared(text)
    table = read_table(Source(place, units="pid"), card)
    assert (len(table), table.population, table.notes) == (60, 30, ())
    assert card.names == ("age", "dose", "sex", "day", "same", "zip")
    assert [column.name for column in card.written] == ["key", *card.names], "a key has its place in the file"


# ------------------------------------------------------------------ codes and numbers


@pytest.mark.parametrize(
    "codes",
    [
        ["4_1", "2_0", "3_9"],
        ["7E2", "1E1", "4E3"],
        ["+31", "+4", "+358"],
        ["0117", "9001", "2200"],
        ["1_000", "2_000", "5"],
        [f"00{n}" for n in range(60)],
    ],
)
def test_text_that_a_number_would_not_keep_is_a_category(tmp_path, codes):
    columns, *_ = drafted(tmp_path, [*codes, *RANDOM.choice(codes, N - len(codes))])
    assert columns["x"].kind == "category" and set(columns["x"].values) == set(codes)


def test_codes_behind_the_first_20000_rows_count(tmp_path):
    columns, text, *_ = drafted(tmp_path, ["90210", "10001"] * 10_250 + ["00501"] * 2)
    assert columns["x"].values == ("00501", "10001", "90210")
    assert "such as row 20500" in text or ", row 20500" in text


@pytest.mark.parametrize(
    ("written", "sep", "form", "kind"),
    [
        (lambda v: f"{v:,.2f}", ",", "1,234.00", "number"),
        (lambda v: f"€{v:,.2f}", ",", "€1,234.00", "number"),
        (lambda v: f"{v:.1f} %", ",", "1234.0 %", "number"),
        (lambda v: f"{v:,.2f}".replace(",", "'"), ",", "1'234.00", "number"),
        (lambda v: f"{v:,.0f}".replace(",", " ") + " kr", ",", "1 234 kr", "integer"),
        (lambda v: f"{v:,.2f}".translate({44: ".", 46: ","}), ";", "1.234,00", "number"),
        (lambda v: f"{v:,.0f}".replace(",", "."), ";", "1.234", "integer"),
    ],
)
def test_numbers_as_people_write_them(tmp_path, written, sep, form, kind):
    values = RANDOM.lognormal(8, 1, N)
    columns, *_ = drafted(tmp_path, [*map(written, values)], sep)
    assert (columns["x"].format, columns["x"].kind) == (form, kind)
    assert columns["x"].bounds == pytest.approx((values.min(), values.max()), abs=0.51)


def test_a_thousand_or_a_fraction_is_asked(tmp_path):
    whole = [f"{v:,}".replace(",", ".") for v in RANDOM.integers(100, 9999, N)]
    columns, text, hints, _ = drafted(tmp_path, whole, ";")
    assert columns["x"].kind == "integer"
    assert "Is 1.234 a thousand or a fraction?" in text and '# kind = "number"' in text
    assert any("read in two ways: x." in hint for hint in hints)
    columns, text, *_ = drafted(tmp_path, [*whole[:-1], "0.250"], ";")
    assert columns["x"].kind == "number" and "fraction?" not in text, "0.250 is no thousand"
    columns, *_ = drafted(tmp_path, [*whole[:-1], "0.250"])
    assert (columns["x"].kind, columns["x"].decimals) == ("number", 3)


def test_cells_that_do_not_fit_are_named_by_their_rows(tmp_path):
    values = [f"{v:.2f}" for v in RANDOM.normal(9, 1, N)]
    values[17], values[203], values[388] = "inf", "7,1x", "n/k"
    columns, text, hints, _ = drafted(tmp_path, values)
    assert (columns["x"].kind, columns["x"].outside, columns["x"].decimals) == ("number", "other", 2)
    assert "Cells that are no numbers: 3 of 400, rows 17, 203, 388 (counted from 0)." in text
    assert any("cells do not fit: x." in hint for hint in hints)
    columns, text, *_ = drafted(
        tmp_path, [".", *values[1:17], "-", *values[18:203], ".", *values[204:388], "-", *values[389:]]
    )
    assert columns["x"].missing_words == ("-", ".") and columns["x"].missing and columns["x"].outside == "refuse"
    assert "4 of 400, such as rows 0, 17 (counted from 0). They are taken for missing." in text
    assert '# measured: missing_words = ["-", "."]' in text, "words of records are measured values"
    columns, text, *_ = drafted(tmp_path, [*map(str, [*range(50)] * 5), *["low", "high", "mid"] * 50])
    assert columns["x"].kind == "category"
    assert "# Kept as text: 250 of 400 cells are numbers, the others are not, such as rows 250, 251, 252 (" in text
    *_, drop = drafted(tmp_path, [*map(str, range(250)), *["low", "high", "mid"] * 50])
    assert drop["x"].startswith("free text: 253 different texts in 400 rows; 250 of 400 cells are numbers")


def test_a_few_words_beside_many_numbers_are_words_for_missing(tmp_path):
    """30 % of cells are two signs, or 10 % one word. Before, nearly all cells had to be numbers: 280 values were listed."""
    numbers = [f"{v:.1f}" for v in RANDOM.normal(50, 9, N)]
    for words, share in (
        (("-", "."), 0.3),
        (("k.A.", "n. b."), 0.4),
        (("Not done", "refused"), 0.3),
        (("declined", "lost"), 0.1),
    ):
        cells = [RANDOM.choice(words) if RANDOM.random() < share else number for number in numbers]
        columns, text, *_ = drafted(tmp_path, cells)
        assert (columns["x"].kind, columns["x"].missing, columns["x"].decimals) == ("number", True, 1)
        assert {word.casefold() for word in columns["x"].missing_words} == {word.casefold() for word in words}
        assert columns["x"].outside == "refuse" and "They are taken for missing." in text
    below = ["<20" if number < "40" else number for number in numbers]
    columns, *_ = drafted(tmp_path, below)
    assert (columns["x"].kind, columns["x"].outside) == ("number", "other"), "<20 is no missing value"
    four = [RANDOM.choice([*"abcd"]) if RANDOM.random() < 0.2 else number.partition(".")[0] for number in numbers]
    assert drafted(tmp_path, four)[0]["x"].kind == "category"
    grades = [RANDOM.choice(["1", "2", "3", "4", "5", "-"]) for _ in numbers]
    assert drafted(tmp_path, grades)[0]["x"].kind == "category", "few numbers are no amounts"


def test_a_word_is_known_in_columns_of_many_blocks(tmp_path):
    """More than 1,000 different numbers, which are not counted each; the word has its accent in two forms."""
    cells = ["a\u0308" if n % 9 == 0 else "\u00e4" if n % 10 == 0 else str(n) for n in range(70_000)]
    columns, text, *_ = drafted(tmp_path, cells)
    assert columns["x"].missing_words == ("\u00e4",) and "14,000 of 70,000, such as row 0 (counted" in text


def test_a_row_of_totals_is_named(tmp_path):
    _, text, hints, _ = drafted(tmp_path, [*map(str, RANDOM.integers(18, 90, N - 1)), "Gesamt"])
    assert any(hint.startswith("Row 399, the last, looks like a row of totals.") for hint in hints)
    assert 'kind = "integer"' in text


def test_rows_before_the_first_thousands_sign_are_numbers(tmp_path):
    """Sorted amounts: the first block has no or few signs between thousands."""
    values = np.sort(np.random.default_rng(4).permutation(100_000)[:90_000] * 0.02)
    columns, *_ = drafted(tmp_path, [f"{value:,.2f}" for value in values])
    assert columns["x"].kind == "number", "decimals in all blocks, thousands in the last"
    whole = [f"{value:,}" for value in np.sort(np.random.default_rng(4).integers(0, 1_400, 90_000))]
    columns, *_ = drafted(tmp_path, whole)
    assert (columns["x"].format, columns["x"].outside) == ("1,234", "refuse")


# ------------------------------------------------------------------ dates


def days(step="D", n=N, low="2019-02-03"):
    return pd.Timestamp(low) + pd.to_timedelta(RANDOM.integers(0, 900, n), unit=step)


@pytest.mark.parametrize(
    ("form", "step", "kind"),
    [
        ("%Y/%m/%d", "D", "date"), ("%d.%m.%y", "D", "date"), ("%d-%b-%Y", "D", "date"), ("%Y%m%d", "D", "date"),
        ("%d/%m/%Y %H:%M", "min", "datetime"), ("%m/%d/%Y %I:%M %p", "min", "datetime"),
        ("%Y-%m-%d %H:%M:%S UTC", "s", "datetime"),
    ],
)  # fmt: skip
def test_dates_and_times_in_other_forms(tmp_path, form, step, kind):
    values = days(step, low="2019-02-23 10:00" if kind == "datetime" else "2019-02-03")
    columns, *_ = drafted(tmp_path, values.strftime(form))
    assert (columns["x"].kind, columns["x"].format) == (kind, form)
    low = columns["x"].bounds[0]
    assert low == (values.min().to_pydatetime() if kind == "datetime" else values.min().date())


def test_times_of_day_and_fractions_of_seconds(tmp_path):
    times = days("s")
    columns, *_ = drafted(tmp_path, times)
    assert (columns["x"].kind, columns["x"].bounds) == ("datetime", (times.min(), times.max()))
    columns, *_ = drafted(tmp_path, times.normalize().strftime("%Y-%m-%d 00:00:00"))
    assert columns["x"].kind == "date", "all at midnight"
    columns, *_ = drafted(tmp_path, (times + pd.Timedelta("0.25s")).strftime("%Y-%m-%dT%H:%M:%S.%f"))
    assert columns["x"].decimals == 2


def test_month_or_day_first_is_asked_where_no_cell_decides(tmp_path):
    months = [f"{n % 12 + 1:02}/01/{2010 + n % 7}" for n in range(N)]
    columns, text, hints, _ = drafted(tmp_path, months)
    assert columns["x"].format == "%m/%d/%Y" and columns["x"].bounds[1] == datetime.date(2016, 12, 1)
    assert "Month or day first? No cell decides. The draft reads the month first." in text
    assert '\n# format = "%d/%m/%Y"\n# bounds = [2010-01-01, 2016-01-12]\n' in text
    assert any("read in two ways: x." in hint for hint in hints)
    columns, text, *_ = drafted(tmp_path, [*months[1:], "13/02/2012"])
    assert "first?" not in text, "95 % fit month first, and one cell does not"
    columns, text, *_ = drafted(tmp_path, ["13/02/2012"] * 30 + months[30:])
    assert columns["x"].format == "%d/%m/%Y" and "first?" not in text


def test_whole_numbers_that_are_dates_are_asked(tmp_path):
    columns, text, *_ = drafted(tmp_path, days().strftime("%Y%m%d"))
    assert '# kind = "integer"\n# bounds = [2019' in text
    pd.DataFrame({"x": days().strftime("%Y%m%d").astype(int), "f": 1.5}).to_parquet(tmp_path / "t.parquet")
    text, _ = draft_table_card(tmp_path / "t.parquet")
    assert 'format = "%Y%m%d"' in text
    read_table(tmp_path / "t.parquet", declared(text))
    columns, *_ = drafted(tmp_path, RANDOM.integers(10**7, 10**8, N))
    assert columns["x"].kind == "integer", "most are no dates"


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M"])
def test_times_keep_their_t_and_z(tmp_path, form):
    columns, *_ = drafted(tmp_path, days("s").strftime(form))
    assert columns["x"].format == form
    columns, *_ = drafted(tmp_path, [*days("s").strftime(form)[2:], "2020-01-01 10:00", "2020-01-01T10:00+02:00"])
    assert columns["x"].format == "", "no other form has all of them"


def test_a_peak_at_zero_has_a_code_of_its_own(tmp_path):
    others = np.arange(1, N - 11) * 1.25 + 20
    columns, text, *_ = drafted(tmp_path, [0.0] * 12 + others.tolist())
    assert columns["x"].zero and "3 % of cells are 0" in text
    columns, *_ = drafted(tmp_path, [0.0] * 9 + np.append(others, [11, 12, 13]).tolist())
    assert not columns["x"].zero, "fewer than ten"


def test_zones_are_asked(tmp_path):
    times = days("h").tz_localize("America/Lima")
    columns, text, *_ = drafted(tmp_path, times.map(lambda time: time.isoformat()))
    assert columns["x"].kind == "datetime" and "read in UTC" in text and "# zone = " in text
    assert columns["x"].bounds[0] == times.min().tz_convert("UTC").tz_localize(None)
    pd.DataFrame({"x": times, "f": 1.5}).to_parquet(tmp_path / "t.parquet")
    text, _ = draft_table_card(tmp_path / "t.parquet")
    column = declared(text).columns[0]
    assert (column.zone, column.bounds[0]) == ("America/Lima", times.min().tz_localize(None))
    pd.DataFrame({"x": times.tz_convert("UTC"), "f": 1.5}).to_parquet(tmp_path / "t.parquet")
    text, _ = draft_table_card(tmp_path / "t.parquet")
    assert declared(text).columns[0].zone == "UTC", "samples have it, too"


def test_dates_for_no_answer_have_codes_of_their_own(tmp_path):
    values = [*days(n=N - 2).strftime("%d.%m.%Y"), "31.12.9999", "31.12.9999"]
    columns, *_ = drafted(tmp_path, values)
    assert columns["x"].special == (datetime.date(9999, 12, 31),) and columns["x"].bounds[1].year < 2030
    columns, *_ = drafted(tmp_path, [*values[:-2], "24.05.1897", "24.05.1897"])
    assert columns["x"].special == (), "a day that may be a person's is no code"


# ------------------------------------------------------------------ values that stand for themselves


def test_codes_of_few_whole_numbers_are_a_category(tmp_path):
    columns, text, *_ = drafted(tmp_path, RANDOM.choice([1, 2, 3, 8, 66, 97], N))
    assert columns["x"].values == ("1", "2", "3", "8", "66", "97") and 'write kind = "integer" and bounds' in text
    columns, *_ = drafted(tmp_path, RANDOM.integers(1, 6, N))
    assert columns["x"].kind == "integer", "no gaps"
    columns, *_ = drafted(tmp_path, RANDOM.choice([0.25, 1.0, 7.5], N))
    assert columns["x"].values == ("0.25", "1.0", "7.5")


def test_zeros_and_sentinels(tmp_path):
    values = RANDOM.integers(200, 90_000, N)
    values[:120] = 0
    columns, *_ = drafted(tmp_path, values)
    assert columns["x"].zero and columns["x"].bounds[0] >= 200
    ages = RANDOM.integers(18, 90, N)
    ages[:9] = -99
    columns, text, *_ = drafted(tmp_path, ages)
    assert columns["x"].special == (-99,) and columns["x"].bounds[0] >= 18 and "-99 (9 cells)" in text
    assert "\n# measured: special = [-99]\n" in text, "a value of records is a comment"
    ages[:9] = [-4, *range(8)]
    columns, *_ = drafted(tmp_path, ages)
    assert columns["x"].special == (), "one number below zero is no code"


def test_times_of_day_without_a_colon_are_asked(tmp_path):
    minutes = RANDOM.integers(0, 1440, N)
    columns, text, *_ = drafted(tmp_path, minutes // 60 * 100 + minutes % 60)
    assert columns["x"].clock and "\n# measured: clock = true\n" in text, "seen in records, so a comment"
    for others in (RANDOM.integers(0, 2400, N), 50 * RANDOM.integers(0, 48, N), RANDOM.integers(0, 60, N)):
        assert not drafted(tmp_path, others)[0]["x"].clock


def test_skewed_numbers_get_bins_that_grow(tmp_path):
    incomes = np.round(np.random.default_rng(5).lognormal(9, 1.2, N), 2)
    incomes[7] = 5_000_000
    columns, *_ = drafted(tmp_path, incomes)
    assert columns["x"].log and columns["x"].decimals == 2 and not columns["x"].zero
    incomes[7] = 0
    columns, text, *_ = drafted(tmp_path, incomes)
    assert columns["x"].log and columns["x"].zero and "Less than 1 % of cells are 0" in text
    columns, *_ = drafted(tmp_path, RANDOM.integers(1980, 2020, N))
    assert not columns["x"].log, "years lie evenly"
    columns, *_ = drafted(tmp_path, RANDOM.normal(0, 1, N) ** 7)
    assert not columns["x"].log, "there are numbers below zero"


# ------------------------------------------------------------------ text


def test_words_for_missing_may_be_values(tmp_path):
    columns, text, *_ = drafted(tmp_path, RANDOM.choice(["NA", "FR", "none"], N))
    assert columns["x"].values == ("FR", "NA", "none") and '"NA", "none": taken for values.' in text
    place = tmp_path / "r.csv"
    pd.DataFrame({"x": RANDOM.choice(["f", "m", "NA"], N), "n": RANDOM.choice(["1", "2", "NA"], N)}).to_csv(
        place, index=False
    )
    text, _ = draft_table_card(place)
    assert declared(text).columns[0].values == ("f", "m"), "NA is missing among the numbers of this table"
    assert '"NA": taken for missing.' in text
    columns, *_ = drafted(tmp_path, RANDOM.choice(["1", "2", "none"], N))
    assert columns["x"].kind == "integer" and columns["x"].missing


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("n", RANDOM.permutation(N) + 1, "key"), ("n", np.arange(N) + 90_000, "key"),
        ("case_nr", RANDOM.permutation(10**6)[:N], "key"), ("x", [f"A-{n}" for n in range(N)], "key"),
        ("salary", 20_000 + RANDOM.permutation(N) * 11, "integer"), ("x", np.arange(N) / 7, "number"),
    ],
)  # fmt: skip
def test_what_looks_like_an_identifier(tmp_path, name, values, kind):
    columns, *_ = drafted(tmp_path, values, name=name)
    assert columns[name].kind == kind


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("x", [f"some words, {n % 300}" for n in range(N)], "free text: 300 different texts in 400 rows"),
        ("x", [f"C{n % 300}" for n in range(N)], "codes: 300 different codes in 400 rows"),
        ("x", [f"0{n % 1500:04}" for n in range(6_000)], "codes: 1,500 different codes in 6,000 rows; a draft lists at most"),
        ("x", [""] * N, "empty"),
        ("x", RANDOM.random(N) * 1e18, "numbers beyond 2^53 are not exact"),
        ("patient_id", [n % 130 for n in range(N)], "an identifier in several rows, 130 different ones"),
        ("lastName", [f"Sm{chr(97 + n % 26)}th" for n in range(N)], "it tells who a person is, by its name: 26 "),
        ("e-mail", [f"u{n}@x.org" for n in range(N)], "it tells who a person is, by its name: 400 different texts"),
    ],
)  # fmt: skip
def test_what_is_dropped_is_named_with_its_reason(tmp_path, name, values, reason):
    *_, hints, drop = drafted(tmp_path, values, name=name)
    assert drop[name].startswith(reason)
    assert any(f"drops, with a reason: {name}." in hint for hint in hints)


def test_values_that_no_card_takes_become_other(tmp_path):
    columns, text, *_ = drafted(tmp_path, RANDOM.choice(["a\nb", "c", "d"], N))
    assert columns["x"].values == ("c", "d") and columns["x"].outside == "other"
    assert "Values with line breaks or signs that cannot be printed: 1." in text
    columns, *_ = drafted(tmp_path, RANDOM.choice(["Zo\u00eb", "Zoe\u0308", " Zo\u00eb"], N))
    assert columns["x"].values == ("Zo\u00eb",), "accents are composed, and space around a text is none"


# ------------------------------------------------------------------ types


def test_columns_with_a_type_of_their_own(tmp_path):
    frame = pd.DataFrame({
        "b": RANDOM.random(N) < 0.4, "stay": pd.to_timedelta(RANDOM.integers(60, 10**6, N), unit="s"),
        "account": RANDOM.integers(2**62, 2**62 + 3, N), "one": 3.5, "day": datetime.date(2020, 2, 29),
        "lists": [[1, 2]] * N, "none": None, "x": np.where(RANDOM.random(N) < 0.01, np.inf, RANDOM.normal(size=N)),
        "clock": [datetime.time(n % 24) for n in range(N)],
    })  # fmt: skip
    frame.to_parquet(tmp_path / "t.parquet")
    text, _ = draft_table_card(tmp_path / "t.parquet")
    card = declared(text)
    read_table(tmp_path / "t.parquet", card)
    kinds = {column.name: column.kind for column in card.columns}
    assert kinds == {
        "b": "boolean", "stay": "duration", "account": "category", "one": "category", "day": "date", "x": "number",
        "clock": "duration",
    }  # fmt: skip
    assert dict(card.drop).keys() == {"lists", "none"} and dict(card.drop)["none"] == "empty"
    assert card.columns[2].values == tuple(str(2**62 + n) for n in range(3)), "whole numbers beyond 2^53 stay apart"
    again = frame.drop(columns=["lists", "clock"])
    text, _ = draft_table_card(again)
    read_table(again, declared(text))
    assert "as text (dtype=str) it can stay" in draft_table_card(frame)[0], "the type of clock may have been guessed"


def test_cells_with_types_of_their_own():
    frame = pd.DataFrame({"x": [1, 2.5, "low", None] * 20})
    text, _ = draft_table_card(frame)
    assert declared(text).columns[0].values == ("1", "2.5", "low")
    read_table(frame, declared(text))


def test_values_of_a_category_are_in_order(tmp_path):
    columns, *_ = drafted(tmp_path, RANDOM.choice(["v10", "v9", "v100", "v1.25", "v1.5"], N))
    assert columns["x"].values == ("v1.25", "v1.5", "v9", "v10", "v100")
    assert not columns["x"].numbers
    columns, *_ = drafted(tmp_path, RANDOM.choice([-3, -1, 2, 10], N))
    assert columns["x"].values == ("-3", "-1", "2", "10"), "so that ordered = true is true"
    assert columns["x"].numbers, "samples have numbers, too"
    columns, *_ = drafted(tmp_path, ["0.0"] * N)
    assert columns["x"].values == ("0.0",) and columns["x"].numbers


def test_a_draft_is_the_same_in_every_run(tmp_path):
    """Python gives texts other hashes in each run. Of 90,000 texts, the number of different ones is estimated."""
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"C{n % 90_000},{n % 3}\n" for n in range(100_000)))
    code = (
        "import sys; from gossamer.data.tables.draft import draft_table_card; print(draft_table_card(sys.argv[1])[0])"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "t.csv")]
    made = {
        subprocess.run(run, capture_output=True, check=True, env=os.environ | {"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1 and b"different codes in 100,000 rows" in made.pop()


def test_truth_values_are_no_numbers(tmp_path):
    columns, *_ = drafted(tmp_path, RANDOM.choice(["TRUE", "FALSE", ""], N))
    assert (columns["x"].kind, columns["x"].format, columns["x"].missing) == ("boolean", "TRUE", True)
    columns, *_ = drafted(tmp_path, RANDOM.choice(["true", "false", "1"], N))
    assert (columns["x"].kind, columns["x"].format) == ("boolean", "true")
    columns, *_ = drafted(tmp_path, RANDOM.choice(["true", "False", "1"], N))
    assert (columns["x"].kind, columns["x"].format) == ("boolean", ""), "there is no one form"
    columns, *_ = drafted(tmp_path, RANDOM.choice(["0", "1"], N))
    assert columns["x"].kind == "integer"


# ------------------------------------------------------------------ the file


def test_columns_without_a_name_of_their_own_are_counted():
    frame = pd.DataFrame([[1, 2, 3, 4], [5, 6, 7, 9]], columns=["a", "b", "b", ""])
    text, hints = draft_table_card(pd.DataFrame({"a": [1, 2]}))
    assert 'name = "a"' in text
    text, hints = draft_table_card(frame.loc[:, ["a", ""]])
    assert text.count("[[column]]") == 1
    assert any("by position from 1: 2." in hint for hint in hints)
    with pytest.raises(DataError, match="no rows"):
        draft_table_card(frame[:0][["a"]])


def test_rows_of_another_width_are_refused_as_fit_does(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y,more\n" + "3,z\n" * 40)
    with pytest.raises(DataError, match=re.escape("row 1 (counted from 0): the row has another number of values")):
        draft_table_card(tmp_path / "t.csv")


def test_too_many_columns_are_said(tmp_path):
    frame = pd.DataFrame(RANDOM.integers(0, 5, (40, 205)), columns=[f"c{n}x" for n in range(205)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    _, hints = draft_table_card(tmp_path / "t.csv")
    assert any("205 columns, and methods for tables take at most 200" in hint for hint in hints)


def test_a_column_whose_values_are_all_missing_is_dropped(tmp_path):
    """Two words for a missing value are no two values."""
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{n % 7},{['', 'NA'][n % 2]}\n" for n in range(60)))
    text, _ = draft_table_card(tmp_path / "t.csv")
    assert '"b" = "empty"' in text and 'name = "b"' not in text


def test_cells_of_another_type_in_later_blocks(tmp_path):
    lines = [f'{{"x": {n % 7}, "y": {n}, "z": {n % 3}}}' for n in range(70_000)]
    lines += ['{"x": "low", "y": "high", "z": 0.5}'] * 9
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    text, _ = draft_table_card(tmp_path / "t.jsonl")
    card = declared(text)
    read_table(tmp_path / "t.jsonl", card)
    x, y, z = card.columns
    assert (x.kind, x.bounds, x.outside) == ("integer", (0, 6), "other")
    assert (y.kind, y.bounds, y.zero, y.outside) == ("integer", (1, 69_999), True, "other")
    assert text.count("Cells that are no numbers: 9 of 70,009, such as row 70000 (counted from 0).") == 2
    assert z.values == ("0", "0.5", "1", "2")


def test_large_amounts_with_many_digits(tmp_path):
    """Of gross domestic products: more digits than a float has. So the draft has no decimals."""
    amounts = [8.47054e13, 537777811.0, 2028553750.123456, 1.5] + [1e9 * n + 0.25 for n in range(40)]
    card, *_ = drafted(tmp_path, amounts)
    assert card["x"].kind == "number" and card["x"].decimals is None and card["x"].bounds[1] == 8.47054e13
