"""What stands on which side of each figure: samples, real training records and real test records do not change places."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from gossamer.data.records import Labelled, Records
from gossamer.data.samples.samples import Samples
from gossamer.intervals import Estimate
from gossamer.metrics import classify, features, fidelity, registry
from gossamer.metrics.baseline_cache import Baselines
from gossamer.metrics.fidelity import Moments, frechet_distance
from gossamer.metrics.neighbours import neighbourhood
from gossamer.metrics.registry import ACCURACY, BASELINE, PUBLIC_ITSELF, WARM_ALONE, Inputs


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
    monkeypatch.setattr(Inputs, "features", Pixels())
    return Inputs(
        samples=SAMPLES,
        real=REAL,
        tests=TESTS,
        classes=3,
        labelled=True,
        baselines=Baselines(None, ""),
        **more,
    )


def test_precision_is_of_samples_and_recall_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """All samples lie among the lower half of the test records; the upper half is like no sample."""
    found = registry.neighbourhood(inputs(monkeypatch))
    assert (found["precision"].value, found["precision"].n) == (1.0, 12)
    assert (found["recall"].value, found["coverage"].value, found["recall"].n) == (0.5, 0.5, 12)
    direct = neighbourhood(Pixels()(SAMPLES.images), Pixels()(TESTS.images))
    assert found == {name: getattr(direct, name) for name in ("precision", "recall", "density", "coverage")}


def test_pictures_of_one_class_have_distances_and_no_figure_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features come from turned pictures. Figures that need classes say why they are missing."""
    monkeypatch.setattr(features.ClassifierFeatures, "train", partial(features.ClassifierFeatures.train, width=16))
    draw = np.random.default_rng(0)
    pictures = [draw.integers(0, 256, (90, 1, 12, 12), dtype=np.uint8) // 2 for _ in range(3)]
    for each in pictures:
        each[:, :, :4] += 100  # bright above: a turned picture differs
    real, tests = (Records(each, np.zeros(90, np.int64)) for each in pictures[:2])
    far = Samples(255 - pictures[2], np.zeros(90, np.int64))
    found = {}
    for name, samples in (("near", Samples(pictures[2], far.labels)), ("far", far)):
        asked = Inputs(
            samples=samples, real=real, tests=tests, classes=1, labelled=True, baselines=Baselines(None, "")
        )  # fmt: skip
        measured = registry.METRICS.measured(asked, ["fid", "neighbours", "mmd", "inception-score", "per-class"])
        found[name] = {metric: (figures, reason) for metric, figures, reason in measured}
    distance = {name: figures["fid"][0]["classifier-FID"] for name, figures in found.items()}
    assert distance["near"].value < distance["far"].value / 2
    assert "trained on 360 turned pictures of real records" in distance["near"].computed_on
    assert found["near"]["neighbours"][0]["precision"].value > found["far"]["neighbours"][0]["precision"].value
    for metric in ("inception-score", "per-class"):
        figures, reason = found["near"][metric]
        assert figures == {}
        assert reason.startswith("all real records have one class, so there are no classes to tell apart.")
    assert asked.features.net.classes == 4


@pytest.mark.parametrize("shape", [(1, 9, 9), (3, 8, 12)])
def test_turned_pictures_are_the_four_positions(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, *shape), dtype=np.uint8)
    turned, positions = features.turned(images)
    assert turned.shape == (20, *shape)
    assert positions.tolist() == [*[0] * 5, *[1] * 5, *[2] * 5, *[3] * 5]
    np.testing.assert_array_equal(turned[:5], images)
    assert len({turned[at].tobytes() for at in range(0, 20, 5)}) == 4


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
    monkeypatch.setattr(classify, "accuracy", record)
    found = registry.accuracy(inputs(monkeypatch, warm=lambda: warm, public=lambda: public))
    rows = (
        (ACCURACY, SAMPLES, "synthetic records"), (BASELINE, REAL, "real records"),
        (WARM_ALONE, warm, "samples of the public warm start, before any record was read (epsilon 0)"),
        (PUBLIC_ITSELF, public, "public records as they are (epsilon 0)"),
    )  # fmt: skip
    for figure, trained_on, in_words in rows:
        assert same(record.seen[in_words], trained_on, TESTS)
        assert found[figure.name].computed_on == in_words


def test_the_distance_is_to_test_records_and_its_floor_that_of_training_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def frechet(a: np.ndarray, b: np.ndarray, features: Any) -> Estimate:
        asked.append((a, b))
        value = frechet_distance(Moments.of(features(a)), Moments.of(features(b)))
        return Estimate(value, value, value, len(a), "dots")

    monkeypatch.setattr(fidelity, "frechet", frechet)
    found = registry.frechet_distance(inputs(monkeypatch))
    assert list(found) == ["distance", "distance of real training records"]
    assert [a is records.images for (a, _), records in zip(asked, (SAMPLES, REAL), strict=True)] == [True, True]
    assert all(b is TESTS.images for _, b in asked)
