"""Ctrl-C and SIGTERM: the run stops where nothing is lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM)
"""Schedulers, containers and torchrun send SIGTERM."""


class Stop:
    """Whether a stop was requested."""

    requested = False

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Turn the first Ctrl-C into a flag; the second one stops at once."""
    stop = Stop()

    def request(_signum: int, _frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    try:
        before = {signum: signal.signal(signum, request) for signum in HEARD}
    except ValueError:  # not in the main thread: the caller handles signals
        yield stop
        return
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
