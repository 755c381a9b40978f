"""Methods of Gossamer, trained in this process: `marginals`, and two methods for pictures on one-hot rows."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from benchmarks.tables.datasets import Dataset
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.tables.table import Table
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.plan import plan

DELTA = 1e-5
SIDE = 28
"""dpgan's networks take pictures of 28x28: a row's one-hot values fill them line by line, and the rest is 0."""
CHUNK = 1_000
LABELS: dict[str, tuple[float, ...]] = {"adult": (0.7607, 0.2393)}
"""Shares of the labels, where the documentation of the data has them. Elsewhere they count as equal."""
ON_ONE_HOT: dict[str, tuple[str, dict[str, Any]]] = {
    "privae": ("mnist-labels", {"steps": 2_000, "expected_batch_size": 2_048, "warm_steps": 0}),
    "dpgan": ("mnist", {}),
}
"""A preset for labelled records without public ones, and what changes: half the batch, for half the records."""


def samples(method: str, data: Dataset, epsilon: float, seed: int, settings: Mapping[str, Any]) -> np.ndarray:
    """As many samples as rows that were seen. int [N, columns]"""
    made = of_marginals if method == "marginals" else of_pictures
    return made(method, data, epsilon, seed, settings)


def of_marginals(method: str, data: Dataset, epsilon: float, seed: int, settings: Mapping[str, Any]) -> np.ndarray:
    """`marginals` with its defaults."""
    request = plan(method, data.facts, settings, epsilon=epsilon, delta=DELTA)
    net = trained(request.job, Table(data.seen), seed)
    return request.job.sample(net, len(data.seen), None, stream(seed))[0].numpy()


def of_pictures(method: str, data: Dataset, epsilon: float, seed: int, settings: Mapping[str, Any]) -> np.ndarray:
    """A method for pictures on one-hot rows; the label of a picture is the label column."""
    preset, changed = ON_ONE_HOT[method]
    card = picture_card(data, SIDE if method == "dpgan" else None)
    request = plan(method, card, {**changed, **settings}, epsilon=epsilon, delta=DELTA, preset=preset)
    records = Records(one_hot(data.seen, data, card.shape), data.seen[:, data.label].astype(np.int64))
    net, draws = trained(request.job, records, seed).eval(), stream(seed)
    chunks = [
        request.job.sample(net, min(CHUNK, len(data.seen) - at), None, draws) for at in range(0, len(data.seen), CHUNK)
    ]
    return from_one_hot(
        np.concatenate([images for images, _ in chunks]), np.concatenate([own for _, own in chunks]), data
    )


def setting(text: str) -> tuple[str, Any]:
    """A name and a value, from NAME=VALUE; the value is JSON."""
    name, _, value = text.partition("=")
    return name, json.loads(value)


def trained(job: Any, records: Any, seed: int) -> Any:
    """The released net of a run. The noise has a fixed seed, so that figures can be repeated: no guarantee covers them."""
    ledger = PrivacyLedger(budget=float("inf"), delta=DELTA, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(seed, noise_seed=seed))
    for _ in training.drive(Confined(records, ledger, training.run.rng)):
        pass
    return training.state.released


def stream(seed: int) -> torch.Generator:
    """Fixes the samples."""
    return torch.Generator().manual_seed(seed)


def picture_card(data: Dataset, side: int | None) -> DataCard:
    """The card of one-hot rows as pictures of one line, or of a square of this side."""
    wide = sum(data.facts.domain) - data.facts.domain[data.label]
    shape = (1, 1, wide) if side is None else (1, side, side)
    return DataCard(
        shape=shape,
        classes=data.facts.domain[data.label],
        declared_size=len(data.seen),
        label_prior=LABELS.get(data.name, "uniform"),
    )


def features(data: Dataset) -> list[int]:
    """The columns without the label."""
    return [column for column in range(len(data.facts.domain)) if column != data.label]


def one_hot(codes: np.ndarray, data: Dataset, shape: tuple[int, ...]) -> np.ndarray:
    """Rows without the label, 255 where a value holds, as pictures. uint8 [N, *shape], zeros at the end"""
    flat = np.zeros((len(codes), int(np.prod(shape))), np.uint8)
    start = 0
    for column in features(data):
        flat[np.arange(len(codes)), start + codes[:, column]] = 255
        start += data.facts.domain[column]
    return flat.reshape(-1, *shape)


def from_one_hot(images: np.ndarray, labels: np.ndarray, data: Dataset) -> np.ndarray:
    """The likeliest value of each column, and the label. images: float [N, C, H, W]; labels: int [N]"""
    flat, start = images.reshape(len(images), -1), 0
    codes = np.zeros((len(images), len(data.facts.domain)), np.int64)
    codes[:, data.label] = labels
    for column in features(data):
        end = start + data.facts.domain[column]
        codes[:, column] = flat[:, start:end].argmax(1)
        start = end
    return codes
