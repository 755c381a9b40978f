"""Neighbours: the four shares against plain loops and closed forms, and planted damage on real digits."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from gossamer.errors import DataError
from gossamer.metrics import neighbours
from gossamer.metrics.neighbours import nearest, neighbourhood


def shares(found):
    return found.precision.value, found.recall.value, found.density.value, found.coverage.value


def plain(samples, records, k):
    """The definitions, from one matrix of distances and scikit-learn's radii."""
    radii = [NearestNeighbors(n_neighbors=k).fit(x).kneighbors()[0][:, -1] for x in (samples, records)]
    distance = cdist(samples, records)
    precision = np.mean([any(d <= r for d, r in zip(row, radii[1], strict=True)) for row in distance])
    recall = np.mean([any(d <= r for d, r in zip(column, radii[0], strict=True)) for column in distance.T])
    density = sum(d <= r for row in distance for d, r in zip(row, radii[1], strict=True)) / (k * len(samples))
    coverage = np.mean([min(column) <= r for column, r in zip(distance.T, radii[1], strict=True)])
    return precision, recall, density, coverage


@pytest.mark.parametrize("k", [1, 3, 5])
def test_shares_are_the_definitions(k, monkeypatch):
    """In one block and in many."""
    coins = np.random.default_rng(k)
    samples, records = coins.normal(size=(60, 4)).astype(np.float32), coins.normal(1.5, 1.3, size=(80, 4))
    expected = plain(samples, records, k)
    assert shares(neighbourhood(samples, records, k=k)) == pytest.approx(expected, rel=1e-12)
    monkeypatch.setattr(neighbours, "_CELLS", 200)
    assert shares(neighbourhood(samples, records, k=k)) == pytest.approx(expected, rel=1e-12)
    assert min(expected) > 0 and max(expected[0], expected[1], expected[3]) < 1, "a test that can fail"


def test_each_share_by_hand():
    """Records at 0, 1, 10, 11 with k = 1: balls of radius 1. Samples at 0.5, 0.6, 5 with radii 0.1, 0.1, 4.4."""
    samples, records = np.array([[0.5], [0.6], [5.0]]), np.array([[0.0], [1.0], [10.0], [11.0]])
    found = neighbourhood(samples, records, k=1)
    # 0.5 and 0.6 lie in two balls each; only the ball of 5 reaches a record: 1.
    assert shares(found) == pytest.approx((2 / 3, 1 / 4, 4 / 3, 2 / 4))
    assert [share.n for share in (found.precision, found.recall, found.density, found.coverage)] == [3, 4, 3, 4]
    assert found.precision.computed_on == "3 samples, in balls of 4 real records to their neighbour 1"


def test_one_source_gives_the_known_means():
    """Naeem et al. 2020: density 1 and coverage 1 - (n-1)...(n-k) / ((2n-1)...(2n-k)) on average, in any dimension.

    40 draws; tolerances are about five standard deviations of the mean (density 0.035 per draw, coverage 0.012).
    """
    coins = np.random.default_rng(0)
    n, k = 200, 5
    found = [neighbourhood(coins.normal(size=(n, 3)), coins.normal(size=(n, 3)), k=k) for _ in range(40)]
    below = np.arange(1, k + 1)
    expected = 1 - np.prod((n - below) / (2 * n - below))
    assert np.mean([one.density.value for one in found]) == pytest.approx(1, abs=0.03)
    assert np.mean([one.coverage.value for one in found]) == pytest.approx(expected, abs=0.01)


def test_intervals_cover_the_choice_of_samples():
    """Precision and density, records held fixed: 95 % of the intervals hold the mean over 200 draws.

    At a coverage of 95 % the bound of 87 % is missed with probability 1e-5 (binomial).
    """
    coins = np.random.default_rng(1)
    records = coins.normal(size=(100, 2))
    found = [neighbourhood(coins.normal(0.5, 1.2, size=(80, 2)), records) for _ in range(200)]
    for name in ("precision", "density"):
        estimates = [getattr(one, name) for one in found]
        centre = np.mean([one.value for one in estimates])
        assert np.mean([one.low <= centre <= one.high for one in estimates]) > 0.87


def test_nearest_is_scikit_learns(monkeypatch):
    coins = np.random.default_rng(2)
    samples, records = coins.normal(size=(50, 6)), coins.normal(size=(70, 6))
    distance, index = NearestNeighbors(n_neighbors=1).fit(records).kneighbors(samples)
    monkeypatch.setattr(neighbours, "_CELLS", 300)
    found = nearest(samples, records)
    assert (found.index == index[:, 0]).all()
    assert found.distance == pytest.approx(distance[:, 0], rel=1e-12)


def test_copies_are_at_distance_zero_far_from_the_origin():
    """Also where the squares are 1e16 times the distances, and in float32; the first of equals is named."""
    coins = np.random.default_rng(3)
    records = (coins.normal(size=(40, 5)) + 1e4).astype(np.float32)
    records[7] = records[31]
    found = nearest(records[[3, 31]], records)
    assert found.index.tolist() == [3, 7]
    assert found.distance.tolist() == [0, 0]
    assert shares(neighbourhood(records, records)) == (1, 1, pytest.approx(1.2, abs=0.06), 1)


@pytest.mark.parametrize("d", [3, 50, 64, 200])
def test_copies_share_balls_of_radius_zero(d):
    """Every record twice and k = 1: a copy lies in the two balls of its copies and in no other, rounding or not."""
    vectors = np.random.default_rng(4).normal(size=(301, d)).astype(np.float32)
    found = neighbourhood(vectors[::-1][:294], np.repeat(vectors, 2, axis=0), k=1)
    assert (found.precision.value, found.density.value, found.coverage.value) == (1, 2, 294 / 301)


def test_far_from_the_origin_nothing_changes():
    """At 1e6 the squares are 1e12 times the distances."""
    coins = np.random.default_rng(5)
    samples, records = coins.normal(size=(50, 3)), coins.normal(1, size=(60, 3))
    assert shares(neighbourhood(samples + 1e6, records + 1e6)) == shares(neighbourhood(samples, records))


def test_constant_vectors_are_one_point():
    """All balls have radius 0, and all vectors are in them; 0.1 is not a binary number, and must not matter."""
    grey = np.full((12, 3), 0.1)
    assert shares(neighbourhood(grey, grey)) == (1, 1, pytest.approx(12 / 5), 1)
    assert shares(neighbourhood(grey, np.random.default_rng(0).normal(size=(20, 3)) + 5))[3] == 0


@pytest.fixture(scope="module")
def digits():
    """Real records and fresh samples of the same source: 800 digits of 8x8 each, as vectors, and the samples' labels."""
    bunch = load_digits()
    order = np.random.default_rng(0).permutation(1600)
    return bunch.data[order[:800]], bunch.data[order[800:]], bunch.target[order[800:]]


def test_noise_lowers_precision_density_and_coverage(digits):
    records, fresh, _ = digits
    whole = neighbourhood(fresh, records)
    hurt = neighbourhood(fresh + np.random.default_rng(1).normal(0, 3, size=fresh.shape), records)
    assert hurt.precision.high < whole.precision.low
    assert hurt.density.high < whole.density.low
    assert hurt.coverage.high < whole.coverage.low


def test_blur_lowers_recall_and_coverage(digits):
    records, fresh, _ = digits
    whole = neighbourhood(fresh, records)
    hurt = neighbourhood(gaussian_filter(fresh.reshape(-1, 8, 8), (0, 1, 1)).reshape(-1, 64), records)
    assert hurt.recall.high < whole.recall.low
    assert hurt.coverage.high < whole.coverage.low


def test_dropped_modes_lower_recall_and_coverage_only(digits):
    """Three digits of ten: what is there is as good as before, and what is missing shows. k = 1 blurs copies least."""
    records, fresh, labels = digits
    whole, hurt = neighbourhood(fresh, records), neighbourhood(fresh[labels < 3], records)
    assert hurt.recall.high < whole.recall.low
    assert hurt.coverage.high < 0.5 < whole.coverage.low
    assert hurt.precision.high > whole.precision.low
    assert hurt.density.value > 0.8


def test_memorised_copies_score_full_marks_and_show_in_the_nearest(digits):
    records, fresh, _ = digits
    copies = neighbourhood(records, records)
    assert (copies.precision.value, copies.recall.value, copies.coverage.value) == (1, 1, 1)
    assert copies.density.value > 1
    assert nearest(records, records).distance.max() == 0
    assert nearest(fresh, records).distance.min() > 0


GOOD = np.random.default_rng(0).normal(size=(9, 3))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"samples": GOOD[0]}, r"samples: an array of shape \(3,\)"),
        ({"samples": GOOD[:5]}, "samples: 5 are too few; give at least 6"),
        ({"records": GOOD[:5]}, "records: 5 are too few; give at least 6"),
        ({"samples": GOOD[:, :2]}, "samples: vectors of length 2, but the records' are of length 3"),
        ({"records": np.r_[GOOD, [[np.nan, 0, 0]]]}, r"records: row 9 holds a number that is not finite \(1 such"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(DataError, match=message):
        neighbourhood(**{"samples": GOOD, "records": GOOD, **change})


def test_bad_k_and_empty_sets():
    with pytest.raises(DataError, match=r"records: .* at least 1"):
        nearest(GOOD, GOOD[:0])
