"""What stands on which side of each figure: samples, real training records and real test records do not change places."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gossamer.data.records import Labelled, Records, Samples
from gossamer.estimate import Estimate
from gossamer.metrics.fidelity import Moments, frechet_distance
from gossamer.metrics.neighbours import neighbourhood
from gossamer.run.evaluation import evaluate as running
from gossamer.run.evaluation import metric_functions
from gossamer.run.evaluation.baseline_cache import Baselines
from gossamer.run.evaluation.metric_functions import Inputs
from gossamer.run.evaluation.metric_registry import METRICS
from gossamer.run.report.metric_names import ACCURACY, BASELINE, PUBLIC_ITSELF, WARM_ALONE


class Pixels:
    """Features that are the pixels."""

    distance_name, name, width = "distance", "pixels", 1

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return images.reshape(len(images), -1).astype(np.float64)


def dots(*values: int) -> Records:
    """Records of one pixel; the label is the number modulo 3."""
    return Records(np.array(values, np.uint8)[:, None, None, None], np.arange(len(values)) % 3)


DRAWN = dots(*range(10, 34, 2))
SAMPLES = Samples(DRAWN.images, DRAWN.labels)
REAL = dots(*range(100, 120))
TESTS = dots(*range(11, 29, 3), *range(230, 248, 3))


def inputs(monkeypatch: pytest.MonkeyPatch, **more: Any) -> Inputs:
    monkeypatch.setattr(Inputs, "features", lambda self: Pixels())
    return Inputs(
        samples=SAMPLES,
        real=REAL,
        tests=TESTS,
        classes=3,
        labelled=True,
        baselines=Baselines(None, REAL, TESTS, 0),
        **more,
    )


def test_precision_is_of_samples_and_recall_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """All samples lie among the lower half of the test records; the upper half is like no sample."""
    found = metric_functions.neighbours(inputs(monkeypatch))
    assert (found["precision"].value, found["precision"].n) == (1.0, 12)
    assert (found["recall"].value, found["coverage"].value, found["recall"].n) == (0.5, 0.5, 12)
    direct = neighbourhood(Pixels()(SAMPLES.images), Pixels()(TESTS.images))
    assert found == {name: getattr(direct, name) for name in ("precision", "recall", "density", "coverage")}


class Recorder:
    """Stands for `classify.accuracy`: remembers what trains and what tests."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[Any, ...]] = {}

    def __call__(self, *arrays: np.ndarray, trained_on: str, **_: Any) -> Estimate:
        self.seen[trained_on] = arrays
        return Estimate(0.5, 0.4, 0.6, 10, trained_on)


def same(found: tuple[Any, ...], train: Labelled, tests: Labelled) -> bool:
    expected = (train.images, train.labels, tests.images, tests.labels)
    return all(a is b or (a == b).all() for a, b in zip(found, expected, strict=True))


def test_accuracy_trains_on_one_set_and_tests_on_the_real_test_records(monkeypatch: pytest.MonkeyPatch) -> None:
    record, warm, public = Recorder(), dots(*range(50, 70)), dots(*range(70, 90))
    monkeypatch.setattr(metric_functions.classify, "accuracy", record)
    found = metric_functions.accuracy(inputs(monkeypatch, warm=warm, public=public))
    rows = ((ACCURACY.name, SAMPLES), (BASELINE.name, REAL), (WARM_ALONE.name, warm), (PUBLIC_ITSELF.name, public))
    for name, trained_on in rows:
        assert same(record.seen[metric_functions.TRAINED_ON[name]], trained_on, TESTS)
        assert found[name].computed_on == metric_functions.TRAINED_ON[name]


@pytest.mark.parametrize("metric", ["gs-wgan-cnn", "privgan-cnn"])
def test_so_do_the_other_protocols(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Recorder()
    monkeypatch.setattr(metric_functions.classify, "accuracy", record)
    found = METRICS[metric].compute(inputs(monkeypatch))
    assert same(record.seen["synthetic records"], SAMPLES, TESTS)
    assert same(record.seen["real records"], REAL, TESTS)
    assert [estimate.computed_on for estimate in found.values()] == ["synthetic records", "real records"]


def test_the_distance_is_to_test_records_and_its_floor_that_of_training_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def frechet(a: np.ndarray, b: np.ndarray, features: Any) -> Estimate:
        asked.append((a, b))
        value = frechet_distance(Moments.of(features(a)), Moments.of(features(b)))
        return Estimate(value, value, value, len(a), "dots")

    monkeypatch.setattr(metric_functions, "frechet", frechet)
    found = metric_functions.frechet_distance(inputs(monkeypatch))
    assert list(found) == ["distance", "distance of real training records"]
    assert [a is records.images for (a, _), records in zip(asked, (SAMPLES, REAL), strict=True)] == [True, True]
    assert all(b is TESTS.images for _, b in asked)


def test_the_jensen_shannon_score_is_of_samples_against_training_records(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Found:
        jensen_shannon = jensen_shannon_paper = accuracy = Estimate(0.5, 0.4, 0.6, 10, "dots")

    monkeypatch.setattr(metric_functions, "discriminate", lambda a, b, **_: asked.append((a, b)) or Found())
    metric_functions.jensen_shannon(inputs(monkeypatch))
    assert asked[0][0] is SAMPLES.images
    assert asked[0][1] is REAL.images


def test_evaluate_reads_each_set_from_its_own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    sets = {
        name: draw.integers(0, 256, (n, 1, 28, 28)).astype(np.uint8) for name, n in (("s", 20), ("a", 30), ("b", 40))
    }
    for name, images in sets.items():
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.arange(len(images)) % 3)
    seen: list[Inputs] = []
    monkeypatch.setattr(running, "measured", lambda inputs, names: seen.append(inputs) or [])
    running.evaluate(tmp_path / "s.npz", train=str(tmp_path / "a.npz"), test=str(tmp_path / "b.npz"))
    assert isinstance(seen[0].samples, Samples)
    assert (seen[0].samples.images == sets["s"]).all()
    assert (seen[0].samples.labels == np.arange(20) % 3).all()
    assert (seen[0].real.images == sets["a"]).all()
    assert (seen[0].tests.images == sets["b"]).all()
