"""Progress, as events that carry public values only.

A method emits what it may show: losses on fakes, released values, epsilon spent. Never a loss on records, a drawn batch
size, or a wall-clock time (how long a step took depends on how many records were drawn).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Event:
    """One thing worth telling.

    Args:
        kind: what happened: "warm", "step", "frequency", "checkpoint", "done", "note".
        step: the step of the run it belongs to, counted from 0.
        values: public figures and words.
    """

    kind: str
    step: int
    values: Mapping[str, float | int | str] = field(default_factory=dict)


class Sink(Protocol):
    """Anything that takes an event."""

    def __call__(self, event: Event, /) -> None: ...


def silent(event: Event, /) -> None:
    """A sink that keeps nothing."""
