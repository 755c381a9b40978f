"""The questions of `gossamer.testing` to every method of Gossamer. A new method joins by its lines in METHODS, SMALL and TOY.

They are functions here, so that each method may have its slow questions. One more method is that of the plug-in package in
`tests/fixtures`: what is asked of it is asked of the others.
"""

import ast
import dataclasses
import functools
import importlib
import inspect
import itertools
import textwrap
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from class_means import ClassMeans
from slowly import slow_among

from gossamer.data.columns.column import Column
from gossamer.data.tables.any_card import AnyCard
from gossamer.data.tables.card import TableCard
from gossamer.errors import RequestError
from gossamer.kinds.toys import CARD, garbage, stripes
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.per_sample_gradients import gradients
from gossamer.privacy.per_sample_gradients.rounding import Precision
from gossamer.privacy.random.noise import Rng
from gossamer.testing import MethodTests, checks
from gossamer.testing.trial_run import Subject, TrialRun, deaf

SMALL: dict[str, dict[str, Any]] = {
    "dpgan": {
        "noise_multiplier": 1.0, "steps": 12, "expected_batch_size": 20, "width": 4, "latent_size": 8,
        "discriminator_steps": 3, "warm_steps": 4, "warm_batch_size": 8, "physical_batch_size": 16,
        "average_decay": 0.5,
    },
    "dp-wgan": {
        "noise_multiplier": 1.0, "steps": 12, "expected_batch_size": 20, "width": 4, "latent_size": 8,
        "critic_steps": 3, "warm_steps": 4, "warm_batch_size": 8, "physical_batch_size": 16, "average_decay": 0.5,
        "grouping": "cluster", "groups": 3, "bounds": "private-quantile", "quantile_every": 4,
    },
    "privae": {
        "noise_multiplier": 1.0, "steps": 12, "expected_batch_size": 20, "network": "conv", "width": 4, "latent_size": 8,
        "partitions": 3, "divergence": "mmd", "codes_per_record": 2, "warm_steps": 4, "warm_batch_size": 8,
        "physical_batch_size": 16, "average_decay": 0.5,
    },
    "gs-wgan": {
        "noise_multiplier": 4.0, "steps": 12, "critics": 4, "batch_size": 3, "critic_steps": 1, "critic_batch_size": 5,
        "width": 2, "latent_size": 8, "warm_steps": 2, "warm_stack": 3, "public_steps": 3, "average_decay": 0.5,
    },
    "privgan": {
        "pairs": 2, "adversary_warm_epochs": 1, "adversary_delay_epochs": 1, "epochs": 4, "batch_size": 20, "width": 8,
        "latent_size": 8,
    },
    "dp-diffusion": {
        "noise_multiplier": 1.0, "steps": 12, "expected_batch_size": 20, "multiplicity": 2, "axes": 8, "width": 16, "depth": 1,
        "warm_steps": 4, "warm_batch_size": 8, "label_dropout": 0.2, "sampler_steps": 3, "physical_batch_size": 16,
        "average_decay": 0.5, "start": {"method": "moments", "axes": 8, "cells": 2}, "start_noise": 2.0, "start_records": 40,
    },
    "dp-mepf": {
        "noise_multiplier": 1.0, "axes": 8, "pixel_axes": 10, "features_steps": 3, "features_batch_size": 8,
        "features_width": 2, "warm_steps": 4, "warm_batch_size": 8, "matching_steps": 6,
        "likeness_steps": 2, "batch_size": 8, "average_decay": 0.5,
        "width": 4, "latent_size": 8, "candidates": 6, "start": {"method": "moments", "axes": 8}, "start_noise": 2.0,
        "start_records": 40, "learnt_bends": True,
    },
    "moments": {"noise_multiplier": 1.0, "axes": 8, "cells": 2},
    "feature-moments": {"noise_multiplier": 1.0, "axes": 8, "encoder": ""},
    "evolve": {
        "noise_multiplier": 1.0, "steps": 12, "drawing": "letters", "embedding": "cosines", "candidates": 6, "variations": 2,
        "shrink": 0.9,
    },
    "teacher": {"noise_multiplier": 1.0, "steps": 12, "expected_batch_size": 20, "physical_batch_size": 16},
    "class-means": {"noise_multiplier": 1.0, "steps": 12, "warm_steps": 4},
    "marginals": {"noise_multiplier": 1.0, "rounds": 10, "cells": 200, "iterations": 10},
}  # fmt: skip
TOY: dict[str, dict[str, Any]] = {
    "dpgan": {
        "noise_multiplier": 0.5, "steps": 250, "expected_batch_size": 48, "width": 8, "latent_size": 8,
        "discriminator_steps": 1, "discriminator_learning_rate": 2e-3, "generator_learning_rate": 2e-3,
    },
    "dp-wgan": {
        "noise_multiplier": 0.3, "steps": 400, "expected_batch_size": 48, "width": 4, "latent_size": 8,
        "critic_steps": 2, "critic_learning_rate": 2e-3, "generator_learning_rate": 2e-3,
    },
    "privae": {
        "noise_multiplier": 0.5, "steps": 200, "expected_batch_size": 100, "network": "dense", "width": 32, "latent_size": 8,
        "learning_rate": 2e-2, "average_decay": 0.9,
    },
    "gs-wgan": {
        "noise_multiplier": 0.02, "steps": 70, "critics": 2, "batch_size": 16, "critic_steps": 2, "critic_batch_size": 16,
        "width": 8, "latent_size": 8, "warm_steps": 20, "generator": "dcgan", "critic_learning_rate": 4e-3,
        "generator_learning_rate": 4e-3, "average_decay": 0.9,
    },
    "privgan": {
        "pairs": 2, "adversary_warm_epochs": 2, "adversary_delay_epochs": 2, "epochs": 30, "batch_size": 20, "width": 16,
        "latent_size": 8, "learning_rate": 2e-3, "privacy_weight": 0.1,
    },
    "dp-diffusion": {
        "noise_multiplier": 0.3, "steps": 200, "expected_batch_size": 100, "multiplicity": 4, "axes": 8, "width": 32,
        "depth": 2, "learning_rate": 1e-2,
    },
    "dp-mepf": {
        "noise_multiplier": 0.3, "axes": 8, "pixel_axes": 8, "features_steps": 30, "features_batch_size": 32,
        "features_width": 4, "warm_steps": 0, "matching_steps": 100,
        "likeness_steps": 30, "batch_size": 32, "width": 8, "latent_size": 8,
        "learning_rate": 5e-3, "floor": 1.0, "candidates": 100, "votes_noise": 1.0,
        "start": {"method": "moments", "axes": 8}, "start_records": 200,
    },
    "moments": {"noise_multiplier": 0.3, "axes": 8, "cells": 2},
    "feature-moments": {"noise_multiplier": 0.3, "axes": 8, "encoder": ""},
    "evolve": {
        "noise_multiplier": 0.1, "steps": 4, "drawing": "patches", "embedding": "cosines", "candidates": 100, "variations": 2,
    },
    "teacher": {"noise_multiplier": 0.5, "steps": 20, "expected_batch_size": 100},
    "class-means": {"noise_multiplier": 0.1, "latent_size": 8},
    "marginals": {"noise_multiplier": 0.1, "rounds": 1, "cells": 200, "triples_from": 0},
}  # fmt: skip


CARDS: dict[str, AnyCard] = {
    "marginals": TableCard(
        columns=(
            Column(name="side", kind="category", values=("left", "middle", "right")),
            Column(name="age", kind="integer", bounds=(0, 99), bins=4),
            Column(name="ill", kind="category", values=("no", "yes")),
        ),
        declared_size=200,
        label="ill",
    )
}
"""Of methods that take no pictures."""


def has_setting(method: str, name: str) -> bool:
    """Whether the Config of a method has a field of this name."""
    return name in {each.name for each in dataclasses.fields(METHODS[method].config_type)}


@pytest.fixture(autouse=True)
def exercise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The method of the plug-in package is in METHODS."""
    monkeypatch.setitem(METHODS, ClassMeans.name, ClassMeans())


EVERY = [*sorted(METHODS), ClassMeans.name]
WARM_OR_NOT = list(itertools.product(EVERY, (False, True)))


@pytest.fixture(params=EVERY)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def subject(method: str) -> Subject:
    return Subject(method=METHODS[method], small=SMALL[method], toy=TOY[method], card=CARDS.get(method, CARD))


@functools.cache
def ended(method: str) -> TrialRun:
    """A run with fresh noise at its end, for all who only look at it."""
    return checks.finished_run(subject(method))


def test_every_method_has_its_settings_here() -> None:
    assert set(SMALL) == set(TOY) == set(METHODS)


def test_every_question_is_asked_here() -> None:
    assert {name for name in vars(MethodTests) if name.startswith("test_")} <= set(globals())


def test_says_what_it_promises(method: str) -> None:
    checks.says_what_it_promises(subject(method))


def test_spends_its_plan(method: str) -> None:
    checks.spends_its_plan(ended(method))


def test_the_non_private_run_says_infinity(method: str) -> None:
    checks.non_private_run_says_infinity(subject(method))


def test_plan_is_pure_and_reads_the_card_only(method: str) -> None:
    checks.plan_is_pure(subject(method))


@pytest.mark.parametrize(
    ("method", "warm"),
    slow_among(WARM_OR_NOT, [(name, False) for name in ("dpgan", "dp-wgan", "privae", "gs-wgan", "dp-diffusion")]),
)
def test_non_interference(method: str, warm: bool) -> None:
    checks.non_interference(subject(method), warm=warm)


@pytest.mark.parametrize("share", [None, 0.25])
def test_removing_a_protected_record_changes_no_public_record_and_no_public_draw(
    method: str, share: float | None
) -> None:
    """Conditions 1, 11 and 14."""
    checks.removing_a_protected_record_changes_nothing_public(subject(method), share=share)


@pytest.mark.parametrize(
    ("method", "several"),
    slow_among(
        itertools.product(EVERY, (False, True)),
        [
            *((name, False) for name in EVERY),
            *((name, True) for name in ("dp-wgan", "dp-diffusion", "privae", "gs-wgan")),
        ],
    ),
)
def test_no_unit_moves_an_answer_too_far(method: str, several: bool) -> None:
    """Every query of every method. `test_neighbouring_runs.py` has more of their modes."""
    checks.no_unit_moves_an_answer_too_far(subject(method), several=several)


def test_nobody_left_is_no_reason_to_stop(method: str) -> None:
    checks.trains_without_records(subject(method))


@pytest.mark.parametrize("method", slow_among(EVERY, {"dpgan", "dp-wgan", "privae"}))
def test_the_mechanism_is_what_the_data_go_through(method: str) -> None:
    checks.learns_through_the_mechanism(subject(method))


def test_saves_only_the_generator(method: str) -> None:
    checks.saves_only_the_generator(ended(method))


def test_replays_from_its_answers(method: str) -> None:
    checks.replays_from_its_answers(ended(method))


def test_events_are_public_json(method: str) -> None:
    checks.events_are_public_json(ended(method))


@pytest.mark.parametrize("at", slow_among([2, 9, 11], {2, 11}))
def test_resume_equals_an_unbroken_run_under_test_seeds(method: str, at: int, tmp_path: Path) -> None:
    checks.resume_equals_an_unbroken_run(subject(method), tmp_path, at=at)


@pytest.mark.parametrize("method", slow_among(EVERY, {"dp-diffusion", "dp-mepf", "dp-wgan", "gs-wgan", "privae"}))
def test_resume_where_one_phase_turns_into_the_next(method: str, tmp_path: Path) -> None:
    checks.resume_at_the_ends_of_phases(subject(method), tmp_path)


def test_a_checkpoint_of_a_real_run_holds_no_noise_state(method: str, tmp_path: Path) -> None:
    checks.checkpoint_holds_no_noise_state(subject(method), tmp_path)


@pytest.mark.parametrize("method", slow_among(EVERY, {"dpgan", "dp-wgan", "gs-wgan", "dp-mepf"}))
def test_learns_a_toy(method: str) -> None:
    checks.learns_a_toy(subject(method))


def test_the_loop_can_be_read_beside_the_paper(method: str) -> None:
    """At most 25 lines of body, docstring aside."""
    (train,) = ast.parse(
        textwrap.dedent(inspect.getsource(importlib.import_module(f"{type(METHODS[method]).__module__}.loop").train))
    ).body
    assert isinstance(train, ast.FunctionDef)
    assert (train.end_lineno or 0) - train.body[1].lineno + 1 <= 25


NARROW = [name for name in sorted(METHODS) if has_setting(name, "precision")]


def test_methods_that_may_compute_in_narrow_precision() -> None:
    """The others refuse it before there is a plan."""
    for name, method in METHODS.items():
        settings = {**SMALL.get(name, {}), "precision": "bf16"}
        if has_setting(name, "precision"):
            assert Job.of(method, settings, CARD).settings["precision"] == "bf16"
        else:
            with pytest.raises(RequestError, match="no setting 'precision'"):
                Job.of(method, settings, CARDS.get(name, CARD))


@pytest.mark.parametrize("method", NARROW)
@pytest.mark.parametrize("precision", slow_among(["bf16", "tf32"], {"tf32"}))
def test_narrow_products_keep_the_contract(monkeypatch: pytest.MonkeyPatch, method: str, precision: str) -> None:
    """Non-interference, the plan, and a training near that of single precision. Bfloat16 leaves traces, TF32 needs a GPU; what
    fills a batch takes coins of its own, which DPGAN's records have none of."""
    settings = {**SMALL[method], "precision": precision, "warm_steps": 1}
    ends, asked_for, lowered = [], set[str](), gradients.lowered

    def noted(given: Precision, device: torch.device) -> AbstractContextManager[None]:
        asked_for.add(given)
        return lowered(given, device)

    monkeypatch.setattr(gradients, "lowered", noted)
    for asked in (settings, {**settings, "precision": "fp32"}):
        run = TrialRun(subject(method), stripes(180), settings=asked, rng=Rng(3, noise_seed=4))
        ends.append(torch.cat([p.flatten() for p in run.end().released.parameters()]))
        assert run.ledger.used == [count for _, count in run.plan]
    assert asked_for == {precision, "fp32"}
    apart = (ends[0] - ends[1]).norm() / ends[1].norm()
    if method == "dpgan":
        assert (1e-4 < apart < 0.1) if precision == "bf16" else apart < 1e-4
    with deaf():
        runs = [
            TrialRun(subject(method), records, settings=settings, rng=Rng(3, noise_seed=4))
            for records in (stripes(180), garbage(180))
        ]
        states = [run.end().released.state_dict() for run in runs]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert runs[0].events == runs[1].events
