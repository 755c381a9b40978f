"""From what a user asks (epsilon, delta, noise, steps) to the settings of a run and its promise. Reads no record."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from gossamer.data.card import DataCard
from gossamer.errors import BudgetError, RequestError, did_you_mean
from gossamer.methods import METHODS
from gossamer.privacy import accounting
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, Guarantee, NeighboringRelation, Plan

AGREE = 0.01
"""Where epsilon, noise multiplier and steps are all given, they must agree to this share of epsilon."""
MAY_BE_ZERO = ("warm_steps", "adversary_warm_epochs", "adversary_delay_epochs", "release")
"""Counts of which there may be none."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A run that is fully decided, before a record is read."""

    method: str
    config: Any
    card: DataCard
    epsilon: float
    delta: float
    plan: Plan
    bounds: tuple[accounting.Bound, ...]
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE

    @property
    def promise(self) -> Guarantee:
        """The figure that the certificate will print: the smallest of the bounds."""
        return min((bound.guarantee for bound in self.bounds), key=lambda guarantee: guarantee.epsilon)


def resolve(
    method: str,
    card: DataCard,
    settings: Mapping[str, Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Request:
    """Decide noise and steps from what is given.

    Args:
        method: a key of METHODS.
        card: the public facts.
        settings: the fields of the method's Config that the user gave.
        epsilon: the budget; infinity for the non-private twin; None to take what noise and steps cost.
        delta: needed unless epsilon is infinity.
        defaults: fields from a preset; `settings` and `epsilon` go before them.

    Raises:
        RequestError: if there is no such method or setting; names the nearest.
        BudgetError: if the request contradicts itself, or nothing meets it. Says what to change.
    """
    if reason_without_guarantee(method):
        return _without_guarantee(method, card, settings, epsilon=epsilon, delta=delta, defaults=defaults)
    if epsilon is not None and not epsilon > 0:
        raise BudgetError(
            f"--epsilon must be above 0, not {epsilon:g}: epsilon 0 would mean that no record may matter at all."
        )
    module = _method(method, settings)
    given = {name: value for name, value in settings.items() if value is not None}
    chosen = {**(defaults or {}), **given}
    if epsilon is not None and "noise_multiplier" not in given:
        chosen.pop("noise_multiplier", None)
    noise = chosen.pop("noise_multiplier", None)
    delta = checked_delta(delta, epsilon, card)

    def config(**decided: Any) -> Any:
        return checked_config(module.Config(**{**chosen, **decided}), card)

    relation = module.FACTS.relation(config(noise_multiplier=1.0))
    terms: dict[str, Any] = {"delta": delta, "relation": relation, "unit": card.unit}

    def plan_for_noise(value: float) -> Plan:
        return plan_of(method, config(noise_multiplier=value), card)

    def plan_for_steps(value: int) -> Plan:
        return plan_of(method, config(noise_multiplier=noise, steps=value), card)

    if epsilon is None and noise is None:
        raise BudgetError(
            "give --epsilon (the budget) or --noise-multiplier; together with --delta they decide the run."
        )
    if epsilon is not None and noise is None:
        noise = 0.0 if math.isinf(epsilon) else accounting.calibrate_noise(plan_for_noise, epsilon=epsilon, **terms)
    elif epsilon is not None and "steps" not in given and not math.isinf(epsilon):
        chosen["steps"] = accounting.calibrate_steps(plan_for_steps, epsilon=epsilon, **terms)
    decided = config(noise_multiplier=float(noise))
    plan = plan_of(method, decided, card)
    request = Request(
        method=method,
        config=decided,
        card=card,
        epsilon=math.inf if epsilon is None else epsilon,
        delta=delta,
        plan=plan,
        bounds=accounting.bounds(plan, **terms),
        relation=relation,
    )
    if epsilon is None:
        return dataclasses.replace(request, epsilon=request.promise.epsilon)
    if "noise_multiplier" in given:
        _check_agreement(request)
    return request


def reason_without_guarantee(method: str) -> str:
    """Why a method can promise nothing, whatever its settings. Empty for all others, and for a name that no method has."""
    return str(METHODS[method].FACTS.without_guarantee) if method in METHODS else ""


def _without_guarantee(
    method: str,
    card: DataCard,
    settings: Mapping[str, Any],
    *,
    epsilon: float | None,
    delta: float | None,
    defaults: Mapping[str, Any] | None,
) -> Request:
    """The request of a method whose epsilon is infinity: no budget to meet."""
    if epsilon is not None or delta is not None:
        named = " or ".join(
            f"--{name}" for name, value in {"epsilon": epsilon, "delta": delta}.items() if value is not None
        )
        meeting = ", ".join(name for name in METHODS if not reason_without_guarantee(name))
        raise BudgetError(
            f"{method} has no formal guarantee, so it takes no {named}: its epsilon is infinity whatever the settings. Leave "
            f"it out and give --epochs, or take a method that meets a budget: {meeting}."
        )
    module = _method(method, settings)
    given = {name: value for name, value in settings.items() if value is not None}
    config = checked_config(module.Config(**{**(defaults or {}), **given}), card)
    delta = checked_delta(None, math.inf, card)
    nothing = Guarantee(epsilon=math.inf, delta=delta, relation=ADD_OR_REMOVE_ONE, unit=card.unit)
    return Request(
        method=method, config=config, card=card, epsilon=math.inf, delta=delta, plan=plan_of(method, config, card),
        bounds=(accounting.Bound("none", nothing),),
    )  # fmt: skip


def _method(name: str, settings: Mapping[str, Any]) -> ModuleType:
    """The method of that name, if it has all these settings."""
    if name not in METHODS:
        raise RequestError(f"there is no method {name!r}.{did_you_mean(name, METHODS)} Known: {', '.join(METHODS)}.")
    fields = [field.name for field in dataclasses.fields(METHODS[name].Config)]
    for setting in settings:
        if setting not in fields:
            raise RequestError(
                f"{name} has no setting {setting!r}.{did_you_mean(setting, fields)} Known: {', '.join(fields)}."
            )
    return METHODS[name]


def plan_of(method: str, config: Any, card: DataCard) -> Plan:
    """The plan of a method, typed."""
    plan: Plan = METHODS[method].plan(config, card)
    return plan


def checked_delta(delta: float | None, epsilon: float | None, card: DataCard) -> float:
    """Delta, refused where it would promise nothing.

    Raises:
        BudgetError: if it is missing, not between 0 and 1, or at least 1 / declared size.
    """
    if delta is None:
        if epsilon is not None and math.isinf(epsilon):
            return 0.1 / card.declared_size  # epsilon is infinity at every delta; some number has to stand there
        raise BudgetError("--delta is missing. Choose a number well below 1 / (declared size), for example 1e-5.")
    if not 0 < delta < 1:
        raise BudgetError(f"--delta must lie between 0 and 1, not {delta:g}. A usual choice is 1e-5.")
    if delta >= 1 / card.declared_size:
        raise BudgetError(
            f"--delta {delta:g} is not below 1 / {card.declared_size:,} (the declared size): a release that hands out one "
            f"whole {card.unit} at random would meet it. Take {0.1 / card.declared_size:.0e} or less."
        )
    return delta


def checked_config(config: Any, card: DataCard) -> Any:
    """The config, refused where a number makes no sense; names the flag."""
    for field in dataclasses.fields(config):
        value, flag = getattr(config, field.name), "--" + field.name.replace("_", "-")
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if math.isnan(value) or value < 0 or (math.isinf(value) and field.name != "max_norm"):
            raise BudgetError(f"{flag} must be a finite number of zero or more, not {value}.")
        if value == 0 and isinstance(value, int) and field.name not in MAY_BE_ZERO:
            raise BudgetError(f"{flag} must be at least 1.")
    if getattr(config, "max_norm", 1.0) == 0:
        raise BudgetError("--max-norm must be above 0: with 0 every record would contribute nothing.")
    if getattr(config, "average_decay", 0.0) >= 1:
        raise BudgetError(
            f"--average-decay must be below 1, not {config.average_decay:g}: with 1 the average never moves, and the weights "
            "of the start would be released."
        )
    if getattr(config, "expected_batch_size", 0) > card.declared_size:
        raise BudgetError(
            f"--expected-batch-size {config.expected_batch_size:,} is more than the declared size {card.declared_size:,}: "
            "records would have to be drawn with a probability above 1. Take a smaller batch."
        )
    return config


def _check_agreement(request: Request) -> None:
    cost, epsilon = request.promise.epsilon, request.epsilon
    if math.isinf(epsilon) and not math.isinf(cost):
        raise BudgetError(
            f"--epsilon inf asks for the non-private twin, but --noise-multiplier {request.config.noise_multiplier:g} "
            "asks for noise. Drop one of them."
        )
    if not math.isinf(epsilon) and not (1 - AGREE) * epsilon <= cost <= epsilon:
        raise BudgetError(
            f"--epsilon {epsilon:g}, --noise-multiplier {request.config.noise_multiplier:g} and --steps "
            f"{request.config.steps:,} do not agree: this noise over these steps costs {request.promise}. Drop one of the "
            "three and it is worked out from the other two."
        )
