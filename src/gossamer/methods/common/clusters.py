"""Clusters of public candidates, of which each has one histogram bin. They are for few records, whose votes noise would hide.

The candidates are grouped by k-means on their positions in the embedding. Both are public. The centres lie on the grid of
`votes.py`, so a vote for the nearest centre depends on its record alone. The query, its sensitivity and its noise are those of
votes for single candidates.
"""

from dataclasses import dataclass

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from gossamer.lazy import sklearn
from gossamer.methods.common.votes import on_grid


@dataclass(frozen=True)
class Clusters:
    """Candidates in clusters.

    Args:
        centres: where records vote, float64 [B, d] on the grid.
        labels: the class of each cluster, int64 [B].
        members: the cluster of each candidate, int64 [N].
    """

    centres: Tensor
    labels: Tensor
    members: Tensor

    def shared(self, weights: Tensor) -> Tensor:
        """Weights of candidates [N]: each has an equal share of the weight of its cluster. weights: [B]."""
        sizes = torch.bincount(self.members, minlength=len(self.labels))
        return (weights / sizes.clamp(min=1))[self.members]


def within_classes(positions: Tensor, labels: Tensor, counts: Tensor, stream: torch.Generator) -> Clusters:
    """The candidates of each class in so many clusters. Where a class has no more candidates, each is a cluster.

    Args:
        positions: where the candidates are, float64 [N, d] on the grid.
        labels: their classes, int64 [N].
        counts: clusters of each class, int64 [classes].
        stream: fixes the starting centres.
    """
    members = torch.empty_like(labels)
    centres: list[Tensor] = []
    sizes = torch.zeros_like(counts)
    for y in range(len(counts)):
        chosen = torch.nonzero(labels == y)[:, 0]
        where, groups = positions[chosen], torch.arange(len(chosen), device=labels.device)
        if counts[y] < len(chosen):
            where, groups = grouped(where, int(counts[y]), stream)
        members[chosen] = int(sizes.sum()) + groups
        sizes[y] = len(where)
        centres.append(where)
    return Clusters(
        torch.cat(centres), torch.arange(len(counts), device=labels.device).repeat_interleave(sizes), members
    )


def grouped(positions: Tensor, count: int, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """Centres float64 [k, d] on the grid, and the nearest to each of the public positions, int64 [n]. k is `count` at most."""
    positions = positions.double()
    different = torch.unique(positions, dim=0)
    centres = on_grid(k_means(positions, min(count, len(different)), stream)).to(positions.device)
    distances = centres.square().sum(1) - 2 * positions @ centres.T
    return centres, distances.argmin(1)


def k_means(points: Tensor, count: int, stream: torch.Generator) -> Tensor:
    """So many centres of points [N, d], by k-means: [count, d], on the processor.

    One thread adds up: of several, the last digits depend on which comes first, and nobody could replay the run.
    """
    seed = int(torch.randint(2**31, (), generator=stream))
    with threadpool_limits(1):
        fitted = sklearn.cluster.KMeans(count, n_init=1, random_state=seed).fit(points.cpu().numpy())
    return torch.from_numpy(fitted.cluster_centers_)
