"""Picture files to uint8 [C, H, W]: Pillow and pydicom decode, and here it is decided what every mode of theirs becomes.

Each picture is treated by itself and by what the card declares: no picture decides how another is read.
"""

import io
import logging
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from gossamer.data.memory_mapped import Filling
from gossamer.data.readers import dicom
from gossamer.data.readers.decode_workers import Source, decoded
from gossamer.data.to_uint8 import MADE_COLOUR, MADE_GREY, SCALED, Form, scaled
from gossamer.errors import DataError, RequestError

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".dcm")
"""Endings of pictures. Which of Pillow's formats a file has is read from its first bytes, whatever it is called."""

LARGEST = 1 << 28
"""Bytes of a file."""

MOST_PIXELS = 1 << 25
"""Of one picture, 8192 x 4096: a few bytes of a file can declare more than the memory holds."""

ON_WHITE = "Pictures with an alpha channel or a transparent colour were laid on white."
FROM_CMYK = "CMYK pictures were converted to RGB without a colour profile."
UPRIGHT = "Pictures were turned as their EXIF orientation says."
FIRST_FRAME = "Of files with several frames the first was read."

logging.getLogger("PIL").addHandler(logging.NullHandler())  # else its remarks on damaged files go to the terminal

_FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF")
_ORIENTATION = 0x0112
_ROWS = 256


@dataclass
class Decoder:
    """Reads pictures one by one, and remembers in words what it did to any of them.

    Args:
        form: what each picture is brought to.
        pixel_range: what is black and what is white in pictures deeper than 8 bits. None: such pictures are refused.
        notes: one sentence for each kind of conversion that was made.
    """

    form: Form = field(default_factory=Form)
    pixel_range: tuple[float, float] | None = None
    notes: set[str] = field(default_factory=set)

    def read(self, source: Path | bytes, *, where: str) -> np.ndarray:
        """One picture as uint8 [C, H, W], in the card's form.

        Args:
            source: a file, or the bytes of one (of a DICOM file: the file).
            where: its place, for messages.

        Raises:
            DataError: a picture that cannot be read, or is too large; more than 8 bits deep with no range declared.
        """
        try:
            with warnings.catch_warnings():  # what Pillow and pydicom remark on damaged files would only confuse
                warnings.simplefilter("ignore")
                is_dicom = isinstance(source, Path) and source.suffix.lower() == ".dcm"
                image = self._of_dicom(source) if is_dicom and isinstance(source, Path) else self._of_picture(source)
        except _Refused as refused:
            raise DataError(f"{where}: {refused}") from None
        except RequestError:
            raise
        except Exception as error:  # what decoders raise on damaged files is open-ended
            raise DataError(
                f"{where}: the picture cannot be read ({type(error).__name__}): mend or remove it"
            ) from None
        whole: np.ndarray = self.formed(image[None])[0]
        return whole

    def read_all(self, sources: Iterable[Source]) -> Iterator[tuple[str, np.ndarray]]:
        """Place and pixels of each picture, in order; many are decoded by workers. Raises DataError: as `read`."""
        return decoded(sources, self)

    def formed(self, images: np.ndarray) -> np.ndarray:
        """uint8 [N, C, H, W] in the card's form."""
        shape = self.form.shape
        if shape is not None and images.shape[1] != shape[0]:
            self.notes.add(MADE_GREY if shape[0] == 1 else MADE_COLOUR)
        return self.form.of(images)

    def _of_picture(self, source: Path | bytes) -> np.ndarray:
        """A picture that Pillow reads."""
        if isinstance(source, Path):
            source = _bytes_of(source)
        with Image.open(io.BytesIO(source), formats=_FORMATS) as picture:
            _check_size(*picture.size)
            if getattr(picture, "is_animated", False):
                self.notes.add(FIRST_FRAME)
            if picture.getexif().get(_ORIENTATION, 1) in range(2, 9):
                self.notes.add(UPRIGHT)
            with _quiet() if picture.format == "TIFF" else nullcontext():
                picture.load()
            ImageOps.exif_transpose(picture, in_place=True)
            return self._plain(picture)

    def _plain(self, picture: Image.Image) -> np.ndarray:
        """A picture of any mode as uint8 [C, H, W]."""
        if picture.mode in ("I", "F") or picture.mode.startswith("I;16"):
            return self._deep(np.asarray(picture))[None]
        if picture.mode in ("1", "L", "LA") and "transparency" not in picture.info:
            wanted = "L"
        elif picture.mode in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"):
            wanted = "L" if picture.mode in ("1", "L", "LA") else "RGB"
        else:
            raise _Refused(f"pictures of mode {picture.mode} are not read: convert it to 8-bit grey or RGB")
        if picture.mode == "CMYK":
            self.notes.add(FROM_CMYK)
        array = np.asarray(self._opaque(picture, wanted))
        return array[None] if wanted == "L" else array.transpose(2, 0, 1)

    def _opaque(self, picture: Image.Image, wanted: str) -> Image.Image:
        """The picture in mode L or RGB, on white where it has an alpha channel or a transparent colour."""
        if not (picture.mode in ("LA", "PA", "RGBA") or "transparency" in picture.info):
            return picture.convert(wanted)
        self.notes.add(ON_WHITE)
        if picture.mode not in ("LA", "RGBA"):
            picture = picture.convert("LA" if wanted == "L" else "RGBA")
        page = Image.new(wanted, picture.size, "white")
        page.paste(picture.convert(wanted), mask=picture.getchannel("A"))
        return page

    def _of_dicom(self, path: Path) -> np.ndarray:
        """A picture that pydicom reads."""
        decoded = dicom.read(path, check_size=_check_size)
        self.notes.update(decoded.notes)
        pixels = decoded.pixels if decoded.is_byte else self._deep(decoded.pixels, decoded.possible)
        if decoded.inverted:
            pixels = 255 - pixels
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)

    def _deep(self, pixels: np.ndarray, possible: tuple[float, float] | None = None) -> np.ndarray:
        """Grey pixels [H, W] of any depth as uint8.

        Args:
            pixels: of one picture.
            possible: the least and the largest value that its file's header allows; None: it does not say.
        """
        if self.pixel_range is None:
            black, white = (0.0, 65535.0) if possible is None else possible
            which = "all values that its header allows" if possible else "all 16 bits; where 12 are used, take 0 4095"
            if black < 0:
                which += "; CT in Hounsfield units often takes -1000 1000"
            raise _Refused(
                "its pixels are not plain 8-bit ones. Declare what is black and white as pixel_range in the card: "
                f"`gossamer card DATA --pixel-range {black:.10g} {white:.10g}` drafts it with {which}"
            )
        self.notes.add(SCALED)
        image = np.empty(pixels.shape, np.uint8)
        for start in range(0, len(pixels), _ROWS):
            rows = pixels[start : start + _ROWS]
            if not np.isfinite(rows).all():
                raise _Refused("it holds a pixel that is NaN or infinite: mend or remove it")
            image[start : start + _ROWS] = scaled(rows, self.pixel_range)
        return image


class _Refused(Exception):
    """A picture that is not read, and why."""


def _bytes_of(path: Path) -> bytes:
    """A whole file: Pillow asks a file for as many bytes as a damaged header declares."""
    if path.stat().st_size > LARGEST:
        raise _Refused(f"the file is larger than {LARGEST >> 20} MiB: shrink or remove it")
    return path.read_bytes()


def _check_size(width: int, height: int) -> None:
    """Refuse a picture without pixels, or with more than any camera's."""
    if width < 1 or height < 1:
        raise _Refused("it declares no pixels: mend or remove it")
    if width * height > MOST_PIXELS:
        raise _Refused(f"it declares more than {MOST_PIXELS:,} pixels: shrink or remove it")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without file descriptor 2: libtiff prints there what it finds in a damaged file, past Python, and has no switch."""
    try:
        saved_stderr = os.dup(2)
    except OSError:  # there is none
        yield
        return
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(saved_stderr, 2)
        os.close(saved_stderr)


@dataclass
class Sizer(Decoder):
    """Looks at the heads of pictures in place of reading them.

    Args:
        sizes: how many pictures there are of each height and width. What has no sound head is left to a `Decoder` to refuse.
        channels: of the first picture, which is read; 0 where there is none.
    """

    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    channels: int = 0

    def read(self, source: Path | bytes, *, where: str) -> np.ndarray:
        """Counts one picture. Gives one black pixel. Raises DataError: the first picture cannot be read."""
        if not self.channels:
            self.channels = len(super().read(source, where=where))
        with suppress(Exception), warnings.catch_warnings():  # what decoders raise on damaged heads is open-ended
            warnings.simplefilter("ignore")
            is_dicom = isinstance(source, Path) and source.suffix.lower() == ".dcm"
            self.sizes[dicom.size(source) if is_dicom and isinstance(source, Path) else _size(source)] += 1
        return np.zeros((1, 1, 1), np.uint8)

    def read_all(self, sources: Iterable[Source]) -> Iterator[tuple[str, np.ndarray]]:
        """One black pixel for each picture, all of which are counted here."""
        return ((where, self.read(source, where=where)) for where, source in sources)


def _size(source: Path | bytes) -> tuple[int, int]:
    """Height and width of a picture that Pillow reads, after it is turned as its orientation says."""
    raw = _bytes_of(source) if isinstance(source, Path) else source
    with Image.open(io.BytesIO(raw), formats=list(_FORMATS)) as picture:
        has_exif = picture.format != "PNG" or "exif" in picture.info  # else Pillow decodes a PNG to look for it
        turned = has_exif and picture.getexif().get(_ORIENTATION, 1) in range(5, 9)
        return picture.size if turned else (picture.height, picture.width)


def read_files(paths: Sequence[Path], decoder: Decoder) -> np.ndarray:
    """Files to uint8 [N, C, H, W].

    Links are followed. Two names of one file are refused: that record would count twice, and a record is protected once.

    Raises:
        DataError: a file that is no picture, pictures that differ in size or colour, or a file under two names.
    """
    names: dict[tuple[int, int], Path] = {}
    for path in paths:
        status = path.stat()
        first = names.setdefault((status.st_dev, status.st_ino), path)
        if first is not path and status.st_ino:
            raise DataError(f"{path}: this is the same file as {first}, under two names: keep one of them")
    return stacked(((str(path), path) for path in paths), decoder, where=str(paths[0].parent), count=len(paths))


def stacked(sources: Iterable[Source], decoder: Decoder, *, where: str, count: int = 0) -> np.ndarray:
    """Picture files, each with its place, to uint8 [N, C, H, W].

    Args:
        sources: a place and a file, or the bytes of one, for each picture.
        decoder: what reads them.
        where: what holds them all, for the message.
        count: how many there are, where that is known: room is then made for all of them before the second is read.

    Raises:
        DataError: there are none, they differ in size or colour, one cannot be read, or there is no room for them.
    """
    values, shape, first = Filling(), None, ""
    for place, pixels in decoder.read_all(sources):
        if shape is None:
            shape, first, values = pixels.shape, place, Filling(count * pixels.nbytes)
        if pixels.shape != shape:
            raise DataError(
                f"{place}: the picture differs from {first} in size or colour: give a card, to whose shape all are converted "
                "(three lines are enough: shape, classes, declared_size)"
            )
        values.add(pixels)
    if shape is None:
        raise DataError(f"{where}: there are no pictures in it: copy or write it again")
    return values.array((-1, *shape))
