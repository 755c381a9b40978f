"""Trials of an audit: small runs of a method's own loop, with a canary among the records and without it.

Where every canary has a weight of its own, all share a run. Elsewhere there is one canary, and a training is a sequence of
trials of T noisy queries. Before each trial the auditor decides at random whether the canary takes part, independently of the
state that earlier trials left. So the guarantee bounds the two errors of each trial, and their averages over all trials.
"""

import dataclasses
import math
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gossamer.attacks import audit as bounds
from gossamer.attacks import canaries
from gossamer.attacks.arrays import Scores
from gossamer.attacks.audit import Profile
from gossamer.attacks.canaries import Planted, planted
from gossamer.attacks.weights import fisher_direction
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.tables.any_card import AnyCard
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.column import Column
from gossamer.data.tables.table import Table
from gossamer.errors import RequestError
from gossamer.events import Event, Sink, progress, silent
from gossamer.methods.contract import BaseConfig, State, TrialConfig
from gossamer.methods.job import Job, Training
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.auditing.canary_confined import (
    CanaryConfined,
    CanaryObserver,
    CriticCanary,
    GradientCanaries,
    RecordCanary,
    RowCanary,
    TwoTermCanary,
)

ORDINARY = 60
"""Records beside the canaries."""
IN_A_RUN = 60_000
"""Canaries that share a run, at most: with a delta of 1e-5, a data set must have fewer than 100,000 records."""
_IN_A_TRAINING = 500
"""Trials of one training, where its number of steps is free."""
_SHADOWS = 20
"""Pairs of models from which an attacker who sees only models learns what a canary changes."""
_SHADOWS_SEED = 1 << 40
"""Seed of their noise, unlike the seeds of tests."""


ABOUT = {
    "gradients": "records whose clipped gradient points along a weight that no other record moves",
    "record": "one record unlike the others, found along what it adds",
    "row": "one row with a value in each column that no other row has, found at all that it moves in each answer",
    "critic": "a record whose critic, and no other, says the opposite of what the others say",
    "terms": "a record that adds to the sample-wise sum and turns the gradient of its group around",
}
"""Each kind of canary, in words."""


def card_of(trial: TrialConfig, canaries: int) -> AnyCard:
    """Return the card of the records with so many canaries."""
    size = trial.ordinary + canaries
    if not trial.columns:
        return DataCard(shape=trial.shape, classes=trial.classes, declared_size=size)
    columns = [
        Column(name=f"column {number}", kind="category", values=tuple(map(str, range(values))))
        for number, values in enumerate(trial.columns)
    ]
    return TableCard(columns=tuple(columns), declared_size=size, label=columns[-1].name)


def usual_trials(trial: TrialConfig, epsilon: float) -> int:
    """Return the default number of canaries that take part; about as many do not."""
    if trial.canary == "gradients":
        return IN_A_RUN * (3 if epsilon < 2 else 1)
    hundreds: int = round(trial.max_trials / 100 * max(1.0, epsilon) ** -0.8)
    return 100 * hundreds


@dataclass(frozen=True)
class ReleaseProfile:
    """The declared noisy queries of one trial: a family of mechanisms, which differ in their noise.

    Args:
        rate: sampling rate of each query.
        noise: the noise multiplier.
        count: number of queries.
        revealed: whether it is public which of them had the canary.
    """

    rate: float
    noise: float
    count: int
    revealed: bool = False

    def profile(self, noise: float) -> Profile:
        """Return the privacy curve with another noise multiplier."""
        curve = bounds.revealed_draw_profile if self.revealed else bounds.poisson_gaussian
        return curve(self.rate, noise, self.count)

    def epsilon(self, noise: float, delta: float) -> float:
        """Return epsilon with another noise multiplier."""
        epsilon_of = bounds.revealed_draw_epsilon if self.revealed else bounds.poisson_gaussian_epsilon
        return epsilon_of(self.rate, noise, self.count, delta)


@dataclass(frozen=True, eq=False)
class Observations:
    """The observations of some trials.

    Args:
        x: [T, n], a column for each trial.
        rates: [T], the declared sampling rates.
        noise: [T], the declared noise multipliers.
        revealed: see `ReleaseProfile`. In queries without the canary, x is 1/2.
    """

    x: Scores
    rates: Scores
    noise: Scores
    revealed: bool = False

    @classmethod
    def joined(cls, parts: Sequence["Observations"]) -> "Observations":
        """Join trials of the same kind."""
        return dataclasses.replace(parts[0], x=np.concatenate([part.x for part in parts], axis=1))

    @property
    def declared(self) -> ReleaseProfile:
        """The queries of a trial. Those over all records make one Gaussian."""
        if len(np.unique(self.rates)) > 1:
            raise RequestError("the releases have different sampling rates; audit one kind at a time")
        return ReleaseProfile(
            float(self.rates[0]), float(np.mean(self.noise**-2.0) ** -0.5), len(self.x), self.revealed
        )

    @property
    def ratio(self) -> Scores:
        """The exact statistic. [n]"""
        return bounds.log_likelihood_ratio(self.x, 1.0 if self.revealed else self.rates, self.noise)

    @property
    def spread(self) -> Scores:
        """The range of x in each trial: it shows a sampled canary, if noise is drawn once and used again. [n]"""
        return np.asarray(np.ptp(self.x, axis=0))


@dataclass(frozen=True)
class TrialRunner:
    """Runs of one job, in memory.

    Args:
        job: the method with its settings, and the card.
        delta: for the ledger.
        seed: fixes initialisation and public draws.
        noise_seed: for tests; None: fresh noise and random choices.
        ranks: processes that train together, each with its part of the records.
    """

    job: Job[BaseConfig, State]
    delta: float
    seed: int
    noise_seed: int | None = None
    ranks: Ranks = ALONE

    def shared_runs(self, trials: int, sink: Sink = silent) -> tuple[Observations, Observations]:
        """Make runs with many canaries, each with a weight of its own; as many weights have no canary."""
        per_run = self.job.card.declared_size - ORDINARY
        results = []
        for first in range(0, trials, per_run):
            results.append(self._shared_run(min(per_run, trials - first), first))
            sink(progress("audit", min(first + per_run, trials), trials))
        with_canary, without = (Observations.joined(parts) for parts in zip(*results, strict=True))
        return with_canary, without

    def _shared_run(self, trials: int, first: int) -> tuple[Observations, Observations]:
        """Make one such run."""
        observer = GradientCanaries(count=2 * trials)
        self._drive(
            self.job,
            planted(self._ordinary, canaries.blank(trials, self._shape)),
            observer,
            [True],
            noise_seed=None if self.noise_seed is None else self.noise_seed + first,
        )
        x, rates, noise = np.stack(observer.observed), np.array(observer.rates), np.array(observer.noise)
        return Observations(x[:, :trials], rates, noise), Observations(x[:, trials:], rates, noise)

    def single_trials(self, kind: str, trials: int, sink: Sink = silent) -> tuple[Observations, Observations]:
        """Make twice so many trials, each with or without the canary, at random."""
        observer, records = self._observer_and_records(kind)
        members = self._random_members(2 * trials)
        size = _IN_A_TRAINING if self._repeats else 1
        for first in range(0, len(members), size):
            chunk = members[first : first + size]
            noise_seed = None if self.noise_seed is None else self.noise_seed + first
            self._drive(self._lengthened(len(chunk)), records, observer, list(chunk), noise_seed=noise_seed)
            sink(progress("audit", first + len(chunk), len(members)))
        x, noise, rates = (
            np.reshape(rows, (len(members), -1)).T for rows in (observer.observed, observer.noise, observer.rates)
        )
        noise, rates = np.mean(noise**2, axis=1) ** 0.5, rates[:, 0]
        return Observations(x[:, members], rates, noise, self._revealed), Observations(
            x[:, ~members], rates, noise, self._revealed
        )

    def parallel_trials(
        self, kind: str, trials: int, jobs: int, sink: Sink = silent
    ) -> tuple[Observations, Observations]:
        """Make the same trials in several processes, each with random choices and noise of its own."""
        if jobs == 1:
            return self.single_trials(kind, trials, sink)
        terms = self.job, self.delta, self.seed
        seeds = [None if self.noise_seed is None else self.noise_seed + (part << 20) for part in range(jobs)]
        results = []
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            futures = [pool.submit(_part, *terms, seed, kind, -(-trials // jobs)) for seed in seeds]
            for part in as_completed(futures):
                results.append(part.result())
                sink(progress("audit", len(results), jobs))
        with_canary, without = (Observations.joined(parts) for parts in zip(*results, strict=True))
        return with_canary, without

    def models(self, kind: str, trials: int, sink: Sink = silent) -> tuple[ReleaseProfile, Scores, Scores]:
        """Train twice so many models with one canary or without, at random, and look at the released models only.

        Returns:
            The queries of a training; scores of the models with the canary, [n], and without, [m].
        """
        members = self._random_members(2 * trials)
        shadows = [
            [self._model(kind, present, noise_seed=_SHADOWS_SEED + pair)[1] for pair in range(_SHADOWS)]
            for present in (True, False)
        ]
        direction, scores = fisher_direction(*map(np.stack, shadows)), []
        for number, present in enumerate(members):
            noise_seed = None if self.noise_seed is None else self.noise_seed + number
            observer, weights = self._model(kind, bool(present), noise_seed=noise_seed)
            scores.append(float(direction @ weights))
            sink(progress("audit", number + 1, len(members)))
        declared = Observations(
            np.stack(observer.observed), np.array(observer.rates), np.array(observer.noise), self._revealed
        ).declared
        values = np.array(scores)
        return declared, values[members], values[~members]

    def _model(self, kind: str, present: bool, *, noise_seed: int | None) -> tuple[CanaryObserver, NDArray[np.float32]]:
        """Train one model, and return its weights."""
        observer, records = self._observer_and_records(kind, steered=True)
        training = self._drive(self.job, records, observer, [present], noise_seed=noise_seed)
        tensors = [tensor.detach().flatten() for tensor in training.state.released.state_dict().values()]
        return observer, torch.cat([tensor.float() for tensor in tensors if tensor.is_floating_point()]).cpu().numpy()

    def _observer_and_records(self, kind: str, *, steered: bool = False) -> tuple[CanaryObserver, Planted | Table]:
        """Return an observer for one canary of a kind, and the records with the canary as the last."""
        if kind == "row":
            rows = self._rows
            return RowCanary(rows=rows), rows
        canary = canaries.out_of_distribution(self._shape)
        observers: dict[str, CanaryObserver] = {
            "gradients": GradientCanaries(count=1, steered=steered),
            "record": RecordCanary(canary=canary),
            "critic": CriticCanary(),
            "terms": TwoTermCanary(steered=steered),
        }
        return observers[kind], planted(self._ordinary, canary)

    def _random_members(self, count: int) -> NDArray[np.bool_]:
        return np.random.default_rng(self.noise_seed).random(count) < 0.5

    @property
    def _repeats(self) -> bool:
        """Whether twice the steps make twice the queries, so that one training holds many trials."""
        if "steps" not in self.job.settings:
            return False
        once, twice = (sum(count for _, count in self._lengthened(trials).plan) for trials in (1, 2))
        return bool(twice == 2 * once)

    def _lengthened(self, trials: int) -> Job[BaseConfig, State]:
        """Return the job with the steps of so many trials."""
        if trials == 1:
            return self.job
        settings = self.job.settings
        return Job.of(self.job.method, {**settings, "steps": int(settings["steps"]) * trials}, self.job.card)

    def _drive(
        self,
        job: Job[BaseConfig, State],
        records: Planted | Table,
        observer: CanaryObserver,
        members: list[bool],
        *,
        noise_seed: int | None,
    ) -> Training[BaseConfig, State]:
        """Train with a separate ledger. members: whether the canary takes part, for each trial."""
        ledger = PrivacyLedger(budget=math.inf, delta=self.delta, relation=job.relation)
        ledger.reserve(job.plan)
        rng = Rng(self.seed, noise_seed=noise_seed, rank=self.ranks.number)
        training = job.begin(rng, ranks=self.ranks)
        shard: Any = records[self.ranks.shard(len(records))]
        *_, last = job.phases
        observer.present = members[0]
        public = self._ordinary if job.needs_public else None  # pictures of no unit
        for result in training.drive(CanaryConfined(Confined(shard, ledger, rng, self.ranks), observer), public):
            trial, remainder = divmod(result.step * len(members), last.steps)
            if result.phase.name == last.name and not remainder and trial < len(members):
                observer.present = members[trial]
        return training

    @property
    def _revealed(self) -> bool:
        trial = self.job.method.trial
        return trial is not None and trial.given(self.job.settings).revealed

    @property
    def _shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.job.card.shape
        return shape

    @property
    def _ordinary(self) -> Records:
        """Random records beside the canaries: their values do not matter to a guarantee."""
        draw, card = np.random.default_rng(self.seed), self.job.card
        images = draw.integers(0, 256, size=(ORDINARY, *card.shape), dtype=np.uint8)
        return Records(images, draw.integers(card.classes, size=ORDINARY))

    @property
    def _rows(self) -> Table:
        """Random rows, and the canary as the last: it has the last value of each column, and no other row has one of these."""
        draw, domain = np.random.default_rng(self.seed), np.array(self.job.card.domain)
        ordinary = draw.integers(domain - 1, size=(self.job.card.declared_size - 1, len(domain)))
        return Table(np.concatenate([ordinary, domain[None] - 1]).astype(np.int32))


def _part(
    job: Job[BaseConfig, State], delta: float, seed: int, noise_seed: int | None, kind: str, trials: int
) -> tuple[Observations, Observations]:
    """Run the trials of one process, until its parent ends."""
    return TrialRunner(job, delta, seed, noise_seed).single_trials(kind, trials, _while_awaited)


def _while_awaited(_event: Event) -> None:
    """End when the parent process was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        raise SystemExit(1)
