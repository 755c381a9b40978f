"""A source of records: what it says, and what it never shows."""

from pathlib import Path

import numpy as np
import pytest

from gossamer.data.records import Records
from gossamer.data.source import Source, called, is_place, refuse_keys, source_of
from gossamer.errors import RequestError

RECORDS = Records(
    np.zeros((3, 1, 4, 4), np.uint8), np.zeros(3, np.int64), np.array([0, 1, 0]), np.array(["ann", "bob"])
)


def test_a_path_alone_is_a_source_and_a_source_stays_what_it_is() -> None:
    source = Source("scans", labels_key="eye")
    assert source_of(source) is source
    assert source_of("scans").records == "scans"
    assert [is_place(data) for data in (source, Path("scans"), RECORDS, Source(RECORDS))] == [True, True, False, False]
    assert [called(data, "train") for data in (source, Path("a/b"), RECORDS)] == ["scans", "a/b", "train"]


def test_records_bring_the_ids_of_their_units_unless_others_are_named() -> None:
    assert Source(RECORDS).ids.tolist() == ["ann", "bob", "ann"]
    assert Source(RECORDS, units=[7, 8, 9]).ids == [7, 8, 9]
    assert Source("scans").ids is None
    assert Source("scans", units=Path("people.csv")).ids == "people.csv"


def test_it_shows_no_record_and_no_id() -> None:
    shown = repr(Source(RECORDS, units=["Ms X", "Ms Y", "Ms X"]))
    assert shown == "Source(in memory)"
    assert repr(Source("scans", units=["Ms X"])) == "Source('scans')"


def test_a_key_is_text() -> None:
    with pytest.raises(RequestError, match="labels_key must be text or None, not of type int"):
        Source("scans", labels_key=3)  # type: ignore[arg-type]  # the wrong call under test


def test_keys_are_refused_for_tables() -> None:
    refuse_keys(Source("people.csv"))
    with pytest.raises(RequestError, match=r"^`labels_key`: this is for pictures, and the data are a table"):
        refuse_keys(Source("people.csv", labels_key="eye"))
