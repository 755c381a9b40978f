"""Jensen-Shannon score of Zhang, Ji, Wang 2018 (dp-GAN, section 5): can a classifier tell samples from real records?

A classifier is trained on records against samples; what it says of samples it has not seen is compared with a coin toss.
The paper prints one formula and its code computes another; both are here under names of their own.

Neither looks at whether the classifier is right: a badly trained one that is sure of itself scores high on perfect
samples. So the share it tells apart stands beside them; where that is near one half, no score means anything.

The figures read real records. They are internal, and no guarantee covers them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import entr, expit

from gossamer import intervals
from gossamer.errors import DataError, RequestError
from gossamer.intervals import Estimate
from gossamer.metrics.arrays import Images, check_images, pictures, size_of
from gossamer.metrics.features import ClassifierFeatures, Progress
from gossamer.nets.features import FeatureCNN

LARGEST = 1.5 - 0.75 * float(np.log2(3))
"""The largest `jensen_shannon`, 0.311 bits: a classifier that is sure, against a coin."""

_PREDICT_BATCH = 500
_FEWEST = 20
"""Pictures of each kind, so that some remain to train on and two to score."""


@dataclass(frozen=True)
class Discrimination:
    """What a classifier of records against samples says of those held out.

    Args:
        jensen_shannon_paper: the formula of the paper: half of KL(p || 1/2) + KL(1/2 || p), with p the probability of
            "real", in bits, mean over samples held out. From 0 (a coin toss) without bound.
        jensen_shannon: the Jensen-Shannon divergence of the same two Bernoulli distributions, with their mixture, in bits,
            as the paper's code has it. From 0 to 0.311 (`LARGEST`).
        accuracy: share of held-out records and samples, as many of each, that are told apart. From one half (by chance).
    """

    jensen_shannon_paper: Estimate
    jensen_shannon: Estimate
    accuracy: Estimate


def discriminate(
    samples: Images,
    records: Images,
    *,
    epochs: int = 4,
    held_out: float = 0.2,
    seed: int,
    progress: Progress | None = None,
) -> Discrimination:
    """Train a classifier on records against as many samples, and score the samples that it has not seen.

    The classifier is `FeatureCNN` (the paper takes a ResNet on 64x64 pictures). The intervals (95 %; t for the scores,
    Wilson for the accuracy) are over the held-out pictures, with the classifier as it is: another training scores
    otherwise. Perfect samples do not score 0, because a classifier is never quite undecided: 2,000 random MNIST records
    against 2,000 others scored 0.080 (paper) and 0.019. Set samples beside such a figure. Samples that copy records used
    here are told apart less often than by chance, because the classifier has learnt their copies as records.

    Args:
        samples: uint8 [m, C, H, W].
        records: uint8 [n, C, H, W]. Of the larger set as many as the smaller holds are used, drawn at random.
        epochs: passes over the training part.
        held_out: share of each set that is kept back to score, above 0 and below 1.
        seed: fixes the split and the training.
        progress: called after each epoch.

    Raises:
        DataError: if the pictures differ in size, or are fewer than 20 of a kind; names the argument.
        RequestError: if a setting is outside its range.
    """
    if not 0 < held_out < 1:
        raise RequestError("held_out must be a share between 0 and 1.")
    for name, images in (("samples", samples), ("records", records)):
        check_images(name, images)
        if len(images) < _FEWEST:
            raise DataError(f"{name}: {len(images)} pictures are too few to train on and to score; give {_FEWEST}.")
    if samples.shape[1:] != records.shape[1:]:
        raise DataError(
            f"samples: pictures of {size_of(samples.shape)}, but records holds {size_of(records.shape)}; "
            "resize one of them."
        )
    coins = np.random.default_rng(seed)
    size = min(len(samples), len(records))
    test_size = min(max(2, round(size * held_out)), size - 2)
    fit_s, score_s = np.split(coins.permutation(len(samples))[:size], [size - test_size])
    fit_r, score_r = np.split(coins.permutation(len(records))[:size], [size - test_size])
    labels = np.repeat([0, 1], size - test_size)
    net = ClassifierFeatures.train(
        np.concatenate([samples[np.sort(fit_s)], records[np.sort(fit_r)]]),
        labels, classes=2, epochs=epochs, seed=seed, progress=progress,
    ).net  # fmt: skip
    of_samples, of_records = (_log_odds(net, x) for x in (samples[np.sort(score_s)], records[np.sort(score_r)]))
    trained = f"held out; classifier of Zhang et al. trained on {size - test_size:,} samples and as many records"
    scored, classified = f"{test_size:,} samples {trained}", f"{test_size:,} samples and as many records {trained}"
    right = int((of_samples < 0).sum() + (of_records > 0).sum())
    return Discrimination(
        jensen_shannon_paper=intervals.mean(list(symmetrised(of_samples)), scored, lowest=0.0),
        jensen_shannon=intervals.mean(list(divergence(of_samples)), scored, lowest=0.0, highest=LARGEST),
        accuracy=intervals.proportion(right, 2 * test_size, classified),
    )


def symmetrised(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half of KL(p || 1/2) + KL(1/2 || p) in bits, for each p given as log(p / (1 - p)). Zhang et al. 2018, section 5.

    The sum is (p - 1/2) log(p / (1 - p)), which stays finite where p rounds to 1.
    """
    bits: NDArray[np.float64] = (expit(log_odds) - 0.5) * log_odds / (2 * np.log(2))
    return bits


def divergence(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Jensen-Shannon divergence of Bernoulli(p) and Bernoulli(1/2) in bits: the entropy of their mixture, less the mean
    of their entropies. log_odds: log(p / (1 - p)).
    """
    p = expit(log_odds)
    middle = (p + 0.5) / 2
    mixed, own = (entr(share) + entr(1 - share) for share in (middle, p))
    bits: NDArray[np.float64] = (mixed - (own + np.log(2)) / 2) / np.log(2)
    return np.clip(bits, 0.0, LARGEST)  # rounding must not leave the scale


def _log_odds(net: FeatureCNN, images: Images) -> NDArray[np.float64]:
    """The log odds of "real" for each picture, [n]."""
    log_odds = np.empty(len(images))
    with torch.inference_mode():
        for start in range(0, len(images), _PREDICT_BATCH):
            batch = slice(start, start + _PREDICT_BATCH)
            logits = net(pictures(images, batch)).double()
            log_odds[batch] = (logits[:, 1] - logits[:, 0]).numpy()
    return log_odds
