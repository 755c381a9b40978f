"""What to expect of a run before it begins: quality, time and memory, from measured runs. Reads no record."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gossamer.data.card import DataCard
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job
from gossamer.run.recommend import measured_runs
from gossamer.run.recommend.measured_runs import EPSILONS, USEFUL, Expected, Measured, percent
from gossamer.run.report.wording import setting_in_words
from gossamer.run.training import presets
from gossamer.run.training.memory import peak
from gossamer.run.training.plan import Request

REFERENCE = "MNIST"
"""Every method with a guarantee was measured on it, so of equally near runs the one on it is taken."""
LAST = EPSILONS[-1]
_SAME_TIME = ("noise_multiplier", "learning_rate", "max_norm", "average_decay", "beta")
"""Ends of the names of settings that do not change how long a step takes."""
_SAME_WORK = ("steps", "expected_batch_size")
"""Settings in proportion to which a run takes its time."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The forecast of a run before it begins.

    Args:
        expected: its quality, for each measured data set; empty: unknown.
        same: `expected` comes from runs with these settings alone.
        like: the nearest measured run, if any.
        differs: in what `like` differs, in words.
        needed: what it takes to be as clear as a useful run, in a sentence; empty: unknown.
        minutes: its time on the machine of `like`, about; None: unknown.
        memory: bytes that it takes at its peak, about.
    """

    expected: tuple[Expected, ...]
    same: bool
    like: Measured | None
    differs: tuple[str, ...]
    needed: str
    minutes: float | None
    memory: float

    def lines(self) -> list[str]:
        """The text of `plan`."""
        if self.like is None:
            quality = ["expected quality: unknown, because no run like this was measured"]
        else:
            of = "that learns from its samples" if self.like.of == "samples" else "that is released"
            settings = "with these settings" if self.same else "with other settings; with these there was none"
            quality = [
                f"accuracy of a classifier {of}, from measured runs {settings} (other pictures may be harder or easier):",
                *(f"  {figure}" for figure in self.expected),
                f"  nearest: {self.like}",
            ]
            quality += [f"  which differs by: {', '.join(self.differs)}"] if self.differs else []
        return [
            *quality,
            f"for a useful release: {self.needed or 'how many records it takes is unknown'}",
            f"time: {duration(self.minutes, self.like)}",
            f"memory: about {round(self.memory / 1e6, -1):,.0f} MB at the peak",
        ]

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "expected": [figure.to_json() for figure in self.expected],
            "same_settings": self.same,
            "nearest": None if self.like is None else str(self.like),
            "differs": list(self.differs),
            "useful": self.needed,
            "minutes": self.minutes,
            "memory_mb": self.memory / 1e6,
        }


def forecast_run(request: Request, *, public: bool = False) -> Forecast:
    """What to expect of a run. public: whether it has public records."""
    job, epsilon, delta = request.job, request.promise.epsilon, request.delta
    card = job.card
    measured = [
        run for run in measured_runs.of_method(job.method.name, epsilon=epsilon) if measured_runs.comparable(run, card)
    ]
    same = [run for run in measured if bool(run.public) == public and not _other_settings(run, job)]
    like = nearest(same or measured, card, epsilon=epsilon, delta=delta)
    enough = measured_runs.enough([run for run in measured if public or not run.public]) or measured_runs.enough(
        measured
    )
    other = {} if like is None else _other_settings(like, job)
    differs = () if like is None else _differences(like, other, card, epsilon=epsilon, public=public)
    return Forecast(
        expected=measured_runs.expected(same or measured, card, epsilon=epsilon, delta=delta),
        same=bool(same),
        like=like,
        differs=differs,
        needed=more(enough, card, epsilon=epsilon, delta=delta) if enough is not None else "",
        minutes=None if like is None else _time(like, other, card),
        memory=peak(job),
    )


def nearest(runs: Sequence[Measured], card: DataCard, *, epsilon: float, delta: float) -> Measured | None:
    """The run that is nearest in clearness; of equally near ones one on MNIST, and the best of those."""
    clearness = measured_runs.clearness(card.declared_size, epsilon, delta)

    def rank(run: Measured) -> tuple[float, bool, float]:
        distance = abs(math.log(run.clearness / clearness))
        return max(distance, math.log(presets.NEAR)), run.data != REFERENCE, -run.accuracy

    return min(runs, key=rank, default=None)


def time_of(like: Measured, card: DataCard) -> float | None:
    """Minutes of a run with the same settings on the same machine; None: unknown."""
    if like.minutes is None:
        return None
    return like.minutes * (max(1.0, card.declared_size / like.records) if like.per_record else 1.0)


def duration(minutes: float | None, like: Measured | None) -> str:
    """Minutes and the machine, in words."""
    if minutes is None or like is None:
        return "unknown"
    machine = f" on {like.machine}" if like.machine else ""
    return f"{'less than a minute' if minutes < 1 else f'about {minutes:.0f} min'}{machine}"


def about(minutes: float | None) -> str:
    """Minutes, for a table."""
    return "unknown" if minutes is None else "< 1 min" if minutes < 1 else f"{minutes:.0f} min"


def more(enough: Measured, card: DataCard, *, epsilon: float, delta: float) -> str:
    """Whether these records are enough to be as clear as a useful run, or what is enough; in a sentence."""
    example = f"the least clear run that reached {percent(USEFUL)} is one of {enough.method}: {enough}."
    if math.isinf(epsilon):
        return example
    needed = measured_runs.records_needed(enough, epsilon=epsilon, delta=delta)
    if card.declared_size < needed <= presets.NEAR * card.declared_size:
        return f"{example} These {card.declared_size:,} {card.unit}s at this epsilon are about as clear as that."
    if needed <= card.declared_size:
        return f"{example} About {needed:,} {card.unit}s at this epsilon are as clear as that, and there are more."
    larger = measured_runs.epsilon_needed(enough, records=card.declared_size, delta=delta)
    if larger is not None:
        other = f"or these at epsilon {larger:g}"
    elif epsilon < LAST:
        other = f"and with these not even epsilon {LAST:g} would do"
    else:
        other = "and no larger epsilon replaces them"
    return f"{example} To be as clear as that takes about {needed:,} {card.unit}s at this epsilon, {other}."


def _differences(
    run: Measured, other: Mapping[str, tuple[Any, Any]], card: DataCard, *, epsilon: float, public: bool
) -> tuple[str, ...]:
    """In what a measured run differs from the one asked for, besides its pictures; in words."""
    differences = []
    if run.records != card.declared_size:
        differences.append(f"{run.records:,} records instead of {card.declared_size:,}")
    if not math.isclose(run.epsilon, epsilon, rel_tol=0.02):
        differences.append(f"epsilon {run.epsilon:g} instead of {epsilon:.3g}")
    if run.shape != card.shape:
        differences.append(f"pictures of {by(run.shape)} instead of {by(card.shape)}")
    if bool(run.public) != public:
        differences.append(f"{run.public or 'none'} as public records instead of {'others' if public else 'none'}")
    for name, settings in other.items():
        measured, requested = (setting_in_words(value) or "none" for value in settings)
        differences.append(f"{name.replace('_', '-')} {measured} instead of {requested}")
    return tuple(differences)


def _other_settings(run: Measured, job: Job[BaseConfig, State]) -> dict[str, tuple[Any, Any]]:
    """The settings in which a measured run differs: {name: (its own, the one asked for)}. The noise follows from epsilon."""
    noise = {} if job.method.without_guarantee else {"noise_multiplier": job.settings["noise_multiplier"]}
    measured_job = Job.of(job.method, {**run.all_settings, **noise}, job.card)
    differing = [name for name, value in job.in_full.items() if measured_job.in_full[name] != value]
    return {name: (measured_job.settings[name], job.settings[name]) for name in differing}


def _time(like: Measured, other: Mapping[str, tuple[Any, Any]], card: DataCard) -> float | None:
    """Minutes, in proportion to steps and batch; None: another setting could change the time of a step."""
    if any(not name.endswith(_SAME_TIME) and name not in _SAME_WORK for name in other):
        return None
    minutes = time_of(like, card)
    for name in _SAME_WORK:
        measured, requested = other.get(name, (1, 1))
        if minutes is not None:
            minutes = minutes * requested / measured if measured and requested else None
    return minutes


def by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
