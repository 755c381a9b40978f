"""Junction trees: a Markov random field over the columns of a table, its partition function and its marginals.

A clique is a rising tuple of columns. Potentials are logarithms, one tensor for each maximal clique of a triangulated
graph. Marginals of cliques are gradients of the log partition function. Koller and Friedman 2009, chapter 10.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias

import torch
from torch import Tensor

Clique: TypeAlias = tuple[int, ...]
"""Columns, rising."""


@dataclass(frozen=True)
class JunctionTree:
    """The maximal cliques of a triangulated graph, the root first and each parent before its children.

    Args:
        sizes: number of values of each column.
        cliques: the maximal cliques.
        parents: the position of each clique's parent; -1 for the root.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @classmethod
    def over(cls, cliques: Iterable[Clique], sizes: Sequence[int], root: int | None = None) -> Self:
        """The tree of a graph in which each given clique is complete. `root`: a column of the first clique."""
        maximal = triangulated(cliques, sizes)
        first = next((k for k, clique in enumerate(maximal) if root is None or root in clique), 0)
        return cls(tuple(sizes), *_spanning_tree(maximal, first))

    @property
    def cells(self) -> int:
        """Number of potentials."""
        return cells_of(self.cliques, self.sizes)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of each clique's tensor."""
        return [tuple(self.sizes[column] for column in clique) for clique in self.cliques]

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """What each clique shares with its parent."""
        return tuple(
            () if parent < 0 else tuple(column for column in clique if column in self.cliques[parent])
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    def home(self, columns: Clique) -> int | None:
        """The position of the smallest clique that holds all of the columns; None: there is none."""
        holding = [k for k, clique in enumerate(self.cliques) if set(columns) <= set(clique)]
        return min(holding, key=lambda k: math.prod(self.shapes[k]), default=None)

    def log_partition(self, potentials: Sequence[Tensor]) -> Tensor:
        """log Z, by messages from the leaves to the root. A scalar, differentiable in the potentials."""
        collected = list(potentials)
        for k in range(len(self.cliques) - 1, 0, -1):
            shared, parent = self.separators[k], self.parents[k]
            rest = [axis for axis, column in enumerate(self.cliques[k]) if column not in shared]
            message = torch.logsumexp(collected[k], rest) if rest else collected[k]
            collected[parent] = collected[parent] + spread(message, shared, self.cliques[parent])
        return torch.logsumexp(collected[0].flatten(), 0)

    def marginals(self, potentials: Sequence[Tensor]) -> list[Tensor]:
        """The probabilities of each clique's cells."""
        leaves = [each.detach().requires_grad_() for each in potentials]
        return [each.detach() for each in torch.autograd.grad(self.log_partition(leaves), leaves)]

    def pairs(self, marginals: Sequence[Tensor]) -> dict[Clique, Tensor]:
        """The exact marginal of every two columns, whether or not a clique holds them.

        From a clique with the first column, the joint distribution of that column and a clique goes through the tree. Time:
        the values of all columns times the cells of the tree.
        """
        neighbours: list[list[tuple[int, Clique]]] = [[] for _ in self.cliques]
        for k, (parent, shared) in enumerate(zip(self.parents, self.separators, strict=True)):
            if parent >= 0:
                neighbours[k].append((parent, shared))
                neighbours[parent].append((k, shared))
        found: dict[Clique, Tensor] = {}
        for first in range(len(self.sizes)):
            start = self.home((first,))
            assert start is not None
            alone = torch.eye(self.sizes[first], dtype=marginals[0].dtype)
            waiting = [(start, -1, marginals[start] * spread(alone, (first,), self.cliques[start]))]
            while waiting:
                k, before, joint = waiting.pop()
                clique = self.cliques[k]
                for second in clique:
                    if second > first and (first, second) not in found:
                        found[first, second] = summed(joint, clique, (second,))
                for neighbour, shared in neighbours[k]:
                    if neighbour != before:
                        there, there_clique = marginals[neighbour], self.cliques[neighbour]
                        below = spread(summed(there, there_clique, shared), shared, there_clique).clamp(min=1e-300)
                        message = spread(summed(joint, clique, shared), shared, there_clique)
                        waiting.append((neighbour, k, there / below * message))
        return found


def summed(table: Tensor, clique: Clique, columns: Clique) -> Tensor:
    """The marginal of some columns of a clique, from the table of the clique. Axes before those of the clique are kept."""
    gone = [axis - len(clique) for axis, column in enumerate(clique) if column not in columns]
    return table.sum(gone) if gone else table


def spread(table: Tensor, columns: Clique, clique: Clique) -> Tensor:
    """The table of some columns with the axes of a clique that holds them; the other axes have length 1.

    Axes before those of the columns are kept.
    """
    before = table.ndim - len(columns)
    lengths = iter(table.shape[before:])
    sizes = [next(lengths) if column in columns else 1 for column in clique]
    return table.reshape([*table.shape[:before], *sizes])


def cells_of(cliques: Iterable[Clique], sizes: Sequence[int]) -> int:
    """Number of cells of the tables of cliques."""
    return sum(math.prod(sizes[column] for column in clique) for clique in cliques)


def triangulated(cliques: Iterable[Clique], sizes: Sequence[int]) -> list[Clique]:
    """The maximal cliques after elimination, the column with the smallest table first."""
    near: dict[int, set[int]] = {column: set() for column in range(len(sizes))}
    for clique in cliques:
        for a, b in itertools.combinations(clique, 2):
            near[a].add(b)
            near[b].add(a)
    cost = {column: math.prod(sizes[each] for each in {column, *others}) for column, others in near.items()}
    maximal: list[set[int]] = []
    while near:
        gone = min(near, key=lambda column: (cost[column], column))
        others = near.pop(gone)
        if not any(others | {gone} <= clique for clique in maximal):
            maximal.append(others | {gone})
        for column in others:
            near[column] |= others
            near[column] -= {column, gone}
            cost[column] = math.prod(sizes[each] for each in {column, *near[column]})
    return [tuple(sorted(clique)) for clique in maximal]


def _spanning_tree(cliques: Sequence[Clique], first: int) -> tuple[tuple[Clique, ...], tuple[int, ...]]:
    """A maximum spanning tree by the number of shared columns: cliques from the first on, and their parents. Prim 1957."""
    sets = [set(clique) for clique in cliques]
    order, parents, rest = [first], [-1], set(range(len(cliques))) - {first}
    while rest:
        _, k, parent = max((len(sets[k] & sets[order[p]]), -k, -p) for k in rest for p in range(len(order)))
        order.append(-k)
        parents.append(-parent)
        rest.remove(-k)
    return tuple(cliques[k] for k in order), tuple(parents)
