"""Released tables of counts with the noise that they have, and what follows from them. Nothing here reads a record."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from gossamer.methods.marginals.counts import Counts
from gossamer.methods.marginals.tree import Clique, summed
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum

Measurement: TypeAlias = tuple[Clique, Tensor, Tensor]
"""A clique, the noisy counts of its cells, and the variance of the noise on each. Both float64 [sizes of the columns]."""

Fold: TypeAlias = tuple[Clique, Tensor, Tensor, Tensor]
"""A clique, the group of each of its cells, int64 [cells], the noisy counts of the groups, and the variances of their noise."""


def released(query: Counts, answer: Tensor, release: GroupedGaussianSum) -> list[Measurement]:
    """The tables of an answer, each with the variance of its noise."""
    count = len(query.cliques)
    weights = release.weights or (count**-0.5,) * count
    return [
        (clique, table, torch.full_like(table, (release.noise_multiplier * query.max_rows / weight) ** 2))
        for clique, table, weight in zip(query.cliques, query.tables(answer.double().cpu()), weights, strict=True)
    ]


def total(measured: Sequence[Measurement]) -> float:
    """The number of rows, each with its weight: the mean of the tables' sums, by inverse variance.

    At least 1, and at least its own noise.
    """
    precisions = [1 / max(float(variances.sum()), 1e-12) for _, _, variances in measured]
    sums = [float(table.sum()) for _, table, _ in measured]
    mean = math.fsum(p * each for p, each in zip(precisions, sums, strict=True)) / math.fsum(precisions)
    return max(mean, 1.0, 1 / math.sqrt(math.fsum(precisions)))


def of_column(measured: Sequence[Measurement], column: int) -> tuple[Tensor, float]:
    """The noisy counts of a column by all tables that hold it, [values], and the standard deviation of their noise.

    The noise of all of these tables is the same.
    """
    own = [each for each in measured if column in each[0]]
    counts = torch.stack([summed(table, clique, (column,)) for clique, table, _ in own]).mean(0)
    variances = torch.stack([summed(each, clique, (column,)) for clique, _, each in own]).mean(0) / len(own)
    return counts, float(variances.mean().sqrt())


def merged(measurement: Measurement, maps: Sequence[Tensor]) -> Measurement:
    """The same table in merged values. maps: of each column, int64 [values]."""
    clique, *tables = measurement
    for axis, column in enumerate(clique):
        size = int(maps[column].max()) + 1
        for k, table in enumerate(tables):
            shape = [size if other == axis else length for other, length in enumerate(table.shape)]
            tables[k] = table.new_zeros(shape).index_add_(axis, maps[column], table)
    counts, variances = tables
    return clique, counts, variances
