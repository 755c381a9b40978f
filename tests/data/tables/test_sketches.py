"""Summaries of a column in constant memory, against counts of all values."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from gossamer.data.tables.decode import mixed
from gossamer.data.tables.drafting.sketches import FREQUENT, KEPT, DifferentValues, Frequent, Spread

RANDOM = np.random.default_rng(7)


def blocks(values, size=10_000):
    for start in range(0, len(values), size):
        yield np.unique(values[start : start + size], return_counts=True)


def test_frequent_values_are_exact_until_there_are_many():
    values = RANDOM.integers(0, 900, 50_000)
    frequent = Frequent(1_000)
    for different, counts in blocks(values):
        frequent.add(pa.array(different), counts, counts)
    assert frequent.is_exact and frequent.counts == Counter(map(str, values.tolist()))


def test_frequent_values_among_many_have_lower_bounds():
    values = RANDOM.integers(0, 10**9, 200_000)
    values[RANDOM.random(len(values)) < 0.3] = 7
    values[RANDOM.random(len(values)) < 0.1] = -999
    true = Counter(map(str, values.tolist()))
    frequent = Frequent(1_000)
    for different, counts in blocks(values):
        frequent.add(pa.array(different), counts, counts)
    assert not frequent.is_exact and len(frequent.counts) <= FREQUENT
    for value in ("7", "-999"):
        assert true[value] - 2 * len(values) / FREQUENT <= frequent.counts[value] <= true[value]


@pytest.mark.parametrize("number", [1, 900, KEPT - 1, 400_000])
def test_how_many_values_differ(number):
    values = np.tile(np.arange(number, dtype=np.uint64), 2)
    different = DifferentValues()
    for found, counts in blocks(values):
        different.add(mixed(found), counts)
    assert different.number == (number if number < KEPT else pytest.approx(number, rel=0.03))
    assert not different.repeats


def test_whether_each_value_differs():
    different = DifferentValues()
    for found, counts in blocks(np.arange(300_000, dtype=np.uint64)):
        different.add(mixed(found), counts)
    assert different.repeats
    assert DifferentValues().each_differs and DifferentValues().number == 0


def test_ends_digits_and_zeros():
    spread = Spread()
    for numbers in ([5.0, -2.0, 0.0, 1e300], [0.25, -0.0, 7.0]):
        spread.add(np.array(numbers), np.full(len(numbers), 2))
    assert (spread.cells, spread.share_of(0), spread.digits) == (14, 4 / 14, 2) and not spread.is_whole
    assert spread.lowest.tolist() == [-2, 0, 0.25, 5, 7, 1e300]
    spread.add(np.array([np.pi]), np.array([1]))
    assert spread.digits == 10


@pytest.mark.parametrize(
    "draw", [lambda: RANDOM.normal(0, 5, 20_000), lambda: RANDOM.integers(1990, 2030, 20_000) + 0.0]
)
def test_shares_of_bins(draw):
    values, spread = draw(), Spread()
    for different, counts in blocks(values):
        spread.add(different, counts)
    cuts = np.linspace(values.min(), values.max(), 9)
    true = np.histogram(values, cuts)[0] / len(values)
    assert np.abs(spread.shares(cuts) - true).max() < 0.03
    half = np.where(values < 0, 1.0, values)
    spread = Spread()
    spread.add(*np.unique(half, return_counts=True))
    assert spread.shares(np.array([half.min(), half.max()]), [1.0])[0] == pytest.approx(1)
