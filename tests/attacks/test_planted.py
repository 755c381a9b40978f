"""Planted cases: every attack catches a generator that copies its records, and none accuses a perfect sampler."""

import numpy as np
import pytest

from gossamer.attacks.arrays import features
from gossamer.attacks.density import domias
from gossamer.attacks.discriminator import white_box
from gossamer.attacks.distances import calibrated, full_black_box, near_copies, nearest
from gossamer.attacks.monte_carlo import instance_attack, set_attack
from gossamer.attacks.total_variation import total_variation

SIZE = 200


def _world(rng):
    """A sampler of small pictures, exact and endless: ten prototypes with noise of standard deviation 25."""
    prototypes = rng.integers(60, 196, (10, 1, 6, 6))

    def sample(n):
        pictures = prototypes[rng.integers(0, 10, n)] + rng.normal(0, 25, (n, 1, 6, 6))
        return np.clip(pictures, 0, 255).astype(np.uint8)

    return sample


def _attacks(rng, synthetic, sample, members, discriminator):
    """All attacks on one model; discriminator: pictures to scores [D, N] in [0, 1]."""
    nonmembers, held_out, reference = sample(SIZE), sample(SIZE), sample(2 * SIZE)
    scores, others = discriminator(members), discriminator(nonmembers)
    variation = total_variation(scores, others, shuffles=30, seed=1)
    sets = set_attack(synthetic, members, nonmembers, held_out, set_size=10, repeats=20, components=20, seed=2)
    return [
        white_box(scores, others, how="max"),
        white_box(scores, others, how="mean"),
        variation.corrected,
        variation.accuracy,
        sets.pairs,
        sets.top,
        instance_attack(synthetic, members, nonmembers, held_out, components=20),
        full_black_box(synthetic, members, nonmembers),
        calibrated(synthetic, members, nonmembers, reference),
        domias(synthetic, members, nonmembers, reference),
        near_copies(synthetic, members, nonmembers).excess,
    ]


def test_a_generator_that_copies_is_caught_by_every_attack():
    rng = np.random.default_rng(0)
    sample = _world(rng)
    members = sample(SIZE)
    halves = [features("half", members[:100]), features("half", members[100:])]

    def memorised(pictures):
        """The best discriminator of half of the records against anything else."""
        return np.stack([np.exp(-nearest(features("pictures", pictures), half)) for half in halves])

    copies = members[rng.integers(0, SIZE, 2000)].astype(int) + rng.integers(-2, 3, (2000, 1, 6, 6))
    synthetic = np.clip(copies, 0, 255).astype(np.uint8)
    found = {f"{a.name}: {a.measure}": a for a in _attacks(rng, synthetic, sample, members, memorised)}
    assert len(found) == 11
    oracle = "oracle TVD, max over 2 discriminators"
    floors = {
        f"{oracle}: total variation distance, bias removed": 0.4,  # each knows its half of the members: 1/2 at most
        f"{oracle}: accuracy of the best guess": 0.7,
        "DOMIAS: area under the ROC curve": 0.8,  # kernels in ten dimensions blur single records
    }
    for name, attack in found.items():
        assert attack.estimate.low > attack.chance, name
        assert attack.estimate.value > floors.get(name, 0.95), name
        if attack.roc is not None and attack.name != "DOMIAS":
            assert attack.roc.tpr_at(0.01).value > 0.5, name


def _perfect(seed):
    rng = np.random.default_rng(seed)
    sample = _world(rng)
    weights = rng.normal(size=(2, 36))

    def honest(pictures):
        """Two discriminators that have seen none of the records."""
        return 1 / (1 + np.exp(-weights @ (features("pictures", pictures) - 0.5).T))

    return _attacks(rng, sample(1000), sample, sample(SIZE), honest)


def test_a_perfect_sampler_is_at_chance():
    """Each of 11 attacks on 12 models. At 95 % coverage, an attack is outside its interval more than 6 times in 12 with
    probability below 1e-6; all together, 132 at most, more than 21 times with probability below 1e-5, were they independent.
    """
    outside = np.array(
        [[not a.estimate.low <= a.chance <= a.estimate.high for a in _perfect(seed)] for seed in range(12)]
    )
    assert outside.sum(axis=0).max() <= 6
    assert outside.sum() <= 21


@pytest.mark.slow
def test_a_perfect_sampler_is_at_chance_over_many_models():
    """100 models: an attack is outside its interval more than 18 times with probability below 1e-6."""
    outside = np.array(
        [[not a.estimate.low <= a.chance <= a.estimate.high for a in _perfect(seed)] for seed in range(100)]
    )
    print(outside.sum(axis=0))
    assert outside.sum(axis=0).max() <= 18
