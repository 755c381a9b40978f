"""What to expect of a run, from measured runs alone (`measured.toml`).

Two runs of a method are compared by their signal-to-noise: the number of protected records times mu. One Gaussian query of
noise multiplier 1 / mu costs this epsilon and delta. The product says how many noise widths all records together can move a
sum. It is called clearness here. The only assumption: with the same settings, a clearer run does no worse, up to chance. So
a run that was no clearer gives a lower end of what to expect, and a run that was no less clear gives an upper end.

No run shows how hard other pictures are. So there is one expectation for each measured data set. A run counts for pictures
of about its size with as many channels and classes (`comparable`).
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from gossamer.data.card import DataCard
from gossamer.lazy import Lazy
from gossamer.run.training import presets
from gossamer.run.training.presets import NEAR

if TYPE_CHECKING:
    from scipy import optimize, stats
else:
    optimize, stats = Lazy("scipy.optimize"), Lazy("scipy.stats")

Pictures = Literal["digits", "clothes", "faces", "photographs", "points"]
"""What records show."""
USEFUL = 0.8
"""A rule of thumb: from this accuracy in ten classes on, a release counts as useful."""
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0)
"""Budgets that are advised where a smaller one is not enough."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """A run that was measured. The head of `measured.toml` says what each field is."""

    method: str
    data: str
    pictures: Pictures
    records: int
    epsilon: float
    delta: float
    shape: tuple[int, ...]
    classes: int
    accuracy: float
    of: Literal["samples", "release"]
    on: Literal["test records", "training records set apart"]
    page: str
    public: str = ""
    preset: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    real: float | None = None
    minutes: float | None = None
    per_record: bool = False
    machine: str = ""

    def __post_init__(self) -> None:
        within = 0 <= self.at_least <= self.accuracy <= self.at_most <= 1
        if not (within and self.records > 0 and self.epsilon > 0 and 0 < self.delta < 1):
            raise ValueError(f"a measured run of {self.method} on {self.data} has numbers that cannot be")

    @property
    def all_settings(self) -> dict[str, Any]:
        """Those of its preset too."""
        preset_settings = presets.settings(self.method, self.preset) if self.preset else {}
        return {**preset_settings, **self.settings}

    @property
    def at_least(self) -> float:
        """The lower end of its interval; its figure, where it has none."""
        return self.accuracy if self.low is None else self.low

    @property
    def at_most(self) -> float:
        """The upper end of its interval; its figure, where it has none."""
        return self.accuracy if self.high is None else self.high

    @property
    def clearness(self) -> float:
        return clearness(self.records, self.epsilon, self.delta)

    def __str__(self) -> str:
        spread = "" if self.low is None else f" ({percent(self.at_least)} to {percent(self.at_most)})"
        public = f", with {self.public} as public records" if self.public else ""
        return (
            f"{percent(self.accuracy)}{spread} with {self.records:,} records of {self.data} at epsilon {self.epsilon:g}"
            f"{public}, on {self.on}: {self.page}"
        )

    @property
    def in_short(self) -> str:
        """For a table."""
        public = f" with {self.public}" if self.public else ""
        return f"{percent(self.accuracy)} on {self.data}{public}, {self.records:,} records, epsilon {self.epsilon:g}"


@dataclass(frozen=True)
class Expected:
    """What to expect if the records were as hard as those of one data set.

    Args:
        data: the data set.
        public: the public records of its runs; empty: none.
        low: what a run that was no clearer reached; None: unknown.
        high: what the nearest run that was no less clear reached; None: unknown.
        runs: these runs, at most two.
    """

    data: str
    public: str
    low: float | None
    high: float | None
    runs: tuple[Measured, ...]

    def __str__(self) -> str:
        suffix = f", with {self.public} as public records" if self.public else ""
        return f"as on {self.data}{suffix}: {self.range_text}"

    @property
    def range_text(self) -> str:
        if self.low is not None and self.high is not None:
            low, high = f"{100 * self.low:.1f}", percent(self.high)
            return f"{low} to {high}" if percent(self.low) != high else f"about {high}"
        return f"at most {percent(self.high)}" if self.high is not None else f"at least {percent(self.low or 0.0)}"

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "data": self.data,
            "public": self.public,
            "low": self.low,
            "high": self.high,
            "measured": [str(run) for run in self.runs],
        }


@cache
def runs() -> tuple[Measured, ...]:
    text = resources.files("gossamer.run.recommend").joinpath("measured.toml").read_text(encoding="utf-8")
    return tuple(map(from_entry, tomllib.loads(text)["run"]))


def from_entry(entry: Mapping[str, Any]) -> Measured:
    """A run from a table of `measured.toml`. Raises TypeError or KeyError if a field is missing or unknown."""
    return Measured(**{**entry, "shape": tuple(entry["shape"])})


def of_method(method: str, *, epsilon: float, pictures: str | None = None) -> tuple[Measured, ...]:
    """The measured runs of a method: with epsilon infinity for infinity, the others for a finite epsilon.

    Args:
        method: a key of METHODS.
        epsilon: of the run to forecast.
        pictures: what its records show; None, or never measured: runs on any.
    """
    candidates = [run for run in runs() if run.method == method and math.isinf(run.epsilon) == math.isinf(epsilon)]
    alike = [run for run in candidates if run.pictures == pictures]
    return tuple(alike if pictures is not None and any(run.pictures == pictures for run in runs()) else candidates)


def comparable(run: Measured, card: DataCard) -> bool:
    """Whether a run and a card have as many channels, as many classes, more than one, and sides about as long (`NEAR`)."""
    (channels, *sides), (measured_channels, *measured_sides) = card.shape, run.shape
    similar = all(1 / NEAR <= side / other <= NEAR for side, other in zip(sides, measured_sides, strict=True))
    return channels == measured_channels and similar and card.classes == run.classes > 1


def expected(measured: Sequence[Measured], card: DataCard, *, epsilon: float, delta: float) -> tuple[Expected, ...]:
    """What to expect of a run on the records of a card, for each data set and public records of the measured runs."""
    own_clearness = clearness(card.declared_size, epsilon, delta)
    groups = dict.fromkeys((run.data, run.public) for run in measured)
    return tuple(
        _expected([run for run in measured if (run.data, run.public) == group], own_clearness) for group in groups
    )


def _expected(alike: Sequence[Measured], own_clearness: float) -> Expected:
    """What to expect: the best run that was no clearer, and the best of the nearest that were no less clear."""
    below = max(
        (run for run in alike if run.clearness <= NEAR * own_clearness), key=lambda run: run.accuracy, default=None
    )
    no_less = [run for run in alike if run.clearness * NEAR >= own_clearness]
    nearest = min((run.clearness for run in no_less), default=0.0)
    best = [run for run in no_less if run.clearness <= NEAR * nearest]
    above = max(best, key=lambda run: run.accuracy, default=None)
    low = None if below is None else below.at_least
    high = None if above is None else max(above.at_most, 0.0 if below is None else below.at_most)
    neighbours = tuple(dict.fromkeys(run for run in (below, above) if run is not None))
    return Expected(alike[0].data, alike[0].public, low, high, neighbours)


def enough(measured: Sequence[Measured]) -> Measured | None:
    """The least clear run that was useful; None: there is none."""
    useful = [run for run in measured if run.accuracy >= USEFUL]
    return min(useful, key=lambda run: (run.clearness, -run.accuracy), default=None)


def records_needed(run: Measured, *, epsilon: float, delta: float) -> int:
    """How many records make a run at this budget as clear, rounded up to two digits."""
    exact = run.clearness / _counted(epsilon, delta)
    step = int(10 ** max(math.floor(math.log10(exact)) - 1, 0))
    return math.ceil(exact / step) * step


def epsilon_needed(run: Measured, *, records: int, delta: float) -> float | None:
    """The smallest of `EPSILONS` at which so many records are as clear; None: none of them."""
    return next((epsilon for epsilon in EPSILONS if clearness(records, epsilon, delta) >= run.clearness), None)


def clearness(records: int, epsilon: float, delta: float) -> float:
    """See the module. Without privacy, the number of records."""
    return records * (1.0 if math.isinf(epsilon) else _counted(epsilon, delta))


def _counted(epsilon: float, delta: float) -> float:
    """Mu, up to the last of `EPSILONS`: a larger epsilon does not make up for missing records."""
    return mu(min(epsilon, EPSILONS[-1]), delta)


@cache
def mu(epsilon: float, delta: float) -> float:
    """The largest mu for which one Gaussian query of noise multiplier 1 / mu is (epsilon, delta)-DP.

    Dong, Roth, Su 2022 ("Gaussian differential privacy"), Corollary 2.13.
    """

    def too_much(value: float) -> float:
        first = stats.norm.cdf(-epsilon / value + value / 2)
        second = math.exp(epsilon + stats.norm.logcdf(-epsilon / value - value / 2))
        return float(first - second - delta)

    return float(optimize.brentq(too_much, 1e-6, 2 * epsilon + 60))


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
