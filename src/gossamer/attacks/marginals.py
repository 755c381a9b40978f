"""The attack that won SNAKE 2023: density ratios in the marginals that a generator was fitted to.

Golob, Pentyala, Maratkhan, De Cock 2024 ("Privacy vulnerabilities in marginals-based synthetic data", arXiv 2402.06699).
The score is the mean of DOMIAS ratios over the marginals, in place of one ratio over all columns. A method that releases noisy
marginals shows a member in each of them, and in nothing else.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from gossamer.attacks.arrays import Array, Scores
from gossamer.attacks.scores import Attack, area

MOST_CELLS = 1_000_000
"""Of one marginal. Larger ones are left out."""


def frequencies(codes: Array, clique: Sequence[int], sizes: Sequence[int]) -> Scores:
    """The share of rows in each cell of a marginal, float64 [cells], the last column fastest.

    Args:
        codes: whole numbers [n, columns].
        clique: positions of the marginal's columns.
        sizes: number of codes of each column.
    """
    shape = [sizes[column] for column in clique]
    counts = np.bincount(_cells(codes, clique, sizes), minlength=int(np.prod(shape)))
    return np.asarray(counts / max(1, len(codes)), dtype=np.float64)


def marginal_ratios(
    model: Iterable[Array],
    members: Array,
    nonmembers: Array,
    reference: Array,
    *,
    cliques: Sequence[Sequence[int]],
    sizes: Sequence[int],
    name: str,
    needs: str,
    about: str,
) -> Attack:
    """Score each row by the mean over the marginals of (p_G + 1/R) / (p_R + 1/R) at its cells, and judge by the area.

    p_G are the model's probabilities, and p_R are the shares of the reference. The share of one reference row, 1/R, keeps the
    ratio of an empty cell finite.

    Interval over the rows, with the model and the reference as they are; see `roc.roc`.

    Args:
        model: the probabilities of each marginal's cells, flat, the last column fastest.
        members: codes, whole numbers [M, columns].
        nonmembers: [N, columns].
        reference: [R, columns], real rows that are neither members nor non-members.
        cliques: the positions of each marginal's columns.
        sizes: number of codes of each column.
        name: of the attack.
        needs: in words, what the attacker must hold.
        about: what the attack does, in a sentence.

    Raises:
        DataError: if a set has fewer than two rows.
    """
    least = 1 / max(1, len(reference))
    inside, outside = np.zeros(len(members)), np.zeros(len(nonmembers))
    for clique, probabilities in zip(cliques, model, strict=True):
        ratio = (np.asarray(probabilities) + least) / (frequencies(reference, clique, sizes) + least)
        inside += ratio[_cells(members, clique, sizes)] / len(cliques)
        outside += ratio[_cells(nonmembers, clique, sizes)] / len(cliques)
    note = f"{len(cliques):,} marginals, {len(reference):,} reference records"
    return area(name, inside, outside, needs=needs, about=about, note=note)


def _cells(codes: Array, clique: Sequence[int], sizes: Sequence[int]) -> Array:
    """The number of each row's cell, [n]."""
    shape = tuple(sizes[column] for column in clique)
    return np.asarray(np.ravel_multi_index(tuple(codes[:, column] for column in clique), shape))
