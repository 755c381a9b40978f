"""Where events go: JSON lines, the terminal, TensorBoard.

`events.jsonl` carries what the methods show and no clock: how long a step took depends on how many records were drawn.
Only the data owner's own terminal shows speed and time left.
"""

import errno
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from gossamer.errors import RequestError
from gossamer.events import NOTE, PROGRESS, Event, Sink, silent

PLAIN_EVERY = 10.0


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
            fields = {"kind": event.kind, "phase": event.phase, "step": event.step, "values": dict(event.values)}
            line = json.dumps(fields).encode() + b"\n"
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


class Terminal:
    """A sink for the terminal: notes, and a bar with the time left and epsilon used; plain lines when piped."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr, soft_wrap=True, highlight=False)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._label = ""
        self._started = self._last = time.monotonic()
        self._first = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def __call__(self, event: Event, /) -> None:
        """Show a note, or how far something is; figures are for files."""
        if event.kind == NOTE:
            self._console.print(event.values["text"], markup=False)
        if event.kind == PROGRESS:
            self._advance(event.phase, event.step, int(event.values["of"]), str(event.values["note"]))

    @property
    def has_viewer(self) -> bool:
        """Whether somebody sees the stream now: a terminal or a notebook."""
        return self._console.is_terminal or self._console.is_jupyter

    def stop(self) -> None:
        """End the present bar."""
        self._label = ""
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._task = None

    def _begin(self, label: str, done: int, of: int) -> None:
        self.stop()
        self._label, self._first = label, done
        self._started = self._last = time.monotonic()
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._bar = Progress(*columns, console=self._console)
            self._task = self._bar.add_task(label, total=of, completed=done, note="")
            self._bar.start()

    def _advance(self, label: str, done: int, of: int, note: str) -> None:
        if label != self._label:
            self._begin(label, done, of)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, note=note)
            return
        now = time.monotonic()
        if now - self._last < PLAIN_EVERY and done < of:
            return
        self._last = now
        speed = ""
        if done > self._first:
            rate = (done - self._first) / max(now - self._started, 1e-9)
            speed = f" ({rate:.2f} per s, {_minutes((of - done) / rate)} left)"
        self._console.print(f"{label}: {done:,} of {of:,}{speed} {note}".rstrip(), markup=False)


@contextmanager
def shown(sink: Sink | None, *, progress: bool) -> Iterator[Sink]:
    """Give the sink; without one, a `Terminal` where there is a terminal or a notebook and progress is wanted."""
    if sink is not None:
        yield sink
        return
    with Terminal() as terminal:
        yield terminal if progress and terminal.has_viewer else silent


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
