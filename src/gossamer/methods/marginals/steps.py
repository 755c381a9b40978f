"""How the rows of linked tables follow from the rows before: the cells of a table are counted by how far a value is from the last.

A column and the same column of the row before have many cells, and few rows for each. So cells of one distance are counted
together: equal values, neighbours, and distances that double. The first rows of a parent are counted by their values. The
most probable table with these counts is close to the real one, with a tenth of the noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from gossamer.methods.marginals import known_columns, rows_before, steps_of
from gossamer.methods.marginals.counts import Counts
from gossamer.methods.marginals.measurements import Measurement
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.tree import Clique, summed
from gossamer.privacy.queries import Bounds

if TYPE_CHECKING:
    from gossamer.methods.marginals import loop

SLACK, UNKNOWN = 0.5, 1e4
"""How far tables of the row before may be from those of the row, as a share; and the variance of what is not known."""
Fold: TypeAlias = tuple[Clique, Tensor, Tensor, Tensor]
"""A clique, the group of each of its cells, int64 [cells], the noisy counts of the groups, and the variances of their noise."""


@dataclass(frozen=True)
class Folded:
    """The query: the tables of some cliques, whose cells are counted in groups.

    Sensitivity: each row is in one cell of a table, so in one group. The weights of a unit's rows add up to at most K, see
    `Counts`. So a unit moves the groups of a table by at most K in L1, hence in L2.

    Args:
        counts: the tables.
        groups: of the cells of each, int64 [cells], from what is public or released.
    """

    counts: Counts
    groups: Sequence[Tensor]

    @property
    def cliques(self) -> Sequence[Clique]:
        """Of the tables."""
        return self.counts.cliques

    @property
    def max_rows(self) -> int:
        """K, public."""
        return self.counts.max_rows

    @property
    def norms(self) -> tuple[float, ...]:
        """How far a unit moves the groups of each table in L2, at most."""
        return self.counts.norms

    @property
    def sizes(self) -> list[int]:
        """Number of groups of each table."""
        return [int(each.max()) + 1 for each in self.groups]

    @property
    def dimension(self) -> int:
        """Number of groups of all tables."""
        return sum(self.sizes)

    def clipped_sum(self, rows: Any, bounds: Bounds, /) -> Tensor:
        """[dimension] float64, exact sums of the counts. Raises ValueError: a bound below K."""
        cells = self.counts.clipped_sum(rows, bounds).split(self.counts.sizes)
        return torch.cat([torch.bincount(*each) for each in zip(self.groups, cells, strict=True)])

    def tables(self, answer: Tensor) -> list[Tensor]:
        """The groups of each table, in an answer."""
        return list(answer.split(self.sizes))


def query(card: Any, net: MarkovField) -> Folded:
    """The steps of a part. card: a PartCard."""
    cliques = steps_of(card)
    return Folded(Counts(net.maps, cliques, card.max_rows), [_groups(card, net, clique) for clique in cliques])


def _groups(card: Any, net: MarkovField, clique: tuple[int, int]) -> Tensor:
    """The group of each cell: by distance where a column meets itself in the row before, else each cell alone."""
    before, own = clique
    rows, values = net.sizes[before], net.sizes[own]
    if clique not in rows_before(card):
        return torch.arange(rows * values)
    last = torch.tensor([*_merged_before(net, before, own), -1])
    ordered = int(net.maps[own][: card.columns[own].in_order].max()) + 1 if card.columns[own].in_order else 0
    here = torch.arange(values).expand(rows, values)
    there = last[:, None].expand(rows, values)
    far = (here - there).abs()
    bands = torch.where((here < ordered) & (there < ordered), 2 + far.clamp(min=1).log2().long(), 1)
    groups = torch.where(there < 0, here, values + torch.where(far == 0, 0, bands))
    return torch.unique(groups.flatten(), return_inverse=True)[1]


def _merged_before(net: MarkovField, before: int, own: int) -> list[int]:
    """For each merged value of the column of the row before but the last, of no row: that of the row."""
    pairs = zip(net.maps[before].tolist()[:-1], net.maps[own].tolist(), strict=False)
    found = dict(reversed([*pairs]))
    return [found[value] for value in sorted(found)]


def mirror(card: Any, clique: Clique) -> Clique | None:
    """The clique of the row before, if the row before has each column too. Columns of rows above are those of both rows."""
    before = {own: k for k, own in rows_before(card)}
    above = known_columns(card) - {*before.values()}
    if len(clique) > 2 or above.issuperset(clique) or not {*before, *above}.issuperset(clique):
        return None
    return tuple(sorted(before.get(column, column) for column in clique))


def of_rows_before(card: Any, state: "loop.State") -> list[Measurement]:
    """The tables of the row before, from those of the row: rows of a unit have much the same tables, whichever row it is.

    Without them, a model takes the row before and the rows above for independent. It counts twice what both say. No table of
    two columns says anything of the cells of no row before. The error of a count is taken for SLACK of it beside the noise.
    """
    before = {own: k for k, own in rows_before(card)}
    if not before:
        return []
    first = first_rows(card, state)
    alone = [_alone(state.measured, column) for column in before]
    found = []
    for clique, counts, variances in [*state.measured, *alone]:
        if (other := mirror(card, clique)) is None:
            continue
        order = sorted(range(len(clique)), key=lambda axis: before.get(clique[axis], clique[axis]))
        counts, variances = ((1 - first) * counts).permute(order), ((1 - first) ** 2 * variances).permute(order)
        variances = variances + (SLACK * counts).square()
        for axis, column in enumerate(clique[k] for k in order):
            if column in before:
                last = torch.tensor(_merged_before(state.net, before[column], column))
                counts, variances = counts.index_select(axis, last), variances.index_select(axis, last)
                none = counts.sum(axis, keepdim=True) * first / (1 - first)
                free = (state.total + 1) ** 2 * (UNKNOWN if len(clique) > 1 else SLACK**2)
                counts = torch.cat([counts, none], axis)
                variances = torch.cat([variances, torch.full_like(none, free)], axis)
        found.append((other, counts, variances))
    return found


def first_rows(card: Any, state: "loop.State") -> float:
    """The share of rows without a row before, each with its weight: those without a step, by the first query."""
    counts = state.fine[max(known_columns(card)) + 1][0]
    return float((counts[-1] / counts.sum().clamp(min=1)).clamp(0.001, 0.999))


def _alone(measured: Sequence[Measurement], column: int) -> Measurement:
    """The counts of a column, by the first table that holds it."""
    clique, counts, variances = next(each for each in measured if column in each[0])
    return (column,), summed(counts, clique, (column,)), summed(variances, clique, (column,))
