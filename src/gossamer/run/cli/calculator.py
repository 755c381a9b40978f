"""`gossamer account`: epsilon of Poisson-sampled Gaussian queries, or the rate, noise or steps that meet an epsilon.

The same for sanitised rows of critics (gs-wgan), where the sampling rate is 1 / critics.
"""

from dataclasses import dataclass, field
from typing import Any

from dp_accounting import DpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent

from gossamer.errors import BudgetError
from gossamer.privacy.accounting import calibrate, cost
from gossamer.privacy.accounting.events import Draw, plan_of, poisson_gaussian, relation_of
from gossamer.privacy.accounting.revealed_draw import RevealedDrawGaussianDpEvent
from gossamer.privacy.guarantee import Plan


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the calculator says.

    Args:
        sampling_rate: probability that a record is sampled in a step.
        noise_multiplier: standard deviation of the noise / L2 sensitivity.
        steps: number of noisy queries.
        bounds: the guarantee by each accountant.
        about: what else was asked, for `--json`.
    """

    sampling_rate: float
    noise_multiplier: float
    steps: int
    bounds: tuple[cost.Bound, ...]
    about: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "guarantees": [{"accountant": bound.accountant, **bound.guarantee.to_json()} for bound in self.bounds],
            "noise_multiplier": self.noise_multiplier,
            "sampling_rate": self.sampling_rate,
            "steps": self.steps,
            **self.about,
        }

    def lines(self) -> list[str]:
        """For the terminal."""
        rate, noise = f"sampling rate {self.sampling_rate:.6g}", f"noise multiplier {self.noise_multiplier:g}"
        bounds = (f"{bound.accountant}: {bound.guarantee}" for bound in self.bounds)
        return [f"{rate}, {noise}, steps {self.steps:,}", *bounds]


def account(
    *,
    sampling_rate: float | None,
    noise_multiplier: float | None,
    steps: int | None,
    delta: float,
    epsilon: float | None = None,
    draw: Draw | None = None,
    critics: int | None = None,
    batch_size: int | None = None,
) -> Answer:
    """The guarantee of a schedule; with epsilon in place of one of the first three, that one.

    With a draw, the guarantee of `steps` answers of `batch_size` rows by one of `critics`, in place of a sampling rate.

    Args:
        sampling_rate: probability that a record is sampled in a step, from 0 to 1.
        noise_multiplier: standard deviation of the noise / L2 sensitivity.
        steps: number of noisy queries.
        delta: chance that the epsilon bound fails, for example 1e-5.
        epsilon: epsilon to meet. Leave out the sampling rate, noise multiplier or steps: it is computed.
        draw: how gs-wgan chooses the critic that answers. Noise is then relative to 2C per row.
        critics: number of critics, with `draw`.
        batch_size: rows of an answer, with `draw`.

    >>> answer = account(sampling_rate=0.01, noise_multiplier=None, steps=1_000, delta=1e-5, epsilon=1.0)
    >>> 0.999 <= min(bound.guarantee.epsilon for bound in answer.bounds) <= 1.0
    True

    Raises:
        BudgetError: if too much or too little is given, a number makes no sense, or nothing meets epsilon.
    """
    given = {"--sampling-rate": sampling_rate, "--noise-multiplier": noise_multiplier, "--steps": steps}
    if draw is not None:
        if given.pop("--sampling-rate") is not None or min(critics or 0, batch_size or 0) < 1:
            raise BudgetError(
                "--draw needs --critics and --batch-size, each at least 1, and no --sampling-rate: the rate is 1 / critics."
            )
    elif critics is not None or batch_size is not None:
        raise BudgetError("--critics and --batch-size go with --draw secret, round_robin or paper.")
    missing = [flag for flag, value in given.items() if value is None]
    _check(sampling_rate, noise_multiplier, steps)
    if len(missing) != (epsilon is not None):
        raise BudgetError(
            f"give {', '.join(given)}, or --epsilon in place of exactly one of them. "
            + (f"Missing: {', '.join(missing)}." if missing else "All of them are given, and --epsilon too.")
        )
    rate, noise, count = sampling_rate or 0.0, noise_multiplier or 0.0, steps or 0

    def plan(*, rate: float = rate, noise: float = noise, count: int = count) -> Plan:
        if draw is None:
            return [(poisson_gaussian(sampling_rate=rate, noise_multiplier=noise), count)]
        sizes = {"critics": critics or 0, "batch_size": batch_size or 0}
        return plan_of(draw=draw, **sizes, noise_multiplier=noise, steps=count)

    terms: dict[str, Any] = {"delta": delta} if draw is None else {"delta": delta, "relation": relation_of(draw)}
    goal = terms | {"epsilon": epsilon}
    if missing == ["--sampling-rate"]:
        rate = calibrate.calibrate_rate(lambda value: plan(rate=value), **goal)
    elif missing == ["--noise-multiplier"]:
        noise = calibrate.calibrate_noise(lambda value: plan(noise=value), **goal)
    elif missing:
        count = calibrate.calibrate_steps(lambda value: plan(count=value), **goal)
    decided = plan(rate=rate, noise=noise, count=count)
    return Answer(
        sampling_rate=rate if draw is None else rate_of(decided[0][0]),
        noise_multiplier=noise,
        steps=count,
        bounds=cost.bounds(decided, **terms),
        about={} if draw is None else {"draw": draw, "critics": critics, "batch_size": batch_size},
    )


def rate_of(event: DpEvent) -> float:
    """The probability with which a record, or its shard, takes part in one release."""
    match event:
        case PoissonSampledDpEvent(sampling_probability=rate):
            return float(rate)
        case SampledWithoutReplacementDpEvent(source_dataset_size=whole, sample_size=drawn):
            return float(drawn / whole)
        case RevealedDrawGaussianDpEvent(population=whole):
            return 1 / whole
        case _:
            return 1.0


def _check(rate: float | None, noise: float | None, steps: int | None) -> None:
    if rate is not None and not 0 < rate <= 1:
        raise BudgetError(f"--sampling-rate must lie above 0 and be at most 1, not {rate:g}.")
    if noise is not None and not 0 <= noise < float("inf"):
        raise BudgetError(f"--noise-multiplier must be a finite number of zero or more, not {noise:g}.")
    if steps is not None and steps < 1:
        raise BudgetError(f"--steps must be at least 1, not {steps}.")
