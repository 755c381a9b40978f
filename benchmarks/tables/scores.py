"""The figures of samples, the same for every method: how well a model learns from them, and how far their marginals are."""

import itertools

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.tables.datasets import Dataset

TRIPLES = 400
"""Sets of columns of one order, at most."""
Figures = dict[str, float]


def figures(samples: np.ndarray, data: Dataset) -> Figures:
    """Accuracy and AUC on the test rows of a model trained on the samples, and the distances from the rows that were seen.

    Samples of one label only give an AUC of 0.5, and the accuracy of that label. samples: int [n, columns]
    """
    label, domain = data.label, data.facts.domain
    others = [column for column in range(len(domain)) if column != label]
    truth = data.test[:, label]
    if len(np.unique(samples[:, label])) > 1:
        model = HistGradientBoostingClassifier(random_state=0).fit(samples[:, others], samples[:, label])
        scores = model.predict_proba(data.test[:, others])[:, 1]
    else:
        scores = np.full(len(truth), float(samples[0, label]))
    found = {"accuracy": float(((scores > 0.5) == truth).mean()), "auc": float(roc_auc_score(truth, scores))}
    return {**found, **{f"tv{order}": variation(samples, data.seen, domain, order) for order in (1, 2, 3)}}


def variation(a: np.ndarray, b: np.ndarray, domain: tuple[int, ...], order: int) -> float:
    """Mean total variation over the sets of so many columns, 400 random ones at most. a, b: int [n, columns]"""
    sets = list(itertools.combinations(range(len(domain)), order))
    if len(sets) > TRIPLES:
        sets = [sets[k] for k in np.random.default_rng(0).choice(len(sets), TRIPLES, replace=False)]
    return float(np.mean([np.abs(shares(a, each, domain) - shares(b, each, domain)).sum() / 2 for each in sets]))


def shares(codes: np.ndarray, columns: tuple[int, ...], domain: tuple[int, ...]) -> np.ndarray:
    """The share of rows in each cell of a table of these columns. float [cells]"""
    shape = [domain[column] for column in columns]
    cells = np.ravel_multi_index([codes[:, column] for column in columns], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))) / len(codes)
