"""Attacks by the distance to the nearest sample, and the share of samples that lie too close to a record.

GAN-Leaks (Chen, Yu, Zhang, Fritz 2020), full black-box and calibrated: the attacker has samples only.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist

from gossamer.attacks.arrays import Array, Features, Scores, features_of, same_number
from gossamer.attacks.scores import Attack, area
from gossamer.intervals import Estimate, difference, proportion
from gossamer.lazy import sklearn

_BLOCK = 2**24  # distances held at a time: 128 MiB


def nearest(records: Features, others: Features) -> Scores:
    """Euclidean distance of each record, [N, D], to the nearest of the others, [M, D]. Returns float64 [N].

    The neighbour is found with matrix products, in blocks of bounded memory. Its distance is computed from the
    difference, so that a copy has distance 0.
    """
    return _nearest(records, others)[1]


def share_within(records: Features, others: Features, radius: float) -> Scores:
    """Share of the others, [M, D], no farther than the radius from each record, [N, D]. Returns float64 [N].

    Distances come from differences, in blocks of bounded memory; a distance equal to the radius counts.
    """
    counts = np.zeros(len(records), dtype=np.int64)
    limit = radius * (1 + 1e-9)  # `nearest` and cdist add up the same squares in another order
    step = max(1, _BLOCK // max(1, len(records)))
    for start in range(0, len(others), step):
        counts += (cdist(records, others[start : start + step]) <= limit).sum(axis=1)
    return np.asarray(counts / len(others), dtype=np.float64)


def full_black_box(synthetic: Array, members: Array, nonmembers: Array) -> Attack:
    """GAN-Leaks, full black-box: the closer the nearest sample, the more likely a member. Judged by the area.

    Interval over the records, with the model and its samples as they are; see `roc.roc`.

    Args:
        synthetic: the samples, uint8 [S, C, H, W] or features [S, D].
        members: [M, ...].
        nonmembers: [N, ...].

    Raises:
        DataError: if shapes differ or a value is not finite; names the set and the index.
    """
    samples, inside, outside = features_of(synthetic=synthetic, members=members, nonmembers=nonmembers)
    return area(
        "GAN-Leaks, full black-box",
        -nearest(inside, samples),
        -nearest(outside, samples),
        needs="samples and the records in question",
        about="The attacker accuses the records that are closest to a sample.",
        note=f"{len(samples):,} synthetic records",
    )


def calibrated(synthetic: Array, members: Array, nonmembers: Array, reference: Array) -> Attack:
    """GAN-Leaks, calibrated: how much closer the nearest sample is than the nearest reference. Judged by the area.

    A record in a dense region is close to everything; the reference takes that away. Interval as `full_black_box`.

    Args:
        synthetic: the samples, uint8 [S, C, H, W] or features [S, D].
        members: [M, ...].
        nonmembers: [N, ...].
        reference: [R, ...]: samples of a model trained on other records of the same kind, or such records themselves. It must
            hold none of the members or non-members: one that is its own reference looks like no member.

    Raises:
        DataError: if shapes differ or a value is not finite; names the set and the index.
    """
    samples, inside, outside, others = features_of(
        synthetic=synthetic, members=members, nonmembers=nonmembers, reference=reference
    )
    return area(
        "GAN-Leaks, calibrated",
        nearest(inside, others) - nearest(inside, samples),
        nearest(outside, others) - nearest(outside, samples),
        needs="samples, the records in question, and reference samples or records",
        about="The attacker accuses records that are closer to a sample than to other real records.",
        note=f"{len(samples):,} synthetic and {len(others):,} reference records",
    )


@dataclass(frozen=True, kw_only=True)
class NearCopies:
    """How many samples lie very close to a member, beside how many lie as close to a held-out record.

    Args:
        of_members: share of the samples close to a member.
        of_held_out: share of the samples close to a held-out record: what honest resemblance gives.
        excess: the first minus the second; chance is 0.
    """

    of_members: Estimate
    of_held_out: Estimate
    excess: Attack


def near_copies(synthetic: Array, members: Array, held_out: Array, *, alpha: float = 0.01) -> NearCopies:
    """The share of samples that are close to a member as only a share `alpha` of real records are close to one another.

    The radius is the alpha-quantile of the distances from each member to the nearest held-out record and back, which
    favours neither set. The 95 % intervals are over the samples and over the records, with the model as it is.
    Samples crowd around single records, so each sample counts for less by a design effect. It is the variance of the number of
    close samples per record over its mean. Shares have Wilson's interval at that effective size, the excess the one that
    Newcombe makes of two. n is the number of samples.

    Args:
        synthetic: the samples, uint8 [S, C, H, W] or features [S, D].
        members: [M, ...].
        held_out: [M, ...], as many: the more records, the closer the nearest one.
        alpha: above 0, at most 0.1.

    Raises:
        DataError: if shapes differ, a value is not finite, or there are not as many members as held-out records.
    """
    m = same_number(members=members, held_out=held_out)
    samples, inside, outside = features_of(synthetic=synthetic, members=members, held_out=held_out)
    radius = float(np.quantile(np.r_[nearest(inside, outside), nearest(outside, inside)], alpha))
    basis = f"{len(samples):,} synthetic records against {m:,} members and {m:,} held-out records, alpha = {alpha:.4g}"
    of_members, of_held_out = (_share_close(samples, rows, radius, basis) for rows in (inside, outside))
    return NearCopies(
        of_members=of_members,
        of_held_out=of_held_out,
        excess=Attack(
            name="near-copies",
            measure="share close to members minus share close to held-out records",
            estimate=difference(of_members, of_held_out, basis),
            chance=0.0,
            needs="samples, all members and as many held-out records: a check for the data owner",
            about="The run has copied members if more samples are very close to them than to other real records.",
            lowest=-1.0,
        ),
    )


def _share_close(samples: Features, records: Features, radius: float, computed_on: str) -> Estimate:
    which, distance = _nearest(samples, records)
    close = distance <= radius
    per_record = np.bincount(which[close], minlength=len(records))
    share = float(close.mean())
    effect = max(1.0, float(per_record.var(ddof=1) / per_record.mean())) if close.any() else 1.0
    size = max(1.0, len(samples) / effect)
    return replace(proportion(share * size, size, computed_on), n=len(samples))


def _nearest(records: Features, others: Features) -> tuple[np.ndarray, Scores]:
    """Index of the nearest other, and its distance: [N] each."""
    which = sklearn.metrics.pairwise_distances_argmin(records, others)
    gaps = np.empty(len(records), dtype=np.float64)
    step = max(1, _BLOCK // records.shape[1])
    for start in range(0, len(records), step):
        part = slice(start, start + step)
        gaps[part] = np.linalg.norm(records[part].astype(np.float64) - others[which[part]], axis=1)
    return which, gaps
