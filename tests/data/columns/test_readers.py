"""Each kind of column from texts, types and mixed cells to codes and back."""

import datetime
import decimal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from gossamer.data.columns import reading
from gossamer.data.columns.boolean import read_booleans
from gossamer.data.columns.column import Column
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.columns.reading import Reader
from gossamer.data.sources.cells import cells
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import decode, texts, to_numbers
from gossamer.data.tables.encode import Faults, TableEncoder
from gossamer.data.tables.read import read_table
from gossamer.data.tables.samples import TableSamples
from gossamer.errors import CardError, DataError

BERLIN = "Europe/Berlin"
NOON = datetime.datetime(2031, 7, 1, 12)
UTC_NOON = NOON.replace(tzinfo=datetime.UTC)


def codes(column: Column, array: Any, decimal: str = ".", **options: bool) -> list[int]:
    return Reader(column, decimal, **options).codes(array).tolist()  # type: ignore[no-any-return]  # NumPy's tolist


def of(kind: Any, **facts: Any) -> Column:
    return Column(name="x", kind=kind, missing=True, **facts)


BOOLEAN = of("boolean")
WHOLE = of("integer", bounds=(0, 9), bins=10)
TIME = of("datetime", bounds=("2031-07-01", "2031-07-01T23:00"), bins=24)
STAY = of("duration", bounds=("0:00:00", "9 days"), bins=10)
DATE = of("date", bounds=("2031-07-01", "2031-07-10"), bins=10)
DAYS = [datetime.date(2031, 7, 1), datetime.date(2031, 7, 2), None, datetime.date(2031, 7, 10)]
TIMES = [NOON, NOON, None, NOON.replace(hour=0), NOON.replace(hour=22, minute=59)]
STAYS = [None if hours is None else datetime.timedelta(hours=hours) for hours in (5, 24, 51, None, 216)]
MONEY = [None if text is None else decimal.Decimal(text) for text in ("2.5", "7", "0.1", None, "9.99")]
ALIKE: dict[str, tuple[Column, list[str], list[Any]]] = {
    "boolean": (
        BOOLEAN,
        ["True", "FALSE", "true", "1", "0", "1.0", ""],
        [pa.array([1, 0, 1, 1, 0, 1, None]).cast(kind) for kind in (pa.bool_(), pa.int8(), pa.uint64(), pa.float64())],
    ),
    "integer": (
        WHOLE,
        ["3", " 7 ", "9.0", "0", "NA", "1"],
        [pa.array([3, 7, 9, 0, None, 1]).cast(kind) for kind in (pa.uint8(), pa.float32(), pa.decimal128(19, 0))],
    ),
    "number": (
        of("number", bounds=(0, 10), bins=100, format="€ 1.234,50"),
        ["€ 2,50", "7", "0,1", "", "€ 9,99"],
        [pa.array(MONEY), pa.array([None if each is None else float(each) for each in MONEY])],
    ),
    "date": (
        DATE,
        ["2031-07-01", "2031-07-02 23:59", "", "2031-07-10T00:00:00Z"],
        [
            pa.array(DAYS).cast(kind)
            for kind in (pa.date32(), pa.date64(), pa.timestamp("ns"), pa.timestamp("s", "UTC"))
        ],
    ),
    "datetime": (
        TIME,
        ["2031-07-01 12:00", "2031-07-01T14:00:00+02:00", "", "2031-07-01", "2031-07-01 22:59:59.9"],
        [pa.array(TIMES, kind) for kind in (pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("s", "Asia/Tokyo"))],
    ),
    "duration": (
        STAY,
        ["0 days 05:00:00", "P1D", "2 days, 3:00:00", "", "216:00:00"],
        [pa.array(STAYS, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")],
    ),
}


@pytest.mark.parametrize("kind", ALIKE)
def test_a_text_and_a_type_have_one_code(kind: str) -> None:
    column, written, arrays = ALIKE[kind]
    expected = codes(column, pa.array(written))
    assert min(expected) >= 0 and len({*expected}) > 2
    for array in arrays:
        assert codes(column, array) == expected, array.type
    typed: list[Any] = [value for array in arrays for value in array.to_pylist()]
    mixed = cells([*written, *typed, None])
    assert pa.types.is_union(mixed.type)
    assert codes(column, mixed) == [*expected, *expected * len(arrays), column.missing_code]
    assert codes(column, mixed.slice(len(written))) == codes(column, mixed)[len(written) :]
    assert codes(column, mixed.slice(0, 0)) == []


@pytest.mark.parametrize("kind", ALIKE)
def test_an_odd_cell_changes_no_other_one(kind: str) -> None:
    column, written, arrays = ALIKE[kind]
    expected = codes(column, pa.array(written))
    for odd in ("x", "2031-02-30", "1e999", "P", "\u0663", "12:30", "zzz" * 99):
        found = codes(column, pa.array([odd, *written]))
        assert found[1:] == expected and (found[0] < -1)
        other = Reader(replace(column, outside="other")).codes(pa.array([odd]))
        assert other.tolist() == [replace(column, outside="other").other_code]
    for array in arrays:
        assert codes(column, cells(["x", *array.to_pylist()]))[1:] == expected


def test_clips() -> None:
    assert codes(replace(TIME, outside="clip"), pa.array(["2030-01-01", "2031-07-02", "0001-01-01"])) == [0, 23, 0]
    assert codes(replace(STAY, outside="clip"), pa.array(["-5 days", "99 days"])) == [0, 9]
    values = Reader(replace(STAY, outside="clip")).values(pa.array(["-5 days", "99 days", ""]))
    assert values[:2].tolist() == [-5 * 86_400, 99 * 86_400], "bounds are for codes"


def test_an_infinity_is_no_number() -> None:
    column = replace(WHOLE, outside="clip")
    assert {*codes(column, pa.array([np.inf, -np.inf])), *codes(column, pa.array(["inf", "-Infinity"]))} == {
        codes(WHOLE, pa.array(["x"]))[0]
    }


def test_times_in_a_zone_are_alike_in_all_forms(tmp_path: Path) -> None:
    """Both 02:30 of the night in which clocks are put back are one time, in a CSV, a Parquet file and a frame."""
    column = of("datetime", bounds=("2031-10-26", "2031-10-26T05:00"), bins=301, zone=BERLIN)
    card = TableCard(columns=(column,), declared_size=9)
    utc = pd.Series(pd.to_datetime(["2031-10-26T00:30Z", "2031-10-26T01:30Z", None, "2031-10-26T02:30Z"]))
    local = utc.dt.tz_convert(BERLIN)
    local.to_frame("x").assign(y=1).to_csv(tmp_path / "t.csv", index=False)
    parquet.write_table(pa.table({"x": pa.array(utc)}), tmp_path / "t.parquet")
    forms = [tmp_path / "t.csv", tmp_path / "t.parquet", pd.DataFrame({"x": utc}), pd.DataFrame({"x": local})]
    forms += [{"x": [*local]}, pa.table({"x": pa.array(utc, pa.timestamp("ms", BERLIN))})]
    for form in forms:
        assert read_table(form, card).codes[:, 0].tolist() == [150, 150, 301, 210]


def test_words_for_missing() -> None:
    number = of("integer", bounds=(-1000, 1000), missing_words=("-999", "Not Asked", "-"))
    missing = number.missing_code
    assert codes(number, pa.array(["-999", "-999.0", " not asked ", "-", "?", "", "NA"])) == [missing] * 7
    assert codes(number, pa.array([-999, None])) == [missing] * 2
    assert codes(number, pa.array(["-998", "999"]))[0] != missing
    ages = of("integer", bounds=(0, 120), bins=200, missing_words=("99", "-1", "7.5"))
    of_ages = TableCard(columns=(ages,), declared_size=9)
    made = decode(np.arange(ages.plain)[:, None], of_ages, seed=1)["x"]
    assert made.tolist() == [100 if age == 99 else age for age in range(121)], "no age that would be read as missing"
    few = of("number", bounds=(0, 1), bins=2, decimals=1, missing_words=("0,7", "0.2"))
    made = decode(np.repeat([[0], [1]], 1000, 0), TableCard(columns=(few,), declared_size=9), seed=1)["x"]
    assert {*made.round(6)} == {0.0, 0.1, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0}
    place = of("category", values=("NA", "none", "1", "2"), missing_words=("9", "k.A."))
    assert codes(place, pa.array(["NA", "none", "K.A.", "9", "", "1"])) == [0, 1, 4, 4, 4, 2]
    grade = of("category", values=("1", "2"), missing_words=("9",))
    for array in (pa.array(["1", "9", "9.0", "2"]), pa.array([1, 9, 9, 2]), pa.array([1.0, 9, 9, 2])):
        assert codes(grade, array, guessed=True) == [0, 2, 2, 1]
    code = of("category", values=("01", "02"), missing_words=("9",))
    assert {*codes(code, pa.array([1, 9]))} == {*codes(of("category", values=("01",)), pa.array([1]))}, "refused"
    day = replace(DATE, missing_words=("1900-01-01",))
    assert (
        codes(day, pa.array(["1900-01-01", "1900-01-01 10:00"]))
        == codes(day, pa.array([datetime.date(1900, 1, 1)] * 2))
        == [10, 10]
    )


def test_what_a_program_may_have_guessed() -> None:
    guessed = codes(WHOLE, pa.array([1.5]), ",", guessed=True)
    assert guessed == codes(of("number", bounds=(0, 9), format="1.234,5"), pa.array([1.5]), guessed=True)
    assert guessed[0] < 0 and guessed != codes(WHOLE, pa.array([1.5]), ",")
    for column in (replace(TIME, format="%d.%m.%Y %H:%M"), replace(DATE, format="%d.%m.%Y")):
        assert codes(column, pa.array([NOON, None]), guessed=True) == [*guessed, column.missing_code]
        assert min(codes(column, pa.array([NOON]))) >= 0
        assert codes(column, pa.array([20310701]), guessed=True) == guessed
    assert codes(TIME, pa.array([20310701]), guessed=True) == guessed
    for column in (STAY, WHOLE):  # pandas makes times of 12:30:00 and of "1 500"
        for value in (datetime.time(12, 30), NOON, NOON.date()):
            assert codes(column, pa.array([value]), guessed=True) == guessed
    assert min(codes(TIME, pa.array([NOON]), ",", guessed=True)) >= 0
    assert min(codes(STAY, pa.array([datetime.timedelta(1)]), guessed=True)) >= 0
    assert min(codes(BOOLEAN, pa.array([1.0, 0.0, np.nan]), guessed=True)) >= 0


def test_booleans_as_texts() -> None:
    numbers, fits = read_booleans(pa.array(["true", "FALSE", "1", "0.0", "", "yes", "2", "nan"]))
    assert numbers[:4].tolist() == [1, 0, 1, 0] and fits.tolist() == [True] * 4 + [False] * 4


def test_faults_quote_no_value() -> None:
    card = TableCard(columns=(BOOLEAN, replace(TIME, name="t"), replace(STAY, name="d")), declared_size=9)
    faults = Faults("data")
    encoder = TableEncoder(card, faults)
    encoder.check(encoder.encode([pa.array(["secret"])] * 3), np.arange(1))
    with pytest.raises(DataError) as refused:
        faults.refuse()
    assert "secret" not in str(refused.value)
    for words in (
        "'x': the value is neither true nor false",
        "'t': the text is no time",
        "'d': the text is no duration",
    ):
        assert words in str(refused.value)


def test_thousands_need_a_format() -> None:
    card = TableCard(columns=(of("number", bounds=(0, 9)),), declared_size=9)
    with pytest.raises(DataError, match=r'has a comma.* format = "1,234.50"'):
        read_table({"x": ["1,234"]}, card)


# Codes to values and back


@st.composite
def columns(draw: Any) -> Column:
    """Columns of every kind, most of them with odd bounds, formats and codes apart."""
    kind = draw(st.sampled_from(["boolean", "integer", "number", "date", "datetime", "duration"]))
    outside = draw(st.sampled_from(["refuse", "other"] if kind == "boolean" else ["refuse", "clip", "other"]))
    common: dict[str, Any] = {"name": "x", "kind": kind, "missing": draw(st.booleans()), "outside": outside}
    low, width = draw(st.integers(-1000, 1000)), draw(st.integers(50, 10**6))
    if common["missing"]:
        numbers = (f"{low + 2 or 1}", "-9.75", "1800-01-01", "2001-01-03", "2001-01-03 04:00", f"{low + 1}:00:00")
        common["missing_words"] = draw(st.sampled_from([(), numbers]))
    if kind == "boolean":
        return Column(**common)
    common["bins"] = draw(st.integers(1, 20) | st.just(200))
    forms = {
        "integer": ["", "1,234", "$1 234", "1'234.00 kg"], "number": ["", "1,234.50", "-", "1.234,5 €", "1234,555 %"],
        "date": ["", "%d.%m.%Y", "%d %b %Y", "%m/%d/%y"], "duration": [""],
        "datetime": ["", "%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M:%S.%f", "%I %p, %d/%m/%Y", "%d%m%Y%H%M%S"],
    }  # fmt: skip
    form = draw(st.sampled_from(forms[kind]))
    if kind == "number":
        common["decimals"] = draw(st.sampled_from([None, 0, 2]))
        form = "" if form == "-" or (common["decimals"] is None and not form) else form
    if kind in ("integer", "number", "duration"):
        common["zero"] = draw(st.booleans())
    if kind in ("datetime", "duration"):
        fine = not form or form.endswith("%f")
        common["decimals"] = draw(st.sampled_from([None, 0, 1, 3, 6] if fine else [None]))
    common["format"] = form
    start, hour, hours = datetime.datetime(2001, 1, 1), datetime.timedelta(hours=1), width % 9999
    ends: dict[str, Any] = {
        "integer": (low, low + width), "number": (low, low + width / 2), "duration": (low * hour, (low + 1 + hours) * hour),
        "datetime": (start + low * hour, start + (low + 1 + hours) * hour),
        "date": (start.date() + datetime.timedelta(low), start.date() + datetime.timedelta(low + 1 + hours)),
    }  # fmt: skip
    special = {"date": "2050-12-31", "datetime": "2050-12-31T00:00", "duration": "9999 days"}.get(kind, 9_999_999)
    common["special"] = draw(st.sampled_from([(), (special,)]))
    try:
        return Column(**common, bounds=ends[kind])
    except CardError as error:  # a narrow bin may hold nothing
        assert "holds only" in str(error) or "no two special" in str(error)
        return Column(name="x", kind="duration", bounds=("0:00:00", "9 days"))


@settings(max_examples=300, deadline=None)
@given(columns(), st.integers(0, 2**32), st.sampled_from([".", ","]))
def test_reading_undoes_decoding(column: Column, seed: int, point: Any) -> None:
    card = TableCard(columns=(column,), declared_size=9, decimal=point)
    wanted = np.repeat(np.arange(column.size, dtype=np.int32), 10)
    drawn, values = wanted.copy(), decode(wanted[:, None], card, seed=seed)["x"]
    written = pa.array(texts(column, values, decimal=point))
    if column.grid is not None and not column.values:  # a bin with nothing but words for missing is drawn from another
        wanted[wanted < column.plain] = column.drawn[1].repeat(10)
    assert codes(column, written, point) == codes(column, cells(values), point) == wanted.tolist()
    assert TableCard.loads(card.dumps()) == card == TableCard.from_dict(card.to_dict())
    numbers = to_numbers(drawn[:, None], card, seed=seed)[:, 0]
    assert np.array_equal(numbers, Reader(column, point).values(written), equal_nan=True)


# Samples


@pytest.fixture(name="samples")
def _samples() -> Iterator[TableSamples]:
    card = TableCard(
        columns=(
            Column(name="b", kind="boolean"),
            Column(name="m", kind="boolean", missing=True),
            Column(name="i", kind="integer", bounds=(0, 9), missing=True),
            Column(name="d", kind="date", bounds=("2031-01-01", "2031-12-31"), missing=True),
            Column(name="t", kind="datetime", bounds=("2031-03-30", "2031-03-31"), zone=BERLIN, missing=True),
            Column(name="u", kind="datetime", bounds=("2031-01-01", "2031-12-31"), decimals=3, at_least="v"),
            Column(name="v", kind="datetime", bounds=("2031-01-01", "2031-12-31"), decimals=3),
            Column(name="s", kind="duration", bounds=("0:00:00", "9 days"), missing=True),
        ),
        generated=(
            GeneratedColumn(name="half", kind="derived", follows="u", mapping={"2031-01-01": "1", "2031-07-01T12:00": "2"}),
            GeneratedColumn(name="said", kind="derived", follows="m", mapping={"True": "yes", "False": "no"}),
        ),
        declared_size=9,
        label="m",
    )  # fmt: skip
    random = np.random.default_rng(5)
    yield TableSamples(np.stack([random.integers(0, size, 500) for size in card.domain], 1).astype(np.int32), card, 7)


def test_samples_in_pandas(samples: TableSamples) -> None:
    table = samples.to_pandas()
    kinds = {name: str(kind) for name, kind in table.dtypes.items()}
    assert {name: kinds[name] for name in "bmidtus"} == {
        "b": "bool", "m": "boolean", "i": "Int64", "d": "datetime64[s]", "t": "datetime64[s, Europe/Berlin]",
        "u": "datetime64[us]", "s": "timedelta64[s]",
    }  # fmt: skip
    words = table["m"].map({True: "yes", False: "no"})
    assert words.fillna("").tolist() == table["said"].fillna("").tolist()
    assert (table["u"] >= table["v"]).all()
    assert ((table["u"] >= "2031-07-01T12:00") == (table["half"] == "2")).all()
    codes = read_table(table, samples.card).codes
    same = codes == samples.codes
    assert same[samples.codes[:, 4] != 1, 4].all(), "1 has an hour that clocks skip, and times in it move on"
    assert np.delete(same, [4, 5, 6], 1).all(), "u and v may be exchanged"


def test_samples_in_files(samples: TableSamples, tmp_path: Path) -> None:
    for name in ("s.csv", "s.parquet"):
        samples.save(tmp_path / name)
    of_csv, of_parquet = (read_table(tmp_path / name, samples.card).codes for name in ("s.csv", "s.parquet"))
    skipped = of_csv[:, 4] != of_parquet[:, 4]
    assert np.array_equal(np.delete(of_csv, 4, 1), np.delete(of_parquet, 4, 1)) and 0 < skipped.mean() < 0.1, (
        "02:00 to 03:00"
    )
    assert np.array_equal(np.delete(of_csv, [5, 6], 1), np.delete(samples.codes, [5, 6], 1))
    types = {field.name: str(field.type) for field in parquet.read_schema(tmp_path / "s.parquet")}
    assert {name: types[name] for name in "bmidtus"} == {
        "b": "bool", "m": "bool", "i": "int64", "d": "date32[day]", "t": f"timestamp[ms, tz={BERLIN}]",
        "u": "timestamp[us]", "s": "duration[s]",
    }  # fmt: skip
    first = (tmp_path / "s.csv").read_text().splitlines()[1:]
    assert {line.split(",")[1] for line in first} == {"True", "False", ""}


@pytest.mark.parametrize("cuts", [np.linspace(-1, 2, 8), np.geomspace(1e-3, 1e5, 40), np.array([0.0, 1.0, 1.5, 1e300])])
def test_bins_are_those_of_a_search_at_every_edge(cuts: np.ndarray) -> None:
    around = [cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), [np.nan, np.inf, -np.inf, 0.0, -0.0]]
    numbers = np.concatenate([*around, np.random.default_rng(0).uniform(cuts[0], cuts[-1], 99)])
    assert np.array_equal(reading._bins(cuts, numbers), np.searchsorted(cuts, numbers, side="right") - 1)


def test_huge_numbers_are_beyond_small_bounds() -> None:
    """No step of the search overflows, which would warn."""
    column = Column(name="x", kind="number", bounds=(0.0, 0.9), bins=10, decimals=1, outside="clip")
    assert Reader(column).codes(pa.array([1e308, -1e308, 0.5, 1.7e308])).tolist() == [9, 0, 5, 9]
