"""Intervals over groups of records."""

import math

import numpy as np
import pytest
from scipy import stats

from gossamer.intervals import jackknife


def test_the_jackknife_of_a_mean_is_the_t_interval_of_the_groups() -> None:
    """Of groups of equal size, the means without a group spread by exactly the standard error of the mean of groups."""
    groups = np.random.default_rng(0).normal(5, 2, (20, 50))
    without = [np.delete(groups, group, axis=0).mean() for group in range(20)]
    found = jackknife(groups.mean(), without, 1_000, "numbers")
    expected = stats.t.interval(0.95, 19, groups.mean(), stats.sem(groups.mean(axis=1)))
    assert (found.low, found.high) == pytest.approx(expected)
    assert (found.n, found.computed_on) == (1_000, "numbers")


def test_the_interval_ends_where_the_scale_does() -> None:
    found = jackknife(0.99, [0.9, 1.0, 0.95], 3, "", lowest=0, highest=1)
    assert found.low > 0 and found.high == 1
    unknown = jackknife(0.5, [0.5, math.nan], 2, "", lowest=0, highest=1)
    assert (unknown.low, unknown.high) == (0, 1)
    with pytest.raises(ValueError, match="at least two groups, not 1"):
        jackknife(0.5, [0.5], 1, "")


def test_the_interval_covers_as_often_as_it_says() -> None:
    """Of the distance of a coin from 0.2, over 400 samples of 1,000: 95 %, give or take three standard errors."""
    draw, covered = np.random.default_rng(1), 0
    for _ in range(400):
        groups = draw.binomial(50, 0.3, 20)
        without = abs((groups.sum() - groups) / 950 - 0.2)
        found = jackknife(abs(groups.sum() / 1_000 - 0.2), without.tolist(), 1_000, "")
        covered += found.low <= 0.1 <= found.high
    assert covered / 400 == pytest.approx(0.95, abs=3 * math.sqrt(0.95 * 0.05 / 400))
