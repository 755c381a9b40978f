"""What a classifier sees class by class: how clear the samples are, how many classes they cover, how each one fares.

`ambiguity` and `diversity` are the two sample qualities of Mukherjee et al. 2021 (privGAN, section 6.3). They are judged by a
classifier that was trained on real records. Entropies are in nats, from 0 to log(classes); the paper names no unit.
The paper's text to its figure 7 says once that ambiguity rises as the entropy falls. Its definition, followed here,
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
from gossamer.intervals import Estimate, mean, proportion
from gossamer.metrics.arrays import Labels, checked_probabilities


def ambiguity(probabilities: NDArray[np.floating[Any]]) -> Estimate:
    """The mean entropy of the predicted class probabilities; lower is clearer. privGAN, section 6.3, "average entropy".

    The t interval (95 %) is over the samples, with the classifier as it is.

    Args:
        probabilities: [N, classes], one row per sample, both at least two.

    Raises:
        DataError: if there are fewer than two rows, or one is no distribution; names the index.
    """
    if len(probabilities) < 2:
        raise DataError("samples: fewer than two, of which nothing can be said; give more.")
    rows = checked_probabilities(probabilities)
    most = math.log(rows.shape[1])
    entropies = np.minimum(entr(rows).sum(axis=1), most)
    computed_on = f"{len(rows):,} samples; entropy of the predicted class in nats, at most {most:.3f}"
    return mean(list(entropies), computed_on, lowest=0.0, highest=most)


def diversity(predicted: Labels, *, classes: int) -> Estimate:
    """The entropy of the shares of the predicted classes; higher is more even. privGAN, section 6.3, "class diversity".

    The interval (95 %) is over the samples, with the classifier as it is. Let p be the shares in the long run and f those
    counted. Then H(p) = H(f) + KL(f || p) + e, where e has mean zero and variance Var(log p) / n. The double
    of n KL follows a chi-squared distribution with classes - 1 degrees of freedom. So the low end allows for e (2.5 %), the
    high end for e and KL (1.25 % each). The usual interval forgets KL, and misses even generators of many classes too often.

    Args:
        predicted: integers [N], from 0 to classes - 1.
        classes: number of classes, at least 2.
    """
    n, counts = len(predicted), np.bincount(predicted.astype(np.int64), minlength=classes)
    value, most = min(float(entr(counts / n).sum()), math.log(classes)), math.log(classes)
    # Half a record more per class: a class that was not seen may still occur.
    shares = (counts + 0.5) / (n + classes / 2)
    spread = math.sqrt(max(0.0, float(shares @ np.log(shares) ** 2 - (shares @ np.log(shares)) ** 2)) / n)
    low = value - stats.norm.ppf(0.975) * spread
    high = value + stats.norm.ppf(0.9875) * spread + stats.chi2.ppf(0.9875, classes - 1) / (2 * n)
    computed_on = f"{n:,} samples; entropy of the shares of {classes} predicted classes in nats, at most {most:.3f}"
    return Estimate(value, max(0.0, float(low)), min(most, float(high)), n, computed_on)


def shares_recognised(labels: Labels, predicted: Labels) -> dict[int, Estimate]:
    """The share of each class's samples that the classifier takes for what their label says; only classes with samples.

    Each Wilson interval holds with 95 % for its own class, over the samples. With ten classes, four tables in ten
    have a class outside its interval.

    Args:
        labels: integers [N], what the samples were made as.
        predicted: integers [N].
    """
    found = {}
    for label in np.unique(labels):
        of_class = predicted[labels == label]
        found[int(label)] = proportion(
            int((of_class == label).sum()), len(of_class), "samples, judged by the classifier trained on real records"
        )
    return found
