"""The figures of samples: known distances, and an AUC that follows what the samples hold."""

import numpy as np
import pytest

from benchmarks.tables.datasets import Dataset
from benchmarks.tables.scores import figures, shares, variation
from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard

FACTS = TableCard(
    columns=(
        Column(name="a", kind="category", values=("0", "1", "2")),
        Column(name="b", kind="category", values=("0", "1")),
        Column(name="y", kind="category", values=("no", "yes")),
    ),
    declared_size=600,
    label="y",
)


def rows(count: int, seed: int, noise: float) -> np.ndarray:
    """y is b, but for a share of rows."""
    draws = np.random.default_rng(seed)
    a, b = draws.integers(3, size=count), draws.integers(2, size=count)
    return np.stack([a, b, np.where(draws.random(count) < noise, 1 - b, b)], 1)


DATA = Dataset("toy", FACTS, rows(600, 0, 0.1), rows(600, 1, 0.1))


def test_shares_are_those_of_the_cells():
    codes = np.array([[0, 0, 0], [0, 1, 0], [2, 1, 0], [2, 1, 1]])
    np.testing.assert_array_equal(shares(codes, (0, 1), FACTS.domain), [0.25, 0.25, 0, 0, 0, 0.5])


def test_variation_is_the_mean_over_the_sets_of_columns():
    """One column of three has another value in half the rows: half of the mass moves in each set that holds it."""
    a, b = np.zeros((4, 3), int), np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]])
    assert variation(a, b, FACTS.domain, 1) == pytest.approx(0.5 / 3)
    assert variation(a, b, FACTS.domain, 2) == pytest.approx(0.5 * 2 / 3)
    assert variation(a, b, FACTS.domain, 3) == pytest.approx(0.5)
    assert variation(b, a[::-1], FACTS.domain, 3) == pytest.approx(0.5)


def test_real_rows_have_no_distance_and_the_best_accuracy():
    found = figures(DATA.seen, DATA)
    assert (found["tv1"], found["tv2"], found["tv3"]) == (0, 0, 0)
    truth = (DATA.test[:, 1] == DATA.test[:, 2]).mean()
    assert found["accuracy"] == pytest.approx(truth), "the best rule is y = b"
    assert found["auc"] > 0.85


def test_samples_with_the_opposite_dependence_teach_the_opposite():
    wrong = DATA.seen.copy()
    wrong[:, 2] = 1 - wrong[:, 2]
    assert figures(wrong, DATA)["auc"] < 0.15


@pytest.mark.parametrize("label", [0, 1])
def test_samples_of_one_label_teach_nothing(label: int):
    one = DATA.seen.copy()
    one[:, 2] = label
    found = figures(one, DATA)
    assert found["auc"] == 0.5
    assert found["accuracy"] == pytest.approx((DATA.test[:, 2] == label).mean())
