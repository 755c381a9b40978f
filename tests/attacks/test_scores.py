"""What attacks return and how scores are counted: ties by brute force, ranks, means over trainings."""

from itertools import permutations

import numpy as np
import pytest

from gossamer.attacks.scores import Attack, area, combine, over_repeats, ranked, top_members
from gossamer.errors import DataError, RequestError
from gossamer.estimate import Estimate
from gossamer.intervals import difference, proportion


def _attack(value=0.7, *, name="an attack", chance=0.5, lowest=0.0):
    estimate = Estimate(value, value - 0.1, value + 0.1, 50, "50 records")
    return Attack(name=name, measure="accuracy", estimate=estimate, chance=chance, needs="samples", lowest=lowest)


def test_prints_its_chance():
    assert str(_attack()) == "an attack: accuracy 0.7 [0.6, 0.8] (n = 50, 50 records), chance 0.5"


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


def test_combine():
    table = [[0.1, 0.9, 0.5], [0.3, 0.1, 0.5]]
    assert combine("scores", table, "max").tolist() == [0.3, 0.9, 0.5]
    assert combine("scores", table, "mean").tolist() == [0.2, 0.5, 0.5]
    assert combine("scores", table[0], "max").tolist() == table[0]
    with pytest.raises(RequestError, match="'median' is not known"):
        combine("scores", table, "median")
    with pytest.raises(DataError, match="scores: an array of shape"):
        combine("scores", np.zeros((2, 3, 4)), "max")


def test_ranks_keep_the_order_and_the_ties():
    members, nonmembers = ranked([[-7.0, 3.0], [1.0, 1.0]], [[3.0, 100.0], [0.0, 2.0]])
    assert members.tolist() == [[0.125, 0.5], [0.5, 0.5]]
    assert nonmembers.tolist() == [[0.5, 0.875], [0.125, 0.875]]
    with pytest.raises(DataError, match="1 discriminators, but member_scores holds 2"):
        ranked(np.zeros((2, 3)), np.zeros(3))


def test_area_carries_the_curve():
    attack = area("a name", [1, 2, 3], [0, 1, 2], needs="scores", note="a note")
    assert attack.estimate.value == pytest.approx((1.5 + 2.5 + 3) / 9)
    assert (attack.chance, attack.note, attack.needs) == (0.5, "a note", "scores")
    assert attack.roc.tpr_at(0.1).value == pytest.approx(
        1 / 3 + 0.3 / 3
    )  # at 2 one of three members and non-members ties


def test_over_repeats():
    """t of 0.975 at two degrees of freedom is 4.302653; the standard error of .6, .7, .8 is .1 / sqrt(3)."""
    found = over_repeats([_attack(0.6, chance=0.4), _attack(0.7), _attack(0.8, chance=0.6)])
    assert (found.estimate.value, found.chance, found.estimate.n) == (pytest.approx(0.7), pytest.approx(0.5), 3)
    assert found.estimate.high - found.estimate.value == pytest.approx(4.302653 * 0.1 / np.sqrt(3), abs=1e-6)
    assert found.estimate.computed_on == "mean over 3 trained models; each: 50 records"
    assert over_repeats([_attack(0.1), _attack(0.9)]).estimate.low == 0.0
    below = over_repeats([_attack(-0.5, lowest=-1.0), _attack(0.5, lowest=-1.0)])
    assert (below.estimate.low, below.estimate.high, below.lowest) == (-1.0, 1.0, -1.0)
    with pytest.raises(RequestError, match="fewer than two"):
        over_repeats([_attack()])
    with pytest.raises(RequestError, match="index 1 is 'another'"):
        over_repeats([_attack(), _attack(name="another")])


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
