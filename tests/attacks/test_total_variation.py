"""The oracle attack: Theorem 3 and Lemma 2 by brute force, the bias of finite sets, and its correction."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from gossamer.attacks.scores import ranked
from gossamer.attacks.total_variation import total_variation
from gossamer.errors import DataError


def oracle_gain(p, q):
    """Theorem 3 at equal numbers: the total variation distance (Lemma 2); of several discriminators the largest."""
    return float(np.abs(np.atleast_2d(p) / 2 - np.atleast_2d(q) / 2).sum(axis=1).max())


def _best_rule(p, q):
    """Over all rules that say yes or no at each score."""
    rules = product((1, -1), repeat=len(p))
    return max(sum(r * (a - b) / 2 for r, a, b in zip(rule, p, q, strict=True)) for rule in rules)


@pytest.mark.parametrize("seed", range(4))
def test_theorem_3_is_the_best_of_all_rules(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(9, 0.4), 2)
    assert oracle_gain(p, q) == pytest.approx(_best_rule(p, q), abs=1e-12)
    assert oracle_gain(p, p) == 0.0


def _histogram_distance(members, nonmembers, bins):
    edges = np.linspace(0, 1, bins + 1)
    one, other = np.histogram(members, edges)[0], np.histogram(nonmembers, edges)[0]
    return one / len(members), other / len(nonmembers)


def test_distance_is_lemma_2_on_histograms():
    rng = np.random.default_rng(2)
    members, nonmembers = rng.beta(3, 2, (2, 300)), rng.beta(2, 2, (2, 500))
    members[0, 0] = nonmembers[1, 0] = 1.0  # the last bin contains its right end
    members[0, 1] = 0.0
    each = [oracle_gain(*_histogram_distance(a, b, 50)) for a, b in zip(members, nonmembers, strict=True)]
    found = total_variation(members, nonmembers)
    assert found.raw.estimate.value == pytest.approx(max(each), abs=1e-12)
    assert found.raw.name == "oracle TVD, max over 2 discriminators"
    half = np.sqrt((1 / 300 + 1 / 500) * np.log(40) / 2)
    assert found.raw.estimate.high - found.raw.estimate.value == pytest.approx(half)
    assert found.raw.estimate.n == 800


def test_shuffled_distance_is_the_bias_of_equal_distributions():
    """The mean over 400 fresh pairs of sets, against the mean over shuffles of one pair: tolerance 5 standard errors."""
    rng = np.random.default_rng(3)
    fresh = []
    for _ in range(400):
        one, other = rng.beta(2, 2, 100), rng.beta(2, 2, 300)
        fresh.append(oracle_gain(*_histogram_distance(one, other, 50)))
    found = total_variation(one, other, shuffles=400)
    assert found.raw.chance == pytest.approx(np.mean(fresh), abs=0.02)
    assert found.raw.chance > 0.2  # what the uncorrected figure would have claimed
    assert found.corrected.chance == 0.0


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (12, 2)])
def test_corrected_interval_covers(shape):
    """60 draws each, of two discriminators: at 95 % coverage, fewer than 45 hits has a probability below 1e-6."""
    rng = np.random.default_rng(4)
    edges = np.linspace(0, 1, 51)
    p, q = (np.diff(stats.beta.cdf(edges, *ab)) for ab in (shape, (2, 2)))
    truth, hits, raw, corrected = oracle_gain(p, q), 0, [], []
    for seed in range(60):
        found = total_variation(rng.beta(*shape, (2, 300)), rng.beta(2, 2, (2, 900)), shuffles=30, seed=seed)
        low, high = found.corrected.estimate.low, found.corrected.estimate.high
        hits += low <= truth <= high
        raw.append(found.raw.estimate.value)
        corrected.append(found.corrected.estimate.value)
    assert hits >= 45
    assert abs(np.mean(corrected) - truth) < abs(np.mean(raw) - truth) or np.mean(corrected) < truth < np.mean(raw)


def test_ends_of_the_scale():
    rng = np.random.default_rng(5)
    low, high = rng.random(400) * 0.3, 0.7 + rng.random(100) * 0.3
    apart = total_variation(high, low)
    assert apart.raw.estimate.value == apart.corrected.estimate.value == apart.accuracy.estimate.value == 1.0
    assert apart.raw.note.startswith("0 of 200 shuffles")
    equal = total_variation(low, low)
    assert (equal.raw.estimate.value, equal.corrected.estimate.value) == (0.0, 0.0)
    assert (equal.accuracy.estimate.value, equal.accuracy.chance) == (0.5, 0.5)
    assert equal.raw.note.startswith("200 of 200 shuffles")
    constant = total_variation(np.full(10, 0.3), np.full(20, 0.3))
    assert (constant.raw.estimate.value, constant.raw.chance) == (0.0, 0.0)


def test_accuracy_is_that_of_the_corrected_distance():
    rng = np.random.default_rng(6)
    found = total_variation(rng.beta(6, 2, 1000), rng.beta(2, 2, 1000))
    corrected, accuracy = found.corrected.estimate, found.accuracy.estimate
    assert [accuracy.value, accuracy.low, accuracy.high] == pytest.approx(
        [(1 + x) / 2 for x in (corrected.value, corrected.low, corrected.high)]
    )
    assert corrected.low > 0


def test_seed_fixes_the_shuffles():
    scores = np.random.default_rng(7).random((2, 60))
    chances = [total_variation(scores[0], scores[1], seed=seed).raw.chance for seed in (1, 1, 2)]
    assert chances[0] == chances[1] != chances[2]


def test_critic_scores_go_in_as_ranks():
    rng = np.random.default_rng(9)
    members, nonmembers = rng.normal(300, 50, 200), rng.normal(-100, 50, 200)
    with pytest.raises(DataError, match=r"member_scores: the score at index 0 is outside \[0, 1\] \(200 such"):
        total_variation(members, nonmembers)
    assert total_variation(*ranked(members, nonmembers)).raw.estimate.value == 1.0


def test_bad_input_is_named():
    good = np.full(3, 0.5)
    with pytest.raises(DataError, match="nonmember_scores: the score at index 1 is outside"):
        total_variation(good, [0.1, 1.1, 0.2])
    with pytest.raises(DataError, match="member_scores: not a finite number at index 0"):
        total_variation([np.nan, 0.1], good)
    with pytest.raises(DataError, match="2 discriminators, but member_scores holds 1"):
        total_variation(good, [good, good])
