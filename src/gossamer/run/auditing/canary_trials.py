"""Trials of an audit: small runs of a method's own loop, with a canary among the records and without it.

Where every canary has a weight of its own, all share a run. Elsewhere there is one canary, and a training is a sequence of
trials of T noisy queries. Before each trial the auditor decides at random whether the canary takes part, independently of the
state that earlier trials left. So the guarantee bounds the two errors of each trial, and their averages over all trials.
"""

import dataclasses
import math
import multiprocessing
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from gossamer.attacks import audit as bounds
from gossamer.attacks import canaries
from gossamer.attacks.arrays import Scores
from gossamer.attacks.audit import Profile
from gossamer.attacks.canaries import Planted, planted
from gossamer.data.card import DataCard
from gossamer.data.columns.column import Column
from gossamer.data.records import Records
from gossamer.data.tables.any_card import AnyCard
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.table import CODES, Table
from gossamer.errors import RequestError
from gossamer.events import Event, Sink, progress, silent
from gossamer.methods.contract import BaseConfig, State, TrialConfig
from gossamer.methods.job import Job, Training
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.auditing import canary_confined
from gossamer.run.auditing.canary_confined import CanaryObserver, GradientCanaries

ORDINARY = 60
"""Records beside the canaries."""
CANARIES_IN_A_RUN = 60_000
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
        Column(name=f"column {number}", kind="category", values=tuple(map(str, range(values))), ordered=True)
        for number, values in enumerate(trial.columns)
    ]
    return TableCard(columns=tuple(columns), declared_size=size, label=columns[-1].name)


def usual_canaries(trial: TrialConfig, epsilon: float) -> int:
    """Return the default number of canaries that take part; about as many do not."""
    if trial.canary == "gradients":
        return CANARIES_IN_A_RUN * (3 if epsilon < 2 else 1)
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
        return bounds.poisson_gaussian(self.rate, noise, self.count, self.revealed)

    def epsilon(self, noise: float, delta: float) -> float:
        """Return epsilon with another noise multiplier."""
        return bounds.poisson_gaussian_epsilon(self.rate, noise, self.count, delta, self.revealed)


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
    def of(cls, observer: CanaryObserver, trials: int = 1, *, revealed: bool = False) -> "Observations":
        """Return what an observer has kept of so many trials, one after the other."""
        seen, rates, noises = np.stack(observer.observed), observer.rates, observer.noise
        if isinstance(observer, GradientCanaries) and observer.banded is not None:
            seen = bounds.of_first_group(seen, observer.banded.coefficients)
            rates, noises = rates[: len(seen)], noises[: len(seen)]
        seen = seen.reshape(trials, -1, seen.shape[1])
        rate, noise = (np.reshape(kept, seen.shape[:2]) for kept in (rates, noises))
        return cls(np.concatenate(seen, axis=1), rate[0], np.mean(noise**2, axis=0) ** 0.5, revealed)

    @classmethod
    def joined(cls, parts: Sequence["Observations"]) -> "Observations":
        """Join trials of the same kind."""
        return dataclasses.replace(parts[0], x=np.concatenate([part.x for part in parts], axis=1))

    def split(self, members: NDArray[np.bool_], others: NDArray[np.bool_] | None = None) -> "Split":
        """Return the trials of the members, and those of the others. None: all that are no members."""
        parts = members, ~members if others is None else others
        return dataclasses.replace(self, x=self.x[:, parts[0]]), dataclasses.replace(self, x=self.x[:, parts[1]])

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


Split: TypeAlias = tuple[Observations, Observations]
"""Trials with a canary, and without."""


def _joined(results: Iterable[Split]) -> Split:
    with_canary, without = (Observations.joined(parts) for parts in zip(*results, strict=True))
    return with_canary, without


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

    @property
    def trial(self) -> TrialConfig:
        """How its method is tried with these settings."""
        trial = self.job.method.trial
        assert trial is not None
        return trial.given(self.job.settings)

    def observations(self, trials: int, jobs: int = 1, sink: Sink = silent) -> Split:
        """Make trials with canaries, and about as many without. jobs: processes, where there is one canary at a time."""
        if self.trial.canary == "gradients":
            return self._shared_runs(trials, sink)
        return self._single_trials(trials, sink) if jobs == 1 else self._parallel_trials(trials, jobs, sink)

    def _shared_runs(self, trials: int, sink: Sink) -> Split:
        """Make runs with many canaries, each with a weight of its own; as many weights have no canary."""
        per_run = self.job.card.declared_size - ORDINARY
        results = []
        for first in range(0, trials, per_run):
            count = min(per_run, trials - first)
            observer = GradientCanaries(count=2 * count)
            records = planted(self._ordinary, canaries.blank(count, self.job.card.shape))
            self._drive(self.job, records, observer, [True], noise_seed=self._later_seed(first))
            results.append(Observations.of(observer).split(observer.members, np.arange(2 * count) >= count))
            sink(progress("audit", first + count, trials))
        return _joined(results)

    def _single_trials(self, trials: int, sink: Sink) -> Split:
        """Make twice so many trials, each with or without the canary, at random."""
        observer, records = self._observer_and_records()
        members = self._random_members(2 * trials)
        size = _IN_A_TRAINING if self._repeats else 1
        for first in range(0, len(members), size):
            chunk = list(members[first : first + size])
            self._drive(self._lengthened(len(chunk)), records, observer, chunk, noise_seed=self._later_seed(first))
            sink(progress("audit", first + len(chunk), len(members)))
        return Observations.of(observer, len(members), revealed=self.trial.revealed).split(members)

    def _parallel_trials(self, trials: int, jobs: int, sink: Sink) -> Split:
        """Make the same trials in several processes, each with random choices and noise of its own."""
        parts = [dataclasses.replace(self, noise_seed=self._later_seed(part << 20)) for part in range(jobs)]
        results = []
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            futures = [pool.submit(part._single_trials, -(-trials // jobs), _while_awaited) for part in parts]
            for future in as_completed(futures):
                results.append(future.result())
                sink(progress("audit", len(results), jobs))
        return _joined(results)

    def models(self, trials: int, sink: Sink = silent) -> tuple[ReleaseProfile, Scores, Scores]:
        """Train twice so many models with one canary or without, at random, and look at the released models only.

        Returns:
            The queries of a training; scores of the models with the canary, [n], and without, [m].
        """
        members = self._random_members(2 * trials)
        shadows = [
            np.stack([self._model(present, _SHADOWS_SEED + pair)[1] for pair in range(_SHADOWS)])
            for present in (True, False)
        ]
        direction, scores = bounds.fisher_direction(*shadows), np.zeros(len(members))
        for number, present in enumerate(members):
            observer, weights = self._model(bool(present), self._later_seed(number))
            scores[number] = direction @ weights
            sink(progress("audit", number + 1, len(members)))
        declared = Observations.of(observer, revealed=self.trial.revealed).declared
        return declared, scores[members], scores[~members]

    def _model(self, present: bool, noise_seed: int | None) -> tuple[CanaryObserver, NDArray[np.float32]]:
        """Train one model, and return its weights."""
        observer, records = self._observer_and_records(steered=True)
        training = self._drive(self.job, records, observer, [present], noise_seed=noise_seed)
        tensors = [tensor.detach().flatten() for tensor in training.state.released.state_dict().values()]
        return observer, torch.cat([tensor.float() for tensor in tensors if tensor.is_floating_point()]).cpu().numpy()

    def _observer_and_records(self, *, steered: bool = False) -> tuple[CanaryObserver, Planted | Table]:
        """Return an observer for one canary, and the records with the canary as the last."""
        if self.trial.canary == "row":
            rows = self._rows
            return canary_confined.RowCanary(rows=rows, others=rows[:-1]), rows
        canary = canaries.out_of_distribution(self.job.card.shape)
        observers: dict[str, CanaryObserver] = {
            "record": canary_confined.RecordCanary(canary=canary),
            "critic": canary_confined.CriticCanary(),
        }
        of_gradients = GradientCanaries(count=1, steered=steered)
        return observers.get(self.trial.canary, of_gradients), planted(self._ordinary, canary)

    def _random_members(self, count: int) -> NDArray[np.bool_]:
        return np.random.default_rng(self.noise_seed).random(count) < 0.5

    def _later_seed(self, offset: int) -> int | None:
        return None if self.noise_seed is None else self.noise_seed + offset

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
        for result in training.drive(
            canary_confined.CanaryConfined(Confined(shard, ledger, rng, self.ranks), observer), public
        ):
            trial, remainder = divmod(result.step * len(members), last.steps)
            if result.phase.name == last.name and not remainder and trial < len(members):
                observer.present = members[trial]
        return training

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
        return Table(np.concatenate([ordinary, domain[None] - 1]).astype(CODES))


def _while_awaited(_event: Event) -> None:
    """End when the parent process was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        raise SystemExit(1)
