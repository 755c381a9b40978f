"""Ctrl-C, SIGTERM and SIGHUP: the run stops where nothing is lost."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

HANGUP = getattr(signal, "SIGHUP", None)
"""Of a terminal that is closed, or a connection that is lost. None: this system has no such signal."""
HEARD = (signal.SIGINT, signal.SIGTERM, *([] if HANGUP is None else [HANGUP]))
"""Schedulers, containers and torchrun send SIGTERM."""


class Stop:
    """Whether a stop was requested."""

    requested = False

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into a flag; a second Ctrl-C or SIGTERM stops at once.

    A second SIGHUP does not, because shell and system may both send it. After `nohup`, SIGHUP stays ignored.
    """
    stop = Stop()

    def request(signum: int, _frame: FrameType | None) -> None:
        if stop.requested and signum != HANGUP:
            raise KeyboardInterrupt
        stop.requested = True

    heard = [signum for signum in HEARD if signum != HANGUP or not _ignored(signum)]
    try:
        before = {signum: signal.signal(signum, request) for signum in heard}
    except ValueError:  # not in the main thread: the caller handles signals
        yield stop
        return
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def stop_at_hangup(stop: Callable[[int, FrameType | None], object]) -> None:
    """Call `stop` at SIGHUP, for a server that handles Ctrl-C and SIGTERM itself. After `nohup`, SIGHUP stays ignored."""
    if HANGUP is not None and not _ignored(HANGUP):
        with suppress(ValueError):  # not in the main thread: the caller handles signals
            signal.signal(HANGUP, stop)


def _ignored(signum: int) -> bool:
    return signal.getsignal(signum) == signal.SIG_IGN
