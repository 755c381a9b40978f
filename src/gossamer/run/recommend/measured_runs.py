"""Runs of ours on pictures that were measured (`measured.toml`): what a method reached on which records, and in what time.

They say what was measured elsewhere, and forecast nothing: other records may be far harder.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from typing import Any, Literal

from gossamer.data.card import DataCard
from gossamer.data.tables.any_card import AnyCard
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.run.training import presets
from gossamer.run.training.presets import NEAR

Pictures = Literal["digits", "clothes", "faces", "photographs", "points"]
"""What records show."""
REFERENCE = "MNIST"
"""Every method was measured on it, so of equally near runs one on it is taken."""
LARGEST = 20.0
"""A larger epsilon counts as this one: it does not make up for missing records."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """A run that was measured. The head of `measured.toml` says what each field is."""

    method: str
    data: str
    pictures: Pictures
    shape: tuple[int, ...]
    classes: int
    records: int
    epsilon: float
    accuracy: float
    page: str
    public: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    preset: str | None = None
    of: Literal["samples", "release"] = "samples"
    on: Literal["test records", "training records set apart"] = "test records"
    minutes: float | None = None
    machine: str = ""

    def __post_init__(self) -> None:
        if not (0 <= self.accuracy <= 1 and self.records > 0 and self.epsilon > 0):
            raise ValueError(f"a measured run of {self.method} on {self.data} has numbers that cannot be")

    @property
    def all_settings(self) -> dict[str, Any]:
        """Those of its preset too."""
        return {**(presets.settings(self.method, self.preset) if self.preset else {}), **self.settings}

    @cached_property
    def draws(self) -> str:
        """What a program drew for this run, so that it suits such records alone; empty: nothing. See `Job.draws`."""
        card = DataCard(shape=self.shape, classes=self.classes, declared_size=self.records)
        return Job.of(METHODS[self.method], {**presets.any_noise(self.method), **self.all_settings}, card).draws

    @property
    def figure(self) -> str:
        """The accuracy, for a table."""
        return f"{100 * self.accuracy:.1f} %"

    @property
    def records_in_words(self) -> str:
        """On what it was measured, for a table."""
        public = f" with {self.public}" if self.public else ""
        return f"{self.data}{public}, {self.records:,} records, epsilon {self.epsilon:g}"

    @property
    def time(self) -> str:
        """Its time and machine, for a table."""
        if self.minutes is None:
            return "unknown"
        return f"{'< 1 min' if self.minutes < 1 else f'{self.minutes:.0f} min'}, {self.machine}"

    def __str__(self) -> str:
        return f"{self.figure} on {self.records_in_words}; time {self.time}: {self.page}"

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        names = ("data", "records", "epsilon", "public", "accuracy", "of", "on", "minutes", "machine", "page")
        return {name: getattr(self, name) for name in names} | {"settings": self.all_settings}


@cache
def runs() -> tuple[Measured, ...]:
    """All measured runs."""
    return parsed(resources.files("gossamer.run.recommend").joinpath("measured.toml").read_text(encoding="utf-8"))


def parsed(text: str) -> tuple[Measured, ...]:
    """The runs of a file in the form of `measured.toml`. Raises TypeError or KeyError: a field is missing or unknown."""
    content = tomllib.loads(text)
    return tuple(from_entry(entry, content["data"], content["usual"]) for entry in content["run"])


def from_entry(entry: Mapping[str, Any], data: Mapping[str, Any], usual: Mapping[str, Any]) -> Measured:
    """A run from its entry, the facts of the data sets, and what an entry leaves out."""
    settings = dict(entry.get("settings", {}))
    preset = settings.pop("preset", None)
    on = {**data[entry["on"]["data"]], **entry["on"]}
    fields = {**usual, **on, **entry["result"], "shape": tuple(on["shape"])}
    return Measured(method=entry["method"], settings=settings, preset=preset, **fields)


def of_method(method: str, *, epsilon: float, public: bool, pictures: str | None = None) -> tuple[Measured, ...]:
    """The runs of a method whose settings are possible here: with epsilon infinity for infinity, else a finite one.

    Args:
        method: a key of METHODS.
        epsilon: of the run that is asked for.
        public: whether there are public records.
        pictures: what the records show; None, or never measured: runs on any. A run for which a program drew pictures
            is for such records alone.
    """
    measured = any(run.pictures == pictures for run in runs())
    return tuple(
        run
        for run in runs()
        if run.method == method
        and math.isinf(run.epsilon) == math.isinf(epsilon)
        and (run.pictures == pictures or not measured)
        and (public or not run.public)
        and run.draws in ("", pictures)
    )


def comparable(run: Measured, card: Any) -> bool:
    """Whether a run and a card have as many channels, as many classes, more than one, and sides about as long (`NEAR`)."""
    (channels, *sides), (measured_channels, *measured_sides) = card.shape, run.shape
    similar = all(1 / NEAR <= side / other <= NEAR for side, other in zip(sides, measured_sides, strict=True))
    return channels == measured_channels and similar and card.classes == run.classes > 1


def nearest(candidates: Sequence[Measured], card: AnyCard, *, epsilon: float) -> Measured | None:
    """The run that is nearest in records and epsilon, by ratio: a comparable one, and of equally near ones the best."""

    def order(run: Measured) -> tuple[bool, float, bool, float]:
        far = abs(math.log(run.records / card.declared_size)) + abs(
            math.log(min(run.epsilon, LARGEST) / min(epsilon, LARGEST))
        )
        return not comparable(run, card), max(far, math.log(NEAR)), run.data != REFERENCE, -run.accuracy

    return min(candidates, key=order, default=None)


def times_clearer(run: Measured, card: AnyCard, *, epsilon: float) -> float:
    """By which factor a run had more records times epsilon: where noise covers less, accuracy is higher."""
    own = card.declared_size * min(epsilon, LARGEST)
    return run.records * min(run.epsilon, LARGEST) / own
