"""Arrays larger than memory: pages of files, which the system reads and drops as it needs them.

Plain numbers are mapped in their own file. Others are decoded once, in a stream, into memory or, if that takes too much of it,
into a file without a name. Such a file is private to this process (mode 0600, in no folder). The system frees it when the
process ends, however it ends, so no copy of private records is left behind.
"""

import math
import mmap
import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, TypeVar
from weakref import finalize

import numpy as np

from gossamer.errors import DataError, is_full
from gossamer.lazy import pa

Given = TypeVar("Given")
Made = TypeVar("Made")

SHARE = 0.25
"""Of the memory that is free, what decoded pictures may take; larger ones go to a file."""

ROOM = 1 << 26
"""Bytes of codes and of digests that are kept in memory, whatever is free; more go to a file."""

ON_DISK = (
    "The decoded records are large. They are in a file without a name, in the folder that TMPDIR names (else /var/tmp). It "
    "disappears with this process."
)

_BYTE: np.dtype[Any] = np.dtype(np.uint8)
_STEP = 1 << 30
"""Bytes by which a file of unknown size grows. They must be free each time."""
_LEFT = 1 << 28
"""Bytes of the disk that stay free."""
_DISK = Path("/var/tmp")  # for large files: on many machines /tmp is memory
_ROWS, _BYTES = 4096, 1 << 26
"""Rows that are copied at a time, and their bytes at most."""


class Filling:
    """An array that is written piece by piece, from the front.

    Args:
        expected: its bytes, whose space is then checked before the first is written. Zero: unknown.
        in_memory: bytes from which it goes to the disk. None: a quarter of the free memory.

    Raises:
        DataError: the disk is too full.
    """

    def __init__(self, expected: int = 0, *, in_memory: int | None = None) -> None:
        self._values = bytearray()
        self._file: IO[bytes] | None = None
        self._size, self._room = 0, int(SHARE * free_memory()) if in_memory is None else in_memory
        self._make_room(expected)

    def add(self, piece: np.ndarray | bytes | bytearray | memoryview) -> None:
        """The next bytes. Raises DataError: the disk is too full."""
        if isinstance(piece, np.ndarray):
            piece = np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data
        data = memoryview(piece)
        self._make_room(self._size + len(data))
        try:
            if self._file is None:
                self._values += data
            else:
                self._file.write(data)
        except OSError as error:
            if not is_full(error):
                raise
            raise _no_room(len(data)) from None
        self._size += len(data)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any] = _BYTE, order: Literal["C", "F"] = "C") -> np.ndarray:
        """The whole array, which can be written to if it is in memory. shape: one side may be -1."""
        if self._file is None:
            return np.frombuffer(self._values, dtype).reshape(shape, order=order)
        with self._file as file:
            file.flush()
            return np.memmap(file, dtype, "r").reshape(shape, order=order)

    def __len__(self) -> int:
        return self._size

    def _make_room(self, size: int) -> None:
        """Make space for so many bytes in all: on the disk, once they are too many for the memory."""
        if size <= self._room:
            return
        written = 0 if self._file is None else self._size
        more = max(size - written, _STEP)
        if shutil.disk_usage(folder()).free < more + _LEFT:
            raise _no_room(more)
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=folder())  # noqa: SIM115 (the mapping outlives it)
            finalize(self, self._file.close)  # where it is never mapped
            self._file.write(self._values)
            self._values = bytearray()
        self._room = written + more


def filled(pieces: Iterable[np.ndarray], shape: tuple[int, ...], dtype: np.dtype[Any] = _BYTE) -> np.ndarray:
    """Pieces of that type, one after the other, as an array of that shape. Raises DataError: the disk is too full."""
    whole = Filling(math.prod(shape) * dtype.itemsize)
    for piece in pieces:
        whole.add(piece)
    return whole.array(shape, dtype)


def chosen_rows(array: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """array[positions]. Many rows of a mapped array, which may be larger than the memory, are stored as `filled` does.

    array: [N, ...]. positions: int64 [n] or bool [N]. Raises DataError: the disk is too full.
    """
    positions = np.flatnonzero(positions) if positions.dtype == bool else positions
    step = max(1, min(_ROWS, _BYTES // max(1, array[:1].nbytes)))
    if len(positions) <= step or not is_mapped(array):
        ask_for(array, positions)
        return np.asarray(array[positions])
    pieces = (array[positions[lo : lo + step]] for lo in range(0, len(positions), step))
    return filled(pieces, (len(positions), *array.shape[1:]), array.dtype)


def ask_for(array: np.ndarray, positions: np.ndarray) -> None:
    """Have the system read all pages of some rows of a mapped array at once: 30 times as fast from a disk (docs/scale.md)."""
    size = array[:1].nbytes
    if not is_mapped(array) or array.strides[0] != size or not hasattr(mmap, "MADV_WILLNEED"):
        return
    pages = array._mmap  # type: ignore[attr-defined]  # of numpy.memmap
    first = array.ctypes.data - np.frombuffer(pages, np.uint8).ctypes.data
    for begin in (first + size * positions).tolist():
        page = begin - begin % mmap.PAGESIZE
        pages.madvise(mmap.MADV_WILLNEED, page, begin + size - page)


def forget(array: np.ndarray) -> None:
    """Take the pages of a mapped array out of the memory of this process. They stay in the file."""
    pages = getattr(array, "_mmap", None)
    if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def in_threads(function: Callable[[Given], Made], items: Iterable[Given]) -> Iterator[Made]:
    """What a function makes of each item, in their order. Few items are held at once.

    There are as many threads as Arrow has, whose number OMP_NUM_THREADS sets.
    """
    count, waiting = pa.cpu_count(), deque[Any]()
    with ThreadPoolExecutor(count) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > count:
                yield waiting.popleft().result()
        yield from (each.result() for each in waiting)


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array is pages of a file. numpy gives some copies of such pages the same type."""
    return getattr(array, "_mmap", None) is not None


def is_nameless(array: np.ndarray) -> bool:
    """Whether an array is in a file that a `Filling` made."""
    return is_mapped(array) and getattr(array, "filename", None) is None


def remarks(array: np.ndarray) -> list[str]:
    """What the terminal shows on where an array is stored."""
    return [ON_DISK] if is_nameless(array) else []


def folder() -> Path:
    """The folder of files without a name."""
    user_setting = os.environ.get("TMPDIR") or not os.access(_DISK, os.W_OK)
    return Path(tempfile.gettempdir()) if user_setting else _DISK


def free_memory() -> int:
    """Bytes that this process could still take, about: at most what the machine has free and its control group allows."""
    with suppress(OSError, ValueError):
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free = 1024 * int(lines["MemAvailable"].split()[0])
        with suppress(OSError, ValueError):  # no control group of its own, or one without a limit ("max")
            return min(free, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
        return free
    if not hasattr(os, "sysconf"):  # Windows says neither
        return sys.maxsize
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _no_room(needed: int) -> DataError:
    free = shutil.disk_usage(folder()).free
    return DataError(
        f"{folder()}: the records are too large for the memory and go to this disk. It has {free / 1e6:,.0f} MB free, and "
        f"{(needed + _LEFT) / 1e6:,.0f} MB are needed. Name a folder on another disk by the environment variable TMPDIR."
    )
