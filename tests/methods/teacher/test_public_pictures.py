"""The public pictures that a teacher labels: which come as samples, with which labels, and that nothing else of them leaves."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.events import Event
from gossamer.methods.common.labelled import LabelledPictures, chunks, in_proportion
from gossamer.methods.common.softmax_regression import Classifier, with_features
from gossamer.methods.contract import Run
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer, model_bytes
from gossamer.methods.teacher import PARTS, Teacher, loop
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process

SHAPE = (1, 12, 12)
CARD = DataCard(shape=SHAPE, classes=2, declared_size=40)
SETTINGS: dict[str, Any] = {"steps": 4, "noise_multiplier": 1.0}
BUDGET: dict[str, Any] = {"delta": 1e-3, "accounts": None, **SETTINGS}


def records(n: int, seed: int = 0) -> Records:
    """Rough pictures of class 0, smooth ones of class 1."""
    coins, labels = np.random.default_rng(seed), np.arange(n) % 2
    fine = coins.integers(0, 256, (n, *SHAPE))
    images = np.where(labels[:, None, None, None] == 0, fine, fine // 16 + 100)
    return Records(images.astype(np.uint8), labels.astype(np.int64))


def pictures(probabilities: Tensor) -> LabelledPictures:
    """Pictures whose pixels are their numbers."""
    images = torch.arange(len(probabilities), dtype=torch.uint8)[:, None, None, None].expand(-1, *SHAPE)
    return LabelledPictures(images.contiguous(), probabilities)


def drawn(
    held: LabelledPictures, sizes: list[int], labels: Tensor | None = None, card: DataCard = CARD
) -> list[Tensor]:
    """Positions, labels and probabilities of all chunks."""
    found = list(chunks(held, card, sizes, labels, torch.Generator().manual_seed(0)))
    assert [len(images) for images, _, _ in found] == sizes
    images, given, soft = (torch.cat([*parts]) for parts in zip(*found, strict=True))
    return [images[:, 0, 0, 0].mul(255).round().long(), given, soft]


def two(likely: list[float]) -> Tensor:
    return torch.tensor([[1 - p, p] for p in likely])


# ------------------------------------------------------------------ which pictures, with which labels


def test_each_picture_comes_once_with_the_label_that_is_likeliest() -> None:
    soft = two([0.9] * 30 + [0.2] * 30)
    positions, labels, probabilities = drawn(pictures(soft), [25, 25, 10])
    assert sorted(positions.tolist()) == list(range(60))
    assert torch.equal(labels, (positions < 30).long())
    assert torch.equal(probabilities, soft[positions])


def test_chunks_together_give_no_picture_twice_before_all_have_come() -> None:
    positions, labels, _ = drawn(pictures(two([0.9] * 7 + [0.2] * 7)), [5, 5, 5, 5])
    assert len(set(positions[:14].tolist())) == 14
    assert len(set(positions[14:].tolist())) == 6
    assert labels.bincount().tolist() == [10, 10]


def test_labels_have_the_shares_of_the_prior_and_the_likeliest_fill_the_gap() -> None:
    """All 20 look like class 0; five are to have label 1: those nearest to it."""
    card = DataCard(shape=SHAPE, classes=2, declared_size=40, label_prior=(0.75, 0.25))
    positions, labels, _ = drawn(pictures(two([0.01 * at for at in range(20)])), [20], card=card)
    assert labels.bincount().tolist() == [15, 5]
    assert sorted(positions[labels == 1].tolist()) == [15, 16, 17, 18, 19]
    assert in_proportion(7, card, torch.Generator()).bincount().tolist() == [5, 2]
    assert in_proportion(0, card, torch.Generator()).tolist() == []


def test_labels_that_are_asked_for_are_given() -> None:
    wanted = torch.tensor([1, 1, 0, 1])
    positions, labels, _ = drawn(pictures(two([0.9] * 5 + [0.1] * 5)), [3, 1], wanted)
    assert torch.equal(labels, wanted)
    assert torch.equal((positions < 5).long(), wanted)


# ------------------------------------------------------------------ runs


def training(public_records: Records | None, *, noise_seed: int = 1) -> Any:
    job = Job.of(Teacher(), SETTINGS, CARD)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(job.plan)
    made = job.begin(Rng(0, noise_seed=noise_seed))
    for _ in made.drive(Confined(records(40), ledger, made.run.rng), public_records):
        pass
    return made


def test_the_classifier_is_the_same_with_and_without_public_pictures() -> None:
    """They are labelled, and nothing is learnt from them."""
    alone, beside = training(None).state, training(records(23, seed=5)).state
    assert alone.released.labelled is None
    assert "labelled.images" not in alone.released.state_dict()
    assert torch.equal(alone.released.head.weight, beside.released.head.weight)


def test_pictures_are_released_as_they_were_given_with_the_probabilities_of_the_released_weights() -> None:
    given = records(23, seed=5)
    net = training(given).state.released
    assert torch.equal(net.labelled.images, torch.from_numpy(given.images))
    assert torch.allclose(net.labelled.probabilities, net.probabilities(given.tensors()[0]), atol=1e-6)
    other = training(Records(given.images, 1 - given.labels)).state.released
    assert model_bytes(other) == model_bytes(net), "their own labels are not looked at"


@pytest.mark.parametrize("stop", [1, PARTS // 2, PARTS - 1])
def test_a_run_goes_on_within_the_public_features(stop: int) -> None:
    given = records(2 * PARTS + 7, seed=5)
    job = Job.of(Teacher(), SETTINGS, CARD)
    run = Run(job.config, CARD, Rng(0))
    first, again = loop.start(run), loop.start(run)
    for _ in zip(range(stop), loop.describe(run, first, given), strict=False):
        first.step += 1
    again.load_state_dict(first.state_dict())
    for _ in loop.describe(run, again, given):
        again.step += 1
    assert again.step == PARTS
    assert torch.equal(again.public.images, torch.from_numpy(given.images))
    whole = with_features(again.W.net, given).images
    assert torch.equal(again.public.features, torch.from_numpy(whole))


def test_a_state_with_pictures_is_loaded_into_a_fresh_classifier_and_one_without_takes_them_away() -> None:
    net, fresh = training(records(23, seed=5)).state.released, Classifier(SHAPE, 2)
    fresh.load_state_dict(net.state_dict())
    assert model_bytes(fresh) == model_bytes(net)
    fresh.load_state_dict(training(None).state.released.state_dict())
    assert fresh.labelled is None


def test_a_run_is_released_loaded_and_verified(tmp_path: Path) -> None:
    run, out, given, said = tmp_path / "run", tmp_path / "out", records(60, seed=5), list[str]()

    def sink(event: Event) -> None:
        said.append(str(event.values.get("text", "")))

    made = fit("teacher", data=records(40), public=given, card=CARD, out=run, **BUDGET, process=Process(sink=sink))
    assert any("release will contain the public pictures as they are" in text for text in said)
    release(run, out)
    assert verify(out).problems == []
    samples = made.sample(len(given), seed=1)
    assert np.array_equal(np.unique(samples.images, axis=0), np.unique(given.images, axis=0))
    assert np.bincount(samples.labels).tolist() == [len(given) // 2] * 2
    assert samples.probabilities is not None
    again = Synthesizer.load(out).sample(len(given), seed=1)
    assert np.array_equal(again.images, samples.images)
    samples.save(tmp_path / "labelled.npz")
    with np.load(tmp_path / "labelled.npz") as file:
        assert np.array_equal(file["probabilities"], samples.probabilities)
    certificate = json.loads((out / "certificate.json").read_text())
    assert "contains these pictures as they are" in certificate["not_covered"][0]
    assert not any("drawing program" in entry["what"] for entry in certificate["facts"]["public_inputs"])
    text = " ".join((out / "README.md").read_text().split())
    assert (
        "The file contains the public pictures of the run as they are, and its samples are these pictures with other labels."
    ) in text
    assert "are synthetic" not in text.partition("## How to load it")[0]
    assert "There is no `load.py`, because its samples are public pictures" in text
    assert not (out / "load.py").exists()


def test_a_share_of_the_records_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="`public=SHARE` would publish records"):
        fit("teacher", data=records(40), public=0.2, card=CARD, out=tmp_path / "run", **BUDGET)
    assert not (tmp_path / "run").exists()
