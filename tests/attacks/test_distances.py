"""Distances by brute force, GAN-Leaks, and the share of near-copies with an interval that covers."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import roc_auc_score

from gossamer.attacks import distances
from gossamer.attacks.arrays import features
from gossamer.attacks.distances import calibrated, full_black_box, near_copies, nearest, share_within
from gossamer.errors import DataError


def _pictures(seed, n):
    return np.random.default_rng(seed).integers(0, 256, (n, 3, 5, 4), dtype=np.uint8)


def _normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def test_pictures_are_flattened_and_scaled():
    pictures = _pictures(0, 7)
    found = features("pictures", pictures)
    assert (found.shape, found.dtype, found.min() >= 0, found.max()) == ((7, 60), np.float32, True, 1.0)
    assert found == pytest.approx(pictures.reshape(7, 60) / 255, abs=1e-7)


@pytest.mark.parametrize("block", [1, 50, 2**24])
def test_distances_against_brute_force(monkeypatch, block):
    monkeypatch.setattr(distances, "_BLOCK", block)
    records, others = features("records", _pictures(0, 30)), features("others", _pictures(1, 41))
    table = cdist(records, others)
    assert nearest(records, others) == pytest.approx(table.min(axis=1), abs=1e-12)
    radius = float(np.median(table))
    assert share_within(records, others, radius).tolist() == (table <= radius).mean(axis=1).tolist()


def test_a_copy_is_at_distance_zero_and_within_zero():
    records = features("records", _pictures(0, 500))
    assert (nearest(records[:20], records) == 0).all()
    assert (share_within(records[:20], records, 0.0) == 1 / 500).all()


def test_the_radius_counts():
    """A distance found by `nearest` must be within itself, however the squares are added up."""
    records, others = features("r", _normal(0, 200, 31)), features("o", _normal(1, 300, 31))
    for i, radius in enumerate(nearest(records, others)):
        assert share_within(records[i : i + 1], others, float(radius)) == 1 / 300


def test_gan_leaks_against_brute_force():
    """The members lie closer to the samples, so that an attack with its sign turned round reads another figure."""
    synthetic, members, nonmembers, reference = (_normal(seed, 40 + seed, 3) for seed in range(4))
    members = 0.5 * members
    is_member = np.r_[np.ones(len(members)), np.zeros(len(nonmembers))]
    records = np.r_[members, nonmembers]
    to_samples, to_reference = (cdist(records, rows).min(axis=1) for rows in (synthetic, reference))
    found = full_black_box(synthetic, members, nonmembers)
    assert found.estimate.value == pytest.approx(roc_auc_score(is_member, -to_samples), abs=1e-12)
    assert found.estimate.value > 0.6
    found = calibrated(synthetic, members, nonmembers, reference)
    assert found.estimate.value == pytest.approx(roc_auc_score(is_member, to_reference - to_samples), abs=1e-12)
    assert abs(found.estimate.value - 0.5) > 0.03
    assert (found.chance, found.note) == (0.5, "40 synthetic and 43 reference records")


def test_calibration_sees_through_density():
    """Dense and sparse records: every record of the dense half is closer to a sample than any copied sparse one."""
    scale = np.where(np.arange(300) % 2, 10.0, 0.1)[:, None]
    members, nonmembers, reference = (_normal(seed, 300, 8) * scale for seed in (0, 1, 2))
    synthetic = members + 0.3 * scale * _normal(3, 300, 8)
    plain, better = (
        full_black_box(synthetic, members, nonmembers),
        calibrated(synthetic, members, nonmembers, reference),
    )
    assert better.estimate.value > plain.estimate.value + 0.1
    assert better.estimate.value > 0.8


def test_near_copies_against_brute_force():
    synthetic, members, held_out = _normal(0, 400, 2), _normal(1, 60, 2), _normal(2, 60, 2)
    table = cdist(members, held_out)
    radius = np.quantile(np.r_[table.min(axis=1), table.min(axis=0)], 0.1)
    found = near_copies(synthetic, members, held_out, alpha=0.1)
    shares = [(cdist(synthetic, rows).min(axis=1) <= radius).mean() for rows in (members, held_out)]
    assert [found.of_members.value, found.of_held_out.value] == pytest.approx(shares, abs=1e-12)
    assert found.excess.estimate.value == pytest.approx(shares[0] - shares[1], abs=1e-12)
    assert (found.excess.chance, found.excess.lowest, found.of_members.n) == (0.0, -1.0, 400)


def test_the_radius_favours_neither_set():
    """Members lie close together, held-out records far apart: which set is called which must not matter."""
    synthetic, close, far = _normal(0, 400, 2), 0.1 * _normal(1, 60, 2), 3 * _normal(2, 60, 2)
    there, back = (near_copies(synthetic, *sets, alpha=0.1) for sets in ((close, far), (far, close)))
    assert there.of_members.value == back.of_held_out.value > 0
    assert there.of_held_out.value == back.of_members.value > 0
    assert there.excess.estimate.value == -back.excess.estimate.value


def test_copies_are_found():
    members, held_out = _pictures(0, 200), _pictures(1, 200)
    synthetic = np.r_[members[:20], _pictures(2, 180)]
    found = near_copies(synthetic, members, held_out)
    assert 0.1 <= found.of_members.value < 0.12
    assert found.of_held_out.value < 0.02
    assert found.excess.estimate.low > 0.03


def test_equal_sets_have_no_excess():
    x = _normal(0, 100, 4)
    found = near_copies(_normal(1, 300, 4), x, x, alpha=0.1)
    assert found.excess.estimate.value == 0.0
    assert found.excess.estimate.low < 0 < found.excess.estimate.high


def test_nothing_close_keeps_an_interval():
    found = near_copies(_normal(0, 50, 2) + 1000, _normal(1, 80, 2), _normal(2, 80, 2))
    assert (found.of_members.value, found.excess.estimate.value) == (0.0, 0.0)
    assert found.of_members.high > 0.05


def test_many_copies_of_one_record_are_one_case():
    """All samples copy one member: the share is 1, but it rests on one record, and the interval says so."""
    members, held_out = _normal(0, 100, 3), _normal(1, 100, 3)
    found = near_copies(np.repeat(members[:1], 1000, axis=0), members, held_out)
    assert found.of_members.value == 1.0
    assert found.of_members.low < 0.3


@pytest.mark.parametrize("n, d, m, alpha", [(400, 2, 100, 0.05), (10_000, 2, 60, 0.1)])
def test_excess_interval_covers_a_perfect_sampler(n, d, m, alpha):
    """100 draws; at 95 % coverage, fewer than 82 hits has a probability below 1e-6.

    In the second case samples outnumber records: taking them as independent covers 6 times in 10.
    """
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(100):
        found = near_copies(rng.normal(size=(n, d)), rng.normal(size=(m, d)), rng.normal(size=(m, d)), alpha=alpha)
        hits += found.excess.estimate.low <= 0 <= found.excess.estimate.high
    assert hits >= 82


@pytest.mark.parametrize(
    "change, message",
    [
        ({"synthetic": _pictures(0, 9).astype(np.int32)}, "synthetic: an array of int32 with 4 axes; give pictures"),
        (
            {"synthetic": _pictures(0, 9)[:, 0]},
            r"members: records of shape \(3, 5, 4\), but synthetic holds \(5, 4\)",
        ),
        (
            {"members": _pictures(0, 9)[:, :1]},
            r"members: records of shape \(1, 5, 4\), but synthetic holds \(3, 5, 4\)",
        ),
        ({"members": _pictures(0, 0), "held_out": _pictures(0, 0)}, "members: no records"),
        ({"held_out": _pictures(0, 8)}, "held_out: 8 records, but members holds 9; .* random subset"),
    ],
)
def test_bad_pictures_are_named(change, message):
    sets = {name: _pictures(seed, 9) for seed, name in enumerate(("synthetic", "members", "held_out"))}
    with pytest.raises(DataError, match=message):
        near_copies(**{**sets, **change})


def test_bad_features_are_named():
    x, bad = _normal(0, 9, 2), _normal(1, 9, 2)
    bad[4, 1] = np.nan
    with pytest.raises(DataError, match=r"nonmembers: not a finite number at index 4 \(1 such"):
        full_black_box(x, x, bad)
    with pytest.raises(DataError, match="reference: an array of uint8 with 2 axes"):
        calibrated(x, x, x, np.zeros((9, 2), np.uint8))
    with pytest.raises(DataError, match="hold no values"):
        full_black_box(x[:, :0], x[:, :0], x[:, :0])
