"""What each kind of release costs, as an event. Needs no tensor: plans and checks of certificates load no PyTorch."""

import math
from typing import Literal, TypeAlias

from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)

from gossamer.privacy.accounting.revealed_draw import RevealedDrawGaussianDpEvent
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation, Plan

Draw: TypeAlias = Literal["secret", "round_robin", "paper"]
"""How a critic that answers is chosen; see `sanitized_rows.py`."""


def poisson_gaussian(*, sampling_rate: float, noise_multiplier: float) -> DpEvent:
    """The event of one Gaussian over a Poisson sample, for a charge or a plan. At rate 1 all units are sampled."""
    of_all = GaussianDpEvent(noise_multiplier)
    return of_all if sampling_rate == 1 else PoissonSampledDpEvent(sampling_rate, of_all)


def without_privacy() -> DpEvent:
    """The event of records that are handed out as they are."""
    return NonPrivateDpEvent()


def event_of(*, draw: Draw, critics: int, batch_size: int, noise_multiplier: float) -> DpEvent:
    """What one charge of `SanitizedRows` costs: one answer, or for round_robin one answer of each critic."""
    joint = noise_multiplier / math.sqrt(batch_size)
    if draw == "secret":
        return SampledWithoutReplacementDpEvent(critics, 1, GaussianDpEvent(joint))
    return GaussianDpEvent(joint) if draw == "round_robin" else RevealedDrawGaussianDpEvent(critics, joint)


def is_noisy(plan: Plan) -> bool:
    """Whether each query has Gaussian noise. A multiplier of 0 is none, whatever the class of its event."""
    return all(isinstance(event, GaussianDpEvent) and event.noise_multiplier > 0 for event, _ in plan)


def plan_of(*, draw: Draw, critics: int, batch_size: int, noise_multiplier: float, steps: int) -> Plan:
    """The plan of a run of `steps` answers."""
    event = event_of(draw=draw, critics=critics, batch_size=batch_size, noise_multiplier=noise_multiplier)
    return [(event, charges_of(draw=draw, critics=critics, answers=steps))]


def charges_of(*, draw: Draw, critics: int, answers: int) -> int:
    """How many charges so many answers need. For round_robin the last pass counts in full."""
    return -(-answers // critics) if draw == "round_robin" else answers


def relation_of(draw: Draw) -> NeighboringRelation:
    """Replace-one for the secret draw, which all its accountants know; add-or-remove-one for the others.

    The bounds hold for the other relation too: records go to shards at random and independently, so either changes one shard.
    """
    return REPLACE_ONE if draw == "secret" else ADD_OR_REMOVE_ONE
