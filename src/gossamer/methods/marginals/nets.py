"""The generator that a run releases: a tree of cliques with their probabilities, and how rows are sampled from it.

Rare values of a column are merged into one value of the tree. A sample of the tree is split again by the shares that each
value has within its merged value.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from gossamer.methods.marginals.measurements import Measurement
from gossamer.methods.marginals.tree import Clique, JunctionTree, cells_of, spread, summed

LEAST_VARIANCE = 1e-12
"""Stands for that of counts without noise."""
LEAST = 1e-300
"""Stands for a probability of zero, whose logarithm has no gradient."""


class MarkovField(nn.Module):
    """A Markov random field over the columns. All of it is buffers, whose lengths follow from what was released.

    Args:
        domain: number of values of each column.
        label: the position of the label column; None: there is none.
    """

    merged: Tensor
    """int64 [sum of domain], column after column: the value of the tree that each value belongs to."""
    shares: Tensor
    """float64 [sum of domain]: the share of each value in its merged value."""
    cliques: Tensor
    """int64 [cliques, columns of the widest], filled up with -1. Each comes after its parent in the tree."""
    parents: Tensor
    """int64 [cliques]: the position of each clique's parent; -1 for the root."""
    probabilities: Tensor
    """float64 [cells of all cliques], clique after clique."""
    counted: Tensor
    """int64 [tables, columns of the widest], filled up with -1: the columns of the tables that were counted."""
    counts: Tensor
    """float64 [cells of all counted tables]: noisy counts, in merged values."""
    variances: Tensor
    """float64, the same: of their noise."""

    def __init__(self, domain: Sequence[int], label: int | None) -> None:
        super().__init__()
        self.domain, self.label = tuple(domain), label
        for name in ("merged", "cliques", "parents", "counted"):
            self.register_buffer(name, torch.zeros(0, dtype=torch.int64))
        for name in ("shares", "probabilities", "counts", "variances"):
            self.register_buffer(name, torch.zeros(0, dtype=torch.float64))
        self.merge([torch.arange(size) for size in domain], [torch.ones(size).double() for size in domain])
        alone = JunctionTree.over([], self.sizes, label)
        self.take(alone, [torch.full(shape, 1 / math.prod(shape)).double() for shape in alone.shapes])

    @property
    def classes(self) -> int:
        """Number of values of the label column; 1 where there is none."""
        return 1 if self.label is None else self.domain[self.label]

    @property
    def maps(self) -> list[Tensor]:
        """`merged`, by column."""
        return list(self.merged.split(list(self.domain)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of merged values of each column."""
        return tuple(int(each.max()) + 1 for each in self.maps)

    @property
    def tree(self) -> JunctionTree:
        """The tree of the cliques."""
        return JunctionTree(self.sizes, _unpadded(self.cliques), tuple(self.parents.tolist()))

    @property
    def alone(self) -> list[Tensor]:
        """The probabilities of the merged values of each column."""
        tree, tables, found = self.tree, self.tables, []
        for column in range(len(self.domain)):
            home = tree.home((column,))
            assert home is not None
            found.append(summed(tables[home], tree.cliques[home], (column,)))
        return found

    @property
    def tables(self) -> list[Tensor]:
        """The probabilities of each clique of the tree."""
        shapes = self.tree.shapes
        parts = self.probabilities.split([math.prod(shape) for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def merge(self, maps: Sequence[Tensor], counts: Sequence[Tensor]) -> None:
        """Take which values are merged, and numbers of rows that give their shares. By column, in place."""
        self.merged = torch.cat(list(maps)).to(self.merged)
        totals = [torch.bincount(values, own)[values] for values, own in zip(maps, counts, strict=True)]
        self.shares = (torch.cat(list(counts)) / torch.cat(totals)).to(self.shares)

    def take(self, tree: JunctionTree, marginals: Sequence[Tensor]) -> None:
        """Take a fitted distribution, in place."""
        self.cliques, self.parents = _padded(tree.cliques), torch.tensor(tree.parents)
        self.probabilities = torch.cat([each.flatten() for each in marginals])

    def keep(self, measured: Sequence[Measurement]) -> None:
        """Take the noisy tables that were counted, in place."""
        cliques, counts, variances = zip(*measured, strict=True)
        self.counted = _padded(cliques)
        self.counts, self.variances = (torch.cat([each.flatten() for each in own]) for own in (counts, variances))

    def query(self, columns: Clique) -> tuple[Tensor, Tensor]:
        """The noisy counts of some columns and the variances of their noise: the mean of all tables that hold these columns.

        A table counts by the inverse of its variance. float64 [merged values of each column, in their order], without bias.

        Raises:
            ValueError: no table holds them.
        """
        cliques, sizes = _unpadded(self.counted), self.sizes
        cells = [cells_of([clique], sizes) for clique in cliques]
        found = precisions = torch.zeros(()).double()
        for clique, *parts in zip(cliques, self.counts.split(cells), self.variances.split(cells), strict=True):
            if set(columns) <= set(clique):
                shape = [sizes[column] for column in clique]
                counts, variances = (summed(part.view(shape), clique, columns) for part in parts)
                precision = 1 / variances.clamp(min=LEAST_VARIANCE)
                found, precisions = found + counts * precision, precisions + precision
        if not precisions.ndim:
            raise ValueError("no table holds these columns")
        order = [sorted(columns).index(column) for column in columns]
        return (found / precisions).permute(order), (1 / precisions).permute(order)

    def sample(self, n: int, labels: Tensor | None, stream: torch.Generator) -> Tensor:
        """Rows, int64 [n, columns], on the CPU.

        Each row has the distribution of the field. The rows of one call are stratified. Among rows that agree in the columns
        before, the values of the next columns get their shares of rows, up to rounding.

        Args:
            n: how many.
            labels: int64 [n], of the label column; None: sampled.
            stream: a CPU generator that fixes the rows.
        """
        rows = torch.full((n, len(self.domain)), -1)
        known: set[int] = set()
        if labels is not None and self.label is not None:
            rows[:, self.label] = self.maps[self.label].cpu()[labels]
            known.add(self.label)
        sizes = self.sizes
        for clique, table in zip(self.tree.cliques, self.tables, strict=True):
            given = [column for column in clique if column in known]
            new = [column for column in clique if column not in known]
            if not new:
                continue
            turned = table.cpu().permute([clique.index(column) for column in (*given, *new)])
            flat = turned.reshape(math.prod(sizes[column] for column in given), -1)
            cells = stratified(flat, _ravelled(rows, given, sizes), stream)
            for column in reversed(new):
                rows[:, column], cells = cells % sizes[column], cells // sizes[column]
            known.update(new)
        return torch.stack([self.split_value(column, rows[:, column], stream) for column in range(len(self.domain))], 1)

    def conditioned(self, codes: Mapping[int, Tensor]) -> Self:
        """The field of the rows whose codes meet conditions: their exact distribution, by one pass over the tree.

        Args:
            codes: bool [values] for each column with a condition.

        Raises:
            ValueError: no row meets them.
        """
        found, tree, maps = copy.deepcopy(self), self.tree, self.maps
        shares = list(self.shares.split(list(self.domain)))
        potentials = [
            _log(table / spread(summed(table, clique, shared), shared, clique).clamp(min=LEAST))
            for table, clique, shared in zip(self.tables, tree.cliques, tree.separators, strict=True)
        ]
        for column, allowed in codes.items():
            inside = torch.zeros(tree.sizes[column]).double()
            inside.index_add_(0, maps[column], shares[column] * allowed)
            shares[column] = shares[column] * allowed / inside[maps[column]].clamp(min=LEAST)
            home = tree.home((column,))
            assert home is not None
            potentials[home] = potentials[home] + spread(_log(inside), (column,), tree.cliques[home])
        if float(tree.log_partition(potentials)) < math.log(LEAST) / 2:
            raise ValueError("no row meets the conditions")
        found.shares = torch.cat(shares)
        found.take(tree, tree.marginals(potentials))
        return found

    def shares_of(self, column: int) -> Tensor:
        """The share of each value of a column in its merged value. float64 [values]"""
        return torch.as_tensor(self.shares.split(list(self.domain))[column])

    def split_value(self, column: int, values: Tensor, stream: torch.Generator, shares: Tensor | None = None) -> Tensor:
        """Values of the column, for merged values. int64 [n]. shares: in place of its own."""
        inside = self.maps[column].cpu()
        if len(inside) == self.sizes[column]:
            return torch.argsort(inside)[values]
        table = torch.zeros(self.sizes[column], len(inside), dtype=torch.float64)
        table[inside, torch.arange(len(inside))] = (self.shares_of(column) if shares is None else shares).cpu()
        return stratified(table, values, stream)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Take buffers of any length: what was released decides it. A release of an earlier version has no counts."""
        for name, buffer in list(self.named_buffers()):
            given = state_dict.setdefault(prefix + name, buffer)
            setattr(self, name, torch.empty_like(given, dtype=buffer.dtype))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _padded(cliques: Sequence[Clique]) -> Tensor:
    widest = max(len(clique) for clique in cliques)
    return torch.tensor([[*clique, *[-1] * (widest - len(clique))] for clique in cliques])


def _unpadded(rows: Tensor) -> tuple[Clique, ...]:
    return tuple(tuple(column for column in row if column >= 0) for row in rows.tolist())


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.clamp(min=LEAST).log()


def _ravelled(rows: Tensor, columns: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """The number of each row's cell in the table of some columns. int64 [n]"""
    cells = torch.zeros(len(rows), dtype=torch.int64)
    for column in columns:
        cells = cells * sizes[column] + rows[:, column]
    return cells


def stratified(table: Tensor, conditions: Tensor, stream: torch.Generator) -> Tensor:
    """Sample a column of the table for each row of `conditions`, systematically within rows of the same condition.

    Args:
        table: float64 [conditions, values], not negative. A row of zeros is sampled evenly.
        conditions: int64 [n], rows of the table.
        stream: a CPU generator; n + conditions numbers are taken from it.

    Returns:
        int64 [n]
    """
    positive = table.clamp(min=0) + 1e-300
    last = (positive / positive.sum(1, keepdim=True)).cumsum(1)
    n, values = len(conditions), table.shape[1]
    order = torch.argsort(torch.rand(n, generator=stream, dtype=torch.float64))
    order = order[torch.argsort(conditions[order], stable=True)]
    grouped = conditions[order]
    counts = torch.bincount(grouped, minlength=len(table))
    begins = counts.cumsum(0) - counts
    offsets = torch.rand(len(table), generator=stream, dtype=torch.float64)
    uniform = (torch.arange(n) - begins[grouped] + offsets[grouped]) / counts[grouped]
    bounds = (last.clamp(max=1) + torch.arange(len(table))[:, None]).flatten()
    cells = torch.searchsorted(bounds, uniform + grouped, right=True) - grouped * values
    sampled = torch.empty(n, dtype=torch.int64)
    sampled[order] = cells.clamp(0, values - 1)
    return sampled
