"""The papers' metrics: what trains, what tests, and what they need of a RUN."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import Answer, in_process
from torch import nn

from benchmarks.reproduce.metrics import __main__ as program
from benchmarks.reproduce.metrics import cnn, measure
from benchmarks.reproduce.metrics.nets import LeNet5, PrivganCNN
from gossamer.data.records import Records
from gossamer.intervals import Estimate

Run = Callable[..., Answer]


@pytest.fixture
def paper_metrics(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys, command=program.paper_metrics, name="python -m benchmarks.reproduce.metrics")


def measured(paper_metrics: Run, run: Path, data: Path, tmp_path: Path, *words: object) -> dict[str, Any]:
    answer = paper_metrics(run, "--train", data, "--test", data, "-o", tmp_path / "m.json", *words)
    assert answer.status == 0, answer.err
    return {entry["metric"]: entry for entry in json.loads((tmp_path / "m.json").read_text())}


def test_the_papers_protocols() -> None:
    weights = [nn.Parameter(torch.zeros(1))]
    assert (cnn.GS_WGAN.net, cnn.GS_WGAN.epochs, cnn.GS_WGAN.batch_size, cnn.GS_WGAN.drop_after) == (
        LeNet5,
        50,
        128,
        40,
    )
    assert (cnn.PRIVGAN.net, cnn.PRIVGAN.epochs, cnn.PRIVGAN.batch_size, cnn.PRIVGAN.drop_after) == (
        PrivganCNN, 50, 256, None,
    )  # fmt: skip
    half, sgd = (each.optimizer(weights).param_groups[0] for each in (cnn.PRIVGAN, cnn.GS_WGAN))
    assert (half["lr"], half["betas"], half["weight_decay"]) == (2e-4, (0.5, 0.999), 0)
    assert (sgd["lr"], sgd["momentum"], sgd["weight_decay"], sgd["nesterov"]) == (0.02, 0.9, 1e-4, False)


def test_all_train_and_the_last_epoch_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The learning rate falls after the second of three epochs; the net is the one after the third."""
    coins = np.random.default_rng(0)
    images, labels = coins.integers(0, 255, (40, 1, 12, 12)).astype(np.uint8), np.arange(40) % 2
    orders, rates, weights = [], [], []
    real_epoch = cnn.train_epoch

    def spy(net: Any, optimizer: Any, images: Any, labels: Any, order: Any, size: int) -> None:
        orders.append(np.sort(order))
        rates.append(optimizer.param_groups[0]["lr"])
        real_epoch(net, optimizer, images, labels, order, size)
        weights.append(net.out.weight.detach().clone())

    monkeypatch.setattr(cnn, "train_epoch", spy)
    protocol = cnn.Protocol(net=LeNet5, optimizer=cnn.sgd, epochs=3, batch_size=16, drop_after=2)
    net = cnn.train(images, labels, classes=2, protocol=protocol, seed=0)
    assert all((order == np.arange(40)).all() for order in orders)
    assert rates == pytest.approx([0.02, 0.02, 0.002])
    assert torch.equal(net.get_parameter("out.weight"), weights[2])
    assert not torch.equal(weights[1], weights[2])


class Drawing:
    """A release whose samples are known."""

    classes = 3

    def sample(self, count: int, *, seed: int) -> Records:
        del seed
        return dots(*np.arange(count) % 250)


def dots(*values: int) -> Records:
    """Records of one pixel; the label is the number modulo 3."""
    return Records(np.array(values, np.uint8)[:, None, None, None], np.arange(len(values)) % 3)


INPUTS = measure.Inputs(
    synthesizer=Drawing(), real=dots(*range(100, 120)), tests=dots(*range(11, 29)), labelled=20, seed=0,
    sink=lambda event: None,
)  # fmt: skip


@pytest.mark.parametrize("metric", ["gs-wgan-cnn", "privgan-cnn"])
def test_a_cnn_trains_on_one_set_and_tests_on_the_real_test_records(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def record(*arrays: np.ndarray, trained_on: str, **_: Any) -> Estimate:
        seen[trained_on] = arrays
        return Estimate(0.5, 0.4, 0.6, 10, trained_on)

    monkeypatch.setattr(cnn, "accuracy", record)
    found = measure.PAPER_METRICS[metric](INPUTS)
    assert len(seen["synthetic records"][0]) == measure.SAMPLES
    assert seen["real records"][0] is INPUTS.real.images
    assert all(arrays[2] is INPUTS.tests.images for arrays in seen.values())
    assert [estimate.computed_on for estimate in found.values()] == ["synthetic records", "real records"]


def test_the_jensen_shannon_score_is_of_samples_against_training_records(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Found:
        jensen_shannon = jensen_shannon_paper = accuracy = Estimate(0.5, 0.4, 0.6, 10, "dots")

    monkeypatch.setattr(measure, "discriminate", lambda a, b, **_: asked.append((a, b)) or Found())
    assert len(measure.jensen_shannon(INPUTS)) == 3
    assert (asked[0][0] == Drawing().sample(20, seed=0).images).all()
    assert (asked[0][1] == INPUTS.real.images).all()


@pytest.mark.slow  # the other metrics of cells are quick
def test_semi_supervised_uses_the_generator_and_few_records(
    paper_metrics: Run, gossamer: Run, fit_words: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gossamer(*fit_words).status == 0
    short = functools.partial(
        measure.semi_supervised.SemiSupervised, steps=6, batch_size=8, ramp_start=2, ramp_length=2
    )
    monkeypatch.setattr(measure.semi_supervised, "SemiSupervised", short)
    asked = ["--metrics", "semi-supervised", "--labelled", 20]
    assert list(measured(paper_metrics, tmp_path / "run", data, tmp_path, *asked)) == [
        "semi-supervised accuracy, 20 labelled records",
        "semi-supervised accuracy, 20 labelled records without synthetic ones",
    ]
    refused = paper_metrics(
        tmp_path / "run", "--train", data, "--test", data, "-o", tmp_path / "m.json", "--metrics", "latent"
    )
    assert refused.status == 2
    assert "--release-encoder" in refused.err


def test_latent_looks_at_the_codes_of_a_released_encoder(
    paper_metrics: Run, gossamer: Run, data: Path, card: Path, tmp_path: Path
) -> None:
    words = ["--data", data, "--card", card, "--noise-multiplier", 4, "--delta", 1e-3, "--steps", 3, "--width", 8]
    words += ["--expected-batch-size", 16, "--latent-size", 3, "--warm-steps", 0]
    assert gossamer("fit", "privae", *words, "--out", tmp_path / "vae", "--release-encoder").status == 0
    found = measured(paper_metrics, tmp_path / "vae", data, tmp_path, "--metrics", "latent")
    assert list(found) == [
        "sparsity of the codes", "log p(x), nats, 100 draws", "MMD between codes and prior", "distance of reconstructions",
        "separation of the classes' codes (silhouette)",
    ]  # fmt: skip
    assert 0 < found["sparsity of the codes"]["value"] < 1
    # A Bernoulli of a constant image has at least log 2 per pixel against it; an untrained decoder is close to that.
    assert found["log p(x), nats, 100 draws"]["value"] == pytest.approx(-784 * np.log(2), rel=0.2)
