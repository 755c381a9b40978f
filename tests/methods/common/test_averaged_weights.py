"""What a training hands out: the running average of the weights, by hand, or the last ones. For every method that averages."""

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import METHODS
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng

CARD = DataCard(shape=(1, 28, 28), classes=3, declared_size=40)
DECAY = 0.7
COMMON: dict[str, Any] = {"noise_multiplier": 1.0, "steps": 13, "width": 4, "latent_size": 4, "average_decay": DECAY}
POISSON = {**COMMON, "expected_batch_size": 8}
SETTINGS: dict[str, dict[str, Any]] = {
    "dpgan": {**POISSON, "discriminator_steps": 3, "generator_learning_rate": 0.02},
    "dp-wgan": {**POISSON, "critic_steps": 3, "generator_learning_rate": 0.02},
    "privae": {**POISSON, "learning_rate": 0.02},
    "gs-wgan": {
        **COMMON, "critics": 3, "batch_size": 4, "critic_batch_size": 4, "critic_steps": 1, "warm_steps": 0,
        "generator": "dcgan", "generator_learning_rate": 0.02,
    },
}  # fmt: skip
TRAINED = {"dpgan": "G", "dp-wgan": "G", "gs-wgan": "G", "privae": "vae"}
"""The part of a state whose network is released, or whose average is."""
DECAYS: dict[str, Callable[[int], float]] = {
    "dpgan": lambda _: DECAY,
    "dp-wgan": lambda _: DECAY,
    "privae": lambda t: min(DECAY, t / (t + 9)),
    "gs-wgan": lambda t: min(DECAY, 1 - 1 / (t + 1)),
}
"""The weight of the old average at the t-th move; the last two begin quickly, so that the first weights are soon forgotten."""


def job(method: str, **more: Any) -> Job[BaseConfig, State]:
    return Job.of(METHODS[method], {**SETTINGS[method], **more}, CARD)


def states(method: str, **more: Any) -> Iterator[Any]:
    """The states of a run, one per step."""
    asked = job(method, **more)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=asked.relation)
    ledger.reserve(asked.plan)
    training = asked.begin(Rng(0, noise_seed=1))
    draw = np.random.default_rng(0)
    held = Records(draw.integers(0, 256, (30, 1, 28, 28)).astype(np.uint8), draw.integers(3, size=30))
    return (
        training.state
        for reached in training.drive(Confined(held, ledger, training.run.rng))
        if reached.logs is not None
    )


def trained(method: str, state: Any) -> dict[str, Tensor]:
    """The weights that a step changes."""
    return weights(getattr(state, TRAINED[method]).net)


def weights(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().double().clone() for name, value in net.named_parameters()}


@pytest.mark.parametrize("method", SETTINGS)
def test_the_running_average_is_released(method: str) -> None:
    """It moves whenever the released network has taken a step, and what comes out is neither its start nor its end."""
    expected = trained(method, job(method).begin(Rng(0)).state)
    first, before, moves = expected, expected, 0
    for state in states(method):
        now = trained(method, state)
        if any(not torch.equal(now[name], before[name]) for name in now):
            moves += 1
            decay = DECAYS[method](moves)
            expected = {name: decay * expected[name] + (1 - decay) * now[name] for name in now}
        before = now
    assert moves >= 4
    released = weights(state.released)
    assert set(released) <= set(expected)
    for name, value in released.items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-4)
    far = {
        end: sum(float((released[n] - other[n]).norm()) for n in released)
        for end, other in (("first", first), ("last", now))
    }
    assert min(far.values()) > 1e-2


@pytest.mark.parametrize("method", SETTINGS)
def test_without_an_average_the_last_weights_are_released(method: str) -> None:
    *_, state = states(method, average_decay=0.0)
    released, last = weights(state.released), trained(method, state)
    assert all(torch.equal(value, last[name]) for name, value in released.items())


@pytest.mark.parametrize("method", SETTINGS)
def test_to_release_changes_nothing(method: str) -> None:
    """Asked for in the middle, as for a picture, the training goes on as if it had not been."""
    ends = []
    for looks in (False, True):
        for state in states(method):
            if looks:
                with torch.no_grad():
                    for value in copy.deepcopy(state.released).parameters():
                        value.zero_()
        ends.append(weights(state.released))
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
