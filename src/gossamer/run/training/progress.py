"""Where events go: JSON lines, the terminal, TensorBoard.

`events.jsonl` carries what the methods show and no clock: how long a step took depends on how many records were drawn.
Only the data owner's own terminal shows speed and time left.
"""

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gossamer import notebook
from gossamer.errors import RequestError, is_full
from gossamer.events import NOTE, PROGRESS, Event, EventLines, Sink, silent
from gossamer.privacy.random.noise import Rng

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


def tensorboard_writer() -> Any:
    """The class that writes TensorBoard files (the extra `tensorboard`).

    Raises:
        RequestError: if the extra is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (an extra, loaded when asked for)
    except ImportError as error:
        raise RequestError("TensorBoard files need the extra: pip install 'gossamer[tensorboard]'.") from error
    return SummaryWriter


def tensorboard(folder: Path) -> Sink:
    """A sink for TensorBoard. Raises RequestError as `tensorboard_writer` does."""
    kind = tensorboard_writer()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # each event carries a clock, and how long a step took depends on how many records were drawn
    writer = kind(str(folder))

    def sink(event: Event, /) -> None:
        if event.kind in (NOTE, PROGRESS):
            return
        for name, value in event.values.items():
            if isinstance(value, int | float):
                writer.add_scalar(f"{event.kind}/{name}", value, event.step)
        writer.flush()

    return sink


class _Screen(Console):
    """A console that does not end the process where nobody reads on, as after `| head`."""

    def on_broken_pipe(self) -> None:
        """Say it to `Terminal`."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Terminal:
    """A sink for the terminal or a notebook: notes, and a bar with the time left and epsilon used; plain lines when piped.

    In a job of the page, stderr takes events, and gets these.

    A notebook is saved with what it shows. So a bar drops its clock when it ends, because the clock depends on the records.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        out = stream or sys.stderr
        self._events = out if isinstance(out, EventLines) else None
        self._console = _Screen(file=out, soft_wrap=True, highlight=False)
        self._display = notebook.displayer() if stream is None else None
        self._view: _View | None = None
        self._label, self._done, self._closed = "", 0, False

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def __call__(self, event: Event, /) -> None:
        """Show a note, or how far something is; figures are for files. A terminal that was closed loses no run."""
        if self._closed:
            return
        try:
            self._show(event)
        except OSError as error:
            if is_full(error):
                raise
            self._closed, self._view = True, None

    def _show(self, event: Event) -> None:
        if event.kind == NOTE:
            self._note(event)
        if event.kind == PROGRESS:
            label, done, of = event.phase, event.step, int(event.values["of"])
            if self._view is None or label != self._label or done < self._done:
                self.stop()
                self._label, self._view = label, self._begin(label, done, of)
            self._done = done
            self._view.show(done, str(event.values["note"]))

    @property
    def has_viewer(self) -> bool:
        """Whether somebody sees the stream now: a terminal or a notebook."""
        return self._display is not None or self._console.is_terminal or self._console.is_jupyter

    def stop(self) -> None:
        """End the present bar."""
        if self._view is not None:
            self._view.stop()
            self._view = None

    def _note(self, event: Event) -> None:
        text = str(event.values["text"])
        if self._events is not None:
            self._events.put(event)
        elif self._display is None:
            self._console.print(text, markup=False)
        else:
            notebook.say(text)

    def _begin(self, label: str, done: int, of: int) -> "_View":
        if self._display is not None:
            return _NotebookBar(self._display, label, done, of)
        if self._events is not None:
            return _Events(self._events, label, done, of)
        return (_Bar if self._console.is_terminal else _Lines)(self._console, label, done, of)


class _View(Protocol):
    """How far one thing is, for somebody who looks on."""

    def show(self, done: int, note: str) -> None: ...

    def stop(self) -> None: ...


class _Bar:
    """A bar in a terminal."""

    def __init__(self, console: Console, label: str, done: int, of: int) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._bar = Progress(*columns, console=console)
        self._task = self._bar.add_task(label, total=of, completed=done, note="")
        self._bar.start()

    def show(self, done: int, note: str) -> None:
        self._bar.update(self._task, completed=done, note=note)

    def stop(self) -> None:
        self._bar.stop()


class _Lines:
    """A line now and then, for a file or a pipe."""

    def __init__(self, out: Any, label: str, done: int, of: int) -> None:
        self._out, self._label, self._of = out, label, of
        self._pace = _Pace(done, of)
        self._last = time.monotonic()

    def show(self, done: int, note: str) -> None:
        now = time.monotonic()
        if now - self._last < PLAIN_EVERY and done < self._of:
            return
        self._last = now
        self._say(done, note)

    def _say(self, done: int, note: str) -> None:
        rate = self._pace.rate(done)
        speed = f" ({rate:.2f} per s, {self._pace.left(done)})" if rate else ""
        self._out.print(f"{self._label}: {done:,} of {self._of:,}{speed} {note}".rstrip(), markup=False)

    def stop(self) -> None:
        """Nothing is left open."""


class _Events(_Lines):
    """An event now and then, with the time left, for a job of the page."""

    def _say(self, done: int, note: str) -> None:
        values: dict[str, int | str] = {"of": self._of, "note": note, "left": self._pace.left(done)}
        self._out.put(Event(PROGRESS, done, values, self._label))


class _NotebookBar:
    """A bar in the output of a notebook's cell, updated in place by IPython."""

    def __init__(self, display: Callable[..., Any], label: str, done: int, of: int) -> None:
        self._label, self._done, self._of, self._note = label, done, of, ""
        self._pace = _Pace(done, of)
        self._handle = display(self._drawn(""), raw=True, display_id=True)
        self._last = time.monotonic()

    def show(self, done: int, note: str) -> None:
        self._done, self._note = done, note
        if done >= self._of:
            self._update("done")
        elif time.monotonic() - self._last >= NOTEBOOK_EVERY:
            self._update(self._pace.left(done))

    def stop(self) -> None:
        """Show the final state, without the clock."""
        if self._done < self._of:
            self._update("stopped")

    def _update(self, state: str) -> None:
        self._handle.update(self._drawn(state), raw=True)
        self._last = time.monotonic()

    def _drawn(self, state: str) -> dict[str, str]:
        share = self._done / max(self._of, 1)
        return notebook.bar(self._label, share, (f"{self._done:,} of {self._of:,}", state, self._note))


class _Pace:
    """Speed since the first event of a bar."""

    def __init__(self, done: int, of: int) -> None:
        self._first, self._of, self._started = done, of, time.monotonic()

    def rate(self, done: int) -> float:
        """Steps in a second; 0: not known yet."""
        return max(done - self._first, 0) / max(time.monotonic() - self._started, 1e-9)

    def left(self, done: int) -> str:
        """The time left in words; empty: not known yet."""
        rate = self.rate(done)
        return f"{_minutes((self._of - done) / rate)} left" if rate > 0 else ""


@contextmanager
def shown(sink: Sink | None, *, progress: bool) -> Iterator[Sink]:
    """Give the sink; without one, a `Terminal` where there is a terminal or a notebook and progress is wanted."""
    if sink is not None:
        yield sink
        return
    with Terminal() as terminal:
        yield terminal if progress and terminal.has_viewer else silent


@dataclass(frozen=True, kw_only=True)
class Process:
    """What a process shows and writes besides its run, and for tests its noise.

    Args:
        progress: show notes, a bar, time left and epsilon used, if there is a terminal or a notebook.
        sink: takes the events in place of that.
        tensorboard: write TensorBoard files into the run folder. Needs the extra "tensorboard". `resume` does as `fit` did.
        rng: for tests: a generator with a fixed noise seed. The run is then not private, and says so.

    Raises:
        RequestError: if the extra is not installed.
    """

    progress: bool = True
    sink: Sink | None = None
    tensorboard: bool = False
    rng: Rng | None = None

    def __post_init__(self) -> None:
        if self.tensorboard:
            tensorboard_writer()

    def shown(self) -> AbstractContextManager[Sink]:
        """Give what takes the events."""
        return shown(self.sink, progress=self.progress)


DEFAULT = Process()


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
