"""Ambiguity, diversity and accuracy per class, against values by hand and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from gossamer.errors import DataError
from gossamer.metrics import per_class


def test_ambiguity_by_hand():
    """Entropies log 2, 0 and log 4: their mean is log 2."""
    rows = np.array([[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0.25] * 4], dtype=np.float32)
    found = per_class.ambiguity(rows)
    assert found.value == pytest.approx(math.log(2), abs=1e-7)
    half = stats.t.ppf(0.975, 2) * np.std([math.log(2), 0, math.log(4)], ddof=1) / math.sqrt(3)
    assert found.low == max(0.0, found.value - half)
    assert found.high == pytest.approx(min(math.log(4), found.value + half))
    assert found.n == 3
    assert found.computed_on == "3 samples; entropy of the predicted class in nats, at most 1.386"


def test_ambiguity_at_its_ends():
    assert per_class.ambiguity(np.eye(5)).value == 0.0
    assert per_class.ambiguity(np.full((4, 5), 0.2)).value == pytest.approx(math.log(5))


def test_diversity_by_hand():
    found = per_class.diversity(np.array([0, 0, 1, 2]), classes=4)
    assert found.value == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))
    assert found.n == 4
    assert found.low < found.value < found.high <= math.log(4)


def test_mode_dropping_lowers_diversity():
    even = per_class.diversity(np.arange(1000) % 10, classes=10)
    half = per_class.diversity(np.arange(1000) % 5, classes=10)
    one = per_class.diversity(np.full(1000, 3), classes=10)
    assert (even.value, even.high) == (pytest.approx(math.log(10)), pytest.approx(math.log(10)))
    assert half.value == pytest.approx(math.log(5))
    assert even.low > half.high > half.low > one.high
    assert one.value == one.low == 0.0


@pytest.mark.parametrize(
    "shares", [[0.1] * 10, [0.5, 0.3, 0.2], [0.97] + [0.01] * 3, [0.5, 0.499, 0.001]], ids=["even", "3", "peak", "rare"]
)
@pytest.mark.parametrize("n", [100, 2000])
def test_diversity_interval_covers(shares, n):
    """Nominal 95 %: of 300 draws at least 269 inside; a true 95 % falls below that in 1e-4 of cases (binomial)."""
    assert stats.binom.cdf(268, 300, 0.95) < 1e-4
    coins = np.random.default_rng(5)
    truth = -sum(share * math.log(share) for share in shares)
    found = [per_class.diversity(coins.choice(len(shares), size=n, p=shares), classes=len(shares)) for _ in range(300)]
    assert sum(one.low <= truth <= one.high for one in found) >= 269


def test_shares_recognised_are_wilson_by_label():
    labels, predicted = np.repeat([0, 2], [10, 6]), np.array([0] * 8 + [1, 2] + [2] * 3 + [0, 0, 1])
    found = per_class.shares_recognised(labels, predicted)
    assert list(found) == [0, 2]
    for one, right, n in ((0, 8, 10), (2, 3, 6)):
        expected = stats.binomtest(right, n).proportion_ci(method="wilson")
        assert (found[one].value, found[one].n) == (right / n, n)
        assert (found[one].low, found[one].high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    "rows, message",
    [
        (np.ones((1, 3)) / 3, "samples: fewer than two"),
        (np.array([[0.5, 0.5], [0.5, 0.6]]), "row 1 is not a distribution .1 such"),
        (np.array([[1.5, -0.5], [0.5, 0.5]]), "row 0"),
        (np.array([[np.nan, 1.0], [0.5, 0.5]]), "row 0"),
    ],
)
def test_bad_probabilities(rows, message):
    with pytest.raises(DataError, match=message):
        per_class.ambiguity(rows)
