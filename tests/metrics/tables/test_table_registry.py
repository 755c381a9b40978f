"""Which side of each figure samples, real training rows and real test rows are on."""

import functools
from typing import Any

import numpy as np
import pytest
from sklearn import ensemble

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.samples import TableSamples
from gossamer.data.tables.table import Table
from gossamer.errors import RequestError
from gossamer.metrics import registry
from gossamer.metrics.baseline_cache import Baselines
from gossamer.metrics.metric import of_baseline
from gossamer.metrics.tables.distances import total_variation
from gossamer.metrics.tables.registry import METRICS, Inputs
from gossamer.metrics.tables.rows import Rows

COLUMNS = (
    Column(name="a", kind="category", values=("x", "y")),
    Column(name="b", kind="category", values=("x", "y", "z")),
    Column(name="y", kind="category", values=("no", "yes")),
)
CARD = TableCard(columns=COLUMNS, declared_size=100, label="y")


def rows(n: int, seed: int, agree: float) -> np.ndarray:
    """The label is the first column in this share of rows."""
    draw = np.random.default_rng(seed)
    a, b = draw.integers(2, size=n), draw.integers(3, size=n)
    return np.stack([a, b, np.where(draw.random(n) < agree, a, 1 - a)], 1).astype(np.int32)


SAMPLES, REAL, TESTS = rows(400, 0, 0.7), rows(300, 1, 0.9), rows(200, 2, 0.95)


def inputs(**more: Any) -> Inputs:
    real, tests = Table(REAL), Table(TESTS)
    given = {"samples": TableSamples(SAMPLES, CARD), "real": real, "tests": tests, **more}
    codes = {name: given[name].codes for name in ("samples", "real", "tests")}
    values = {name: each.astype(float) for name, each in codes.items()}
    return Inputs(**{"baselines": Baselines(None, ""), "values": values, **given})


def test_marginals_are_against_the_training_rows() -> None:
    found = METRICS["marginals"].compute(inputs())
    for order, sets in ((1, [(0,), (1,), (2,)]), (2, [(0, 1), (0, 2), (1, 2)]), (3, [(0, 1, 2)])):
        ours = [total_variation(Rows.of(SAMPLES), Rows.of(REAL), each, (2, 3, 2))[0] for each in sets]
        floor = [total_variation(Rows.of(TESTS), Rows.of(REAL), each, (2, 3, 2))[0] for each in sets]
        name = f"{order}-way TV"
        assert found[name].value == pytest.approx(np.mean(ours))
        assert found[of_baseline(name)].value == pytest.approx(np.mean(floor))
        assert found[name].computed_on.startswith("400 samples against 300 real training rows;")
        assert found[of_baseline(name)].computed_on.startswith("200 real test rows against 300 real training rows;")
        assert all(0 <= each.low <= each.value <= each.high for each in found.values())
    pairs = {pair[:2]: pair[2] for pair in found["2-way TV"].pairs}
    assert max(pairs, key=pairs.get) == ("a", "y") and len(pairs) == 3
    assert found["2-way TV"].low > found["2-way TV of the real-data baseline"].value
    assert not hasattr(found["2-way TV of the real-data baseline"], "pairs")


def test_accuracy_is_trained_on_samples_and_tested_on_real_test_rows() -> None:
    found = METRICS["accuracy"].compute(inputs())
    assert found["accuracy"].value == (TESTS[:, 0] == TESTS[:, 2]).mean()  # the first column decides
    assert found["calibration error"].value == pytest.approx(0.95 - 0.7, abs=0.05)
    assert found["calibration error of the real-data baseline"].value == pytest.approx(0.95 - 0.9, abs=0.03)
    # Models that learnt from 70 % and from 90 % are as sure as that of the 95 % of the test rows.
    for name, sure in (("log loss", 0.7), ("log loss of the real-data baseline", 0.9)):
        assert found[name].value == pytest.approx(-0.95 * np.log(sure) - 0.05 * np.log(1 - sure), abs=0.06)
    assert found["AUC"].computed_on == "200 real test rows; trained on 400 samples"
    assert found["AUC of the real-data baseline"].computed_on == "200 real test rows; trained on 300 real training rows"


def test_a_label_of_many_bins_is_a_number() -> None:
    columns = (*COLUMNS[:2], Column(name="y", kind="integer", bounds=(0, 15), bins=16))
    card = TableCard(columns=columns, declared_size=10, label="y")
    codes = [np.column_stack([part[:, :2], part[:, 2] * 10]).astype(np.int32) for part in (SAMPLES, REAL, TESTS)]
    parts = {"samples": TableSamples(codes[0], card), "real": Table(codes[1]), "tests": Table(codes[2])}
    found = METRICS["accuracy"].compute(inputs(**parts))
    assert set(found) == {"R2", "R2 of the real-data baseline"}
    assert 0.3 < found["R2"].value < found["R2 of the real-data baseline"].value < 1


def test_a_table_without_a_label_has_the_other_figures() -> None:
    card = TableCard(columns=COLUMNS, declared_size=100)
    given = inputs(samples=TableSamples(SAMPLES, card), subgroups=("a",))
    found = {name: (figures, reason) for name, figures, reason in METRICS.measured(given, [*METRICS])}
    assert [name for name, (_, reason) in found.items() if reason] == ["accuracy"]
    assert "the card names no label column" in found["accuracy"][1]
    assert set(found["subgroups"][0]) == {"share difference, a = x", "share difference, a = y"}
    with pytest.raises(RequestError, match="no label column"):
        [*METRICS.measured(given, ["accuracy"])]


def test_ranges_have_their_floor() -> None:
    name, found = "error of range queries", METRICS["ranges"].compute(inputs())
    assert [*found] == [name, of_baseline(name)]
    assert found[of_baseline(name)].value < found[name].value


def test_subgroups_compare_samples_with_real_rows() -> None:
    found = METRICS["subgroups"].compute(inputs(subgroups=("a", "y")))
    shares = [(part[:, 2] == 1).mean() for part in (SAMPLES, REAL)]
    assert found["share difference, y = yes"].value == pytest.approx(shares[0] - shares[1])
    assert found["accuracy difference, a = x"].value == 0  # both models take the first column
    assert registry.figure("accuracy difference, a = x").share and not registry.stands_alone("share difference, a = x")


def test_few_units_are_refused() -> None:
    with pytest.raises(RequestError, match="real test rows: at least 20 rows of different units are needed"):
        inputs(tests=Table(TESTS, units=np.arange(200) % 19))


def test_what_depends_on_real_rows_alone_is_computed_once(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few = functools.partial(ensemble.HistGradientBoostingClassifier, max_iter=5)
    monkeypatch.setattr(ensemble, "HistGradientBoostingClassifier", few)
    first = METRICS["accuracy"].compute(inputs(baselines=Baselines(tmp_path, "these rows")))
    trained: list[str] = []
    predictions = Inputs.predictions
    monkeypatch.setattr(Inputs, "predictions", lambda self, name: trained.append(name) or predictions(self, name))
    again = METRICS["accuracy"].compute(inputs(baselines=Baselines(tmp_path, "these rows")))
    assert (again, trained) == (first, ["samples"])
    card = TableCard(columns=COLUMNS, declared_size=100, label="a")  # the same rows, another label
    METRICS["accuracy"].compute(
        inputs(samples=TableSamples(SAMPLES, card), baselines=Baselines(tmp_path, "these rows"))
    )
    assert trained == ["samples", "samples", "real"]


def test_both_kinds_call_the_same_figures_a_share() -> None:
    of_kind = {
        kind: {figure.name: figure.share for metric in metrics.values() for figure in metric.figures}
        for kind, metrics in registry.OF_KIND.items()
    }
    shared = of_kind["pictures"].keys() & of_kind["table"].keys()
    assert shared == {"accuracy", "accuracy of the real-data baseline", "accuracy of guessing"}
    assert all(of_kind["pictures"][name] == of_kind["table"][name] for name in shared)
    assert "gradient boosting" in registry.figure("accuracy", "table").sentence
    assert "letters" in registry.figure("accuracy", "pictures").sentence
