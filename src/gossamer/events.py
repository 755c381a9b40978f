"""Progress, as events that carry public values only. Notes alone are for the data owner: no file of a run has them.

A method may show losses on fakes and released values. It never shows a loss on records, the size of a sampled batch or the
time of a step: both depend on which records were sampled.
"""

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import TextIO, TypeAlias

from gossamer import notebook

NOTE, PROGRESS = "note", "progress"
"""Kinds that are shown and kept in no file of a run."""
TEXT, ERROR = "text", "error"
"""Kinds of a job alone: a line that a command printed, and why it failed. Each has words in values["text"]."""


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

    @property
    def line(self) -> str:
        """The event as JSON, with the end of the line."""
        fields = {"kind": self.kind, "phase": self.phase, "step": self.step, "values": dict(self.values)}
        return json.dumps(fields) + "\n"


Sink: TypeAlias = Callable[[Event], None]
"""Anything that takes an event."""


def silent(event: Event, /) -> None:
    """A sink that keeps nothing."""


def note(text: str, *, about: str = "") -> Event:
    """Words to show. about: "data" if a program without a terminal is to warn of it, too."""
    return Event(NOTE, 0, {"text": spoken(text), "about": about})


def progress(label: str, done: int, of: int, detail: str = "") -> Event:
    """How many of how many are done."""
    return Event(PROGRESS, done, {"of": of, "note": detail}, label)


_SPOKEN: list[Callable[[str], str]] = [str]
"""How this process names arguments and calls: the last entry counts."""


@contextmanager
def spoken_as(words: Callable[[str], str]) -> Iterator[None]:
    """Within it, notes and what `say` prints are passed through `words`: the command line makes flags of arguments."""
    _SPOKEN.append(words)
    try:
        yield
    finally:
        _SPOKEN.pop()


def spoken(text: str) -> str:
    """Return a message as this process says it."""
    return _SPOKEN[-1](text)


def say(text: str) -> None:
    """Print a message for the user: to stderr, or as plain output in a notebook, which shows stderr as an error."""
    print(spoken(text), file=sys.stderr if notebook.displayer() is None else sys.stdout)


class EventLines(io.TextIOBase):
    """A file of events, one JSON object a line, in place of a terminal. Lines that are printed become events.

    It is as private as the terminal: it holds all that a command says, with the time left.

    Args:
        file: what the lines are written to.
    """

    def __init__(self, file: TextIO) -> None:
        self._file, self._rest = file, ""

    def write(self, text: str, /) -> int:
        """Add text. Each line of it that is complete becomes an event."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(None, lines):
            self.put(Event(TEXT, 0, {"text": line}))
        return len(text)

    def put(self, event: Event) -> None:
        """Write an event."""
        self._file.write(event.line)
        self._file.flush()


@contextmanager
def printed_as_events() -> Iterator[None]:
    """Within it, what this process prints goes to its output as events."""
    lines = EventLines(sys.stdout)
    with redirect_stdout(lines), redirect_stderr(lines):
        yield
