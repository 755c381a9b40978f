"""What is expected comes from measured runs: each stands on its page, and what is between or beyond them is said honestly."""

import dataclasses
import math
from pathlib import Path

import pytest

from gossamer.data.card import DataCard
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.accounting import calibrate
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE
from gossamer.run.recommend import measured_runs
from gossamer.run.recommend.measured_runs import Measured, clearness, mu
from gossamer.run.training import presets

ROOT = Path(__file__).resolve().parents[3]
RUN = Measured(
    method="moments", data="MNIST", pictures="digits", records=10_000, epsilon=1.0, delta=1e-5, shape=(1, 28, 28), classes=10,
    accuracy=0.7, low=0.68, high=0.72, of="samples", on="test records", page="docs/methods/moments.md",
)  # fmt: skip
CLEARER = dataclasses.replace(RUN, records=100_000, accuracy=0.9, low=0.89, high=0.91)


def card(size: int, **other: object) -> DataCard:
    return DataCard(**{"shape": (1, 28, 28), "classes": 10, "declared_size": size, **other})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "run", measured_runs.runs(), ids=lambda run: f"{run.method}-{run.data}-{run.epsilon:g}-{run.accuracy}"
)
def test_every_figure_stands_on_its_page_and_its_settings_are_settings(run: Measured) -> None:
    """The figure is on the page that the run names, or in the lab notes that this page links to."""
    assert 0 <= run.at_least <= run.accuracy <= run.at_most <= 1
    assert run.records > 0 and run.epsilon > 0 and 0 < run.delta < 1
    page = (ROOT / run.page).read_text(encoding="utf-8")
    notes = f"../lab/{Path(run.page).name}"
    if f"]({notes}" in page:
        page += (ROOT / run.page).parent.joinpath(notes).read_text(encoding="utf-8")
    assert f"{100 * run.accuracy:.1f}" in page
    for end in (run.low, run.high):
        shown = "" if end is None else f"{100 * end:.1f}"
        assert shown in page or run.method in (
            "gs-wgan",
            "teacher",
        )  # these state one interval for all: +-1 %, +-0.3, +-0.6
    method = METHODS[run.method]
    noise = {} if method.without_guarantee else {"noise_multiplier": 1.0}
    chosen = presets.settings(run.method, run.preset) if run.preset else {}
    _ = Job.of(method, {**chosen, **run.settings, **noise}, card(run.records)).plan


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 100.0])
def test_clearness_is_that_of_one_gaussian_release(epsilon: float) -> None:
    """1 / mu is the noise multiplier that the accountant finds: a second way to the same number, to the search's 0.1 %."""
    noise = calibrate.calibrate_noise(
        lambda value: [(poisson_gaussian(sampling_rate=1.0, noise_multiplier=value), 1)],
        epsilon=epsilon, delta=1e-5, relation=ADD_OR_REMOVE_ONE, unit="record",
    )  # fmt: skip
    assert 1 / mu(epsilon, 1e-5) == pytest.approx(noise, rel=3e-3)
    if epsilon <= 20:
        assert clearness(300, epsilon, 1e-5) == pytest.approx(300 / noise, rel=3e-3)
    else:  # noise that is gone does not make up for records that are missing
        assert clearness(300, epsilon, 1e-5) == clearness(300, 20.0, 1e-5)


@pytest.mark.parametrize(
    ("records", "low", "high", "words"),
    [
        (1_000, None, 0.72, "at most 72.0 %"),
        (9_000, 0.68, 0.72, "68.0 to 72.0 %"),
        (12_000, 0.68, 0.72, "68.0 to 72.0 %"),
        (30_000, 0.68, 0.91, "68.0 to 91.0 %"),
        (500_000, 0.89, None, "at least 89.0 %"),
    ],
)
def test_what_is_expected_lies_between_runs_and_is_unknown_beyond_them(
    records: int, low: float | None, high: float | None, words: str
) -> None:
    (found,) = measured_runs.expected([CLEARER, RUN], card(records), epsilon=1.0, delta=1e-5)
    assert (found.low, found.high, found.range_text) == (low, high, words)


def test_every_data_set_and_every_kind_of_public_records_is_told_apart() -> None:
    others = [dataclasses.replace(RUN, data="faces"), dataclasses.replace(RUN, public="glyphs")]
    found = measured_runs.expected([RUN, *others], card(10_000), epsilon=1.0, delta=1e-5)
    assert [(each.data, each.public) for each in found] == [("MNIST", ""), ("faces", ""), ("MNIST", "glyphs")]


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


def test_colour_photographs_are_told_what_colour_photographs_reached() -> None:
    photographs = DataCard(shape=(3, 32, 32), classes=10, declared_size=5_000)
    runs = [
        run for run in measured_runs.of_method("moments", epsilon=10.0) if measured_runs.comparable(run, photographs)
    ]
    (found,) = measured_runs.expected(runs, photographs, epsilon=10.0, delta=1e-5)
    assert (found.data, found.low, found.high) == ("CIFAR-10", 0.251, 0.307)


def test_no_run_says_nothing() -> None:
    assert measured_runs.expected([], card(10_000), epsilon=1.0, delta=1e-5) == ()
    assert measured_runs.enough([]) is None
    assert measured_runs.enough([RUN]) is None


def test_how_many_records_or_how_much_epsilon_it_takes() -> None:
    assert measured_runs.enough([RUN, CLEARER]) is CLEARER
    assert measured_runs.records_needed(CLEARER, epsilon=1.0, delta=1e-5) == 100_000
    needed = measured_runs.records_needed(CLEARER, epsilon=10.0, delta=1e-5)
    exact = 100_000 * mu(1.0, 1e-5) / mu(10.0, 1e-5)
    assert exact <= needed <= 1.1 * exact
    larger = measured_runs.epsilon_needed(CLEARER, records=20_000, delta=1e-5)
    assert larger is not None and clearness(20_000, larger, 1e-5) >= CLEARER.clearness
    assert clearness(20_000, 0.7 * larger, 1e-5) < CLEARER.clearness
    assert measured_runs.epsilon_needed(CLEARER, records=10, delta=1e-5) is None


def test_runs_without_privacy_speak_for_such_runs_alone() -> None:
    assert all(math.isinf(run.epsilon) for run in measured_runs.of_method("privgan", epsilon=math.inf))
    assert measured_runs.of_method("privgan", epsilon=math.inf)
    assert measured_runs.of_method("privgan", epsilon=10.0) == ()
    assert measured_runs.of_method("dpgan", epsilon=math.inf) == ()


def test_pictures_that_were_measured_leave_the_others_out() -> None:
    data = {
        kind: {run.data for run in measured_runs.of_method("teacher", epsilon=1.0, pictures=kind)}
        for kind in ("digits", "x")
    }
    assert data["digits"] == {"MNIST", "scikit-learn's digits"}
    assert data["x"] == {"MNIST", "scikit-learn's digits", "Fashion-MNIST"}
