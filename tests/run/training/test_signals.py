"""Signals that stop a run where nothing is lost, in a process of its own."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gossamer.run.training import signals

WAITS = """
import fcntl, sys, termios, time
from gossamer.run.training.signals import stop_on_signal
if sys.stdin.isatty():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
with stop_on_signal() as stop:
    print("begun", flush=True)
    for _ in range(1000):
        if stop:
            time.sleep(0.3)  # in which more signals come
            sys.exit(7)
        time.sleep(0.01)
sys.exit(8)
"""


@pytest.fixture
def heard() -> Iterator[None]:
    """SIGHUP as it is in a terminal; whoever runs the tests may ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@contextmanager
def waiting(*before: str, stdin: int = subprocess.DEVNULL) -> Iterator["subprocess.Popen[Any]"]:
    words = [*before, sys.executable, "-c", WAITS]
    with subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        yield process


@pytest.mark.parametrize("what", signals.HEARD)
def test_a_signal_is_a_request(heard: None, what: signal.Signals) -> None:
    with waiting() as process:
        process.send_signal(what)
        assert process.wait(20) == 7


def test_a_terminal_that_is_closed_stops_a_run_in_good_order(heard: None) -> None:
    """The system sends SIGHUP to what runs there, and the shell may send it once more."""
    terminal, there = pty.openpty()
    with waiting(stdin=there) as process:
        os.close(there)
        os.close(terminal)
        time.sleep(0.05)
        process.send_signal(signal.SIGHUP)
        assert process.wait(20) == 7


def test_after_nohup_a_run_goes_on(heard: None) -> None:
    with waiting("nohup") as process:
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.terminate()
        assert process.wait(20) == 7


def test_a_second_ctrl_c_stops_at_once_and_a_second_hangup_does_not(heard: None) -> None:
    with signals.stop_on_signal() as stop:
        assert not stop
        for _ in range(3):
            signal.raise_signal(signal.SIGHUP)
        assert stop
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_a_server_stops_at_a_hangup(heard: None) -> None:
    asked: list[int] = []
    signals.stop_at_hangup(lambda signum, _frame: asked.append(signum))
    signal.raise_signal(signal.SIGHUP)
    assert asked == [signal.SIGHUP]
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals.stop_at_hangup(lambda signum, _frame: asked.append(signum))
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, "after nohup the page stays"
