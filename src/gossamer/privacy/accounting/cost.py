"""What a plan costs: from what a run may release to (epsilon, delta), by the accountants that know it (`accountants.py`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from gossamer.errors import BudgetError
from gossamer.privacy.accounting.accountants import (
    CURVES,
    NOISE_END,
    accountants_for,
    bound,
    delta_left,
    flatten,
    refuse_unknown,
)
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, Guarantee, NeighboringRelation, Plan, Terms


@dataclass(frozen=True)
class Bound:
    """What one accountant can prove. Epsilon is infinity where the plan has a release without noise."""

    accountant: str
    guarantee: Guarantee


def bounds(
    plan: Plan, *, delta: float, relation: NeighboringRelation = ADD_OR_REMOVE_ONE, unit: str = "record"
) -> tuple[Bound, ...]:
    """Return a bound from every accountant that knows all events of the plan, in the order of `ACCOUNTANTS`.

    Raises:
        BudgetError: delta or an event is out of range, or no accountant knows the plan under this relation.
    """
    check_delta(delta)
    flat = flatten(plan)
    refuse_unknown(flat, relation)
    if delta_left(flat, delta) <= 0:
        raise _too_small(delta, delta - delta_left(flat, delta))

    found = [(each.name, bound(each, flat, delta=delta, relation=relation)) for each in accountants_for(flat, relation)]
    terms = Terms(delta=delta, relation=relation, unit=unit)
    return tuple(Bound(name, Guarantee(epsilon=epsilon, **terms)) for name, epsilon in found)


def guarantee(plan: Plan, **terms: Unpack[Terms]) -> Guarantee:
    """Return the smallest of `bounds`: what the certificate prints, and what `--epsilon` must meet."""
    return smallest(bounds(plan, **terms))


def smallest(bounds: Sequence[Bound]) -> Guarantee:
    """The one that counts."""
    return min((bound.guarantee for bound in bounds), key=lambda guarantee: guarantee.epsilon)


class Odometer:
    """Epsilon used so far, quick enough for every step of a run. A display by RDP alone, not a guarantee.

    The certificate states the reserved plan (`guarantee`). It is unsound to stop by looking at outputs and quote this.

    Raises:
        BudgetError: delta or an event is out of range, or RDP does not know an event.
    """

    def __init__(self, plan: Plan, *, delta: float, relation: NeighboringRelation = ADD_OR_REMOVE_ONE) -> None:
        check_delta(delta)
        entries = [flatten([(event, 1)]) for event, _ in plan]
        events = [event for entry in entries for event, _ in entry]
        able = [accountant for accountant in CURVES if all(accountant.knows(event, relation) for event in events)]
        if not able:
            raise BudgetError("epsilon spent so far cannot be shown: RDP does not know every event of this plan")
        self._delta, self._rdp = delta, able[0]
        self._curves = [self._rdp.curve(entry, relation) for entry in entries]

    def epsilon(self, counts: Sequence[int]) -> float:
        """Epsilon after `counts[i]` releases of the i-th event of the plan. About 0.2 ms."""
        total = self._rdp.curve((), ADD_OR_REMOVE_ONE)
        for count, curve in zip(counts, self._curves, strict=True):
            if count:  # zero times infinity is not a number
                total += count * curve
        return self._rdp.convert(total, self._delta)


def check_delta(delta: float) -> None:
    """Refuse a delta that is out of range, or smaller than what the end of the noise may add to one query."""
    if not 0 < delta < 1:
        raise BudgetError(f"delta must lie between 0 and 1, not {delta}: choose one well below 1 / the number of units")
    if delta <= NOISE_END:
        raise _too_small(delta, NOISE_END)


def _too_small(delta: float, least: float) -> BudgetError:
    return BudgetError(
        f"delta {delta:g} cannot be proved: the precision of the noise alone may add {least:.1e}. Choose a larger delta, for "
        "example 1e-10."
    )
