import math
import re
from typing import Any

import pytest

from gossamer.data.card import DataCard
from gossamer.errors import BudgetError, RequestError
from gossamer.methods import METHODS
from gossamer.methods.contract import presets_of
from gossamer.run.cli.calculator import rate_of
from gossamer.run.training import presets
from gossamer.run.training.plan import plan

CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
DELTA = 1e-5


def ask(epsilon: float | None = None, delta: float | None = DELTA, preset: str | None = None, **settings: Any) -> Any:
    return plan("dpgan", CARD, settings, epsilon=epsilon, delta=delta, preset=preset)


def test_epsilon_alone_gives_the_noise_for_the_default_steps() -> None:
    request = ask(epsilon=10.0)
    assert request.job.config.steps == 4_000
    assert 9.99 <= request.promise.epsilon <= 10.0
    assert request.plan[0][0].sampling_probability == 512 / 60_000


def test_a_shape_that_no_net_makes_is_refused_before_noise_is_looked_for() -> None:
    with pytest.raises(RequestError, match="make images of 28x28 or 32x32 pixels, not of shape 1x5x7"):
        plan("dpgan", DataCard(shape=(1, 5, 7), classes=2, declared_size=5_000), epsilon=10.0, delta=DELTA)


def test_epsilon_and_noise_give_the_steps() -> None:
    request = ask(epsilon=3.0, noise_multiplier=1.0)
    assert 2.99 <= request.promise.epsilon <= 3.0
    assert ask(epsilon=3.0, noise_multiplier=1.0, steps=request.job.config.steps).job.config == request.job.config


def test_noise_and_steps_give_epsilon() -> None:
    request = ask(noise_multiplier=2.0, steps=100)
    assert request.epsilon == request.promise.epsilon < 1.0


def test_three_that_disagree_are_refused_either_way() -> None:
    with pytest.raises(BudgetError, match="do not agree"):
        ask(epsilon=1.0, noise_multiplier=0.5, steps=4_000)
    with pytest.raises(BudgetError, match="do not agree"):
        ask(epsilon=10.0, noise_multiplier=5.0, steps=100)


def test_infinity_is_the_run_without_noise() -> None:
    request = ask(epsilon=math.inf, delta=None)
    assert request.job.config.noise_multiplier == 0
    assert math.isinf(request.promise.epsilon)
    with pytest.raises(BudgetError, match="inf` asks for no noise"):
        ask(epsilon=math.inf, noise_multiplier=1.0)


def test_a_preset_is_as_published_until_epsilon_is_given() -> None:
    published = ask(preset="paper-eps10-adaptive")
    assert published.job.config.noise_multiplier == 2.0
    assert published.promise.epsilon == pytest.approx(9.386, abs=0.002)  # accounting.md: B 512 at rate B/N
    asked = ask(epsilon=1.0, preset="paper-eps10-adaptive", steps=1_000)
    assert asked.job.config.adaptive
    assert 0.99 <= asked.promise.epsilon <= 1.0


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 1.0, "delta": None}, "delta"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "delta": 1 / 60_000}, "delta"),
        ({}, "epsilon"),
        ({"epsilon": 1.0, "steps": 0}, "steps"),
        ({"epsilon": 1.0, "max_norm": 0.0}, "max_norm"),
        ({"epsilon": 1.0, "max_norm": -1.0}, "max_norm"),
        ({"epsilon": 1.0, "max_norm": math.inf}, "max_norm"),
        ({"epsilon": 1.0, "max_norm": 1e-31}, "max_norm"),
        ({"noise_multiplier": 1e-25, "epsilon": None}, "max_norm"),
        ({"epsilon": 1.0, "expected_batch_size": 60_001}, "expected_batch_size"),
    ],
)
def test_refusals_name_the_argument(request_: dict[str, Any], field: str) -> None:
    with pytest.raises(BudgetError) as caught:
        ask(**request_)
    assert (caught.value.code, caught.value.field) == ("budget-error", field)


def test_an_epsilon_that_no_noise_meets_is_refused_with_the_most_noise() -> None:
    with pytest.raises(BudgetError, match=r"1e\+04|10,000|10000"):
        ask(epsilon=1e-9)


def test_a_method_without_steps_takes_a_budget_or_a_noise() -> None:
    with pytest.raises(BudgetError, match=r"moments has no steps .* give one of the two"):
        plan("moments", CARD, {"noise_multiplier": 1.0}, epsilon=1.0, delta=DELTA)
    for name in ("radius", "cells_radius"):
        with pytest.raises(RequestError, match=f"`{name}` must be above 0"):
            plan("moments", CARD, {name: 0.0}, epsilon=1.0, delta=DELTA)
    with pytest.raises(RequestError, match="`cells` must be at most 2,000 a class, not 2,001"):
        plan("moments", CARD, {"cells": 2_001}, epsilon=1.0, delta=DELTA)


def test_an_unknown_method_or_setting_is_answered_with_the_nearest() -> None:
    with pytest.raises(RequestError, match=r"no method 'dpgam'\. Did you mean 'dpgan'"):
        plan("dpgam", CARD, {}, epsilon=1.0, delta=DELTA)
    with pytest.raises(RequestError, match=r"no setting 'step'\. Did you mean 'steps'"):
        plan("dpgan", CARD, {"step": 3}, epsilon=1.0, delta=DELTA)


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(Exception, match="Did you mean 'paper-eps1-fixed'"):
        presets.settings("dpgan", "paper-eps1-fixd")


@pytest.mark.parametrize("name", [name for name in presets.all_presets()["dpgan"] if name != "paper-celeba"])
def test_every_preset_resolves(name: str) -> None:
    settings = presets.settings("dpgan", name)
    epsilon = None if settings.get("noise_multiplier") else math.inf
    assert ask(epsilon=epsilon, preset=name).plan


def test_settings_may_be_given_by_name_as_fit_takes_them() -> None:
    named = plan("dpgan", CARD, epsilon=1.0, delta=DELTA, steps=100, expected_batch_size=64)
    assert named.job.settings == ask(epsilon=1.0, steps=100, expected_batch_size=64).job.settings
    with pytest.raises(RequestError, match="no setting 'stepz'"):
        plan("dpgan", CARD, epsilon=1.0, delta=DELTA, stepz=100)


@pytest.mark.parametrize("method", ["dpgan", "dp-wgan", "privae"])
def test_a_default_batch_is_never_larger_than_the_declared_size(method: str) -> None:
    small = DataCard(shape=(1, 28, 28), classes=10, declared_size=100)
    request = plan(method, small, epsilon=10.0, delta=1e-3, steps=10)
    assert request.job.settings["expected_batch_size"] == 100
    assert rate_of(request.plan[0][0]) == 1.0
    with pytest.raises(BudgetError, match="`expected_batch_size=101` is more than the declared size 100"):
        plan(method, small, epsilon=10.0, delta=1e-3, steps=10, expected_batch_size=101)


def test_the_batch_of_a_preset_is_not_changed_but_refused() -> None:
    small = DataCard(shape=(1, 28, 28), classes=10, declared_size=100)
    name = next(
        name for name, entry in presets.all_presets()["dpgan"].items() if entry.get("expected_batch_size", 0) > 100
    )
    with pytest.raises(BudgetError, match="more than the declared size 100"):
        plan("dpgan", small, epsilon=10.0, delta=1e-3, preset=name)


NAMED = [
    (method.name, preset)
    for method in METHODS.values()
    for preset, entry in presets_of(method).items()
    if re.search(r"eps\d", preset)
]


@pytest.mark.parametrize(("method", "preset"), NAMED)
def test_a_preset_costs_the_epsilon_of_its_name_at_the_records_that_it_names(method: str, preset: str) -> None:
    """Noise that stands in it was computed for these records. Other presets take their noise from --epsilon."""
    entry = presets_of(METHODS[method])[preset]
    named = float(re.findall(r"eps([\d.]+)", preset)[0])
    assert f"epsilon {named:g}" in entry["about"]
    if "noise_multiplier" in entry:
        card = DataCard(shape=(1, 28, 28), classes=10, declared_size=entry["records"])
        planned = plan(method, card, preset=preset, delta=1e-5).promise.epsilon
        assert (0.9 if preset.startswith("paper-") else 0.99) * named < planned <= named


def test_some_presets_name_their_epsilon_and_hold_their_noise() -> None:
    assert {("evolve", "mnist-eps10"), ("teacher", "mnist-eps1"), ("dpgan", "paper-eps10-fixed")} <= set(NAMED)
