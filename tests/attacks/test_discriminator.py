"""The white-box attack on discriminators: Algorithms 2 and 3."""

import numpy as np
import pytest

from gossamer.attacks.discriminator import white_box
from gossamer.errors import DataError
from gossamer.intervals import proportion


def test_top_fraction_by_hand():
    """Three members, six non-members: of the three highest, 0.9 and 0.8 are members, and 0.7 is not."""
    found = white_box([0.9, 0.8, 0.1], [0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    assert (found.estimate.value, found.chance) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    expected = proportion(2, 3, "")
    assert (found.estimate.low, found.estimate.high, found.estimate.n) == (expected.low, expected.high, 3)
    assert found.roc.auc.value == pytest.approx(12 / 18)
    assert found.name == "white-box"
    assert found.estimate.computed_on == "the 3 highest scores of 3 members and 6 non-members"


def test_constant_scores_are_at_chance_exactly():
    assert white_box(np.ones(10), np.ones(90)).estimate.value == pytest.approx(0.1, abs=1e-15)


def test_the_maximum_finds_what_each_discriminator_has_seen():
    """Each of two discriminators knows its half. Scores of the other half are noise, which the mean half keeps."""
    rng = np.random.default_rng(0)
    members, nonmembers = 0.5 + 0.2 * rng.random((2, 400)), 0.5 + 0.2 * rng.random((2, 3600))
    members[0, :200] += 0.25
    members[1, 200:] += 0.25
    highest, mean = (white_box(members, nonmembers, how=how) for how in ("max", "mean"))
    assert highest.estimate.value == 1.0
    assert 0.5 < mean.estimate.value < 1.0
    assert (highest.name, mean.name) == tuple(f"white-box, {how} over 2 discriminators" for how in ("max", "mean"))


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_interval_covers(shift):
    """300 draws of 100 and 900; at 95 % coverage, fewer than 264 hits has a probability below 1e-6."""
    rng = np.random.default_rng(1)
    truth = white_box(rng.normal(shift, 1, 50_000), rng.normal(0, 1, 450_000)).estimate.value
    hits = 0
    for _ in range(300):
        found = white_box(rng.normal(shift, 1, 100), rng.normal(0, 1, 900)).estimate
        hits += found.low <= truth <= found.high
    assert hits >= 264


def test_bad_input_is_named():
    with pytest.raises(DataError, match="nonmember_scores: scores of 1 discriminators, but member_scores holds 2"):
        white_box(np.zeros((2, 4)), np.zeros(4))
    with pytest.raises(DataError, match="nonmember_scores: not a finite number at index 2"):
        white_box([[1, 2], [3, 4]], [[1, 2, 3], [1, 2, np.nan]])
    with pytest.raises(DataError, match="member_scores: no records"):
        white_box(np.zeros((2, 0)), np.zeros((2, 4)))
