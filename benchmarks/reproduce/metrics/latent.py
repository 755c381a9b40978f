"""The latent space of an autoencoder: sparsity, likelihood, nearness to the prior, clusters. Takahashi et al. 2020, section 5.

Pure functions of arrays: codes are the means of q(z|x), one per record.

The figures read real records. They are internal, and no guarantee covers them.
"""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score, silhouette_samples

from gossamer import intervals
from gossamer.errors import DataError
from gossamer.intervals import Estimate
from gossamer.metrics import fidelity
from gossamer.metrics.arrays import Vectors, check_vectors

Labels: TypeAlias = NDArray[np.integer[Any]]

CAUCHY_SCALES = (0.2, 0.4, 1.0, 2.0, 4.0, 10.0)
"""Takahashi et al. 2020, section 5.1."""

_GROUPS = 10


@dataclass(frozen=True)
class CauchySum:
    """The sum of c / (c + (x_i - y_i)^2) over scales c and dimensions i. Takahashi et al. 2020, section 5.1.

    Scales are squared distances. As a sum over dimensions, the discrepancy compares each dimension by itself: it does not
    see how they depend on each other.
    """

    scales: tuple[float, ...] = CAUCHY_SCALES

    @property
    def name(self) -> str:
        """In words, for `computed_on`."""
        return f"sum over dimensions of Cauchy kernels of scales {', '.join(f'{scale:g}' for scale in self.scales)}"

    def __call__(self, a: NDArray[np.float64], b: NDArray[np.float64], /) -> NDArray[np.float64]:
        """a: [n, d]; b: [m, d]. Returns [n, m]."""
        total = np.zeros((len(a), len(b)))
        for x, y in zip(a.T, b.T, strict=True):
            squared = np.subtract.outer(x, y) ** 2
            for scale in self.scales:
                total += scale / (scale + squared)
        return total


def hoyer_sparsity(codes: Vectors) -> Estimate:
    """The mean over records of (sqrt(d) - |z|_1 / |z|_2) / (sqrt(d) - 1): 0 if all dimensions are used alike, 1 if one is.

    Hurley and Rickard 2009; Takahashi et al. 2020, equation 17. Each dimension is divided by its standard deviation over
    the records first. The interval (95 %, t) covers the choice of records, with the deviations as they are.

    Args:
        codes: [n, d], with n and d at least 2.

    Raises:
        DataError: if a dimension is constant or a code is 0 throughout: the measure is not defined; names the index.
    """
    check_vectors("codes", codes, fewest=2)
    if codes.shape[1] < 2:
        raise DataError("codes: one dimension has no sparsity; give at least two.")
    numbers = codes.astype(np.float64)
    constant = np.flatnonzero(np.ptp(numbers, axis=0) == 0)
    if len(constant):
        raise DataError(f"codes: dimension {constant[0]} is constant ({len(constant)} such); leave them out.")
    scaled = numbers / numbers.std(axis=0)
    norms = np.linalg.norm(scaled, axis=1)
    empty = np.flatnonzero(norms == 0)
    if len(empty):
        raise DataError(f"codes: row {empty[0]} is 0 throughout ({len(empty)} such rows), which has no sparsity.")
    root = math.sqrt(codes.shape[1])
    sparsity = np.clip((root - np.abs(scaled).sum(axis=1) / norms) / (root - 1), 0.0, 1.0)
    computed_on = f"codes of {len(codes):,} records in {codes.shape[1]} dimensions"
    return intervals.mean(list(sparsity), computed_on, lowest=0.0, highest=1.0)


def iwae(log_weights: Vectors) -> Estimate:
    """The importance-weighted estimate of log p(x), in nats: log-mean-exp over k draws, mean over records.

    Burda, Grosse, Salakhutdinov 2016. On average a lower bound that rises with k: compare at equal k. The interval (95 %,
    t) covers the choice of records and the draws, not the bias.

    Args:
        log_weights: [k, n], log p(x, z) - log q(z|x) of k draws from q(z|x) for each of n records, at least two. A weight
            may be minus infinity, but not all of a record.

    Raises:
        DataError: if a record has no finite estimate; names the index.
    """
    if log_weights.ndim != 2 or not len(log_weights) or log_weights.shape[1] < 2:
        raise DataError(f"log_weights: an array of shape {log_weights.shape}; it must be [k, n] with n at least 2.")
    draws, n = log_weights.shape
    likelihood = logsumexp(log_weights.astype(np.float64), axis=0) - math.log(draws)
    wrong = np.flatnonzero(~np.isfinite(likelihood))
    if len(wrong):
        raise DataError(f"log_weights: record {wrong[0]} has no finite likelihood ({len(wrong)} such records).")
    return intervals.mean(list(likelihood), f"{n:,} records, {draws:,} draws each")


def prior_discrepancy(codes: Vectors, prior: Vectors) -> Estimate:
    """The squared MMD between q(z) and p(z), dimension by dimension with the Cauchy kernels of Takahashi et al. 2020, 5.1.

    See `fidelity.mmd` for the interval.

    Args:
        codes: [n, d], one draw from q(z|x) for each of n records.
        prior: [m, d], draws from p(z).

    Raises:
        DataError: if the vectors do not fit together; names the argument (samples: codes, records: prior).
    """
    return fidelity.mmd(codes, prior, kernel=CauchySum())


def cluster_agreement(codes: Vectors, labels: Labels, centres: Vectors) -> Estimate:
    """How well the nearest centre of the prior recovers the classes: the adjusted Rand index (Hubert and Arabie 1985).

    1 if each class has a centre of its own, whichever; 0 on average by chance. The interval (95 %) covers the choice of
    records, by a jackknife over ten random groups.

    Args:
        codes: [n, d], at least 20.
        labels: integers [n], of at least two classes.
        centres: [c, d], the means of the prior's components.

    Raises:
        DataError: if the arrays do not fit together; names the argument.
    """
    check_vectors("codes", codes, fewest=2 * _GROUPS)
    _check_labels(labels, len(codes))
    if centres.ndim != 2 or centres.shape[1:] != codes.shape[1:] or len(centres) < 2:
        raise DataError(
            f"centres: an array of shape {centres.shape}; it must be [c, {codes.shape[1]}] with c at least 2."
        )
    nearest = np.linalg.norm(codes[:, None] - centres, axis=2).argmin(axis=1)
    group = np.random.default_rng(0).permutation(len(codes)) % _GROUPS
    value = float(adjusted_rand_score(labels, nearest))
    without = [float(adjusted_rand_score(labels[group != g], nearest[group != g])) for g in range(_GROUPS)]
    computed_on = f"adjusted Rand index of {len(codes):,} records and {len(centres)} centres"
    return intervals.jackknife(value, without, len(codes), computed_on, lowest=-1.0, highest=1.0)


def cluster_separation(codes: Vectors, labels: Labels) -> Estimate:
    """How far apart the classes lie: the mean silhouette over records (Rousseeuw 1987), from -1 to 1; 0: they overlap.

    The interval (95 %, t) covers the choice of records, with the other records as they are. Time grows with n^2.

    Args:
        codes: [n, d].
        labels: integers [n], of at least two classes, and fewer than n.

    Raises:
        DataError: if the arrays do not fit together; names the argument.
    """
    check_vectors("codes", codes, fewest=3)
    _check_labels(labels, len(codes))
    if len(np.unique(labels)) == len(codes):
        raise DataError("labels: every record has a class of its own; give classes of several records.")
    silhouettes = silhouette_samples(codes.astype(np.float64), labels)
    return intervals.mean(list(silhouettes), f"silhouette of {len(codes):,} records", lowest=-1.0, highest=1.0)


def _check_labels(labels: Labels, count: int) -> None:
    if labels.shape != (count,) or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"labels: an array of {labels.dtype} of shape {labels.shape}; it must be integers [{count}].")
    if (labels == labels[0]).all():
        raise DataError("labels: all records have one class; give at least two.")
