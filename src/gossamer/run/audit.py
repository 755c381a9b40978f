"""`gossamer audit`: how much a method gives away at the least, measured through its own loop, beside what it claims.

The loop, the sampling, the clipping, the noise and the charges are those of a run, on small nets; `watched.py` lets canaries
in and looks at what comes out. The attacker knows every record but the canary, and sees every release: what the guarantee is
about. A bound above the claim refutes it. One below proves nothing.
"""

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.attacks import audit as bounds
from gossamer.attacks import canaries
from gossamer.attacks.arrays import Scores
from gossamer.attacks.canaries import Planted, planted
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.events import Sink, progress, silent
from gossamer.methods.method import BaseConfig, Job, State
from gossamer.privacy.confined import Confined
from gossamer.privacy.guarantee import in_full, rounded_up
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.noise import Rng
from gossamer.run.plan import method_named, plan
from gossamer.run.watched import Gradients, OneCritic, OneInBothTerms, OneRecord, Watch, Watched

CONSISTENT, REFUTED = "consistent", "REFUTED"
LOW_VALUE = (
    "A lower bound above the claim would refute it. One below proves nothing: it says how much this attacker sees, "
    "not that no other sees more."
)
_ORDINARY = 60
"""Records beside the canaries."""


@dataclass(frozen=True, kw_only=True)
class Small:
    """How a method is audited.

    Args:
        canary: which kind; "gradients" has many in a run, the others have one.
        settings: of its Config, small and quick.
        shape: of the records.
        classes: of the records.
        trials: canaries that take part, and as many that do not.
        about: in words, what the attacker's canary is.
    """

    canary: str
    settings: Mapping[str, Any]
    shape: tuple[int, int, int] = (1, 28, 28)
    classes: int = 2
    trials: int
    about: str


_GRADIENT = "records whose clipped gradient points along a weight that no other record moves"
_RECORD = "one record unlike the others, found along what it adds"
SMALL: dict[str, Small] = {
    "dpgan": Small(
        canary="gradients", trials=60_000, about=_GRADIENT,
        settings={"steps": 10, "width": 2, "latent_size": 4, "discriminator_steps": 2},
    ),
    "dp-wgan": Small(
        canary="gradients", trials=60_000, about=f"{_GRADIENT}, in every group",
        settings={
            "steps": 10, "width": 2, "latent_size": 4, "critic_steps": 2, "grouping": "weight-bias",
        },
    ),
    "privae": Small(
        canary="terms", trials=4_000, shape=(1, 2, 2),
        about="a record that adds to the sample-wise sum and turns the gradient of its group around",
        settings={
            "steps": 4, "width": 4, "latent_size": 2, "divergence": "mmd", "partitions": 1, "average_decay": 0.0,
        },
    ),
    "gs-wgan": Small(
        canary="critic", trials=1_000,
        about="a record whose critic, and no other, says the opposite of what the others say",
        settings={
            "steps": 10, "critics": 5, "batch_size": 2, "critic_steps": 1, "critic_batch_size": 2, "width": 2,
            "latent_size": 2, "warm_steps": 0, "generator": "dcgan",
        },
    ),
    "dp-diffusion": Small(
        canary="gradients", trials=60_000, about=_GRADIENT, shape=(1, 8, 8),
        settings={"steps": 10, "axes": 4, "width": 4, "depth": 1, "multiplicity": 2},
    ),
    "moments": Small(canary="record", trials=4_000, about=_RECORD, shape=(1, 8, 8), settings={"axes": 4}),
    "evolve": Small(
        canary="record", trials=1_000, about="one record, found at the candidate that it votes for",
        settings={
            "steps": 3, "drawing": "letters", "embedding": "cosines", "candidates": 4, "variations": 0, "degree": 0.2,
        },
    ),
    "teacher": Small(canary="gradients", trials=60_000, about=_GRADIENT, shape=(1, 8, 8), settings={"steps": 10}),
}  # fmt: skip
"""Each method that promises something: small nets, few steps, many trials."""
_RATE = 0.25
"""Sampling rate of the small runs, unless --expected-batch-size says another."""


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What came of an audit.

    Args:
        method: its name.
        claim: epsilon of the run, as a certificate would print it.
        lower_bound: epsilon that the mechanism has at the least, with the stated confidence, if its releases are of the kind
            that they are said to be, with any noise.
        counted: the same from the two errors alone, whatever the mechanism is.
        delta: of both.
        confidence: of both.
        trials: canaries that took part; as many did not.
        releases: of one trial.
        sampling_rate: of a release.
        noise_multiplier: that the loop declared.
        noise_at_most: the most that the errors allow.
        seconds: what it took.
        canary: what the attacker looked for.
        statistic: which one gave the bound.
        settings: of the small runs.
    """

    method: str
    claim: float
    lower_bound: float
    counted: float
    delta: float
    confidence: float
    trials: int
    releases: int
    sampling_rate: float
    noise_multiplier: float
    noise_at_most: float
    seconds: float
    canary: str
    statistic: str
    settings: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """Whether the bound is above the claim: "REFUTED", or else "consistent"."""
        return REFUTED if max(self.lower_bound, self.counted) > self.claim else CONSISTENT

    def to_json(self) -> dict[str, Any]:
        """With the verdict; infinity as the string "inf"."""
        found = {**dataclasses.asdict(self), "verdict": self.verdict, "note": LOW_VALUE}
        return {
            name: "inf" if isinstance(value, float) and math.isinf(value) else value for name, value in found.items()
        }


@dataclass(frozen=True, eq=False)
class Seen:
    """What some trials showed.

    Args:
        x: [T, n], a column for each trial.
        rates: [T], the sampling rates that were declared.
        noise: [T], the noise multipliers.
    """

    x: Scores
    rates: Scores
    noise: Scores

    @property
    def declared(self) -> tuple[float, float, int]:
        """Sampling rate, noise multiplier and number of releases. Releases over all records make one Gaussian."""
        if len(np.unique(self.rates)) > 1:
            raise RequestError("the releases have different sampling rates; audit one kind at a time")
        return float(self.rates[0]), float(np.mean(self.noise**-2.0) ** -0.5), len(self.x)

    @property
    def ratio(self) -> Scores:
        """The exact statistic. [n]"""
        return bounds.log_likelihood_ratio(self.x, self.rates, self.noise)

    @property
    def spread(self) -> Scores:
        """How far the releases of a trial are apart: whether a canary was drawn now and then, if noise was drawn once. [n]"""
        return np.asarray(np.ptp(self.x, axis=0))


def audit(
    method: str,
    *,
    epsilon: float,
    delta: float = 1e-5,
    settings: Mapping[str, Any] | None = None,
    trials: int | None = None,
    confidence: float = bounds.CONFIDENCE,
    seed: int = 0,
    sink: Sink = silent,
    noise_seed: int | None = None,
) -> Audited:
    """Measure what a method gives away at the least, through its own loop on small nets, beside its claim.

    Args:
        method: a key of METHODS.
        epsilon: that the method is to claim.
        delta: of both.
        settings: fields of its Config, in place of the small ones.
        trials: canaries that take part, and as many that do not; None: what `SMALL` says.
        confidence: that the bound lies below the truth.
        seed: fixes initialisation and public draws; never noise or sampling.
        sink: is told how far it is.
        noise_seed: for tests: fixes noise and coins too.

    Raises:
        RequestError: if the method promises nothing, or the settings are impossible.
    """
    asked = method_named(method)
    if asked.without_guarantee:
        raise RequestError(
            f"{method} claims nothing, so there is nothing to refute: its epsilon is infinity. `gossamer attack` shows what it "
            "gives away."
        )
    small, began = SMALL[method], time.monotonic()
    trials = trials or small.trials
    together = small.canary == "gradients"
    card = DataCard(shape=small.shape, classes=small.classes, declared_size=_ORDINARY + (trials if together else 1))
    chosen: dict[str, Any] = dict(small.settings)
    if "expected_batch_size" in {each.name for each in dataclasses.fields(asked.config_type)}:
        chosen["expected_batch_size"] = max(1, round(_RATE * card.declared_size))
    chosen |= {name: value for name, value in (settings or {}).items() if value is not None}
    request = plan(method, card, chosen, epsilon=epsilon, delta=delta)
    runs = Runs(request.job, delta, seed, noise_seed)
    inside, outside = runs.together(trials) if together else runs.apart(small.canary, trials, sink)
    rate, noise, steps = inside.declared
    found = lower_bound(inside, outside, delta=delta, confidence=confidence)
    return Audited(
        method=method,
        claim=float(rounded_up(request.promise.epsilon)),
        lower_bound=found.epsilon,
        counted=found.counted,
        delta=delta,
        confidence=confidence,
        trials=trials,
        releases=steps,
        sampling_rate=rate,
        noise_multiplier=noise,
        noise_at_most=found.noise,
        seconds=time.monotonic() - began,
        canary=small.about,
        statistic=found.statistic,
        settings=request.job.settings,
    )


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best bound of several statistics.

    Args:
        epsilon: at the least, if the releases are Poisson-sampled Gaussians with any noise.
        counted: at the least, whatever they are.
        noise: at most.
        statistic: its name.
    """

    epsilon: float
    counted: float
    noise: float
    statistic: str


def lower_bound(inside: Seen, outside: Seen, *, delta: float, confidence: float) -> Found:
    """The best of the statistics: the exact one, and one for noise that is drawn once and used again.

    They share what may go wrong, 19 parts of 20 to the first. Each chooses its threshold on a fifth of the trials.
    """
    rate, claimed, steps = inside.declared
    wrong = 1 - confidence
    statistics = {"log-likelihood ratio": (inside.ratio, outside.ratio, 0.95 * wrong)}
    if steps > 1:
        statistics["spread of the releases"] = inside.spread, outside.spread, 0.05 * wrong
    found = []
    for name, (with_canary, without, share) in statistics.items():
        threshold, mine, others = bounds.split(with_canary, without)
        errors = bounds.errors_at(mine, others, threshold, confidence=1 - share)
        noise = bounds.most_noise(errors, lambda scale: bounds.poisson_gaussian(rate, scale, steps), claimed=claimed)
        epsilon = 0.0 if math.isinf(noise) else bounds.poisson_gaussian_epsilon(rate, noise, steps, delta)
        counted = bounds.counted(errors, delta=delta)
        found.append(Found(epsilon=epsilon, counted=counted, noise=noise, statistic=name))
    return max(found, key=lambda each: (each.epsilon, each.counted))


@dataclass(frozen=True)
class Runs:
    """Runs of one job, in memory.

    Args:
        job: the method with its settings, and the card.
        delta: for the ledger.
        seed: fixes initialisation and public draws.
        noise_seed: for tests; None: fresh noise and coins.
    """

    job: Job[BaseConfig, State]
    delta: float
    seed: int
    noise_seed: int | None = None

    def together(self, trials: int) -> tuple[Seen, Seen]:
        """One run with so many canaries, each with a weight of its own; as many weights have no canary."""
        watch = Gradients(count=2 * trials)
        self._drive(planted(self._ordinary, canaries.blank(trials, self._shape)), watch, 0)
        x, rates, noise = np.stack(watch.seen), np.array(watch.rates), np.array(watch.noise)
        return Seen(x[:, :trials], rates, noise), Seen(x[:, trials:], rates, noise)

    def apart(self, kind: str, trials: int, sink: Sink = silent) -> tuple[Seen, Seen]:
        """A run for each trial: so many with the canary as the first record, and as many without."""
        found: dict[bool, list[Watch]] = {True: [], False: []}
        canary = canaries.out_of_distribution(self._shape)
        none = planted(self._ordinary, canaries.blank(0, self._shape))
        one = planted(self._ordinary, canary)
        for number in range(2 * trials):
            present = number % 2 == 0
            watch: Watch
            match kind:
                case "record":
                    watch = OneRecord(canary=canary)
                case "critic":
                    watch = OneCritic(present=present)
                case _:
                    watch = OneInBothTerms()
            self._drive(one if present else none, watch, number)
            found[present].append(watch)
            sink(progress("audit", number + 1, 2 * trials))
        with_canary, without = (_side_by_side(found[present]) for present in (True, False))
        return with_canary, without

    def _drive(self, records: Planted, watch: Watch, number: int) -> None:
        """One training, with a ledger of its own."""
        ledger = PrivacyLedger(budget=math.inf, delta=self.delta, relation=self.job.relation)
        ledger.reserve(self.job.plan)
        noise_seed = None if self.noise_seed is None else self.noise_seed + number
        training = self.job.begin(Rng(self.seed, noise_seed=noise_seed))
        for _ in training.drive(Watched(Confined(records, ledger), watch)):
            pass

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.job.card.shape

    @property
    def _ordinary(self) -> Records:
        """Records beside the canaries: noise, for what they hold does not matter to a guarantee."""
        draw, card = np.random.default_rng(self.seed), self.job.card
        images = draw.integers(0, 256, size=(_ORDINARY, *card.shape), dtype=np.uint8)
        return Records(images, draw.integers(card.classes, size=_ORDINARY))


def _side_by_side(watches: Sequence[Watch]) -> Seen:
    """Trials of runs of their own."""
    noise = np.mean([np.square(watch.noise) for watch in watches], axis=0) ** 0.5
    return Seen(np.concatenate([np.stack(watch.seen) for watch in watches], axis=1), np.array(watches[0].rates), noise)


def lines(found: Audited) -> list[str]:
    """The result in words, for the terminal."""
    share = found.lower_bound / found.claim
    counted = f"{found.counted:.3f} from the counted errors alone"
    return [
        f"{found.method}: claims epsilon {found.claim:g} at delta {in_full(found.delta)}",
        f"lower bound  {found.lower_bound:.3f} ({share:.0%} of the claim) at {found.confidence:.0%} confidence; {counted}",
        f"attacker     {found.canary}; {found.statistic}",
        f"trials       {found.trials:,} with a canary and as many without, {found.releases:,} releases each, sampling rate "
        f"{found.sampling_rate:.4g}, noise multiplier {found.noise_multiplier:.4g} (at most {found.noise_at_most:.4g} is left "
        "by what was seen)",
        f"cost         {found.seconds:.0f} s",
        f"verdict      {found.verdict}",
        LOW_VALUE,
    ]
