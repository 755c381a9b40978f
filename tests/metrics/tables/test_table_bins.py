"""Bins that follow from real values."""

import numpy as np
import pytest

from gossamer.data.columns.column import Column
from gossamer.metrics.tables.bins import BINS, Bins

NUMBER = Column(name="x", kind="number", bounds=(0, 10), bins=2, missing=True, outside="other")
NAN = float("nan")


def codes(found: Bins, values: list[float]) -> list[int]:
    return found.codes(np.zeros(len(values), np.int32), np.array(values)).tolist()


def test_bins_have_equal_numbers_of_rows() -> None:
    values = np.random.default_rng(0).permutation(np.arange(1_000.0))
    found = Bins.of(NUMBER, values)
    assert found.in_order == BINS and len(found.names) == BINS + 3
    counts = np.bincount(found.codes(np.zeros(1_000, np.int32), values))
    assert counts.tolist() == [100] * BINS
    assert found.names[0] == "0 to 100" and found.names[-3:] == ["elsewhere", "other", "missing"]
    assert codes(found, [-0.1, 999.1, 999.0, 99.5]) == [BINS, BINS, BINS - 1, 0]


def test_a_value_that_many_rows_have_stands_alone() -> None:
    """0 and 7 in every tenth row, the others between 1 and 5."""
    draw = np.random.default_rng(0)
    values = np.concatenate([np.zeros(100), np.full(100, 7.0), draw.uniform(1, 5, 800)])
    found = Bins.of(NUMBER, values)
    assert (
        found.alone.sum() == 2
        and found.names[0] == "0"
        and found.names[1].startswith("0 to ")
        and found.names[found.in_order - 1] == "7"
    )
    assert codes(found, [0, 7, 0.5, 1.0]) == [0, found.in_order - 1, 1, 1], "next to a value is not that value"


def test_between_neighbours_that_stand_alone_is_elsewhere() -> None:
    found = Bins.of(NUMBER, np.repeat([1.0, 2.0, 3.0], 50))
    assert found.names[:4] == ["1", "2", "3", "elsewhere"]
    assert codes(found, [1, 2, 3, 1.5, 0, 4]) == [0, 1, 2, 3, 3, 3]


def test_what_is_no_number_keeps_its_code() -> None:
    found = Bins.of(NUMBER, np.array([1.0, 2.0, NAN]))
    given = np.array([0, NUMBER.other_code, NUMBER.missing_code], np.int32)
    names = [found.names[code] for code in found.codes(given, np.array([1.0, NAN, NAN]))]
    assert names == ["1", "other", "missing"]
    empty = Bins.of(NUMBER, np.array([NAN]))
    assert empty.names[-1] == "missing" and codes(empty, [5.0]) == [empty.in_order]


@pytest.mark.parametrize("ordered", [True, False])
def test_categories_are_their_own_bins(ordered: bool) -> None:
    column = Column(name="x", kind="category", values=("a", "b"), ordered=ordered, missing=True)
    found = Bins.of(column, np.array([0.0, 1.0]))
    assert found.names == ["a", "b", "missing"] and found.in_order == 2 * ordered
    assert found.codes(np.array([2, 0], np.int32), np.array([2.0, 0.0])).tolist() == [2, 0]
