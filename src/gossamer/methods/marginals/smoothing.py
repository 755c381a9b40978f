"""What noisy counts of fine bins say beyond their noise: they follow what stands out, and are smooth elsewhere.

All of it is post-processing: it reads released values and public facts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

SPIKE = 4.5
"""A count that is so many standard deviations above those around it stands for itself."""


@dataclass(frozen=True)
class FineCounts:
    """Noisy counts of the values of a column, by a first query.

    Neighbours may have been counted together, too. That makes the error of their sum less than that of single counts.

    Args:
        counts: float64 [values].
        deviation: standard deviation of the noise on each, if nothing else was known.
        in_order: how many of the first values have an order.
        width: neighbours that were counted together; 0: none were.
    """

    counts: Tensor
    deviation: float
    in_order: int
    width: int = 0

    @classmethod
    def of_both(cls, fine: Tensor, coarse: Tensor, groups: Tensor, deviation: float, in_order: int) -> "FineCounts":
        """The most likely counts by two queries with the same noise, of single values and of groups of them.

        Least squares: what the sum of a group of n values lacks is divided by n + 1, and added to each.
        """
        lengths = torch.bincount(groups)
        lacking = coarse - torch.zeros_like(coarse).index_add_(0, groups, fine)
        return cls(fine + (lacking / (lengths + 1))[groups], deviation, in_order, int(lengths[0]))

    def variance(self, first: int, beyond: int) -> float:
        """Of the sum of neighbours: a part of k values of a group of n has k - k^2 / (n + 1) variances of a single value."""
        n = self.width
        if not n:
            return self.deviation**2 * (beyond - first)
        if first >= self.in_order:
            return self.deviation**2 * (beyond - first) / 2
        parts = [min(end + n, beyond) - max(end, first) for end in (first // n * n, (beyond - 1) // n * n)]
        whole = max(0, (beyond - 1) // n - first // n - 1)
        parts = parts[:1] if beyond - 1 < first // n * n + n else parts
        return self.deviation**2 * (sum(k - k * k / (n + 1) for k in parts) + whole * n / (n + 1))


def coarse_map(size: int, in_order: int, groups: int) -> Tensor:
    """The group of each value: about so many groups of neighbours, and each value without an order alone. int64 [values]"""
    width = -(-in_order // groups)
    return torch.cat([torch.arange(in_order) // width, torch.arange(size - in_order) - (-in_order // width)])


def shares(fine: FineCounts, merged: Tensor, masses: Tensor) -> Tensor:
    """The share of each value in its merged value, float64 [values].

    What stands out of its noise stays: single counts that are far above the others, and the others as far as they vary by more
    than their noise (James and Stein 1961). The rest is smooth: it follows the densities of the merged neighbours, and decays
    geometrically in the first and the last of them. Values without an order share evenly.

    Args:
        fine: noisy counts.
        merged: the merged value of each value.
        masses: the numbers of rows of the merged values, by the model.
    """
    counts, values, sums = fine.counts.numpy(), merged.numpy(), masses.clamp(min=0).numpy()
    groups = [np.flatnonzero(values == value) for value in range(len(sums))]
    found, spikes = np.ones(len(counts)), np.zeros(len(counts))
    noise = np.sqrt([fine.variance(k, k + 1) for k in range(len(counts))])
    for own, mass in zip(groups, sums, strict=True):
        level = np.median(counts[own]) if len(own) > 2 else np.inf
        over = np.where(counts[own] > max(level, 0) + SPIKE * noise[own], counts[own] - max(level, 0), 0)
        spikes[own] = over * min(1.0, mass / max(over.sum(), 1e-9))
    ordered = [k for k, own in enumerate(groups) if own[0] < fine.in_order and own[-1] < fine.in_order]
    left = np.array([mass - spikes[own].sum() for own, mass in zip(groups, sums, strict=True)])
    lengths = np.array([len(own) for own in groups])
    smooth = _baseline(left[ordered] / lengths[ordered], lengths[ordered])
    for k, (own, mass) in enumerate(zip(groups, sums, strict=True)):
        if len(own) == 1:
            continue
        base = smooth[ordered.index(k)] if k in ordered else np.full(len(own), 1 / len(own))
        base = base * left[k]
        rest = counts[own] - spikes[own]
        off = rest - base - (rest - base).mean()
        square = base**2
        varied = max(0.0, (square * (off**2 - noise[own] ** 2)).sum() / max(float((square**2).sum()), 1e-9))
        keep = varied * square / np.maximum(varied * square + noise[own] ** 2, 1e-9)
        final = np.maximum(base + keep * off, 0) + spikes[own]
        found[own] = final / final.sum() if final.sum() > 0 else 1 / len(own)
    return torch.from_numpy(found)


def _baseline(densities: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Within each bin of so many cells: shares that are linear towards the neighbours, and decay in the first and the last."""
    found = []
    centres = lengths.cumsum() - lengths / 2
    last = len(densities) - 1
    for k, n in enumerate(lengths):
        steps = np.arange(n) - (n - 1) / 2
        slopes = [
            (densities[b] - densities[a]) / (centres[b] - centres[a]) for a, b in ((k - 1, k), (k, k + 1)) if a >= 0 and b <= last
        ]
        if last and k in (0, last) and n > 2:
            beside = 1 if k == 0 else k - 1
            own = _decaying(max(densities[beside], 0), lengths[beside], densities[k] * n, n)
            found.append(own[::-1] if k == 0 else own)
        elif len(slopes) == 2 and slopes[0] * slopes[1] > 0 and densities[k] > 0:
            slope = min(slopes, key=abs)
            own = np.maximum(densities[k] + slope * steps, 0)
            found.append(own / own.sum())
        else:
            found.append(np.full(n, 1 / n))
    return found


def _decaying(density: float, length: int, total: float, n: int) -> np.ndarray:
    """Shares of n cells that decay by a factor each: the one that takes the neighbour's density to the sum of the cells."""
    low, high = 0.0, 1.0
    at = np.arange(n)
    for _ in range(50):
        factor = (low + high) / 2
        if density * factor ** ((length + 1) / 2) * (factor**at).sum() > total:
            high = factor
        else:
            low = factor
    shares_ = max(low, 1e-3) ** at
    return np.asarray(shares_ / shares_.sum())
