"""How near samples come to real records: Frechet distance, Inception score, maximum mean discrepancy.

Pure functions of arrays. Distances between pictures are taken on features (`gossamer.metrics.features`).

The figures are computed on real records. They are private: no guarantee covers them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.distance import pdist
from scipy.special import rel_entr

from gossamer import intervals
from gossamer.errors import DataError, RequestError
from gossamer.intervals import Estimate
from gossamer.metrics import arrays
from gossamer.metrics.arrays import Images, Vectors
from gossamer.metrics.features import Features

_GROUPS = 10
_STREAM = 5_000
"""Pictures whose features are in memory at once."""
_PAIRS = 4_000_000
"""Pairs whose kernel is in memory at once: 32 MB."""
_MEDIAN_OF = 2_000
"""Vectors whose distances give the median; of more, these many are drawn."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter of vectors, in float64. Add two to merge what they were computed on.

    Merging is exact, and stable where the mean is large (Chan, Golub, LeVeque, The American Statistician 1983).

    Args:
        n: number of vectors.
        mean: float64 [d].
        scatter: float64 [d, d], the sum of (x - mean)(x - mean)'.
    """

    n: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    @classmethod
    def of(cls, vectors: Vectors) -> "Moments":
        """The moments of one batch. vectors: [n, d]; n may be 0. A DataError names a row that is not finite."""
        if not len(vectors):
            return cls(0, np.zeros(vectors.shape[1]), np.zeros((vectors.shape[1],) * 2))
        arrays.check_finite("vectors", vectors)
        numbers = vectors.astype(np.float64)
        mean = numbers.mean(axis=0)
        centred = numbers - mean
        return cls(len(numbers), mean, centred.T @ centred)

    def __add__(self, other: "Moments") -> "Moments":
        """The moments of both sets together."""
        n = self.n + other.n
        if n == 0:
            return self
        apart = other.mean - self.mean
        scatter = self.scatter + other.scatter + np.outer(apart, apart) * (self.n * other.n / n)
        return Moments(n, self.mean + apart * (other.n / n), scatter)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """The unbiased covariance, float64 [d, d], as in the published FID."""
        return self.scatter / (self.n - 1)


def frechet_distance(a: Moments, b: Moments) -> float:
    """The squared 2-Wasserstein distance of two Gaussians: |m_a - m_b|^2 + tr(A + B - 2 (AB)^(1/2)).

    Dowson and Landau 1982; Heusel et al. 2017 (FID). The trace of the root is the sum of the singular values of
    A^(1/2) B^(1/2). That stays real and accurate where a covariance is singular, as for features that are always 0.
    """
    A, B = a.covariance, b.covariance
    apart = a.mean - b.mean
    root = np.linalg.svd(_factor(A).T @ _factor(B), compute_uv=False).sum()
    # Rounding can leave a distance of 0 a little below it.
    return max(0.0, float(apart @ apart + np.trace(A) + np.trace(B) - 2 * root))


def frechet(samples: Images, records: Images, features: Features) -> Estimate:
    """The Frechet distance of two sets of pictures; on Inception features it is the FID.

    The distance is biased upwards, roughly by a constant over the number of pictures (Chong and Forsyth 2020). So two sets
    from one source are not at distance 0. Compare only distances on equal numbers of pictures and equal features.

    The interval (95 %, t over ten groups) covers the choice of pictures in both sets. It is a jackknife: the distance
    without each tenth of both. It does not cover the bias, nor the training of the generator or of the features.
    n is the size of the smaller set. Only moments of the features are kept, [d, d] for each group.

    Args:
        samples: uint8 [n, C, H, W].
        records: uint8 [m, C, H, W]; the order does not matter.
        features: what the distance is taken on.

    Raises:
        DataError: if the pictures differ in size, or either set has fewer pictures than features. Then its covariance is
            singular for want of data, and the distance measures that.
    """
    fewest = max(features.width, 2 * _GROUPS)
    for name, images in (("samples", samples), ("records", records)):
        arrays.check_images(name, images)
        if len(images) < fewest:
            raise DataError(
                f"{name}: {len(images):,} pictures are too few for a Frechet distance on {features.width:,} features; give "
                f"at least {fewest:,}, or leave this distance out."
            )
    if samples.shape[1:] != records.shape[1:]:
        raise DataError(
            f"samples: pictures of {arrays.size_of(samples.shape)}, but the records are of {arrays.size_of(records.shape)}; "
            "resize one of them."
        )
    groups_a, groups_b = _grouped_moments(samples, features), _grouped_moments(records, features)
    value = frechet_distance(_merged(groups_a), _merged(groups_b))
    without = [frechet_distance(_merged(groups_a, but=g), _merged(groups_b, but=g)) for g in range(_GROUPS)]
    computed_on = f"{features.distance_name} of {len(samples):,} and {len(records):,} pictures on {features.name}"
    return intervals.jackknife(value, without, min(len(samples), len(records)), computed_on, lowest=0.0)


def inception_score(probabilities: NDArray[np.floating[Any]], *, splits: int = 10) -> Estimate:
    """exp(E KL(Pr(y|x) || Pr(y))), the mean over consecutive splits. Salimans et al. 2016; Zhang et al. 2018, equation 4.

    From 1 (all samples alike, or none recognised) to the number of classes. It never sees a real record: one memorised
    picture per class gets full marks. Comparable only where the classifier is the same.

    The interval is that of the mean over the splits (95 %, t), and n is their number. It covers the choice of samples, not
    the training of generator or classifier. The +- of the papers is the standard deviation over the splits, which is larger.

    Args:
        probabilities: [n, classes], the classifier's answer for each sample. The samples must be in random order: splits of
            a file sorted by class hold one class each and score 1.
        splits: how many, at least 2 and at most n / 2.

    Raises:
        DataError: if a row is not a distribution; names the index.
        RequestError: if splits does not fit n.
    """
    numbers = arrays.checked_probabilities(probabilities)
    n, classes = numbers.shape
    if not 2 <= splits <= n / 2:
        raise RequestError(
            f"{n:,} samples do not make {splits} splits of at least two: give more, or 2 splits or more."
        )
    scores = []
    for i in range(splits):
        part = numbers[i * n // splits : (i + 1) * n // splits]
        score = math.exp(rel_entr(part, part.mean(axis=0)).sum(axis=1).mean())
        scores.append(min(max(score, 1.0), float(classes)))  # rounding must not leave the scale
    computed_on = f"{n:,} samples in {splits} consecutive splits, {classes} classes"
    return intervals.mean(scores, computed_on, lowest=1.0, highest=float(classes))


class Kernel(Protocol):
    """A positive definite kernel of the difference of two vectors."""

    @property
    def name(self) -> str:
        """In words, for `computed_on`."""

    def __call__(self, a: NDArray[np.float64], b: NDArray[np.float64], /) -> NDArray[np.float64]:
        """a: [n, d]; b: [m, d]. Returns [n, m]."""


@dataclass(frozen=True)
class RBF:
    """exp(-|x - y|^2 / (2 bandwidth^2)). bandwidth: in units of the vectors, above 0; see `median_bandwidth`."""

    bandwidth: float

    @property
    def name(self) -> str:
        return f"RBF kernel of bandwidth {self.bandwidth:.3g}"

    def __call__(self, a: NDArray[np.float64], b: NDArray[np.float64], /) -> NDArray[np.float64]:
        middle = b.mean(axis=0)  # near the middle the square of a difference loses fewer digits
        a, b = a - middle, b - middle
        squared = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * (a @ b.T)
        kernel: NDArray[np.float64] = np.exp(np.minimum(squared * (-0.5 / self.bandwidth**2), 0.0))
        return kernel


def median_bandwidth(a: Vectors, b: Vectors) -> float:
    """The median distance between two of all vectors together: the usual bandwidth (Gretton et al. 2012, section 8).

    Of more than 2,000 vectors, 2,000 are drawn, always the same. a: [n, d]; b: [m, d].

    Raises:
        DataError: if most vectors are equal: the median is 0, and no bandwidth.
    """
    both = np.concatenate([a, b]).astype(np.float64)
    if len(both) > _MEDIAN_OF:
        both = both[np.random.default_rng(0).permutation(len(both))[:_MEDIAN_OF]]
    median = float(np.median(pdist(both)))
    if median == 0:
        raise DataError("samples: most vectors are equal, so that their median distance is 0; leave mmd out.")
    return median


def mmd(samples: Vectors, records: Vectors, *, kernel: Kernel | None = None) -> Estimate:
    """The squared maximum mean discrepancy, unbiased: 0 on average where both have one source, so it may be negative.

    Gretton et al. 2012, lemma 6, equation 3; for unequal sizes too. Computed in blocks; time grows with (n + m)^2 d.

    The interval (95 %, normal) covers the choice of vectors in both sets. It is a jackknife that leaves out each vector in
    turn, with the kernel as it is. Where both have one source it is wider than it need be. n is the size of the smaller set.

    Args:
        samples: [n, d], n at least 3.
        records: [m, d], m at least 3; the order does not matter.
        kernel: default: `RBF` of the `median_bandwidth`.

    Raises:
        DataError: if the vectors do not fit together; names the argument.
    """
    arrays.check_vectors("samples", samples, fewest=3)
    arrays.check_vectors("records", records, fewest=3)
    used_kernel = RBF(median_bandwidth(samples, records)) if kernel is None else kernel
    x, y = samples.astype(np.float64), records.astype(np.float64)
    n, m = len(x), len(y)
    itself = float(used_kernel(x[:1], x[:1])[0, 0])  # k(z, z), the same for every z
    within_x, within_y = (_row_sums(z, z, used_kernel)[0] - itself for z in (x, y))
    across_x, across_y = _row_sums(x, y, used_kernel)
    total_x, total_y, across = within_x.sum(), within_y.sum(), across_x.sum()
    value = total_x / (n * (n - 1)) + total_y / (m * (m - 1)) - 2 * across / (n * m)
    variance = 0.0
    for size, other, total, within, rows in ((n, m, total_x, within_x, across_x), (m, n, total_y, within_y, across_y)):
        # What the estimate would be without each vector, up to a constant.
        without = (total - 2 * within) / ((size - 1) * (size - 2)) - 2 * (across - rows) / ((size - 1) * other)
        variance += (size - 1) * float(without.var())
    half = float(stats.norm.ppf(0.5 + intervals.LEVEL / 2)) * math.sqrt(variance)
    computed_on = f"squared MMD of {n:,} and {m:,} vectors, {used_kernel.name}"
    return Estimate(float(value), float(value - half), float(value + half), min(n, m), computed_on)


def _factor(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """F with F F' = covariance, [d, rank]: directions that hold only rounding are left out."""
    values, directions = np.linalg.eigh(covariance)
    positive = values > values[-1] * len(values) * np.finfo(np.float64).eps
    factor: NDArray[np.float64] = directions[:, positive] * np.sqrt(values[positive])
    return factor


def _grouped_moments(images: Images, features: Features) -> list[Moments]:
    """The moments of ten random groups of nearly equal size, always the same for n pictures."""
    group = np.random.default_rng(0).permutation(len(images)) % _GROUPS
    moments = [Moments.of(np.zeros((0, features.width)))] * _GROUPS
    for start in range(0, len(images), _STREAM):
        vectors = features(images[start : start + _STREAM])
        for g in range(_GROUPS):
            moments[g] += Moments.of(vectors[group[start : start + _STREAM] == g])
    return moments


def _merged(groups: Sequence[Moments], but: int | None = None) -> Moments:
    rest = [moments for g, moments in enumerate(groups) if g != but]
    return sum(rest[1:], rest[0])


def _row_sums(
    a: NDArray[np.float64], b: NDArray[np.float64], kernel: Kernel
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of the kernel over b for each of a, [n], and over a for each of b, [m]."""
    block = max(1, _PAIRS // len(b))
    rows, columns = np.empty(len(a)), np.zeros(len(b))
    for start in range(0, len(a), block):
        part = kernel(a[start : start + block], b)
        rows[start : start + block] = part.sum(axis=1)
        columns += part.sum(axis=0)
    return rows, columns
