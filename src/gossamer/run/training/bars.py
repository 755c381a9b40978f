"""Bars in a terminal, by Rich."""

import errno
import os

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Screen(Console):
    """A console that does not end the process where nobody reads on, as after `| head`."""

    def on_broken_pipe(self) -> None:
        """Say it to `Terminal`."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def begun(console: Console, label: str, done: int, of: int, *, transient: bool) -> Progress:
    """A bar with one task, with a note behind it."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(*columns, TextColumn("{task.fields[note]}"), console=console, transient=transient)
    bar.add_task(label, total=of, completed=done, note="")
    bar.start()
    return bar
