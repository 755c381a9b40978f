"""Which sources are tables, by their form alone; and what their files, folders and databases refuse."""

import csv
import datetime
import json
import sqlite3
import stat
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from gossamer.data.columns.texts import parts
from gossamer.data.source import Source
from gossamer.data.sources.cells import cells
from gossamer.data.sources.tables import is_table, open_table
from gossamer.errors import DataError, RequestError

SECRET = "Frau-Krause-77"


def look(source: Any, **options: Any) -> dict[str, list[Any]]:
    """The cells of each column."""
    relation = open_table(source, split="train", where="data", **options)
    found: dict[str, list[Any]] = {name: [] for name in relation.names}
    for _, columns in relation.blocks([*range(len(relation.names))]):
        for name, column in zip(relation.names, columns, strict=True):
            found[name] += column.to_pylist()
    return found


def refused(source: Any, says: str, **options: Any) -> None:
    with pytest.raises(DataError, match=says) as error:
        look(source, **options)
    assert SECRET not in str(error.value)


# Recognition


def test_columns_of_bytes_are_pictures_by_their_name_or_type_alone(tmp_path: Path) -> None:
    raw = [b"\x01\x02", b"\x03"]
    kinds = {
        "wkb": (pa.table({"geometry": raw, "n": [1, 2]}), True),
        "hash": (pa.table({"sha256": pa.array([b"a" * 32] * 2, pa.binary(32)), "n": [1, 2]}), True),
        "image": (pa.table({"image": raw, "label": [1, 2]}), False),
        "struct": (pa.table({"scan": [{"bytes": raw[0], "path": ""}] * 2}), False),
        "pixels": (pa.table({"pixels": pa.array([[1, 2]] * 2, pa.list_(pa.uint8(), 2)), "label": [0, 1]}), False),
    }
    for name, (table, expected) in kinds.items():
        parquet.write_table(table, tmp_path / f"{name}.parquet")
        assert is_table(tmp_path / f"{name}.parquet") == expected, name
    assert not is_table(Source(tmp_path / "wkb.parquet", images_key="geometry"))
    (tmp_path / "samples.csv").write_text("label,class,pixel0,pixel1\n0,a,1,2\n")
    assert not is_table(tmp_path / "samples.csv")
    (tmp_path / "labels.csv").write_text("label,pixels,pixel9\n0,1,2\n")
    assert is_table(tmp_path / "labels.csv")


def test_a_folder_that_can_be_two_things_is_refused_with_both_readings(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("file_name,label\na.png,0\n")
    assert is_table(tmp_path)
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"can be two things. For a table, give its file: .*train\.csv. For pictures"):
        is_table(tmp_path)
    (tmp_path / "a.png").unlink()
    (tmp_path / "images").mkdir()
    assert not is_table(tmp_path)
    Image.new("L", (4, 4)).save(tmp_path / "images/a.PNG")
    with pytest.raises(DataError, match="can be two things"):
        is_table(tmp_path)
    (tmp_path / "train.csv").rename(tmp_path / "labels.csv")
    assert not is_table(tmp_path)


def test_objects_with_pictures_are_no_tables() -> None:
    images = np.zeros((3, 4, 4), np.uint8)
    assert not is_table({"images": images, "labels": [0, 1, 0]})
    assert not is_table({"image": [Image.new("L", (4, 4))] * 3, "label": [0, 1, 0]})
    assert not is_table([{"image": images[0], "label": 0}])
    assert not is_table(images) and not is_table((images, [0, 1, 0])) and not is_table([1, 2]) and not is_table({})
    assert is_table({"a": [1, 2]}) and is_table([{"a": 1}]) and is_table(np.zeros(2, [("a", int)]))


def test_objects_that_hold_a_table_name_the_remedy() -> None:
    table = pa.table({"a": [1]})
    for data, says in (
        (
            pl.DataFrame({"a": [1]}).lazy(),
            r"polars\.LazyFrame.*`frame\.sink_parquet\('rows\.parquet'\)`, and give its path",
        ),
        (type("Table", (), {"__module__": "ibis.expr.types"})(), r"ibis\.Table.*`expression\.to_parquet"),
        (type("DataFrame", (), {"__module__": "pyspark.sql"})(), r"pyspark\.DataFrame.*`frame\.write\.parquet"),
        (table.to_reader(), r"`reader\.read_all\(\)`"),
        (pd.Series([1]), r"`series\.to_frame\(\)`"),
    ):
        assert is_table(data)
        refused(data, says)


# Cells


def test_objects_of_several_types_keep_them() -> None:
    values = ["1", 1, 1.5, True, None, float("nan"), pd.NA, b"\xff", 10**30, 10**90]
    array = cells(values)
    assert pa.types.is_union(array.type)
    found: list[Any] = [None] * len(values)
    for positions, part in parts(array):
        for at, value in zip(positions.tolist(), part.to_pylist(), strict=True):
            found[at] = (value, str(part.type))
    assert found[:4] == [("1", "string"), (1, "decimal128(31, 0)"), (1.5, "double"), (True, "bool")]
    assert found[8:] == [(10**30, "decimal128(31, 0)"), (str(10**90), "string")]  # which changes the type of no other
    assert [value for value, _ in found[4:7]] == [None] * 3 and found[7] == (b"\xff", "binary")
    assert cells(array[2:4]).to_pylist() == [1.5, True]
    assert [part.to_pylist() for _, part in parts(cells(["a", 1, "b", 2])[2:])] == [["b"], [2]]


def test_times_beyond_the_calendar_are_its_ends() -> None:
    """Other programs write the year 294247 for never, and Python has no such date."""
    first, last = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59)
    for unit in ("s", "ms", "us"):
        far = pa.array([2**62, -(2**62), None, 0], pa.int64()).view(pa.timestamp(unit))
        assert cells(far).to_pylist() == [last, first, None, datetime.datetime(1970, 1, 1)]
    far = pa.array([2**31 - 1, -(2**31), None], pa.int32()).view(pa.date32())
    assert cells(far).to_pylist() == [last.date(), first.date(), None]
    assert cells(np.array([10**18, -(10**18)], "M8[us]")).to_pylist()[1] == first, "an array of NumPy is no exception"
    ends = cells(pa.array([2**63 - 1, -(2**63), 5], pa.timestamp("ns"))).cast(pa.int64()).to_pylist()
    assert ends == [2**63 - 1, -9_223_372_036_854_775_000, 5], "of 64 bits, to whole microseconds"
    most = datetime.timedelta(days=999_999)
    for unit in ("s", "ms", "us"):
        stays = cells(pa.array([2**63 - 1, -(2**63), None, 60], pa.duration(unit)))
        assert stays.to_pylist()[:3] == [most + datetime.timedelta(seconds=86_399), -most, None]
        assert stays.cast(pa.int64()).to_pylist()[3] == 60
    assert cells(np.array([1, 2], "m8[D]")).to_pylist() == [datetime.timedelta(1), datetime.timedelta(2)]


def test_a_name_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    """It was an error of Python."""
    table = pa.table({"a name of its own": [1, 2]})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
        file.write_table(table)
    raw = (tmp_path / "t.arrow").read_bytes()
    (tmp_path / "t.arrow").write_bytes(raw.replace(b"a name of", b"a n\xffme of"))
    with pytest.raises(DataError, match=r"no sound \.arrow file"):
        open_table(tmp_path / "t.arrow", split="train", where="t")


def test_one_name_twice_is_no_crash() -> None:
    frame = pd.DataFrame([[1, "x"], [2, "y"]], columns=["a", "a"])
    relation = open_table(frame, split="train", where="data")
    assert relation.names == ["a", "a"]
    ((_, columns),) = relation.blocks([1])
    assert columns[0].to_pylist() == ["x", "y"]


def test_memory_is_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.data.sources.memory._ROWS", 2)
    rows = [{"a": 1, "b": "x"}, {"a": 2.5, "b": "y"}, {"a": None, "b": "z"}]
    for data in (
        rows,
        pd.DataFrame(rows),
        pl.DataFrame(rows, strict=False),
        {"a": [1, 2.5, None], "b": np.array(["x", "y", "z"])},
    ):
        relation = open_table(data, split="train", where="data")
        assert [numbers.tolist() for numbers, _ in relation.blocks([1])] == [[0, 1], [2]]
        assert look(data)["b"] == ["x", "y", "z"]


def test_dicts_that_are_uneven_are_refused_by_row() -> None:
    refused([{"a": 1}, {"a": 2, SECRET: 3}], r"row 1 \(counted from 0\)")
    refused([{"a": 1}, 5], r"row 1 \(counted from 0\)")
    refused({"a": [1, 2], "b": [1]}, "of one length")
    refused({"a": "text"}, "must be a list or an array")


# Files


def test_json_lines_keep_numbers_as_they_are_written(tmp_path: Path) -> None:
    place = tmp_path / "t.jsonl"
    place.write_text('{"a": 1.50, "b": true, "c": null}\n\n{"a": 5E3, "c": "007"}\n')
    assert look(place) == {"a": ["1.50", "5E3"], "b": ["true", None], "c": [None, "007"]}
    for line, says in (
        (json.dumps({"a": 1, SECRET: 2}), "line 2: .* a name that the first line has not"),
        ('{"a": 1, "a": 2}', "line 2: this is no object of JSON, or names a column twice"),
        (f"{SECRET}", "line 2: this is no object of JSON"),
        ("[1]", "line 2: this is no object"),
        ("[" * 100_000, "line 2: this is no object"),
    ):
        place.write_text('{"a": 1}\n' + line + "\n")
        refused(place, says)
    place.write_text('{"a": [1, 2]}\n')
    ((_, (column,)),) = open_table(place, split="train", where="t").blocks([0])
    assert pa.types.is_list(column.type), "which a card cannot declare"


def test_a_sheet_is_read_by_its_cells(tmp_path: Path) -> None:
    place = tmp_path / "t.xlsx"
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["n", "code"], [1, "007"], [2.5, "#N/A"], [None, None], [True, 7]):
        sheet.append(row)
    other = book.create_sheet("Other")
    other.append(["Report"])
    other.append([])
    other.append(["a", "b"])
    book.save(place)
    assert look(place) == {"n": [1, 2.5, True], "code": ["007", "#N/A", 7]}
    assert is_table(f"{place}:Other")
    refused(f"{place}:Other", "row 1 has 1 name, and row 3 has 2 values. Delete the title")
    refused(f"{place}:None", "no sheet 'None'; the sheets are: Sheet, Other")
    assert look(f"{place}:Sheet", header=False)["column_1"] == ["n", 1, 2.5, True]
    sheet.append([9, "x", SECRET])
    book.save(place)
    relation = open_table(place, split="train", where="t")
    assert [numbers.tolist() for numbers, _ in relation.blocks([0])] == [[0, 1, 2]] and relation.ragged == [3]
    sheet.append(["=A2+1", "y"])
    book.save(place)
    refused(place, "formulas have no result")


def test_a_table_of_a_database_is_chosen_by_its_address(tmp_path: Path) -> None:
    place = tmp_path / "t.sqlite"
    with sqlite3.connect(place) as connection:
        connection.execute('create table "a ""b""" (x, y)')
        connection.executemany('insert into "a ""b""" values (?, ?)', [(1, "1"), (1.5, b"\xff"), (None, "Zürich")])
        connection.execute("create table c (x)")
    before = sorted(tmp_path.iterdir())
    place.chmod(stat.S_IRUSR)
    assert look(f'{place}?table=a "b"') == {"x": [1, 1.5, None], "y": ["1", b"\xff", "Zürich"]}
    assert sorted(tmp_path.iterdir()) == before
    refused(place, r'holds 2 tables. Choose one: .*\?table=NAME. The tables are: a "b", c')
    refused(f"{place}?table=x", "no table 'x'")
    (tmp_path / "bad.sqlite").write_bytes(b"SQLite format 3\0" + SECRET.encode() * 99)
    refused(tmp_path / "bad.sqlite", "the database cannot be read")


def test_a_database_is_read_while_another_program_writes_it(tmp_path: Path) -> None:
    place = tmp_path / "t.db"
    with sqlite3.connect(place) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t (x)")
        connection.execute("insert into t values (7)")
        connection.commit()
        assert (tmp_path / "t.db-wal").exists()
        assert look(place) == {"x": [7]}


def test_duckdb_reads_its_own_file_and_nothing_else(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text(f"x\n{SECRET}\n")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("create table t as select 1.50::decimal(4, 2) as x, date '2020-02-29' as d")
        connection.execute(f"create view v as select * from read_csv('{secret}')")
    found = look(f"{tmp_path}/t.duckdb?table=t")
    assert [str(value) for value in found["x"] + found["d"]] == ["1.50", "2020-02-29"]
    refused(f"{tmp_path}/t.duckdb?table=v", "the database cannot be read")
    (tmp_path / "bad.duckdb").write_bytes(SECRET.encode() * 999)
    refused(tmp_path / "bad.duckdb", "the database cannot be read")


def test_a_query_picks_rows_of_a_database(tmp_path: Path) -> None:
    """A fault of the query is told without its text or a value."""
    for place, connect in ((tmp_path / "q.db", sqlite3.connect), (tmp_path / "q.duckdb", duckdb.connect)):
        with connect(str(place)) as connection:
            connection.execute("create table t (x integer, y varchar)")
            connection.execute("insert into t values (1, 'a:b?table=c'), (2, 'd'), (3, 'd')")
            connection.commit()
        assert look(f"{place}?query=select y, x * 4 / 2 as z from t where y = 'd'") == {"y": ["d", "d"], "z": [4, 6]}
        assert look(f"{place}?query=select x from t where y = 'a:b?table=c'") == {"x": [1]}
        refused(f"{place}?query=select '{SECRET}' from nothing", "the query is none of it")


def test_the_address_of_a_server_is_not_shown() -> None:
    for address in (f"postgres://me:{SECRET}@host/base?table=t", f"mysql://{SECRET}@host/base"):
        for name in ("records", "units"):
            with pytest.raises(RequestError, match="no address that Gossamer reads") as error:
                Source(**{"records": "t.csv", name: address})
            assert SECRET not in str(error.value)


def test_parts_of_a_table_must_agree(tmp_path: Path) -> None:
    first, second = tmp_path / "part-0.csv", tmp_path / "part-1.csv"
    first.write_text("a,b\n1,x\n2\n")
    second.write_text("a,b\n3,y\n4\n5,z\n")
    relation = open_table(tmp_path, split="train", where="t")
    assert [numbers.tolist() for numbers, _ in relation.blocks([0])] == [[0], [2, 4]]
    assert relation.ragged == [1, 3]
    second.write_text(f"{SECRET},9\n3,y\n")
    refused(tmp_path, "part-1.csv: this part has other columns than part-0.csv, or no line with their names")
    second.unlink()
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "part-1.parquet")
    refused(tmp_path, "files of 2 forms")
    first.unlink()
    parquet.write_table(pa.table({"a": ["1"]}), tmp_path / "part-2.parquet")
    refused(tmp_path, "part-2.parquet: columns of this part have other types")


def test_arrow_files_that_are_cut_are_refused(tmp_path: Path) -> None:
    table = pa.table({"a": [*range(1000)], "b": [SECRET] * 1000})
    for name, write in (
        ("t.arrow", pa.ipc.new_file),
        ("s.arrow", pa.ipc.new_stream),
        ("t.parquet", parquet.ParquetWriter),
    ):
        with write(tmp_path / name, table.schema) as file:
            file.write_table(table)
        raw = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(raw[: len(raw) - 700])
        refused(tmp_path / name, "no sound|cannot be read")


def test_a_folder_of_hive_is_refused_with_the_remedy(tmp_path: Path) -> None:
    part = tmp_path / "year=2031" / "town=Ulm"
    part.mkdir(parents=True)
    parquet.write_table(pa.table({"dose": [1, 2]}), part / "0.parquet")
    for look_at in (is_table, lambda folder: open_table(folder, split="train", where="t")):
        with pytest.raises(DataError, match=r"hold values of a column, as Hive writes them.*pandas\.read_parquet"):
            look_at(tmp_path)
    (part / "0.parquet").rename(part / "0.png")
    assert not is_table(tmp_path), "a class of pictures may be called so"


def test_the_longest_cell_of_the_csv_module_stays_that_of_the_process(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    (tmp_path / "t.csv").write_text('a,b\n1,"' + "x" * 200_000 + '"\n')
    assert look(tmp_path / "t.csv")
    assert csv.field_size_limit() == before
