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

The paper's "Avg Acc" and "Calibrated Acc" are over these and a CNN, which is not among ours.

The figures are computed on real records. They are private: no guarantee covers them.
"""

import importlib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import discriminant_analysis, ensemble, linear_model, naive_bayes, neural_network, svm, tree
from sklearn.exceptions import ConvergenceWarning

from gossamer.data.records import Labelled
from gossamer.errors import DataError
from gossamer.intervals import Estimate, proportion
from gossamer.metrics.arrays import Images, Labels, check_pair
from gossamer.metrics.classify import Progress
from gossamer.metrics.metric import OF_BASELINE, Figure, Figures, of_baseline
from gossamer.metrics.registry import METRICS, Inputs

XGBOOST = "xgboost"
_NOTES = {"adaboost": " (SAMME for the paper's SAMME.R)"}
_FEWEST = 20
"""Bagging and boosting draw a tenth of the training pictures, and a tenth should be more than one."""


def classifiers(seed: int) -> dict[str, Any]:
    """The untrained classifiers by name: scikit-learn's interface, `fit` and `predict`. XGBoost only where installed."""
    models = {
        "logistic regression": linear_model.LogisticRegression(max_iter=5000),
        "random forest": ensemble.RandomForestClassifier(100, class_weight="balanced", random_state=seed),
        "gaussian naive bayes": naive_bayes.GaussianNB(),
        "bernoulli naive bayes": naive_bayes.BernoulliNB(binarize=0.5),
        "linear svm": svm.LinearSVC(loss="hinge", tol=1e-8, max_iter=10_000, random_state=seed),
        "decision tree": tree.DecisionTreeClassifier(class_weight="balanced", random_state=seed),
        "lda": discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.5),
        "adaboost": ensemble.AdaBoostClassifier(n_estimators=100, random_state=seed),
        "mlp": neural_network.MLPClassifier(random_state=seed),
        "bagging": ensemble.BaggingClassifier(max_samples=0.1, n_estimators=20, random_state=seed),
        "gradient boosting": ensemble.GradientBoostingClassifier(subsample=0.1, n_estimators=50, random_state=seed),
    }
    with suppress(ImportError):
        xgboost = importlib.import_module("xgboost")
        # The objective, softmax over the classes, is XGBoost's own choice for more than two classes.
        models[XGBOOST] = xgboost.XGBClassifier(n_estimators=50, colsample_bytree=0.1, n_jobs=1, random_state=seed)
    return models


NAMES = tuple(dict.fromkeys([*classifiers(0), XGBOOST]))
"""The paper's list, in the order of the authors' code. XGBoost needs the extra `gossamer[xgboost]`."""


def classical_accuracies(
    train_images: Images,
    train_labels: Labels,
    test_images: Images,
    test_labels: Labels,
    *,
    classes: int,
    limit: int | None = None,
    seed: int,
    progress: Progress | None = None,
    trained_on: str = "synthetic records",
) -> dict[str, Estimate]:
    """Share of the real test records that each classifier gets right, trained on flattened pictures in [0, 1].

    The Wilson 95 % intervals are over the test records, for one training with this seed. `computed_on` names a classifier
    that ran into its iteration limit; it is judged without more iterations, as in the paper. With the paper's 60,000
    pictures the list is long work for one core. `limit` shortens it, and lowers the figures.

    Args:
        train_images: uint8 [N, C, H, W], the samples.
        train_labels: integers [N], from 0 to classes - 1.
        test_images: uint8 [M, C, H, W], real records that trained nothing.
        test_labels: integers [M].
        classes: number of classes.
        limit: train on at most this many pictures, drawn at random.
        seed: fixes the draw and the training.
        progress: called after each classifier with its number from 1, the number of classifiers, and its accuracy.
        trained_on: what the training pictures are, for `computed_on`.

    Returns:
        One Estimate per classifier, in the order of `NAMES`.

    Raises:
        DataError: if the arrays do not fit together, or there is too little to train on.
    """
    check_pair(train_images, train_labels, test_images, test_labels, classes, smallest=1)
    models = classifiers(seed)
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
    ends. That is right if they go together fully, and too wide otherwise: at least 95 % to first order.

    Args:
        accuracies: of `classical_accuracies`.
    """
    n = next(iter(accuracies.values())).n
    computed_on = f"{n:,} real test records; mean over {_count(accuracies)}; widest interval over the test records"
    value, low, high = (
        float(np.mean([getattr(one, end) for one in accuracies.values()])) for end in ("value", "low", "high")
    )
    return Estimate(value, low, high, n, computed_on)


def calibrated(synthetic: Mapping[str, Estimate], real: Mapping[str, Estimate]) -> Estimate:
    """The mean over classifiers of accuracy / accuracy when trained on real records: the paper's "Calibrated Acc".

    The interval is over the test records, as in `average`. Each ratio runs from low / high to high / low. That holds
    whatever the two errors have to do with one another: at least 95 % to first order, and usually wide.

    Args:
        synthetic: accuracies of classifiers trained on samples.
        real: accuracies of the same classifiers trained on real records, on the same test records.

    Raises:
        DataError: if a real accuracy reaches down to 0.
    """
    shared = {name: one for name, one in real.items() if name in synthetic}  # a cache may lack XGBoost
    n = next(iter(shared.values())).n
    useless = [name for name, one in shared.items() if one.low <= 0]
    if useless:
        raise DataError(
            f"{useless[0]} learns nothing from the real records, and cannot be calibrated; leave classical out."
        )
    ratios = [
        (synthetic[name].value / one.value, synthetic[name].low / one.high, synthetic[name].high / one.low)
        for name, one in shared.items()
    ]
    value, low, high = (float(np.mean(column)) for column in zip(*ratios, strict=True))
    basis = f"{n:,} real test records; accuracy / accuracy when trained on real records, mean over {_count(shared)}"
    return Estimate(value, low, high, n, f"{basis}; widest interval over the test records")


def _flat(images: Images) -> NDArray[np.float32]:
    """uint8 [N, C, H, W] to float32 [N, C * H * W] in [0, 1]."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def _used(used: int, available: int) -> str:
    return f"{available:,}" if used == available else f"{used:,} of {available:,}"


def _stopped(model: Any) -> str:
    """Whether a model with an iteration limit ran into it."""
    stopped = np.max(getattr(model, "n_iter_", 0)) >= getattr(model, "max_iter", np.inf)
    return "; stopped at its iteration limit" if stopped else ""


def _count(accuracies: Mapping[str, Estimate]) -> str:
    missing = [name for name in NAMES if name not in accuracies]
    without = f" without {', '.join(missing)}" if missing else ""
    return f"{len(accuracies)} classifier{'' if len(accuracies) == 1 else 's'}{without}"


AVERAGE = Figure(
    "average accuracy",
    "Averaged over a list of classical classifiers trained on the synthetic records: {value} right ({range}).",
    share=True,
    bar="the synthetic records, many classifiers",
)
AVERAGE_BASELINE = Figure(
    "average accuracy" + OF_BASELINE,
    "The same list trained on the real records: {value} right ({range}).",
    share=True,
    bar="the real records, many classifiers",
)
ONE_OF_LIST = Figure("accuracy, {}", share=True)
ONE_OF_LIST_BASELINE = Figure(of_baseline(ONE_OF_LIST.name), share=True)
CALIBRATED = Figure(
    "calibrated accuracy", "The list reaches {value} of what it reaches on real records ({range}).", share=True
)


def register(limit: int = 10_000) -> None:
    """Make `classical` a metric of pictures, with so many training records at most."""
    figures = AVERAGE, AVERAGE_BASELINE, CALIBRATED, ONE_OF_LIST, ONE_OF_LIST_BASELINE
    METRICS.metric("classical", *figures, needs_labels=True, in_all=False)(partial(measured, limit=limit))


def measured(inputs: Inputs, *, limit: int) -> Figures:
    """GS-WGAN's list of classifiers, their average, and the average of accuracy / accuracy on real records."""

    def of(records: Labelled, trained_on: str) -> dict[str, Estimate]:
        return classical_accuracies(
            records.images, records.labels, inputs.tests.images, inputs.tests.labels, classes=inputs.classes,
            limit=limit, seed=inputs.seed, trained_on=trained_on, progress=inputs.progress(f"classifiers, {trained_on}"),
        )  # fmt: skip

    synthetic = of(inputs.samples, "synthetic records")
    real = inputs.baselines.estimates(f"classical {limit}", lambda: of(inputs.real, "real records"))
    return {
        **{ONE_OF_LIST.of(name): estimate for name, estimate in synthetic.items()},
        **{ONE_OF_LIST_BASELINE.of(name): estimate for name, estimate in real.items()},
        AVERAGE.name: average(synthetic),
        AVERAGE_BASELINE.name: average(real),
        CALIBRATED.name: calibrated(synthetic, real),
    }
