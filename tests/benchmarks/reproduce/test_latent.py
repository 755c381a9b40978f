"""Latent measures: closed forms, plain sums, intervals that cover."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score, silhouette_score

from benchmarks.reproduce.metrics.latent import (
    CAUCHY_SCALES,
    CauchySum,
    cluster_agreement,
    cluster_separation,
    hoyer_sparsity,
    iwae,
    prior_discrepancy,
)
from gossamer.errors import DataError
from gossamer.metrics import fidelity

CENTRES = np.array([[0.0, -1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
"""The prior of the pinwheel: Mathieu et al. 2019, as Takahashi et al. 2020 use it."""


def pinwheel(n, spread, *, seed=0):
    coins = np.random.default_rng(seed)
    labels = coins.integers(4, size=n)
    return CENTRES[labels] + spread * coins.normal(size=(n, 2)), labels


def test_sparsity_is_equation_17():
    codes = np.random.default_rng(0).normal(size=(40, 5)) * [1, 2, 3, 0.1, 100] + 0.3
    scaled = [[value / np.std(codes[:, j]) for j, value in enumerate(row)] for row in codes]
    expected = [(5**0.5 - sum(map(abs, z)) / sum(v * v for v in z) ** 0.5) / (5**0.5 - 1) for z in scaled]
    found = hoyer_sparsity(codes)
    assert found.value == pytest.approx(np.mean(expected), rel=1e-12)
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, 39) * stats.sem(expected), rel=1e-9)
    assert (found.n, found.computed_on) == (40, "codes of 40 records in 5 dimensions")


def test_sparsity_of_the_ends_and_of_the_prior():
    one_each = np.tile(np.eye(6), (5, 1)) * [1, -1, 2, 1, 1, 1]
    assert hoyer_sparsity(one_each).value == pytest.approx(1, rel=1e-12)
    alike = np.where(np.random.default_rng(1).random((30, 6)) < 0.5, 1.0, -1.0)
    alike[1] = -alike[0]
    unit = alike / alike.std(axis=0)
    assert hoyer_sparsity(unit * np.array([1, 5, 1, 1, 3, 1])).value < 0.02, "scale of a dimension does not matter"
    # Takahashi et al.: 80 % of the dimensions off. The sparse prior is sparser than the normal one.
    coins = np.random.default_rng(2)
    normal = coins.normal(size=(500, 50))
    sparse = np.where(coins.random((500, 50)) < 0.8, 0.05, 1.0) * coins.normal(size=(500, 50))
    assert hoyer_sparsity(normal).high < 0.3 < hoyer_sparsity(sparse).low


@pytest.mark.parametrize(
    "codes, message",
    [
        (np.zeros(4), "codes: an array of shape"),
        (np.ones((4, 1)), "one dimension"),
        (np.array([[1.0, 2.0], [1.0, 3.0]]), r"dimension 0 is constant \(1 such"),
        (np.array([[0.0, 0.0], [1.0, 3.0]]), r"row 0 is 0 throughout \(1 such"),
        (np.array([[0.0, np.nan], [1.0, 3.0]]), "row 0 holds a number that is not finite"),
    ],
)
def test_bad_codes(codes, message):
    with pytest.raises(DataError, match=message):
        hoyer_sparsity(codes)


def test_iwae_is_the_plain_sum():
    weights = np.random.default_rng(3).normal(-2, 1, size=(7, 20))
    expected = [math.log(sum(math.exp(w) for w in column) / 7) for column in weights.T]
    found = iwae(weights)
    assert found.value == pytest.approx(np.mean(expected), rel=1e-12)
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, 19) * stats.sem(expected), rel=1e-9)
    assert (found.n, found.computed_on) == (20, "20 records, 7 draws each")
    assert iwae(weights - 2000).value == pytest.approx(np.mean(expected) - 2000, rel=1e-12), "no underflow"
    weights[0] = -np.inf
    assert math.isfinite(iwae(weights).value)


def test_iwae_approaches_the_likelihood_from_below():
    """z, x|z normal, so x is N(0, 2). With q the prior the bound rises with k to log p(x), seen on 4,000 records.

    Tolerance at k = 2,000: the bias is under 0.01 and the choice of draws under 0.005 (both from a longer run).
    """
    coins = np.random.default_rng(4)
    x = coins.normal(0, math.sqrt(2), size=1000)
    truth = stats.norm.logpdf(x, 0, math.sqrt(2)).mean()
    bounds = [iwae(stats.norm.logpdf(x, coins.normal(size=(k, 1000)), 1)).value for k in (1, 10, 2000)]
    assert bounds[0] < bounds[1] - 0.1 < bounds[2]
    assert bounds[2] == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize(
    "weights, message",
    [
        (np.zeros(4), "it must be"),
        (np.zeros((4, 1)), "it must be"),
        (np.full((3, 2), -np.inf), r"record 0 has no finite likelihood \(2 such"),
        (np.array([[0.0, np.nan]]), "record 1"),
        (np.array([[0.0, np.inf]]), "record 1"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(DataError, match=message):
        iwae(weights)


def test_prior_discrepancy_is_the_papers_kernel():
    """Largest where the codes leave the prior in one dimension; a sum over dimensions of one-dimensional discrepancies."""
    coins = np.random.default_rng(5)
    prior, codes = coins.normal(size=(200, 3)), coins.normal(size=(150, 3))
    found = prior_discrepancy(codes, prior)
    kernel = CauchySum((0.2, 0.4, 1.0, 2.0, 4.0, 10.0))
    each = [fidelity.mmd(codes[:, [d]], prior[:, [d]], kernel=kernel).value for d in range(3)]
    assert found.value == pytest.approx(sum(each), rel=1e-9)
    assert prior_discrepancy(codes + np.array([0, 0, 1]), prior).low > found.high


def test_agreement_is_scikit_learns():
    codes, labels = pinwheel(400, 0.6)
    nearest = [min(range(4), key=lambda c: sum((code - CENTRES[c]) ** 2)) for code in codes]
    found = cluster_agreement(codes, labels, CENTRES)
    assert found.value == pytest.approx(adjusted_rand_score(labels, nearest))
    assert 0.1 < found.value < 0.9, "a test that can fail"
    assert (found.n, found.computed_on) == (400, "adjusted Rand index of 400 records and 4 centres")
    permuted = cluster_agreement(codes, 3 - labels, CENTRES)
    assert permuted.value == pytest.approx(found.value), "which centre a class has does not matter"


def test_agreement_interval_covers():
    """60 draws of 200 records: at a coverage of 95 % the bound of 81 % is missed with probability 4e-5 (binomial).

    The width is the spread of the index, known from 60 draws to 9 %: the bounds are about four times that.
    """
    found = [cluster_agreement(*pinwheel(200, 0.5, seed=seed), CENTRES) for seed in range(60)]
    values = np.array([one.value for one in found])
    assert np.mean([one.low <= values.mean() <= one.high for one in found]) > 0.81
    half = np.mean([one.value - one.low for one in found]) / 2.262  # t of 0.975 at nine degrees
    assert 0.65 < half / values.std() < 1.4


def test_separation_is_scikit_learns():
    codes, labels = pinwheel(400, 0.3)
    found = cluster_separation(codes, labels)
    assert found.value == pytest.approx(silhouette_score(codes, labels), rel=1e-9)
    assert found.low < found.value < found.high
    assert (found.n, found.computed_on) == (400, "silhouette of 400 records")


def test_flipped_labels_and_merged_clusters_lower_both():
    """Planted damage: labels drawn anew bring both to 0, and codes that have lost their clusters lower both."""
    codes, labels = pinwheel(400, 0.17)
    anew = np.random.default_rng(1).integers(4, size=400)
    merged, merged_labels = pinwheel(400, 1.0)
    agreement, separation = cluster_agreement(codes, labels, CENTRES), cluster_separation(codes, labels)
    assert agreement.value > 0.95
    assert abs(cluster_agreement(codes, anew, CENTRES).value) < 0.03
    assert cluster_separation(codes, anew).high < 0.05
    assert cluster_agreement(merged, merged_labels, CENTRES).high < agreement.low
    assert cluster_separation(merged, merged_labels).high < separation.low


@pytest.mark.parametrize(
    "change, message",
    [
        ({"codes": np.zeros((19, 2))}, "codes: .* at least 20"),
        ({"labels": np.zeros(40, int)}, "labels: all records have one class"),
        ({"labels": np.arange(39) % 2}, r"labels: .* integers \[40\]"),
        ({"labels": np.arange(40) / 2}, r"labels: .* integers \[40\]"),
        ({"centres": CENTRES[:1]}, "centres: an array of shape"),
        ({"centres": np.zeros((4, 3))}, r"centres: .* \[c, 2\]"),
    ],
)
def test_bad_clusters(change, message):
    good = {"codes": np.random.default_rng(0).normal(size=(40, 2)), "labels": np.arange(40) % 4, "centres": CENTRES}
    with pytest.raises(DataError, match=message):
        cluster_agreement(**{**good, **change})


def test_separation_needs_classes_of_several_records():
    with pytest.raises(DataError, match="a class of its own"):
        cluster_separation(np.eye(5), np.arange(5))


def test_the_sum_of_cauchy_kernels_is_the_plain_sum():
    coins = np.random.default_rng(3)
    a, b = coins.normal(size=(4, 3)), coins.normal(size=(5, 3))
    plain = [
        [sum(c / (c + (s - t) ** 2) for s, t in zip(x, y, strict=True) for c in CAUCHY_SCALES) for y in b] for x in a
    ]
    np.testing.assert_allclose(CauchySum()(a, b), plain, rtol=1e-12)
