"""How far a unit may move an answer, by the noise that is really added and the event that is really charged.

An event has a noise multiplier z. It is right where no unit moves the exact answer by more than 1 / z standard deviations
of the noise. Both sides are taken from the mechanism as it runs. So a mechanism that adds too little noise shows, like a query
that does not clip. Audits and `gossamer.testing` use this rule.
"""

import dataclasses
import math
from typing import Any

import torch
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)
from torch import Tensor

from gossamer.errors import RequestError
from gossamer.privacy.accounting.revealed_draw import RevealedDrawGaussianDpEvent
from gossamer.privacy.queries import Mechanism
from gossamer.privacy.random.noise import Rng


class _StandardDeviations(Rng):
    """Writes the standard deviation of the noise where others add noise."""

    def add_gaussian_(self, out: Tensor, std: float) -> Tensor:
        """Independent noise that is added twice has the root of the squares."""
        return out.copy_(torch.hypot(out, torch.full_like(out, std)))


def deviations(mechanism: Mechanism[Any], query: object, answer: Tensor) -> Tensor:
    """Return the standard deviation of the noise that a mechanism adds to each number of an answer. float64, as the answer

    It is read off from `noised`, whose noise must come from the `rng` that it is given. Zero: a number gets no noise.
    """
    if dataclasses.is_dataclass(mechanism) and not isinstance(mechanism, type):
        mechanism = dataclasses.replace(mechanism)  # a copy, whose past noise this one does not enter
    zeros = torch.zeros(answer.shape, dtype=torch.float64, device=answer.device)
    return mechanism.noised(zeros, query, _StandardDeviations())


def allowed(event: DpEvent) -> float:
    """Return how far a unit may move the answers under an event: 1 / z, in standard deviations of their noise.

    Several answers may move by the root of the sum of their squares, together. Zero: another charge covers this answer.

    Raises:
        RequestError: an event that is not of Gaussian noise.
    """
    if isinstance(event, NoOpDpEvent):
        return 0.0
    if isinstance(event, ComposedDpEvent):
        return math.hypot(*map(allowed, event.events))
    if isinstance(event, PoissonSampledDpEvent | SampledWithoutReplacementDpEvent):
        return allowed(event.event)
    if isinstance(event, GaussianDpEvent | RevealedDrawGaussianDpEvent):
        return 1 / event.noise_multiplier if event.noise_multiplier else math.inf
    raise RequestError(f"{type(event).__name__} says nothing about Gaussian noise, so no move can be compared with it.")


def distance(difference: Tensor, each: Tensor) -> float:
    """Return how long the difference of two exact answers is, in standard deviations of the noise on each number.

    Infinity: a number without noise differs, or is not finite.
    """
    there = difference != 0  # not a number differs, too
    return float((difference[there].double() / each[there]).norm().nan_to_num(nan=math.inf, posinf=math.inf))
