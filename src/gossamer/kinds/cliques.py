"""The model of a table for a report: its tree of cliques, and how strongly columns depend on each other.

All of it follows from the released model, so it is public.
"""

from typing import Any

from torch import Tensor

from gossamer.kinds.histograms import MOST_DRAWN
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.tree import JunctionTree
from gossamer.methods.synthesizer import Synthesizer

_NAMED = 5
"""Pairs that are written out."""
_FAINT = 0.02
"""Weaker associations are left blank."""


def described(synthesizer: Synthesizer) -> dict[str, Any] | None:
    """What the page shows of a model; None: the model is no tree of cliques, or has one column.

    Returns:
        path: the tree, see `path`. common: names of the columns in all cliques. names: of the columns of the heat map.
        pairs: (row, column, Cramér's V) of the heat map, row after column. strongest: the first of them in words.
    """
    net, names = synthesizer.net, synthesizer.card.names
    if not isinstance(net, MarkovField) or len(names) < 2:
        return None
    tree = net.tree
    everywhere = set.intersection(*map(set, tree.cliques)) if len(tree.cliques) > 2 else set()
    shown = {key: cramers_v(table) for key, table in tree.pairs(net.tables).items() if max(key) < MOST_DRAWN}
    by_strength = sorted(shown, key=lambda key: -shown[key])
    return {
        "path": path(tree, names, everywhere),
        "common": [names[column] for column in sorted(everywhere)],
        "names": names[:MOST_DRAWN],
        "pairs": [(second, first, value) for (first, second), value in shown.items() if value >= _FAINT],
        "strongest": [
            f"{names[first]} and {names[second]} {shown[first, second]:.2f}"
            for first, second in by_strength[:_NAMED]
            if shown[first, second] >= _FAINT
        ],
    }


def path(tree: JunctionTree, names: tuple[str, ...], everywhere: set[int], start: int = 0) -> list[dict[str, Any]]:
    """The cliques from one of them down to a leaf, always to the child with most cliques below it.

    So a tree of n cliques is at most log2(n) branches deep, however long its chains are.

    Args:
        tree: parents before children.
        names: of all columns.
        everywhere: columns that are left out of `given`.
        start: the position of the first clique.

    Returns:
        For each clique: new, the names of the columns that it adds; given, those that it shares with its parent; branches,
        the paths of the other children.
    """
    below = [1] * len(tree.cliques)
    for k in range(len(below) - 1, 0, -1):
        below[tree.parents[k]] += below[k]
    steps: list[dict[str, Any]] = []
    following = [start]
    while following:
        *branches, at = sorted(following, key=lambda k: (below[k], -k))
        if branches:
            steps[-1]["branches"] = [path(tree, names, everywhere, k) for k in branches]
        shared = tree.separators[at]
        steps.append(
            {
                "new": [names[column] for column in tree.cliques[at] if column not in shared],
                "given": [names[column] for column in shared if column not in everywhere],
                "alone": not shared and at > 0,
                "branches": [],
            }
        )
        following = [k for k, parent in enumerate(tree.parents) if parent == at]
    return steps


def cramers_v(table: Tensor) -> float:
    """Cramér's V of a table of probabilities, [a, b]: 0 for independent columns, 1 where one follows from the other."""
    shares = table / table.sum()
    apart = shares.sum(1, keepdim=True) * shares.sum(0, keepdim=True)
    squared = float(((shares - apart) ** 2 / apart.clamp(min=1e-12)).sum())
    return float(min(1.0, (squared / max(1, min(shares.shape) - 1)) ** 0.5))
