"""Columns of every type, and odd mixtures: a draft whose measured lines are declared is always read. Kind K9."""

import datetime
import decimal
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from slowly import slow_among
from stories import as_drafted

import gossamer
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.read import read_table
from gossamer.errors import DataError

N = 240
LONG = 2**62
PARTS = [decimal.Decimal("1.25"), decimal.Decimal("7.50")]
TIMES = [datetime.datetime(2020, 1, 1, 9), datetime.datetime(2023, 5, 1, 23, 59, 59)]


def repeated(*values: Any) -> list[Any]:
    return [values[n % len(values)] for n in range(N)]


def of(kind: Any, *values: Any) -> Any:
    return pa.array(repeated(*values), kind)


ARROW: dict[str, Any] = {
    "decimal": of(None, *PARTS),
    "decimal of 32 bits": of(pa.decimal32(5, 2), *PARTS),
    "decimal of 256 bits": of(pa.decimal256(50, 3), *PARTS),
    "decimal beyond 2^53": of(None, decimal.Decimal(10**30), decimal.Decimal(10**30 + 1)),
    "half": pa.array(np.arange(N).astype(np.float16) / 8),
    "large number": of(None, 1e22, 2.5),
    "many infinite": of(None, float("inf"), float("nan"), *np.linspace(0, 1, 50)),
    "ends of 64 bits": of(None, -(2**63), 2**63 - 1),
    "unsigned": of(pa.uint64(), 2**64 - 1, 5),
    "clock": of(pa.time32("ms"), datetime.time(9), datetime.time(23, 59, 59, 5000)),
    "nanoseconds of a day": of(pa.time64("ns"), 3600 * 10**9, 7200 * 10**9 + 5),
    "days": of(pa.date64(), *(time.date() for time in TIMES)),
    "far days": pa.array(repeated(-5_000_000, 10**7), pa.int32()).cast(pa.date32()),
    "far seconds": of(pa.timestamp("s"), -(2**63), 2**63 - 1),
    "ends of nanoseconds": of(pa.timestamp("ns"), -(2**63) + 1, 2**63 - 1),
    "ends of the calendar": of(pa.timestamp("us"), datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59)),
    "hours of one day": of(pa.timestamp("s"), 3600, 7200),
    "offset": of(pa.timestamp("us", "+05:30"), *TIMES),
    "far durations": of(pa.duration("s"), -(2**63) + 1, 2**63 - 1, 60),
    "large string": of(pa.large_string(), "a", "b"),
    "string view": of(pa.string_view(), "a", "b"),
    "dictionary": of(None, "a", None, "b").dictionary_encode(),
    "dictionary of decimals": of(None, *PARTS).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([90, N], pa.int32()), pa.array(["a", "b"])),
    "null": pa.nulls(N),
    "bytes": of(pa.binary(2), b"ab", b"cd"),
    "interval": of(pa.month_day_nano_interval(), (1, 2, 3), (1, 2, 4)),
    "list": of(None, [1], [2]),
    "map": of(pa.map_(pa.string(), pa.int64()), [("a", 1)]),
    "sparse union": pa.UnionArray.from_sparse(
        pa.array(repeated(0, 1), pa.int8()), [pa.array(["a"] * N), pa.array([5] * N)]
    ),
}
PANDAS: dict[str, Any] = {
    "interval": pd.cut(np.linspace(0, 9, N), 3),
    "intervals one by one": pd.Series([pd.Interval(n % 3, n % 3 + 1) for n in range(N)], dtype=object),
    "period": pd.period_range("2020-01", periods=N, freq="M"),
    "sparse": pd.arrays.SparseArray(repeated(0, 1, 0)),
    "far years": np.array(repeated(-(10**18), 10**18), "M8[us]"),
    "days between": np.array(repeated(1, 2), "m8[s]"),
    "decimals and text": pd.Series(repeated(PARTS[1], "x"), dtype=object),
    "lists and text": pd.Series(repeated([1], "x"), dtype=object),
    "codes and numbers": pd.Series(repeated("007", 12), dtype=object),
    "long": pd.Series(repeated(10**80, 10**80 + 1), dtype=object),
}


def accepted(data: Any) -> tuple[gossamer.TableCard, str]:
    """The card of a user in a hurry, which reads the table; and the draft."""
    text, _ = draft_table_card(data)
    card = gossamer.TableCard.loads(as_drafted(text))
    read_table(data, card)
    return card, text


def in_parquet(table: "pa.Table", folder: Path) -> Any:
    parquet.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def in_arrow(table: "pa.Table", folder: Path) -> Any:
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as file:
        file.write_table(table)
    return folder / "t.arrow"


FORMS: dict[str, Callable[[Any, Path], Any]] = {
    "memory": lambda table, _: table,
    "parquet": in_parquet,
    "arrow": in_arrow,
}
NOT_IN_PARQUET = ("far seconds", "interval", "runs", "sparse union")


@pytest.mark.parametrize("form", FORMS)
def test_a_draft_of_every_type_is_read(form, tmp_path):
    columns = {name: array for name, array in ARROW.items() if form != "parquet" or name not in NOT_IN_PARQUET}
    card, _ = accepted(FORMS[form](pa.table({"key": ["a", "b"] * (N // 2)} | columns), tmp_path))
    dropped = dict(card.drop)
    assert {column.name for column in card.written} | {*dropped} == {"key", *columns}
    for name in (
        "decimal",
        "decimal of 32 bits",
        "half",
        "days",
        "far days",
        "hours of one day",
        "far durations",
        "many infinite",
    ):
        assert name not in dropped, f"{name}: {dropped[name]}"
    assert (
        "lists, structs or bytes" in dropped["list"]
        and "2^53" in dropped["large number"] + dropped["decimal beyond 2^53"]
    )


def test_a_draft_of_a_frame_of_odd_types_is_read():
    card, _ = accepted(pd.DataFrame({"key": ["a", "b"] * (N // 2)} | PANDAS))
    named, dropped = {column.name: column for column in card.columns}, dict(card.drop)
    assert {*named, *dropped, "period"} == {"key", *PANDAS}
    assert len(named["interval"].values) == 3 and named["interval"].values[0].endswith("]")
    assert named["far years"].kind == "datetime"
    for name in ("decimals and text", "codes and numbers"):
        assert "as text (dtype=str) it can stay" in dropped[name]
    assert "lists" in dropped["lists and text"]


@pytest.mark.parametrize("values", [np.full(N, 1j), np.zeros((N, 2)), np.zeros(N, "V4"), np.array([1] * N, "M8[as]")])
def test_a_column_that_has_no_type_is_named_by_its_place(values):
    with pytest.raises(DataError, match=r"data, column 2 \(counted from 1\): .*Write text into it, or take it out"):
        draft_table_card({"age": [1, 2] * (N // 2), "secret": values})


WRITTEN = """
1 2 10 007 02139 +5 -3 1e3 1E5 1.5 2.50 1,5 1.234 1.234,50 1,234.50 $5 7_5 0x1A true false True yes no NA n/a none null - . ?
unknown inf nan 2020-01-01 2020-01-02T10:00:00Z 01/02/2020 13/02/2020 20230623 24.12.2031 10:00 27:30:00 P1D a A b
\u00e4 a\u0308 9007199254740993 0.123456789012345 1e400 1e-7 -999 9999-12-31 1970-01-01 0001-01-01 1'234 -0 0.0 other Other
\u0663 \u00bd 12345678901234567 99999999999999999999
"""
TEXTS = [*WRITTEN.split(), "", " a", "a\nb", "$1,000", "12 %", "2 days", "Jan 5, 2020", "12:30 PM", "5 kg", "1 234"]
PLAIN = [
    1,
    2,
    0,
    -5,
    LONG + 1,
    10**30,
    1.5,
    -0.0,
    1e22,
    None,
    True,
    False,
    "a",
    "1",
    "007",
    "1.50",
    "NA",
    "",
    "2020-01-01",
]
DAYS = [*TIMES, TIMES[0].date(), datetime.date(9999, 12, 31), TIMES[0].replace(tzinfo=datetime.UTC), datetime.time(10)]
OTHERS = [float("inf"), *PARTS, datetime.timedelta(hours=5), b"x", [1], np.int8(3), np.float32(0.1), pd.NaT, pd.NA]


def mixture(draw: random.Random, pool: list[Any], rows: int) -> list[Any]:
    """A column of a few values of the pool, of which each has its own share; in some columns, nearly all are numbers."""
    values = draw.sample(pool, draw.choice((1, 2, 3, 5, 8)))
    cells = draw.choices(values, [draw.random() ** 3 for _ in values], k=rows)
    number = str if isinstance(pool[0], str) else float
    share = draw.choice((0, 0, 0.85, 0.97))
    return [number(round(draw.random() * 100, 2)) if draw.random() < share else cell for cell in cells]


SOURCES: dict[str, tuple[list[Any], Callable[[dict[str, list[Any]], Path], Any]]] = {
    "csv": (TEXTS, lambda columns, folder: write_text(folder / "t.csv", pd.DataFrame(columns).to_csv(index=False))),
    "parquet": (TEXTS, lambda columns, folder: in_parquet(pa.table(columns), folder)),
    "frame": (TEXTS, lambda columns, _: pd.DataFrame(columns)),
    "objects": ([*PLAIN, *DAYS, *OTHERS], lambda columns, _: pd.DataFrame(columns, dtype=object)),
    "jsonl": (PLAIN, lambda columns, folder: write_text(folder / "t.jsonl", in_lines(columns))),
}


def write_text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def in_lines(columns: dict[str, list[Any]]) -> str:
    return "\n".join(json.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


@pytest.mark.parametrize("rows", [15, 120])
@pytest.mark.parametrize("source", slow_among(SOURCES, ["frame"]))
def test_a_draft_of_mixtures_is_read(source, rows, tmp_path):
    """40 random columns each. Of 6,000 such columns, 773 had a draft that no run read."""
    pool, write = SOURCES[source]
    draw = random.Random(f"{source} {rows}")
    columns = {f"c{at}x": mixture(draw, pool, rows) for at in range(40)}
    card, text = accepted(write(columns, tmp_path))
    assert {column.name for column in card.written} | {name for name, _ in card.drop} == {*columns}
    assert "the smaller first" not in text and "holds only" not in text, "a reason is one of the data, not of the draft"


def test_numbers_of_32_bits_come_out_as_people_read_them(tell, tmp_path):
    """As NumPy, PyTorch and Parquet have them: 85.1, and not 85.0999984741211."""
    draw = np.random.default_rng(32)
    frame = pd.DataFrame(
        {"x": draw.integers(0, 1_000, 1_500) / 10, "few": draw.integers(0, 5, 1_500) / 5 + 0.1}
    ).astype("float32")
    frame.to_parquet(tmp_path / "own.parquet")
    told = tell(tmp_path / "own.parquet")
    assert told.columns["x"]["decimals"] == 1
    made = pd.read_csv(told.place / "s.csv", dtype=str)
    assert made["x"].str.fullmatch(r"\d+\.\d").all()
    assert {*made["few"]} == {"0.1", "0.3", "0.5", "0.7", "0.9"}
    assert abs(made["x"].astype(float).mean() - 50) < 5
