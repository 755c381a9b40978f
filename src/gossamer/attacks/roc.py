"""The receiver operating characteristic of a membership attack, with intervals that hold at low false-positive rates.

An attack that is right about a few records with high confidence is a breach, even if it is at chance on average. Hence
the true-positive rate at 1 % and 0.1 % (Carlini et al. 2022, "Membership inference attacks from first principles").
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from gossamer.attacks.arrays import Scores, scores
from gossamer.intervals import LEVEL, Estimate

LOW_RATES = (0.01, 0.001)
"""The false-positive rates at which every attack is to be read."""

_POINTS = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Roc:
    """How many members an attack finds at each rate of false alarms. Built by `roc`.

    Args:
        fpr: [P], rising from 0 to 1: some of the corners of the curve, dense near 0, for plots.
        tpr: [P], the true-positive rate at each.
        auc: area under the whole curve, ties counted half; chance is 0.5.
        member_scores: float64 [M], rising.
        nonmember_scores: float64 [N], rising.
    """

    fpr: Scores
    tpr: Scores
    auc: Estimate
    member_scores: Scores = field(repr=False)
    nonmember_scores: Scores = field(repr=False)

    def tpr_at(self, fpr: float) -> Estimate:
        """Share of the members found when this share of the non-members is called a member; chance is `fpr` itself.

        The value is read off the curve; where scores are tied, they are called members in random order. The interval has
        coverage of at least 95 % for any scores. Two things vary, and each of the four tails gets 1.25 %. The order
        statistics of the non-members bound where the threshold of that rate lies. Clopper and Pearson bound the share of
        members above it. With fewer than about 4.4 / fpr non-members no score is surely above the threshold, and the
        interval reaches down to 0. With fewer than 1 / fpr only the upper end means something, and `computed_on` says so.

        Args:
            fpr: false-positive rate, above 0 and below 1.
        """
        members, nonmembers = self.member_scores, self.nonmember_scores
        m, n, tail = len(members), len(nonmembers), (1 - LEVEL) / 4
        value = _read_off(*_corners(members, nonmembers), fpr)

        # How many non-members lie above the true threshold: at least `fewest`, at most `most`, each but for one tail.
        fewest, most = int(stats.binom.ppf(tail, n, fpr)), int(stats.binom.isf(tail, n, fpr))
        low, high = 0.0, 1.0
        if fewest > 0:
            successes = m - int(np.searchsorted(members, nonmembers[n - fewest], side="right"))
            low = float(stats.beta.ppf(tail, successes, m - successes + 1)) if successes else 0.0
        if most < n:
            successes = m - int(np.searchsorted(members, nonmembers[n - most - 1], side="left"))
            high = float(stats.beta.isf(tail, successes + 1, m - successes)) if successes < m else 1.0
        computed_on = f"{m:,} members, at a false-positive rate of {fpr:.4g} among {n:,} non-members"
        if n * fpr < 1:
            computed_on += f"; too few for this rate, which takes {math.ceil(1 / fpr):,}: only the upper end counts"
        return Estimate(value, min(low, value), max(high, value), m, computed_on)


def roc(member_scores: ArrayLike, nonmember_scores: ArrayLike) -> Roc:
    """The curve of an attack that accuses the highest scores first.

    The 95 % interval of the area is over the records, with the model as it is. Each end is the wider of two. The interval
    of DeLong, DeLong, Clarke-Pearson (Biometrics 1988) makes no assumption, but shrinks to a point when members and
    non-members are separated. The score interval of Newcombe (Statistics in Medicine 2006, method 5) does not.

    Args:
        member_scores: [M], higher means more likely a member.
        nonmember_scores: [N].

    Raises:
        DataError: if a set has fewer than two scores or one is not finite; names the set and the index.
    """
    members = np.sort(scores("member_scores", member_scores))
    nonmembers = np.sort(scores("nonmember_scores", nonmember_scores))
    fpr, tpr = _corners(members, nonmembers)
    points = _thinned(fpr, tpr)
    return Roc(
        fpr=fpr[points],
        tpr=tpr[points],
        auc=_area(members, nonmembers),
        member_scores=members,
        nonmember_scores=nonmembers,
    )


def _corners(members: Scores, nonmembers: Scores) -> tuple[Scores, Scores]:
    """Rates when all scores of at least t are called members, for t from above the highest score to the lowest. Both rising."""
    thresholds = np.unique(np.r_[members, nonmembers])[::-1]
    fpr, tpr = (1 - np.searchsorted(values, thresholds, side="left") / len(values) for values in (nonmembers, members))
    return np.r_[0.0, fpr], np.r_[0.0, tpr]


def _read_off(fpr: Scores, tpr: Scores, at: float) -> float:
    """The curve at one rate: the top of a vertical piece, between two corners on their straight line."""
    i = int(np.searchsorted(fpr, at, side="right")) - 1  # at < 1, so a corner follows
    share = (at - fpr[i]) / (fpr[i + 1] - fpr[i])
    return float(tpr[i] + share * (tpr[i + 1] - tpr[i]))


def _thinned(fpr: Scores, tpr: Scores) -> np.ndarray:
    """Indices of the corners kept: the first, the last, and those next to an even and a logarithmic grid of rates."""
    grid = np.r_[np.linspace(0, 1, _POINTS), np.geomspace(1e-5, 1, _POINTS)]
    positions = [np.searchsorted(rate, grid, side=side) for rate in (fpr, tpr) for side in ("left", "right")]
    return np.unique(np.clip(np.concatenate(positions), 0, len(fpr) - 1))


def _area(members: Scores, nonmembers: Scores) -> Estimate:
    m, n = len(members), len(nonmembers)
    below = _midrank(nonmembers, members)  # [M], share of non-members under each member
    above = 1 - _midrank(members, nonmembers)  # [N], share of members over each non-member
    area = float(below.mean())
    z = float(stats.norm.ppf(0.5 + LEVEL / 2))
    half = z * math.sqrt(float(below.var(ddof=1)) / m + float(above.var(ddof=1)) / n)
    low = max(0.0, min(area - half, _newcombe(area, m, n, z)))
    high = min(1.0, max(area + half, 1 - _newcombe(1 - area, m, n, z)))
    computed_on = f"{m:,} members and {n:,} non-members"
    return Estimate(area, min(low, area), max(high, area), m + n, computed_on)


def _midrank(ordered: Scores, values: Scores) -> Scores:
    """Share of the ordered scores below each value, ties counted half."""
    below, upto = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray((below + upto) / (2 * len(ordered)), dtype=np.float64)


def _newcombe(area: float, m: int, n: int, z: float) -> float:
    """Lower end of Newcombe's interval: the t under the area for which area - t is z standard errors at t."""
    star = (m + n) / 2 - 1

    def gap(t: float) -> float:
        variance = t * (1 - t) / (m * n) * (1 + star * (1 - t) / (2 - t) + star * t / (1 + t))
        return area - t - z * math.sqrt(variance)

    upper = area - 1e-12  # at the area itself the gap may be 0, as the standard error is at 0 and 1
    return float(optimize.brentq(gap, 0.0, upper)) if upper > 0 and gap(upper) < 0 else max(0.0, upper)
