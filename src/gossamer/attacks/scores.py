"""From scores to figures: what an attack returns, and the shares it is judged by."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from gossamer.attacks.arrays import Scores, scores, scores_of_both
from gossamer.attacks.roc import LOW_RATES, Roc, roc
from gossamer.intervals import Estimate, EstimateJson


class RocJson(TypedDict):
    """A ROC curve as attacks.json has it: its points, by rising rate of false alarms."""

    fpr: list[float]
    tpr: list[float]


class AttackFigure(EstimateJson):
    """One figure of an attack, as attacks.json has it. `tpr` has a rate for each of `LOW_RATES`, or nothing."""

    attack: str
    measure: str
    chance: float
    lowest: float
    needs: str
    about: str
    note: str
    internal: bool
    tpr: dict[str, EstimateJson]
    roc: RocJson | None


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What an attack reached, beside what it would reach by guessing.

    Args:
        name: the attack, with its variant.
        measure: in words, what the estimate is.
        estimate: the figure; its interval says over what in the docstring of the function that made it.
        chance: the figure of an attacker who learns nothing from the model.
        needs: in words, what the attacker must hold.
        about: what the attack does, in a sentence for the report. To accuse a record is to say that it is a member.
        note: in words, what else a reader must know; may be empty.
        roc: the curve over single records, where the attack scores them.
        lowest: lower end of the measure's scale; the upper end is 1.
    """

    name: str
    measure: str
    estimate: Estimate
    chance: float
    needs: str
    about: str
    note: str = ""
    roc: Roc | None = None
    lowest: float = 0.0

    def to_json(self) -> AttackFigure:
        """Return it as attacks.json has it."""
        curve = self.roc
        return {
            "attack": self.name,
            "measure": self.measure,
            "chance": self.chance,
            "lowest": self.lowest,
            "needs": self.needs,
            "about": self.about,
            "note": self.note,
            **self.estimate.to_json(),
            "internal": True,
            "tpr": {f"{rate:g}": curve.tpr_at(rate).to_json() for rate in LOW_RATES} if curve else {},
            "roc": {"fpr": curve.fpr.tolist(), "tpr": curve.tpr.tolist()} if curve else None,
        }


def area(
    name: str, member_scores: ArrayLike, nonmember_scores: ArrayLike, *, needs: str, about: str, note: str = ""
) -> Attack:
    """The attack that accuses the highest scores first, judged by the area under its curve. Interval as in `roc`."""
    curve = roc(member_scores, nonmember_scores)
    return Attack(
        name=name,
        measure="area under the ROC curve",
        estimate=curve.auc,
        chance=0.5,
        needs=needs,
        about=about,
        note=note,
        roc=curve,
    )


def top_members(member_scores: ArrayLike, nonmember_scores: ArrayLike) -> float:
    """How many of the M highest scores belong to members, for M members; expected, where ties are broken at random.

    Raises:
        DataError: if a set has fewer than two scores or one is not finite.
    """
    members = scores("member_scores", member_scores)
    nonmembers = scores("nonmember_scores", nonmember_scores)
    m = len(members)
    last = np.sort(np.r_[members, nonmembers])[-m]  # the lowest score that is still called a member
    sure = int((members > last).sum())
    tied, tied_nonmembers = int((members == last).sum()), int((nonmembers == last).sum())
    places = m - sure - int((nonmembers > last).sum())
    return sure + places * tied / (tied + tied_nonmembers)


def ranked(member_scores: ArrayLike, nonmember_scores: ArrayLike) -> tuple[Scores, Scores]:
    """Scores of any range as ranks in (0, 1), per discriminator, ties at their middle rank.

    For attacks that ask for scores in [0, 1] where the discriminator is a critic without a sigmoid. An order is all
    that ranks keep, so they show neither more nor less than the scores to an attacker who may choose any threshold.

    Args:
        member_scores: [M] or [D, M].
        nonmember_scores: [N] or [D, N].

    Returns:
        Float64 [D, M] and [D, N].

    Raises:
        DataError: if a score is not finite, or the numbers of discriminators differ.
    """
    members, nonmembers = scores_of_both(member_scores, nonmember_scores)
    ranks = stats.rankdata(np.concatenate([members, nonmembers], axis=1), axis=1)
    ranks = (ranks - 0.5) / ranks.shape[1]
    return ranks[:, : members.shape[1]], ranks[:, members.shape[1] :]
