"""The oracle attack: how well the best rule on a discriminator's score separates members from non-members.

Mukherjee et al. 2021, section 4.2 and Algorithms 4 and 5. The rule knows how the scores of both sets are distributed,
so its gain is the total variation distance between the two distributions. On finite sets that distance is never 0, even
where the distributions are equal. We show how large it is by chance, and correct for it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gossamer.attacks.arrays import Scores, scores_of_both
from gossamer.attacks.scores import Attack
from gossamer.errors import DataError
from gossamer.intervals import LEVEL, Estimate

_BINS = 50
"""Of equal width on [0, 1]; the last one contains 1."""
_NEEDS = "the discriminators, and how the scores of members and of non-members are distributed"
_ABOUT = "The attacker also knows how members and non-members score, and uses the best rule on the scores."


@dataclass(frozen=True, kw_only=True)
class TotalVariation:
    """The oracle attack in three figures.

    Args:
        raw: the distance as the paper computes it; its chance is the mean distance after shuffling who is a member.
        corrected: the distance with that bias removed; chance is 0.
        accuracy: of the best guess at one record, where members and non-members are equally likely; chance is 0.5.
    """

    raw: Attack
    corrected: Attack
    accuracy: Attack


def total_variation(
    member_scores: ArrayLike,
    nonmember_scores: ArrayLike,
    *,
    shuffles: int = 200,
    seed: int = 0,
) -> TotalVariation:
    """Half the L1 distance between the two histograms of the scores; the maximum over the discriminators.

    The 95 % interval of the raw figure is McDiarmid's (1989). Moving a member to another bin moves the figure by at most 1/M,
    a non-member by at most 1/N. So the interval holds for any scores and sizes, around the figure's own mean. That mean lies
    above the distance of the distributions, by up to about the bias b of the shuffled sets. The corrected value is
    (raw - b) / (1 - b): 0 where shuffling gives as much, 1 where the sets are separated. Between the two it reads low, because
    the bias is largest where the distributions are equal. On average the truth lies between the corrected and the raw value.
    The corrected interval starts a further b below the raw one. Both intervals are over the records, with the discriminators
    as they are; n is M + N.

    Let each of D discriminators know its own D-th of the members by heart, and no others. Then every single distance is near
    1 / D, whatever they know together. `white_box` joins their scores first and does not have this limit.

    Args:
        member_scores: [M], or [D, M] for D discriminators, in [0, 1]; `ranked` brings other scores there.
        nonmember_scores: [N] or [D, N].
        shuffles: how often the members are redrawn to measure the bias.
        seed: fixes the shuffles.

    Raises:
        DataError: if a set has fewer than two records, a score is not in [0, 1], or the numbers of discriminators differ.
    """
    members, nonmembers = scores_of_both(member_scores, nonmember_scores)
    _check_unit_interval(member_scores=members, nonmember_scores=nonmembers)
    discriminators, m = members.shape
    n = nonmembers.shape[1]

    cells = _cells(np.concatenate([members, nonmembers], axis=1))
    total = _counts(cells)

    def distance(axes: NDArray[np.intp]) -> float:
        """Between the records chosen as members and the rest."""
        inside = _counts(cells[:, axes])
        distances = 0.5 * np.abs(inside / m - (total - inside) / n).sum(axis=1)  # Alg. 4: [D]
        return float(distances.max())  # Alg. 5

    raw = distance(np.arange(m))
    rng = np.random.default_rng(seed)
    shuffled = np.array([distance(rng.permutation(m + n)[:m]) for _ in range(shuffles)])
    bias = float(shuffled.mean())
    as_large = int((shuffled >= raw - 1e-12).sum())  # rounding must not separate equal distances

    half = math.sqrt((1 / m + 1 / n) * math.log(2 / (1 - LEVEL)) / 2)
    low, high = max(0.0, raw - half), min(1.0, raw + half)
    value = max(0.0, (raw - bias) / (1 - bias)) if bias < 1 else 0.0
    computed_on = f"{m:,} members and {n:,} non-members, {_BINS} bins"
    name = "oracle TVD" if discriminators == 1 else f"oracle TVD, max over {discriminators} discriminators"
    note = f"{as_large} of {shuffles} shuffles of who is a member gave as large a distance"

    def figure(measure: str, estimate: Estimate, chance: float) -> Attack:
        return Attack(
            name=name, measure=measure, estimate=estimate, chance=chance, needs=_NEEDS, about=_ABOUT, note=note
        )

    corrected = Estimate(value, max(0.0, min(value, raw - bias - half)), max(value, high), m + n, computed_on)
    accuracy = Estimate((1 + value) / 2, (1 + corrected.low) / 2, (1 + corrected.high) / 2, m + n, computed_on)
    return TotalVariation(
        raw=figure("total variation distance", Estimate(raw, low, high, m + n, computed_on), bias),
        corrected=figure("total variation distance, bias removed", corrected, 0.0),
        accuracy=figure("accuracy of the best guess", accuracy, 0.5),
    )


def _check_unit_interval(**sets: Scores) -> None:
    for name, table in sets.items():
        wrong = np.flatnonzero(((table < 0) | (table > 1)).any(axis=0))
        if len(wrong):
            raise DataError(
                f"{name}: the score at index {wrong[0]} is outside [0, 1] ({len(wrong)} such records); "
                "apply the discriminator's sigmoid, or give ranks (`ranked`)."
            )


def _cells(table: Scores) -> NDArray[np.intp]:
    """The bin of each score, [D, N], numbered on from one discriminator to the next."""
    cells = np.minimum((table * _BINS).astype(np.intp), _BINS - 1)
    return cells + _BINS * np.arange(len(table))[:, None]


def _counts(cells: NDArray[np.intp]) -> NDArray[np.int64]:
    return np.bincount(cells.ravel(), minlength=_BINS * len(cells)).reshape(len(cells), _BINS)
