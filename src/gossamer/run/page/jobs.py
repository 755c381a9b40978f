"""Commands that take long: each runs as a process of its own, `gossamer fit ...`, as on the command line.

A job outlives the page: it has a session of its own, so neither Ctrl-C in the page's terminal nor a closed browser reaches it.
It holds the lock of its folder while it runs. A page that starts later finds it. A data set has one job at a time.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.errors import RequestError, RunFolderError
from gossamer.files import hold

PROGRAM = (sys.executable, "-P", "-m", "gossamer")
"""How a job calls the command line. `-P`: no file of the working folder is imported."""
_LOCK = "lock"
_PROBE = threading.Lock()
"""Held while this page takes or tries the lock of a folder: a try must not look like a job to another tab."""
_ERROR = "gossamer: "
"""How the command line begins an error."""
_PROGRESS = re.compile(
    r"^(?P<label>[^:]+): (?P<done>[\d,]+) of (?P<of>[\d,]+)(?: \([\d.]+ per s, (?P<left>[^)]*)\))?(?P<note>.*)$"
)


@dataclass(frozen=True)
class Progress:
    """How far a job is, as it last said on its output.

    Args:
        label: what is going on.
        done: steps that are done.
        of: steps in all; 0: not known.
        left: the time left, in words; empty: not known.
        note: what else it said, such as the epsilon used.
    """

    label: str = ""
    done: int = 0
    of: int = 0
    left: str = ""
    note: str = ""


@dataclass(frozen=True)
class Job:
    """A command that was started from the page.

    Args:
        name: what it does, such as "fit".
        about: the run that it works on; empty: none.
        process: its id, which leads a group of processes.
        started: seconds since 1970.
        running: whether it still runs.
        output: what it has printed.
    """

    name: str
    about: str
    process: int
    started: float
    running: bool
    output: str

    @property
    def error(self) -> str:
        """Why it failed, in a paragraph; empty: it runs, or said no error."""
        lines = [] if self.running else self.output.splitlines()
        begins = [at for at, line in enumerate(lines) if line.startswith(_ERROR)]
        return "\n".join(lines[begins[-1] :]).removeprefix(_ERROR) if begins else ""

    @property
    def notes(self) -> list[str]:
        """What it printed, without progress and errors, each line once."""
        lines = self.output.split(f"\n{_ERROR}")[0].splitlines()
        return list(
            dict.fromkeys(line for line in lines if line and not line.startswith(_ERROR) and not _PROGRESS.match(line))
        )

    @property
    def progress(self) -> Progress:
        """How far it is."""
        found = [match for line in self.output.splitlines() if (match := _PROGRESS.match(line))]
        if not found:
            return Progress()
        last = found[-1]
        done, of = (int(last[name].replace(",", "")) for name in ("done", "of"))
        return Progress(last["label"], done, of, last["left"] or "", last["note"].strip())

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

    def start(self, name: str, words: Sequence[str], *, about: str = "") -> None:
        """Start `gossamer` with these words.

        Args:
            name: of the job.
            words: the command and its options.
            about: the run that it works on.

        Raises:
            RequestError: if another job of the data set runs.
            RunFolderError: if the folder cannot be written.
        """
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

    def last(self) -> Job | None:
        """Return the newest job; None: there was none."""
        found = self._started()
        return None if found is None else self._job(found, running=self._held())

    def running(self) -> Job | None:
        """Return the job that runs now."""
        job = self.last()
        return job if job is not None and job.running else None

    def output(self, name: str) -> Job | None:
        """Return what the last job of this name printed, whatever came after it."""
        if not self._log(name).is_file():
            return None
        job = self.running()
        return self._job({"name": name}, running=job is not None and job.name == name)

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

    def _started(self) -> dict[str, Any] | None:
        try:
            started = json.loads((self._folder / _LOCK).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return started if isinstance(started, dict) and {"name", "process"} <= started.keys() else None

    def _job(self, started: dict[str, Any], *, running: bool) -> Job:
        log = self._log(started["name"])
        output = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        return Job(
            started["name"], started.get("about", ""), started.get("process", 0), started.get("started", 0.0), running, output
        )  # fmt: skip

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def _private(path: Path) -> Any:
    """A new private file to append to."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600), "ab")
