"""What attacks return and how scores are counted: ties by brute force, ranks, means over trainings."""

from itertools import permutations

import numpy as np
import pytest

from gossamer.attacks.scores import area, ranked, top_members
from gossamer.errors import DataError
from gossamer.intervals import difference, proportion


@pytest.mark.parametrize("seed", range(6))
def test_top_members_is_the_mean_over_all_orders(seed):
    """All 720 orders of 6 records, sorted stably: each tie is broken in every way equally often."""
    rng = np.random.default_rng(seed)
    members, nonmembers = rng.integers(0, 3, 2).astype(float), rng.integers(0, 3, 4).astype(float)
    scores, is_member = np.r_[members, nonmembers], np.array([1, 1, 0, 0, 0, 0])
    found = []
    for order in map(list, permutations(range(6))):
        picked = np.argsort(-scores[order], kind="stable")[:2]
        found.append(is_member[order][picked].sum())
    assert top_members(members, nonmembers) == pytest.approx(np.mean(found), abs=1e-12)


def test_ranks_keep_the_order_and_the_ties():
    members, nonmembers = ranked([[-7.0, 3.0], [1.0, 1.0]], [[3.0, 100.0], [0.0, 2.0]])
    assert members.tolist() == [[0.125, 0.5], [0.5, 0.5]]
    assert nonmembers.tolist() == [[0.5, 0.875], [0.125, 0.875]]
    with pytest.raises(DataError, match="1 discriminators, but member_scores holds 2"):
        ranked(np.zeros((2, 3)), np.zeros(3))


def test_area_carries_the_curve():
    attack = area("a name", [1, 2, 3], [0, 1, 2], needs="scores", about="a", note="a note")
    assert attack.estimate.value == pytest.approx((1.5 + 2.5 + 3) / 9)
    assert (attack.chance, attack.note, attack.needs) == (0.5, "a note", "scores")
    assert attack.roc.tpr_at(0.1).value == pytest.approx(
        1 / 3 + 0.3 / 3
    )  # at 2 one of three members and non-members ties


def test_a_fraction_of_a_success_lies_between():
    low, middle, high = (proportion(k, 20, "a test") for k in (3, 3.5, 4))
    assert low.low < middle.low < high.low
    assert (middle.value, middle.n) == (0.175, 20)
    with pytest.raises(ValueError, match="n >= 1"):
        proportion(0, 0.5, "a test")


def test_difference_of_shares_is_newcombes():
    """Newcombe 1998, Table II, method 10: the published intervals, to their four decimals."""
    for (a, m, b, n), published in {
        (56, 70, 48, 80): (0.0524, 0.3339),
        (9, 10, 3, 10): (0.1705, 0.8090),
        (6, 7, 2, 7): (0.0582, 0.8062),
        (5, 56, 0, 29): (-0.0381, 0.1926),
        (0, 10, 0, 20): (-0.1611, 0.2775),
        (10, 10, 0, 10): (0.6075, 1.0),
    }.items():
        found = difference(proportion(a, m, "one"), proportion(b, n, "other"), "both")
        assert found.value == pytest.approx(a / m - b / n)
        assert (round(found.low, 4), round(found.high, 4)) == published
        assert (found.n, found.computed_on) == (min(m, n), "both")
