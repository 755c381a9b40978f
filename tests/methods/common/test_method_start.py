"""A run that starts on what another method releases: one budget, no record but through a release, resumable in any phase."""

import importlib
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.common import method_start
from gossamer.methods.contract import BaseConfig, OnPrivate, OnPublic, Query, Run, State
from gossamer.methods.job import Job, StepResult, Training
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger, merge
from gossamer.privacy.random.noise import Rng
from gossamer.run.cli import options
from gossamer.run.training import presets
from gossamer.run.training.plan import checked

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=180)
LETTERS = {
    "start": {
        "method": "evolve",
        "drawing": "letters",
        "embedding": "cosines",
        "candidates": 6,
        "steps": 2,
        "variations": 0,
    },
}
MOMENTS = {"start": {"method": "moments", "axes": 8, "cells": 2}, "start_noise": 2.0}
DIFFUSION = {
    "noise_multiplier": 1.0, "steps": 5, "expected_batch_size": 20, "multiplicity": 2, "axes": 6, "width": 8, "depth": 1,
    "warm_steps": 3, "warm_batch_size": 4, "start_records": 1_500, "sampler_steps": 3,
}  # fmt: skip
DPGAN = {
    "noise_multiplier": 1.0, "steps": 4, "expected_batch_size": 20, "width": 4, "latent_size": 8, "warm_steps": 3,
    "warm_batch_size": 8, "start_records": 30,
}  # fmt: skip


def job(method: str, *settings: dict[str, Any]) -> Job[BaseConfig, State]:
    return Job.of(METHODS[method], {name: value for each in settings for name, value in each.items()}, CARD)


def records(n: int, seed: int = 0) -> Records:
    draw = np.random.default_rng(seed)
    return Records(draw.integers(0, 256, (n, 1, 28, 28)).astype(np.uint8), draw.integers(2, size=n))


class Going:
    """A run in memory."""

    def __init__(self, asked: Job[BaseConfig, State], held: Records, rng: Rng, public: Records | None = None) -> None:
        self.ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=asked.relation)
        self.ledger.reserve(asked.plan)
        self.rng, self.training = rng, asked.begin(rng)
        self._held, self._public = held, public

    def steps(self) -> Iterator[StepResult]:
        return self.training.drive(Confined(self._held, self.ledger, self.rng), self._public)

    def end(self) -> Training[BaseConfig, State]:
        for _ in self.steps():
            pass
        return self.training


def test_the_plan_is_that_of_both() -> None:
    """The start's noise is in units of the run's own; every release of both is reserved and charged."""
    asked = job("dp-diffusion", DIFFUSION, MOMENTS)
    assert asked.plan[:2] == [(GaussianDpEvent(8.0), 1), (GaussianDpEvent(2.0), 1)]
    assert [count for _, count in asked.plan] == [1, 1, 5]
    assert [phase.name for phase in asked.phases] == [
        "start: axes", "start: whole classes", "start: cells", "start: training", "drawing", "warm start", "training",
    ]  # fmt: skip
    assert not [phase for phase in asked.phases[-3:] if isinstance(phase, OnPublic)]
    going = Going(asked, records(180), Rng(0))
    state = going.end().state
    assert going.ledger.used == [1, 1, 5]
    assert state.begun is not None
    assert state.begun.images.shape == (1_500, 1, 28, 28)
    assert (state.phase, state.step) == ("training", 5)


def test_a_start_leaves_the_releases_of_the_training_alone() -> None:
    """Both are one Gaussian over all records, of the same noise: one event, and the start takes no more than its own two."""
    going = Going(job("dp-diffusion", DIFFUSION, LETTERS, {"expected_batch_size": 180}), records(180), Rng(0))
    phases = [reached.phase.name for reached in going.steps() if reached.logs is not None]
    assert [phases.count(name) for name in ("start: training", "training")] == [2, 5]
    assert going.ledger.used == [7]


def test_what_was_drawn_stands_in_the_place_of_public_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """DPGAN's warm start and training see the drawn pictures; the start's phases see the public records that are given."""
    seen: dict[str, Records | None] = {}
    loops = {name: importlib.import_module(f"gossamer.methods.{name}.loop") for name in ("dpgan", "moments")}

    def watched(name: str, body: str) -> None:
        before = getattr(loops[name], body)
        monkeypatch.setattr(
            loops[name], body, lambda run, *more: (seen.update({f"{name}.{body}": run.public}), before(run, *more))[1]
        )

    for name, body in (("dpgan", "warm_start"), ("dpgan", "train"), ("moments", "axes"), ("moments", "train")):
        watched(name, body)
    public = records(40, seed=9)
    state = Going(job("dpgan", DPGAN, MOMENTS), records(180), Rng(0), public).end().state
    assert state.begun is not None
    drawn = state.begun.drawn
    assert drawn.images.shape == (30, 1, 28, 28)
    for each in ("dpgan.warm_start", "dpgan.train"):
        there = seen[each]
        assert there is not None
        np.testing.assert_array_equal(there.images, drawn.images)
        np.testing.assert_array_equal(there.labels, drawn.labels)
    assert seen["moments.axes"] is seen["moments.train"] is public


@pytest.mark.parametrize("start", [LETTERS, MOMENTS])
def test_samples_of_the_start_are_refined(start: dict[str, Any]) -> None:
    """At the least noise they are nearly those that the start itself draws; its generator is kept as it was released."""
    asked = job(
        "dp-diffusion", DIFFUSION, start, {"refine": 0.02, "network": "unet", "threshold": 0.0, "sampler_steps": 1}
    )
    state = Going(asked, records(180), Rng(0)).end().state
    assert asked.first is not None
    assert state.begun is not None
    theirs, labels = asked.first.sample(state.begun.state.released, 40, None, torch.Generator().manual_seed(3))
    loaded = asked.generator()
    loaded.load_state_dict(state.released.state_dict())
    images, drawn = asked.sample(loaded, 40, None, torch.Generator().manual_seed(3))
    assert torch.equal(drawn, labels)
    assert float((images - theirs).abs().max()) < 0.05  # the noise is 0.006 of a pixel's range, before it is removed
    others, _ = asked.first.sample(state.begun.state.released, 40, None, torch.Generator().manual_seed(4))
    assert float((images - others).abs().max()) > 0.1


@pytest.mark.parametrize(
    ("stop", "more"),
    [
        pytest.param(("start: training", 1), {}, marks=pytest.mark.slow),
        (("drawing", 1), {}),
        pytest.param(("warm start", 2), {}, marks=pytest.mark.slow),
        pytest.param(("training", 3), {}, marks=pytest.mark.slow),
        (("training", 3), {"refine": 1.0}),
    ],
)
def test_goes_on_wherever_it_was_cut_off(stop: tuple[str, int], more: dict[str, Any]) -> None:
    """The state is all that it goes on from: the same pictures, each release once, the same model where noise is the same."""
    asked = job("dp-diffusion", DIFFUSION, LETTERS, more)
    whole = Going(asked, records(180), Rng(3, noise_seed=4))
    end = whole.end().state
    first = Going(asked, records(180), Rng(3, noise_seed=4))
    for reached in first.steps():
        if (reached.phase.name, reached.step) == stop and reached.logs is not None:
            break
    saved, streams = first.training.state.state_dict(), first.rng.state()
    again = Going(asked, records(180), first.rng)
    again.ledger = first.ledger
    again.training.state.load_state_dict(saved)
    first.rng.restore(streams)
    state = again.end().state
    assert again.ledger.used == whole.ledger.used == [2, 5]
    assert state.begun is not None
    assert end.begun is not None
    assert torch.equal(state.begun.images, end.begun.images)
    assert model_bytes(state.released) == model_bytes(end.released)


def test_a_start_of_the_command_line_has_the_flags_of_its_method() -> None:
    """It is given as a mapping, so that what checks the settings of a method checks these too."""
    given = options.start("moments --align --cells 2 --axes-noise 1.5")
    assert given == {"method": "moments", "align": True, "cells": 2, "axes_noise": 1.5}
    assert presets.flags({"start": given}) == ["--start 'moments --align --cells 2 --axes-noise 1.5'"]
    assert options.start("moments") == "moments"
    assert options.start("moments --no-align") == {"method": "moments", "align": False}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("moments --cell 2", "No such option '--cell'"),
        ("moments cells", "unexpected extra argument"),
        ("moments --noise-multiplier 2", "No such option '--noise-multiplier'"),
        ("moments --cells 1.5", "'1.5' is not a valid integer"),
        ("evolve --drawing cats", "'cats' is not one of 'digits'"),
    ],
)
def test_flags_of_a_start_are_refused_as_those_of_its_method(text: str, says: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        options.start(text)
    assert says in refused.value.format_message()


def test_a_start_makes_public_records_needless() -> None:
    votes = {**DIFFUSION, "votes_noise": 1.0}
    assert job("dp-diffusion", votes).needs_public
    assert not job("dp-diffusion", votes, MOMENTS).needs_public
    assert job("dp-diffusion", DIFFUSION, MOMENTS).takes_public, "principal axes"
    assert not job("dp-diffusion", DIFFUSION, LETTERS).takes_public
    without, with_start = job("dp-diffusion", DIFFUSION), job("dp-diffusion", DIFFUSION, MOMENTS)
    assert "`start=moments`" in without.method.explain(without.config)
    assert with_start.method.explain(with_start.config) == ""


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"start": "evolv"}, "'evolv' is no start. Did you mean 'evolve'\\? Starts are: moments, evolve."),
        ({"start": "dpgan"}, "'dpgan' is no start."),
        ({"start": {"cells": 2}}, "'' is no start."),
        ({"start": {"method": "moments", "cell": 2}}, "moments has no setting 'cell'. Did you mean 'cells'\\?"),
        ({"start": {"method": "moments", "noise_multiplier": 2.0}}, "which follows from `start_noise`"),
        ({"start": {"method": "moments", "cells": 0}}, "`start=moments`: `cells` must be at least 1"),
        ({"start": {"method": "moments", "cells": 1.5}}, "`cells` must be a whole number"),
        ({"start": {"method": "moments", "align": 1}}, "`align` must be True or False"),
        (
            {"start": {"method": "evolve", "drawing": "letters", "own_label": 0.5}},
            "soft labels, which a start has no use for",
        ),
        ({"start": {"method": "moments", "radius": math.nan}}, "`radius` must be a finite number of zero or more"),
        (
            {"start": {"method": "evolve", "drawing": "cats"}},
            "`drawing` must be one of digits, letters, patches, pictures",
        ),
        ({"start": "moments", "start_noise": 0.0}, "`start_noise=0` releases the start without privacy"),
        ({"start": "evolve"}, "`drawing=digits` draws the digits 0 to 9, and the card has 2 classes"),
    ],
)
def test_refusals(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        _ = checked(job("dpgan", DPGAN, settings)).plan


def test_a_start_of_which_no_net_is_made_is_refused_before_anything_is_charged() -> None:
    with pytest.raises(RequestError, match="`axes=2000` is more than"):
        job("dpgan", DPGAN, {"start": {"method": "moments", "axes": 2000}}).generator()


def test_what_is_composed_is_of_one_relation() -> None:
    """The secret draw of GS-WGAN is accounted under replacement, and all starts under adding and removing."""
    secret = {"noise_multiplier": 4.0, "draw": "secret", "critics": 4}
    with pytest.raises(RequestError, match="another relation"):
        _ = job("gs-wgan", secret, MOMENTS).plan
    taken = job("gs-wgan", {**secret, "draw": "round_robin"}, MOMENTS).plan
    assert taken[:2] == [(GaussianDpEvent(32.0), 1), (GaussianDpEvent(8.0), 1)]


MEPF = {
    "noise_multiplier": 1.0, "axes": 8, "pixel_axes": 10, "features_steps": 3, "features_batch_size": 8, "features_width": 2,
    "warm_steps": 4, "warm_batch_size": 8, "matching_steps": 6, "rounds": 0, "batch_size": 8, "width": 4, "latent_size": 8,
    "start_records": 40,
}  # fmt: skip
SAME = {"start": {"method": "moments", "axes": 8, "cells": 2, "classes_noise": 1.0}, "start_noise": 1.0}
"""Both releases of the start, and that of the method, are of one event."""


@pytest.mark.parametrize(
    ("start", "stop", "last"),
    [
        (SAME, "start: whole classes", 1),
        (SAME, "start: training", 1),
        ({**LETTERS, "start_noise": 1.0}, "start: training", 2),
    ],
)
def test_a_start_takes_no_release_of_the_method_when_a_run_is_resumed(
    start: dict[str, Any], stop: str, last: int
) -> None:
    """The ledger knows events, not phases: stopped right after a phase, the run did that phase's step once more."""
    asked = job("dp-mepf", MEPF, start)
    assert merge(asked.plan)[0][1] == 3
    first = Going(asked, records(180), Rng(3, noise_seed=4))
    for reached in first.steps():
        if (reached.phase.name, reached.step) == (stop, last) and reached.logs is not None:
            break
    saved, streams, spent = first.training.state.state_dict(), first.rng.state(), first.ledger.used[0]
    again = Going(asked, records(180), first.rng)
    again.ledger = first.ledger
    again.training.state.load_state_dict(saved)
    first.rng.restore(streams)
    seen = [(reached.phase.name, again.ledger.used[0]) for reached in again.steps() if reached.logs is not None]
    assert dict(seen).get(stop, spent) == spent
    assert again.ledger.used[0] == 3
    assert dict(seen)["drawing"] == 2
    assert seen[-1][1] == 3


@pytest.mark.parametrize("at", [0, 3])
def test_a_phase_of_a_start_ends_after_its_steps_whatever_the_ledger_holds(at: int) -> None:
    """A ledger with 100 of its event, and a loop that goes on for ever: three steps, and none when resumed behind them."""
    event = GaussianDpEvent(9.0)

    def endless(run: Any, state: Any, private: Any) -> Iterator[dict[str, Any]]:
        while True:
            yield {}

    phase = method_start._before(
        OnPrivate(name="training", steps=3, queries=[Query("all", SimpleNamespace(event=event), 3)], body=endless),
        job("moments", {"noise_multiplier": 9.0}).config,
        [],
    )
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(event, 100)])
    inner: Any = SimpleNamespace()
    nothing = torch.zeros(0)
    state: Any = SimpleNamespace(step=at, begun=method_start.StartState(inner, nothing, nothing))
    taken = 0
    run = Run(job("dpgan", DPGAN).config, CARD, Rng(0))
    for _ in phase.body(run, state, Confined(records(2), ledger, run.rng)):
        state.step, taken = state.step + 1, taken + 1
        assert taken <= 3
    assert taken == 3 - at


def test_a_start_whose_release_was_lost_leaves_the_method_its_own() -> None:
    """Charged, and then the crash: what is left of the event is what the method has reserved."""
    asked = job("dp-mepf", MEPF, SAME)
    going = Going(asked, records(180), Rng(3, noise_seed=4))
    going.ledger.charge(merge(asked.plan)[0][0])
    seen = [(reached.phase.name, going.ledger.used[0]) for reached in going.steps() if reached.logs is not None]
    assert max(used for name, used in seen if name.startswith("start") or name == "drawing") == 2
    assert going.ledger.used[0] == 3


def test_moments_in_cells_ask_whole_classes_no_second_time() -> None:
    """Its two releases are of one event where their noise is the same; stopped between them, it asked the first one twice."""
    asked = job("moments", {"noise_multiplier": 1.0, "axes": 8, "cells": 2, "classes_noise": 1.0})
    assert merge(asked.plan)[0][1] == 2
    first = Going(asked, records(180), Rng(3, noise_seed=4), records(40, seed=9))
    for reached in first.steps():
        if (reached.phase.name, reached.step) == ("whole classes", 1) and reached.logs is not None:
            break
    saved, streams = first.training.state.state_dict(), first.rng.state()
    again = Going(asked, records(180), first.rng, records(40, seed=9))
    again.ledger = first.ledger
    again.training.state.load_state_dict(saved)
    first.rng.restore(streams)
    seen = [reached.phase.name for reached in again.steps() if reached.logs is not None]
    assert "whole classes" not in seen
    assert seen[-1] == "training"
    assert again.ledger.used[0] == 2
