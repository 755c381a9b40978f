"""The labelling phase of dp-mepf: its share of the budget, what samples carry, and that a release can be used."""

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import BudgetError
from gossamer.methods import METHODS
from gossamer.methods.dp_mepf import Config, descent
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.plan import plan
from gossamer.run.training.progress import Process
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject

MNIST = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=200)
SMALL: dict[str, Any] = {
    "noise_multiplier": 1.0, "axes": 4, "pixel_axes": 5, "features_steps": 2, "features_batch_size": 8, "features_width": 2,
    "warm_steps": 2, "warm_batch_size": 8, "matching_steps": 3, "likeness_steps": 2, "batch_size": 8, "width": 4,
    "latent_size": 4, "candidates": 5, "own_label": 0.5, "labelling_steps": 4,
}  # fmt: skip
START: dict[str, Any] = {"start": {"method": "moments", "axes": 8}, "start_noise": 2.0, "start_records": 40}
SUBJECT = Subject(method=METHODS["dp-mepf"], small={**SMALL, **START}, card=CARD)


def halves(n: int, seed: int = 0) -> Records:
    """Class y is bright in the y-th half."""
    coins, labels = np.random.default_rng(seed), np.arange(n) % 2
    images = coins.integers(0, 40, (n, 1, 28, 28))
    for y in range(2):
        images[labels == y, :, :, 14 * y : 14 * y + 14] += 200
    return Records(images.astype(np.uint8), labels.astype(np.int64))


def job(**settings: Any) -> Job[Any, Any]:
    return Job.of(METHODS["dp-mepf"], {**SMALL, **settings}, CARD)


def driven(asked: Job[Any, Any]) -> tuple[Any, dict[str, int]]:
    """The run after its end, and the step at which each phase ended. All queries of the plan were used."""
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(asked.plan)
    made, ends = asked.begin(Rng(0, noise_seed=1)), {}
    for reached in made.drive(Confined(halves(80), ledger, made.run.rng), halves(60, seed=5)):
        if reached.logs is None:
            ends[reached.phase.name] = reached.step
    assert sum(ledger.used) == sum(count for _, count in asked.plan)
    return made, ends


def test_the_share_of_labelling_follows_from_all_other_queries() -> None:
    """Moments 1 / sigma^2, votes of 1.75 sigma, and a start of two votes of 3 sigma, as one Gaussian; 0.42 of that."""
    settings: dict[str, Any] = {"noise_multiplier": 40.0, "own_label": 0.5, "rounds": 2, "votes_noise": 1.75}
    alone = 40.0 / math.sqrt(1 + 2 / 1.75**2)
    started = 40.0 / math.sqrt(1 + 2 / 1.75**2 + 2 / 9)
    unit = 0.42 * math.sqrt(234) * 4_096 / 60_000
    assert descent(Config(**settings), MNIST).noise_multiplier == pytest.approx(unit * alone)
    config = Config(**settings, start={"method": "evolve", "steps": 2}, start_noise=3.0)
    assert descent(config, MNIST).noise_multiplier == pytest.approx(unit * started)


@pytest.mark.parametrize("rounds", [0, 1])
def test_votes_without_noise_are_no_crash(rounds: int) -> None:
    """With a round of them no epsilon exists, and the request is refused. Without a round they do not count."""
    settings = {"own_label": 0.5, "votes_noise": 0.0, "rounds": rounds, "start": "evolve"}
    with pytest.raises(BudgetError, match="no noise multiplier") if rounds else nullcontext():
        assert plan("dp-mepf", MNIST, settings, epsilon=1.0, delta=1e-5).promise.epsilon <= 1


def test_votes_leave_the_steps_of_labelling_where_both_are_the_same_query() -> None:
    """All records in each step, and the same noise: one event."""
    asked = job(votes_noise=1.5, labelling_noise=1.5)
    _, (votes, _), (step, _) = asked.plan
    assert votes == step
    _, ends = driven(asked)
    assert {name: ends[name] for name in ("training", "votes", "labelling")} == {
        "training": 1,
        "votes": 1,
        "labelling": 4,
    }


def test_a_sample_has_its_own_label_mixed_with_what_the_classifier_says() -> None:
    made, _ = driven(job(own_label=0.25, noise_multiplier=0.01, labelling_noise=1.0, labelling_steps=30))
    net = made.state.released
    ((images, labels, soft),) = made.job.chunks(net, [30], None, torch.Generator().manual_seed(0))
    torch.testing.assert_close(soft, 0.25 * F.one_hot(labels, 2) + 0.75 * net.labeller.probabilities(images))
    seen, truth = halves(60, seed=1).tensors()
    assert (net.labeller.probabilities(seen).argmax(1) == truth).float().mean() > 0.95


def test_without_a_classifier_the_model_is_what_it_was() -> None:
    plain, labelled = job(own_label=1.0), job()
    assert [phase.name for phase in plain.phases][-1] == "votes"
    assert [phase.name for phase in labelled.phases][-1] == "labelling"
    assert labelled.plan[:-1] == plain.plan
    names = plain.generator().state_dict().keys()
    assert labelled.generator().state_dict().keys() - names == {"labeller.head.weight"}


@pytest.mark.parametrize(
    "question",
    [
        lambda _: checks.spends_its_plan(checks.finished_run(SUBJECT)),
        lambda _: checks.saves_only_the_generator(checks.finished_run(SUBJECT)),
        lambda _: checks.non_interference(SUBJECT, warm=False),
        lambda _: checks.learns_through_the_mechanism(SUBJECT),
        pytest.param(lambda folder: checks.resume_at_the_ends_of_phases(SUBJECT, folder), marks=pytest.mark.slow),
        lambda folder: checks.checkpoint_holds_no_noise_state(SUBJECT, folder),
    ],
)
def test_it_keeps_the_contract_with_a_classifier(question: Any, tmp_path: Path) -> None:
    question(tmp_path)


def test_a_labelled_run_is_released_loaded_and_verified(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    made = fit(
        "dp-mepf",
        data=halves(80),
        public=halves(60, seed=5),
        card=CARD,
        out=run,
        accounts=None,
        epsilon=10.0,
        delta=1e-3,
        **{name: value for name, value in SMALL.items() if name != "noise_multiplier"},
        process=Process(progress=False),
    )
    release(run, out, samples=10)
    assert verify(out).problems == []
    samples, again = made.sample(12, seed=1), Synthesizer.load(out).sample(12, seed=1)
    assert samples.probabilities is not None and again.probabilities is not None
    assert np.array_equal(samples.probabilities, again.probabilities)
    assert "soft = release.soft_labels(images, labels)" in (out / "README.md").read_text(encoding="utf-8")
