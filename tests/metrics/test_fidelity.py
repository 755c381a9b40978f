"""Fidelity: values against independent calculations, intervals that cover, and planted damage on drawn pictures."""

import math

import numpy as np
import pytest
from scipy import linalg
from scipy.ndimage import gaussian_filter
from scipy.spatial.distance import pdist

from gossamer.data.synthetic.glyphs import draw
from gossamer.errors import DataError, RequestError
from gossamer.metrics import fidelity
from gossamer.metrics.features import ClassifierFeatures
from gossamer.metrics.fidelity import RBF, Moments, frechet, frechet_distance, inception_score, mmd


class Pixels:
    """The pixels themselves as features."""

    name = "pixels"
    distance_name = "pixel distance"

    def __init__(self, width):
        self.width = width
        self.calls = []

    def __call__(self, images):
        self.calls.append(len(images))
        return images.reshape(len(images), -1).astype(np.float32)


def vectors(n, d, *, seed, shift=0.0):
    """Correlated normal vectors."""
    coins = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(d, d))
    return coins.normal(size=(n, d)) @ mixing + shift


# Moments


def test_moments_are_numpys():
    x = vectors(500, 7, seed=0)
    whole, parts = Moments.of(x), Moments.of(x[:0])
    for start, end in ((0, 1), (1, 130), (130, 130), (130, 500)):
        parts += Moments.of(x[start:end])
    for found in (whole, parts):
        assert found.n == 500
        np.testing.assert_allclose(found.mean, x.mean(0), rtol=1e-12)
        np.testing.assert_allclose(found.covariance, np.cov(x.T), rtol=1e-11)


def test_moments_keep_their_digits_far_from_zero():
    """At a mean of 1e7 the textbook formula, sum of squares less square of the sum, loses all digits of a variance of 1."""
    x = np.random.default_rng(1).normal(size=(4000, 2)) + 1e7
    stream = sum((Moments.of(part) for part in np.array_split(x, 40)), Moments.of(x[:0]))
    np.testing.assert_allclose(stream.covariance, np.cov(x.T), rtol=1e-7, atol=1e-8)


def test_moments_of_float32_are_float64():
    x = np.full((1000, 1), 0.1, np.float32)
    x[::2] += np.float32(1e-3)
    found = Moments.of(x)
    assert found.covariance[0, 0] == pytest.approx(np.var(x.astype(np.float64), ddof=1), rel=1e-9)


def test_a_row_that_is_not_finite_has_no_moments():
    with pytest.raises(DataError, match=r"row 1 holds a number that is not finite \(1 such"):
        Moments.of(np.array([[0.0], [np.nan]]))


# The Frechet distance


@pytest.mark.parametrize("d", [1, 5, 60])
def test_frechet_is_scipys(d):
    x, y = vectors(300, d, seed=1), vectors(400, d, seed=2, shift=0.3) * 1.2
    A, B = np.atleast_2d(np.cov(x.T)), np.atleast_2d(np.cov(y.T))
    root = linalg.sqrtm(A @ B)
    expected = ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(A + B - 2 * root.real)
    assert frechet_distance(Moments.of(x), Moments.of(y)) == pytest.approx(expected, rel=1e-6)
    assert frechet_distance(Moments.of(y), Moments.of(x)) == pytest.approx(expected, rel=1e-6)


def test_frechet_in_closed_form():
    """For covariances that commute: the squared distance of the means and of the standard deviations."""
    a = Moments(10, np.array([1.0, 2.0]), 9 * np.diag([4.0, 9.0]))
    b = Moments(10, np.array([1.0, 5.0]), 9 * np.diag([1.0, 16.0]))
    assert frechet_distance(a, b) == pytest.approx(9 + 1 + 1, rel=1e-12)
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-12)


def test_frechet_of_singular_covariances():
    """Features that are always 0, in one set or both, cost no digits and no complex numbers."""
    coins = np.random.default_rng(3)
    x, y = coins.normal(size=(400, 30)), coins.normal(size=(400, 30))
    x[:, 20:] = 0
    y[:, 25:] = 0
    A, B = np.cov(x.T), np.cov(y.T)
    # By hand: only the first 20 features have a root; the variances of y's next five stay as they are.
    root = linalg.sqrtm(A[:20, :20] @ B[:20, :20]).real
    apart = ((x.mean(0) - y.mean(0)) ** 2).sum()
    expected = apart + np.trace(A) + np.trace(B) - 2 * np.trace(root)
    # x lives in 20 dimensions, so of B only its part there counts, for which the root of A B is that of the block.
    assert frechet_distance(Moments.of(x), Moments.of(y)) == pytest.approx(expected, rel=1e-6)
    assert frechet_distance(Moments.of(x), Moments.of(x)) < 1e-10


def test_frechet_of_pictures_is_that_of_their_moments():
    """Whatever the order and the batches; n, words and scale as stated."""
    coins = np.random.default_rng(4)
    a, b = (coins.integers(256, size=(n, 1, 2, 2), dtype=np.uint8) for n in (6100, 5300))
    features = Pixels(4)
    found = frechet(a, b // 2, features)
    assert max(features.calls) == 5000, "features are streamed"
    plain = frechet_distance(Moments.of(a.reshape(-1, 4)), Moments.of((b // 2).reshape(-1, 4)))
    assert found.value == pytest.approx(plain, rel=1e-9)
    assert found.n == 5300
    assert found.computed_on == "pixel distance of 6,100 and 5,300 pictures on pixels"


def test_frechet_interval_covers_the_choice_of_pictures():
    """200 draws of both sets: 95 % of the intervals hold the mean distance, and their width is the spread of the distance.

    At a coverage of 95 % the bound of 87 % is missed with probability 1e-5 (binomial); the ratio of widths has a standard
    deviation of about 0.055 (0.05 from the 200 draws), so 0.25 is more than four of them.
    """
    coins = np.random.default_rng(5)
    found = []
    for _ in range(200):
        a, b = (np.clip(coins.normal(128, 30, size=(200, 1, 1, 3)) + move, 0, 255) for move in (0, 20))
        found.append(frechet(a.astype(np.uint8), b.astype(np.uint8), Pixels(3)))
    values = np.array([one.value for one in found])
    inside = [one.low <= values.mean() <= one.high for one in found]
    assert np.mean(inside) > 0.87
    half = np.mean([one.high - one.value for one in found]) / 2.262  # t of 0.975 at nine degrees
    assert 0.75 < half / values.std() < 1.25


def test_frechet_of_sorted_pictures_has_an_honest_interval():
    """A file sorted by class gives an interval of the same order as a shuffled one: groups are random, not consecutive."""
    coins = np.random.default_rng(6)
    images, other = (coins.integers(256, size=(2000, 1, 1, 2), dtype=np.uint8) for _ in range(2))
    images = images[np.argsort(images[:, 0, 0, 0], kind="stable")]
    width = {}
    for name, order in (("sorted", np.arange(2000)), ("shuffled", coins.permutation(2000))):
        found = frechet(images[order], other // 2, Pixels(2))
        width[name] = found.high - found.value
    assert 1 / 3 < width["sorted"] / width["shuffled"] < 3


def test_frechet_of_constant_pictures_is_finite():
    grey = np.full((50, 1, 3, 3), 77, np.uint8)
    noise = np.random.default_rng(7).integers(256, size=(50, 1, 3, 3), dtype=np.uint8)
    assert frechet(grey, grey, Pixels(9)).value == 0
    found = frechet(grey, noise, Pixels(9))
    flat = noise.reshape(50, 9).astype(float)
    assert found.value == pytest.approx(((flat.mean(0) - 77) ** 2).sum() + flat.var(0, ddof=1).sum(), rel=1e-9)
    assert math.isfinite(found.high)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"samples": np.zeros((24, 2, 2), np.uint8)}, "samples: .* 3 axes"),
        ({"records": np.zeros((24, 1, 2, 2))}, "records: an array of float64"),
        ({"samples": np.zeros((24, 4, 1, 1), np.uint8)}, "samples: pictures of 1x1 with 4 channels, but the records"),
        ({"samples": np.zeros((19, 1, 2, 2), np.uint8)}, "samples: 19 pictures are too few"),
    ],
)
def test_bad_pictures_are_named(change, message):
    arrays = {"samples": np.zeros((24, 1, 2, 2), np.uint8), "records": np.zeros((24, 1, 2, 2), np.uint8)}
    with pytest.raises(DataError, match=message):
        frechet(**{**arrays, **change}, features=Pixels(4))
    with pytest.raises(DataError, match="24 pictures are too few for a Frechet distance on 30 features"):
        frechet(**arrays, features=Pixels(30))


# The Inception score


def test_inception_score_is_the_plain_sum():
    coins = np.random.default_rng(8)
    p = coins.dirichlet([0.3] * 5, size=47)
    scores = []
    for i in range(4):
        part = p[i * 47 // 4 : (i + 1) * 47 // 4]
        marginal = [sum(row[c] for row in part) / len(part) for c in range(5)]
        kl = [sum(q * math.log(q / m) for q, m in zip(row, marginal, strict=True) if q > 0) for row in part]
        scores.append(math.exp(sum(kl) / len(kl)))
    found = inception_score(p, splits=4)
    assert found.value == pytest.approx(np.mean(scores), rel=1e-9)
    assert found.high - found.value == pytest.approx(3.182446 * np.std(scores, ddof=1) / 2, rel=1e-6)  # t, 3 degrees
    assert found.n == 4
    assert found.computed_on == "47 samples in 4 consecutive splits, 5 classes"


def test_inception_score_keeps_its_scale():
    """All classes, sure of each: as many as there are. One class, or a classifier that knows nothing: 1."""
    sure = np.tile(np.eye(7), (10, 1))
    assert inception_score(sure).value == pytest.approx(7, rel=1e-12)
    assert inception_score(np.tile(np.eye(7)[2], (70, 1))).value == 1
    assert inception_score(np.full((70, 7), 1 / 7)).value == pytest.approx(1, rel=1e-12)
    assert inception_score(np.repeat(np.eye(7), 10, axis=0), splits=7).value == 1, (
        "sorted by class, as the docstring warns"
    )


@pytest.mark.parametrize(
    "probabilities, message",
    [
        (np.zeros((30, 3)), "row 0 is not a distribution"),
        (np.r_[np.full((29, 2), 0.5), [[1.5, -0.5]]], r"row 29 is not a distribution \(1 such"),
        (np.r_[np.full((29, 2), 0.5), [[np.nan, 1]]], r"row 29 is not a distribution \(1 such"),
    ],
)
def test_bad_probabilities(probabilities, message):
    with pytest.raises(DataError, match=message):
        inception_score(probabilities)


@pytest.mark.parametrize("splits", [1, 11])
def test_bad_splits(splits):
    with pytest.raises(RequestError, match="splits"):
        inception_score(np.full((20, 2), 0.5), splits=splits)


# The maximum mean discrepancy


def plain_mmd(x, y, kernel):
    n, m = len(x), len(y)
    within_x = sum(kernel(x[i], x[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    within_y = sum(kernel(y[i], y[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    return within_x + within_y - 2 * sum(kernel(a, b) for a in x for b in y) / (n * m)


def plain_rbf(x, y):
    return math.exp(-sum((x - y) ** 2) / (2 * 1.7**2))


def test_mmd_is_the_plain_sum(monkeypatch):
    """In one block and in many, and its interval is that of a jackknife done by leaving vectors out."""
    kernel, plain = RBF(1.7), plain_rbf
    x, y = vectors(17, 3, seed=1), vectors(23, 3, seed=2, shift=1)
    expected = plain_mmd(x, y, plain)
    found = mmd(x, y, kernel=kernel)
    assert found.value == pytest.approx(expected, rel=1e-6)
    assert mmd(y, x, kernel=kernel).value == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr(fidelity, "_PAIRS", 50)
    in_blocks = mmd(x, y, kernel=kernel)
    assert (in_blocks.value, in_blocks.high) == pytest.approx((found.value, found.high), rel=1e-9)
    no_x = np.array([plain_mmd(np.delete(x, i, 0), y, plain) for i in range(17)])
    no_y = np.array([plain_mmd(x, np.delete(y, j, 0), plain) for j in range(23)])
    error = math.sqrt(16 * no_x.var() + 22 * no_y.var())
    assert found.high - found.value == pytest.approx(1.959964 * error, rel=1e-6)
    assert found.n == 17


def test_mmd_is_unbiased_and_its_interval_covers():
    """300 draws from one source average 0, within 4.9 standard errors (error rate 1e-6); from two, intervals cover.

    At 95 % the bound of 89 % is missed with probability 2e-5 (binomial, 300 draws).
    """
    coins = np.random.default_rng(9)
    same = [mmd(coins.normal(size=(30, 2)), coins.normal(size=(40, 2)), kernel=RBF(1.0)) for _ in range(300)]
    values = np.array([one.value for one in same])
    assert abs(values.mean()) < 4.9 * values.std() / math.sqrt(300)
    assert values.min() < 0
    assert np.mean([one.low <= 0 <= one.high for one in same]) > 0.95, "wider than need be, as the docstring says"
    apart = [mmd(coins.normal(size=(60, 1)), coins.normal(size=(60, 1)) + 1, kernel=RBF(1.0)) for _ in range(300)]
    # E k over N(mu, 2) with bandwidth 1: exp(-mu^2 / 6) / sqrt(3).
    truth = 2 * (1 - math.exp(-1 / 6)) / math.sqrt(3)
    assert np.mean([one.low <= truth <= one.high for one in apart]) > 0.89


def test_rbf_keeps_its_digits_far_from_zero():
    x, y = vectors(10, 2, seed=1), vectors(12, 2, seed=2)
    near, far = mmd(x, y, kernel=RBF(1.0)), mmd(x + 1e6, y + 1e6, kernel=RBF(1.0))
    assert far.value == pytest.approx(near.value, rel=1e-6)


def test_median_bandwidth_is_the_median():
    x, y = vectors(40, 3, seed=1), vectors(50, 3, seed=2)
    expected = np.median(pdist(np.concatenate([x, y])))
    assert fidelity.median_bandwidth(x, y) == pytest.approx(expected, rel=1e-12)
    assert mmd(x, y) == mmd(x, y, kernel=RBF(expected))
    many = np.random.default_rng(0).normal(size=(3000, 1))
    # The median of |N(0, 2)| is 0.9539; 2,000 vectors give it to about one part in a hundred.
    assert fidelity.median_bandwidth(many, many) == pytest.approx(0.9539, rel=0.05)


@pytest.mark.parametrize(
    "a, b, message",
    [
        (np.zeros(5), np.zeros((5, 1)), "samples: an array of shape"),
        (np.zeros((5, 1)), np.zeros((2, 1)), "records: 2 are too few; give at least 3"),
        (np.zeros((5, 1)), np.array([[0], [1], [np.inf]]), "records: row 2"),
        (np.ones((5, 1)), np.ones((5, 1)), "median distance is 0"),
    ],
)
def test_bad_vectors(a, b, message):
    with pytest.raises(DataError, match=message):
        mmd(a, b)


# Planted damage


@pytest.fixture(scope="module")
def scene():
    """Features trained on glyphs, 1,500 real glyphs and 1,500 fresh ones of the same source as samples."""
    train = draw(2000, size=16, seed=1)
    features = ClassifierFeatures.train(train.images, train.labels, classes=10, epochs=5, width=128, seed=0)
    return features, draw(1500, size=16, seed=2), draw(1500, size=16, seed=3)


def noisy(records):
    noise = np.random.default_rng(0).normal(0, 60, size=records.images.shape)
    return np.clip(records.images + noise, 0, 255).astype(np.uint8)


def blurred(records):
    return gaussian_filter(records.images, (0, 0, 1.5, 1.5))


def fewer_modes(records):
    kept = np.flatnonzero(records.labels < 3)
    return records.images[np.resize(kept, len(records))]


@pytest.mark.parametrize("damage", [noisy, blurred, fewer_modes])
def test_damage_raises_distances_and_lowers_the_score(scene, damage):
    """Beyond both intervals: the damage is large beside the choice of pictures."""
    features, real, fresh = scene
    damaged = damage(fresh)
    whole, hurt = (frechet(images, real.images, features) for images in (fresh.images, damaged))
    assert hurt.low > whole.high
    whole, hurt = (mmd(features(images[:500]), features(real.images[:500])) for images in (fresh.images, damaged))
    assert hurt.low > whole.high
    whole, hurt = (inception_score(features.probabilities(images)) for images in (fresh.images, damaged))
    assert hurt.high < whole.low


def test_memorised_copies_look_perfect(scene):
    """Neither distance sees memorising: copies are nearer than fresh samples."""
    features, real, fresh = scene
    assert frechet(real.images, real.images, features).value < 1e-6
    assert frechet(fresh.images, real.images, features).value > 1e-3


def test_few_pictures_bias_the_distance_upwards(scene):
    features, real, fresh = scene
    few, all_of_them = (frechet(fresh.images[:n], real.images[:n], features).value for n in (200, 1500))
    assert few > 2 * all_of_them
