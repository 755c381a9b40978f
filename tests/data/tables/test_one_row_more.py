"""One row more never changes how others are read: a missing value must not change the type of its column."""

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from gossamer.data.tables.card import TableCard
from gossamer.data.tables.column import Column
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.read import read_table
from gossamer.data.tables.split import split_table
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
    whole = read_table(SOURCES[form](ids, tmp_path), CARD, units="id")
    more = read_table(SOURCES[form]([*ids, None], tmp_path), CARD, units="id")
    assert whole.population == 300 and more.population == 301
    assert more.names is not None and set(map(str, ids)) <= set(more.names.tolist())


def test_what_lies_below_a_mask_is_not_read() -> None:
    numbers = np.ma.array([1, 2, 3], mask=[False, True, False])
    found = read_table({"x": numbers}, TableCard(columns=(NUMBER,), declared_size=9))
    assert found.codes[:, 0].tolist() == [1, NUMBER.missing_code, 3]


def test_a_person_in_two_blocks_is_one(tmp_path: Path) -> None:
    """Blocks of a Parquet file have 16,384 rows, and one of them has a row without an id."""
    ids = [LARGE + 1] * 20_000 + [None]
    assert read_table(SOURCES["parquet"](ids, tmp_path), CARD, units="id").population == 2


@pytest.mark.parametrize("form", ["data", "units", "draft", "split"])
def test_ids_that_pandas_has_rounded_are_refused(form: str, tmp_path: Path) -> None:
    """By itself, it makes floating-point numbers of whole ones where one is missing."""
    frame = pd.DataFrame({"id": [LARGE + 1, LARGE + 2, None], "x": ["a", "b", "a"]})
    assert frame["id"].nunique() == 1
    with pytest.raises(DataError, match="different ids may have become one") as refused:
        if form == "data":
            read_table(frame, CARD, units="id")
        elif form == "units":
            read_table(frame[["x"]], CARD, units=frame["id"])
        elif form == "draft":
            draft_table_card(frame, units="id")
        else:
            frame.to_parquet(tmp_path / "t.parquet")
            split_table(tmp_path / "t.parquet", out=tmp_path / "parts", units="id", missing_unit="own")
    assert str(LARGE)[:6] not in str(refused.value)
