"""Which marginals a round measures. All of it is post-processing: it reads released values and public facts.

AIM (McKenna et al. 2022) chooses one marginal a round by the exponential mechanism. Here one noisy query has the errors of all
candidates, and a round takes as many as promise more than their noise costs. The standard deviation of the noise on a table
of n cells is in proportion to n^(-1/3). That makes the sum of the expected L1 errors least (Zhang et al. 2021, PrivSyn).
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gossamer.methods.marginals.tree import Clique, JunctionTree, cells_of, spread, summed, triangulated

HALF_NORMAL = math.sqrt(2 / math.pi)
"""Mean size of a standard normal number."""
BELOW = 1 - 1e-12
"""Keeps the weights of the noise below what rounding could make too large."""
MOST_TRIPLES = 5_000
"""Triples are no candidates where there would be more: the noise on all errors grows with their number."""


def candidates(sizes: Sequence[int], *, triples: bool, most_cells: int) -> list[Clique]:
    """All pairs, and with `triples` all triples, whose tables have at most so many cells."""
    columns = range(len(sizes))
    three = list(itertools.combinations(columns, 3)) if triples and math.comb(len(sizes), 3) <= MOST_TRIPLES else []
    every: list[Clique] = [*itertools.combinations(columns, 2), *three]
    return [clique for clique in every if cells_of([clique], sizes) <= most_cells]


def expected(cliques: Sequence[Clique], tree: JunctionTree, marginals: Sequence[Tensor]) -> list[Tensor]:
    """Probabilities of pairs and triples by a model: exact for pairs, and for triples that lie in one clique of the tree.

    Of another triple, the two most dependent pairs are kept, and the third follows from them.
    """
    pairs = tree.pairs(marginals)
    dependence = {pair: _mutual_information(table) for pair, table in pairs.items()}
    found = []
    for clique in cliques:
        home = tree.home(clique)
        if len(clique) == 2:
            found.append(pairs[clique])
        elif home is not None:
            found.append(summed(marginals[home], tree.cliques[home], clique))
        else:
            found.append(_chained(clique, pairs, dependence))
    return found


def _chained(clique: Clique, pairs: dict[Clique, Tensor], dependence: dict[Clique, float]) -> Tensor:
    pairs_of = list(itertools.combinations(clique, 2))
    pairs_of.remove(min(pairs_of, key=lambda pair: dependence[pair]))
    first, second = pairs_of
    (shared,) = set(first) & set(second)
    below = spread(summed(pairs[second], second, (shared,)), (shared,), second).clamp(min=1e-300)
    return spread(pairs[first], first, clique) * spread(pairs[second] / below, second, clique)


def _mutual_information(table: Tensor) -> float:
    apart = table.sum(1, keepdim=True) * table.sum(0, keepdim=True)
    return float(torch.xlogy(table, table).sum() - torch.xlogy(table, apart).sum())


def choose(
    cliques: Sequence[Clique],
    errors: Tensor,
    *,
    weights: Sequence[float],
    deviation: float,
    held: Sequence[Clique],
    sizes: Sequence[int],
    most_cells: int,
    most: int,
) -> list[Clique]:
    """Choose greedily: the candidate that adds most to `promise`, while one adds and the tree has at most so many cells.

    Args:
        cliques: the candidates.
        errors: the noisy error of each, [candidates].
        weights: how much the error of each matters.
        deviation: of the noise on a single table, if the next query measured it alone.
        held: cliques that the tree holds already.
        sizes: number of merged values of each column.
        most_cells: of the tree.
        most: number of cliques to choose.
    """
    error, weight = errors.numpy().astype(np.float64), np.array(weights)
    share = np.array([cells_of([clique], sizes) for clique in cliques]) ** (2 / 3)
    chosen: list[int] = []
    open_ = np.ones(len(cliques), dtype=bool)
    best = 0.0
    while len(chosen) < most:
        promises = np.full(len(cliques), -np.inf)
        promises[open_] = promise(
            (weight * error)[chosen].sum() + (weight * error)[open_],
            (weight * share)[chosen].sum() + (weight * share)[open_],
            share[chosen].sum() + share[open_],
            deviation,
        )
        taken = None
        for k in np.argsort(-promises, kind="stable"):
            if promises[k] <= best:
                break
            grown = [*held, *(cliques[each] for each in chosen), cliques[k]]
            if cells_of(triangulated(grown, sizes), sizes) <= most_cells:
                taken = int(k)
                break
            open_[k] = False  # the tree only grows, so it will not fit later
        if taken is None:
            break
        chosen.append(taken)
        best = float(promises[taken])
        open_ &= np.array([not set(clique) <= set(cliques[taken]) for clique in cliques])
    return [cliques[k] for k in chosen]


def promise(error: np.ndarray, weighted: np.ndarray, shares: np.ndarray, deviation: float) -> np.ndarray:
    """The weighted error of some cliques, less the weighted L1 error that their noise will have.

    Let s = n^(2/3) for a clique of n cells. The noise on each cell has a standard deviation of
    deviation x sqrt(sum of s) / n^(1/3). So its expected error is HALF_NORMAL x deviation x sqrt(sum of s) x s.

    Args:
        error: sum over the cliques of weight x error.
        weighted: sum of weight x s.
        shares: sum of s.
        deviation: of the noise on a table that is measured alone.
    """
    promised: np.ndarray = error - HALF_NORMAL * deviation * np.sqrt(shares) * weighted
    return promised


def noise_weights(cells: Sequence[int]) -> tuple[float, ...]:
    """The weight of each table in the joint query, n^(1/3), scaled so that their squares add up to 1, or less by rounding."""
    total = math.fsum(n ** (2 / 3) for n in cells)
    return tuple(n ** (1 / 3) / math.sqrt(total) * BELOW for n in cells)


def merged(noisy: Tensor, deviation: float, in_order: int, *, most: int) -> Tensor:
    """Merge values of a column, so that the counts of what is merged stand out of their noise.

    Values in an order are merged with their neighbours until their sum is three standard deviations of its noise. Where there
    are more than `most` of them, they are merged further, until their sum is 2 / most of all. A value that has as much
    alone is merged with none before it. So frequent values keep their own place, and the others get quantiles. Values without
    an order that are below three standard deviations are merged with each other.

    Args:
        noisy: released counts, [values].
        deviation: standard deviation of their noise.
        in_order: how many of the first values have an order.
        most: values in an order that are merged for their noise only, about.

    Returns:
        int64 [values], from 0.
    """
    many = in_order > most
    counts, least = (noisy if many else noisy.clamp(min=0)).tolist(), 3 * deviation
    rest = [math.fsum(counts[k:in_order]) for k in range(in_order + 1)]
    enough = max(0.0, 2 * rest[0] / most) if many else 0.0

    def clear(total: float, length: int) -> bool:
        return total >= least * (math.sqrt(length) if many else 1.0)

    numbers, number, held, length = [], 0, 0.0, 0
    for k in range(in_order):
        if length and many and counts[k] >= enough and clear(held, length):
            number, held, length = number + 1, 0.0, 0
        numbers.append(number)
        held, length = held + counts[k], length + 1
        if held >= enough and clear(held, length) and k + 1 < in_order and clear(rest[k + 1], in_order - k - 1):
            number, held, length = number + 1, 0.0, 0
    following = number + 1 if in_order else 0
    for k in range(in_order, len(counts)):
        if counts[k] >= least:
            numbers.append(following)
            following += 1
        else:
            numbers.append(-1)
    return torch.tensor([following if number < 0 else number for number in numbers])
