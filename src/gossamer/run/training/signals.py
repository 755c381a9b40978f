"""Ctrl-C, SIGTERM and SIGHUP: the run stops where nothing is lost."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

HEARD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Schedulers, containers and torchrun send SIGTERM. SIGHUP: a terminal was closed, or a connection is lost."""


@contextmanager
def stop_on_signal() -> Iterator[list[int]]:
    """Collect the first Ctrl-C, SIGTERM or SIGHUP in a list; a second Ctrl-C or SIGTERM stops at once.

    A second SIGHUP does not, because shell and system may both send it. After `nohup`, SIGHUP stays ignored.
    Nested blocks have one list.
    """
    outer = signal.getsignal(signal.SIGTERM)
    requested: list[int] = outer.args[0] if isinstance(outer, partial) else []

    def request(requested: list[int], signum: int, _frame: FrameType | None) -> None:
        if requested and signum != signal.SIGHUP:
            raise KeyboardInterrupt
        requested.append(signum)

    heard = [signum for signum in HEARD if signum != signal.SIGHUP or not _hangup_ignored()]
    before = {}
    with suppress(ValueError):  # not in the main thread: the caller handles signals
        before = {signum: signal.signal(signum, partial(request, requested)) for signum in heard}
    try:
        yield requested
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def stop_at_hangup(stop: Callable[[int, FrameType | None], object]) -> None:
    """Call `stop` at SIGHUP, for a server that handles Ctrl-C and SIGTERM itself. After `nohup`, SIGHUP stays ignored."""
    if not _hangup_ignored():
        with suppress(ValueError):  # not in the main thread: the caller handles signals
            signal.signal(signal.SIGHUP, stop)


def _hangup_ignored() -> bool:
    return signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
