"""The noise, the steps or the sampling rate for a budget: `cost.guarantee` solved for one of them, to the last digit."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from gossamer.errors import BudgetError
from gossamer.privacy.accounting import accountants
from gossamer.privacy.accounting.cost import check_delta
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, NeighboringRelation, Plan, Terms

_CLOSE = 1e-3  # a search ends where the printed epsilon is at most this part below the target
_MOST_STEPS = 10**9


def calibrate_noise(plan_for: Callable[[float], Plan], *, epsilon: float, **terms: Unpack[Terms]) -> float:
    """Return the smallest noise multiplier whose printed guarantee meets epsilon, rounded up to 6 digits.

    Args:
        plan_for: the plan at a value; here it must cost less the higher the noise.
        epsilon: the target, above 0. For infinity the answer is 0.
        terms: delta, in (0, 1); which data sets are neighbours; whose contribution is protected, for the message.

    Raises:
        BudgetError: epsilon or delta is out of range, or no noise multiplier up to 10,000 meets the budget.
    """
    return _solve(_NOISE, plan_for, epsilon, **terms)


def calibrate_steps(plan_for: Callable[[int], Plan], *, epsilon: float, **terms: Unpack[Terms]) -> int:
    """Return the most steps whose printed guarantee meets epsilon (to within 0.1 % of epsilon, or to the step).

    The arguments are those of `calibrate_noise`.

    Raises:
        BudgetError: epsilon or delta is out of range, one step already costs more, or a thousand million cost less.
    """
    steps = int(_solve(_STEPS, lambda value: plan_for(int(value)), epsilon, **terms))
    if steps >= _MOST_STEPS:
        raise BudgetError(
            f"even {_MOST_STEPS:,} steps cost less than epsilon {epsilon:g}. Give the number of steps, or a smaller epsilon."
        )
    return steps


def calibrate_rate(plan_for: Callable[[float], Plan], *, epsilon: float, **terms: Unpack[Terms]) -> float:
    """Return the largest sampling rate whose printed guarantee meets epsilon, rounded down to 6 digits; at most 1.

    The arguments are those of `calibrate_noise`. For epsilon infinity the answer is 1.

    Raises:
        BudgetError: epsilon or delta is out of range, or no sampling rate down to 1e-9 meets the budget.
    """
    return _solve(_RATE, plan_for, epsilon, **terms)


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """What a search may vary, from cheapest to dearest. Its place is its logarithm, signed so that epsilon grows with it.

    Args:
        cheapest, dearest: the ends of the range.
        start: the first value to try.
        slope: first guess at d log(epsilon) / d place.
        snap: rounds a value towards the cheapest, to a value that may be returned.
        unlimited: the value for epsilon infinity.
        none: says that no value meets the budget.
        instead: what else would bring the plan to the budget.
        unit: the least distance of two values; 0 where they are dense.
    """

    cheapest: float
    dearest: float
    start: float
    slope: float
    snap: Callable[[float], float]
    unlimited: float
    none: str
    instead: str
    unit: int = 0

    def place(self, value: float) -> float:
        return math.log(value) if self.dearest > self.cheapest else -math.log(value)

    def value(self, place: float) -> float:
        if place <= self.place(self.cheapest):
            return self.cheapest
        if place >= self.place(self.dearest):
            return self.dearest
        return self.snap(math.exp(place if self.dearest > self.cheapest else -place))

    def guess(self, seen: Sequence[tuple[float, float]]) -> float:
        """The place where log(epsilon / target) should be zero. seen: (place, log(epsilon / target)), finite."""
        (here, height), *others = sorted(seen, key=lambda point: abs(point[1]))[:2]
        slope = self.slope
        if others and others[0][0] != here:
            slope = max((others[0][1] - height) / (others[0][0] - here), self.slope / 10)
        return here - height / slope


_NOISE = _Axis(
    cheapest=1e4,
    dearest=1e-2,
    start=1.0,
    slope=1.5,
    snap=lambda value: _six_digits(value, up=True),
    unlimited=0.0,
    none="no noise multiplier up to 10000 brings this plan to",
    instead="fewer steps, or a smaller sampling rate",
)
_STEPS = _Axis(
    cheapest=1,
    dearest=_MOST_STEPS,
    start=1000,
    slope=0.5,
    snap=math.floor,
    unlimited=_MOST_STEPS,
    none="a single step already costs more than",
    instead="a higher noise multiplier, or a smaller sampling rate",
    unit=1,
)
_RATE = _Axis(
    cheapest=1e-9,
    dearest=1.0,
    start=1e-2,
    slope=1.0,
    snap=lambda value: _six_digits(value, up=False),
    unlimited=1.0,
    none="no sampling rate down to 1e-09 brings this plan to",
    instead="fewer steps, or a higher noise multiplier",
)


def _solve(
    axis: _Axis,
    plan_for: Callable[[float], Plan],
    epsilon: float,
    *,
    delta: float,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    unit: str = "record",
) -> float:
    """The dearest value whose printed epsilon meets the target. `SCOUTS` find where to begin."""
    check_delta(delta)
    if not epsilon > 0:
        raise BudgetError(f"epsilon must be above 0, not {epsilon}: 1 is a strong promise, 10 a common one")
    if epsilon == math.inf:
        return axis.unlimited

    def cost(value: float, among: Sequence[accountants.Accountant]) -> float:
        flat = accountants.flatten(plan_for(value))
        accountants.refuse_unknown(flat, relation)
        able = accountants.accountants_for(flat, relation, among)
        return min((accountants.bound(each, flat, delta=delta, relation=relation) for each in able), default=math.inf)

    solution: float | None = axis.start
    for among, close in [*zip(accountants.SCOUTS, (0.05, _CLOSE), strict=True), (accountants.ACCOUNTANTS, _CLOSE)]:
        spent, start = functools.partial(cost, among=among), axis.cheapest if solution is None else solution
        solution = _edge(spent, epsilon, axis, start=start, close=close)
    if solution is None:
        raise BudgetError(
            f"{axis.none} epsilon {epsilon:g} at delta {delta:g} per {unit}. Allow a larger epsilon or delta, {axis.instead}."
        )
    return solution


def _edge(cost: Callable[[float], float], target: float, axis: _Axis, *, start: float, close: float) -> float | None:
    """The dearest value that costs at most the target, or up to a part `close` less; None where there is none.

    A secant on logarithmic scales that aims a little below the target; every fourth turn bisects the bracket.
    """
    good: float | None = None
    bad: float | None = None
    value = start
    seen: list[tuple[float, float]] = []
    turn = 0
    while True:
        turn += 1
        spent = cost(value)
        if spent <= target:
            good = value
            if spent >= (1 - close) * target or value == axis.dearest:
                break
        else:
            bad = value
            if value == axis.cheapest:
                break
        if 0 < spent < math.inf:
            seen.append((axis.place(value), math.log(spent / target) + close / 4))
        value = _next(axis, good, bad, seen, bisect=turn % 4 == 0)
        if value in (good, bad):
            break
    return good


def _next(
    axis: _Axis, good: float | None, bad: float | None, seen: Sequence[tuple[float, float]], *, bisect: bool
) -> float:
    """Where to look next: between good and bad where both are known, else beyond the one that is."""
    low = -math.inf if good is None else axis.place(good)
    high = math.inf if bad is None else axis.place(bad)
    stride = math.log(10)
    place = axis.guess(seen) if seen else (low + stride if bad is None else high - stride)
    if good is None:
        place = min(max(place, high - stride), high - 1e-3)
    elif bad is None:
        place = max(min(place, low + stride), low + 1e-3)
    elif bisect or not low < place < high:
        place = (low + high) / 2
    value = axis.value(place)
    return value + axis.unit if value == good else value


def _six_digits(value: float, *, up: bool) -> float:
    """Rounded to 6 significant digits, up or down; a value that has no more keeps its own."""
    scale = 10.0 ** (5 - math.floor(math.log10(value)))
    digits = round(value * scale, 6)  # rounding errors below the sixth digit are not a reason to move
    return (math.ceil(digits) if up else math.floor(digits)) / scale
