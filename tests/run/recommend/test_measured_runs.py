"""Measured runs: each stands on its page, and the one that is nearest to a card is found."""

import dataclasses
import math
from pathlib import Path

import pytest

from gossamer.data.card import DataCard
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.run.recommend import measured_runs
from gossamer.run.recommend.measured_runs import Measured
from gossamer.run.training import presets

ROOT = Path(__file__).resolve().parents[3]
RUN = Measured(
    method="moments", data="MNIST", pictures="digits", records=10_000, epsilon=1.0, shape=(1, 28, 28), classes=10,
    accuracy=0.7, page="docs/methods/moments.md",
)  # fmt: skip


def card(size: int, **other: object) -> DataCard:
    return DataCard(**{"shape": (1, 28, 28), "classes": 10, "declared_size": size, **other})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "run", measured_runs.runs(), ids=lambda run: f"{run.method}-{run.data}-{run.records}-{run.epsilon:g}-{run.accuracy}"
)
def test_every_figure_stands_on_its_page_and_its_settings_are_settings(run: Measured) -> None:
    """The figure is on the page that the run names, or in the lab notes that this page links to."""
    page = (ROOT / run.page).read_text(encoding="utf-8")
    notes = f"../lab/{Path(run.page).name}"
    if f"]({notes}" in page:
        page += (ROOT / run.page).parent.joinpath(notes).read_text(encoding="utf-8")
    assert f"{100 * run.accuracy:.1f}" in page
    _ = Job.of(METHODS[run.method], {**presets.any_noise(run.method), **run.all_settings}, card(run.records)).plan


def test_of_equal_requests_only_the_best_run_is_kept() -> None:
    asked = [(run.method, run.data, run.records, run.epsilon, bool(run.public)) for run in measured_runs.runs()]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("wrong", [{"accuracy": 1.1}, {"accuracy": -0.1}, {"records": 0}, {"epsilon": 0.0}])
def test_numbers_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="numbers that cannot be"):
        dataclasses.replace(RUN, **wrong)  # type: ignore[arg-type]  # a dict of mixed types


@pytest.mark.parametrize(
    ("facts", "same"),
    [
        ({}, True),
        ({"shape": (1, 32, 32)}, True),
        ({"shape": (1, 28, 40)}, False),
        ({"shape": (1, 20, 28)}, False),
        ({"shape": (3, 28, 28)}, False),
        ({"classes": 9}, False),
    ],
)
def test_runs_on_as_many_channels_and_classes_and_sides_as_long_are_comparable(
    facts: dict[str, object], same: bool
) -> None:
    assert measured_runs.comparable(RUN, card(10_000, **facts)) is same
    one = dataclasses.replace(RUN, classes=1)
    assert not measured_runs.comparable(one, card(10_000, classes=1)), "a classifier has nothing to tell apart"


@pytest.mark.parametrize(
    ("records", "epsilon", "nearest"), [(10_000, 1.0, 0), (60_000, 1.0, 1), (10_000, 10.0, 2), (8_000, 0.5, 0)]
)
def test_the_nearest_run_is_so_in_records_and_epsilon(records: int, epsilon: float, nearest: int) -> None:
    runs = [RUN, dataclasses.replace(RUN, records=60_000), dataclasses.replace(RUN, epsilon=10.0)]
    assert measured_runs.nearest(runs, card(records), epsilon=epsilon) is runs[nearest]


def test_of_equally_near_runs_the_comparable_one_then_that_on_mnist_then_the_best_is_taken() -> None:
    better, clothes = dataclasses.replace(RUN, accuracy=0.75), dataclasses.replace(RUN, data="Fashion", accuracy=0.9)
    colour = dataclasses.replace(RUN, shape=(3, 28, 28), accuracy=0.99)
    runs = [RUN, better, clothes, colour]
    assert measured_runs.nearest(runs, card(10_000), epsilon=1.0) is better
    assert measured_runs.nearest([clothes, colour], card(10_000), epsilon=1.0) is clothes
    assert measured_runs.nearest([], card(10_000), epsilon=1.0) is None


def test_a_run_with_more_records_times_epsilon_is_clearer() -> None:
    assert measured_runs.times_clearer(RUN, card(2_500), epsilon=0.5) == 8
    assert measured_runs.times_clearer(RUN, card(10_000), epsilon=1e9) == 1 / 20


def test_runs_without_privacy_speak_for_such_runs_alone() -> None:
    assert all(math.isinf(run.epsilon) for run in measured_runs.of_method("privgan", epsilon=math.inf, public=False))
    assert measured_runs.of_method("privgan", epsilon=math.inf, public=False)
    assert measured_runs.of_method("privgan", epsilon=10.0, public=False) == ()
    assert measured_runs.of_method("dpgan", epsilon=math.inf, public=True) == ()


def test_pictures_that_were_measured_leave_the_others_out() -> None:
    data = {
        kind: {run.data for run in measured_runs.of_method("teacher", epsilon=1.0, public=False, pictures=kind)}
        for kind in ("digits", "x")
    }
    assert data["digits"] == {"MNIST", "scikit-learn's digits"}
    assert data["x"] == {"MNIST", "scikit-learn's digits", "Fashion-MNIST"}
