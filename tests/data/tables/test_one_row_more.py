"""One row more never changes how others are read: a missing value must not change the type of its column."""

import datetime
import decimal
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from slowly import slow_among

from gossamer.data.columns.column import Column
from gossamer.data.source import Source
from gossamer.data.split import split
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.read import read_table
from gossamer.errors import DataError

LARGE = 2**62
"""Floating-point numbers near it are 512 apart."""
DAYS = [datetime.date(2031, 12, 24), datetime.date(2031, 12, 26)]
DATE = Column(name="x", kind="date", bounds=(DAYS[0], DAYS[1]), bins=3, missing=True)
NUMBER = Column(name="x", kind="integer", bounds=(0, 99), bins=100, missing=True, outside="other")


def category(*values: str) -> Column:
    return Column(name="x", kind="category", values=values, missing=True, outside="other")


TYPES: dict[str, tuple[Any, list[Any], Column]] = {
    "int8": (pa.int8(), [3, 7, 99], NUMBER),
    "int64": (pa.int64(), [3, 7, 99], NUMBER),
    "uint64": (pa.uint64(), [LARGE * 2 + 1, LARGE * 2 + 2], category(str(LARGE * 2 + 1), str(LARGE * 2 + 2))),
    "int64 categories": (pa.int64(), [LARGE + 1, LARGE + 2], category(str(LARGE + 1), str(LARGE + 2))),
    "double": (pa.float64(), [3.0, 7.0, 0.5], NUMBER),
    "bool": (pa.bool_(), [True, False, True], NUMBER),
    "bool categories": (pa.bool_(), [True, False], category("True", "False")),
    "string": (pa.string(), ["3", "7"], NUMBER),
    "dictionary": (pa.dictionary(pa.int32(), pa.int64()), [LARGE + 1, LARGE + 2], category(str(LARGE + 2))),
    "date": (pa.date32(), DAYS, DATE),
    "timestamp": (pa.timestamp("ns"), [datetime.datetime.combine(day, datetime.time()) for day in DAYS], DATE),
    "decimal": (pa.decimal128(5, 2), [decimal.Decimal("3.00"), decimal.Decimal("7.00")], NUMBER),
}  # fmt: skip
PANDAS = {"int64": "Int64", "bool": "boolean", "double": "Float64", "string": "string", "int64 categories": "Int64"}


def in_parquet(array: Any, folder: Path) -> Path:
    path = folder / f"t{len(array)}.parquet"
    parquet.write_table(pa.table({"x": array}), path)
    return path


FORMS: dict[str, Callable[[Any, Path], Any]] = {
    "parquet": in_parquet,
    "pyarrow": lambda array, _: pa.table({"x": array}),
    "pandas of pyarrow": lambda array, _: pd.DataFrame({"x": pd.Series(array, dtype=pd.ArrowDtype(array.type))}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_a_missing_value_changes_no_other_code(name: str, form: str, tmp_path: Path) -> None:
    kind, values, column = TYPES[name]
    card = TableCard(columns=(column,), declared_size=9)
    without, with_one = (
        read_table(FORMS[form](pa.array(each, type=kind), tmp_path), card).codes for each in (values, [*values, None])
    )
    assert with_one[:-1].tolist() == without.tolist()
    assert with_one[-1, 0] == column.missing_code
    assert len(np.unique(without)) == len({str(value) for value in values})


@pytest.mark.parametrize("name", PANDAS)
def test_a_missing_value_in_pandas_changes_no_other_code(name: str) -> None:
    _, values, column = TYPES[name]
    card = TableCard(columns=(column,), declared_size=9)
    without, with_one = (
        read_table(pd.DataFrame({"x": pd.array(each, dtype=PANDAS[name])}), card).codes
        for each in (values, [*values, None])
    )
    assert with_one[:-1].tolist() == without.tolist()
    assert with_one[-1, 0] == column.missing_code


def test_a_missing_value_of_a_categorical_changes_no_other_code() -> None:
    values = [LARGE + 1, LARGE + 2]
    card = TableCard(columns=(category(*map(str, values)),), declared_size=9)
    frames = [pd.DataFrame({"x": pd.Categorical(each, categories=values)}) for each in (values, [*values, None])]
    assert [read_table(frame, card).codes[:2, 0].tolist() for frame in frames] == [[0, 1]] * 2


CARD = TableCard(
    columns=(Column(name="x", kind="category", values=("a", "b")),), declared_size=300, unit="person", missing_unit="own",
)  # fmt: skip
SOURCES: dict[str, Callable[[list[Any], Path], Any]] = {
    "parquet": lambda ids, folder: with_ids(pa.array(ids, pa.int64()), folder),
    "pyarrow": lambda ids, _: pa.table({"id": pa.array(ids, pa.int64()), "x": ["a"] * len(ids)}),
    "pandas": lambda ids, _: pd.DataFrame({"id": pd.array(ids, dtype="Int64"), "x": ["a"] * len(ids)}),
    "dict": lambda ids, _: {"id": ids, "x": ["a"] * len(ids)},
    "masked": lambda ids, _: {"id": masked(ids), "x": ["a"] * len(ids)},
}


def masked(ids: list[int | None]) -> Any:
    """Below the mask is the id of another person."""
    return np.ma.array([ids[0] if each is None else each for each in ids], mask=[each is None for each in ids])


def with_ids(ids: Any, folder: Path) -> Path:
    path = folder / f"t{len(ids)}.parquet"
    parquet.write_table(pa.table({"id": ids, "x": ["a"] * len(ids)}), path)
    return path


@pytest.mark.parametrize("form", SOURCES)
def test_a_row_without_an_id_leaves_the_units_of_others(form: str, tmp_path: Path) -> None:
    """300 persons with neighbouring ids of 64 bits. Before, one row more made two persons of them."""
    ids = [LARGE + 1 + number for number in range(300)]
    whole = read_table(Source(SOURCES[form](ids, tmp_path), units="id"), CARD)
    more = read_table(Source(SOURCES[form]([*ids, None], tmp_path), units="id"), CARD)
    assert whole.population == 300 and more.population == 301
    assert more.names is not None and set(map(str, ids)) <= set(more.names.tolist())


def test_what_lies_below_a_mask_is_not_read() -> None:
    numbers = np.ma.array([1, 2, 3], mask=[False, True, False])
    found = read_table({"x": numbers}, TableCard(columns=(NUMBER,), declared_size=9))
    assert found.codes[:, 0].tolist() == [1, NUMBER.missing_code, 3]


def test_a_person_in_two_blocks_is_one(tmp_path: Path) -> None:
    """Blocks of a Parquet file have 16,384 rows, and one of them has a row without an id."""
    ids = [LARGE + 1] * 20_000 + [None]
    assert read_table(Source(SOURCES["parquet"](ids, tmp_path), units="id"), CARD).population == 2


@pytest.mark.parametrize("form", ["data", "units", "draft", "split"])
def test_ids_that_pandas_has_rounded_are_refused(form: str, tmp_path: Path) -> None:
    """By itself, it makes floating-point numbers of whole ones where one is missing."""
    frame = pd.DataFrame({"id": [LARGE + 1, LARGE + 2, None], "x": ["a", "b", "a"]})
    assert frame["id"].nunique() == 1
    with pytest.raises(DataError, match="different ids may have become one") as refused:
        if form == "data":
            read_table(Source(frame, units="id"), CARD)
        elif form == "units":
            read_table(Source(frame[["x"]], units=frame["id"]), CARD)
        elif form == "draft":
            draft_table_card(Source(frame, units="id"))
        else:
            frame.to_parquet(tmp_path / "t.parquet")
            split(Source(tmp_path / "t.parquet", units="id"), out=tmp_path / "parts", missing_unit="own")
    assert str(LARGE)[:6] not in str(refused.value)


# Frames: whoever reads a text guesses the type of a column, from all rows


def polars_of(text: str, **options: Any) -> Any:
    library = pytest.importorskip("polars", reason="polars is not installed")
    try:
        return library.read_csv(io.BytesIO(text.encode()), infer_schema_length=None, **options)
    except library.exceptions.PolarsError as error:
        raise ValueError from error


READERS: dict[str, Callable[[str], Any]] = {
    "pandas": lambda text: pd.read_csv(io.StringIO(text)),
    "pandas, its own types": lambda text: pd.read_csv(io.StringIO(text), dtype_backend="numpy_nullable"),
    "pandas, types of pyarrow": lambda text: pd.read_csv(io.StringIO(text), dtype_backend="pyarrow"),
    "pandas, categories": lambda text: pd.read_csv(io.StringIO(text), dtype="category"),
    "pandas, dates": lambda text: pd.read_csv(io.StringIO(text), parse_dates=["x"]),
    "pandas, no missing words": lambda text: pd.read_csv(io.StringIO(text), keep_default_na=False),
    "pyarrow": lambda text: csv.read_csv(io.BytesIO(text.encode())),
    "polars": polars_of,
    "polars, dates": lambda text: polars_of(text, try_parse_dates=True),
}


FEW = slow_among(READERS, [name for name in READERS if name.startswith("pandas,") or name == "polars, dates"])
"""Each library once; its other ways to read are slow tests."""


def of_dates(form: str = "") -> Column:
    bounds = (datetime.date(2031, 1, 1), datetime.date(2031, 12, 31))
    return Column(name="x", kind="date", bounds=bounds, bins=365, missing=True, outside="other", format=form)


def of_numbers(kind: Any = "number") -> Column:
    return Column(name="x", kind=kind, bounds=(0, 2_000), bins=2_000, missing=True, outside="other")


CELLS: dict[str, tuple[Column, list[str], str]] = {
    "post codes": (category("01000", "01001", "02000"), ["01000", "01001", "02000"], "."),
    "post codes without zeros": (category("10115", "20095"), ["10115", "20095", "010115", "10115.0"], "."),
    "whole numbers": (category("1", "2"), ["1", "2", "01", "1.0", "+2", "2e0", " 1", "7"], "."),
    "signs": (category("-1", "0", "1"), ["-1", "0", "-0", "1", "-1.0"], "."),
    "parts": (category("0.5", "1"), ["0.5", ".5", "0.50", "1", "5e-1"], "."),
    "with a point": (category("1.0", "2.0"), ["1.0", "2.0"], "."),
    "two spellings": (category("1", "01"), ["1", "01"], "."),
    "large": (category(str(LARGE + 1), str(LARGE + 2)), [str(LARGE + 1), str(LARGE + 2)], "."),
    "exponents": (category("1e5", "100000"), ["1e5", "100000"], "."),
    "infinities": (category("inf", "1"), ["inf", "Infinity", "1", "-inf"], "."),
    "hexadecimal": (category("0x1A", "0x1B"), ["0x1A", "0x1B"], "."),
    "hexadecimal numbers": (category("26", "27"), ["0x1A", "0x1b", "26"], "."),
    "truth": (category("True", "False"), ["True", "False", "True"], "."),
    "small truth": (category("true", "false"), ["true", "false", "True", "FALSE"], "."),
    "truth as numbers": (category("0", "1"), ["1", "0", "0"], "."),
    "truth and numbers": (category("True", "1"), ["True", "1"], "."),
    "words for missing": (category("1", "2", "NA"), ["1", "NA", "2", "NA"], "."),
    "nothing but a word": (category("NA", "b"), ["NA", "NA"], "."),
    "spreadsheet errors": (category("1", "2"), ["1", "#N/A", "2", "-1.#IND"], "."),
    "days as texts": (category("2031-12-24", "2031-12-25"), ["2031-12-24", "2031-12-25"], "."),
    "times as texts": (category("2031-12-24 10:00", "2031-12-24T10:00:00"), ["2031-12-24 10:00", "2031-12-24T10:00:00"], "."),
    "hours": (category("12:30", "13:00:00"), ["12:30", "13:00:00"], "."),
    "words": (category("a", "b"), ["a", " a ", "b", "", "c"], "."),
    "integers": (of_numbers("integer"), ["1", "02", "+3", "4.0", "1e3", "", "99999"], "."),
    "numbers": (of_numbers(), ["1", "0.1", "0.30000000000000004", ".5", "1e2", "inf", "", "1999.9999999999998"], "."),
    "integers or truth": (of_numbers("integer"), ["1", "0", "1"], "."),
    "truth for numbers": (of_numbers("integer"), ["true", "false", "True", "FALSE"], "."),
    "hexadecimal for numbers": (of_numbers("integer"), ["0x1A", "0x01"], "."),
    "numbers and errors": (of_numbers(), ["1", "#N/A", "2", "null", "NA", "1.#QNAN"], "."),
    "thousands": (of_numbers(), ["1.500", "1.250"], ","),
    "commas": (of_numbers(), ["1,5", "1.250", "7"], ","),
    "whole numbers with commas": (of_numbers(), ["15", "20", "1.0"], ","),
    "days for numbers": (of_numbers(), ["2031-12-24", "2031-12-25"], "."),
    "days": (of_dates(), ["2031-12-24", "2031-12-25", ""], "."),
    "times": (of_dates(), ["2031-12-24 10:00", "2031-12-25T23:59:59.999999999"], "."),
    "zones": (of_dates(), ["2031-12-24T00:30:00+01:00", "2031-12-24T23:30:00-0100", "2031-12-24 10:00Z"], "."),
    "days without signs": (of_dates(), ["20311224", "20311225"], "."),
    "days of a form": (of_dates("%d.%m.%Y"), ["01.02.2031", "02.03.2031"], "."),
    "days of a form of numbers": (of_dates("%d%m%Y"), ["01122031", "11122031"], "."),
    "days and a form": (of_dates("%d.%m.%Y"), ["2031-12-24", "2031-12-25"], "."),
}  # fmt: skip
ODD = (
    "x", "", "NA", "#N/A", "1", "1.5", "true", "K1A 0B1", "2031-12-26", "2031-12-26 10:00", "12:30", "1,5", "0x10", "9" * 30,
)  # fmt: skip
ALWAYS_READ = (
    "whole numbers",
    "signs",
    "parts",
    "truth",
    "small truth",
    "words",
    "integers",
    "numbers",
    "days",
    "times",
)


def written(cells: list[str]) -> str:
    return "x,y\n" + "".join(f'"{cell}",1\n' if "," in cell else f"{cell},1\n" for cell in cells)


@pytest.mark.parametrize("reader", FEW)
@pytest.mark.parametrize("name", CELLS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of pandas, on dates
def test_an_odd_cell_changes_no_other_code(name: str, reader: str) -> None:
    """A post code such as K1A 0B1 in one row made 1000 of 01000 in all others: counts moved by 634 times the bound."""
    column, cells, point = CELLS[name]
    card = TableCard(columns=(column,), declared_size=9, decimal=point)

    def found(*more: str) -> list[int] | None:
        """The codes of the cells; None: they are refused, by us or by the reader."""
        try:
            frame = READERS[reader](written([*cells, *more]))
        except (ValueError, OverflowError):
            return None
        try:
            return read_table(frame, card).codes[: len(cells), 0].tolist()  # type: ignore[no-any-return]  # NumPy's tolist
        except DataError as refused:
            assert "column 'x': there are numbers or dates in place of text" in str(refused)
            return None

    # with these types, pandas makes text of numbers beyond 64 bits, without the zeros before them: nobody can see it
    odd = ODD[:-1] if reader == "pandas, its own types" else ODD
    each = [found(), *map(found, odd)]
    assert len({*map(str, each)} - {"None"}) <= 1
    if name in ALWAYS_READ and "dates" not in reader:
        assert None not in each
    if name in ("post codes", "thousands") and reader == "pandas":
        assert each[0] is None and each[1] is not None


IDS = [
    "7",
    "007",
    "+7",
    "7.0",
    "-7",
    "1e3",
    "0x1A",
    "0.5",
    "12",
    "012.",
    "-012",
    "12:30",
    "2031-12-24",
    "true",
    "1",
    "NA",
    "",
]


@pytest.mark.parametrize("reader", FEW)
@pytest.mark.parametrize("number", range(8))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_odd_id_changes_the_unit_of_no_other(number: int, reader: str) -> None:
    """Where all ids are numbers, a reader makes one person of 7 and 007. Where one is P1, it made two."""
    ids = np.random.default_rng(number).choice(IDS[:11] if number < 5 else IDS, 8 if number < 5 else 3).tolist()

    def found(*more: str) -> list[int] | None:
        try:
            frame = READERS[reader](written([*ids, *more]))
            table = read_table(
                Source(frame, units="x"), replace(CARD, columns=(Column(name="y", kind="integer", bounds=(0, 9)),))
            )
        except (ValueError, OverflowError, DataError):
            return None
        assert table.units is not None
        people = table.units[: len(ids)].tolist()
        return [people.index(each) for each in people]

    each = [found(), *map(found, ("P1", "", "12.5", "9" * 20, "false", "x:y", "2031-12-24 10:00"))]
    assert len({*map(str, each)} - {"None"}) <= 1
    assert number > 4 or "types of pyarrow" in reader or {*map(str, each[:2])} != {"None"}


def test_a_text_beside_numbers_in_single_precision_changes_no_bin() -> None:
    """0.3 in single precision is 0.30000001. It is read as its text is: 0.3, in the bin below."""
    column = Column(name="x", kind="number", edges=(0, 0.30000001, 1), missing=True, outside="other")
    card = TableCard(columns=(column,), declared_size=9)
    single = np.array([0.3, 0.7, 0.1], np.float32)
    beside = np.array([*single, "unknown"], object)
    assert type(beside[0]) is np.float32
    found = [read_table({"x": values}, card).codes[:3, 0].tolist() for values in (single, beside, [*single, None])]
    assert found == [[0, 1, 0]] * 3


def test_one_row_of_64_bits_changes_no_bin_of_others_of_32_bits() -> None:
    """pandas makes 64 bits of all, and 0.7 becomes 0.699999988079071. Large whole numbers stay what they are."""
    tenths = Column(name="x", kind="number", bounds=(0.0, 0.9), decimals=1, bins=10)
    few = Column(name="y", kind="category", values=("0.1", "0.7"), numbers=True)
    whole = Column(name="z", kind="integer", bounds=(123_456_789, 123_456_795))
    card = TableCard(columns=(tenths, few, whole), declared_size=9)
    rows = {"x": [0.7, 0.3, 0.6, 0.5], "y": [0.1, 0.7, 0.7, 0.1], "z": [123_456_792.0] * 4}
    single = pd.DataFrame(rows, dtype="float32")
    beside = pd.concat([single, pd.DataFrame({name: values[:1] for name, values in rows.items()})])
    assert {*map(str, beside.dtypes)} == {"float64"}
    expected = [[7, 0, 3], [3, 1, 3], [6, 1, 3], [5, 0, 3]]
    assert read_table(single, card).codes.tolist() == expected
    assert read_table(beside, card).codes.tolist() == [*expected, expected[0]]


def test_a_post_code_that_is_no_number_moves_no_count_by_more_than_one(tmp_path: Path) -> None:
    """500 rows, read by pandas with and without one Canadian code: all 500 became `other`."""
    codes = [f"{1000 + at % 10:05}" for at in range(500)]
    card = TableCard(columns=(category(*codes[:10]),), declared_size=500)
    texts = written(codes), written([*codes, "K1A 0B1"])
    with pytest.raises(DataError, match=r"column 'x': there are numbers or dates .* path of the CSV, or .*dtype=str"):
        read_table(pd.read_csv(io.StringIO(texts[0])), card)
    for form in ("frame", "path"):
        counts = []
        for text in texts:
            (tmp_path / "t.csv").write_text(text)
            source = tmp_path / "t.csv" if form == "path" else pd.read_csv(io.StringIO(text), dtype=str)
            counts.append(np.bincount(read_table(source, card).codes[:, 0], minlength=12))
        assert np.abs(counts[1] - counts[0]).tolist() == [0] * 10 + [1, 0]
        assert counts[0].tolist() == [50] * 10 + [0, 0]
