"""What a classifier sees class by class: how clear the samples are, how many classes they cover, how each one fares.

`ambiguity` and `diversity` are the two sample qualities of Mukherjee et al. 2021 (privGAN, section 6.3), judged by a
classifier that was trained on real records. Entropies are in nats, from 0 to log(classes); the paper names no unit.
The paper's text to its figure 7 says once that ambiguity rises as the entropy falls; its definition, followed here,
says the opposite.

A figure from a classifier trained on real records is internal, and no guarantee covers it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import entr

from gossamer.errors import DataError
from gossamer.estimate import Estimate
from gossamer.intervals import mean, proportion
from gossamer.metrics.pictures import Labels, check_labels

_ROUNDING = 1e-4
"""How far from 1 the probabilities of a sample may sum: softmax in half or single precision stays below."""


def ambiguity(probabilities: NDArray[np.floating[Any]]) -> Estimate:
    """The mean entropy of the predicted class probabilities; lower is clearer. privGAN, section 6.3, "average entropy".

    The t interval (95 %) is over the samples, with the classifier as it is.

    Args:
        probabilities: [N, classes], one row per sample, at least two rows: `Classifier.probabilities` of samples.

    Raises:
        DataError: if a row is no distribution over at least two classes; names the index.
    """
    if probabilities.ndim != 2 or len(probabilities) < 2 or probabilities.shape[1] < 2:
        raise DataError(
            f"probabilities: an array of shape {probabilities.shape}; it must be [N, classes], both at least 2."
        )
    rows = probabilities.astype(np.float64)
    good = np.isfinite(rows).all(axis=1) & (rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1) < _ROUNDING)
    if not good.all():
        wrong = np.flatnonzero(~good)
        raise DataError(
            f"probabilities: the row at index {wrong[0]} is no distribution ({len(wrong)} such rows); give "
            "probabilities, not logits."
        )
    classes = rows.shape[1]
    entropies = np.minimum(entr(rows).sum(axis=1), math.log(classes))
    computed_on = f"{len(rows):,} samples; entropy of the predicted class in nats, at most {math.log(classes):.3f}"
    return mean(list(entropies), computed_on, lowest=0.0, highest=math.log(classes))


def diversity(predicted: Labels, *, classes: int) -> Estimate:
    """The entropy of the shares of the predicted classes; higher is more even. privGAN, section 6.3, "class diversity".

    The interval (95 %) is over the samples, with the classifier as it is. With p the shares in the long run and f those
    counted, H(p) = H(f) + KL(f || p) + e, where e has mean zero and variance Var(log p) / n, and 2 n KL follows
    a chi-squared distribution with classes - 1 degrees of freedom. So the low end allows for e (2.5 %), the high end
    for e and KL (1.25 % each); the usual interval forgets KL, and so misses even generators of many classes too often.

    Args:
        predicted: integers [N], from 0 to classes - 1: `Classifier.predict` of samples.
        classes: number of classes, at least 2.

    Raises:
        DataError: if there are no samples, fewer than two classes, or a label is out of range; names the index.
    """
    if classes < 2:
        raise DataError(f"classes: {classes}, but the diversity of fewer than two classes says nothing.")
    check_labels("predicted", predicted, classes)
    if len(predicted) == 0:
        raise DataError("predicted: there are no labels; give one per sample.")
    n, counts = len(predicted), np.bincount(predicted.astype(np.int64), minlength=classes)
    value, most = min(float(entr(counts / n).sum()), math.log(classes)), math.log(classes)
    # Half a record more per class: a class that was not seen may still occur.
    shares = (counts + 0.5) / (n + classes / 2)
    spread = math.sqrt(max(0.0, float(shares @ np.log(shares) ** 2 - (shares @ np.log(shares)) ** 2)) / n)
    low = value - stats.norm.ppf(0.975) * spread
    high = value + stats.norm.ppf(0.9875) * spread + stats.chi2.ppf(0.9875, classes - 1) / (2 * n)
    computed_on = f"{n:,} samples; entropy of the shares of {classes} predicted classes in nats, at most {most:.3f}"
    return Estimate(value, max(0.0, float(low)), min(most, float(high)), n, computed_on)


def per_class_accuracy(confusion: NDArray[np.integer[Any]]) -> dict[int, Estimate]:
    """The share of each class's test records that the classifier gets right.

    Each Wilson interval holds with 95 % for its own class, over the test records: with ten classes, four tables in ten
    have a class outside its interval.

    Args:
        confusion: counts [classes, classes] of true class (row) and predicted class (column): `classify.confusion`.

    Returns:
        Class to Estimate; a class without test records is left out.

    Raises:
        DataError: if it is not a square matrix of counts.
    """
    square = confusion.ndim == 2 and confusion.shape[0] == confusion.shape[1]
    if not square or not np.issubdtype(confusion.dtype, np.integer) or (confusion < 0).any():
        raise DataError(
            f"confusion: an array of {confusion.dtype} with shape {confusion.shape}; it must hold counts, "
            "[classes, classes]. `classify.confusion` makes it."
        )
    records = confusion.sum(axis=1)
    return {
        int(one): proportion(
            int(confusion[one, one]), int(records[one]), f"{int(records[one]):,} real test records of class {one}"
        )
        for one in np.flatnonzero(records)
    }
