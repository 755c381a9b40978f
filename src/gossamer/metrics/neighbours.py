"""Samples and records as neighbours: precision, recall, density, coverage, and the nearest record of each sample.

A set of vectors is taken as the union of balls around them, each reaching to its k-th nearest neighbour of the same set.
Precision and recall are the shares inside the other set's balls (Kynkaanniemi et al. 2019). Density counts in how many,
and coverage is the share of balls that hold a vector (Naeem et al. 2020); outliers disturb these two less.

Distances are Euclidean, on features or flattened pictures, and computed in blocks. Vectors nearer than a millionth of
their norm count as the same point.

The figures are computed on real records. They are private: no guarantee covers them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gossamer import intervals
from gossamer.errors import DataError
from gossamer.intervals import Estimate
from gossamer.lazy import sklearn
from gossamer.metrics.arrays import Vectors, check_vectors

_CELLS = 8_000_000
"""Distances in memory at once: 64 MB."""
_SAME = 1e-12
"""Squared distances below this share of the squared norms are rounding."""


@dataclass(frozen=True)
class Neighbourhood:
    """Four shares of neighbours; each interval is stated at `neighbourhood`.

    Args:
        precision: share of the samples that lie inside the balls of the records. Low: unlike any record.
        recall: share of the records that lie inside the balls of the samples. Low: records nothing resembles.
        density: for the mean sample, the balls of records that hold it, over k. About 1 for records of the same source,
            more where samples crowd in the middle of the records.
        coverage: share of the records whose ball holds a sample. Low: modes are missing. For n records and as many more
            of the same source 1 - 2^-k on average, 0.97 for k = 5.
    """

    precision: Estimate
    recall: Estimate
    density: Estimate
    coverage: Estimate


@dataclass(frozen=True)
class Nearest:
    """The nearest record of each of n samples, the first of equals.

    Args:
        index: int64 [n], the position of the record.
        distance: float64 [n]; 0 for an exact copy.
    """

    index: NDArray[np.int64]
    distance: NDArray[np.float64]


def neighbourhood(samples: Vectors, records: Vectors, *, k: int = 5) -> Neighbourhood:
    """Precision, recall, density and coverage of samples against real records.

    All four fall or rise with the sizes of the sets and with k: compare only at equal sizes, features and k. None of them
    sees memorising: exact copies of the records score full marks; `nearest` shows them.

    The intervals (95 %) hold the balls as they are. Precision (Wilson) and density (t) cover the choice of samples. Recall
    and coverage (Wilson) cover that of records. For coverage the interval is approximate: records also shape the balls.

    Args:
        samples: [m, d], more than k and at least two.
        records: [n, d], more than k.
        k: the neighbour to which a ball reaches; 5 as in Naeem et al. 2020 (3 in Kynkaanniemi et al. 2019).

    Raises:
        DataError: if the vectors do not fit together, or are too few; names the argument.
    """
    check_vectors("samples", samples, fewest=k + 1)
    check_vectors("records", records, fewest=k + 1)
    S, R = _centred(samples, records)
    of_samples, of_records = _radii(S, k), _radii(R, k)
    inside = np.zeros(len(S), dtype=np.int64)
    resembled = np.zeros(len(R), dtype=bool)
    covered = np.zeros(len(R), dtype=bool)
    for rows, squared in _blocks(S, R):
        near = squared <= of_records
        inside[rows] = near.sum(axis=1)
        covered |= near.any(axis=0)
        resembled |= (squared <= of_samples[rows, None]).any(axis=0)
    over_samples = f"{len(S):,} samples, in balls of {len(R):,} real records to their neighbour {k}"
    over_records = f"{len(R):,} real records, in balls of {len(S):,} samples to their neighbour {k}"
    covering = f"{len(R):,} real records, whose balls to their neighbour {k} may hold {len(S):,} samples"
    return Neighbourhood(
        precision=intervals.proportion(int((inside > 0).sum()), len(S), over_samples),
        recall=intervals.proportion(int(resembled.sum()), len(R), over_records),
        density=intervals.mean(list(inside / k), over_samples, lowest=0.0),
        coverage=intervals.proportion(int(covered.sum()), len(R), covering),
    )


def nearest(samples: Vectors, records: Vectors) -> Nearest:
    """The nearest record of each sample. samples: [m, d]; records: [n, d].

    Raises:
        DataError: if the vectors do not fit together; names the argument.
    """
    check_vectors("samples", samples, fewest=1)
    check_vectors("records", records, fewest=1)
    S, R = _centred(samples, records)
    index = sklearn.metrics.pairwise_distances_argmin(S, R)
    # Computed from the difference, which is exactly 0 for a copy.
    return Nearest(index, np.linalg.norm(samples.astype(np.float64) - records[index], axis=1))


def _radii(vectors: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The squared distance of each vector to its k-th nearest other one, [n]."""
    radii = np.empty(len(vectors))
    for rows, squared in _blocks(vectors, vectors):
        own = np.arange(rows.start, rows.start + len(squared))
        squared[own - rows.start, own] = np.inf
        radii[rows] = np.partition(squared, k - 1, axis=1)[:, k - 1]
    return radii


def _blocks(a: NDArray[np.float64], b: NDArray[np.float64]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Squared distances of some rows of a to all of b, block by block: the rows, and [rows, m]."""
    norms_a, norms_b = (a * a).sum(axis=1), (b * b).sum(axis=1)
    size = max(1, _CELLS // len(b))
    for start in range(0, len(a), size):
        rows = slice(start, start + size)
        scale = norms_a[rows, None] + norms_b
        squared = scale - 2 * (a[rows] @ b.T)
        squared[squared <= _SAME * scale] = 0.0
        yield rows, squared


def _centred(samples: Vectors, records: Vectors) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both sets in float64 around the mean of the records: near 0 the square of a difference loses fewer digits."""
    if samples.shape[1] != records.shape[1]:
        raise DataError(
            f"samples: vectors of length {samples.shape[1]}, but the records' are of length {records.shape[1]}; "
            "take the same features of both."
        )
    middle = records.mean(axis=0, dtype=np.float64)
    return samples - middle, records - middle
