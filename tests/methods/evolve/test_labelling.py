"""The labelling phase of evolve: what it costs, which probabilities samples have, and that it changes nothing else."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.evolve import Config, descent
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer, model_bytes
from gossamer.privacy.accounting import cost
from gossamer.privacy.accounting.events import poisson_gaussian
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
CARD = DataCard(shape=(1, 12, 12), classes=3, declared_size=90)
SMALL: dict[str, Any] = {
    "noise_multiplier": 1.0, "steps": 2, "candidates": 6, "variations": 0, "drawing": "patches", "embedding": "cosines",
    "own_label": 0.5, "labelling_steps": 6,
}  # fmt: skip
SUBJECT = Subject(method=METHODS["evolve"], small=SMALL, card=DataCard(shape=(1, 12, 12), classes=2, declared_size=200))


def job(card: DataCard = CARD, **settings: Any) -> Job[Any, Any]:
    return Job.of(METHODS["evolve"], {**SMALL, **settings}, card)


def trained(seed: int = 0, card: DataCard = CARD, records: Records | None = None, **settings: Any) -> Any:
    asked = job(card, **settings)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(asked.plan)
    made = asked.begin(Rng(seed, noise_seed=1))
    for _ in made.drive(Confined(stripes(80) if records is None else records, ledger, made.run.rng)):
        pass
    assert sum(ledger.used) == sum(count for _, count in asked.plan)
    return made


def stripes(n: int, seed: int = 0) -> Records:
    """Class y is bright in the y-th third."""
    coins, labels = np.random.default_rng(seed), np.arange(n) % 3
    images = coins.integers(0, 40, (n, 1, 12, 12))
    for y in range(3):
        images[labels == y, :, :, 4 * y : 4 * y + 4] += 200
    return Records(images.astype(np.uint8), labels.astype(np.int64))


# ------------------------------------------------------------------ the cost


@pytest.mark.parametrize("steps", [1, 2])
def test_one_plan_has_votes_and_labelling_and_meets_epsilon(steps: int) -> None:
    request = plan("evolve", MNIST, {"own_label": 0.5, "steps": steps}, epsilon=1.0, delta=1e-5)
    noise = request.job.settings["noise_multiplier"]
    (votes, rounds), (step, count) = request.plan
    assert votes == poisson_gaussian(sampling_rate=1.0, noise_multiplier=noise)
    assert isinstance(request.job.config, Config)
    labelling_noise = descent(request.job.config, MNIST).noise_multiplier
    assert step == poisson_gaussian(sampling_rate=4_096 / 60_000, noise_multiplier=labelling_noise)
    assert (rounds, count) == (steps, 234)
    assert 0.998 <= request.promise.epsilon <= 1.0
    alone = [
        min(each.guarantee.epsilon for each in cost.bounds([entry], delta=1e-5, relation=request.job.relation))
        for entry in request.plan
    ]
    assert alone == pytest.approx([0.574, 0.784], abs=0.01)


@pytest.mark.parametrize(
    ("declared", "noise", "expected"),
    [
        (60_000, 0.5, 4_096 * math.sqrt(234) / 12_500),  # no stronger than helps
        (60_000, 20.0, 0.42 * 20 * math.sqrt(234) * 4_096 / 60_000),  # its share
        (3_000, 2.0, 0.42 * 2 * math.sqrt(234)),  # all records in each step
        (60_000, 0.0, 0.0),
    ],
)
def test_the_noise_of_labelling_follows_from_size_and_noise(declared: int, noise: float, expected: float) -> None:
    card = dataclasses.replace(MNIST, declared_size=declared)
    config = Config(noise_multiplier=noise, own_label=0.5, steps=1)
    assert descent(config, card).noise_multiplier == pytest.approx(expected)
    four = dataclasses.replace(config, noise_multiplier=2 * noise, steps=4)  # of twice the noise cost as much as one
    assert descent(four, card).noise_multiplier == pytest.approx(expected)
    given = dataclasses.replace(config, labelling_noise=3.0)
    assert descent(given, card).noise_multiplier == 3.0 * noise


def test_votes_do_not_use_the_steps_of_labelling_where_both_are_the_same_query() -> None:
    """All records in each step, and the same noise: one event. Each phase has its own number of queries all the same."""
    asked = job(labelling_noise=1.0)
    (votes, _), (step, _) = asked.plan
    assert votes == step
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(asked.plan)
    rng = Rng(0, noise_seed=1)
    steps = asked.begin(rng).drive(Confined(stripes(80), ledger, rng))
    ends = {reached.phase.name: reached.step for reached in steps if reached.logs is None}
    assert ends == {"training": 2, "labelling": 6}


# ------------------------------------------------------------------ labels of samples


@pytest.mark.parametrize("own", [0.0, 0.25, 0.5])
def test_a_sample_has_its_own_label_mixed_with_what_the_classifier_says(own: float) -> None:
    made = trained(own_label=own)
    net = made.state.released
    ((images, labels, soft),) = made.job.chunks(net, [40], None, torch.Generator().manual_seed(0))
    found = torch.softmax(net.labeller.head(net.labeller.features(images).half().float()), 1)
    torch.testing.assert_close(soft, own * F.one_hot(labels, 3) + (1 - own) * found)
    assert torch.allclose(soft.sum(1), torch.ones(40)) and soft.dtype == torch.float32
    assert found.amax(1).max() > 0.5, "it has learnt something"


def test_pictures_labels_and_votes_are_those_of_a_run_without_labelling() -> None:
    """With the same noise on votes. The model of a run without has the tensors that it always had."""
    plain, made = trained(own_label=1.0), trained()
    before = plain.state.released.state_dict()
    assert set(before) == {"parents", "weights", "degree"}
    after = made.state.released.state_dict()
    assert all(torch.equal(after.pop(name), value) for name, value in before.items())
    assert set(after) == {"labeller.head.weight"}
    stream = torch.Generator().manual_seed(0)
    ((images, labels, none),) = plain.job.chunks(plain.state.released, [20], None, stream)
    ((same, alike, soft),) = made.job.chunks(made.state.released, [20], None, stream.manual_seed(0))
    assert none is None and soft is not None
    assert torch.equal(images, same) and torch.equal(labels, alike)


def test_samples_of_two_seeds_differ_and_those_of_one_do_not() -> None:
    made = trained()
    net = made.state.released
    first, again, other = (
        next(iter(made.job.chunks(net, [30], None, torch.Generator().manual_seed(seed)))) for seed in (1, 1, 2)
    )
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not torch.equal(first[2], other[2])


def test_the_classifier_learns_the_records() -> None:
    images, labels = stripes(60, seed=1).tensors()
    learnt = trained(noise_multiplier=0.01, labelling_steps=40, labelling_noise=1.0).state.released.labeller
    assert (learnt.probabilities(images).argmax(1) == labels).float().mean() > 0.95


def test_the_mean_of_the_second_half_of_the_weights_is_released() -> None:
    asked = job()
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(asked.plan)
    made, seen = asked.begin(Rng(0, noise_seed=1)), []
    for reached in made.drive(Confined(stripes(80), ledger, made.run.rng)):
        if reached.phase.name == "labelling" and reached.logs:
            seen.append(made.state.labelling.W.net.head.weight.detach().clone())
    mean = torch.stack(seen[3:]).mean(0)
    torch.testing.assert_close(made.state.released.labeller.head.weight.detach(), mean, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------ the contract


@pytest.mark.parametrize(
    "question",
    [
        lambda _: checks.spends_its_plan(checks.finished_run(SUBJECT)),
        lambda _: checks.saves_only_the_generator(checks.finished_run(SUBJECT)),
        lambda _: checks.events_are_public_json(checks.finished_run(SUBJECT)),
        lambda _: checks.non_private_run_says_infinity(SUBJECT),
        lambda _: checks.plan_is_pure(SUBJECT),
        lambda _: checks.non_interference(SUBJECT, warm=False),
        lambda _: checks.removing_a_protected_record_changes_nothing_public(SUBJECT, share=None),
        lambda _: checks.trains_without_records(SUBJECT),
        lambda _: checks.learns_through_the_mechanism(SUBJECT),
        lambda folder: checks.resume_equals_an_unbroken_run(SUBJECT, folder, at=6),  # 2 rounds, an end, 3 of 6 steps
        lambda folder: checks.resume_at_the_ends_of_phases(SUBJECT, folder),
        lambda folder: checks.checkpoint_holds_no_noise_state(SUBJECT, folder),
    ],
)
def test_it_keeps_the_contract(question: Any, tmp_path: Path) -> None:
    question(tmp_path)


def test_a_run_is_released_loaded_and_verified(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    made = fit(
        "evolve",
        data=stripes(80),
        card=CARD,
        out=run,
        accounts=None,
        epsilon=10.0,
        delta=1e-3,
        **{name: value for name, value in SMALL.items() if name != "noise_multiplier"},
        process=Process(progress=False),
    )
    release(run, out, samples=20)
    assert verify(out).problems == []
    samples, again = made.sample(30, seed=1), Synthesizer.load(out).sample(30, seed=1)
    assert samples.probabilities is not None and again.probabilities is not None
    assert np.array_equal(samples.probabilities, again.probabilities)
    assert model_bytes(made.net) == (out / "model.safetensors").read_bytes()
    with np.load(out / "samples.npz") as held:
        assert held["probabilities"].shape == (20, 3)
    page = (out / "README.md").read_text(encoding="utf-8")
    assert "Samples have soft labels" in page and "soft = release.soft_labels(images, labels)" in page
    assert "release.probabilities(images)" not in page
    assert "labelling: 6 x" in page and "training: 2 x" in page


@pytest.mark.parametrize(
    ("card", "settings", "says"),
    [
        ({}, {"own_label": 1.5}, "`own_label` is a share, at most 1, not 1.5"),
        ({"shape": (1, 7, 7)}, {}, "`own_label` needs a classifier, which reads pictures of at least 8x8"),
        ({}, {"drawing": "pictures", "encoder": "lite0"}, "`own_label` is for drawn pictures"),
    ],
)
def test_settings_that_make_no_sense_are_refused(card: dict[str, Any], settings: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        _ = job(dataclasses.replace(CARD, **card), **settings).plan


def test_the_classifier_reads_the_features_of_the_encoder() -> None:
    plugins.add("encoder", "thirds", lambda batch: batch.float().view(len(batch), 12, 3, 4).mean((1, 3)))
    try:
        made = trained(encoder="thirds", noise_multiplier=0.01, labelling_noise=1.0, labelling_steps=40)
        images, labels = stripes(60, seed=1).tensors()
        found = made.state.released.labeller.probabilities(images).argmax(1)
        assert made.state.released.labeller.head.weight.shape == (3, 3)
        assert (found == labels).float().mean() > 0.95
    finally:
        plugins.remove("encoder", "thirds")
