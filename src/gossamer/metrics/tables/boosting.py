"""Gradient boosting on rows: what a model learns from samples, and whether a model tells samples from real rows.

All models are scikit-learn's HistGradientBoosting with its defaults and a seed. Rows have their weights where a
model is trained and where it is tested.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from gossamer.data.tables.card import TableCard
from gossamer.errors import RequestError
from gossamer.intervals import Estimate, jackknife, proportion
from gossamer.lazy import sklearn
from gossamer.metrics.tables.rows import Rows

MOST_VALUES = 20
"""Values of a category that are told apart as classes."""
MOST_BINS = 10
"""The same for bins of a number or a date. More of them are predicted as a number."""
LEAST = 1e-6
"""A model's probability of a class counts as at least this in the log loss."""
FOLDS = 3
"""Of the cross-validation that tells samples from real rows."""
_MOST_SPLIT = 255
"""Values of a category that scikit-learn splits at most."""
BANDS = 15
"""Of the probability of the likeliest class, for the calibration error."""

Task = Literal["classes", "number"]


def task_of(card: TableCard) -> Task:
    """What is predicted of the label column. Raises RequestError: there is no label, or a category has too many values."""
    if card.label_index is None:
        raise RequestError("the card names no label column, so there is nothing to predict. Take marginals or ranges.")
    column = card.columns[card.label_index]
    if column.values and column.size > MOST_VALUES:
        raise RequestError(
            f"the label has {column.size:,} values, and at most {MOST_VALUES} are told apart as classes. Take marginals or "
            "ranges."
        )
    return "classes" if column.values or column.size <= MOST_BINS else "number"


@dataclass(frozen=True, repr=False)
class Examples:
    """What a model is trained on, or tested on.

    Args:
        features: float64 [N, columns but the label], NaN where there is no value.
        labels: int64 [N] classes, or float64 [N] numbers.
        rows: the weights, groups and number of units.
        categories: the positions of the features that are categories.
    """

    features: np.ndarray
    labels: np.ndarray
    rows: Rows
    categories: tuple[int, ...] = ()

    @property
    def weights(self) -> np.ndarray | None:
        """The weights of the rows; None: all are equal. scikit-learn is several times as fast without weights."""
        weights = self.rows.weights
        return None if np.ptp(weights) == 0 else weights

    @classmethod
    def of(cls, rows: Rows, values: np.ndarray, card: TableCard) -> "Examples":
        """Examples of the label of a card. A number is predicted where there is one: rows without it are left out.

        Args:
            rows: the codes.
            values: the features with the label, float64 [N, columns].
            card: names the label.
        """
        label = card.label_index
        assert label is not None
        features, numbers = np.delete(values, label, axis=1), values[:, label]
        categories = categories_of(card, without=label)
        if task_of(card) == "classes":
            return cls(features, rows.codes[:, label].astype(np.int64), rows, categories)
        there = np.flatnonzero(~np.isnan(numbers))
        return cls(features[there], numbers[there], rows.take(there), categories)


def categories_of(card: TableCard, without: int | None = None) -> tuple[int, ...]:
    """The positions of categories among the columns but one. Those with more values than a model splits are numbers."""
    columns = [column for at, column in enumerate(card.columns) if at != without]
    return tuple(at for at, column in enumerate(columns) if column.values and column.size <= _MOST_SPLIT)


def probabilities(train: Examples, features: np.ndarray, *, classes: int, seed: int) -> np.ndarray:
    """Of each class for each row, by a model. float64 [N, classes]. A class without an example gets the probability 0."""
    found = np.zeros((len(features), classes))
    different, counts = np.unique(train.labels, return_counts=True)
    if len(different) == 1:
        found[:, different] = 1
        return found
    # Early stopping holds out a tenth of each class, which needs two of it.
    stopping = "auto" if counts.min() > 1 else False
    model = sklearn.ensemble.HistGradientBoostingClassifier(
        random_state=seed, early_stopping=stopping, categorical_features=train.categories
    )
    found[:, different] = model.fit(train.features, train.labels, train.weights).predict_proba(features)
    return found


def predicted_numbers(train: Examples, features: np.ndarray, *, seed: int) -> np.ndarray:
    """The number of each row by a model. float64 [N]"""
    model = sklearn.ensemble.HistGradientBoostingRegressor(random_state=seed, categorical_features=train.categories)
    return np.asarray(model.fit(train.features, train.labels, train.weights).predict(features))


def accuracy(chances: np.ndarray, tests: Examples, computed_on: str) -> Estimate:
    """The share of test units that a model gets right. chances: float64 [N, classes]."""
    right = chances.argmax(axis=1) == tests.labels
    total = float(tests.rows.weights.sum())
    return proportion(min(total, float(right @ tests.rows.weights)), total, computed_on)


def area(chances: np.ndarray, tests: Examples, computed_on: str) -> Estimate:
    """The area under the ROC curve; of several classes, the mean over those that occur, each against all others.

    The interval is the jackknife's, over test units. Raises RequestError: the test rows have one class only.
    """
    present = np.unique(tests.labels)
    if len(present) < 2:
        raise RequestError("the test rows have one value of the label only, so there is no AUC. Give other test rows.")

    def mean_area(kept: np.ndarray) -> float:
        labels, weights = tests.labels[kept], tests.rows.weights[kept]
        if len(np.unique(labels)) < len(present):
            return float("nan")
        one_against_all = present[1:] if len(present) == 2 else present
        area = sklearn.metrics.roc_auc_score
        areas = [area(labels == one, chances[kept, one], sample_weight=weights) for one in one_against_all]
        return float(np.mean(areas))

    return of_groups(mean_area, tests.rows, computed_on, lowest=0, highest=1)


def log_loss(chances: np.ndarray, tests: Examples, computed_on: str) -> Estimate:
    """The mean of -log(probability of the true class) in nats. Probabilities below LEAST count as LEAST."""
    losses = -np.log(np.maximum(chances[np.arange(len(chances)), tests.labels], LEAST))
    weights = tests.rows.weights
    return of_groups(
        lambda kept: float(np.average(losses[kept], weights=weights[kept])), tests.rows, computed_on, lowest=0
    )


def calibration_error(chances: np.ndarray, tests: Examples, computed_on: str) -> Estimate:
    """The expected calibration error of the likeliest class, in 15 bands of equal width (Guo et al., ICML 2017).

    It is the mean distance between a probability and the share of rows that come true. 0 is best, 1 is worst.
    """
    sure, right = chances.max(axis=1), chances.argmax(axis=1) == tests.labels
    bands = np.minimum((sure * BANDS).astype(np.int64), BANDS - 1)
    weights = tests.rows.weights

    def error(kept: np.ndarray) -> float:
        apart = weights[kept] * (right[kept] - sure[kept])
        return float(np.abs(np.bincount(bands[kept], apart)).sum() / weights[kept].sum())

    return of_groups(error, tests.rows, computed_on, lowest=0, highest=1)


def explained(numbers: np.ndarray, tests: Examples, computed_on: str) -> Estimate:
    """The share of the label's variance that a model explains, R^2. numbers: float64 [N], predicted.

    Raises RequestError: the test rows have one value of the label only.
    """
    if len(np.unique(tests.labels)) < 2:
        raise RequestError("the test rows have one value of the label only, so there is no R2. Give other test rows.")

    def share(kept: np.ndarray) -> float:
        explained = sklearn.metrics.r2_score
        return float(explained(tests.labels[kept], numbers[kept], sample_weight=tests.rows.weights[kept]))

    return of_groups(share, tests.rows, computed_on, highest=1)


def of_groups(statistic: Callable[[np.ndarray], float], rows: Rows, computed_on: str, **scale: float) -> Estimate:
    """A statistic of rows with its jackknife interval. statistic: from positions of rows, int64 [n]. scale: its ends."""
    without = [statistic(np.flatnonzero(rows.groups != group)) for group in np.unique(rows.groups)]
    value = statistic(np.arange(len(rows)))
    return jackknife(value, without, rows.units, computed_on, **scale)


Measure: TypeAlias = Callable[[np.ndarray, Examples, str], Estimate]
OF_CLASSES: dict[str, Measure] = {
    "accuracy": accuracy,
    "AUC": area,
    "log loss": log_loss,
    "calibration error": calibration_error,
}
"""What is measured of probabilities of classes."""
OF_NUMBERS: dict[str, Measure] = {"R2": explained}
"""The same of numbers."""
Side: TypeAlias = tuple[Rows, np.ndarray]
"""Rows, and their values, float64 [N, columns]."""


def told_apart(
    samples: Side, real: Side, card: TableCard, *, seed: int, progress: Callable[[int, int], None]
) -> Estimate:
    """The AUC of a model that tells samples from real test rows, on values; cross-validated by whole units.

    As many samples take part as there are test units. Classifier two-sample test: Lopez-Paz, Oquab, ICLR 2017.

    Args:
        samples: synthetic rows.
        real: real test rows.
        card: says which columns are categories.
        seed: of the model and the folds.
        progress: takes folds that are done, and all.
    """
    theirs, chosen = real[0], samples[0].some_units(real[0].units)
    ours = samples[0].take(chosen)
    both = Rows(
        np.concatenate([ours.codes, theirs.codes]),
        np.concatenate([ours.weights * (theirs.weights.sum() / len(ours)), theirs.weights]),
        np.concatenate([ours.groups, theirs.groups]), np.concatenate([ours.owners + theirs.owners.max() + 1, theirs.owners]),
    )  # fmt: skip
    values = np.concatenate([samples[1][chosen], real[1]])
    labels = np.repeat([1, 0], [len(ours), len(theirs)])
    folds, scores = both.groups % FOLDS, np.zeros(len(labels))
    for fold in range(FOLDS):
        progress(fold, FOLDS)
        inside = np.flatnonzero(folds != fold)
        train = Examples(values[inside], labels[inside], both.take(inside), categories_of(card))
        scores[folds == fold] = probabilities(train, values[folds == fold], classes=2, seed=seed)[:, 1]
    progress(FOLDS, FOLDS)

    def mean_area(kept: np.ndarray) -> float:
        parts = [kept[folds[kept] == fold] for fold in range(FOLDS)]
        if any(len(np.unique(labels[part])) < 2 for part in parts):
            return float("nan")
        area = sklearn.metrics.roc_auc_score
        return float(np.mean([area(labels[p], scores[p], sample_weight=both.weights[p]) for p in parts]))

    on = f"{len(ours):,} samples and {len(theirs):,} real test rows, {FOLDS} folds"
    return of_groups(mean_area, both, on, lowest=0, highest=1)
