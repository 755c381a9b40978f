"""How the rows of linked tables follow from the rows before: cells are counted by how far a value is from the last.

A column and the same column of the row before have many cells, and few rows for each. So cells of one distance are counted
together: equal values, neighbours, and distances that double. The first rows of a parent are counted by their values. The
most probable table with these counts is close to the real one, with a tenth of the noise.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gossamer.methods.marginals import known_columns, rows_before, steps_of
from gossamer.methods.marginals.counts import Counts
from gossamer.methods.marginals.measurements import Fold, Measurement
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.tree import Clique, spread, summed

SLACK, UNKNOWN = 0.5, 1e4
"""How far tables of the row before may be from those of the row, as a share; and the variance of what is not known."""


def query(card: Any, net: MarkovField) -> Counts:
    """The steps of a part. card: a PartCard."""
    groups = [_groups(card, net, clique) for clique in steps_of(card)]
    return Counts(net.maps, steps_of(card), card.max_rows, groups=groups)


def _groups(card: Any, net: MarkovField, clique: tuple[int, int]) -> Tensor:
    """The group of each cell: by distance where a column meets itself in the row before, else each cell alone."""
    before, own = clique
    rows, values = net.sizes[before], net.sizes[own]
    if clique not in rows_before(card):
        return torch.arange(rows * values)
    last = torch.tensor([*_merged_before(net, before, own), -1])
    ordered = int(net.maps[own][: card.columns[own].in_order].max()) + 1 if card.columns[own].in_order else 0
    here, there = torch.arange(values)[None], last[:, None]
    far = (here - there).abs()
    bands = torch.where((here < ordered) & (there < ordered), 2 + far.clamp(min=1).log2().long(), 1)
    groups = torch.where(there < 0, here, values + torch.where(far == 0, 0, bands))
    _, numbers = torch.unique(groups.flatten(), return_inverse=True)
    return torch.as_tensor(numbers)


def _merged_before(net: MarkovField, before: int, own: int) -> list[int]:
    """For each merged value of the column of the row before but the last, of no row: that of the row."""
    found = dict(zip(net.maps[before].tolist()[:-1], net.maps[own].tolist(), strict=False))
    return [found[value] for value in sorted(found)]


def mirror(card: Any, clique: Clique) -> Clique | None:
    """The clique of the row before, if the row before has each column too. Columns of rows above are those of both rows."""
    before = {own: k for k, own in rows_before(card)}
    above = known_columns(card) - {*before.values()}
    if len(clique) > 2 or above.issuperset(clique) or not {*before, *above}.issuperset(clique):
        return None
    return tuple(sorted(before.get(column, column) for column in clique))


def mirrored(
    card: Any, net: MarkovField, measured: Sequence[Measurement], fine: Sequence[tuple[Tensor, float, int, int]]
) -> list[Fold]:
    """The tables of the row before, from those of the row: rows of a unit have much the same tables, whichever row it is.

    Without them, a model takes the row before and the rows above for independent. It counts twice what both say. The error of
    a count is taken for SLACK of it beside the noise. Cells of no row before are known for columns alone.

    measured, fine: as the state of a training has them.
    """
    before, found = {own: k for k, own in rows_before(card)}, []
    steps = fine[max(known_columns(card), default=0) + 1][0] if before else torch.ones(1)
    first = float((steps[-1] / steps.sum().clamp(min=1)).clamp(0.001, 0.999))
    every = [*measured]
    for column in before:
        clique, counts, noise = next(each for each in measured if column in each[0])
        every.append(((column,), summed(counts, clique, (column,)), summed(noise, clique, (column,))))
    for clique, counts, variances in every:
        if (other := mirror(card, clique)) is None:
            continue
        cells = torch.zeros([net.sizes[column] for column in other]).long()
        for axis, own in enumerate(clique):
            column = before.get(own, own)
            last = [*range(net.sizes[column])]
            if own in before:
                last = [*_merged_before(net, column, own), -counts.numel()]
            values = torch.tensor(last) * math.prod(counts.shape[axis + 1 :])
            cells = cells + spread(values, (column,), other)
        groups = torch.where(cells < 0, counts.numel(), cells).flatten()
        kept, total = (1 - first) * counts.flatten(), float(counts.sum())
        noise = (1 - first) ** 2 * variances.flatten() + (SLACK * kept).square()
        none = torch.tensor([first * total, (total**2 + 1) * (UNKNOWN if len(clique) > 1 else (SLACK * first) ** 2)])
        found.append((other, groups, torch.cat([kept, none[:1]]), torch.cat([noise, none[1:]])))
    return found
