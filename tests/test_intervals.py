"""Intervals over groups of records."""

import math

import numpy as np
import pytest
from scipy import stats

from gossamer.intervals import jackknife, noisy_share, proportion


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


def test_noisy_counts_without_noise_have_wilsons_interval() -> None:
    plain, noisy = proportion(90, 100, ""), noisy_share(90.0, 10.0, 0.0, "")
    assert (noisy.value, noisy.low, noisy.high) == pytest.approx((plain.value, plain.low, plain.high))


@pytest.mark.parametrize(
    ("n", "share", "noise"), [(500, 0.9, 10.0), (5000, 0.95, 60.0), (100, 0.99, 10.0), (3000, 0.5, 5.0)]
)
def test_intervals_of_noisy_counts_cover_noise_and_sampling(n: int, share: float, noise: float) -> None:
    draw = np.random.default_rng(0)
    right = draw.binomial(n, share, size=2000)
    errors = draw.normal(scale=noise, size=(2, 2000))
    found = [noisy_share(r + one, n - r + other, noise, "") for r, one, other in zip(right, *errors, strict=True)]
    covered = np.mean([each.low <= share <= each.high for each in found])
    assert 0.93 < covered < 0.98  # most at 0.99 of 100, where many counts are beyond the scale


def test_noise_that_may_cover_all_counts_leaves_nothing_known() -> None:
    for counts in ((10.0, -3.0), (-20.0, 5.0), (30.0, 2.0)):
        found = noisy_share(*counts, 10.0, "")
        assert (found.low, found.high) == (0, 1)


def test_noisy_counts_beyond_the_scale_stay_on_it() -> None:
    found = noisy_share(1010.0, -10.0, 5.0, "")
    assert found.value == found.high == 1
    assert 0.98 < found.low < 1
