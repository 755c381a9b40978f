"""Progress, as events that carry public values only.

A method may show losses on fakes and released values. It never shows a loss on records, the size of a sampled batch or the
time of a step: both depend on which records were sampled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gossamer.errors import worded

NOTE, PROGRESS = "note", "progress"
"""Kinds that are shown and kept in no file."""


@dataclass(frozen=True)
class Event:
    """One report of progress.

    Args:
        kind: "warm" after a step that releases nothing, "step" after another one, "done" at the end of the run. A "note" has
            words in values["text"]. A "progress" has the total in values["of"], and words in values["note"].
        step: the step of its phase, counted from 1.
        values: public figures and words.
        phase: "warm start", "training", "samples".
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
    """Words to show."""
    return Event(NOTE, 0, {"text": worded(text)})


def progress(label: str, done: int, of: int, detail: str = "") -> Event:
    """How many of how many are done."""
    return Event(PROGRESS, done, {"of": of, "note": detail}, label)
