"""Progress, as events that carry public values only.

A method shows what it may: losses on fakes, released values. Never a loss on records, a drawn batch size, or a wall-clock time
(how long a step took depends on how many records were drawn).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

NOTE, PROGRESS = "note", "progress"
"""Kinds for whoever watches now; no file keeps them."""


@dataclass(frozen=True)
class Event:
    """One thing worth telling.

    Args:
        kind: "warm": figures of a step that releases nothing; "step": of one that does; "done": the run has ended; "note":
            words, in values["text"]; "progress": how far something is, in values["of"] and, in words, values["note"].
        step: the step of the phase it belongs to, counted from 1.
        values: public figures and words.
        phase: what is going on: "warm start", "training", "samples".
    """

    kind: str
    step: int
    values: Mapping[str, float | int | str] = field(default_factory=dict)
    phase: str = ""


class Sink(Protocol):
    """Anything that takes an event."""

    def __call__(self, event: Event, /) -> None: ...


def silent(event: Event, /) -> None:
    """A sink that keeps nothing."""


def note(text: str) -> Event:
    """Words for whoever watches."""
    return Event(NOTE, 0, {"text": text})


def progress(label: str, done: int, of: int, detail: str = "") -> Event:
    """So many of so many are done, for whoever watches."""
    return Event(PROGRESS, done, {"of": of, "note": detail}, label)
