"""The Monte-Carlo attacks: Algorithm 6 by brute force, fair ties, and the mistakes of the published code."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from gossamer.attacks import monte_carlo
from gossamer.attacks.monte_carlo import instance_attack, set_attack
from gossamer.errors import DataError


def _normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def _brute(synthetic, one, other, held_out, components):
    """The radius and both lists of f, by loops over all pairs in the space of principal components."""
    pca = PCA(components).fit(held_out)
    samples, first, second = (pca.transform(rows) for rows in (synthetic, one, other))
    distances = [[np.sqrt(((x - g) ** 2).sum()) for g in samples] for x in np.r_[first, second]]
    radius = np.median([min(row) for row in distances])
    f = [np.mean([d <= radius * (1 + 1e-6) for d in row]) for row in distances]
    return np.array(f[: len(one)]), np.array(f[len(one) :])


def test_shares_and_figures_against_brute_force():
    """The whole pools are one draw, so its figures follow from the brute f; pairing depends on the draw, the top not."""
    members, nonmembers, held_out = _normal(0, 15, 8), _normal(1, 15, 8), _normal(2, 40, 8)
    synthetic = np.r_[members[:6] + 0.3 * _normal(3, 6, 8), _normal(4, 60, 8)]
    one, other = _brute(synthetic, members, nonmembers, held_out, 3)
    found = instance_attack(synthetic, members, nonmembers, held_out, components=3)
    assert found.roc.member_scores == pytest.approx(np.sort(one), abs=1e-12)
    assert found.roc.nonmember_scores == pytest.approx(np.sort(other), abs=1e-12)
    table = sorted([(-f, k) for k, group in enumerate((one, other)) for f in group])
    edge = table[14][0]
    sure, tied = [k for f, k in table if f < edge], [k for f, k in table if f == edge]
    in_top = sure.count(0) + (15 - len(sure)) * tied.count(0) / len(tied)
    assert found.estimate.value == pytest.approx(in_top / 15)
    assert (found.estimate.n, found.chance) == (15, 0.5)
    decided = set_attack(synthetic, members, nonmembers, held_out, set_size=15, repeats=1, components=3, seed=0)
    assert decided.top.estimate.value == float(in_top > 7.5) or in_top == 7.5


def test_pairs_follow_algorithm_6(monkeypatch):
    """Three pairs won, two lost, five tied: won. With one more lost: a coin. With two more: lost."""
    shares = iter(
        [
            (np.array([1, 1, 1, 0, 0, 2, 2, 2, 2, 2.0]), np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2.0])),
            (np.array([1, 1, 1, 0, 0, 0, 2, 2, 2, 2.0]), np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2.0])),
            (np.array([1, 1, 1, 0, 0, 0, 0, 2, 2, 2.0]), np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2.0])),
        ]
    )
    monkeypatch.setattr(monte_carlo, "_shares", lambda *_: next(shares))
    x = _normal(0, 30, 4)
    found = set_attack(x, x, x, x, set_size=10, repeats=3, components=2, seed=0).pairs.estimate
    assert (found.value, found.n) == (0.5, 3)


def test_ties_favour_neither_side():
    """Coarse records tie often. 400 decisions at chance 1/2: a bound of 4.9 standard deviations, error rate 1e-6.

    Algorithm 6 as printed, which gives tied pairs to the members, wins 95 % of these.
    """
    rng = np.random.default_rng(5)
    sets = [rng.integers(0, 3, (count, 2)).astype(float) for count in (60, 1600, 1600, 200)]
    found = set_attack(*sets, set_size=4, repeats=400, components=2, seed=1)
    for figure in (found.pairs, found.top):
        assert abs(figure.estimate.value - 0.5) < 4.9 * np.sqrt(0.25 / 400)


def test_every_nonmember_can_be_drawn():
    """The published code reaches only the first M non-members. Here those are far from the samples, the rest are close."""
    members, held_out = _normal(0, 40, 4), _normal(1, 50, 4)
    nonmembers = _normal(2, 4000, 4)
    nonmembers[:40] += 100
    synthetic = nonmembers[40:] + 0.01
    found = set_attack(synthetic, members, nonmembers, held_out, set_size=20, repeats=2, components=4, seed=0)
    assert found.pairs.estimate.value == found.top.estimate.value == 0.0


def test_members_and_nonmembers_are_drawn_apart():
    """With equal pools, one index for both sets would tie every pair, and every decision would be a coin."""
    pool = _normal(0, 300, 3)
    found = set_attack(_normal(1, 500, 3), pool, pool, _normal(2, 50, 3), set_size=15, repeats=20, components=3, seed=0)
    assert found.pairs.estimate.value * 20 != 10 or found.top.estimate.value * 20 != 10
    assert found.pairs.estimate.low <= 0.5 <= found.pairs.estimate.high


def test_no_record_is_drawn_twice(monkeypatch):
    seen = {"members": [], "nonmembers": []}

    def spy(samples, one, other):
        seen["members"].append(one)
        seen["nonmembers"].append(other)
        return real(samples, one, other)

    real = monte_carlo._shares
    monkeypatch.setattr(monte_carlo, "_shares", spy)
    members, nonmembers = _normal(0, 60, 3), _normal(1, 90, 3)
    set_attack(_normal(2, 40, 3), members, nonmembers, _normal(3, 20, 3), set_size=10, repeats=6, components=3, seed=2)
    for name, pool in (("members", members), ("nonmembers", nonmembers)):
        drawn = np.concatenate(seen[name])
        assert len(np.unique(drawn, axis=0)) == 60 <= len(pool)


def test_equal_sets_are_at_chance():
    x = _normal(0, 80, 6)
    found = instance_attack(_normal(1, 300, 6), x, x, _normal(2, 50, 6), components=4)
    assert (found.estimate.value, found.roc.auc.value) == (0.5, 0.5)


def test_components_are_those_of_the_held_out_records():
    """The copied direction is the ninth; records that vary in the first two only make the attack blind to it."""
    members, nonmembers = _normal(0, 200, 9), _normal(1, 200, 9)
    synthetic = _normal(2, 3000, 9)
    synthetic[:, 8] += 5
    members[:, 8] += 5
    held_out = _normal(3, 100, 9) * np.r_[10, 10, np.full(7, 0.01)]
    seeing, blind = (
        instance_attack(synthetic, members, nonmembers, rows, components=2) for rows in (held_out[:, ::-1], held_out)
    )
    assert seeing.estimate.value > 0.9
    assert blind.estimate.low <= 0.5 <= blind.estimate.high


def test_bad_input_is_named():
    x = _normal(0, 50, 6)
    with pytest.raises(DataError, match="nonmembers: 9 records, fewer than set_size x repeats = 20"):
        set_attack(x, x, x[:9], x, set_size=10, repeats=2, components=3, seed=0)
    with pytest.raises(DataError, match="held_out: 50 records of 6 values do not vary in 40 directions"):
        set_attack(x, x, x, x, set_size=10, repeats=2, seed=0)
    with pytest.raises(DataError, match="do not vary in 2 directions"):
        instance_attack(x, x, x, np.ones_like(x), components=2)
    with pytest.raises(DataError, match="do not vary in 2 directions"):
        instance_attack(x, x, x, x[:, :1] * np.ones(6), components=2)
    with pytest.raises(DataError, match="nonmembers: 49 records, but members holds 50"):
        instance_attack(x, x, x[1:], x)
    with pytest.raises(DataError, match=r"held_out: records of shape \(5,\), but synthetic holds \(6,\)"):
        instance_attack(x, x, x, x[:, :5])
