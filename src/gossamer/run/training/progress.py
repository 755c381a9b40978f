"""Where events go: JSON lines and the terminal.

`events.jsonl` carries what the methods show and no clock: how long a step took depends on how many records were drawn.
Only the data owner's own terminal shows speed and time left.
"""

import errno
import functools
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gossamer import notebook
from gossamer.errors import DataWarning, is_full
from gossamer.events import NOTE, PROGRESS, Event, EventLines, Sink, say
from gossamer.lazy import Lazy
from gossamer.privacy.random.noise import Rng

if TYPE_CHECKING:
    from gossamer.run.training import bars
else:
    bars = Lazy("gossamer.run.training.bars")
_PACKAGE = str(Path(__file__).parents[2])
PLAIN_EVERY, NOTEBOOK_EVERY = 10.0, 0.2
"""Seconds between two lines, and between two updates of a bar in a notebook."""


def to_all(sinks: Sequence[Sink]) -> Sink:
    """One sink that passes each event to several."""

    def sink(event: Event, /) -> None:
        for target in sinks:
            target(event)

    return sink


class JsonLines:
    """Appends events to a file, one JSON object a line; on resume, events after the checkpoint's step are dropped first.

    Args:
        path: of the file.
        up_to: phase and step of the checkpoint; None: the file is emptied.
    """

    def __init__(self, path: Path, *, up_to: tuple[str, int] | None = None) -> None:
        size = _size_up_to(path, *up_to) if up_to is not None and path.is_file() else 0
        self._file = path.open("ab", buffering=0)
        self._file.truncate(size)  # nothing is rewritten: a disk that is full at this moment loses nothing

    def __call__(self, event: Event, /) -> None:
        """Write one event."""
        if event.kind not in (NOTE, PROGRESS):
            line = event.line.encode()
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _size_up_to(path: Path, phase: str, step: int) -> int:
    """The length of the complete lines up to this step of this phase; the phases before it come first."""
    size = 0
    begun = False
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            event = json.loads(line)
        except ValueError:
            break
        in_phase = event["phase"] == phase
        begun = begun or in_phase
        if begun and not (in_phase and event["step"] <= step):
            break
        size += len(line)
    return size


class Terminal(AbstractContextManager["Terminal"]):
    """A sink for the terminal or a notebook: notes, and a bar with the time left and epsilon used; plain lines when piped.

    In a job of the page, stderr takes events, and gets these.

    A notebook is saved with what it shows. So a bar drops its clock when it ends, because the clock depends on the records.

    Args:
        stream: None: stderr.
        transient: whether a bar leaves the terminal when it has ended.
    """

    def __init__(self, stream: TextIO | None = None, *, transient: bool = False) -> None:
        out = stream or sys.stderr
        self._events = out if isinstance(out, EventLines) else None
        self._out = out
        self._display = notebook.displayer() if stream is None else None
        self._view: _View | None = None
        self._closed, self._transient = False, transient

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def __call__(self, event: Event, /) -> None:
        """Show a note, or how far something is; figures are for files. A terminal that was closed loses no run."""
        if self._closed:
            return
        try:
            if event.kind == NOTE:
                self._note(event)
            if event.kind == PROGRESS:
                self._progress(event)
        except OSError as error:
            if is_full(error):
                raise
            self._closed, self._view = True, None

    @functools.cached_property
    def _console(self) -> Any:
        return bars.Screen(file=self._out, soft_wrap=True, highlight=False)

    @property
    def has_viewer(self) -> bool:
        """Whether somebody sees the stream now: a terminal or a notebook."""
        return self._display is not None or self._out.isatty()

    def stop(self) -> None:
        """End the present bar."""
        if self._view is not None:
            self._view.stop()
            self._view = None

    def _note(self, event: Event) -> None:
        text = str(event.values["text"])
        if self._view is not None and self._view.is_full:
            self.stop()  # so that no bar is below what comes after it
        if self._events is not None:
            self._events.put(event)
        elif self._display is None:
            self._console.print(text, markup=False)
        else:
            say(text)

    def _progress(self, event: Event) -> None:
        if self._view is None or event.phase != self._view.label or event.step < self._view.done:
            self.stop()
            self._view = self._begin(event.phase, event.step, int(event.values["of"]))
        self._view.show(event.step, str(event.values["note"]))

    def _begin(self, label: str, done: int, of: int) -> "_View":
        if self._display is not None:
            return _NotebookBar(self._display, label, done, of)
        if self._events is not None:
            return _Events(self._events, label, done, of)
        if self._console.is_terminal:
            return _Bar(bars.begun(self._console, label, done, of, transient=self._transient), label, done, of)
        return _Lines(self._console, label, done, of)


def _warned(event: Event, /) -> None:
    """Warn of what is said about the data, at the line of the program that called Gossamer."""
    if event.kind == NOTE and event.values.get("about") == "data":
        caller = next(frame for frame in reversed(traceback.extract_stack()) if not frame.filename.startswith(_PACKAGE))
        warnings.warn_explicit(str(event.values["text"]), DataWarning, caller.filename, caller.lineno or 0)


class _View:
    """How far one thing is, for somebody who looks on. out: what shows it, now and then, with the speed since it began."""

    every = PLAIN_EVERY

    def __init__(self, out: Any, label: str, done: int, of: int) -> None:
        self._out, self.label, self._first, self.done, self._of, self._note = out, label, done, done, of, ""
        self._began = self._last = time.monotonic()

    def show(self, done: int, note: str) -> None:
        self.done, self._note = done, note
        now = time.monotonic()
        if now - self._last >= self.every or self.is_full:
            self._last = now
            self._draw()

    @property
    def is_full(self) -> bool:
        """Whether all is done."""
        return self.done >= self._of

    def stop(self) -> None:
        """Nothing is left open."""

    def _draw(self) -> None: ...

    @property
    def _rate(self) -> float:
        """Steps in a second; 0: not known yet."""
        return max(self.done - self._first, 0) / max(time.monotonic() - self._began, 1e-9)

    @property
    def _left(self) -> str:
        """The time left in words; empty: not known yet."""
        if not self._rate:
            return ""
        seconds = (self._of - self.done) / self._rate
        return f"{seconds:.0f} s left" if seconds < 100 else f"{seconds / 60:.0f} min left"


class _Bar(_View):
    """A bar in a terminal."""

    every = 0.0

    def stop(self) -> None:
        self._out.stop()

    def _draw(self) -> None:
        self._out.update(self._out.task_ids[0], completed=self.done, note=self._note)


class _Lines(_View):
    """A line now and then, for a file or a pipe."""

    def _draw(self) -> None:
        rate = "" if "per cent" in self.label else f"{self._rate:.2f} per s, "
        speed = f" ({rate}{self._left})" if self._rate else ""
        self._out.print(f"{self.label}: {self.done:,} of {self._of:,}{speed} {self._note}".rstrip(), markup=False)


class _Events(_View):
    """An event now and then, with the time left, for a job of the page."""

    def _draw(self) -> None:
        values: dict[str, int | str] = {"of": self._of, "note": self._note, "left": self._left}
        self._out.put(Event(PROGRESS, self.done, values, self.label))


class _NotebookBar(_View):
    """A bar in the output of a notebook's cell, updated in place by IPython."""

    every = NOTEBOOK_EVERY

    def __init__(self, display: Callable[..., Any], label: str, done: int, of: int) -> None:
        super().__init__(None, label, done, of)
        self._out = display(self._bar(""), raw=True, display_id=True)

    def stop(self) -> None:
        """Show the final state, without the clock."""
        if self.done < self._of:
            self._out.update(self._bar("stopped"), raw=True)

    def _draw(self) -> None:
        self._out.update(self._bar("done" if self.done >= self._of else self._left), raw=True)

    def _bar(self, state: str) -> dict[str, str]:
        share = self.done / max(self._of, 1)
        return notebook.bar(self.label, share, (f"{self.done:,} of {self._of:,}", state, self._note))


@dataclass(frozen=True, kw_only=True)
class Process:
    """What a process shows and writes besides its run, and for tests its noise.

    Args:
        progress: show notes, a bar, time left and epsilon used, if there is a terminal or a notebook.
        sink: takes the events too.
        rng: for tests: a generator with a fixed noise seed. The run is then not private, and says so.
    """

    progress: bool = True
    sink: Sink | None = None
    rng: Rng | None = None

    @contextmanager
    def shown(self) -> Iterator[Sink]:
        """Give one sink for all: a `Terminal` where somebody looks on, and `sink`. Without both, Python's warnings."""
        with Terminal() as terminal:
            looks_on = self.progress and terminal.has_viewer and not isinstance(self.sink, Terminal)
            sinks = [terminal if looks_on else None, self.sink]
            yield to_all([sink for sink in sinks if sink is not None] or [_warned])


DEFAULT = Process()
