"""The classical classifiers by which GS-WGAN judges samples (Chen, Orekondy, Fritz 2020, section 5.1 and table 1).

Each is trained on samples and tested on real records. The settings are of the authors' code; what is not named is at
its default in scikit-learn, and every `n_jobs` is 1:

    name                  settings                                     departure
    logistic regression   lbfgs, 5,000 iterations                      -
    random forest         100 trees, balanced classes                  -
    gaussian naive bayes  -                                            -
    bernoulli naive bayes threshold 0.5                                -
    linear svm            hinge loss, tolerance 1e-8, 10,000 it.       -
    decision tree         balanced classes                             -
    lda                   eigen solver, shrinkage 0.5                  n_components left out: no prediction depends on it
    adaboost              100 stumps                                   SAMME: scikit-learn 1.8 no longer has SAMME.R
    mlp                   -                                            -
    bagging               20 trees, each on a tenth of the samples     -
    gradient boosting     50 rounds, each on a tenth of the samples    -
    xgboost               50 rounds, a tenth of the columns each       left out where xgboost is not installed

The paper's "Avg Acc" and "Calibrated Acc" are over these and the CNN (`classify.accuracy` with `GS_WGAN`): put its
Estimate into the dict under a name of your choice before `average` and `calibrated`.

The figures read real records. They are internal, and no guarantee covers them.
"""

import importlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from gossamer.errors import DataError, RequestError, did_you_mean
from gossamer.estimate import Estimate
from gossamer.intervals import proportion
from gossamer.metrics.classify import Progress, check_pair
from gossamer.metrics.pictures import Images, Labels

XGBOOST = "xgboost"
NAMES = (
    "logistic regression",
    "random forest",
    "gaussian naive bayes",
    "bernoulli naive bayes",
    "linear svm",
    "decision tree",
    "lda",
    "adaboost",
    "mlp",
    "bagging",
    "gradient boosting",
    XGBOOST,
)
"""The paper's list, in the order of the authors' code. XGBoost needs the extra `gossamer[xgboost]`."""

_NOTES = {"adaboost": " (SAMME for the paper's SAMME.R)"}
_FEWEST = 20
"""Bagging and boosting draw a tenth of the training pictures, and a tenth should be more than one."""


def classifiers(seed: int) -> dict[str, Any]:
    """The untrained classifiers by name: scikit-learn's interface, `fit` and `predict`. XGBoost only where installed."""
    models = {
        "logistic regression": LogisticRegression(max_iter=5000),
        "random forest": RandomForestClassifier(n_estimators=100, class_weight="balanced", random_state=seed),
        "gaussian naive bayes": GaussianNB(),
        "bernoulli naive bayes": BernoulliNB(binarize=0.5),
        "linear svm": LinearSVC(loss="hinge", tol=1e-8, max_iter=10_000, random_state=seed),
        "decision tree": DecisionTreeClassifier(class_weight="balanced", random_state=seed),
        "lda": LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.5),
        "adaboost": AdaBoostClassifier(n_estimators=100, random_state=seed),
        "mlp": MLPClassifier(random_state=seed),
        "bagging": BaggingClassifier(max_samples=0.1, n_estimators=20, random_state=seed),
        "gradient boosting": GradientBoostingClassifier(subsample=0.1, n_estimators=50, random_state=seed),
    }
    try:
        xgboost = importlib.import_module("xgboost")
    except ImportError:
        return models
    # The objective, softmax over the classes, is XGBoost's own choice for more than two classes.
    model = xgboost.XGBClassifier(n_estimators=50, colsample_bytree=0.1, n_jobs=1, random_state=seed)
    return {**models, XGBOOST: model}


def classical_accuracies(
    train_images: Images,
    train_labels: Labels,
    test_images: Images,
    test_labels: Labels,
    *,
    classes: int,
    names: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int,
    progress: Progress | None = None,
    trained_on: str = "synthetic records",
) -> dict[str, Estimate]:
    """Share of the real test records that each classifier gets right, trained on flattened pictures in [0, 1].

    The Wilson 95 % intervals are over the test records, with each classifier as it came out of one training with this
    seed. A classifier that ran into its iteration limit says so in `computed_on`; it is judged as it stands, as in
    the paper. With the paper's 60,000 pictures the list is long work for one core; `limit` shortens it, and lowers the
    figures.

    Args:
        train_images: uint8 [N, C, H, W], the samples.
        train_labels: integers [N], from 0 to classes - 1.
        test_images: uint8 [M, C, H, W], real records that trained nothing.
        test_labels: integers [M].
        classes: number of classes.
        names: which of `NAMES`; None: all that are installed.
        limit: train on at most this many pictures, drawn at random.
        seed: fixes the draw and the training.
        progress: called after each classifier with its number from 1, the number of classifiers, and its accuracy.
        trained_on: what the training pictures are, for `computed_on`.

    Returns:
        One Estimate per classifier, in the order of `NAMES`.

    Raises:
        DataError: if the arrays do not fit together, or there is too little to train on.
        RequestError: if a name is unknown, not installed, or the limit is below 20.
    """
    check_pair(train_images, train_labels, test_images, test_labels, classes, smallest=1)
    models = _chosen(classifiers(seed), names)
    if limit is not None and limit < _FEWEST:
        raise RequestError(f"limit: {limit} pictures are too few to train on; give at least {_FEWEST} or None.")
    order = np.random.default_rng(seed).permutation(len(train_images))[:limit]
    subset = np.sort(order)
    # Without gaps, as XGBoost needs them: samples may lack a class.
    present, codes = np.unique(train_labels[subset], return_inverse=True)
    if len(subset) < _FEWEST or len(present) < 2 or np.bincount(codes).min() < 2:
        raise DataError(
            f"train_labels: {len(subset)} training pictures of {len(present)} classes; the classifiers need at least "
            f"{_FEWEST}, of two classes or more, and two of each class that occurs. Give more records or a larger limit."
        )
    pictures, tests = _flat(train_images[subset]), _flat(test_images)

    estimates: dict[str, Estimate] = {}
    for name, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # said in words below
            # In random order: boosting and the MLP see files sorted by class as they see others.
            shuffled = np.searchsorted(subset, order)
            model.fit(pictures[shuffled], codes[shuffled])
        right = int((present[model.predict(tests)] == test_labels).sum())
        estimates[name] = proportion(
            right,
            len(test_labels),
            f"{len(test_labels):,} real test records; {name}{_NOTES.get(name, '')} of GS-WGAN's list trained on "
            f"{_used(len(subset), len(train_images))} {trained_on}{_stopped(model)}",
        )
        if progress is not None:
            progress(len(estimates), len(models), estimates[name].value)
    return estimates


def average(accuracies: Mapping[str, Estimate]) -> Estimate:
    """The mean accuracy over classifiers: the paper's "Avg Acc".

    The interval is over the test records: the list of classifiers is fixed, not drawn from many. All classifiers are
    tested on the same records, so their errors go together by an unknown amount. The ends are the means of the single
    ends, which is right if they go together fully, and too wide otherwise: at least 95 % to first order.

    Args:
        accuracies: of `classical_accuracies`, and the CNN's if wanted; all on the same test records.

    Raises:
        RequestError: if there are none, or the numbers of test records differ.
    """
    n = _records(accuracies)
    computed_on = f"{n:,} real test records; mean over {_count(accuracies)}; widest interval over the test records"
    value, low, high = (
        float(np.mean([getattr(one, end) for one in accuracies.values()])) for end in ("value", "low", "high")
    )
    return Estimate(value, low, high, n, computed_on)


def calibrated(synthetic: Mapping[str, Estimate], real: Mapping[str, Estimate]) -> Estimate:
    """The mean over classifiers of accuracy / accuracy when trained on real records: the paper's "Calibrated Acc".

    The interval is over the test records, as in `average`: each ratio runs from low / high to high / low, which holds
    whatever the two errors have to do with one another: at least 95 % to first order, and usually wide.

    Args:
        synthetic: accuracies of classifiers trained on samples.
        real: accuracies of the same classifiers trained on real records, on the same test records.

    Raises:
        RequestError: if the names or the numbers of test records differ, or a real accuracy reaches down to 0.
    """
    if set(synthetic) != set(real):
        differing = ", ".join(sorted(set(synthetic) ^ set(real)))
        raise RequestError(f"calibrated: only one side has {differing}; give the same classifiers on both.")
    n = _records(synthetic)
    if _records(real) != n:
        raise RequestError(f"calibrated: tested on {n} and on {_records(real)} records; test both on the same ones.")
    useless = [name for name, one in real.items() if one.low <= 0]
    if useless:
        raise RequestError(f"calibrated: {useless[0]} learns nothing from real records; leave it out on both sides.")
    ratios = [
        (synthetic[name].value / one.value, synthetic[name].low / one.high, synthetic[name].high / one.low)
        for name, one in real.items()
    ]
    value, low, high = (float(np.mean(column)) for column in zip(*ratios, strict=True))
    basis = f"{n:,} real test records; accuracy / accuracy when trained on real records, mean over {_count(synthetic)}"
    return Estimate(value, low, high, n, f"{basis}; widest interval over the test records")


def _chosen(models: dict[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    if names is None:
        return models
    for name in names:
        if name not in NAMES:
            raise RequestError(f"names: there is no classifier {name!r}.{did_you_mean(name, NAMES)}")
        if name not in models:
            raise RequestError(f"names: {name} is not installed; pip install 'gossamer[xgboost]', or leave it out.")
    if not names:
        raise RequestError("names: there is no classifier in it; give at least one, or None for all.")
    return {name: model for name, model in models.items() if name in names}


def _flat(images: Images) -> NDArray[np.float32]:
    """uint8 [N, C, H, W] to float32 [N, C * H * W] in [0, 1]."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def _used(used: int, available: int) -> str:
    return f"{available:,}" if used == available else f"{used:,} of {available:,}"


def _stopped(model: Any) -> str:
    """Whether a model with an iteration limit ran into it."""
    stopped = np.max(getattr(model, "n_iter_", 0)) >= getattr(model, "max_iter", np.inf)
    return "; stopped at its iteration limit" if stopped else ""


def _records(accuracies: Mapping[str, Estimate]) -> int:
    """The number of test records, which all accuracies must share."""
    counts = sorted({one.n for one in accuracies.values()})
    if len(counts) != 1:
        raise RequestError(
            "there are no accuracies to average; give at least one."
            if not counts
            else f"the accuracies are on {counts[0]} to {counts[-1]} test records; test all on the same ones."
        )
    return counts[0]


def _count(accuracies: Mapping[str, Estimate]) -> str:
    missing = [name for name in NAMES if name not in accuracies]
    without = f" without {', '.join(missing)}" if missing else ""
    return f"{len(accuracies)} classifier{'' if len(accuracies) == 1 else 's'}{without}"
