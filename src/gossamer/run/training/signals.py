"""Ctrl-C, and the polite `kill`, heard where nothing is lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM)
"""The second is what machines send that are about to stop: schedulers, containers, torchrun when another rank has failed."""


class Stop:
    """Whether the user has asked."""

    requested = False

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Turns the first Ctrl-C into a flag, read where the ledger has nothing written ahead; the second one is immediate."""
    stop = Stop()

    def request(_signum: int, _frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    try:
        before = {signum: signal.signal(signum, request) for signum in HEARD}
    except ValueError:  # not in the main thread: whoever runs us there handles signals
        yield stop
        return
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
