"""The RUN folder: what lies in it, and who may write it."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.errors import RunFolderError
from gossamer.files import write_atomically
from gossamer.privacy.certificate import CERTIFICATE, CONFIG, LEDGER
from gossamer.privacy.promise import MODEL

EVENTS = "events.jsonl"
METRICS = "metrics.json"
ATTACKS = "attacks.json"
SAMPLES = "samples.png"
REPORT = "report.html"
PRIVATE = "checkpoint"
WARM = "warm.safetensors"
"""In the private folder: the generator after the public warm start, before any record was read."""
RELEASED = (MODEL, CERTIFICATE, LEDGER, CONFIG, SAMPLES)
"""What `gossamer release` copies as it is; the report is written anew, without internal figures."""


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

    def check_free(self, *, force: bool) -> None:
        """Refuse a folder that is taken or cannot be written. Changes nothing.

        Raises:
            RunFolderError: with the way out (`resume`, `--force`, another name).
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is a file; --out names a folder that does not exist yet or is empty.")
        parent = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            raise RunFolderError(f"{self.path} cannot be written: no permission in {parent}. Choose another --out.")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        if self.begun and not self.finished and not force:
            raise RunFolderError(
                f"{self.path} holds an unfinished run. Go on with `gossamer resume {self.path}`, or choose another --out."
            )
        if not self.begun:
            raise RunFolderError(
                f"{self.path} is not empty and holds no run. Choose another --out; --force replaces runs only."
            )
        if not force:
            raise RunFolderError(f"{self.path} holds a finished run. Choose another --out, or replace it with --force.")

    def create(self, config: dict[str, Any], source: dict[str, Any]) -> None:
        """Make the folder (replacing a run that `check_free` let pass), with its public settings and its private sources."""
        if self.path.is_dir():
            shutil.rmtree(self.path)
        self.private.mkdir(parents=True)
        self.private.chmod(0o700)
        write_atomically(self.file(CONFIG), json.dumps(config, indent=2) + "\n")
        write_atomically(self.private / "source.json", json.dumps(source, indent=2) + "\n", private=True)

    def config(self) -> dict[str, Any]:
        """The public settings."""
        return self._json(self.file(CONFIG))

    def source(self) -> dict[str, Any]:
        """Where the records came from: private, never released."""
        return self._json(self.private / "source.json")

    def _json(self, path: Path) -> dict[str, Any]:
        if not path.is_file():
            raise RunFolderError(f"{self.path} is not a run: it has no {path.relative_to(self.path)}.")
        try:
            return dict(json.loads(path.read_text()))
        except ValueError as error:
            raise RunFolderError(f"{path} is not JSON any more ({error}); restore it from a copy.") from error
