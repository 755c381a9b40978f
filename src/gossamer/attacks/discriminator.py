"""The white-box attack: a discriminator that has seen a record tends to score it higher.

Hayes et al. 2019 (LOGAN) for one discriminator; Mukherjee et al. 2021, Algorithms 2 and 3, for one and for several.
"""

from typing import Literal

from numpy.typing import ArrayLike

from gossamer.attacks.arrays import scores_of_both
from gossamer.attacks.roc import roc
from gossamer.attacks.scores import Attack, top_members
from gossamer.intervals import proportion


def white_box(member_scores: ArrayLike, nonmember_scores: ArrayLike, *, how: Literal["max", "mean"] = "max") -> Attack:
    """Call the M highest scores members, for M members, and count how many of them are.

    The attacker knows the number of members and nothing else. Ties at the last place are shared out: the figure is the
    expected one when they are called members in random order. The Wilson 95 % interval is over the records, with the
    discriminators as they are; n is M. It takes the threshold as given. That makes it too wide, not too narrow, where the
    ROC curve is concave: members are no denser at the threshold than above it.

    Args:
        member_scores: [M], or [D, M] for D discriminators; on one scale, higher where a record looks real.
        nonmember_scores: [N] or [D, N].
        how: "max" or "mean" over the discriminators.

    Raises:
        DataError: if a set has fewer than two records, a score is not finite, or the numbers of discriminators differ.
    """
    table, other = scores_of_both(member_scores, nonmember_scores)
    members, nonmembers = (each.max(axis=0) if how == "max" else each.mean(axis=0) for each in (table, other))
    m, n = len(members), len(nonmembers)
    computed_on = f"the {m:,} highest scores of {m:,} members and {n:,} non-members"
    return Attack(
        name="white-box" if len(table) == 1 else f"white-box, {how} over {len(table)} discriminators",
        measure="share of members among those called members",
        estimate=proportion(top_members(members, nonmembers), m, computed_on),
        chance=m / (m + n),
        needs="the discriminators, the records in question, and the number of members",
        about="The attacker has the discriminators of the run, and accuses the records with the highest scores.",
        roc=roc(members, nonmembers),
    )
