"""Sets of vectors, as distances and neighbours take them, and what is refused of them."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import DataError

Vectors: TypeAlias = NDArray[np.floating[Any]]
_ROUNDING = 1e-4
"""How far from 1 the probabilities of a sample may sum: softmax in half or single precision stays below."""


def check_vectors(name: str, vectors: Vectors, *, fewest: int) -> None:
    """Refuse what is no set of vectors [n, d], or too small a one.

    Raises:
        DataError: naming the argument, and the index of what is not finite.
    """
    if vectors.ndim != 2:
        raise DataError(f"{name}: an array of shape {vectors.shape}; it must be [n, d].")
    if len(vectors) < fewest:
        raise DataError(f"{name}: {len(vectors)} are too few; give at least {fewest}.")
    check_finite(name, vectors)


def check_finite(name: str, vectors: Vectors) -> None:
    """Refuse rows with a number that is not finite. vectors: [n, d]. Raises DataError, naming the index."""
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        raise DataError(f"{name}: row {wrong[0]} holds a number that is not finite ({len(wrong)} such rows).")


def checked_probabilities(probabilities: Vectors) -> NDArray[np.float64]:
    """The probabilities that a classifier gives to each class, as float64 [n, classes].

    Raises:
        DataError: if a row is no distribution; names the index.
    """
    rows = probabilities.astype(np.float64)
    good = np.isfinite(rows).all(axis=1) & (rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1) < _ROUNDING)
    wrong = np.flatnonzero(~good)
    if len(wrong):
        raise DataError(
            f"probabilities: row {wrong[0]} is not a distribution ({len(wrong)} such); give the softmax, not logits."
        )
    return rows
