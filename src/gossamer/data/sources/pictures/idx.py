"""The idx format of MNIST: two zero bytes, a type code, the number of dimensions, the dimensions, the values."""

import gzip
import math
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gossamer.data.memory_mapped import Filling
from gossamer.data.problems import sound
from gossamer.errors import DataError

NAMES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""Standard names of the image and label files of each split, plain or with .gz."""

_UNSIGNED_BYTE = 8
_BLOCK = 1 << 24


def is_idx_folder(folder: Path) -> bool:
    """Whether a folder holds any of the standard names."""
    return any(_find(folder, name) for pair in NAMES.values() for name in pair)


def has_split(folder: Path, split: str) -> bool:
    """Whether a folder holds the images of a split."""
    return _find(folder, NAMES[split][0]) is not None


def read_folder(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [N, H, W] and labels uint8 [N] of one split. Raises DataError."""
    images, labels = (_find(folder, name) for name in NAMES[split])
    if images is None or labels is None:
        name = NAMES[split][images is not None]
        raise DataError(f"{folder}: the {split} split needs the file {name} or {name}.gz: copy it there")
    return read_file(images, dimensions=3), read_file(labels, dimensions=1)


def read_file(path: Path, *, dimensions: int) -> np.ndarray:
    """One idx file of unsigned bytes with 3 (images) or 1 (labels) dimensions; memory-mapped unless it ends in .gz.

    Raises:
        DataError: not an idx file of that kind, cut, longer than its header says, empty or unreadable; or a full disk.
    """
    with sound(path, "the compressed file is cut or damaged: copy or download it again"):
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                shape, values = _header(file, path, dimensions), Filling()
                most = math.prod(shape) + 1  # a damaged header can declare more than there is
                while block := file.read(min(_BLOCK, most - len(values))):
                    values.add(block)
                _check_length(len(values), most - 1, path)
                return values.array(shape)
        with path.open("rb") as file:
            shape = _header(file, path, dimensions)
            start = file.tell()
        _check_length(path.stat().st_size - start, math.prod(shape), path)
        return np.memmap(path, np.uint8, "r", start, shape)


def _find(folder: Path, name: str) -> Path | None:
    """The plain file, else the compressed one."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _header(file: BinaryIO | gzip.GzipFile, path: Path, dimensions: int) -> tuple[int, ...]:
    """The shape that the header declares."""
    head = file.read(4 + 4 * dimensions)
    if len(head) < 4 + 4 * dimensions or head[:4] != bytes([0, 0, _UNSIGNED_BYTE, dimensions]):
        raise DataError(f"{path}: its header is not that of an idx file of unsigned bytes in {dimensions} dimensions")
    shape = struct.unpack_from(f">{dimensions}I", head, 4)
    if 0 in shape:
        raise DataError(f"{path}: the idx file is empty: its header declares a dimension of 0")
    return shape


def _check_length(length: int, declared: int, path: Path) -> None:
    if length != declared:
        which = "fewer" if length < declared else "more"
        raise DataError(f"{path}: the file holds {which} values than its header declares: copy or download it again")
