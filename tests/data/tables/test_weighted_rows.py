"""Rows that are weighted while they are read, in constant memory: the same counts as of rows with units in memory."""

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from gossamer.data import memory_mapped
from gossamer.data.columns.column import Column
from gossamer.data.source import Source
from gossamer.data.tables import table as tables
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.encode import TableEncoder
from gossamer.data.tables.read import read_table
from gossamer.data.tables.table import GRID, Map, Table, WeightedTable, identify, together
from gossamer.errors import DataError

NAN = float("nan")
COLUMNS = {
    "text": ["a", "é", "e\u0301", " b ", "", None, "n/a", "a"],
    "amount": [1.5, NAN, -0.0, 1e12, 7.25, None, 3.0, 10.0],
    "age": [1, 2, 3, 99, 99, None, 0, 10**9],
    "time": pa.array(["2024-03-31T01:30Z", "2024-10-27T00:30Z", None, *["2024-07-01T12:00Z"] * 5]).cast(
        pa.timestamp("ns", "UTC")
    ),
}
IDS = ["007", "7", "7.0", " p1", "p1", "\u00e9", "e\u0301", "7"]
CARD = TableCard(
    columns=(
        Column(name="text", kind="category", values=("a", "é", "b"), missing=True),
        Column(name="amount", kind="number", bounds=(0.0, 10.0), bins=4, zero=True, outside="clip", missing=True),
        Column(name="age", kind="integer", bounds=(0, 3), special=(99,), outside="other", missing=True),
        Column(
            name="time", kind="datetime", bounds=("2024-01-01T00:00:00", "2025-01-01T00:00:00"), bins=12, missing=True,
            zone="Europe/Berlin",
        ),
    ),
    declared_size=5, unit="person", max_rows=2, missing_unit="own",
)  # fmt: skip
MAPS: list[Map] = [(k, np.arange(size)) for k, size in enumerate(CARD.domain)]
CLIQUES = [clique for k in (1, 2, 3) for clique in itertools.combinations(range(4), k)]


def written(folder: Path, ids: Any, times: int = 1) -> Source:
    names = [*COLUMNS, "id"]
    block = pa.table([*COLUMNS.values(), pa.array(ids)], names=names)
    parquet.write_table(pa.concat_tables([block] * times), folder / "t.parquet", row_group_size=5)
    return Source(str(folder / "t.parquet"), units="id")


def counted(held: Table) -> list[list[int]]:
    return [each.tolist() for each in held.counts(MAPS, CLIQUES, CARD.max_rows)]


@pytest.mark.parametrize(
    "ids", [IDS, [None, "", *IDS[2:]], [7, 7, 7, 7, None, 8, None, 9]], ids=["text", "some", "whole"]
)
def test_weighted_rows_have_the_counts_of_rows_with_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: Any
) -> None:
    """Also where hashes and codes are in files, owners are sorted in parts, and three threads count."""
    source = written(tmp_path, ids, times=3)
    whole = read_table(source, CARD)
    weighted = read_table(source, CARD, only_counts=True)
    monkeypatch.setattr(tables, "_PARTS", 3)
    monkeypatch.setattr(pa, "cpu_count", lambda: 3)
    monkeypatch.setattr(tables, "_ROWS", 5)
    monkeypatch.setattr(tables, "ROOM", 64)
    in_files = read_table(source, CARD, only_counts=True)
    for held in (weighted, in_files):
        assert isinstance(held, WeightedTable)
        assert counted(held) == counted(whole)
        assert (held.population, held.without_id, held.mark) == (whole.population, whole.without_id, whole.mark)
    assert identify(weighted) == identify(in_files)


def test_an_id_is_one_person_however_it_is_written(tmp_path: Path) -> None:
    """Four rows of person 7, and two of each other person, of whom two rows count in full."""
    held = read_table(written(tmp_path, IDS), CARD, only_counts=True)
    assert isinstance(held, WeightedTable)
    assert held.weights.tolist() == [GRID // 2] * 3 + [GRID] * 4 + [GRID // 2]
    assert held.population == 3


@pytest.mark.parametrize("at", range(len(IDS)))
def test_a_person_moves_each_table_by_at_most_what_counts_in_full(tmp_path: Path, at: int) -> None:
    """With all rows of a person gone, at any position. Others keep their weights to the last bit."""
    ids = ["7" if each in ("007", "7.0") else each.strip().replace("e\u0301", "é") for each in IDS]
    stay = [k for k, each in enumerate(ids) if each != ids[at]]
    source = written(tmp_path, IDS)
    whole = read_table(source, CARD, only_counts=True)
    kept = parquet.read_table(tmp_path / "t.parquet").take(stay)
    parquet.write_table(kept, tmp_path / "t.parquet")
    fewer = read_table(source, CARD, only_counts=True)
    for before, after in zip(counted(whole), counted(fewer), strict=True):
        moved = np.subtract(before, after)
        assert moved.min() >= 0
        assert moved.sum() <= CARD.max_rows * GRID


def test_faults_of_ids_name_rows_and_no_value(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 5 \(counted from 0\).*the id of the unit is a word") as error:
        read_table(written(tmp_path, [*IDS[:5], "none", *IDS[6:]]), CARD, only_counts=True)
    assert "p1" not in str(error.value)


def test_weighted_rows_are_counted_together(tmp_path: Path) -> None:
    held = read_table(written(tmp_path, IDS), CARD, only_counts=True)
    assert held.take(np.arange(held.population)) is held
    with pytest.raises(TypeError, match="together"):
        held.take(np.arange(1))
    with pytest.raises(ValueError, match="weighted for 2"):
        held.counts(MAPS, CLIQUES, 3)


def test_pages_of_a_file_leave_the_memory_and_stay_readable() -> None:
    held = memory_mapped.Filling(in_memory=0)
    held.add(np.arange(1 << 20))
    array = held.array((-1,), np.dtype(np.int64))
    assert int(array.sum()) == (1 << 20) * ((1 << 20) - 1) // 2
    memory_mapped.forget(array)
    assert int(array[-1]) == (1 << 20) - 1
    memory_mapped.forget(np.zeros(3))


def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, encode = written(tmp_path, IDS), TableEncoder.encode

    def slow(*given: Any) -> np.ndarray:
        os.utime(tmp_path / "t.parquet", (1, 1))
        return encode(*given)

    monkeypatch.setattr(TableEncoder, "encode", slow)
    with pytest.raises(DataError, match="has changed while it was read"):
        read_table(source, CARD, only_counts=True)


def test_whole_numbers_are_the_ids_that_their_texts_are() -> None:
    """Blocks of one source may have either. Numbers of more than 64 bits are texts."""
    mixed_ids, texts = tables.Owners(), tables.Owners()
    texts._encrypt, texts._key = mixed_ids._encrypt, mixed_ids._key
    numbers = [7, -7, 0, 2**63 - 1, -(2**63), 7]
    mixed_ids.add_numbers(np.array(numbers))
    texts.add([str(each) for each in numbers])
    parts = zip(mixed_ids._parts, texts._parts, strict=True)
    assert all(bytes(one._values) == bytes(other._values) for one, other in parts)
    assert sum(map(len, texts._parts)) == 24 * len(numbers)
    texts.add(["9" * 19, "007", "p"])
    assert texts.weighted(Table(np.zeros((9, 1), np.int16)), 1).population == 8


def test_ids_whose_hashes_begin_alike_are_two_persons() -> None:
    owners = tables.Owners()
    owners._add(np.array([[1, 5], [2, 5], [1, 4], [1, 5], [1, 4], [2, 5]], np.uint64).tobytes())
    held = owners.weighted(Table(np.zeros((6, 1), np.int16)), 1)
    assert held.population == 3
    assert held.weights.tolist() == [GRID // 2] * 6


def test_each_clique_is_counted_in_one_table():
    """Two tables that small ones are joined to may become the same one."""
    rng = np.random.default_rng(0)
    for sizes in [[10, 15, 26, 14], *(rng.integers(2, 40, rng.integers(3, 10)).tolist() for _ in range(200))]:
        cliques = [*itertools.combinations(range(len(sizes)), 2)]
        covers = together(cliques, sizes)
        assert sorted(clique for own in covers.values() for clique in own) == cliques
        assert all({*clique} <= {*cover} for cover, own in covers.items() for clique in own)


def test_threads_give_what_is_made_in_the_order_of_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few items are taken ahead, and an error comes in its turn."""
    monkeypatch.setattr(pa, "cpu_count", lambda: 3)
    taken, found = list[int](), list[float]()
    items = (taken.append(k) or k for k in (5, 4, 3, 2, 1, 0, 7, 8))  # type: ignore[func-returns-value]  # notes k
    with pytest.raises(ZeroDivisionError):
        for made in memory_mapped.in_threads(lambda k: 60 / k, items):
            found.append(made)
            assert len(taken) <= len(found) + 3
    assert found == [12, 15, 20, 30, 60]
