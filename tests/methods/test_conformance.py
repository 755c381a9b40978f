"""What every method must do, whatever its mathematics. A new method joins by its line in METHODS, and in SMALL and TOY.

The sixth is an exercise (`tests/fixtures/class_means`): what is asked of it is asked of the others.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from class_means import ClassMeans
from dp_accounting import PoissonSampledDpEvent
from safetensors.torch import load_file
from slowly import slow_among
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.fingerprint import SALT, made_public
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.method import OnPublic, State, StepResult
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum, PoissonGaussianSum
from gossamer.privacy.mechanisms.sanitized_rows import SanitizedRows
from gossamer.privacy.mechanisms.two_term import TermwiseGaussianSum, WholeGaussian
from gossamer.privacy.per_sample_gradients import gradients
from gossamer.privacy.per_sample_gradients.precision import Precision
from gossamer.privacy.random.noise import Rng
from gossamer.run.storage.data_sources import _split
from gossamer.run.training import checkpoint

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=200)
SMALL: dict[str, dict[str, Any]] = {
    "dpgan": {
        "noise_multiplier": 1.0, "steps": 21, "expected_batch_size": 20, "width": 4, "latent_size": 8,
        "discriminator_steps": 3, "warm_steps": 4, "warm_batch_size": 8, "physical_batch_size": 16,
        "average_decay": 0.5,
    },
    "dp-wgan": {
        "noise_multiplier": 1.0, "steps": 21, "expected_batch_size": 20, "width": 4, "latent_size": 8,
        "critic_steps": 3, "warm_steps": 4, "warm_batch_size": 8, "physical_batch_size": 16, "average_decay": 0.5,
        "grouping": "cluster", "groups": 3, "bounds": "private-quantile", "quantile_every": 4,
    },
    "privae": {
        "noise_multiplier": 1.0, "steps": 21, "expected_batch_size": 20, "network": "conv", "width": 4, "latent_size": 8,
        "partitions": 3, "divergence": "mmd", "codes_per_record": 2, "warm_steps": 4, "warm_batch_size": 8,
        "physical_batch_size": 16, "average_decay": 0.5,
    },
    "gs-wgan": {
        "noise_multiplier": 4.0, "steps": 21, "critics": 4, "batch_size": 3, "critic_steps": 1, "critic_batch_size": 5,
        "width": 2, "latent_size": 8, "warm_steps": 2, "warm_stack": 3, "public_steps": 3, "average_decay": 0.5,
    },
    "privgan": {
        "pairs": 2, "adversary_warm_epochs": 1, "adversary_delay_epochs": 1, "epochs": 4, "batch_size": 20, "width": 8,
        "latent_size": 8,
    },
    "dp-diffusion": {
        "noise_multiplier": 1.0, "steps": 21, "expected_batch_size": 20, "multiplicity": 2, "axes": 8, "width": 16, "depth": 1,
        "warm_steps": 4, "warm_batch_size": 8, "label_dropout": 0.2, "sampler_steps": 3, "physical_batch_size": 16,
        "average_decay": 0.5, "start": "moments", "start_settings": "axes=8,cells=2", "start_noise": 2.0, "start_records": 40,
    },
    "dp-mepf": {
        "noise_multiplier": 1.0, "axes": 8, "pixel_axes": 10, "features_steps": 3, "features_batch_size": 8,
        "features_width": 2, "warm_steps": 4, "warm_batch_size": 8, "matching_steps": 6,
        "likeness_steps": 2, "batch_size": 8, "average_decay": 0.5,
        "width": 4, "latent_size": 8, "candidates": 6, "start": "moments", "start_settings": "axes=8", "start_noise": 2.0,
        "start_records": 40,
    },
    "moments": {"noise_multiplier": 1.0, "axes": 8, "cells": 2},
    "evolve": {
        "noise_multiplier": 1.0, "steps": 21, "drawing": "letters", "embedding": "cosines", "candidates": 6, "variations": 2,
        "shrink": 0.9,
    },
    "teacher": {"noise_multiplier": 1.0, "steps": 21, "expected_batch_size": 20, "physical_batch_size": 16},
    "class-means": {"noise_multiplier": 1.0, "steps": 21, "warm_steps": 4},
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
        "learning_rate": 5e-3, "floor": 1.0, "candidates": 100, "votes_noise": 1.0, "start": "moments",
        "start_settings": "axes=8", "start_records": 200,
    },
    "moments": {"noise_multiplier": 0.3, "axes": 8, "cells": 2},
    "evolve": {
        "noise_multiplier": 0.1, "steps": 4, "drawing": "patches", "embedding": "cosines", "candidates": 100, "variations": 2,
    },
    "teacher": {"noise_multiplier": 0.5, "steps": 20, "expected_batch_size": 100},
    "class-means": {"noise_multiplier": 0.1, "latent_size": 8},
}  # fmt: skip


def stripes(n: int, seed: int = 0) -> Records:
    """Class 0 is bright on the left, class 1 on the right."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(2, size=n)
    images = draw.integers(0, 40, size=(n, 1, 28, 28))
    images[labels == 0, :, :, :14] += 200
    images[labels == 1, :, :, 14:] += 200
    return Records(images.astype(np.uint8), labels)


def garbage(n: int, seed: int = 1) -> Records:
    draw = np.random.default_rng(seed)
    return Records(draw.integers(0, 256, size=(n, 1, 28, 28)).astype(np.uint8), np.zeros(n, dtype=np.int64))


class Run:
    """One training in memory."""

    def __init__(
        self, method: str, records: Records, settings: dict[str, Any], *, rng: Rng, public: Records | None = None
    ):
        self.job = METHODS[method].job(settings, CARD)
        self.plan = self.job.plan
        self.ledger = PrivacyLedger(budget=float("inf"), delta=1e-5, relation=self.job.relation)
        self.ledger.reserve(self.plan)
        self.private = Confined(records, self.ledger)
        self.rng, self.public = rng, public
        self.training = self.job.begin(rng)
        self.events: list[dict[str, Any]] = []

    def steps(self) -> Iterator[StepResult]:
        for reached in self.training.drive(self.private, self.public):
            shown = {name: float(value) for name, value in (reached.logs or {}).items()}
            self.events.append({"phase": reached.phase.name, "step": reached.step, **shown})
            yield reached

    def end(self) -> State:
        for _ in self.steps():
            pass
        return self.training.state

    def go_on_from(self, folder: Path, ledger: PrivacyLedger) -> None:
        saved, rng = checkpoint.load(folder, ledger) or ({}, {})
        self.training.state.load_state_dict(saved)
        self.rng.restore(rng)


def deafen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mechanisms run the query, then answer with noise only."""
    for mechanism in (PoissonGaussianSum, GroupedGaussianSum, SanitizedRows, TermwiseGaussianSum, WholeGaussian):

        def deaf(self: Any, held: Any, query: Any, ask: Any = mechanism.exact) -> Tensor:
            return torch.zeros_like(ask(self, held, query))

        monkeypatch.setattr(mechanism, "exact", deaf)


def says_infinity(ledger: PrivacyLedger, reason: str) -> None:
    """The guarantee is infinity for the reason given, and by the plan alone, should the reason get lost."""
    assert ledger.reasons == [reason]
    assert ledger.promise().epsilon == ledger.spent().epsilon == float("inf")
    ledger.reasons.clear()
    assert ledger.promise().epsilon == float("inf")


def has_setting(method: str, name: str) -> bool:
    """Whether the Config of a method has a field of this name."""
    return name in {each.name for each in dataclasses.fields(METHODS[method].config_type)}


@pytest.fixture(autouse=True)
def sixth(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exercise's line in METHODS."""
    monkeypatch.setitem(METHODS, ClassMeans.name, ClassMeans())


EVERY = [*sorted(METHODS), ClassMeans.name]
WARM_OR_NOT = list(itertools.product(EVERY, (False, True)))


@pytest.fixture(params=EVERY)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_method_has_its_settings_here() -> None:
    assert set(SMALL) == set(TOY) == set(METHODS)


@functools.cache
def ended(method: str) -> Run:
    """A run with fresh noise at its end, for all who only look at it."""
    run = Run(method, stripes(180), SMALL[method], rng=Rng())
    run.end()
    return run


def test_spends_its_plan(method: str) -> None:
    run = ended(method)
    if reason := METHODS[method].without_guarantee:
        says_infinity(run.ledger, reason)
        return
    assert list(zip([event for event, _ in run.plan], run.ledger.used, strict=True)) == list(run.plan)
    assert run.ledger.promise().epsilon < float("inf")


def test_the_non_private_run_says_infinity(method: str) -> None:
    if METHODS[method].without_guarantee:
        pytest.skip("it has no private form")
    run = Run(method, stripes(180), {**SMALL[method], "noise_multiplier": 0.0}, rng=Rng())
    run.end()
    assert run.ledger.promise().epsilon == float("inf")


def test_plan_is_pure_and_reads_the_card_only(method: str) -> None:
    """The declared size decides the rate wherever records are Poisson-sampled, and nothing else."""
    plan = METHODS[method].job(SMALL[method], CARD).plan
    assert plan == METHODS[method].job(SMALL[method], CARD).plan
    larger = METHODS[method].job(SMALL[method], dataclasses.replace(CARD, declared_size=400)).plan
    assert (plan != larger) == (PoissonSampledDpEvent.__name__ in repr(plan))


@pytest.mark.parametrize(
    ("method", "warm"),
    slow_among(WARM_OR_NOT, [(name, False) for name in ("dpgan", "dp-wgan", "privae", "gs-wgan", "dp-diffusion")]),
)
def test_non_interference(method: str, warm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unrelated data of another size, same seeds, deaf mechanism: artefact and events are equal bit for bit.

    A method without a guarantee has no mechanism: it must say infinity before it reads a record.
    """
    if reason := METHODS[method].without_guarantee:
        for held in ("no records", None):
            run = Run(method, held, SMALL[method], rng=Rng(3))  # type: ignore[arg-type]  # nothing that could be read
            with pytest.raises(AttributeError):
                next(run.steps())
            says_infinity(run.ledger, reason)
        return
    deafen(monkeypatch)
    public = stripes(30, seed=5) if warm else None
    runs = [
        Run(method, records, SMALL[method], rng=Rng(3, noise_seed=4), public=public)
        for records in (stripes(180), garbage(260))
    ]
    artefacts = [model_bytes(run.end().released) for run in runs]
    assert artefacts[0] == artefacts[1]
    assert runs[0].events == runs[1].events
    gone_through = [phase for phase in runs[0].job.phases if warm or not isinstance(phase, OnPublic)]
    assert len(runs[0].events) == sum(phase.steps + 1 for phase in gone_through)


@pytest.mark.parametrize("share", [None, 0.25])
def test_removing_a_protected_record_changes_no_public_record_and_no_public_draw(
    method: str, share: float | None
) -> None:
    """Conditions 1, 11 and 14. Noise and coins are secret and fresh here: what is public must agree all the same.

    The public part is the same set for every record that is removed; the run is repeated without the first, which moves every
    other record by one position.
    """
    records = stripes(180)
    public, private = _split(records, share, SALT) if share else (None, records)
    kept = np.arange(180)[~made_public(records, share=share, salt=SALT)] if share else np.arange(180)
    for gone in kept:
        rest = records[np.delete(np.arange(180), gone)]
        again, neighbour = _split(rest, share, SALT) if share else (None, rest)
        assert len(neighbour) == len(private) - 1
        assert again is None or again.images.tobytes() == public.images.tobytes()
        assert again is None or again.labels.tobytes() == public.labels.tobytes()

    if share and not METHODS[method].takes_public:
        public = None
    few = {name: count for name, count in {"steps": 6, "epochs": 2}.items() if name in SMALL[method]}
    streams, starts = [], []
    for held in (private, private[1:]):
        run = Run(method, held, {**SMALL[method], **few}, rng=Rng(3), public=public)
        starts.append([model_bytes(run.training.state.released)])
        starts[-1] += [
            model_bytes(run.training.state.released)
            for step in run.steps()
            if isinstance(step.phase, OnPublic) and not any(run.ledger.used)
        ]
        streams.append({name: state.tolist() for name, state in run.rng.state()["public"].items()})
    assert starts[0] == starts[1]
    assert streams[0] == streams[1]
    fresh = [model_bytes(run.job.generator()) for _ in range(2)]
    assert streams[0] or fresh[0] == fresh[1], "the initialisation at least, where any of it is random"
    if public is not None:
        assert len(starts[0]) > 1
        assert starts[0][0] != starts[0][-1] or "start" in SMALL[method], "the warm start learns"


def test_nobody_left_is_no_reason_to_stop(method: str) -> None:
    """An error would tell that the last protected record is gone."""
    if METHODS[method].without_guarantee:
        pytest.skip("its parts need records, and it promises nothing")
    run = Run(method, stripes(180)[:0], SMALL[method], rng=Rng())
    run.end()
    assert run.ledger.used == [count for _, count in run.plan]


@pytest.mark.parametrize("method", slow_among(EVERY, {"dpgan", "dp-wgan", "privae"}))
def test_the_mechanism_is_what_the_data_go_through(method: str) -> None:
    """The counterpart of non-interference: with the mechanism hearing, other data give another artefact."""
    runs = [Run(method, records, SMALL[method], rng=Rng(3, noise_seed=4)) for records in (stripes(180), garbage(180))]
    assert model_bytes(runs[0].end().released) != model_bytes(runs[1].end().released)


def test_saves_only_the_generator(method: str, tmp_path: Path) -> None:
    run = ended(method)
    (tmp_path / "model.safetensors").write_bytes(model_bytes(run.training.state.released))
    saved = load_file(tmp_path / "model.safetensors")
    fresh = run.job.generator()
    assert {name: value.shape for name, value in saved.items()} == {
        name: value.shape for name, value in fresh.state_dict().items()
    }


def test_events_are_public_json(method: str) -> None:
    for event in ended(method).events:
        json.dumps(event, allow_nan=False)


@pytest.mark.parametrize("at", slow_among([2, 9, 20], {2, 20}))
def test_resume_equals_an_unbroken_run_under_test_seeds(method: str, at: int, tmp_path: Path) -> None:
    public = stripes(30, seed=5)
    whole = Run(method, stripes(180), SMALL[method], rng=Rng(1, noise_seed=2), public=public)
    expected = whole.end()

    first = Run(method, stripes(180), SMALL[method], rng=Rng(1, noise_seed=2), public=public)
    for done, _ in enumerate(first.steps(), start=1):
        if done == at:
            break
    checkpoint.save(tmp_path, first.training.state.state_dict(), first.rng.state(), first.ledger)
    second = Run(method, stripes(180), SMALL[method], rng=Rng(1, noise_seed=2), public=public)
    second.ledger, second.private = first.ledger, first.private
    second.go_on_from(tmp_path, first.ledger)
    assert model_bytes(second.end().released) == model_bytes(expected.released)
    assert first.ledger.used == whole.ledger.used


@pytest.mark.parametrize("method", slow_among(EVERY, {"dp-diffusion", "dp-mepf", "dp-wgan", "gs-wgan", "privae"}))
def test_resume_where_one_phase_turns_into_the_next(method: str, tmp_path: Path) -> None:
    """At the last step of a phase and at its end: what its body does last is done once."""

    def begin() -> Run:
        return Run(method, stripes(180), SMALL[method], rng=Rng(1, noise_seed=2), public=stripes(30, seed=5))

    whole = begin()
    ends = [number for number, reached in enumerate(whole.steps(), start=1) if reached.logs is None]
    expected = model_bytes(whole.training.state.released)
    for at in [number - before for number in ends[:-1] for before in (1, 0)]:
        first = begin()
        for _ in itertools.islice(first.steps(), at):
            pass
        folder = tmp_path / str(at)
        folder.mkdir()
        checkpoint.save(folder, first.training.state.state_dict(), first.rng.state(), first.ledger)
        second = begin()
        second.ledger, second.private = first.ledger, first.private
        second.go_on_from(folder, first.ledger)
        assert model_bytes(second.end().released) == expected
        assert second.ledger.used == whole.ledger.used


def test_a_checkpoint_of_a_real_run_holds_no_noise_state(method: str, tmp_path: Path) -> None:
    """Without a fixed noise seed a resumed run draws fresh noise: two resumes of one checkpoint differ."""
    if METHODS[method].without_guarantee:
        pytest.skip("it draws no noise")
    run = Run(method, stripes(180), SMALL[method], rng=Rng(1))
    steps, last = run.steps(), [phase for phase in run.job.phases if phase.releases][-1]
    while run.training.state.phase != last.name or run.training.state.step < min(5, last.steps - 1):
        next(steps)
    checkpoint.save(tmp_path, run.training.state.state_dict(), run.rng.state(), run.ledger)
    results = []
    for _ in range(2):
        again = Run(method, stripes(180), SMALL[method], rng=Rng(1))
        again.go_on_from(tmp_path, run.ledger)
        next(reached for reached in again.steps() if reached.phase.name == run.job.phases[-1].name)
        results.append(model_bytes(again.training.state.released))
    assert results[0] != results[1]


@pytest.mark.parametrize("method", slow_among(EVERY, {"dpgan", "dp-wgan", "gs-wgan"}))
def test_learns_a_toy(method: str) -> None:
    """With little noise the classes come out on the right sides; an untrained generator shows no difference.

    A classifier is asked which class fresh records are of; an untrained one names class 0 always.
    """
    run = Run(method, stripes(200), TOY[method], rng=Rng(0))
    net = run.end().released
    if hasattr(net, "probabilities"):
        images, labels = stripes(100, seed=1).tensors()
        assert (net.probabilities(images).argmax(1) == labels).float().mean() > 0.95
        return
    left, right = (
        run.job.sample(net, 200, torch.full((200,), label), torch.Generator().manual_seed(0))[0].mean((0, 1, 2))
        for label in (0, 1)
    )
    contrast = float((left[:14].mean() - left[14:].mean()) + (right[14:].mean() - right[:14].mean()))
    assert contrast > 0.5


def test_the_loop_can_be_read_beside_the_paper(method: str) -> None:
    """At most 25 lines of body, docstring aside."""
    (train,) = ast.parse(textwrap.dedent(inspect.getsource(METHODS[method].loop.train))).body
    assert isinstance(train, ast.FunctionDef)
    assert (train.end_lineno or 0) - train.body[1].lineno + 1 <= 25


NARROW = [name for name in sorted(METHODS) if has_setting(name, "precision")]


def test_methods_that_may_compute_in_narrow_precision() -> None:
    """The others refuse it before there is a plan."""
    for name, method in METHODS.items():
        settings = {**SMALL.get(name, {}), "precision": "bf16"}
        if has_setting(name, "precision"):
            assert method.job(settings, CARD).settings["precision"] == "bf16"
        else:
            with pytest.raises(RequestError, match="no setting 'precision'"):
                method.job(settings, CARD)


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
        run = Run(method, stripes(180), asked, rng=Rng(3, noise_seed=4))
        ends.append(torch.cat([p.flatten() for p in run.end().released.parameters()]))
        assert run.ledger.used == [count for _, count in run.plan]
    assert asked_for == {precision, "fp32"}
    apart = (ends[0] - ends[1]).norm() / ends[1].norm()
    if method == "dpgan":
        assert (1e-4 < apart < 0.1) if precision == "bf16" else apart < 1e-4
    deafen(monkeypatch)
    deaf = [Run(method, records, settings, rng=Rng(3, noise_seed=4)) for records in (stripes(180), garbage(180))]
    states = [run.end().released.state_dict() for run in deaf]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert deaf[0].events == deaf[1].events
