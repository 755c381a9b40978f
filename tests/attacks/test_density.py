"""DOMIAS: the densities by hand, and overfitting that plain density hides."""

import numpy as np
import pytest
from scipy import special, stats
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from gossamer.attacks.density import domias
from gossamer.attacks.distances import full_black_box
from gossamer.errors import DataError


def _normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def _log_density(rows, at):
    """A Gaussian kernel estimate with Scott's bandwidth, by the definition."""
    n, d = rows.shape
    h = n ** (-1 / (d + 4))
    squares = ((at[:, None] - rows) ** 2).sum(axis=2)
    return special.logsumexp(-squares / (2 * h * h), axis=1) - np.log(n) - d / 2 * np.log(2 * np.pi * h * h)


def test_scores_against_the_definition_and_scipy():
    synthetic, members, nonmembers, reference = (_normal(seed, 60 + seed, 5) * [5, 3, 2, 1, 1] for seed in range(4))
    pca = PCA(3, whiten=True).fit(reference)
    samples, one, other, base = (pca.transform(rows) for rows in (synthetic, members, nonmembers, reference))
    expected = [_log_density(samples, at) - _log_density(base, at) for at in (one, other)]
    found = domias(synthetic, members, nonmembers, reference, components=3)
    # float32 components: relative error 1e-7 in squares of up to some tens
    assert found.roc.member_scores == pytest.approx(np.sort(expected[0]), abs=1e-4)
    assert found.roc.nonmember_scores == pytest.approx(np.sort(expected[1]), abs=1e-4)
    labels = np.r_[np.ones(len(one)), np.zeros(len(other))]
    assert found.estimate.value == pytest.approx(roc_auc_score(labels, np.r_[expected[0], expected[1]]), abs=1e-3)
    # Scaled to variance 1, the reference has the covariance that scipy would estimate.
    assert _log_density(base, one) == pytest.approx(stats.gaussian_kde(base.T).logpdf(one.T), abs=1e-9)


def test_ratio_sees_through_density():
    """A generator that overfits in a sparse region: the ratio finds it, distance alone prefers the dense one."""
    scale = np.where(np.arange(400) % 2, 6.0, 0.3)[:, None]
    members, nonmembers, reference = (_normal(seed, 400, 2) * scale for seed in (0, 1, 2))
    sparse = np.flatnonzero(scale[:, 0] > 1)
    synthetic = np.r_[_normal(3, 400, 2) * 0.3, np.repeat(members[sparse], 4, axis=0) + 0.1 * _normal(4, 800, 2)]
    ratio = domias(synthetic, members[sparse], nonmembers, reference, components=2)
    distance = full_black_box(synthetic, members[sparse], nonmembers)
    assert ratio.estimate.value > distance.estimate.value + 0.05


def test_a_generator_that_gives_one_picture_is_no_error():
    """Its density has no covariance; the kernel is the reference's."""
    x = _normal(0, 100, 4)
    found = domias(np.ones((50, 4)), x, _normal(1, 100, 4), _normal(2, 100, 4), components=3)
    assert found.estimate.low <= 0.5 <= found.estimate.high


def test_equal_sets_are_at_chance():
    x = _normal(0, 90, 4)
    assert domias(_normal(1, 200, 4), x, x, _normal(2, 100, 4), components=3).estimate.value == pytest.approx(0.5)


def test_bad_input_is_named():
    x = _normal(0, 20, 4)
    with pytest.raises(DataError, match="reference: 20 records of 4 values do not vary in 10 directions"):
        domias(x, x, x, x)
    with pytest.raises(DataError, match="reference: no records"):
        domias(x, x, x, x[:0], components=2)
