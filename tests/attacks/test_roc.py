"""The ROC curve of an attack: areas against brute force, intervals that cover, honesty where non-members are few."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from gossamer.attacks.roc import LOW_RATES, roc
from gossamer.errors import DataError

Z = stats.norm.ppf(0.975)


def _scores(seed, m, n, *, tied=False):
    rng = np.random.default_rng(seed)
    members, nonmembers = rng.normal(0.8, 1.3, m), rng.normal(0, 1, n)
    return (np.round(members), np.round(nonmembers)) if tied else (members, nonmembers)


def _delong(members, nonmembers):
    """By the full table of comparisons."""
    won = (members[:, None] > nonmembers) + 0.5 * (members[:, None] == nonmembers)
    variance = won.mean(axis=1).var(ddof=1) / len(members) + won.mean(axis=0).var(ddof=1) / len(nonmembers)
    return won.mean() - Z * np.sqrt(variance), won.mean() + Z * np.sqrt(variance)


def _newcombe(area, m, n):
    """By a grid over the true area."""
    t = np.linspace(0, 1, 2_000_001)
    star = (m + n) / 2 - 1
    error = np.sqrt(t * (1 - t) / (m * n) * (1 + star * (1 - t) / (2 - t) + star * t / (1 + t)))
    inside = t[np.abs(t - area) <= Z * error + 1e-12]
    return inside.min(), inside.max()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("m, n", [(2, 2), (30, 80), (200, 90)])
def test_area_and_interval_against_brute_force(m, n, tied):
    members, nonmembers = _scores(m + n, m, n, tied=tied)
    found = roc(members, nonmembers).auc
    area = roc_auc_score(np.r_[np.ones(m), np.zeros(n)], np.r_[members, nonmembers])
    ends = np.array([_delong(members, nonmembers), _newcombe(area, m, n)])
    assert found.value == pytest.approx(area, abs=1e-12)
    assert found.low == pytest.approx(max(0, ends[:, 0].min()), abs=2e-6)  # the grid's step is 5e-7
    assert found.high == pytest.approx(min(1, ends[:, 1].max()), abs=2e-6)
    assert found.n == m + n


def test_separated_scores_keep_an_interval():
    """DeLong's interval is a point here."""
    for flip in (1, -1):
        auc = roc(flip * np.arange(20, 40.0), flip * np.arange(20.0)).auc
        assert auc.value == (flip + 1) / 2
        assert auc.high - auc.low > 0.05
    low, high = _newcombe(1.0, 20, 20)
    found = roc(np.arange(20, 40.0), np.arange(20.0)).auc
    assert (found.low, found.high) == pytest.approx((low, high), abs=2e-6)


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_area_interval_covers(shift):
    """400 draws; at 95 % coverage, fewer than 357 hits has a probability below 1e-6."""
    rng = np.random.default_rng(1)
    truth, hits = stats.norm.cdf(shift / np.sqrt(2)), 0
    for _ in range(400):
        auc = roc(rng.normal(shift, 1, 40), rng.normal(0, 1, 120)).auc
        hits += auc.low <= truth <= auc.high
    assert hits >= 357


def test_equal_sets_are_at_chance():
    scores = np.random.default_rng(2).normal(size=500)
    found = roc(scores, scores)
    assert found.auc.value == 0.5
    for fpr in (0.5, 0.1, 0.01):
        assert found.tpr_at(fpr).value == pytest.approx(fpr, abs=1e-12)
    constant = roc(np.ones(5), np.ones(7))
    assert constant.auc.value == 0.5
    assert [constant.tpr_at(fpr).value for fpr in (0.3, 0.01)] == pytest.approx([0.3, 0.01])


def test_true_positive_rate_by_hand():
    """Above both 9s: 3 of 4 members; then the tie at 8 is one member and one non-member; the last member is at 0."""
    found = roc([10, 10, 10, 8, 0], [9, 8, 1, 1])
    assert [found.tpr_at(fpr).value for fpr in (0.1, 0.25, 0.375, 0.5, 0.9)] == pytest.approx([0.6, 0.6, 0.7, 0.8, 0.8])


def test_at_a_vertical_piece_of_the_curve_the_rate_is_its_top():
    """At a threshold of 5 two more members are accused, and no non-member: from 1 of 3 members to all, at a rate of 1 in 2."""
    assert roc([10, 5, 5], [9, 1]).tpr_at(0.5).value == 1.0


def test_true_positive_interval_by_hand():
    """1,000 non-members at 1 %: between 4 and 18 of them lie above the true threshold, each but for 1.25 %."""
    members, nonmembers = _scores(5, 3000, 1000)
    falling = np.sort(nonmembers)[::-1]
    fewest = max(k for k in range(50) if stats.binom.cdf(k - 1, 1000, 0.01) <= 0.0125)
    most = min(k for k in range(50) if stats.binom.sf(k, 1000, 0.01) <= 0.0125)
    assert (fewest, most) == (4, 18)
    surely, maybe = int((members > falling[fewest - 1]).sum()), int((members >= falling[most]).sum())
    low = stats.binomtest(surely, 3000).proportion_ci(0.975, "exact").low
    high = stats.binomtest(maybe, 3000).proportion_ci(0.975, "exact").high
    found = roc(members, nonmembers).tpr_at(0.01)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
    assert found.computed_on == "3,000 members, at a false-positive rate of 0.01 among 1,000 non-members"


@pytest.mark.parametrize("shift, n, fpr", [(0.0, 600, 0.01), (2.0, 600, 0.01), (2.0, 100, 0.001)])
def test_true_positive_interval_covers(shift, n, fpr):
    """300 draws; at 95 % coverage, fewer than 264 hits has a probability below 1e-6."""
    rng = np.random.default_rng(7)
    truth, hits = stats.norm.sf(stats.norm.isf(fpr) - shift), 0
    for _ in range(300):
        found = roc(rng.normal(shift, 1, 150), rng.normal(0, 1, n)).tpr_at(fpr)
        hits += found.low <= truth <= found.high
    assert hits >= 264


@pytest.mark.parametrize("n, fpr", [(50, 0.01), (400, 0.001)])
def test_too_few_nonmembers_prove_nothing(n, fpr):
    """Even a perfect attack: nothing is known about the rates below one in n."""
    found = roc(np.full(1000, 2.0), np.linspace(0, 1, n)).tpr_at(fpr)
    assert (found.low, found.high) == (0.0, 1.0)
    assert found.computed_on.endswith(
        f"too few for this rate, which takes {round(1 / fpr):,}: only the upper end counts"
    )
    harmless = roc(np.linspace(0, 1, 1000), np.linspace(0, 1, n)).tpr_at(fpr)
    assert harmless.low == 0.0
    assert harmless.high < 0.2  # the upper end does say something


def test_points_lie_on_the_curve_and_are_few():
    members, nonmembers = _scores(11, 20_000, 30_000)
    found = roc(members, nonmembers)
    fpr, tpr, _ = roc_curve(
        np.r_[np.ones(20_000), np.zeros(30_000)], np.r_[members, nonmembers], drop_intermediate=False
    )
    corners = set(zip(np.round(fpr * 30_000).astype(int), np.round(tpr * 20_000).astype(int), strict=True))
    points = list(zip(np.round(found.fpr * 30_000).astype(int), np.round(found.tpr * 20_000).astype(int), strict=True))
    assert set(points) <= corners
    assert (points[0], points[-1]) == ((0, 0), (30_000, 20_000))
    assert len(points) <= 800
    assert (np.diff(found.fpr) >= 0).all()
    assert (np.diff(found.tpr) >= 0).all()
    for rate in LOW_RATES:  # dense where it matters
        assert np.abs(found.fpr - rate).min() < 0.1 * rate
    assert np.trapezoid(found.tpr, found.fpr) == pytest.approx(found.auc.value, abs=1e-3)


@pytest.mark.parametrize(
    "members, nonmembers, message",
    [
        ([], [1, 2], "member_scores: no records"),
        ([1, 2], [1], "nonmember_scores: one record"),
        ([1, np.nan, np.inf], [1, 2], r"member_scores: not a finite number at index 1 \(2 such records\)"),
        ([[1, 2]], [1, 2], "member_scores: an array with 2 axes"),
    ],
)
def test_bad_scores_are_named(members, nonmembers, message):
    with pytest.raises(DataError, match=message):
        roc(members, nonmembers)
