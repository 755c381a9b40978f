"""Where events go: JSON lines, the terminal, TensorBoard.

`events.jsonl` carries what the methods emit and no clock: how long a step took depends on how many records were drawn.
Speed and time left are shown on the curator's own terminal only.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from gossamer.errors import RequestError
from gossamer.events import Event, Sink

PLAIN_EVERY = 10.0


def to_all(sinks: Sequence[Sink]) -> Sink:
    """One sink that passes each event to several."""

    def sink(event: Event, /) -> None:
        for each in sinks:
            each(event)

    return sink


class JsonLines:
    """Appends events to a file, one JSON object a line; on resume, events from the checkpoint's step on are dropped first."""

    def __init__(self, path: Path, *, keep_below: tuple[int, int] | None = None) -> None:
        kept = _kept(path, keep_below) if keep_below is not None and path.is_file() else []
        self._file = path.open("w")
        self._file.writelines(kept)
        self._file.flush()

    def __call__(self, event: Event, /) -> None:
        """Write one event and flush it."""
        self._file.write(json.dumps({"kind": event.kind, "step": event.step, "values": dict(event.values)}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _kept(path: Path, below: tuple[int, int]) -> list[str]:
    """The complete lines up to the warm step and the step of a checkpoint."""
    warm, step = below
    kept = []
    for line in path.read_text().splitlines(keepends=True):
        try:
            event = json.loads(line)
        except ValueError:
            break
        if event["step"] <= (warm if event["kind"] == "warm" else step):
            kept.append(line)
    return kept


def tensorboard_writer() -> Any:
    """The class that writes TensorBoard files (the extra `tensorboard`).

    Raises:
        RequestError: if the extra is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (an extra, loaded when asked for)
    except ImportError as error:
        raise RequestError("--tensorboard needs the extra: pip install 'gossamer[tensorboard]'.") from error
    return SummaryWriter


def tensorboard(folder: Path) -> Sink:
    """A sink for TensorBoard. Raises RequestError as `tensorboard_writer` does."""
    kind = tensorboard_writer()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # each event carries a clock, and how long a step took depends on how many records were drawn
    writer = kind(str(folder))

    def sink(event: Event, /) -> None:
        for name, value in event.values.items():
            if isinstance(value, int | float):
                writer.add_scalar(f"{event.kind}/{name}", value, event.step)
        writer.flush()

    return sink


class Terminal:
    """Progress for the person at the terminal: a bar with time left and epsilon spent; plain lines when piped."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr, soft_wrap=True, highlight=False)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._started = self._last = time.monotonic()
        self._first = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def say(self, text: str) -> None:
        """One line of plain words."""
        self._console.print(text, markup=False)

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """Start counting towards `total`."""
        self.stop()
        self._started = self._last = time.monotonic()
        self._first = done
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._bar = Progress(*columns, console=self._console)
            self._task = self._bar.add_task(what, total=total, completed=done, note="")
            self._bar.start()
        self._what, self._total = what, total

    def advance(self, done: int, note: str = "") -> None:
        """Show that `done` of the total are done."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, note=note)
            return
        now = time.monotonic()
        if now - self._last < PLAIN_EVERY and done < self._total:
            return
        self._last = now
        rate = (done - self._first) / max(now - self._started, 1e-9)
        left = (self._total - done) / rate if rate else 0
        self.say(f"{self._what}: {done:,} of {self._total:,} ({rate:.2f} per s, {_minutes(left)} left) {note}".rstrip())

    def stop(self) -> None:
        """End the present bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._task = None


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
