"""`gossamer account`: epsilon of Poisson-sampled Gaussian releases, or the rate, noise or steps that meet an epsilon."""

from dataclasses import dataclass
from typing import Any

from gossamer.errors import BudgetError
from gossamer.privacy import accounting
from gossamer.privacy.guarantee import Plan
from gossamer.privacy.mechanisms import poisson_gaussian


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the calculator says.

    Args:
        sampling_rate: probability with which a record is drawn in a step.
        noise_multiplier: standard deviation of the noise / L2 sensitivity.
        steps: number of releases.
        bounds: the guarantee by each accountant.
    """

    sampling_rate: float
    noise_multiplier: float
    steps: int
    bounds: tuple[accounting.Bound, ...]

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "guarantees": [{"accountant": bound.accountant, **bound.guarantee.to_json()} for bound in self.bounds],
            "noise_multiplier": self.noise_multiplier,
            "sampling_rate": self.sampling_rate,
            "steps": self.steps,
        }


def account(
    *,
    sampling_rate: float | None,
    noise_multiplier: float | None,
    steps: int | None,
    delta: float,
    epsilon: float | None = None,
) -> Answer:
    """The guarantee of a schedule; with epsilon in place of one of the first three, that one.

    >>> answer = account(sampling_rate=0.01, noise_multiplier=None, steps=1_000, delta=1e-5, epsilon=1.0)
    >>> 0.999 <= min(bound.guarantee.epsilon for bound in answer.bounds) <= 1.0
    True

    Raises:
        BudgetError: if too much or too little is given, a number makes no sense, or nothing meets epsilon.
    """
    given = {"--sampling-rate": sampling_rate, "--noise-multiplier": noise_multiplier, "--steps": steps}
    missing = [flag for flag, value in given.items() if value is None]
    _check(sampling_rate, noise_multiplier, steps, delta)
    if len(missing) != (epsilon is not None):
        raise BudgetError(
            "give --sampling-rate, --noise-multiplier and --steps, or --epsilon in place of exactly one of them; "
            + (f"missing here: {', '.join(missing)}." if missing else "here all four are given.")
        )
    rate, noise, count = sampling_rate or 0.0, noise_multiplier or 0.0, steps or 0

    def plan(*, rate: float = rate, noise: float = noise, count: int = count) -> Plan:
        return [(poisson_gaussian(sampling_rate=rate, noise_multiplier=noise), count)]

    if epsilon is not None:
        terms: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
        if sampling_rate is None:
            rate = accounting.calibrate_rate(lambda value: plan(rate=value), **terms)
        elif noise_multiplier is None:
            noise = accounting.calibrate_noise(lambda value: plan(noise=value), **terms)
        else:
            count = accounting.calibrate_steps(lambda value: plan(count=value), **terms)
    bounds = accounting.bounds(plan(rate=rate, noise=noise, count=count), delta=delta)
    return Answer(sampling_rate=rate, noise_multiplier=noise, steps=count, bounds=bounds)


def _check(rate: float | None, noise: float | None, steps: int | None, delta: float) -> None:
    if rate is not None and not 0 < rate <= 1:
        raise BudgetError(f"--sampling-rate must lie above 0 and be at most 1, not {rate:g}.")
    if noise is not None and not 0 <= noise < float("inf"):
        raise BudgetError(f"--noise-multiplier must be a finite number of zero or more, not {noise:g}.")
    if steps is not None and steps < 1:
        raise BudgetError(f"--steps must be at least 1, not {steps}.")
    if not 0 < delta < 1:
        raise BudgetError(f"--delta must lie between 0 and 1, not {delta:g}.")
