"""The accountants: each bounds what a plan costs, or says that it does not know an event.

Two are of dp_accounting: Renyi differential privacy (RDP; Mironov, Talwar and Zhang 2019) and privacy loss distributions (PLD;
Doroshenko et al. 2022, "Connect the dots"). To PLD we add the distribution of a secret draw (`secret_draw.py`). Two are
our own, for queries whose draw is known (`revealed_draw.py`).
"""

import functools
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import dp_accounting
import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import privacy_loss_distribution as loss

from gossamer.errors import BudgetError
from gossamer.privacy.accounting import poisson_draw, secret_draw
from gossamer.privacy.accounting.revealed_draw import RevealedDrawGaussianDpEvent, RevealedMixture
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, RELATION_NAMES, REPLACE_ONE, NeighboringRelation, Plan

FlatPlan: TypeAlias = tuple[tuple[DpEvent, int], ...]
"""A plan without compositions, each event once: hashable, so that its cost can be remembered."""

_ORDERS: np.ndarray = dp_accounting.rdp.RdpAccountant().orders
_COARSEST_GRID = 1e-4
_LOOSEST_GRID = 0.05
_MOST_STEPS = 2_000_000  # beyond, dp_accounting takes minutes: it computes (cells of one step) ** steps as an integer
_MOST_OFTEN = 2**53  # counts stay exact in float64
NOISE_END = 2.0**-100
"""What the end of the noise may add to delta, for each query. `noise.py` says why."""
_FFT_ROUNDING = 2.0**-52  # of delta, per composed step; the worst seen against exact Gaussians was 2^-54.8


class Accountant(Protocol):
    """One way to bound the cost of a plan."""

    @property
    def name(self) -> str:
        """As the certificate prints it."""

    def knows(self, event: DpEvent, relation: NeighboringRelation, /) -> bool:
        """Whether it can bound this event (no composition) under this relation."""

    def epsilon(self, plan: FlatPlan, /, *, delta: float, relation: NeighboringRelation) -> float:
        """An upper bound on epsilon at delta, in (0, 1), for a plan of events that it knows."""


class Rdp:
    """dp_accounting's RdpAccountant, with its orders and its conversion."""

    name = "RDP"
    orders: ClassVar[np.ndarray] = _ORDERS

    def knows(self, event: DpEvent, relation: NeighboringRelation) -> bool:
        """Gaussians: plain or Poisson-sampled (add-or-remove-one), or sampled without replacement (replace-one).

        Plain ones are refused under replace-one, where exchanging a record may move a sum by twice the sensitivity.
        """
        match event:
            case PoissonSampledDpEvent(event=GaussianDpEvent()) | GaussianDpEvent():
                return relation is ADD_OR_REMOVE_ONE
            case SampledWithoutReplacementDpEvent(event=GaussianDpEvent()):
                return relation is REPLACE_ONE
            case _:
                return isinstance(event, NonPrivateDpEvent)

    def curve(self, plan: FlatPlan, relation: NeighboringRelation) -> np.ndarray:
        """Renyi divergence of the whole plan at every order. float64 [orders]; linear in the counts."""
        total = np.zeros(len(_ORDERS))
        for event, count in plan:
            total += count * _renyi_divergence(event, relation)
        return total

    def convert(self, curve: np.ndarray, delta: float) -> float:
        """Epsilon at delta, the best over the orders (Canonne, Kamath and Steinke 2020, Proposition 12)."""
        return float(dp_accounting.rdp.compute_epsilon(self.orders.tolist(), curve.tolist(), delta)[0])

    def epsilon(self, plan: FlatPlan, *, delta: float, relation: NeighboringRelation) -> float:
        return self.convert(self.curve(plan, relation), delta)


class RevealedRdp(Rdp):
    """Renyi divergence of revealed draws: log(1 - 1/K + exp(a (a - 1) / (2 s^2)) / K) / (a - 1) at order a."""

    name = "revealed RDP"
    orders = np.unique(np.round(np.concatenate([np.arange(1.02, 2, 0.01), _ORDERS]), 2))

    def knows(self, event: DpEvent, relation: NeighboringRelation) -> bool:
        """Revealed draws and nothing else, under add-or-remove-one and replace-one."""
        return isinstance(event, RevealedDrawGaussianDpEvent) and relation in RELATION_NAMES

    def curve(self, plan: FlatPlan, relation: NeighboringRelation) -> np.ndarray:  # noqa: ARG002 (both relations alike)
        """Renyi divergence of the whole plan at every order. float64 [orders]; linear in the counts."""
        total, orders = np.zeros(len(self.orders)), self.orders
        for event, count in plan:
            if isinstance(event, RevealedDrawGaussianDpEvent) and event.noise_multiplier > 0:
                exponent = orders * (orders - 1) / (2 * event.noise_multiplier**2) - math.log(event.population)
                not_drawn = math.log1p(-1 / event.population) if event.population > 1 else -math.inf
                total += count * np.logaddexp(not_drawn, exponent) / (orders - 1)
            else:
                total += math.inf
        return total


@dataclass(frozen=True)
class Pld:
    """dp_accounting's privacy loss distributions, composed as its PLDAccountant does, with two differences.

    The grid of losses is at most min(1e-4, sampling_rate / (4 noise_multiplier)), for secret draws a quarter of the second. It
    is coarser where that would take more than `most_cells`. Every grid gives an upper bound, a coarse grid a loose bound.

    Self-composition raises a Fourier transform to the power of the steps, and its rounding errors grow by that factor.
    This error is subtracted from delta first.

    The bound is infinity where nothing of delta is left, where `most_cells` would be coarser than 0.05, beyond two million
    steps, and where the arithmetic overflows. RDP alone then counts.
    """

    most_cells: int = 1_000_000
    name: ClassVar[str] = "PLD"

    def knows(self, event: DpEvent, relation: NeighboringRelation) -> bool:
        """Gaussians, plain or Poisson-sampled, under add-or-remove-one; sampled without replacement, under replace-one.

        It also knows one of K, drawn in secret, under add-or-remove-one: units go to the K parts at random.
        """
        match event:
            case PoissonSampledDpEvent(event=GaussianDpEvent()) | GaussianDpEvent() | NonPrivateDpEvent():
                return relation is ADD_OR_REMOVE_ONE
            case SampledWithoutReplacementDpEvent(event=GaussianDpEvent(), sample_size=drawn):
                return relation is REPLACE_ONE or (relation is ADD_OR_REMOVE_ONE and drawn == 1)
            case _:
                return False

    def epsilon(self, plan: FlatPlan, *, delta: float, relation: NeighboringRelation) -> float:  # noqa: ARG002 (one relation)
        return _pld_epsilon(plan, delta, _grid(plan, self.most_cells))


ACCOUNTANTS: tuple[Accountant, ...] = (Rdp(), Pld(), RevealedMixture(), RevealedRdp())
"""All: what a certificate carries."""

CURVES: tuple[Rdp, ...] = (Rdp(), RevealedRdp())
"""Those whose cost is linear in the counts, so that it can be shown at every step."""

SCOUTS: tuple[tuple[Accountant, ...], ...] = (
    (Rdp(), RevealedMixture()),
    (Rdp(), Pld(most_cells=100_000), RevealedMixture()),
)
"""Faster sets, with which a search begins before it uses all accountants."""


def accountants_for(
    plan: FlatPlan, relation: NeighboringRelation, among: Sequence[Accountant] = ACCOUNTANTS
) -> tuple[Accountant, ...]:
    """Return the accountants, if any, that know every event of the plan. The general ones know an empty plan."""
    events = [event for event, _ in plan] or [NonPrivateDpEvent()]
    return tuple(accountant for accountant in among if all(accountant.knows(event, relation) for event in events))


def delta_left(plan: FlatPlan, delta: float) -> float:
    """What is left of delta for the accountants when the end of the noise is taken off. Zero or less: no bound holds."""
    return delta - NOISE_END * sum(count for _, count in plan)


def bound(accountant: Accountant, plan: FlatPlan, *, delta: float, relation: NeighboringRelation) -> float:
    """Epsilon at delta, by one accountant, for noise as it is drawn. Infinity where nothing of delta is left."""
    left = delta_left(plan, delta)
    return accountant.epsilon(plan, delta=left, relation=relation) if left > 0 else math.inf


def refuse_unknown(plan: FlatPlan, relation: NeighboringRelation) -> None:
    """Raise BudgetError where no accountant knows every event of the plan."""
    if not accountants_for(plan, relation):
        names = sorted({type(event).__name__ for event, _ in plan})
        raise BudgetError(
            f"no accountant can bound a plan of {', '.join(names)} under {RELATION_NAMES[relation]}. Plain and Poisson-sampled "
            "Gaussians go with add-or-remove-one, sampling without replacement with replace-one."
        )


def flatten(plan: Plan) -> FlatPlan:
    """The plan without compositions and without empty entries, equal events counted together.

    Raises:
        BudgetError: a count, noise multiplier, sampling rate or sample size is out of range.
    """
    flat: list[tuple[DpEvent, int]] = []
    for event, count in (part for entry in plan for part in _parts(*entry)):
        # Search by equality: an event that holds a list has no hash.
        place = next((i for i, (seen, _) in enumerate(flat) if seen == event), len(flat))
        before = flat[place][1] if place < len(flat) else 0
        flat[place : place + 1] = [(event, before + count)]
    return tuple(flat)


def _parts(event: DpEvent, count: int) -> Iterator[tuple[DpEvent, int]]:
    """The simple events of which `count` times `event` consists, checked."""
    if not 0 <= count <= _MOST_OFTEN:
        raise BudgetError(f"an event must happen between 0 and {_MOST_OFTEN} times, not {count}")
    if isinstance(event, SelfComposedDpEvent):
        yield from _parts(event.event, event.count * count)
    elif isinstance(event, ComposedDpEvent):
        for part in event.events:
            yield from _parts(part, count)
    elif count:
        _check(event)
        yield event, count


def _check(event: DpEvent) -> None:
    """Refuse noise multipliers, rates and sizes out of range."""
    match event:
        case GaussianDpEvent(noise_multiplier=noise) if not 0 <= noise < math.inf:
            raise BudgetError(f"a noise multiplier must be a finite number, zero or more, not {noise}")
        case PoissonSampledDpEvent(sampling_probability=rate) if not 0 <= rate <= 1:
            raise BudgetError(f"a sampling rate is a probability between 0 and 1, not {rate}")
        case RevealedDrawGaussianDpEvent(population=parts, noise_multiplier=noise) if not (
            parts >= 1 and 0 <= noise < math.inf
        ):
            raise BudgetError(f"one of {parts} parts with a noise multiplier of {noise} cannot be drawn")
        case SampledWithoutReplacementDpEvent(source_dataset_size=whole, sample_size=drawn) if not 0 < drawn <= whole:
            raise BudgetError(f"{drawn} cannot be drawn from {whole} without replacement")
    if isinstance(event, PoissonSampledDpEvent | SampledWithoutReplacementDpEvent):
        _check(event.event)


def _no_excluded_order(record: logging.LogRecord) -> bool:
    """Drops the message that an order of RDP was left out: sound, and nothing that a user can act on."""
    return "Excluding this order" not in record.getMessage()


@functools.lru_cache(maxsize=512)
def _renyi_divergence(event: DpEvent, relation: NeighboringRelation) -> np.ndarray:
    """Of one release, at every order. [orders], infinity where rounding errors made it negative."""
    match event:
        case SampledWithoutReplacementDpEvent(event=GaussianDpEvent(noise_multiplier=0)):
            return np.full(len(_ORDERS), math.inf)  # dp_accounting divides by it
    accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation)
    log = logging.getLogger("absl")
    log.addFilter(_no_excluded_order)
    try:
        curve: np.ndarray = accountant.compose(event).rdp
    finally:
        log.removeFilter(_no_excluded_order)
    curve[curve < 0] = math.inf  # dp_accounting would read a negative divergence as epsilon 0
    curve.setflags(write=False)
    return curve


@functools.lru_cache(maxsize=512)
def _pld_epsilon(plan: FlatPlan, delta: float, grid: float) -> float:
    """See `Pld`. Under add-or-remove-one."""
    steps = sum(count for _, count in plan)
    left = delta - _FFT_ROUNDING * steps
    if left <= 0 or grid > _LOOSEST_GRID or steps > _MOST_STEPS:
        return math.inf
    if any(rate_and_noise(event)[1] == 0 < rate_and_noise(event)[0] for event, _ in plan):
        return math.inf
    try:
        with np.errstate(over="raise", invalid="raise"):
            return float(_whole(plan, grid).get_epsilon_for_delta(left))
    except ArithmeticError:
        return math.inf


@functools.lru_cache(maxsize=2)  # a certificate asks for one plan at several deltas; a million cells are large
def _whole(plan: FlatPlan, grid: float) -> loss.PrivacyLossDistribution:
    """The privacy losses of a plan."""
    whole = loss.identity(value_discretization_interval=grid)
    for event, count in plan:
        whole = whole.compose(_losses(event, count, grid))
    return whole


def _losses(event: DpEvent, count: int, grid: float) -> loss.PrivacyLossDistribution:
    """The privacy losses of `count` releases, as a dominating pair."""
    rate, noise = rate_and_noise(event)
    if rate == 0:
        return loss.identity(value_discretization_interval=grid)
    if isinstance(event, GaussianDpEvent):  # a composition of plain Gaussians is one Gaussian
        return poisson_draw.distribution(1.0, noise / math.sqrt(count), grid)
    if isinstance(event, SampledWithoutReplacementDpEvent):
        with np.errstate(under="ignore"):
            return secret_draw.distribution(rate, noise, grid).self_compose(count)
    return poisson_draw.distribution(rate, noise, grid).self_compose(count)


def rate_and_noise(event: DpEvent) -> tuple[float, float]:
    """Probability with which a record takes part in a release, and the noise multiplier; noise 0 where nothing is private."""
    match event:
        case PoissonSampledDpEvent(sampling_probability=rate, event=GaussianDpEvent(noise_multiplier=noise)):
            return rate, noise
        case SampledWithoutReplacementDpEvent(
            source_dataset_size=whole, sample_size=drawn, event=GaussianDpEvent(noise_multiplier=noise)
        ):
            return drawn / whole, noise
        case RevealedDrawGaussianDpEvent(population=parts, noise_multiplier=noise):
            return 1 / parts, noise
        case GaussianDpEvent(noise_multiplier=noise):
            return 1.0, noise
        case _:
            return 1.0, 0.0


def _grid(plan: FlatPlan, most_cells: int) -> float:
    """Width of a cell of privacy loss: the finest rule of all events, or what `most_cells` allow for all of them together.

    An event with hardly any noise has losses a million wide, and shares its grid with one that asks for a fine one.
    """
    parts = [_rule_and_width(event, count) for event, count in plan]
    finest = min((rule for rule, _ in parts), default=_COARSEST_GRID)
    return max(finest, math.fsum(width for _, width in parts) / most_cells)


def _rule_and_width(event: DpEvent, count: int) -> tuple[float, float]:
    """Width of a cell as the rule has it, and of all losses of an event.

    The cells cover the losses of one step between -10 and 10 standard deviations of noise. Of the composition they cover what
    the accountant's Chernoff bounds (orders k / range for k up to 20, tail 1e-15) cannot exclude.
    """
    rate, sigma = rate_and_noise(event)
    if sigma == 0 or rate == 0:
        return _COARSEST_GRID, 0.0
    if isinstance(event, GaussianDpEvent):  # a composition of plain Gaussians is one Gaussian
        sigma, count = sigma / math.sqrt(count), 1
    rule = min(_COARSEST_GRID, rate / (4 * sigma))
    if isinstance(event, SampledWithoutReplacementDpEvent):
        rule = min(rule, rate / (16 * sigma))
        width = 2 * secret_draw.largest_loss(rate, sigma)
    else:
        ratios = np.array([-10, 10]) / sigma + np.array([-0.5, 0.5]) / sigma**2
        not_drawn = math.log1p(-rate) if rate < 1 else -math.inf
        width = float(np.ptp(np.logaddexp(not_drawn, math.log(rate) + ratios)))
    variance = min(rate**2 * math.expm1(min(1 / sigma**2, 700)), width**2)
    composed = min(count * variance * k / width + 70 * width / k for k in range(1, 21))
    return rule, float(width + min(composed, count * width))
