"""From what a user asks (epsilon, delta, noise, steps) to the settings of a run and its promise. Reads no record."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, Unpack, get_args, get_origin, get_type_hints

from dp_accounting import GaussianDpEvent

from gossamer import plugins
from gossamer.data.tables.any_card import AnyCard
from gossamer.errors import BudgetError, RequestError, did_you_mean
from gossamer.kinds import kind_of
from gossamer.kinds.score import Score
from gossamer.methods import METHODS
from gossamer.methods.contract import AnyMethod, BaseConfig, MaybeZero, Start, State
from gossamer.methods.job import Job, refuse_other_kind
from gossamer.methods.registry import AUTO, allow, asked, method_of_config
from gossamer.privacy.accounting import calibrate, cost
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, Guarantee, Plan, Terms
from gossamer.run.storage.run_plan import Look, RunPlan
from gossamer.run.training import automatic, presets
from gossamer.run.validation import check_type, checked_arguments, plain, refuse_misspelt

AUTO_SCORE = 0.03
"""The score of `auto` where none is asked for: its share of the budget."""
AGREE = 0.01
"""Where epsilon, noise multiplier and steps are all given, they must agree to this share of epsilon."""
_LEAST_NOISE, _MOST_NOISE = 1e-20, 1e20
"""Noise multiplier times bound: well within what `Rng.add_gaussian_` draws, whatever a method multiplies it with."""


class Declared(Protocol):
    """What states the number of units, and what a unit is called: a card, or an engine."""

    @property
    def declared_size(self) -> int: ...
    @property
    def unit(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Request:
    """A run that is fully decided, before a record is read.

    Args:
        asks: its queries, and each job that it may choose.
        epsilon: the budget; where none was given, what noise and steps cost.
        delta: of the guarantee.
        bounds: their cost, by every accountant that knows the events; empty: nobody has computed it.
    """

    asks: RunPlan
    epsilon: float
    delta: float
    bounds: tuple[cost.Bound, ...] = ()

    @property
    def job(self) -> Job[BaseConfig, State]:
        """The method, its settings and the card; the first of several of which a look chooses."""
        return self.asks.jobs[0]

    @property
    def plan(self) -> Plan:
        """The noisy queries, and how often each is made."""
        return self.asks.plan

    @property
    def promise(self) -> Guarantee:
        """The figure that the certificate will print: the smallest of the bounds."""
        return min((bound.guarantee for bound in self.bounds), key=lambda guarantee: guarantee.epsilon)


@checked_arguments
def plan(
    method: str | BaseConfig,
    card: AnyCard,
    settings: Mapping[str, Any] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    preset: str | None = None,
    score: float | None = None,
    **more: Any,
) -> Request:
    """Decide noise and steps from what is given, and compute what the run will cost. Reads no record.

    A default batch larger than the declared size becomes the declared size. A larger batch that the user or a preset names
    is refused.

    Args:
        method: a key of METHODS, or a Config, such as `gossamer.methods.DPGAN(steps=4_000)`. Or auto, see `fit`.
        card: the public facts.
        settings: the fields of the method's Config that the user gave; None counts as not given. Not with a Config.
        epsilon: see `run.training.fit.fit`.
        delta: see `run.training.fit.fit`.
        preset: see `run.training.fit.fit`.
        score: see `run.training.fit.fit`.
        more: fields of the Config by their names, as `fit` takes them.

    Raises:
        RequestError: if there is no such method, preset or setting; names the nearest. Or the card describes what the method
            does not take.
        BudgetError: if the request contradicts itself, or nothing meets it.
    """
    if method == AUTO:
        if preset or settings or more:
            raise RequestError("`auto` chooses method and settings. Leave the others out, or name a method.")
        return _automatic(card, epsilon=plain(epsilon), delta=plain(delta), score=score)
    chosen_method = method_named(method)
    given = {**(settings or {}), **more} if isinstance(settings, Mapping | None) else None
    if given is None:
        raise RequestError(f"settings must be a mapping of names to values, not of type {type(settings).__name__}.")
    refuse_misspelt(more, plan, chosen_method)
    if isinstance(method, BaseConfig):
        if given:
            raise RequestError(
                f"{', '.join(given)}: a Config of {chosen_method.name} takes all its settings. Put them into it."
            )
        given = method.given
    with asked(chosen_method.name):
        return _decided(chosen_method, card, given, epsilon=epsilon, delta=delta, preset=preset, score=score or 0.0)


def _decided(
    chosen_method: AnyMethod,
    card: AnyCard,
    given: Mapping[str, Any],
    *,
    epsilon: float | None,
    delta: float | None,
    preset: str | None,
    score: float,
) -> Request:
    """See `plan`. given: the settings that the user gave."""
    name = chosen_method.name
    refuse_other_kind(chosen_method, card)
    merged = presets.scaled(presets.defaults(name), card, made_for=None, in_proportion=())
    merged |= presets.settings(name, preset) if preset else {}
    overrides = {key: plain(value) for key, value in given.items() if value is not None}
    epsilon, delta = plain(epsilon), plain(delta)
    merged |= overrides
    if chosen_method.without_guarantee:
        _refuse_budget(chosen_method, epsilon=epsilon, delta=delta)
        epsilon = math.inf
    if epsilon is not None and not epsilon > 0:
        raise BudgetError(
            f"`epsilon` must be above 0, not {epsilon:g}: at epsilon 0 the output would not depend on the records."
        )
    noise = None if chosen_method.without_guarantee else merged.pop("noise_multiplier", None)
    if epsilon is not None:
        noise = overrides.get("noise_multiplier")
    delta = checked_delta(delta, epsilon, card)

    def job(**decided: Any) -> Job[BaseConfig, State]:
        return checked(Job.of(chosen_method, {**merged, **decided}, card))

    trial = job(**presets.any_noise(name))
    load_pretrained(trial)
    presets.check_net(trial)
    terms = Terms(delta=delta, relation=trial.relation, unit=card.unit)
    if chosen_method.without_guarantee:
        nothing = cost.Bound("none", Guarantee(epsilon=math.inf, **terms))
        return Request(asks=RunPlan(jobs=[trial]), epsilon=math.inf, delta=delta, bounds=(nothing,))
    if noise is None and epsilon is None:
        raise BudgetError(
            "give `epsilon` (the budget) or `noise_multiplier`; together with `delta` they decide the run."
        )
    budget = math.inf if epsilon is None else epsilon
    asked = None
    if score:
        own = cost.guarantee(job(noise_multiplier=noise).plan, **terms).epsilon if epsilon is None else budget
        asked = score_of(trial, score, epsilon=own, **terms)

    def run_plan(**decided: Any) -> Plan:
        return RunPlan(jobs=[job(**decided)], score=asked).plan

    if noise is None:
        noise = 0.0 if math.isinf(budget) else calibrate.calibrate_noise(
            lambda value: run_plan(noise_multiplier=value), epsilon=budget, **terms
        )  # fmt: skip
    elif not math.isinf(budget) and "steps" not in trial.settings:
        raise BudgetError(
            f"{name} has no steps that could follow from both `epsilon` and `noise_multiplier`: give one of the two."
        )
    elif not math.isinf(budget) and "steps" not in overrides:
        merged["steps"] = calibrate.calibrate_steps(
            lambda value: run_plan(noise_multiplier=noise, steps=value), epsilon=budget, **terms
        )
    asks = RunPlan(jobs=[job(noise_multiplier=float(noise))], score=asked)
    request = Request(asks=asks, epsilon=budget, delta=delta, bounds=cost.bounds(asks.plan, **terms))
    if epsilon is None:
        return dataclasses.replace(request, epsilon=request.promise.epsilon)
    if "noise_multiplier" in overrides:
        _check_agreement(request)
    return request


def _automatic(card: AnyCard, *, epsilon: float | None, delta: float | None, score: float | None) -> Request:
    """A run that looks at its records and chooses its method. Of a kind without a look, the run of its first method.

    score: None: `AUTO_SCORE`, where something can be measured.
    """
    if epsilon is None or not 0 < epsilon < math.inf:
        raise BudgetError("`auto` needs `epsilon`, a number above 0. Without privacy, name a method.")
    found = automatic.choices(card, epsilon)
    first = next(iter(found.values()))
    if score is None:
        score = AUTO_SCORE if kind_of(card).scored(first) else 0.0
    if "" in found:
        return _decided(first.method, card, {}, epsilon=epsilon, delta=delta, preset=None, score=score)
    terms = Terms(delta=checked_delta(delta, epsilon, card), relation=ADD_OR_REMOVE_ONE, unit=card.unit)
    look = Look(noise_multiplier=_noise_of(automatic.LOOK_SHARE, epsilon, terms), shows=[*found])
    measured = score_of(first, score, epsilon=epsilon, **terms) if score else None

    def asks(noise: float) -> RunPlan:
        jobs = [Job.of(each.method, {**each.settings, "noise_multiplier": noise}, card) for each in found.values()]
        return RunPlan(jobs=jobs, look=look, score=measured)

    noise = calibrate.calibrate_noise(lambda value: asks(value).plan, epsilon=epsilon, **terms)
    whole = asks(float(noise))
    return Request(asks=whole, epsilon=epsilon, delta=terms["delta"], bounds=cost.bounds(whole.plan, **terms))


def _noise_of(share: float, epsilon: float, terms: Terms) -> float:
    """Of one Gaussian that uses a share of the budget: that of all of it, over the root of the share."""
    whole = calibrate.calibrate_noise(lambda noise: [(GaussianDpEvent(noise), 1)], epsilon=epsilon, **terms)
    return float(f"{whole / math.sqrt(share):.6g}")


def score_of(job: Job[BaseConfig, State], share: float, *, epsilon: float, **terms: Unpack[Terms]) -> Score:
    """Return the score that uses a share of the budget: the noise of one Gaussian of this epsilon, over the root of the share.

    Raises:
        RequestError: if the share is no share, or nothing can be learnt from samples of the job.
    """
    if not 0 < share < 1:
        raise RequestError(f"`score` is a share of the budget, from 0 to below 1, not {share:g}. Take 0.03.")
    scored = kind_of(job.card).scored(job)
    if job.relation is not ADD_OR_REMOVE_ONE or not scored:
        why = "have no classes that a classifier could learn" if not scored else "protect under another relation"
        raise RequestError(f"`score`: samples of these settings {why}. Leave it out.")
    return Score(noise_multiplier=_noise_of(share, epsilon, terms), **scored)


def load_pretrained(job: Job[BaseConfig, State]) -> None:
    """Import the networks that these settings name: the user has named each `module:object`. Raises RequestError."""
    for kind, reference in job.pretrained:
        if ":" in reference:
            plugins.allow(reference)
        plugins.load(kind, reference)


def check_takes_public(job: Job[BaseConfig, State]) -> None:
    """Refuse public records for which these settings have no use, with a RequestError."""
    if not job.takes_public:
        raise RequestError(
            f"{job.method.name} has no use for public records with these settings: leave `public` and `public=SHARE` out."
        )


def method_named(method: str | BaseConfig) -> AnyMethod:
    """Return the method of that name, of that module:object, or of that Config. Raises RequestError; names the nearest."""
    if isinstance(method, BaseConfig):
        if (found := method_of_config(type(method))) is None:
            raise RequestError(
                f"{type(method).__qualname__} belongs to no method in METHODS. Add its method there first."
            )
        return found
    method = allow(method) if ":" in method else method
    if method not in METHODS:
        raise RequestError(
            f"there is no method {method!r}.{did_you_mean(method, METHODS)} Known: {', '.join(METHODS)}."
        )
    return METHODS[method]


def _refuse_budget(method: AnyMethod, **given: float | None) -> None:
    """Refuse epsilon or delta of a method whose epsilon is infinity, with a BudgetError."""
    if flags := " or ".join(f"`{name}`" for name, value in given.items() if value is not None):
        able = METHODS.taking(method.takes).items()
        meeting = ", ".join(name for name, other in able if not other.without_guarantee)
        raise BudgetError(
            f"{method.name} has no formal guarantee, so it takes no {flags}: its epsilon is infinity. "
            f"Leave it out, or take a method that meets a budget: {meeting}."
        )


def checked_delta(delta: float | None, epsilon: float | None, card: Declared) -> float:
    """Return delta. Raises BudgetError if it is missing, not between 0 and 1, or at least 1 / declared size."""
    if delta is None:
        if epsilon is not None and math.isinf(epsilon):
            return 0.1 / card.declared_size  # any number: epsilon is infinity at every delta
        raise BudgetError("`delta` is missing. Choose a number well below 1 / (declared size), for example 1e-5.")
    if not 0 < delta < 1:
        raise BudgetError(f"`delta` must lie between 0 and 1, not {delta:g}. A usual choice is 1e-5.")
    if delta >= 1 / card.declared_size:
        raise BudgetError(
            f"`delta={delta:g}` is not below 1 / {card.declared_size:,} (the declared size): a release that hands out one "
            f"whole {card.unit} at random would meet it. Take {0.1 / card.declared_size:.0e} or less."
        )
    return delta


def checked(job: Job[BaseConfig, State]) -> Job[BaseConfig, State]:
    """Return the job. Raises BudgetError where a single number makes no sense; the method checks settings together."""
    hints, settings = get_type_hints(type(job.config), include_extras=True), job.settings
    for name, value in settings.items():
        _check_setting(name, value, hints[name])
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if math.isnan(value) or value < 0 or (math.isinf(value) and name != "max_norm"):
            raise BudgetError(f"`{name}` must be a finite number of zero or more, not {value}.")
        if value == 0 and isinstance(value, int) and hints[name] != MaybeZero:
            raise BudgetError(f"`{name}` must be at least 1.")
    if settings.get("max_norm", 1.0) == 0:
        raise BudgetError("`max_norm` must be above 0: with 0 every record would contribute nothing.")
    _check_noise(settings)
    if (decay := float(settings.get("average_decay", 0.0))) >= 1:
        raise BudgetError(
            f"`average_decay` must be below 1, not {decay:g}: with 1 the initial weights would be released."
        )
    if (batch := int(settings.get("expected_batch_size", 0))) > job.card.declared_size:
        raise BudgetError(
            f"`expected_batch_size={batch:,}` is more than the declared size {job.card.declared_size:,}. Take a smaller batch."
        )
    if (first := job.first) is not None:
        try:
            checked(first)
        except RequestError as error:
            raise type(error)(f"`start={first.method.name}`: {error}") from None
    return job


def _check_noise(settings: Mapping[str, Any]) -> None:
    """Refuse noise that cannot be drawn, before it costs anything."""
    noise = float(settings.get("noise_multiplier", 0.0))
    bounds = {"max_norm": 1.0} | {name: float(value) for name, value in settings.items() if name.startswith("max_norm")}
    for name, bound in bounds.items():  # a method may have a second one, such as max_norm_batch
        if noise > 0 and bound > 0 and not _LEAST_NOISE <= noise * bound <= _MOST_NOISE:
            raise BudgetError(
                f"`{name}={bound:g}` with a noise multiplier of {noise:.3g} asks for noise of "
                f"{noise * bound:.3g}, not between {_LEAST_NOISE:g} and {_MOST_NOISE:g}. Take a bound nearer to 1."
            )


def _check_setting(name: str, value: object, hint: Any) -> None:
    """Refuse a setting of another type than its field, or one that is none of its choices: for calls from Python."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise RequestError(f"`{name}` must be one of {', '.join(map(str, get_args(hint)))}.")
    elif hint == Start:
        check_type(name, value, (str, Mapping))
    else:
        check_type(name, value, (get_args(hint)[0] if get_origin(hint) is Annotated else hint,))


def _check_agreement(request: Request) -> None:
    cost, epsilon = request.promise.epsilon, request.epsilon
    if math.isinf(epsilon) and not math.isinf(cost):
        raise BudgetError(
            f"`epsilon=inf` asks for no noise, and `noise_multiplier={request.job.settings['noise_multiplier']:g}` for noise. "
            "Drop one of them."
        )
    if not math.isinf(epsilon) and not (1 - AGREE) * epsilon <= cost <= epsilon:
        raise BudgetError(
            f"`epsilon={epsilon:g}`, `noise_multiplier={request.job.settings['noise_multiplier']:g}` and `steps` "
            f"{request.job.settings['steps']:,} do not agree: this noise over these steps costs {request.promise}. Drop one "
            "of the three: it follows from the other two."
        )
