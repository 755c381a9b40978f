"""Files that are written whole or not at all, and files and folders that one process locks.

What only Linux and macOS have is imported where it is used: a recipient on Windows can load, sample and verify.
"""

import importlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from gossamer.errors import RequestError

LEDGER, CERTIFICATE, CONFIG, MODEL = "ledger.jsonl", "certificate.json", "config.json", "model.safetensors"
"""Of a run and of a release, which can so be known without the libraries that compute them."""
ANSWERS = "answers.safetensors"
"""The noisy answers of a run, if they are few: with them, anyone can compute the model again."""
SITES = "sites.json"
"""In the folder of a centre: the ledger of each site, by its name."""
_BEGUN = re.compile(r"\.(.+)\.[a-z0-9_]{8}")


def at_home(place: str | os.PathLike[str]) -> Path:
    """A path that a user wrote; `~` at its beginning is the home folder."""
    try:
        return Path(place).expanduser()
    except RuntimeError:  # no user has this name: a file such as ~$book.xlsx
        return Path(place)


def write_atomically(path: Path, content: bytes | memoryview | str, *, private: bool = False) -> None:
    """Write a file, or replace it: a crash leaves the old file or the new one. Mode 0644, private: 0600. Text is UTF-8."""
    with replaced(path, private=private) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def write_private(path: Path, text: str) -> None:
    """Write text in UTF-8, over what was there, and make the file readable by the user alone: mode 0600. It may be a pipe."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), 0o600)
            file.truncate(0)
        file.write(text)


@contextmanager
def replaced(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Give an empty file to write, which takes the place of `path` at the end of the block, or goes after an error."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    partial = Path(name)
    try:
        yield partial
        with partial.open("r+b") as file:
            sync(file.fileno())
        partial.chmod(0o600 if private else 0o644)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def begun(name: str) -> str:
    """The file that a killed `write_atomically` was writing, from the name of its leftover; empty: no leftover."""
    match = _BEGUN.fullmatch(name)
    return match[1] if match else ""


def sync_folder(folder: Path) -> None:
    """Make a new file of a folder survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync(descriptor: int) -> None:
    """Write an open file or folder to the disk. On macOS, `os.fsync` leaves it in the cache of the disk.

    Raises:
        OSError: if it cannot be written.
    """
    if sys.platform == "darwin":
        with suppress(OSError):  # a disk without this order
            _fcntl().fcntl(descriptor, _fcntl().F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _fcntl() -> Any:
    """The module that locks files. Raises ImportError: this system has none."""
    return importlib.import_module("fcntl")


def refuse_without_locks() -> None:
    """Refuse a system that cannot lock files: two runs could use one budget there. Raises RequestError."""
    try:
        _fcntl()
    except ImportError:
        raise RequestError(
            "This system cannot lock files, so no run begins here, and nothing was read. Train on Linux or macOS, or on "
            "Windows in WSL. `Synthesizer.load`, `sample` and `verify` work here."
        ) from None


def lock(file: int | IO[bytes], *, wait: bool) -> None:
    """Lock an open file or folder until it is closed.

    Raises:
        RequestError: if this system has no locks.
        BlockingIOError: if another process holds it, and `wait` is false.
    """
    refuse_without_locks()
    _fcntl().flock(file, _fcntl().LOCK_EX | (0 if wait else _fcntl().LOCK_NB))


@contextmanager
def held_folder(path: Path) -> Iterator[bool]:
    """Lock a folder, also if it is renamed. Gives False if it cannot be opened or another process holds it."""
    mine = False
    with ExitStack() as stack:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            lock(descriptor, wait=False)
            mine = True
        yield mine


def hold(path: Path, *, wait: bool) -> IO[bytes]:
    """Open a private file (mode 0600, made where it is missing) and lock it until it is closed or the process ends.

    Raises:
        BlockingIOError: if another process holds it, and `wait` is false.
        OSError: if the file cannot be opened or locked.
    """
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
        try:
            lock(file, wait=wait)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                os.fchmod(file.fileno(), 0o600)
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # the process that held it deleted it meanwhile
