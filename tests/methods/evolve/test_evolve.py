"""Private Evolution: what it refuses, what public draws decide, and what the votes do."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.synthetic.glyphs import draw
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.common.features import Features
from gossamer.methods.evolve import Config, clusters_of, loop
from gossamer.methods.evolve.nets import Evolved
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training import checkpoint
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject

CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=300)
SMALL: dict[str, Any] = {
    "noise_multiplier": 1.0, "steps": 3, "candidates": 12, "variations": 1, "embedding_steps": 7, "embedding_batch_size": 16,
}  # fmt: skip


def job(card: DataCard = CARD, **settings: Any) -> Job[Any, Any]:
    return Job.of(METHODS["evolve"], {**SMALL, **settings}, card)


class Running:
    """A run in memory; `state` is where it is."""

    def __init__(self, asked: Job[Any, Any], records: Records, *, noise_seed: int | None = 1) -> None:
        self.ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=asked.relation)
        self.ledger.reserve(asked.plan)
        self.rng = Rng(0, noise_seed=noise_seed)
        self.training = asked.begin(self.rng)
        self.state: Any = self.training.state
        self.private = Confined(records, self.ledger, self.rng)

    def steps(self) -> Any:
        return self.training.drive(self.private)

    def end(self) -> Any:
        for _ in self.steps():
            pass
        return self.state


@pytest.mark.parametrize(
    ("card", "settings", "says"),
    [
        ({"shape": (3, 28, 28)}, {}, "square pictures of one channel; the card's are 3x28x28"),
        ({"shape": (1, 28, 32)}, {}, "square pictures of one channel; the card's are 1x28x32"),
        ({"classes": 9}, {}, "draws the digits 0 to 9, and the card has 9 classes"),
        ({"classes": 27}, {"drawing": "letters"}, "draws the letters A to Z, and the card has 27 classes"),
        ({}, {"drawing": "patches"}, "take `embedding=cosines`"),
        ({}, {"smallest_size": 0.0}, "`smallest_size` is a share of MNIST's size, from 0.1 to 1, not 0"),
        ({}, {"largest_rotation": 270.0}, "`largest_rotation` is at most 180 degrees, not 270"),
        ({}, {"degree": 1.5}, "`degree` is a share, at most 1, not 1.5"),
        ({}, {"shrink": 2.0}, "`shrink` is a share"),
    ],
)
def test_what_the_program_cannot_draw_is_refused(card: dict[str, Any], settings: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        _ = job(dataclasses.replace(CARD, **card), **settings).plan


def test_the_plan_is_one_gaussian_over_all_units_for_each_round() -> None:
    """Epsilon of T rounds is that of one Gaussian of multiplier sigma / sqrt(T): 5.276 at T = 2, delta 1e-5, gives 1."""
    asked = job(noise_multiplier=5.276, steps=2)
    ledger = PrivacyLedger(budget=1.0, delta=1e-5, relation=asked.relation)
    ledger.reserve(asked.plan)
    assert [count for _, count in asked.plan] == [2]
    assert 0.99 < ledger.promise().epsilon <= 1


def test_class_sizes_come_from_the_declared_prior() -> None:
    prior = (0.5, 0.25, 0.25) + (0.0,) * 7
    asked = job(dataclasses.replace(CARD, label_prior=prior))
    records = Records(
        np.zeros((30, 1, 28, 28), np.uint8), np.full(30, 9)
    )  # all of a class that the prior does not expect
    labels = Running(asked, records).end().released.labels
    assert torch.bincount(labels).tolist() == [60, 30, 30] + [1] * 7


@pytest.mark.parametrize(("declared", "each"), [(60_000, 500), (5_000, 500), (4_990, 499), (1_437, 143), (7, 1)])
def test_there_are_no_more_candidates_than_declared_records(declared: int, each: int) -> None:
    generator = job(dataclasses.replace(CARD, declared_size=declared), candidates=0).generator()
    assert isinstance(generator, Evolved)
    assert torch.bincount(generator.labels).tolist() == [each] * 10


@pytest.mark.parametrize(
    ("declared", "noise", "expected"),
    [
        (60_000, 3.731, 500),
        (60_000, 12.0, 500),
        (50_000, 5.276, 500),
        (5_000, 0.5, 500),
        (5_000, 3.731, 134),
        (1_000, 3.731, 27),
    ],
)
def test_records_vote_for_clusters_only_where_noise_would_hide_votes(
    declared: int, noise: float, expected: int
) -> None:
    """By public facts alone; with MNIST's 60,000 records each candidate has its own votes, as without clusters."""
    card = dataclasses.replace(CARD, declared_size=declared)
    assert clusters_of(Config(noise_multiplier=noise, candidates=500), card) == expected
    assert clusters_of(Config(noise_multiplier=noise, candidates=20, clusters=40), card) == 20


def test_candidates_of_a_cluster_get_its_votes_in_equal_shares() -> None:
    running = Running(
        job(noise_multiplier=0.0, steps=1, threshold=0.0, embedding="cosines", clusters=3), draw(200, seed=0)
    )
    weights = running.end().released.weights.view(10, 12)
    assert float(weights.sum()) == pytest.approx(200, abs=1e-3)
    assert all(1 <= len(row[row > 0].unique()) <= 3 for row in weights)
    assert float((weights > 0).float().mean()) > 0.8, "most candidates are in a cluster that has votes"


@pytest.mark.parametrize("settings", [{"clusters": 3}, {"smallest_size": 0.4, "largest_rotation": 180.0}])
def test_new_settings_keep_the_contract(settings: dict[str, Any], tmp_path: Path) -> None:
    small = {
        "noise_multiplier": 1.0,
        "steps": 3,
        "candidates": 6,
        "drawing": "letters",
        "embedding": "cosines",
        **settings,
    }
    subject = Subject(method=METHODS["evolve"], small=small)
    checks.non_interference(subject, warm=False)
    checks.removing_a_protected_record_changes_nothing_public(subject, share=None)
    checks.resume_equals_an_unbroken_run(subject, tmp_path, at=2)


def test_votes_on_few_candidates_are_remarked() -> None:
    """10 classes of 300 bins. Where 3 % of the bins have the votes, none is near; where 6 % have them, some are."""
    card, labels = dataclasses.replace(CARD, declared_size=3_000), torch.arange(10).repeat_interleave(300)
    run = Running(job(card), draw(1, seed=0)).training.run

    def asked(bins: int, votes: float = 3_000.0) -> bool:
        kept = torch.zeros(10, 300, dtype=torch.float64)
        kept[:, :bins] = votes / bins / 10
        return loop.concentrated(run, kept.flatten(), labels)

    assert asked(9) and not asked(18)
    assert not asked(9, votes=1_400.0), "noise may hide the others"
    few = torch.arange(10).repeat_interleave(100)
    assert not loop.concentrated(run, 300 * torch.eye(100, dtype=torch.float64)[::10].flatten(), few), "too few bins"
    state = Running(job(), draw(1, seed=0)).state
    assert state.remark == ""
    state.concentrated = True
    assert "Try `smallest_size" in state.remark


def test_votes_go_to_what_looks_like_the_records() -> None:
    """Without noise, records that are the first candidates themselves give those all weight."""
    running = Running(job(noise_multiplier=0.0, steps=1, embedding="cosines", variations=0), draw(1, seed=0))
    G = running.state.G
    chosen = torch.arange(0, len(G.labels), 12)
    pictures = G.program.draw(G.parents[chosen], G.labels[chosen], 28)
    running.private = Confined(Records(pictures.numpy(), G.labels[chosen].numpy()), running.ledger, running.rng)
    G = running.end().released
    assert torch.nonzero(G.weights)[:, 0].tolist() == chosen.tolist()
    latents = torch.randn(40, G.latent_size)
    latents[:, 1:] = 0  # a variation by nothing, but for choices, whose coin of 0.5 is not below the degree
    with torch.no_grad():
        assert torch.equal(G(latents, G.labels[chosen].repeat(4)), pictures.repeat(4, 1, 1, 1) / 255)


def test_each_round_varies_less_far_and_the_last_degree_is_released() -> None:
    running = Running(job(embedding="cosines", degree=0.8, shrink=0.5), draw(60, seed=0))
    degrees, parents = [], []
    for reached in running.steps():
        if reached.logs is not None:
            degrees.append(float(running.state.G.degree))
            parents.append(running.state.G.parents.clone())
    assert degrees == pytest.approx([0.8, 0.4, 0.2])
    assert float(running.state.released.degree) == pytest.approx(0.2)
    assert not torch.equal(parents[0], parents[1]) and not torch.equal(parents[1], parents[2])


def test_the_lookahead_is_the_mean_over_variations() -> None:
    """At degree 0 all variations are the candidate itself; at a larger one they are not."""
    positions = {}
    for variations, degree in ((0, 0.0), (3, 0.0), (3, 0.5)):
        asked = job(embedding="cosines", variations=variations)
        running = Running(asked, draw(1, seed=0))
        running.state.G.degree.fill_(degree)
        positions[variations, degree] = loop.lookahead(running.training.run, running.state)
    assert torch.equal(positions[0, 0.0], positions[3, 0.0])
    moved = positions[3, 0.5] - positions[0, 0.0]
    assert float(moved.norm(dim=1).median()) > 0.5


def test_the_lookahead_is_on_the_grid() -> None:
    """A third of a sum on the grid is not on it: distances would be rounded by the order of their sums."""
    running = Running(job(embedding="cosines", variations=3), draw(1, seed=0))
    running.state.G.degree.fill_(0.5)
    steps = 4_096 * loop.lookahead(running.training.run, running.state)
    assert steps.dtype == torch.float64
    assert torch.equal(steps, steps.round())
    assert float(steps.abs().max()) > 4_096


def test_the_features_learn_from_drawings_alone_and_resume_in_the_middle(tmp_path: Path) -> None:
    asked = job(embedding_steps=60, embedding_batch_size=64, steps=1)
    whole = Running(asked, draw(20, seed=0))
    losses = [float(r.logs["loss"]) for r in whole.steps() if r.logs is not None and r.phase.name == "embedding"]
    assert len(losses) == 60
    assert np.mean(losses[-10:]) < 1.9 < losses[0], "ten classes: 2.3 at the start"
    whole.end()

    first = Running(asked, draw(20, seed=0))
    for done, _ in enumerate(first.steps(), start=1):
        if done == 31:
            checkpoint.save(tmp_path, first.state.state_dict(), first.rng.state(), first.ledger)
            break
    second = Running(asked, draw(20, seed=0))
    second.ledger, second.private = first.ledger, first.private
    saved, rng = checkpoint.load(tmp_path, first.ledger) or ({}, {})
    second.state.load_state_dict(saved)
    second.rng.restore(rng)
    assert model_bytes(second.end().released) == model_bytes(whole.state.released)


@pytest.mark.parametrize("embedding", ["features", "cosines"])
def test_likeness_is_measured_by_what_has_seen_no_record(embedding: str) -> None:
    """After runs on unrelated records it is the same, bit for bit: else one record would move the votes of others."""
    ends = [Running(job(embedding=embedding), records).end() for records in (draw(50, seed=0), draw(90, seed=1))]
    first, second = (state.likeness.state_dict() for state in ends)
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_the_exact_features_are_those_that_learnt() -> None:
    torch.manual_seed(0)
    net = Features((1, 28, 28), 10)
    images, _ = draw(20, seed=1).tensors()
    with torch.no_grad():
        plain = F.relu(net.conv2(F.relu(net.conv1(images))))
        expected = F.normalize(net.hidden(plain.flatten(1)))
        found = net(images)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), expected, atol=0.02, rtol=0)


def test_each_layer_of_the_features_is_on_the_grid() -> None:
    """Layer by layer, each rounded to 1/4096 before the next: all but the last division is exact."""

    def grid(values: torch.Tensor) -> torch.Tensor:
        return (4_096 * values.double()).round() / 4_096

    torch.manual_seed(0)
    net, images = Features((1, 28, 28), 10), draw(50, seed=1).tensors()[0]
    with torch.no_grad():
        x = (255 * images).round().double() / 256
        for layer in (net.conv1, net.conv2):
            x = grid(F.conv2d(x, grid(layer.weight), grid(layer.bias), stride=2, padding=layer.padding)).relu()
        x = grid(F.linear(x.flatten(1), grid(net.hidden.weight), grid(net.hidden.bias)))
        found = net(images)
    torch.testing.assert_close(found, x / x.norm(dim=1, keepdim=True), atol=1e-12, rtol=0)


def test_any_pixels_and_labels_of_records_are_no_reason_to_stop() -> None:
    """White, black, one pixel; one class only; nobody."""
    images = np.zeros((3, 1, 28, 28), np.uint8)
    images[0], images[1, 0, 5, 5] = 255, 1
    for records in (Records(images, np.zeros(3, np.int64)), draw(1, seed=0)[np.arange(0)]):
        for embedding in ("features", "cosines"):
            state = Running(job(embedding=embedding), records).end()
            assert all(bool(value.isfinite().all()) for value in state.released.state_dict().values())


def test_a_loaded_generator_draws_the_same_without_data() -> None:
    asked = job(embedding="cosines", noise_multiplier=0.5)
    net = Running(asked, draw(100, seed=0)).end().released
    fresh = asked.generator()
    fresh.load_state_dict(load(model_bytes(net)))
    for each in (net, fresh):
        assert isinstance(each, Evolved)
    samples = [asked.sample(each, 50, None, torch.Generator().manual_seed(3)) for each in (net, fresh)]
    assert torch.equal(samples[0][0], samples[1][0]) and torch.equal(samples[0][1], samples[1][1])
    assert samples[0][0].shape == (50, 1, 28, 28)
    assert 0 <= float(samples[0][0].min()) < float(samples[0][0].max()) <= 1
