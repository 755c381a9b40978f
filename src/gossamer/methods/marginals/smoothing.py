"""What noisy counts of the values of a column say beyond their noise: followed where they stand out, smooth elsewhere.

All of it is post-processing: it reads released values and public facts.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

FALSE, PASSES = 0.003, 3
"""Of the counts that stand for themselves, about so many do by noise alone. They are looked for in so many passes."""
MOST_GROUPS = 64
"""More groups of a merged value are joined: the runs of them are as many as their square."""
CLEAR, SHORT = 2, 4
"""Rows stand out if they are so many standard deviations of their noise. A tail of fewer values than SHORT has no end."""


@dataclass(frozen=True)
class FineCounts:
    """Noisy counts of the values of a column. Groups of neighbours may have been counted with the same noise, too.

    Args:
        counts: float64 [values].
        deviation: standard deviation of the noise on each, before groups were counted.
        in_order: how many of the first values have an order.
        width: neighbours in a group; 0: there are no groups.
    """

    counts: Tensor
    deviation: float
    in_order: int
    width: int = 0

    def with_groups(self, counts: Tensor, groups: Tensor) -> Self:
        """The most likely counts, by least squares: a group of n values that lacks d gets d / (n + 1) on each.

        Args:
            counts: noisy counts of the groups.
            groups: the group of each value, as `group_map` has it.
        """
        lengths = torch.bincount(groups)
        lacking = counts - torch.bincount(groups, self.counts)
        return replace(self, counts=self.counts + (lacking / (lengths + 1))[groups], width=int(lengths[0]))

    def variance(self, first: int, beyond: int) -> float:
        """Of the noise on the sum of neighbours. k values in a group of n have that of k - k^2 / (n + 1) single ones."""
        if not self.width:
            return self.deviation**2 * (beyond - first)
        width = self.width if first < self.in_order else 1
        ends = [*range(first // width * width + width, beyond, width)]
        lengths = np.diff([first, *ends, beyond])
        return self.deviation**2 * float((lengths - lengths**2 / (width + 1)).sum())

    def sums(self, merged: Tensor) -> tuple[Tensor, Tensor]:
        """The counts of merged values, and the variance of the noise on each. merged: int64 [values]."""
        firsts = np.append(0, np.flatnonzero(np.diff(merged)) + 1)
        variances = [*map(self.variance, firsts.tolist(), [*firsts[1:].tolist(), len(merged)])]
        return torch.bincount(merged, self.counts), torch.bincount(merged[firsts], torch.tensor(variances).double())


def group_map(size: int, in_order: int, count: int) -> Tensor:
    """The group of each value: about so many groups of neighbours, and each value without an order. int64 [values]"""
    width = -(-in_order // count)
    ordered = torch.arange(in_order) // width
    return torch.cat([ordered, ordered[-1] + 1 + torch.arange(size - in_order)])


def shares(fine: FineCounts, merged: Tensor, rows: Tensor) -> Tensor:
    """The share of each value in its merged value, float64 [values].

    Counts far above the others stand for themselves, and have no part in what is smooth. The others are smooth: linear towards
    the merged neighbours, with a geometric decay in the first and the last merged value, and even without an order. Groups of
    neighbours have more where they were counted with more. Values follow their noisy counts as far as these vary by more than
    their noise (James and Stein 1961). Each deviation is in proportion to what is smooth, so noise fills no tail.

    Args:
        fine: noisy counts.
        merged: the merged value of each value.
        rows: the number of rows of each merged value, by the model.
    """
    noisy, total = fine.counts.numpy(), rows.clamp(min=0).numpy()
    ordered, other = (fine.variance(k, k + 1) for k in (0, fine.in_order))
    noise = np.where(np.arange(len(noisy)) < fine.in_order, ordered, other)
    groups = [np.flatnonzero(merged == value) for value in range(len(total))]
    within = [_with_rows(fine, own) for own in groups]
    expected = _smooth(total, within, fine)
    of_sums = fine.sums(merged)[1].numpy()
    of_sums -= of_sums**2 / max(of_sums.sum(), 1e-9)  # the number of all rows is known well
    for _ in range(PASSES):
        spikes = np.where(_stand_out(noisy - expected, noise), noisy - expected, 0)
        held, of_spikes = (np.bincount(merged, each) for each in (spikes, noise * (spikes > 0)))
        rest = (total - held).clip(1e-9)
        rest *= (1 - (of_sums + of_spikes) / rest**2).clip(0)
        spikes *= ((total - rest) / held.clip(1e-9))[merged]
        expected = _smooth(total - np.bincount(merged, spikes), within, fine)
    for own in groups:
        if own[-1] < fine.in_order:
            expected[own] = _concentrated(fine, own, noisy[own] - spikes[own], expected[own])
        off = (noisy - spikes - expected)[own]
        off -= off.mean()
        square = expected[own] ** 2
        varied = max(0.0, (square * (off**2 - noise[own])).sum()) / max((square**2).sum(), 1e-9)
        kept = off * varied * square / np.maximum(varied * square + noise[own], 1e-9)
        rest = np.maximum(expected[own] + kept, 1e-9)
        expected[own] = rest * max(expected[own].sum() / rest.sum(), 1e-9) + spikes[own]
    return torch.from_numpy(expected)


def _stand_out(off: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Which counts are above what is expected, bool [values], by the rule of Benjamini and Hochberg (1995).

    off: how far each is above, [values]. noise: its variance, [values].
    """
    chances = torch.special.ndtr(torch.from_numpy(-off / np.sqrt(np.maximum(noise, 1e-9)))).numpy()
    allowed = FALSE * np.arange(1, len(off) + 1) / len(off)
    return np.asarray(chances <= allowed[np.sort(chances) <= allowed].max(initial=0))


def _counted(fine: FineCounts, own: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the counted groups of neighbouring values begin, how long they are, and the variances of their noise.

    int64 [groups], int64 [groups], float64 [groups]. There are at most about MOST_GROUPS: of more, some are joined.
    """
    width = max(1, fine.width)
    width *= -(-len(own) // (MOST_GROUPS * width))
    begins = np.flatnonzero(np.diff(own // width, prepend=-1))
    ends = np.append(begins[1:], len(own))
    variances = [fine.variance(int(own[a]), int(own[b - 1]) + 1) for a, b in zip(begins, ends, strict=True)]
    return begins, ends - begins, np.array(variances)


def _with_rows(fine: FineCounts, own: np.ndarray) -> np.ndarray:
    """The values of a merged value that may have rows: a tail ends with the last run of counted groups that stands out."""
    last, few = own[-1] == fine.in_order - 1, not fine.width and len(own) < SHORT
    if few or own[-1] >= fine.in_order or last == (own[0] == 0):
        return own
    begins, lengths, variances = _counted(fine, own)
    each = np.stack([np.add.reduceat(fine.counts.numpy()[own], begins), variances, lengths])
    sums, noise, values = np.pad(each[:, :: 1 if last else -1], ((0, 0), (1, 0))).cumsum(1)
    runs = np.triu(sums - sums[:, None] >= CLEAR * np.sqrt(abs(noise - noise[:, None])), 1)
    kept = int(values[max(1, runs[np.flatnonzero(runs.any(1)).max(initial=0)].argmax())])
    return own[:kept] if last else own[-kept:]


def _concentrated(fine: FineCounts, own: np.ndarray, noisy: np.ndarray, smooth: np.ndarray) -> np.ndarray:
    """Counts of the values of a merged value, where a run of its counted groups may have more of the rows, or less.

    A run has its noisy count, and the other groups share the rest. The result is the mean over all runs, weighted by their
    likelihoods and priors. Half of the prior is for none. A run has the share of the other half that its smooth count is of
    all, so noise fills no tail.

    Args:
        fine: of the column.
        own: the values, [n].
        noisy: their counts, [n].
        smooth: what is expected of them, [n].
    """
    begins, lengths, variances = _counted(fine, own)
    counted, expected = np.add.reduceat(noisy, begins), np.add.reduceat(smooth, begins)
    first, last = (ends[:, None] for ends in np.triu_indices(len(begins)))
    inside = (first <= np.arange(len(begins))) & (np.arange(len(begins)) <= last)
    is_all, total = inside.all(1), smooth.sum()
    prior = inside @ expected
    kept = (inside @ counted).clip(0, total)
    kept = np.where(is_all | (total - kept < CLEAR * np.sqrt(~inside @ variances)), total, kept)
    within, without = kept / prior.clip(1e-9), (total - kept) / (total - prior).clip(1e-9)
    factors = np.where(inside, within[:, None], without[:, None])
    off = ((counted - factors * expected) ** 2 / np.maximum(variances, 1e-9)).sum(1)
    prior[is_all] = max(prior[~is_all].sum(), 1e-9)
    weights = prior * np.exp((off.min() - off) / 2)
    return np.asarray(smooth * (weights / weights.sum() @ factors).repeat(lengths))


def _smooth(rows: np.ndarray, groups: list[np.ndarray], fine: FineCounts) -> np.ndarray:
    """Smooth counts of all values, whose sums are the numbers of rows of their groups. float64 [values]

    The groups of values in an order come first, in their order.
    """
    found, count = np.zeros(len(fine.counts)), sum(own[-1] < fine.in_order for own in groups)
    lengths = np.array([*map(len, groups)])
    density = rows / lengths
    rises = np.diff(density) / np.diff(np.cumsum(lengths) - lengths / 2)
    for k, (own, n) in enumerate(zip(groups, lengths, strict=True)):
        shape, first, last = np.ones(n), k == 0, k == count - 1
        if k < count and first != last:
            beside = 1 if first else k - 1
            shape = _decay(density[beside], lengths[beside], rows[k], n)[:: -1 if first else 1]
        elif 0 < k < count - 1 and rises[k - 1] * rises[k] > 0:
            rise = min(rises[k - 1 : k + 1], key=abs)
            shape = np.maximum(density[k] + rise * (np.arange(n) - (n - 1) / 2), 1e-9)
        found[own] = rows[k] * shape / shape.sum()
    return found


def _decay(density: float, length: int, rows: float, n: int) -> np.ndarray:
    """n values that decay by a factor each, found by bisection, from the middle of a neighbour with a density.

    length: of the neighbour. rows: the sum of the n values.
    """
    low, high, powers = 1e-3, 1.0, np.arange(n)
    for _ in range(50):
        factor = (low + high) / 2
        too_many = density * factor ** ((length + 1) / 2) * (factor**powers).sum() > rows
        low, high = (low, factor) if too_many else (factor, high)
    return np.asarray(low**powers)
