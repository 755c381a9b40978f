"""DICOM files, by pydicom (the extra `dicom`): the pixels and what describes them.

Elements with a patient's name, birth date or number are skipped. A name that is burnt into the pixels is not.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.errors import DataError, RequestError

LARGEST = 1 << 28
"""Bytes of a file."""

BURNED_IN = "Some DICOM files say that text is burnt into the picture. If it names anybody, crop it first."

_DEFLATED, _HEAD = b"1.2.840.10008.1.2.1.99", 1 << 16
"""The name of the transfer syntax that compresses the whole file, and the bytes in which it is found."""

_TAGS = [
    "Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "SamplesPerPixel",
    "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames", "RescaleSlope", "RescaleIntercept",
    "BurnedInAnnotation", "PixelData", "ExtendedOffsetTable", "ExtendedOffsetTableLengths",
]  # fmt: skip


@dataclass(frozen=True)
class Pixels:
    """The first frame of a DICOM file.

    Args:
        pixels: [H, W] in the file's own unit (Hounsfield for CT), or uint8 [H, W, 3].
        is_byte: whether they are 8-bit pixels as they are stored; else a range must be declared.
        inverted: whether small values are white.
        possible: the least and the largest value that the file's header allows, in the same unit.
        notes: what the terminal says of it.
    """

    pixels: np.ndarray
    is_byte: bool
    inverted: bool
    possible: tuple[float, float]
    notes: list[str] = field(default_factory=list)


def read(path: Path, *, check_size: Callable[[int, int], None]) -> Pixels:
    """The first frame of a file. check_size: refuses a width and a height before anything is decoded.

    The rescale slope and intercept are applied. Windows are not, because they differ from file to file.

    Raises:
        RequestError: pydicom is not installed.
        DataError: a file that is too large, deflated, of a kind that is not read, or cannot be decoded.
    """
    dataset = _opened(path)
    from pydicom.pixels.utils import pixel_array  # noqa: PLC0415 - an optional extra

    check_size(dataset.Columns, dataset.Rows)
    kind = dataset.PhotometricInterpretation
    colour = kind == "RGB" or kind.startswith("YBR_")
    if not colour and kind not in ("MONOCHROME1", "MONOCHROME2"):
        raise DataError(f"{path}: only grey and RGB pictures are read of DICOM files: export it as PNG")
    if dataset.SamplesPerPixel != (3 if colour else 1) or dataset.BitsAllocated not in (8, 16, 32):
        raise DataError(f"{path}: its pixels are not of 1 or 3 samples of 8, 16 or 32 bits: export it as PNG")
    try:
        pixels = pixel_array(dataset, index=0)
    except (RuntimeError, NotImplementedError):  # what pydicom raises where no decoder is there, or fails
        raise DataError(f"{path}: the pixels are damaged, or need a decoder: write the file uncompressed") from None
    if pixels.ndim != (3 if colour else 2) or (colour and (pixels.shape[2] != 3 or pixels.dtype != np.uint8)):
        raise DataError(f"{path}: only grey pictures and RGB of 8 bits are read of DICOM files: export it as PNG")
    notes = [BURNED_IN] if str(dataset.get("BurnedInAnnotation", "")).upper() == "YES" else []
    if int(dataset.get("NumberOfFrames") or 1) > 1:
        notes.append("Of files with several frames the first was read.")
    slope, intercept = _rescale(dataset)
    is_byte = pixels.dtype == np.uint8 and dataset.BitsStored == 8 and (slope, intercept) == (1, 0)
    if not is_byte:
        pixels = pixels * np.float32(slope) + np.float32(intercept)
    return Pixels(pixels, is_byte or colour, kind == "MONOCHROME1", _possible(dataset), notes)


def size(path: Path) -> tuple[int, int]:
    """Height and width. Raises as `read`, and whatever pydicom raises on damaged files."""
    dataset = _opened(path)
    return int(dataset.Rows), int(dataset.Columns)


def _opened(path: Path) -> Any:
    """What is read of a file, not decoded yet."""
    try:
        import pydicom  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise RequestError(f"{path}: DICOM files need pydicom: pip install 'gossamer[dicom]'") from None
    if path.stat().st_size > LARGEST:
        raise DataError(f"{path}: the file is larger than {LARGEST >> 20} MiB: export the frames one by one")
    raw = path.read_bytes()  # pydicom asks a file for as many bytes as a damaged header declares
    if _DEFLATED in raw[:_HEAD]:  # pydicom would inflate all of it, however much that is, before it tells
        raise DataError(f"{path}: deflated DICOM is not read: write the file anew in another transfer syntax")
    return pydicom.dcmread(io.BytesIO(raw), specific_tags=_TAGS)


def _rescale(dataset: Any) -> tuple[float, float]:
    """Slope and intercept, by which stored values mean others."""
    return float(dataset.get("RescaleSlope") or 1), float(dataset.get("RescaleIntercept") or 0)


def _possible(dataset: Any) -> tuple[float, float]:
    """The least and the largest value of a pixel with the header's bits and sign, after its rescale."""
    values, (slope, intercept) = 2**dataset.BitsStored, _rescale(dataset)
    least = -values // 2 if dataset.PixelRepresentation else 0
    low, high = sorted(stored * slope + intercept for stored in (least, least + values - 1))
    return low, high
