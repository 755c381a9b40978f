"""DICOM files, by pydicom (the extra `dicom`): the pixels and what describes them.

Elements with a patient's name, birth date or number are skipped, except the one that `--units dicom:KEYWORD` names. A name
that is burnt into the pixels is not.
"""

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.pixels.to_uint8 import scaled
from gossamer.errors import DataError, RequestError, did_you_mean

LARGEST = 1 << 28
"""Bytes of a file."""

BURNED_IN = "Some DICOM files say that text is burnt into the picture. If it names anybody, crop it first."
FIRST_FRAME = "Of files with several frames the first was read."
INDEX = "dicomdir"
"""The name of the list of files that archives write beside them, in small letters. It holds no picture."""

_MARK, _MARK_AT = b"DICM", 128
_DEFLATED, _HEAD = b"1.2.840.10008.1.2.1.99", 1 << 16
"""The name of the transfer syntax that compresses the whole file, and the bytes in which it is found."""

_TAGS = [
    "Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "SamplesPerPixel",
    "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames", "RescaleSlope", "RescaleIntercept",
    "WindowCenter", "WindowWidth", "VOILUTFunction", "BurnedInAnnotation", "PixelData", "ExtendedOffsetTable",
    "ExtendedOffsetTableLengths", "SOPClassUID", "ModalityLUTSequence", "SharedFunctionalGroupsSequence",
    "PerFrameFunctionalGroupsSequence",
    *(f"{colour}PaletteColorLookupTable{part}" for colour in ("Red", "Green", "Blue") for part in ("Descriptor", "Data")),
    *(f"Segmented{colour}PaletteColorLookupTableData" for colour in ("Red", "Green", "Blue")),
]  # fmt: skip


@dataclass(frozen=True)
class Pixels:
    """The first frame of a DICOM file.

    Args:
        stored: grey [H, W] as the file stores them, or uint8 [H, W, 3].
        is_byte: whether they are 8-bit pixels as they are stored; else a range must be declared.
        inverted: whether small values are white.
        rescale: slope and intercept, which bring stored values to the file's unit (Hounsfield for CT).
        possible: the least and the largest value that the file's header allows, in the file's unit.
        window: black and white of the file's display window, in the same unit. None: it declares no linear one.
        notes: what the terminal says of it.
    """

    stored: np.ndarray
    is_byte: bool
    inverted: bool
    rescale: tuple[float, float]
    possible: tuple[float, float]
    window: tuple[float, float] | None = None
    notes: list[str] = field(default_factory=list)

    def scaled(self, pixel_range: tuple[float, float]) -> np.ndarray:
        """Grey pixels as uint8 [H, W]. pixel_range: black and white, in the file's unit."""
        if self.stored.dtype.itemsize > 2:
            return scaled(_in_unit(self.stored, self.rescale), pixel_range)
        native, (black, white) = self.stored.dtype.newbyteorder("="), pixel_range
        values = _table(native.str, self.rescale, (black, white))
        pixels: np.ndarray = values[np.ascontiguousarray(self.stored, native).view(f"u{native.itemsize}")]
        return pixels


def is_dicom(path: Path) -> bool:
    """Whether the mark of DICOM is at byte 128. Archives export files without an ending, or with that of another kind."""
    if path.name.casefold() == INDEX:
        return False
    with path.open("rb") as file:
        return file.read(_MARK_AT + len(_MARK))[_MARK_AT:] == _MARK


def read(path: Path, *, check_size: Callable[[int, int], None]) -> Pixels:
    """The first frame of a file. check_size: refuses a width and a height before anything is decoded.

    Raises:
        RequestError: pydicom is not installed.
        DataError: a file that is too large, deflated, of a kind that is not read, or cannot be decoded.
    """
    if path.stat().st_size > LARGEST:
        raise DataError(f"{path}: the file is larger than {LARGEST >> 20} MiB: export the frames one by one")
    dataset = _dataset(path, _TAGS, stop_before_pixels=False)
    from pydicom.pixels.utils import pixel_array  # noqa: PLC0415 - an optional extra

    if "PixelData" not in dataset or "Columns" not in dataset or "Rows" not in dataset:
        raise DataError(f"{path}: this DICOM file holds no PixelData{_is_a(dataset)}: move it away")
    check_size(dataset.Columns, dataset.Rows)
    kind = dataset.PhotometricInterpretation
    palette, colour = kind == "PALETTE COLOR", kind == "RGB" or kind.startswith("YBR_")
    samples = {"MONOCHROME1": 1, "MONOCHROME2": 1, "PALETTE COLOR": 1}.get(kind, 3 if colour else 0)
    if dataset.SamplesPerPixel != samples or dataset.BitsAllocated not in (8, 16, 32):
        raise DataError(f"{path}: of DICOM, only grey, RGB and palette pictures are read: export it as PNG")
    try:
        pixels = pixel_array(dataset, index=0)
    except (RuntimeError, NotImplementedError):  # what pydicom raises where no decoder is there, or fails
        raise DataError(f"{path}: the pixels are damaged, or need a decoder: write the file uncompressed") from None
    if "ModalityLUTSequence" in dataset:
        raise DataError(f"{path}: a table in the file (Modality LUT) maps its values: export it as PNG")
    if palette and pixels.ndim == 2:
        pixels = _coloured(pixels, dataset)
    colour = colour or palette
    if pixels.shape[2:] != ((3,) if colour else ()) or (colour and pixels.dtype != np.uint8):
        raise DataError(f"{path}: of DICOM, only grey pictures and RGB of 8 bits are read: export it as PNG")
    notes = [BURNED_IN] if str(dataset.get("BurnedInAnnotation", "")).upper() == "YES" else []
    if int(dataset.get("NumberOfFrames") or 1) > 1:
        notes.append(FIRST_FRAME)
    rescale = _rescale(dataset)
    if not np.isfinite(rescale).all():
        raise DataError(f"{path}: its rescale is not finite: mend or remove it")
    is_byte = pixels.dtype == np.uint8 and dataset.BitsStored == 8 and rescale == (1, 0)
    window = None if colour else _window(dataset)
    return Pixels(pixels, is_byte or colour, kind == "MONOCHROME1", rescale, _possible(dataset), window, notes)


def head(path: Path) -> tuple[int, int, bool]:
    """Height, width and whether in colour, by the head of the file. Raises as `read`, and what pydicom raises."""
    dataset = _dataset(path, ["Rows", "Columns", "PhotometricInterpretation"])
    return int(dataset.Rows), int(dataset.Columns), not dataset.PhotometricInterpretation.startswith("MONOCHROME")


def texts(paths: Sequence[Path], keyword: str) -> list[str]:
    """One element of the heads of files as text, such as PatientID; empty where it is missing. [N]

    Raises:
        RequestError: pydicom is not installed, or DICOM has no such element.
        DataError: some files are no sound DICOM; says how many.
    """
    pydicom = _pydicom(f"dicom:{keyword}")
    if pydicom.datadict.tag_for_keyword(keyword) is None:
        near = did_you_mean(keyword, ["PatientID", "PatientName", "StudyInstanceUID", "AccessionNumber"])
        raise RequestError(f"dicom:{keyword}: DICOM has no element of this name.{near} Take PatientID.")
    found, failed = list[str](), 0
    for path in paths:
        try:
            value = _dataset(path, [keyword]).get(keyword)
            found.append("" if value is None else str(value))
        except Exception:  # what pydicom raises on damaged files is open-ended
            failed += 1
    if failed:
        raise DataError(
            f"`units=dicom:{keyword}`: {failed:,} of {len(paths):,} pictures are no sound DICOM files: take them out"
        )
    return found


def _pydicom(where: object) -> Any:
    """The library. Raises RequestError: it is not installed."""
    try:
        import pydicom  # noqa: PLC0415 - an optional extra
        import pydicom.datadict  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise RequestError(f"{where}: DICOM files need pydicom: pip install 'gossamer[dicom]'") from None
    return pydicom


def _dataset(path: Path, keywords: Sequence[str], *, stop_before_pixels: bool = True) -> Any:
    """Elements of a file. It is mapped: of a plain one, pydicom asks for as many bytes as a damaged header declares."""
    pydicom = _pydicom(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        if raw[_MARK_AT : _MARK_AT + len(_MARK)] != _MARK:
            raise DataError(
                f"{path}: the mark DICM is missing at byte 128: this is old DICOM, or another kind of file: move it away"
            )
        if raw.find(_DEFLATED, 0, _HEAD) >= 0:  # pydicom would inflate all of it, however much that is, before it tells
            raise DataError(f"{path}: deflated DICOM is not read: write the file anew in another transfer syntax")
        return pydicom.dcmread(raw, stop_before_pixels=stop_before_pixels, specific_tags=_tags(*keywords))


@lru_cache
def _tags(*keywords: str) -> list[Any]:
    """The tags of keywords, which pydicom would look up for each file anew."""
    from pydicom.tag import Tag  # noqa: PLC0415 - an optional extra

    return [Tag(keyword) for keyword in keywords]


def _is_a(dataset: Any) -> str:
    """What kind of object a file holds, in brackets, by the register of DICOM; empty: it is not known."""
    kind = dataset.get("SOPClassUID")
    return f" ({kind.name})" if kind is not None and kind.name != kind else ""


def _of_frame(dataset: Any, group: str) -> Any:
    """What describes the values of the first frame. group: the sequence of an enhanced file that has it.

    An enhanced file has functional groups for each frame, or for all frames, and a group is in one of them: DICOM PS3.3,
    C.7.6.16. Other files have the elements themselves.
    """
    for place in ("PerFrameFunctionalGroupsSequence", "SharedFunctionalGroupsSequence"):
        for of_frame in (dataset.get(place) or [])[:1]:
            if found := of_frame.get(group):
                return found[0]
    return dataset


def _rescale(dataset: Any) -> tuple[float, float]:
    """Slope and intercept, by which stored values mean others."""
    stated = _of_frame(dataset, "PixelValueTransformationSequence")
    return float(stated.get("RescaleSlope") or 1), float(stated.get("RescaleIntercept") or 0)


def _in_unit(stored: np.ndarray, rescale: tuple[float, float]) -> np.ndarray:
    """Stored values in the file's unit."""
    return stored * np.float32(rescale[0]) + np.float32(rescale[1])


@lru_cache(maxsize=8)
def _table(kind: str, rescale: tuple[float, float], pixel_range: tuple[float, float]) -> np.ndarray:
    """What each stored value of at most 16 bits becomes, in the order of its bits. uint8 [256 or 65,536]"""
    dtype = np.dtype(kind)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    every = np.arange(1 << 8 * dtype.itemsize, dtype=unsigned).view(dtype)
    return scaled(_in_unit(every, rescale), pixel_range)


def _possible(dataset: Any) -> tuple[float, float]:
    """The least and the largest value of a pixel with the header's bits and sign, after its rescale."""
    values, (slope, intercept) = 2**dataset.BitsStored, _rescale(dataset)
    least = -values // 2 if dataset.PixelRepresentation else 0
    low, high = sorted(stored * slope + intercept for stored in (least, least + values - 1))
    return low, high


def _window(dataset: Any) -> tuple[float, float] | None:
    """Black and white of the first linear display window: DICOM PS3.3, C.11.2.1.2 and C.11.2.1.3.2."""
    stated = _of_frame(dataset, "FrameVOILUTSequence")
    center, width = (_first(stated.get(key)) for key in ("WindowCenter", "WindowWidth"))
    function = str(stated.get("VOILUTFunction") or "LINEAR").upper()
    if center is None or width is None or function not in ("LINEAR", "LINEAR_EXACT"):
        return None
    middle, half = (center - 0.5, (width - 1) / 2) if function == "LINEAR" else (center, width / 2)
    return (middle - half, middle + half) if half > 0 and np.isfinite([middle, half]).all() else None


def _first(value: Any) -> float | None:
    """The first number of an element, which may have none or several."""
    values = [*value] if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return float(values[0]) if values and values[0] not in (None, "") else None


def _coloured(pixels: np.ndarray, dataset: Any) -> np.ndarray:
    """Positions in the file's palette as uint8 [H, W, 3]; of colours of 16 bits, the upper 8."""
    from pydicom.pixels.processing import apply_color_lut  # noqa: PLC0415 - an optional extra

    colours: np.ndarray = apply_color_lut(pixels, dataset)
    return colours if colours.dtype == np.uint8 else (colours >> 8).astype(np.uint8)
