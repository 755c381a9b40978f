"""Which marginals a round measures. All of it is post-processing: it reads released values and public facts.

AIM (McKenna et al. 2022) chooses one marginal a round by the exponential mechanism. Here one noisy query has the errors of all
candidates, and a round takes as many as promise more than their noise costs. The standard deviation of the noise on a table
of n cells is in proportion to n^(-1/3). That makes the sum of the expected L1 errors least (Zhang et al. 2021, PrivSyn).
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossamer.data.tables.table import Table
from gossamer.methods.marginals import Config, Noise
from gossamer.methods.marginals.counts import Interactions
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.smoothing import FineCounts
from gossamer.methods.marginals.tree import Clique, JunctionTree, cells_of, spread, summed, triangulated

HALF_NORMAL = math.sqrt(2 / math.pi)
"""Mean size of a standard normal number."""
BELOW = 1 - 1e-12
"""Keeps the weights of the noise below what rounding could make too large."""
OUTSTANDING, SEEN = 4.5, 0.4
"""An interaction stands out if it is so many standard deviations from what the model expects. Noise alone does so in 1 of 50
runs. Interactions of a higher order are asked for as long as those that concern SEEN of the rows stand out."""
MOST_INTERACTIONS = 6_000
"""Counting takes seconds."""
SWEEPS, LEAST = 3, 1e-9
"""Of raking, and what stands for a count of zero in it."""
MODEL_ROWS = 2**14
"""Samples that show what a model expects of interactions."""
FAINT, MOST_TRIPLES = 0.03, 5_000
"""Triples are no candidates where they would be more, or where so much noise on all errors hides pairs. Chosen on Adult."""


def candidates(sizes: Sequence[int], *, triples: bool, most_cells: int) -> list[Clique]:
    """All pairs, and with `triples` all triples, whose tables have at most so many cells."""
    columns = range(len(sizes))
    every: list[Clique] = [*itertools.combinations(columns, 2)]
    every += itertools.combinations(columns, 3) if triples else []
    return [clique for clique in every if cells_of([clique], sizes) <= most_cells]


def triples_stand_out(config: Config, card: Any, columns: int) -> bool:
    """Whether the noise on the errors of all pairs and triples of so many columns is at most FAINT of the rows."""
    noise = Noise.of(config, card).errors * int(card.max_rows) * math.sqrt(math.comb(columns + 1, 3))
    return math.comb(columns, 3) <= MOST_TRIPLES and noise <= FAINT * int(card.declared_size)


def interaction_noise(config: Config, card: Any, count: int = 1) -> float:
    """Standard deviation of the noise on each of so many interactions. Half of the last query of errors is theirs."""
    return Noise.of(config, card).errors * int(card.max_rows) * math.sqrt(2 * count)


def interaction_sets(config: Config, card: Any, sizes: Sequence[int]) -> list[Clique]:
    """Sets of columns whose interactions with the label are asked for, the smaller first. Empty: no pair of columns is.

    Sets of the next larger number of columns are added as long as an interaction that concerns SEEN of the rows stands out of
    the noise on all. A table of the set with the label is small enough to be counted.

    Args:
        config: with all settings `resolved`.
        card: a TableCard.
        sizes: number of merged values of each column.
    """
    label, size, noise = card.label_index, int(card.declared_size), interaction_noise(config, card)
    if label is None:
        return []
    seen = (SEEN * size / (OUTSTANDING * noise)) ** 2 if noise else math.inf
    most = min(seen, MOST_INTERACTIONS)
    columns = [column for column, size in enumerate(sizes) if size > 1 and column != label]
    found: list[Clique] = []
    level: list[Clique] = [(column,) for column in columns]
    while level and len(found) + len(level) <= most:
        found += level
        longer = [(*each, column) for each in level for column in columns if column > each[-1]]
        level = [each for each in longer if cells_of([(*each, label)], sizes) <= config.clique_cells]
    return found if found and len(found[-1]) > 1 else []


def halves(net: MarkovField) -> list[Tensor]:
    """-1 for the first values of each column that have less than half of the model's rows, +1 for the others."""
    found = []
    for values, shares in zip(net.maps, net.alone, strict=True):
        middles = shares.cumsum(0) - shares / 2
        found.append(torch.where(middles < shares.sum() / 2, -1.0, 1.0).double()[values].cpu())
    return found


def standing_out(
    asked: Interactions, answer: Tensor, net: MarkovField, *, total: float, noise: float
) -> dict[Clique, float]:
    """The tables of interactions that the model lacks, the clearest first, and by how many rows each exceeds chance.

    The model's own interactions are those of its samples. A set that holds another one, or is in it, counts once: where two
    columns interact with the label, so do these two with a third that has a frequent half.

    Args:
        asked: what was asked.
        answer: the noisy coefficients, [sets].
        net: the model.
        total: the number of rows.
        noise: standard deviation of the noise on a coefficient.
    """
    rows = net.sample(MODEL_ROWS, None, torch.Generator().manual_seed(0))
    off = (answer - asked.of(Table(rows.numpy()), 1) * total / MODEL_ROWS).abs()
    least = OUTSTANDING * math.sqrt(noise**2 + total + total**2 / MODEL_ROWS)
    found: dict[Clique, float] = {}
    for k in torch.argsort(off, descending=True).tolist():
        own = {*asked.sets[k], asked.label}
        if off[k] > least and len(own) > 2 and not any(own <= set(other) or own >= set(other) for other in found):
            found[tuple(sorted(own))] = float(off[k]) - least
    return found


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


def of_part(
    cliques: Sequence[Clique], expected: Sequence[Tensor], own: Sequence[tuple[Tensor, Tensor]]
) -> list[Tensor]:
    """Tables that a part of the records is expected to have: those of all records, raked to the part's own counts.

    Iterative proportional fitting (Deming, Stephan 1940). Counts below their noise give way to the part's share.

    Args:
        cliques: of the tables.
        expected: counts of all records.
        own: noisy counts of the part by column, and the variance of their noise, float64 [merged values].
    """
    found = []
    for clique, table in zip(cliques, expected, strict=True):
        share = max(1.0, float(own[clique[0]][0].sum())) / max(1.0, float(table.sum()))
        part, targets = table * share, []
        for column in clique:
            whole, (counts, variances) = summed(table, clique, (column,)), own[column]
            noise = variances.sqrt()
            targets.append(whole * (counts.clamp(min=0) + noise * share) / (whole + noise).clamp(min=LEAST))
        for column, target in [*zip(clique, targets, strict=True)] * SWEEPS:
            now = summed(part, clique, (column,)).clamp(min=LEAST)
            part = part * spread(target / now, (column,), clique)
        found.append(part)
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
    also: Callable[[Clique], Clique | None] = lambda _: None,
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
        also: another clique that the tree holds because of one, or None.
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
            grown += [each for each in map(also, grown) if each]
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


def merged(fine: FineCounts, *, most: int) -> Tensor:
    """Merge values of a column, so that the counts of what is merged stand out of their noise.

    Values in an order are merged with their neighbours until their sum is three standard deviations of its noise, and so is
    the next value or the sum of all that follow. Where there are more than `most` of them, only this sum is asked for, and
    values are merged until theirs is 2 / most of all. A value that has as much alone is merged with none before it. So
    frequent values keep their own place, and the others get quantiles. Values without an order that are below three standard
    deviations are merged with each other.

    Args:
        fine: released counts.
        most: values in an order that are merged for their noise only, about.

    Returns:
        int64 [values], from 0.
    """
    in_order, counts = fine.in_order, fine.counts.tolist()
    many, sums = in_order > most, [0.0, *itertools.accumulate(counts)]
    enough = max(0.0, 2 * sums[in_order] / most) if many else 0.0

    def clear(first: int, beyond: int, least: float = 0.0) -> bool:
        return bool(sums[beyond] - sums[first] >= max(least, 3 * math.sqrt(fine.variance(first, beyond))))

    numbers, number, first = [], 0, 0
    for k in range(in_order):
        if k > first and many and counts[k] >= enough and clear(first, k):
            number, first = number + 1, k
        numbers.append(number)
        ends = [] if k + 1 == in_order else [in_order] if many else [k + 2, in_order]
        if clear(first, k + 1, enough) and any(clear(k + 1, end) for end in ends):
            number, first = number + 1, k + 1
    following = number + 1 if in_order else 0
    for k in range(in_order, len(counts)):
        if clear(k, k + 1):
            numbers.append(following)
            following += 1
        else:
            numbers.append(-1)
    return torch.tensor([following if number < 0 else number for number in numbers])
