"""The control of every membership attack: do members and non-members differ whatever the run did?

A classifier sees records of both sets, and nothing of the run. Where membership is random it can do no better than guessing.
Where it does better, the sets differ in other ways, such as other writers or another scanner. An attack may have seen those.
The idea is the blind baselines of Das, Zhang, Tramèr 2024 ("Blind baselines beat membership inference attacks for foundation
models").
"""

import numpy as np

from gossamer.attacks.arrays import Array, Features
from gossamer.attacks.roc import roc
from gossamer.intervals import Estimate
from gossamer.lazy import sklearn

_TREES = 100
_SIDE = 14
"""Pictures are averaged down to about this many pixels a side: what sets differ in is rarely finer."""


def separability(members: Array, nonmembers: Array, *, seed: int) -> Estimate:
    """The area under the ROC curve of a classifier that never saw the run; guessing gives 0.5.

    Randomised trees (Geurts, Ernst, Wehenkel 2006) learn from one half of each set and score the other. They see pictures
    averaged to at most 14 pixels a side. The interval (95 %) is over the records of the other half, with the trees as they
    are. It holds where records are independent: give one of each unit. Where membership is random, it lies above 0.5 in
    about one case of 40.

    Args:
        members: uint8 [M, C, H, W] or features [M, D], at least 4.
        nonmembers: [N, ...], at least 4.
        seed: fixes halves and trees.
    """
    rng = np.random.default_rng(seed)
    sets = [_small(images)[rng.permutation(len(images))] for images in (members, nonmembers)]
    train = np.concatenate([rows[: len(rows) // 2] for rows in sets])
    inside = np.repeat([1, 0], [len(rows) // 2 for rows in sets])
    trees = sklearn.ensemble.ExtraTreesClassifier(_TREES, min_samples_leaf=2, random_state=seed).fit(train, inside)
    test_scores = [trees.predict_proba(rows[len(rows) // 2 :])[:, 1] for rows in sets]
    return roc(*test_scores).auc


def _small(images: Array) -> Features:
    """float32 [n, features]: means over squares of pixels; what is left over at the right and below is cut off.

    Features are taken as they are.
    """
    if images.ndim == 2:
        return images.astype(np.float32)
    n, channels, height, width = images.shape
    down, across = max(1, height // _SIDE), max(1, width // _SIDE)
    whole = images[:, :, : height // down * down, : width // across * across]
    squares = whole.reshape(n, channels, height // down, down, width // across, across)
    rows: Features = squares.mean((3, 5), dtype=np.float32).reshape(n, -1)
    return rows
