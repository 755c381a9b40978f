"""The pinwheel: its arms, its splits, and how closely two pixels hold a point."""

import numpy as np
import pytest

from benchmarks.reproduce.pinwheel import ARMS, EXTENT, as_images, as_points, pinwheel
from gossamer.data.card import DataCard, check
from gossamer.errors import DataError


def unrolled(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The points with arm and twist taken back: (1 + 0.3 n1, 0.1 n2). The angle is solved for by fixed-point iteration."""
    found = points.copy()
    for _ in range(60):
        angle = 2 * np.pi * labels / ARMS + 0.25 * np.exp(found[:, 0])
        target = np.stack(
            [
                points[:, 0] * np.cos(angle) + points[:, 1] * np.sin(angle),
                points[:, 1] * np.cos(angle) - points[:, 0] * np.sin(angle),
            ],
            1,
        )
        found = 0.5 * found + 0.5 * target
    return found


def test_the_arms_are_as_described() -> None:
    """4,000 points per arm, most of which unroll: median and quartiles of the two normals to 0.02 (5 standard errors)."""
    records = pinwheel("train", per_arm=4_000)
    flat = unrolled(as_points(records.images), records.labels)
    along, across = (flat[:, 0] - 1) / 0.3, flat[:, 1] / 0.1
    for values, width in ((along, 1.349), (across, 1.349)):
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        assert middle == pytest.approx(0, abs=0.05)
        assert high - low == pytest.approx(width, abs=0.08)


def test_400_points_each_a_hundred_per_arm_and_the_splits_differ() -> None:
    train, test = pinwheel("train"), pinwheel("test")
    for records in (train, test):
        assert records.images.shape == (400, 1, 1, 2)
        assert records.images.dtype == np.uint8
        assert np.bincount(records.labels).tolist() == [100] * 4
        check(records, DataCard(shape=(1, 1, 2), classes=4, declared_size=400), where="pinwheel")
    assert not np.array_equal(train.images, test.images)
    assert np.array_equal(train.images, pinwheel("train").images)


def test_a_point_is_kept_to_half_a_step_and_moved_to_the_edge_outside() -> None:
    points = np.random.default_rng(0).uniform(-EXTENT, EXTENT, (500, 2))
    assert np.abs(as_points(as_images(points)) - points).max() <= EXTENT / 255 + 1e-12
    assert as_points(as_images(np.array([[-9.0, 9.0]]))).tolist() == [[-EXTENT, EXTENT]]


@pytest.mark.parametrize(
    ("points", "words"),
    [(np.zeros((3, 3)), r"must be \[n, 2\]"), (np.array([[0.0, 0.0], [np.nan, 0.0]]), "row 1 .*not finite")],
)
def test_what_is_no_point_is_refused(points: np.ndarray, words: str) -> None:
    with pytest.raises(DataError, match=words):
        as_images(points)
