"""What models learn from rows, beside scikit-learn's own figures."""

import functools

import numpy as np
import pytest
from sklearn import ensemble, metrics

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.errors import RequestError
from gossamer.metrics.tables import boosting
from gossamer.metrics.tables.boosting import Examples
from gossamer.metrics.tables.rows import Rows


def card(label: Column) -> TableCard:
    feature = Column(name="x", kind="integer", bounds=(0, 9), bins=10)
    return TableCard(columns=(feature, label), declared_size=100, label="y")


def examples(labels: np.ndarray, units: np.ndarray | None = None) -> Examples:
    return Examples(np.zeros((len(labels), 1)), labels, Rows.of(labels[:, None].astype(np.int32), units))


def test_what_is_predicted_of_a_label() -> None:
    assert boosting.task_of(card(Column(name="y", kind="category", values=("a", "b")))) == "classes"
    assert boosting.task_of(card(Column(name="y", kind="integer", bounds=(0, 1)))) == "classes"
    assert boosting.task_of(card(Column(name="y", kind="number", bounds=(0, 1)))) == "number"
    many = Column(name="y", kind="category", values=tuple(map(str, range(21))))
    with pytest.raises(RequestError, match="21 values, and at most 20"):
        boosting.task_of(card(many))
    without = TableCard(columns=(many,), declared_size=10)
    with pytest.raises(RequestError, match="names no label column"):
        boosting.task_of(without)


@pytest.mark.parametrize("classes", [2, 3])
def test_figures_of_classes_agree_with_scikit_learn(classes: int) -> None:
    draw = np.random.default_rng(classes)
    chances, labels = draw.dirichlet(np.ones(classes), 500), draw.integers(classes, size=500)
    chances[np.arange(500), labels] += 0.3
    chances /= chances.sum(1, keepdims=True)
    tests = examples(labels)
    asked = chances[:, 1] if classes == 2 else chances
    area = boosting.area(chances, tests, "rows")
    assert area.value == pytest.approx(metrics.roc_auc_score(labels, asked, multi_class="ovr", average="macro"))
    assert 0 < area.low < area.value < area.high < 1 and area.n == 500
    assert boosting.log_loss(chances, tests, "").value == pytest.approx(metrics.log_loss(labels, chances))
    assert boosting.accuracy(chances, tests, "").value == metrics.accuracy_score(labels, chances.argmax(1))


def test_a_test_unit_counts_once() -> None:
    """One person with nine rows that are right, and one with a single wrong row: half of the persons."""
    labels, units = np.array([1] * 9 + [0]), np.array([4] * 9 + [9])
    found = boosting.accuracy(np.tile([0.2, 0.8], (10, 1)), examples(labels, units), "")
    assert (found.value, found.n) == (pytest.approx(0.5), 2)
    weights = [1 / 9] * 9 + [1]
    chances = np.stack([1 - np.linspace(0.2, 0.9, 10), np.linspace(0.2, 0.9, 10)], 1)
    loss = boosting.log_loss(chances, examples(labels, units), "")
    assert loss.value == pytest.approx(metrics.log_loss(labels, chances[:, 1], sample_weight=weights))


def test_the_interval_of_an_auc_is_that_of_delong() -> None:
    """DeLong et al. 1988: the variances of the structural components, of 300 positives and 700 negatives."""
    draw = np.random.default_rng(0)
    labels = (np.arange(1_000) < 300).astype(int)
    scores = draw.normal(labels, 1)
    above = (scores[labels == 1][:, None] > scores[labels == 0][None]).astype(float)
    error = np.sqrt(above.mean(1).var(ddof=1) / 300 + above.mean(0).var(ddof=1) / 700)
    found = boosting.area(np.stack([-scores, scores], 1), examples(labels), "")
    assert (found.high - found.low) / 2 == pytest.approx(2.093 * error, rel=0.3)  # t of 19 degrees; 20 groups are few


def test_a_model_learns_a_rule_and_a_missing_class_gets_no_probability() -> None:
    features = np.tile(np.arange(10.0), 40)[:, None]
    train = examples((features[:, 0] > 4).astype(np.int64))
    train = Examples(features, train.labels, train.rows)
    found = boosting.probabilities(train, np.array([[0.0], [9.0]]), classes=3, seed=0)
    assert found.argmax(1).tolist() == [0, 1] and (found[:, 2] == 0).all()
    alone = Examples(features, np.full(400, 2), train.rows)
    assert boosting.probabilities(alone, features[:5], classes=3, seed=0).tolist() == [[0, 0, 1]] * 5


@pytest.mark.filterwarnings("error")
def test_a_class_with_one_example_among_many_rows_is_no_error() -> None:
    """Early stopping begins at 10,000 rows and holds out a part of each class."""
    labels = (np.arange(10_001) % 2).astype(np.int64)
    labels[0] = 2
    train = Examples(labels[:, None] * 1.0, labels, Rows.of(labels[:, None].astype(np.int32)))
    assert boosting.probabilities(train, np.array([[0.0], [1.0]]), classes=3, seed=0).argmax(1).tolist() == [0, 1]


def test_weights_decide_what_a_model_learns() -> None:
    """One unit says 1 in ninety rows; ten units say 0 in a row each."""
    labels = np.array([1] * 90 + [0] * 10)
    train = examples(labels, np.concatenate([np.zeros(90, int), np.arange(1, 11)]))
    assert boosting.probabilities(train, np.zeros((1, 1)), classes=2, seed=0)[0, 1] == pytest.approx(1 / 11, abs=0.01)


def test_a_number_is_predicted_where_there_is_one() -> None:
    label = Column(name="y", kind="number", bounds=(0, 16), zero=True, missing=True)
    facts = card(label)
    codes = np.stack([np.arange(60) % 10, np.arange(60) % 18], 1).astype(np.int32)
    values = codes.astype(float)
    values[5, 1] = np.nan
    found = Examples.of(Rows.of(codes), values, facts)
    assert found.labels.tolist() == [k % 18 for k in range(60) if k != 5]
    assert found.features[:, 0].tolist() == [k % 10 for k in range(60) if k != 5]


def test_categories_are_split_as_categories() -> None:
    """The odd values mean one thing and the even ones another: a few splits of an order do not tell them apart."""
    feature = Column(name="x", kind="category", values=tuple(map(str, range(200))))
    wide = Column(name="w", kind="category", values=tuple(map(str, range(256))))
    label = Column(name="y", kind="category", values=("a", "b"))
    facts = TableCard(columns=(feature, label, wide), declared_size=100, label="y")
    assert boosting.categories_of(facts) == (0, 1) and boosting.categories_of(facts, without=1) == (0,)
    draw = np.random.default_rng(0).integers(200, size=4_000)
    codes = np.stack([draw, draw % 2, np.zeros(4_000, int)], 1).astype(np.int32)
    train = Examples.of(Rows.of(codes), codes.astype(float), facts)
    assert train.categories == (0,)
    few = functools.partial(ensemble.HistGradientBoostingClassifier, max_iter=1, learning_rate=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, "HistGradientBoostingClassifier", few)
        found = boosting.probabilities(train, train.features, classes=2, seed=0)
    assert (found.argmax(1) == train.labels).mean() > 0.99


def test_calibration_by_hand() -> None:
    """Half of the rows have 0.9 and come true in 3 of 4 cases, half have 0.6 and always do: (0.15 + 0.4) / 2."""
    sure = np.repeat([0.9, 0.6], 200)
    labels = np.where(np.arange(400) < 200, np.arange(400) % 4 > 0, True).astype(np.int64)
    chances, tests = np.stack([1 - sure, sure], 1), examples(labels)
    found = boosting.calibration_error(chances, tests, "")
    assert found.value == pytest.approx(0.275) and found.low < 0.275 < found.high
    exact = np.stack([1 - labels, labels], 1).astype(float)
    assert boosting.calibration_error(exact, tests, "").value == 0


def test_r2_by_hand() -> None:
    labels = np.arange(40.0)
    numbers = labels + np.where(np.arange(40) % 2, 1.0, -1.0)
    tests = Examples(np.zeros((40, 1)), labels, Rows.of(np.zeros((40, 1), np.int32)))
    found = boosting.explained(numbers, tests, "")
    assert found.value == pytest.approx(1 - 40 / ((labels - labels.mean()) ** 2).sum())
    assert found.low < found.value < found.high <= 1
    with pytest.raises(RequestError, match="one value of the label only"):
        boosting.explained(numbers, Examples(tests.features, np.ones(40), tests.rows), "")


@pytest.mark.parametrize(("shift", "low", "high"), [(0, 0.42, 0.58), (5, 0.99, 1.0)])
def test_samples_are_told_from_rows_of_another_kind_only(shift: int, low: float, high: float) -> None:
    draw, told = np.random.default_rng(0), []
    facts = card(Column(name="y", kind="integer", bounds=(0, 9)))
    values = [draw.integers(5, size=(900, 2)) + shift, draw.integers(5, size=(600, 2))]
    units = [None, np.arange(600) // 2]
    sides = [
        (Rows.of(np.zeros_like(each, np.int32), owners), each.astype(float))
        for each, owners in zip(values, units, strict=True)
    ]
    found = boosting.told_apart(*sides, facts, seed=0, progress=lambda done, of: told.append((done, of)))
    assert low <= found.value <= high and found.computed_on.startswith("300 samples and 600 real test rows")
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert found.n == 300 + 300
