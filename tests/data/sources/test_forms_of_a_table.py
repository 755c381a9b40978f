"""One table in all its forms: one mark, and the same codes."""

import datetime
import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from driven import driven
from pyarrow import parquet
from safetensors.torch import save

from gossamer.data.columns.column import Column
from gossamer.data.sources.tables import is_table
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.read import read_table
from gossamer.data.tables.samples import TableSamples
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.random.noise import Rng

ROWS: list[dict[str, Any]] = [
    {"visits": 3, "town": "Kiel", "dose": 0.125, "ok": True, "day": datetime.date(2021, 5, 31)},
    {"visits": 12, "town": 'St. "Goar", Süd', "dose": 40.0, "ok": False, "day": datetime.date(2019, 12, 1)},
    {"visits": None, "town": None, "dose": 50.0, "ok": None, "day": None},
    {"visits": 0, "town": "Kiel", "dose": -7.5, "ok": False, "day": datetime.date(2021, 5, 31)},
]
NAMES = tuple(ROWS[0])
CARD = TableCard(
    columns=(
        Column(name="visits", kind="integer", bounds=(0, 20), bins=21, missing=True),
        Column(name="town", kind="category", values=("Kiel", 'St. "Goar", Süd'), missing=True),
        Column(name="dose", kind="number", bounds=(-10, 50), bins=60, missing=True),
        Column(name="ok", kind="boolean", missing=True),
        Column(name="day", kind="date", bounds=("2019-01-01", "2021-12-31"), bins=1096, missing=True),
    ),
    declared_size=4,
)
CODES = [[3, 0, 10, 1, 881], [12, 1, 50, 0, 334], [21, 2, 59, 2, 1096], [0, 0, 2, 0, 881]]


def text(delimiter: str = ",") -> str:
    def cell(value: Any) -> str:
        written = "" if value is None else str(value)
        return '"' + written.replace('"', '""') + '"' if '"' in written or delimiter in written else written

    lines = [NAMES, *(row.values() for row in ROWS)]
    return "".join(delimiter.join(map(cell, line)) + "\n" for line in lines)


def arrow() -> pa.Table:
    return pa.Table.from_pylist(ROWS)


def of_bytes(raw: bytes, name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(raw)
        return folder / name

    return write


def of_arrow(name: str, writer: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        with writer(folder / name, arrow().schema) as file:
            file.write_table(arrow())
        return folder / name

    return write


def of_parts(folder: Path) -> Path:
    """As Spark writes them."""
    parts = folder / "spark"
    parts.mkdir()
    for at in range(2):
        parquet.write_table(arrow().slice(2 * at, 2), parts / f"part-{at:05}.snappy.parquet")
    (parts / "_SUCCESS").touch()
    (parts / ".part-00000.crc").write_bytes(b"crc")
    return parts


def of_text_parts(folder: Path) -> Path:
    parts = folder / "parts"
    parts.mkdir()
    head, *lines = text().splitlines(keepends=True)
    (parts / "part-0.csv").write_text(head + "".join(lines[:1]))
    (parts / "part-1.csv").write_text(head + "".join(lines[1:]))
    (parts / "part-2.csv").touch()
    return parts


def of_excel(folder: Path) -> Path:
    book = openpyxl.Workbook()
    book.active.append(NAMES)
    for row in ROWS:
        book.active.append([*row.values()])
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


def of_sqlite(folder: Path) -> str:
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute(f"create table stays ({', '.join(NAMES)})")
        rows = [[str(value) if isinstance(value, datetime.date) else value for value in row.values()] for row in ROWS]
        connection.executemany("insert into stays values (?, ?, ?, ?, ?)", rows)
        connection.execute("create table other (x)")
    return f"{folder}/t.db?table=stays"


def of_duckdb(folder: Path) -> Path:
    stays = arrow()  # noqa: F841 - DuckDB finds it by its name
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute("create table stays as select * from stays")
    return folder / "t.duckdb"


FORMS: dict[str, Callable[[Path], Any]] = {
    "csv": of_bytes(text().encode(), "t.csv"),
    "semicolons": of_bytes(text(";").encode(), "t.csv"),
    "sep=": of_bytes(("sep=|\r\n" + text("|")).encode(), "t.csv"),
    "tsv": of_bytes(text("\t").encode(), "t.tsv"),
    "tabs in .txt": of_bytes(text("\t").encode(), "t.txt"),
    "gzip": of_bytes(gzip.compress(text().encode()), "t.csv.gz"),
    "gzip called .csv": of_bytes(gzip.compress(text().encode()), "t.csv"),
    "utf-16": of_bytes(text().encode("utf-16"), "t.csv"),
    "latin-1": of_bytes(text().encode("latin-1"), "t.csv"),
    "cr": of_bytes(text().replace("\n", "\r").encode(), "t.csv"),
    "parquet": of_arrow("t.parquet", parquet.ParquetWriter),
    "arrow": of_arrow("t.arrow", pa.ipc.new_file),
    "arrow stream": of_arrow("t.arrow", pa.ipc.new_stream),
    "spark": of_parts,
    "text parts": of_text_parts,
    "json lines": of_bytes("".join(json.dumps(row, default=str) + "\n" for row in ROWS).encode(), "t.jsonl"),
    "excel": of_excel,
    "sqlite": of_sqlite,
    "duckdb": of_duckdb,
    "pandas": lambda _: pd.DataFrame(ROWS),
    "pandas, own types": lambda _: pd.DataFrame(ROWS).convert_dtypes(),
    "polars": lambda _: pl.DataFrame(ROWS),
    "pyarrow": lambda _: arrow(),
    "batch of pyarrow": lambda _: arrow().to_batches()[0],
    "dict": lambda _: {name: [row[name] for row in ROWS] for name in NAMES},
    "dict of masked arrays": lambda _: {
        name: np.ma.masked_array([row[name] or 0 for row in ROWS] if name in ("visits", "dose") else
                                 np.array([row[name] for row in ROWS], object), [row[name] is None for row in ROWS])
        for name in NAMES
    },
    "list of dicts": lambda _: [{name: value for name, value in row.items() if value is not None} for row in ROWS],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_has_one_mark_and_the_same_codes(form: str, tmp_path: Path) -> None:
    source = FORMS[form](tmp_path)
    (tmp_path / "plain").mkdir()
    plain = read_table(FORMS["csv"](tmp_path / "plain"), CARD)
    assert is_table(source)
    table = read_table(source, CARD)
    assert table.codes.tolist() == CODES
    assert table.mark == plain.mark


JOB = Job.of(METHODS["marginals"], {"noise_multiplier": 1.0, "rounds": 1, "iterations": 2}, CARD)


def release(source: Any, folder: Path) -> list[bytes]:
    """The model of a run whose noise is fixed, and its samples as .csv and as .parquet."""
    net = driven(JOB, read_table(source, CARD), rng=Rng(0, noise_seed=1)).state.released
    codes = net.sample(50, None, torch.Generator().manual_seed(2)).numpy().astype(np.int32)
    places = [folder / "rows.csv", folder / "rows.parquet"]
    for place in places:
        TableSamples(codes, CARD, seed=2).save(place)
    return [save(net.state_dict()), *(place.read_bytes() for place in places)]


@pytest.fixture(scope="module")
def of_csv(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The release of the first form."""
    folder = tmp_path_factory.mktemp("csv")
    return release(FORMS["csv"](folder), folder)


@pytest.mark.parametrize("form", [*FORMS][1:])
def test_every_form_of_a_table_has_a_bit_equal_release(form: str, of_csv: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "released").mkdir()
    assert release(FORMS[form](tmp_path), tmp_path / "released") == of_csv


def test_a_table_of_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list(ROWS)
    assert is_table(data) and read_table(data, CARD).codes.tolist() == CODES
    assert read_table(data.select([3, 0]), CARD).codes.tolist() == [CODES[3], CODES[0]], "indices count"
