"""Digests of tables, and which rows a split takes."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gossamer.data.columns.column import Column
from gossamer.data.fingerprint import is_taken
from gossamer.data.source import Source
from gossamer.data.split import split
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.raw_rows import RawRows, sums_of
from gossamer.data.tables.read import read_table
from gossamer.data.tables.split import sides
from gossamer.data.tables.table import Table, identify
from gossamer.errors import DataError, RequestError, RunFolderError

CODES = np.random.default_rng(0).integers(0, 3, (4000, 2)).astype(np.int32)


def test_the_mark_is_of_the_rows_in_any_order_and_the_fingerprint_is_not():
    one, other = identify(Table(CODES)), identify(Table(CODES[::-1].copy()))
    assert one.mark == other.mark and one.fingerprint != other.fingerprint
    assert identify(Table(CODES.copy())) == one
    changed = CODES.copy()
    changed[7, 1] = 2 - changed[7, 1] or 1
    assert identify(Table(changed)).mark != one.mark
    assert identify(Table(CODES.reshape(2000, 4))).mark != one.mark
    units = np.arange(4000) // 2
    with_units = identify(Table(CODES, units, np.array([str(n) for n in range(2000)])))
    assert with_units.mark == one.mark and with_units.fingerprint != one.fingerprint
    assert identify(Table(CODES[:0])).mark == ""


def test_a_copy_has_the_mark_of_the_rows_whatever_its_form_and_its_card(tmp_path: Path):
    text = "age,city,dose\n31,Bonn,1.50\n8,Zu\u0308rich,9.25\n99,NA,\n"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text("dose; city; AGE;\n;;99\n1.5;Bonn;31.0\n9.25;Zürich;8\n")
    frame = pd.read_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "c.parquet")
    coarse = _of_age(bins=2)
    sources = [tmp_path / "a.csv", tmp_path / "c.parquet", frame, {name: list(frame[name]) for name in frame}]
    marks = {identify(read_table(source, _of_age(bins=10))).mark for source in sources}
    marks |= {identify(read_table(tmp_path / "a.csv", coarse)).mark}
    marks |= {identify(read_table(tmp_path / "b.csv", dataclasses.replace(coarse, columns=(_age("AGE"),)))).mark}
    assert len(marks) == 1
    (tmp_path / "a.csv").write_text(text.replace("9.25", "9.26"))  # in a column that the card leaves out
    assert identify(read_table(tmp_path / "a.csv", coarse)).mark not in marks


def _age(name: str = "age", bins: int = 10) -> Column:
    return Column(name=name, kind="integer", bounds=(0, 99), bins=bins)


def _of_age(*, bins: int) -> TableCard:
    return TableCard(columns=(_age(bins=bins),), declared_size=3)


def test_raw_rows_in_blocks_of_any_order():
    rows = [("1", "a"), ("2", "b"), ("2", "b"), ("x", "")]

    def digest(*blocks: list[tuple[str, str]]) -> str:
        raw = RawRows()
        for block in blocks:
            raw.add(sums_of([pa.array(column) for column in zip(*block, strict=True)]))
        return raw.digest()

    assert digest(rows) == digest(rows[2:], rows[:2]) != digest(rows[:3])
    assert digest([("1", "2"), ("3", "4")]) != digest([("1", "4"), ("3", "2")])
    assert digest() == "" and RawRows().digest() == ""


def taken(codes: np.ndarray) -> np.ndarray:
    """Whether a share takes each row."""
    return np.array([*sides((row.tobytes() for row in codes), share=0.3, salt="s")])


def test_a_share_of_few_different_rows_has_their_proportions():
    public = taken(CODES)
    assert 0.25 < public.mean() < 0.35
    different = np.ravel_multi_index(CODES.T, (3, 3))
    assert np.abs(np.bincount(different[public], minlength=9) / np.bincount(different) - 0.3).max() < 0.1


def test_a_row_that_joins_moves_no_other():
    more = np.insert(CODES, 17, [1, 1], axis=0)
    before, after = CODES[taken(CODES)].tolist(), more[taken(more)].tolist()
    extra = len(after) - len(before)
    assert extra in (0, 1)
    assert sorted(after) == sorted([*before, *[[1, 1]] * extra])


def test_the_share_of_units_is_what_was_asked():
    assert 0.25 < np.mean([is_taken(f"p{n}", share=0.3, salt="s") for n in range(2000)]) < 0.35


def _rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return [*csv.reader(file, delimiter=";")]


def test_a_split_writes_every_row_once_as_it_is(tmp_path):
    rows = [[f"p{n // 2}", f"{n},5", 'a "b"\n'] for n in range(400)]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows([["id", "x", "text"], *rows])
    found = split(Source(tmp_path / "t.csv", units="id"), out=tmp_path / "out")
    counts, units = found.records, found.units
    train, test = _rows(tmp_path / "out/train.csv"), _rows(tmp_path / "out/test.csv")
    assert train[0] == test[0] == ["id", "x", "text"]
    assert sorted(train[1:] + test[1:]) == sorted(rows)
    assert counts == (len(train) - 1, len(test) - 1) and 40 < counts[1] < 120
    assert units == (counts[0] // 2, counts[1] // 2)
    assert {row[0] for row in train[1:]}.isdisjoint(row[0] for row in test[1:])
    assert (tmp_path / "out/train.csv").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    split(Source(tmp_path / "t.csv", units="id"), out=tmp_path / "again", seed=1)
    assert _rows(tmp_path / "again/test.csv") != test


def test_a_parquet_file_is_split_into_parquet_files(tmp_path):
    frame = pd.DataFrame({"x": range(300), "y": pd.Categorical(["a", None, "b"] * 100)})
    frame.to_parquet(tmp_path / "t.parquet")
    found = split(tmp_path / "t.parquet", out=tmp_path / "out", share=0.3)
    counts, units = found.records, found.units
    parts = [pd.read_parquet(tmp_path / f"out/{side}.parquet") for side in ("train", "test")]
    assert counts == units == tuple(map(len, parts)) and 60 < counts[1] < 120
    assert (
        pd.concat(parts).sort_values("x", ignore_index=True).astype({"y": object}).equals(frame.astype({"y": object}))
    )


def test_splits_that_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\n" + "1,2\n" * 50)
    (tmp_path / "ragged.csv").write_text("id,x\n1,2\n1\n")
    (tmp_path / "one.csv").write_text("id,x\n1,2\n")
    for name, options, kind, words in (
        ("t", {"share": 1.0}, RequestError, "between 0 and 1"),
        ("t", {"units": "who"}, DataError, "no column 'who'"),
        ("t", {"units": "id"}, RequestError, "no unit fell to"),
        ("one", {}, RequestError, "no unit fell to"),
        ("ragged", {}, DataError, "row 1 .* another number of values"),
    ):
        with pytest.raises(kind, match=words):
            split(Source(tmp_path / f"{name}.csv", units=options.pop("units", None)), out=tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    with pytest.raises(RunFolderError, match="replaces nothing"):
        split(tmp_path / "t.csv", out=tmp_path / "out")
