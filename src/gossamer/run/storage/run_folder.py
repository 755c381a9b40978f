"""The RUN folder: its files, and its lock."""

import datetime
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.errors import RunFolderError
from gossamer.files import ANSWERS, CERTIFICATE, CONFIG, LEDGER, MODEL, SITES, begun, hold, write_atomically
from gossamer.lazy import Lazy

_ledger: Any = Lazy("gossamer.privacy.ledger")
EVENTS = "events.jsonl"
METRICS = "metrics.json"
ATTACKS = "attacks.json"
SAMPLES = "samples.png"
REPORT = "report.html"
PRIVATE = "checkpoint"
SOURCE = "source.json"
READINGS = "internal.jsonl"
"""In the private folder: when real records were read outside the guarantee, and what for."""
LOCK = "lock"
"""In the private folder: locked by the process that fits, resumes or discards the run."""
ACCOUNTS = "accounts"
"""In the private folder: a budget log of the run's own, where `--accounts` names this folder (as the demo does)."""
WARM = "warm.safetensors"
"""In the private folder: the generator after public pre-training, before any record was read."""
AUDIT = "audit.json"
DECLARED = "declared.toml"
"""What the data owner declared when the first release was made: later ones declare the same."""
SIGNATURE = "signature.json"
OURS = frozenset({
    MODEL, ANSWERS, CERTIFICATE, LEDGER, CONFIG, SAMPLES, EVENTS, METRICS, ATTACKS, REPORT, AUDIT, SIGNATURE, SITES,
    DECLARED,
})  # fmt: skip
"""Files of a run, besides its private folder. All other files in RUN are the user's: no command deletes
them."""
SUMS = "SHA256SUMS"
"""Names every other file of a release with its SHA-256; what has it is a release."""
RELEASED = (MODEL, CERTIFICATE, LEDGER, CONFIG, SAMPLES)
"""What `gossamer release` copies. The report is written again, without private figures."""
_ANEW = "write it again with `gossamer.evaluate`, or remove it."
_COPY = "restore it from a copy, or delete an unfinished run with `gossamer.discard`."


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds one run, begun or finished."""

    path: Path

    @property
    def finished(self) -> bool:
        """The certificate is written last."""
        return (self.path / CERTIFICATE).is_file() and (self.path / MODEL).is_file()

    @property
    def begun(self) -> bool:
        """A ledger is on disk."""
        return (self.path / LEDGER).is_file()

    def file(self, name: str) -> Path:
        """Path of one of its files."""
        return self.path / name

    @property
    def private(self) -> Path:
        """The folder of private state, mode 0700."""
        return self.path / PRIVATE

    @property
    def blank(self) -> bool:
        """Whether there is no run: the folder is missing or empty, or a `fit` was killed before it wrote a ledger."""
        if not self.path.is_dir():
            return not self.path.exists()
        names = {path.name for path in self.path.iterdir()}
        inside = {path.name for path in self.private.iterdir()} if self.private.is_dir() else set()
        ours = {PRIVATE, CONFIG} if LOCK in inside else {PRIVATE}
        return names <= ours and inside <= {LOCK, SOURCE, ACCOUNTS}

    @property
    def shared(self) -> bool:
        """Whether the folder holds a file that its run did not write."""
        return any(path.name not in (PRIVATE, LEDGER) and not self._is_ours(path.name) for path in self.path.iterdir())

    def check_free(self) -> None:
        """Refuse a folder that is taken or cannot be written, with a RunFolderError. Changes nothing."""
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is a file; `out` names a folder that does not exist yet or is empty.")
        parent = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            raise RunFolderError(f"{self.path} cannot be written: no permission in {parent}. Choose another `out`.")
        if self.blank:
            return
        if not self.begun:
            raise RunFolderError(f"{self.path} is not empty and holds no run. Choose another `out`.")
        if self.file(SUMS).exists():
            raise RunFolderError(f"{self.path} is a release, and no run goes there. Choose another `out`.")
        if not self.finished:
            raise RunFolderError(
                f"{self.path} holds an unfinished run and its cost. Go on with `gossamer.resume({str(self.path)!r})`, choose "
                f"another `out`, or delete the run with `gossamer.discard({str(self.path)!r})`."
            )
        raise RunFolderError(
            f"{self.path} holds a finished run. Choose another `out`, or delete the folder: the budget log keeps its cost."
        )

    def check_finished(self) -> None:
        """Refuse a folder without a finished run, with a RunFolderError that says what to do."""
        if not self.path.is_dir():
            raise RunFolderError(f"{self.path} is not a folder. Give a finished RUN or a release.")
        if not self.finished:
            unfinished = f"is unfinished. `gossamer.resume({str(self.path)!r})` finishes it."
            raise RunFolderError(f"{self.path} {unfinished if self.begun else 'holds neither a run nor a release.'}")

    def unchanged(self) -> Callable[[], None]:
        """Remember which run is there, for a command that reads it for minutes and then writes into its folder.

        Returns:
            A check. It raises RunFolderError if another run has taken its place.
        """

        def certificate() -> bytes:
            return self.file(CERTIFICATE).read_bytes() if self.file(CERTIFICATE).is_file() else b""

        before = certificate()

        def check() -> None:
            if certificate() != before:
                raise RunFolderError(
                    f"{self.path} was replaced by another run meanwhile. Nothing was written; try again."
                )

        return check

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes. Makes a missing folder, and removes it again if it stays empty.

        Raises:
            RunFolderError: if another process holds the lock.
        """
        made = [folder for folder in (self.private, self.path, *self.path.absolute().parents) if not folder.exists()]
        try:
            self.private.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = hold(self.private / LOCK, wait=False)
        except (BlockingIOError, FileNotFoundError):  # not found: its holder has just removed it
            raise RunFolderError(
                f"{self.path} is in use by another process (fit, resume or discard). Let it finish, or stop it first."
            ) from None
        except OSError as error:
            raise RunFolderError(f"{self.path} cannot be locked or written ({error.strerror}).") from None
        with file:
            self.private.chmod(0o700)
            try:
                yield
            finally:
                if self.private.is_dir() and [path.name for path in self.private.iterdir()] == [LOCK]:
                    (self.private / LOCK).unlink()
                    _remove_empty(made)

    def clear(self) -> None:
        """Delete the run, its ledger last, and nothing else. The caller holds the lock.

        Raises:
            RunFolderError: if another process writes the ledger.
        """
        if not self.begun:
            self._delete()
            return
        with _ledger.locked(self.file(LEDGER), "r+b"):
            self._delete()

    def remove(self) -> None:
        """Delete the run and its folder. The caller holds the lock."""
        self.clear()
        (self.private / LOCK).unlink()
        _remove_empty([self.private, self.path])

    def _run_files(self) -> list[Path]:
        """Return the files of the run without its ledger. Settings and sources, which identify the run, are last."""
        inside = self.private.iterdir() if self.private.is_dir() else ()
        paths = [
            *(path for path in inside if path.name not in (LOCK, ACCOUNTS)),
            *(path for path in self.path.iterdir() if path.name != LEDGER and self._is_ours(path.name)),
        ]
        return sorted(paths, key=lambda path: path.name in (SOURCE, CONFIG))

    def _is_ours(self, name: str) -> bool:
        """Whether the run wrote a file of this name."""
        return name in OURS or begun(name) in OURS

    def _delete(self) -> None:
        for path in (*self._run_files(), self.file(LEDGER)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def create(self, config: dict[str, Any], source: dict[str, Any]) -> None:
        """Write the public settings and the private sources of a new run. The caller holds the lock of the blank folder."""
        write_atomically(self.file(CONFIG), json.dumps(config, indent=2) + "\n")
        self.note_source(source)

    def note_source(self, source: dict[str, Any]) -> None:
        """Write where records and budget log are: private, never released."""
        write_atomically(self.private / SOURCE, json.dumps(source, indent=2) + "\n", private=True)

    def config(self) -> dict[str, Any]:
        """The public settings."""
        return self._json(self.file(CONFIG))

    def source(self) -> dict[str, Any]:
        """Return where records and budget log are. Raises RunFolderError if the file is missing or damaged."""
        entries = self._json(self.private / SOURCE)
        kinds = {"sources": dict, "accounts": str | None, "mark": str}
        if not all(isinstance(entries.get(name, ...), kind) for name, kind in kinds.items()):
            raise RunFolderError(f"{self.private / SOURCE} does not say where records are any more; {_COPY}")
        return entries

    @property
    def attacked(self) -> bool:
        """Whether an attack on the run was measured, wherever its figures were written."""
        noted = self.private / READINGS
        lines = noted.read_text(encoding="utf-8").splitlines() if noted.is_file() else []
        attacks = [line for line in lines if "attack" in parsed(line, noted, _COPY)]
        return self.file(ATTACKS).is_file() or bool(attacks)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the figures of its evaluations. Raises RunFolderError if metrics.json holds something else."""
        path = self.file(METRICS)
        if not path.is_file():
            return []
        entries = parsed(path.read_text(encoding="utf-8"), path, _ANEW)
        listed: list[Any] = entries if isinstance(entries, list) else [None]
        if not all(isinstance(entry, dict) and isinstance(entry.get("metric"), str) for entry in listed):
            raise RunFolderError(f"{path} does not hold a list of metrics; {_ANEW}")
        return listed

    def _json(self, path: Path) -> dict[str, Any]:
        if not path.is_file():
            raise RunFolderError(f"{self.path} is not a run: it has no {path.relative_to(self.path)}.")
        content = parsed(path.read_text(encoding="utf-8"), path, _COPY)
        if not isinstance(content, dict):
            raise RunFolderError(f"{path} is damaged; {_COPY}")
        return content


def parsed(text: str | bytes, path: Path, remedy: str) -> Any:
    """What the text of a file says, in JSON. Raises RunFolderError: it is not JSON; names the remedy."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise RunFolderError(f"{path} is not JSON any more ({error}); {remedy}") from error


def today() -> str:
    """Return the date in UTC, as the files of a run and the budget log write it."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove empty folders, the innermost first; one that another process has begun to use stays."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
