"""Rows of a table as numbers, in which distances and densities can be computed, and which rows lie apart from the others."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gossamer.attacks.arrays import Array, Features, features_of
from gossamer.lazy import sklearn

NEIGHBOURS = 5
"""Of which the mean distance says how isolated a record is. Meeus et al. 2023 take as many."""


def row_features(codes: Array, sizes: Sequence[int], in_order: Sequence[int]) -> Features:
    """Rows of codes as float32 [n, D]: at most 1 between two codes of a column in order, and 1 between two other codes.

    Codes in an order become one number from 0 to 1. All other codes are one-hot, with 1/sqrt(2) in place of 1.

    Args:
        codes: whole numbers [n, columns].
        sizes: number of codes of each column.
        in_order: how many of the first codes of each column have an order.
    """
    parts: list[Array] = []
    for column, (size, ordered) in enumerate(zip(sizes, in_order, strict=True)):
        own = codes[:, column]
        if ordered:
            parts.append(np.where(own < ordered, own / max(1, ordered - 1), 0)[:, None])
        parts.append(np.eye(size)[own][:, ordered:] / np.sqrt(2))
    rows: Features = np.concatenate(parts, axis=1).astype(np.float32)
    return rows


def most_isolated(
    members: Array, nonmembers: Array, reference: Array, *, share: float = 0.1
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which members, bool [M], and non-members, bool [N], are the most isolated: a share of both, or more at ties.

    A record is isolated by its mean distance to its 5 nearest neighbours in the reference. Meeus, Guépin, Creţu, de Montjoye
    2023 ("Achilles' Heels") choose vulnerable records so, among the members.

    Args:
        members: features [M, D].
        nonmembers: features [N, D].
        reference: features [R, D], neither members nor non-members.
        share: of the records.

    Raises:
        DataError: if shapes differ or a value is not finite; names the set and the index.
    """
    inside, outside, others = features_of(members=members, nonmembers=nonmembers, reference=reference)
    neighbours = sklearn.neighbors.NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(others))).fit(others)
    distances = neighbours.kneighbors(np.concatenate([inside, outside]))[0].mean(axis=1)
    apart = distances >= np.quantile(distances, 1 - share)
    return apart[: len(inside)], apart[len(inside) :]
