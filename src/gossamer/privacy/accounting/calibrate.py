"""The noise, the steps or the sampling rate for a budget: `cost.guarantee` solved for one of them, to the last digit."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gossamer.errors import BudgetError
from gossamer.privacy.accounting.accountants import (
    ACCOUNTANTS,
    SCOUTS,
    Accountant,
    accountants_for,
    bound,
    flatten,
    refuse_unknown,
)
from gossamer.privacy.accounting.cost import check_delta
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, NeighboringRelation, Plan

_CLOSE = 1e-3  # a search ends where the printed epsilon is at most this part below the target
_NOISE = (1e-2, 1e4)  # the least noise multiplier that is returned, and the most that is tried
_MOST_STEPS = 10**9
_LEAST_RATE = 1e-9


def calibrate_noise(
    plan_for: Callable[[float], Plan],
    *,
    epsilon: float,
    delta: float,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    unit: str = "record",
) -> float:
    """Return the smallest noise multiplier whose printed guarantee meets epsilon, rounded up to 6 digits.

    Args:
        plan_for: the plan at a value; here it must cost less the higher the noise.
        epsilon: the target, above 0. For infinity the answer is 0.
        delta: in (0, 1).
        relation: which data sets are neighbours.
        unit: whose contribution is protected, for the message.

    Raises:
        BudgetError: epsilon or delta is out of range, or no noise multiplier up to 10,000 meets the budget.
    """
    if epsilon == math.inf:
        return 0.0
    low, high = _NOISE
    costs = _Costs(plan_for, epsilon, delta, relation)
    noise = _solve(costs, _Axis(high, low, start=1.0, slope=1.5, snap=functools.partial(_six_digits, up=True)))
    if noise is None:
        raise BudgetError(
            f"no noise multiplier up to {high:g} brings this plan to epsilon {epsilon:g} at delta {delta:g} per {unit}. "
            "Allow a larger epsilon or delta, fewer steps, or a smaller sampling rate."
        )
    return noise


def calibrate_steps(
    plan_for: Callable[[int], Plan],
    *,
    epsilon: float,
    delta: float,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    unit: str = "record",
) -> int:
    """Return the most steps whose printed guarantee meets epsilon (to within 0.1 % of epsilon, or to the step).

    The arguments are those of `calibrate_noise`.

    Raises:
        BudgetError: epsilon or delta is out of range, one step already costs more, or a thousand million cost less.
    """
    costs = _Costs(lambda steps: plan_for(int(steps)), epsilon, delta, relation)
    axis = _Axis(1, _MOST_STEPS, start=1000, slope=0.5, snap=math.floor, unit=1)
    steps = _MOST_STEPS if epsilon == math.inf else _solve(costs, axis)
    if steps is None:
        raise BudgetError(
            f"a single step already costs more than epsilon {epsilon:g} at delta {delta:g} per {unit}. Allow a larger epsilon "
            "or delta, a higher noise multiplier, or a smaller sampling rate."
        )
    if steps >= _MOST_STEPS:
        raise BudgetError(
            f"even {_MOST_STEPS:,} steps cost less than epsilon {epsilon:g}. Give the number of steps, or a smaller epsilon."
        )
    return int(steps)


def calibrate_rate(
    plan_for: Callable[[float], Plan],
    *,
    epsilon: float,
    delta: float,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    unit: str = "record",
) -> float:
    """Return the largest sampling rate whose printed guarantee meets epsilon, rounded down to 6 digits; at most 1.

    The arguments are those of `calibrate_noise`. For epsilon infinity the answer is 1.

    Raises:
        BudgetError: epsilon or delta is out of range, or no sampling rate down to 1e-9 meets the budget.
    """
    costs = _Costs(plan_for, epsilon, delta, relation)
    axis = _Axis(_LEAST_RATE, 1.0, start=1e-2, slope=1.0, snap=functools.partial(_six_digits, up=False))
    rate = 1.0 if epsilon == math.inf else _solve(costs, axis)
    if rate is None:
        raise BudgetError(
            f"no sampling rate down to {_LEAST_RATE:g} brings this plan to epsilon {epsilon:g} at delta {delta:g} per {unit}. "
            "Allow a larger epsilon or delta, fewer steps, or a higher noise multiplier."
        )
    return rate


@dataclass(frozen=True)
class _Costs:
    """What the plan at a value costs; by all accountants, the figure that is printed."""

    plan_for: Callable[[float], Plan]
    target: float
    delta: float
    relation: NeighboringRelation

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if not self.target > 0:
            raise BudgetError(f"epsilon must be above 0, not {self.target}: 1 is a strong promise, 10 a common one")

    def at(self, value: float, among: Sequence[Accountant]) -> float:
        flat = flatten(self.plan_for(value))
        refuse_unknown(flat, self.relation)
        accountants = accountants_for(flat, self.relation, among)
        costs = (bound(accountant, flat, delta=self.delta, relation=self.relation) for accountant in accountants)
        return min(costs, default=math.inf)


@dataclass(frozen=True)
class _Axis:
    """What a search may vary, from cheapest to dearest. Its place is its logarithm, signed so that epsilon grows with it.

    Args:
        cheapest, dearest: the ends of the range.
        start: the first value to try.
        slope: first guess at d log(epsilon) / d place.
        snap: rounds a value towards the cheapest, to a value that may be returned.
        unit: the least distance of two values; 0 where they are dense.
    """

    cheapest: float
    dearest: float
    start: float
    slope: float
    snap: Callable[[float], float]
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


def _solve(costs: _Costs, axis: _Axis) -> float | None:
    """The dearest value whose printed epsilon meets the target, or None. `SCOUTS` find where to begin."""
    solution: float | None = axis.start
    for among, close in [*zip(SCOUTS, (0.05, _CLOSE), strict=True), (ACCOUNTANTS, _CLOSE)]:
        cost = functools.partial(costs.at, among=among)
        solution = _edge(cost, costs.target, axis, start=axis.cheapest if solution is None else solution, close=close)
    return solution


def _edge(cost: Callable[[float], float], target: float, axis: _Axis, *, start: float, close: float) -> float | None:
    """The dearest value that costs at most the target, or up to a part `close` less; None where there is none.

    A secant on logarithmic scales that aims a little below the target; every fourth turn bisects the bracket.
    """
    good: float | None = None
    bad: float | None = None
    value = start
    seen: list[tuple[float, float]] = []
    for turn in itertools.count(1):
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
