"""Checkpoints: private state, written by atomic rename, in under 1 % of the run's time.

Disk space for another one is reserved. When the disk fills up, the last state goes there, and nothing trained is lost.

A checkpoint stores the length of the ledger and the hash of its last line. The ledger on disk is the truth: a state goes on
only with the ledger that recorded its cost. No noise and no secret random stream is stored; a resumed run draws fresh entropy.

Each `Confined` value of a state is in a file of its own, straight from memory: a thousand critics take gigabytes. The state
names the file (`docs/decisions/0002-critics-in-checkpoints.md`).
"""

import io
import math
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

from gossamer.errors import LedgerDamaged, RunFolderError, is_full
from gossamer.files import write_atomically
from gossamer.methods.contract import State
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import PrivacyLedger

Saved: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
"""What a checkpoint holds: the state, and the public streams."""
FILE = "state.pt"
FORMAT = 3
"""Of a checkpoint."""
SEALED = ".sealed"
RESERVE = "reserve"
"""A file that reserves the disk space of a checkpoint."""
_PART = 1 << 20
"""Numbers of a tensor that are checked at once: the check makes copies of them."""
LARGEST_RESERVE = 1 << 30
"""Bytes beyond which no space is reserved."""
SHARE = 0.01
LONGEST = 300.0
SHORTEST = 5.0


class Clock:
    """Decides when a checkpoint is due: they take under 1 % of the time, and none is older than five minutes."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._wait = SHORTEST

    def due(self) -> bool:
        """Whether to write one now."""
        return time.monotonic() - self._last >= self._wait

    def written(self, seconds: float) -> None:
        """Note how long the last one took."""
        self._last = time.monotonic()
        self._wait = min(LONGEST, max(SHORTEST, seconds / SHARE))


def save(
    folder: Path, state: dict[str, Any], rng: dict[str, Any], ledger: PrivacyLedger, ranks: Ranks = ALONE
) -> float:
    """Write a checkpoint, mode 0600, on every rank. Returns the seconds it took.

    Raises:
        RunFolderError: if the folder is no longer the one in which the run began.
    """
    started = time.monotonic()
    ledger.check_place()
    sealed = keep_confined(folder, state, ranks)
    files = sealed | {name: value.name for name, value in state.items() if isinstance(value, Path)}  # not opened yet
    plain = {name: value for name, value in state.items() if name not in files}
    buffer = io.BytesIO()
    paid = {"ledger_lines": ledger.lines, "ledger_hash": ledger.last_hash}
    torch.save({"format": FORMAT, "state": plain, "sealed": files, "rng": rng, **paid}, buffer)
    try:
        write_atomically(folder / FILE, buffer.getbuffer(), private=True)
    except BaseException:
        for name in sealed.values():
            for file in folder.glob(f"{name}*"):
                file.unlink()
        raise
    current = {file for name in files.values() for file in folder.glob(f"{name}*")}
    for old in set(folder.glob(f"*{SEALED}*")) - current:
        old.unlink()
    reserve_disk(folder, buffer.tell() + sum(file.stat().st_size for file in current))
    return time.monotonic() - started


def keep_confined(folder: Path, state: dict[str, Any], ranks: Ranks = ALONE) -> dict[str, str]:
    """Write each `Confined` value of a state into a file, on every rank. Returns the names without the number of a rank.

    Raises:
        RanksDisagree: if another rank could not.
        DiskFull: if the disk is full.
    """
    confined = {name: value for name, value in state.items() if isinstance(value, Confined)}
    if not confined:
        return {}
    sealed: dict[str, str] = ranks.broadcast({name: f"{name}-{secrets.token_hex(4)}{SEALED}" for name in confined})
    own_files = {name: folder / (file if ranks.first else f"{file}.{ranks.number}") for name, file in sealed.items()}

    def write() -> None:
        for name, value in confined.items():
            value.seal(own_files[name])

    try:
        ranks.run_on_all(write)
    except BaseException:
        for path in own_files.values():
            path.unlink(missing_ok=True)
        raise
    return sealed


def finite(value: Any) -> bool:
    """Whether all values of a state are finite. `Confined` values are not looked at."""
    if isinstance(value, torch.Tensor):
        parts = value.flatten().split(_PART) if value.is_floating_point() else ()
        return all(bool(part.isfinite().all()) for part in parts)
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def saved_position(folder: Path) -> tuple[str, int] | None:
    """Return phase and step of the last checkpoint, or None."""
    path = folder / FILE
    if not path.is_file():
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)["state"]
    return str(state["phase"]), int(state["step"])


def reserve_disk(folder: Path, size: int, *, must: bool = False) -> None:
    """Reserve the disk space of a checkpoint. Without enough space it does nothing: the last checkpoint stays.

    Args:
        folder: the private folder of the run.
        size: of the checkpoint in bytes, about.
        must: there may be no checkpoint yet.

    Raises:
        OSError: if it must reserve, and the disk is full.
    """
    path = folder / RESERVE
    if size > LARGEST_RESERVE or (path.is_file() and path.stat().st_size >= size):
        return
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except (OSError, AttributeError) as error:  # the last: a system without such a call
        path.unlink(missing_ok=True)
        if must and is_full(error):
            raise


def free_reserve(folder: Path) -> None:
    """Free the reserved disk space."""
    (folder / RESERVE).unlink(missing_ok=True)


def load(folder: Path, ledger: PrivacyLedger, log: Callable[[str], None] = lambda _text: None) -> Saved | None:
    """Return the last checkpoint, or None if there is none.

    In place of a `Confined` value, the state holds the path of its file, for `Confined.unseal`.

    Args:
        folder: the private folder of the run.
        ledger: of the run, as it was read from disk.
        log: shows how many queries came after the checkpoint, if any: their training is lost.

    Raises:
        LedgerDamaged: if lines of the ledger were cut, or it is the ledger of another run.
        RunFolderError: if the checkpoint cannot be read, or another version wrote it.
    """
    path = folder / FILE
    if not path.is_file():
        _note_lost(ledger, 0, log)
        return None
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what torch.load raises on damaged bytes is open-ended
        raise RunFolderError(
            f"{path} cannot be read ({type(error).__name__}); restore it, or start a new run."
        ) from error
    if saved.get("format") != FORMAT:
        raise _of_another_version(folder)
    if ledger.lines < saved["ledger_lines"]:
        raise LedgerDamaged(
            f"the ledger has {ledger.lines:,} lines, and the checkpoint was written at {saved['ledger_lines']:,}: lines were "
            f"cut after line {ledger.lines:,}. Restore the ledger."
        )
    if ledger.hash_at(saved["ledger_lines"]) != saved["ledger_hash"]:
        raise LedgerDamaged(
            f"{path} is the checkpoint of another run, or of a copy of this one: this ledger does not hold its cost. Restore "
            f"the right one, or delete the run with `gossamer.discard({str(folder.parent)!r})`."
        )
    sealed = {name: folder / file for name, file in saved["sealed"].items()}
    if _note_lost(ledger, saved["ledger_lines"], log):
        saved["rng"].pop("answers", None)  # without those that were lost, nobody could replay the run
    return {**saved["state"], **sealed}, saved["rng"]


def _note_lost(ledger: PrivacyLedger, lines: int, log: Callable[[str], None]) -> int:
    """Say how many queries a run is shorter by, and return it. lines: of the ledger, at the checkpoint."""
    if count := ledger.charges_after(lines):
        log(
            f"{count:,} noisy queries came after the last checkpoint; their cost stays, and the run is shorter by them."
        )
    return count


def restore(state: State, saved: Mapping[str, Any], folder: Path) -> None:
    """Load what a checkpoint holds of a state, in place.

    Args:
        state: at the start of the run.
        saved: what `load` gave.
        folder: the private folder of the run.

    Raises:
        RunFolderError: if another version wrote it, whose networks or fields were others.
    """
    try:
        state.load_state_dict(saved)
    except (RuntimeError, ValueError, KeyError) as error:
        raise _of_another_version(folder) from error


def _of_another_version(folder: Path) -> RunFolderError:
    return RunFolderError(
        f"{folder / FILE} was written by another version of Gossamer. Finish the run with that version, or delete it with "
        f"`gossamer.discard({str(folder.parent)!r})`. Of a finished run, only attacks on its discriminators need that version."
    )
