"""The Monte-Carlo attack: a generator that has memorised records generates many samples close to them.

Hilprecht, Härterich, Bernau 2019, in the variant of Mukherjee et al. 2021 (section 4.3, Algorithm 6). Distances are between
the first 40 principal components of held-out records, and the radius is by the median heuristic.

Departures from the published code and text: ties favour neither side. Algorithm 6 gives a tied pair to the members, and the
code counts a draw as won; both put chance above one half. Members and non-members are drawn separately, no record twice.
"""

from dataclasses import dataclass

import numpy as np

from gossamer.attacks.arrays import Array, Features, Scores, same_number
from gossamer.attacks.components import projected
from gossamer.attacks.distances import nearest, share_within
from gossamer.attacks.roc import roc
from gossamer.attacks.scores import Attack, top_members
from gossamer.errors import DataError
from gossamer.intervals import proportion

_NEEDS = "samples, the records in question, and held-out records for the principal components"


@dataclass(frozen=True, kw_only=True)
class SetAttack:
    """Which of two sets was trained on, decided in two ways. Chance is 0.5 for both.

    Args:
        pairs: each member against one non-member, and the set that wins more pairs. Algorithm 6.
        top: the set with more records among the highest half of all scores. Hilprecht et al., and the published code.
    """

    pairs: Attack
    top: Attack


def set_attack(
    synthetic: Array,
    members: Array,
    nonmembers: Array,
    held_out: Array,
    *,
    set_size: int = 100,
    repeats: int = 10,
    components: int = 40,
    seed: int,
) -> SetAttack:
    """Share of repeats in which the attacker picks the set of members; a draw counts one half.

    Each repeat draws fresh records, none of them twice. The Wilson 95 % interval is over the repeats, and so over the records
    drawn. The model and its samples are taken as they are. n is the number of repeats.

    Args:
        synthetic: the samples, uint8 [S, C, H, W] or features [S, D]; the paper takes 100,000.
        members: [M, ...], at least `set_size` x `repeats`.
        nonmembers: [N, ...], as many; the sets need not have one size.
        held_out: [H, ...], neither members nor non-members; at least `components`.
        set_size: records in each of the two sets.
        repeats: how often two sets are drawn.
        components: number of principal components.
        seed: fixes the draws.

    Raises:
        DataError: if shapes differ, a value is not finite, or there are too few records.
    """
    sets = {"synthetic": synthetic, "members": members, "nonmembers": nonmembers, "held_out": held_out}
    samples, inside, outside, _ = projected(sets, "held_out", components)
    for name, records in (("members", inside), ("nonmembers", outside)):
        if len(records) < set_size * repeats:
            raise DataError(
                f"{name}: {len(records)} records, fewer than set_size x repeats = {set_size * repeats}; no record is "
                "drawn twice, so lower one of them or give more records."
            )
    rng = np.random.default_rng(seed)
    drawn_inside = inside[rng.permutation(len(inside))[: set_size * repeats]].reshape(repeats, set_size, -1)
    drawn_outside = outside[rng.permutation(len(outside))[: set_size * repeats]].reshape(repeats, set_size, -1)

    pairs = top = 0.0
    for one, other in zip(drawn_inside, drawn_outside, strict=True):
        f_one, f_other = _shares(samples, one, other)
        pairs += _won(int((f_one > f_other).sum()), int((f_one < f_other).sum()))
        in_top = top_members(f_one, f_other)
        top += _won(in_top, set_size - in_top)

    basis = f"{repeats} draws of {set_size} members and {set_size} non-members; {len(samples):,} synthetic records"

    def figure(name: str, won: float) -> Attack:
        return Attack(
            name=f"Monte-Carlo set attack, {name}",
            measure="share of sets recognised",
            estimate=proportion(won, repeats, basis),
            chance=0.5,
            needs=_NEEDS,
            about="The attacker compares two sets of records, and accuses the set with more samples close by.",
        )

    return SetAttack(pairs=figure("by pairs", pairs), top=figure("by the top half", top))


def instance_attack(
    synthetic: Array, members: Array, nonmembers: Array, held_out: Array, *, components: int = 40
) -> Attack:
    """Accuse the M of 2M records that have the most samples within the radius, and count the members among them.

    Ties at the last place are shared out, as if broken at random. The Wilson 95 % interval is over the records, with the
    model and its samples as they are; n is M. See `discriminator.white_box` on where it is too wide.

    Args:
        synthetic: the samples, uint8 [S, C, H, W] or features [S, D].
        members: [M, ...].
        nonmembers: [M, ...], as many.
        held_out: [H, ...], neither members nor non-members; at least `components`.
        components: number of principal components.

    Raises:
        DataError: if shapes differ, a value is not finite, or there are not as many members as non-members.
    """
    m = same_number(members=members, nonmembers=nonmembers)
    sets = {"synthetic": synthetic, "members": members, "nonmembers": nonmembers, "held_out": held_out}
    samples, inside, outside, _ = projected(sets, "held_out", components)
    f_inside, f_outside = _shares(samples, inside, outside)
    computed_on = f"{m:,} of {m:,} members and {m:,} non-members; {len(samples):,} synthetic records"
    return Attack(
        name="Monte-Carlo instance attack",
        measure="share of members among those called members",
        estimate=proportion(top_members(f_inside, f_outside), m, computed_on),
        chance=0.5,
        needs=_NEEDS,
        about="The attacker accuses the records with the most samples close by.",
        roc=roc(f_inside, f_outside),
    )


def _shares(samples: Features, one: Features, other: Features) -> tuple[Scores, Scores]:
    """Share f of the samples within the radius of each record, which is the median distance to the nearest sample."""
    records = np.concatenate([one, other])
    radius = float(np.median(nearest(records, samples)))
    shares = share_within(records, samples, radius)
    return shares[: len(one)], shares[len(one) :]


def _won(ours: float, theirs: float) -> float:
    return 0.5 if ours == theirs else float(ours > theirs)
