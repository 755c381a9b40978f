"""Checkpoints: private state, written by atomic rename, and as often as costs under a hundredth of the run.

Room for one more is kept on the disk. Where the disk fills up, that room takes the last state, and nothing trained is lost.

A checkpoint stores the length of the ledger and the hash of its last line, and no more of it: the ledger on disk is the truth,
and a state goes on with the ledger that paid for it alone. It holds no state of the
noise and no secret coins' stream; a resumed run draws fresh entropy.

A `Confined` value in a state is sealed into a file of its own, straight from memory (a thousand critics take gigabytes); the
state names the file. `docs/decisions/0002-critics-in-checkpoints.md` says why.
"""

import io
import math
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gossamer.errors import LedgerDamaged, RunFolderError, is_full
from gossamer.files import write_atomically
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import PrivacyLedger

FILE = "state.pt"
FORMAT = 3
"""Of a checkpoint. In 1 a method kept the names of its parts and its counters by itself; 2 had no hash of the ledger."""
SEALED = ".sealed"
RESERVE = "reserve"
"""Keeps the room of a checkpoint."""
LARGEST_RESERVE = 1 << 30
"""Bytes beyond which no room is kept: a thousand critics take gigabytes."""
SHARE = 0.01
LONGEST = 300.0
SHORTEST = 5.0


class Clock:
    """Says when a checkpoint is due: under 1 % of the time goes into them, and none is older than five minutes."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._wait = SHORTEST

    def due(self) -> bool:
        """Whether to write one now."""
        return time.monotonic() - self._last >= self._wait

    def written(self, seconds: float) -> None:
        """Take note of what the last one cost."""
        self._last = time.monotonic()
        self._wait = min(LONGEST, max(SHORTEST, seconds / SHARE))


def save(
    folder: Path, state: dict[str, Any], rng: dict[str, Any], ledger: PrivacyLedger, ranks: Ranks = ALONE
) -> float:
    """Write a checkpoint, mode 0600, with what is `Confined` on the other ranks. Returns the seconds it took.

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
        write_atomically(folder / FILE, buffer.getvalue(), private=True)
    except BaseException:
        for name in sealed.values():
            for file in folder.glob(f"{name}*"):
                file.unlink()
        raise
    current = {file for name in files.values() for file in folder.glob(f"{name}*")}
    for old in set(folder.glob(f"*{SEALED}*")) - current:
        old.unlink()
    reserve_disk(folder, len(buffer.getvalue()) + sum(file.stat().st_size for file in current))
    return time.monotonic() - started


def keep_confined(folder: Path, state: dict[str, Any], ranks: Ranks = ALONE) -> dict[str, str]:
    """Write each `Confined` value of a state into a file, on every rank; gives their names, without the number of a rank.

    Raises:
        RanksDisagree: if another rank could not.
        DiskFull: if there is no room.
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
    """Whether all that a checkpoint would hold in the open is finite. Nothing that is `Confined` is looked at."""
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def saved_position(folder: Path) -> tuple[str, int] | None:
    """Phase and step of the checkpoint that is there, if one is."""
    path = folder / FILE
    if not path.is_file():
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)["state"]
    return str(state["phase"]), int(state["step"])


def reserve_disk(folder: Path, size: int, *, must: bool = False) -> None:
    """Keep the room of a checkpoint, where there is that much. Nothing is said where there is not: the last one stays.

    Args:
        folder: the private folder of the run.
        size: of the checkpoint in bytes, about.
        must: there may be no last one.

    Raises:
        OSError: if it must be kept, and the disk is full.
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
    """Give up the room that was kept."""
    (folder / RESERVE).unlink(missing_ok=True)


def load(
    folder: Path, ledger: PrivacyLedger, *, lost: Callable[[int], None] = lambda _count: None
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The last checkpoint (state, public streams), or None if the run was cut off before the first.

    Where the state held a `Confined` value, it now has the path of its file, for `Confined.unseal`.

    Args:
        folder: the private folder of the run.
        ledger: of the run, as it was read from disk.
        lost: told how many charges the ledger holds beyond the checkpoint, if any: paid for, and trained nothing that is left.

    Raises:
        LedgerDamaged: if the ledger on disk is shorter than the checkpoint says: lines were cut. Or if it is another ledger.
        RunFolderError: if the checkpoint cannot be read, or another version wrote it.
    """
    path = folder / FILE
    if not path.is_file():
        if count := ledger.charges_after(0):
            lost(count)
        return None
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what torch.load raises on damaged bytes is open-ended
        raise RunFolderError(
            f"{path} cannot be read ({type(error).__name__}); restore it, or start the run anew."
        ) from error
    if saved.get("format") != FORMAT:
        raise RunFolderError(
            f"{path} was written by another version of Gossamer, whose states have other parts: finish the run with the "
            f"version that began it, or give it up with `gossamer discard {folder.parent}`. Finished runs of that version can "
            "be sampled, verified, evaluated and released here; only attacks on their discriminators need it."
        )
    if ledger.lines < saved["ledger_lines"]:
        raise LedgerDamaged(
            f"the ledger has {ledger.lines:,} lines, the checkpoint was written at {saved['ledger_lines']:,}: lines were "
            f"cut after line {ledger.lines:,}. Restore the ledger; a run must not go on with a shorter one."
        )
    if ledger.hash_at(saved["ledger_lines"]) != saved["ledger_hash"]:
        raise LedgerDamaged(
            f"{path} is the checkpoint of another run, or of a copy of this one: what it has trained was not paid for by the "
            f"ledger here. Restore the one that belongs to it, or give the run up with `gossamer discard {folder.parent}`."
        )
    sealed = {name: folder / file for name, file in saved.get("sealed", {}).items()}
    if count := ledger.charges_after(saved["ledger_lines"]):
        lost(count)
    return {**saved["state"], **sealed}, saved["rng"]
