"""Arrays in .npz files and in folders of .npy files, without pickles. Large ones that are not compressed are memory-mapped."""

import math
import struct
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from gossamer.data.labels import text_of
from gossamer.data.memory_mapped import Filling
from gossamer.data.problems import sound
from gossamer.errors import DataError

MAP_FROM = 64 << 20
"""Bytes from which an uncompressed member is mapped; smaller ones are read, and their checksum is tested."""

_LOCAL_HEADER = 30
_BLOCK = 1 << 22


def is_folder(path: Path) -> bool:
    """Whether this is a folder of .npy files, the arrays of an .npz unpacked, without folders in it."""
    return path.is_dir() and bool(_files(path)) and not any(entry.is_dir() for entry in path.iterdir())


def is_arrays(path: Path) -> bool:
    """Whether arrays lie there by their keys, in either form."""
    return path.suffix.lower() == ".npz" or is_folder(path)


def keys(path: Path) -> list[str]:
    """The names of the arrays in a file or a folder. Raises DataError."""
    if path.is_dir():
        return [file.stem for file in _files(path)]
    with _open(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def member(path: Path, key: str) -> np.ndarray:
    """One array of an .npz file or a folder of .npy files.

    Raises:
        DataError: no such key (the message lists the keys), a damaged file, or a full disk.
    """
    first_of(path, key)
    with sound(path, f"the array {key!r} cannot be read: the file is damaged"):
        if path.is_dir():
            with (single := path / f"{key}.npy").open("rb") as file:
                size = single.stat().st_size
                return _array(file, size, single, single.name, 0 if size >= MAP_FROM else None)
        with _open(path) as archive, archive.open(info := archive.getinfo(f"{key}.npy")) as file:
            is_mapped = info.compress_type == zipfile.ZIP_STORED and info.file_size >= MAP_FROM
            return _array(file, info.file_size, path, info.filename, _offset(path, info) if is_mapped else None)


def head(path: Path, key: str, count: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, np.ndarray]:
    """The length of an array in an .npz file, and its first items. Nothing is inflated.

    Args:
        path: the file, which may be a stranger's.
        key: of the array.
        count: items to read, at most.
        shape: of an item.
        dtype: of its numbers.

    Raises:
        DataError: there is no array of such items, or the file is damaged.
    """
    array = None
    with suppress(DataError, KeyError), _open(path) as archive:
        if archive.getinfo(f"{key}.npy").compress_type == zipfile.ZIP_STORED:  # as Gossamer writes them
            array = member(path, key)
    if array is None or array.ndim == 0 or (array.shape[1:], array.dtype) != (shape, dtype):
        raise DataError(f"{path.name} has no sound array {key!r}.")
    return len(array), array[:count]


def names(path: Path, key: str) -> tuple[str, ...]:
    """An array of text [n], as a tuple. Raises DataError."""
    array = member(path, key)
    if array.dtype.kind != "U" or array.ndim != 1:
        raise DataError(f"{path}: the array {key!r} must be text [classes]: their names, label 0 first")
    return tuple(text_of(array, where=str(path)))


def first_of(path: Path, *wanted: str) -> str:
    """The first of some keys that is in a file. Raises DataError: none is."""
    there = keys(path)
    for key in wanted:
        if key in there:
            return key
    which = " or ".join(dict.fromkeys(wanted))
    raise DataError(
        f"{path}: there is no key {which}; the keys are: {', '.join(there) or 'none'}. "
        "Name another with `images_key` or `labels_key`"
    )


def _open(path: Path) -> zipfile.ZipFile:
    with sound(path, "this is not a sound .npz file: write it again"):
        return zipfile.ZipFile(path)


def _files(folder: Path) -> list[Path]:
    """The .npy files of a folder, sorted, but for hidden ones."""
    return sorted(file for file in folder.glob("*.npy") if file.is_file() and not file.name.startswith("."))


def _array(file: IO[bytes], size: int, path: Path, name: str, begins: int | None) -> np.ndarray:
    """An array from a .npy stream of `size` bytes in the file `path`, once its declared size agrees with that.

    Args:
        file: the stream.
        size: of the stream, in bytes.
        path: of the file that has it.
        name: of the stream, for messages.
        begins: where it begins in the file, if it is to be mapped; None: it is read.
    """
    shape, fortran, dtype = _header(file)
    start = file.tell()
    if dtype.hasobject or dtype.names is not None:
        raise DataError(f"{path}: {name} holds Python objects or tables: store plain numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - start:
        raise DataError(f"{path}: {name} is cut, or its header is damaged: copy or write it again")
    order: Literal["C", "F"] = "F" if fortran else "C"
    if begins is not None:
        return np.memmap(path, dtype, "r", begins + start, shape, order)
    values = Filling(size - start)
    while block := file.read(_BLOCK):
        values.add(block)
    return values.array(shape, dtype, order)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and type, from the head of a .npy stream."""
    version = np.lib.format.read_magic(file)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():  # a damaged header is refused below; numpy's remarks on it would only confuse
        warnings.simplefilter("ignore")
        return reader(file)


def _offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a stored member begins: behind its local header, whose extra field may differ from the directory's."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        head = file.read(_LOCAL_HEADER)
    name, extra = struct.unpack_from("<HH", head, 26)
    return info.header_offset + _LOCAL_HEADER + int(name) + int(extra)
