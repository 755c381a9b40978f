"""Summaries of a column in constant memory, against counts of all values."""

import tracemalloc

import numpy as np
import pytest

from gossamer.data.tables.decode import mixed
from gossamer.data.tables.drafting.sketches import KEPT, MOST_DIGITS, DifferentValues, Spread

RANDOM = np.random.default_rng(7)


def blocks(values, size=10_000):
    for start in range(0, len(values), size):
        yield np.unique(values[start : start + size], return_counts=True)


@pytest.mark.parametrize("number", [1, 900, KEPT - 1, 400_000])
def test_how_many_values_differ(number):
    values = np.tile(np.arange(number, dtype=np.uint64), 2)
    different = DifferentValues()
    for found, counts in blocks(values):
        different.add(mixed(found), counts)
    different.merge()
    assert different.number == (number if number < KEPT else pytest.approx(number, rel=0.03))
    assert different.repeats


def test_whether_each_value_differs():
    different = DifferentValues()
    for found, counts in blocks(np.arange(300_000, dtype=np.uint64)):
        different.add(mixed(found), counts)
    different.merge()
    assert not different.repeats
    assert not DifferentValues().repeats and DifferentValues().number == 0


def test_ends_digits_and_zeros():
    spread = Spread()
    for numbers in ([5.0, -2.0, 0.0, 1e300], [0.25, -0.0, 7.0]):
        spread.add(np.array(numbers), np.full(len(numbers), 2))
    assert (spread.cells, spread.count_of(0), spread.digits, spread.steps) == (14, 4, 2, 2**63) and not spread.is_whole
    assert spread.lowest.tolist() == [-2, 0, 0.25, 5, 7, 1e300]
    spread.add(np.array([np.pi]), np.array([1]))
    assert spread.digits == MOST_DIGITS


def test_a_sample_of_many_numbers_has_the_share_of_each():
    values, spread = RANDOM.normal(0, 5, 1_000_000), Spread()
    values[RANDOM.random(len(values)) < 0.01] = -99
    for different, counts in blocks(values):
        spread.add(different, counts)
    assert KEPT // 2 < len(spread.sample) <= KEPT
    assert spread.count_of(-99) == pytest.approx((values == -99).sum(), rel=0.1)
    cuts = np.linspace(-10, 10, 9)
    sample = spread.sample[spread.sample != -99]
    shares = [np.histogram(each, cuts)[0] / len(each) for each in (sample, values[values != -99])]
    assert np.abs(shares[0] - shares[1]).max() < 0.01


def test_numbers_that_were_counted_in_all_rows_need_no_cell_for_each():
    spread, counts = Spread(), np.array([1_000_000, 8_000_000, 1_000_000])
    tracemalloc.start()
    spread.add(np.array([3.0, -1.0, 8.5]), counts)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4e6  # the cells would be 80 MB
    assert (spread.cells, spread.digits) == (10_000_000, 1) and KEPT // 2 < len(spread.sample) <= KEPT
    assert [spread.count_of(number) for number in (3, -1, 8.5)] == pytest.approx(counts, rel=0.01)
    spread.add(np.array([0.0]), np.array([10_000_000]))
    assert [spread.count_of(number) for number in (0, -1)] == pytest.approx([10_000_000, 8_000_000], rel=0.01)
