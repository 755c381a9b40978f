"""Every method on a pretended GPU: nothing mixes devices, no step waits for it, and the numbers are those of the CPU."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from pretended import DEVICE, Mixed, Pretended, pretended
from slowly import slow_among

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random import noise
from gossamer.privacy.random.noise import Rng
from kinds import OF_PICTURES

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=60)
SMALL: dict[str, dict[str, Any]] = {
    "dpgan": {"width": 4, "expected_batch_size": 12, "discriminator_steps": 2, "adaptive": True, "average_decay": 0.5},
    "dp-wgan": {"width": 4, "expected_batch_size": 12, "critic_steps": 2},
    "privae": {"network": "conv", "width": 4, "expected_batch_size": 12, "partitions": 2, "divergence": "mmd"},
    "gs-wgan": {"width": 2, "critics": 2, "batch_size": 3, "critic_steps": 1, "critic_batch_size": 5, "warm_steps": 1},
    "privgan": {"pairs": 2, "epochs": 2, "batch_size": 12, "width": 8, "adversary_warm_epochs": 1, "adversary_delay_epochs": 1},
    "dp-diffusion": {
        "network": "unet", "width": 8, "depth": 1, "expected_batch_size": 12, "multiplicity": 2, "label_dropout": 0.1,
    },
    "dp-mepf": {
        "axes": 4, "pixel_axes": 4, "features_steps": 1, "features_batch_size": 8, "features_width": 2, "warm_steps": 0,
        "matching_steps": 6, "likeness_steps": 2, "batch_size": 8, "width": 4, "candidates": 6,
        "learnt_bends": True,
    },
    "moments": {"axes": 8, "cells": 2, "axes_noise": 2.0},
    "feature-moments": {"axes": 8, "encoder": ""},
    "evolve": {"drawing": "letters", "embedding": "cosines", "candidates": 6, "variations": 2},
    "teacher": {"expected_batch_size": 12},
}  # fmt: skip
WAITS: dict[str, set[str]] = {
    "dpgan": {"methods/dpgan/loop.py"},
    "dp-wgan": {"methods/dp_wgan/loop.py"},
    "dp-mepf": {"methods/dp_mepf/loop.py"},
    "gs-wgan": {"methods/gs_wgan/critics.py"},
    "privgan": {"methods/privgan/loop.py"},
}
"""Where steps wait: for what a generator step shows and the schedule needs, as dp-mepf's matching begins, where GS-WGAN's
chosen critics are picked, and in privGAN, whose epochs pass through lists of positions."""
ONE_SHOT = ("moments", "feature-moments", "evolve")
OTHER_THREADS = ("teacher",)
"""Its features are made in threads of their own, where the pretended device is not."""
WARM, STEPS = 4, 8


def records() -> Records:
    draw = np.random.default_rng(0)
    return Records(draw.integers(0, 256, (60, 1, 28, 28)).astype(np.uint8), draw.integers(0, 2, 60))


def taken(method: str, device: str, waits: list[tuple[str, str]]) -> torch.nn.Module:
    """The generator after a few steps; what made the first ones wait is forgotten."""
    given: dict[str, Any] = {} if method == "privgan" else {"noise_multiplier": 1.0}
    job = Job.of(METHODS[method], {**SMALL[method], **given}, CARD)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-9, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(1, noise_seed=2), device)
    public = records() if job.needs_public else None
    for done, _ in enumerate(training.drive(Confined(records(), ledger, training.run.rng), public), start=1):
        if done == WARM:
            waits.clear()
        if done == STEPS:
            break
    return training.state.released


def test_every_method_is_here() -> None:
    assert set(SMALL) == set(OF_PICTURES)


@pytest.mark.parametrize(
    "method", slow_among(sorted(OF_PICTURES), {"dp-diffusion", "dp-wgan", "gs-wgan", "privae", "teacher"})
)
def test_a_method_on_a_device(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended() as gpu:
        net = taken(method, DEVICE, gpu.waits)
        assert all(isinstance(p.data, Pretended) for p in net.parameters())
        there = [p.data.held.clone() for p in net.parameters() if isinstance(p.data, Pretended)]
    if method not in ONE_SHOT:
        places = {where.split(":")[0] for _, where in gpu.waits}
        assert places <= WAITS.get(method, set()), gpu.waits
    if method == "dpgan":
        assert len(gpu.waits) == (STEPS - WARM) / 2, "one for each generator step"
    if method in OTHER_THREADS:
        return
    monkeypatch.setattr(noise, "_makes_its_own", lambda device: True)
    here = [p.detach() for p in taken(method, "cpu", []).parameters()]
    assert len(here) == len(there)
    for a, b in zip(here, there, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("start", ["moments", "evolve"])
def test_a_start_draws_on_the_processor(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a generator's last call before other steps, and its samples are the same on every device."""
    letters = {"drawing": "letters", "embedding": "cosines", "candidates": 6, "steps": 1, "variations": 0}
    few: dict[str, dict[str, Any]] = {"moments": {"axes": 4}, "evolve": letters}
    settings = {
        "width": 4,
        "expected_batch_size": 12,
        "start": {"method": start, **few[start]},
        "start_records": 40,
    }
    monkeypatch.setitem(SMALL, "dpgan", {**settings, "warm_steps": 1, "discriminator_steps": 2})
    with pretended() as gpu:
        assert all(isinstance(p.data, Pretended) for p in taken("dpgan", DEVICE, gpu.waits).parameters())


def test_mixing_devices_is_caught() -> None:
    with pretended() as gpu:
        away = torch.zeros(3, 2, device=DEVICE)
        with pytest.raises(Mixed):
            away + torch.ones(2)
        with pytest.raises(Mixed):
            torch.zeros(3, 2)[torch.zeros(1, device=DEVICE, dtype=torch.int64)]
        assert gpu.waits == []
        assert (away + torch.tensor(2.0)).held.sum() == 12
        assert bool((away + 1).any()) and away.cpu().sum() == 0
        assert torch.ones(2).to(DEVICE).tolist() == [1, 1]
        assert len(gpu.waits) == 4
