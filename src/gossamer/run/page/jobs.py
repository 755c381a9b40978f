"""Commands that take long: each runs as a process of its own, `gossamer fit ...`, as on the command line.

A job outlives the page: it has a session of its own, so neither Ctrl-C in the page's terminal nor a closed browser reaches it.
It holds the lock of its folder while it runs. A page that starts later finds it. A data set has one job at a time.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.errors import RequestError, RunFolderError
from gossamer.events import ERROR, PROGRESS
from gossamer.files import hold
from gossamer.run.words import plain

PROGRAM = (sys.executable, "-P", "-m", "gossamer", "--events")
"""How a job calls the command line. `-P`: no file of the working folder is imported. `--events`: all it says is JSON."""
FIT = "fit"
"""The job that trains, also where it resumes a run."""
_LOCK = "lock"
_PROBE = threading.Lock()
"""Held while this page takes or tries the lock of a folder: a try must not look like a job to another tab."""


@dataclass(frozen=True, kw_only=True)
class PageJob:
    """A command that was started from the page.

    Args:
        name: what it does, such as "fit".
        process: its id, which leads a group of processes.
        about: the run that it works on; empty: none.
        started: seconds since 1970.
        running: whether it still runs.
        events: what it has said, as `Event.line` writes it.
    """

    name: str
    process: int
    about: str = ""
    started: float = 0.0
    running: bool = False
    events: Sequence[dict[str, Any]] = ()

    def said(self, *kinds: str) -> list[str]:
        """The words of its events of some kinds, each text once."""
        return list(dict.fromkeys(plain(event["values"]["text"]) for event in self.events if event["kind"] in kinds))

    @property
    def error(self) -> str:
        """Why it failed, in a paragraph; empty: it runs, or said no error."""
        return "" if self.running else "".join(self.said(ERROR)[-1:])

    @property
    def progress(self) -> dict[str, Any]:
        """How far it is: label, steps that are done, of how many (0: not known), the time left and a note in words."""
        for event in reversed(self.events):
            if event["kind"] == PROGRESS:
                return {"label": event["phase"], "done": event["step"], **event["values"]}
        return {"label": "", "of": 0}

    @property
    def seconds(self) -> int:
        """How long ago it began."""
        return int(max(time.time() - self.started, 0))


class Jobs:
    """The jobs of one data set.

    Args:
        folder: private; made where it is missing. It holds the lock and what each job printed, and jobs work in it: the
            folder of the records may hold programs of strangers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, *words: str, name: str = "", about: str = "") -> None:
        """Start `gossamer` with these words.

        Args:
            words: the command and its options.
            name: of the job. Empty: that of the command.
            about: the run that it works on.

        Raises:
            RequestError: if another job of the data set runs.
            RunFolderError: if the folder cannot be written.
        """
        name = name or words[0]
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _PROBE:
                lock = hold(self._folder / _LOCK, wait=False)
        except BlockingIOError:
            raise RequestError(
                "Another job works on these records, and one is allowed at a time. Wait for it, or stop it first."
            ) from None
        except OSError as error:
            raise RunFolderError(f"{self._folder} cannot be written ({error.strerror}).") from None
        with lock, _private(self._log(name)) as log:
            process = subprocess.Popen(
                [*PROGRAM, *words], cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, pass_fds=(lock.fileno(),), env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
            started = {"name": name, "about": about, "process": process.pid, "started": time.time()}
            lock.truncate(0)
            lock.write(json.dumps(started).encode())
        threading.Thread(target=process.wait, daemon=True).start()  # so that no zombie stays

    def last(self) -> PageJob | None:
        """Return the newest job; None: there was none."""
        try:
            started = json.loads((self._folder / _LOCK).read_text(encoding="utf-8"))
            return PageJob(**started, running=self._held(), events=self._events(started["name"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def running(self) -> PageJob | None:
        """Return the job that runs now."""
        job = self.last()
        return job if job is not None and job.running else None

    def last_of(self, name: str) -> PageJob:
        """Return what the last job of this name said, whatever came after it. Without one it is nothing."""
        return PageJob(name=name, process=0, events=self._events(name))

    def stop(self) -> None:
        """Send the running job what Ctrl-C sends. A run stops where nothing is lost."""
        job = self.running()
        if job is not None:
            os.killpg(job.process, signal.SIGINT)

    def _held(self) -> bool:
        """Whether a process holds the lock: a job, which got it from the page that started it."""
        try:
            with _PROBE:
                hold(self._folder / _LOCK, wait=False).close()
        except BlockingIOError:
            return True
        return False

    def _events(self, name: str) -> list[dict[str, Any]]:
        """What the last job of this name said. Lines of other programs, which are no events, are passed over."""
        found = []
        for line in self._log(name).read_bytes().splitlines() if self._log(name).is_file() else []:
            with suppress(ValueError):
                event = json.loads(line)
                found += [event] if isinstance(event, dict) and "kind" in event else []
        return found

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl"


def _private(path: Path) -> Any:
    """A new private file to append to."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600), "ab")
