"""Picture files to uint8 [C, H, W]: Pillow and pydicom decode them, and their modes are converted here.

Each picture is converted by itself and by what the card declares: no picture decides how another is read.
"""

import io
import logging
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeGuard

import numpy as np
from PIL import Image, ImageOps

from gossamer.data.memory_mapped import Filling
from gossamer.data.pixels.to_uint8 import MADE_COLOUR, MADE_GREY, SCALED, WINDOWED, resize, scaled
from gossamer.data.problems import Problems, sound
from gossamer.data.source import AS_STORED, Reading
from gossamer.data.sources.pictures import dicom
from gossamer.data.sources.pictures.decode_workers import Picture, Source, decoded
from gossamer.errors import DataError, RequestError
from gossamer.events import Sink, progress, silent

SUFFIXES = (".png", ".jpg", ".jpeg", ".jfif", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".dcm")
"""Endings of pictures. Which of Pillow's formats a file has is read from its first bytes, whatever it is called."""
KINDS = f"{', '.join(SUFFIXES)} files, and DICOM files without an ending"
"""What pictures are, for messages."""

LARGEST = 1 << 28
"""Bytes of a file."""

MOST_PIXELS = 1 << 25
"""Pixels of a picture, 8192 x 4096: a few bytes can declare more than the memory holds."""

ON_WHITE = "Pictures with an alpha channel or a transparent colour were laid on white."
FROM_CMYK = "CMYK pictures were converted to RGB without a colour profile."
UPRIGHT = "Pictures were turned as their EXIF orientation says."

logging.getLogger("PIL").addHandler(logging.NullHandler())  # else its remarks on damaged files go to the terminal

_OF_PILLOW = SUFFIXES[:-1]
_FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF")
_ORIENTATION = 0x0112
_STORED_DEEP = 0.0, 65535.0
"""Black and white of pixels of 16 bits whose range nothing declares."""
_ROWS = 256
_SILENT = 2.0
"""Seconds of reading before progress is shown."""


@dataclass
class Decoder:
    """Reads pictures one by one, and notes how it converted them.

    Args:
        how: what each picture is brought to.
        notes: a sentence for each kind of conversion that was made.
    """

    how: Reading = AS_STORED
    notes: set[str] = field(default_factory=set)
    doing: ClassVar[str] = "reading pictures (per cent)"
    """What progress calls it."""

    def read(self, source: Picture) -> np.ndarray | DataError:
        """One picture as uint8 [C, H, W], in the card's form. DICOM is read from files only.

        A DataError in its place: it cannot be read, is too large, or is more than 8 bits deep with no range declared. Raises
        RequestError: pydicom is not installed.
        """
        if isinstance(source, DataError):
            return source
        try:
            with warnings.catch_warnings():  # of Pillow and pydicom, on damaged files
                warnings.simplefilter("ignore")
                if isinstance(source, Image.Image):
                    image = self._of_opened(source.copy())
                else:
                    image = self._of_dicom(source) if _is_dicom(source) else self._of_picture(source)
        except DataError as refused:
            return refused
        except RequestError:
            raise
        except MemoryError:
            return DataError("there is not enough memory to read this picture")
        except Exception:  # what decoders raise on damaged files is open-ended, and may tell what is in them
            return DataError("this cannot be read as a picture: mend or remove it")
        whole: np.ndarray = self.formed(image[None])[0]
        return whole

    def read_all(self, sources: Iterable[Source]) -> Iterator[tuple[str, np.ndarray | DataError]]:
        """Place and pixels of each picture, in order, see `read`. Workers decode many pictures."""
        return decoded(sources, self)

    def formed(self, images: np.ndarray) -> np.ndarray:
        """uint8 [N, C, H, W] in the card's form."""
        how = self.how
        if how.shape is not None and images.shape[1] != how.shape[0]:
            self.notes.add(MADE_GREY if how.shape[0] == 1 else MADE_COLOUR)
        return resize(images, how.shape, how.resize, invert=how.invert)

    def _of_picture(self, source: Path | bytes) -> np.ndarray:
        """A picture that Pillow reads."""
        with Image.open(_stream(source), formats=_FORMATS) as picture:
            return self._of_opened(picture)

    def _of_opened(self, picture: Image.Image) -> np.ndarray:
        """A picture that Pillow has opened, upright."""
        _check_size(*picture.size)
        if getattr(picture, "is_animated", False):
            self.notes.add(dicom.FIRST_FRAME)
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
        if picture.mode not in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"):
            raise DataError(f"pictures of mode {picture.mode} are not read: convert it to 8-bit grey or RGB")
        if picture.mode == "CMYK":
            self.notes.add(FROM_CMYK)
        wanted = "L" if picture.mode in ("1", "L", "LA") else "RGB"
        return _channels_first(np.asarray(self._opaque(picture, wanted)))

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
        found = dicom.read(path, check_size=_check_size)
        self.notes.update(found.notes)
        window = found.window if self.how.window else None
        if window is not None:
            self.notes.add(WINDOWED)
        scales = window is not None or not found.is_byte
        pixels = found.scaled(window or self._range_of(found.possible)) if scales else found.stored
        return _channels_first(255 - pixels if found.inverted else pixels)

    def _range_of(self, possible: tuple[float, float] | None = None) -> tuple[float, float]:
        """The declared black and white. possible: the least and the largest value that a DICOM header allows."""
        declared: tuple[float, float] | None = self.how.pixel_range
        if declared is not None:
            self.notes.add(SCALED)
            return declared
        black, white = possible or _STORED_DEEP
        which = "all values that its header allows" if possible else "all 16 bits; where 12 are used, take 0 4095"
        if black < 0:
            which += "; CT in Hounsfield units often takes -1000 1000"
        no_window = "it declares no linear display window, and " if self.how.window and possible else ""
        raise DataError(
            f"{no_window}its pixels are not plain 8-bit ones. Declare black and white as pixel_range in the card: "
            f"`gossamer.draft_card(DATA, pixel_range=({black:.10g}, {white:.10g}))` drafts it with {which}"
        )

    def _deep(self, pixels: np.ndarray) -> np.ndarray:
        """Grey pixels [H, W] of any depth as uint8."""
        pixel_range = self._range_of()
        if not np.isfinite(pixels).all():
            raise DataError("it holds a pixel that is NaN or infinite: mend or remove it")
        return np.concatenate([scaled(rows, pixel_range) for rows in np.array_split(pixels, len(pixels) // _ROWS + 1)])


def _channels_first(pixels: np.ndarray) -> np.ndarray:
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def range_of(path: Path) -> tuple[float, float, bool] | None:
    """Black and white of a picture deeper than 8 bits, and whether it declares a display window; None: it has 8 bits.

    Raises:
        DataError: it cannot be read.
    """
    with sound(path, "this cannot be read as a picture: mend or remove it"):
        if _is_dicom(path):
            found = dicom.read(path, check_size=_check_size)
            return None if found.is_byte else (*found.possible, found.window is not None)
        with Image.open(path, formats=_FORMATS) as picture:
            return (*_STORED_DEEP, False) if picture.mode[0] in "IF" else None


def is_picture(path: Path | os.DirEntry[str]) -> bool:
    """Whether a file is a picture by its ending, or DICOM by its first bytes."""
    return path.is_file() and (path.name.lower().endswith(SUFFIXES) or dicom.is_dicom(Path(path)))


def _is_dicom(source: Picture) -> TypeGuard[Path]:
    """Whether a listed picture is DICOM: what has no ending of a picture was listed for its first bytes."""
    return isinstance(source, Path) and source.suffix.lower() not in _OF_PILLOW


def _stream(source: Path | bytes | DataError) -> io.BytesIO:
    """A whole file in memory: Pillow asks a file for as many bytes as a damaged header declares."""
    if isinstance(source, DataError):
        raise source
    if isinstance(source, bytes):
        return io.BytesIO(source)
    if source.stat().st_size > LARGEST:
        raise DataError(f"the file is larger than {LARGEST >> 20} MiB: shrink or remove it")
    return io.BytesIO(source.read_bytes())


def _check_size(width: int, height: int) -> None:
    """Refuse a picture without pixels, or with too many."""
    if width < 1 or height < 1:
        raise DataError("it declares no pixels: mend or remove it")
    if width * height > MOST_PIXELS:
        raise DataError(f"it declares more than {MOST_PIXELS:,} pixels: shrink or remove it")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without file descriptor 2, on which libtiff prints, past Python, what it finds in a damaged file."""
    with ExitStack() as stack:
        with suppress(OSError), Path(os.devnull).open("wb") as nothing:  # there may be none
            saved_stderr = os.dup(2)
            stack.callback(os.close, saved_stderr)
            stack.callback(os.dup2, saved_stderr, 2)
            os.dup2(nothing.fileno(), 2)
        yield


@dataclass
class Sizer(Decoder):
    """Counts the pictures of each height and width by their heads. A `Decoder` refuses those without a sound head.

    colours: the pictures in grey and those in colour.
    any_dicom: whether one of them is a DICOM file.
    """

    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    colours: Counter[bool] = field(default_factory=Counter)
    any_dicom: bool = False
    doing: ClassVar[str] = "looking at sizes (per cent)"

    @property
    def channels(self) -> int:
        """3 if any picture is in colour."""
        return 3 if self.colours[True] else 1

    def read_all(self, sources: Iterable[Source]) -> Iterator[tuple[str, np.ndarray | DataError]]:
        """One black pixel for each picture, counted in this process. A `Decoder` tells which are missing or damaged."""
        for where, source in sources:
            self.any_dicom = self.any_dicom or _is_dicom(source)
            with suppress(Exception), warnings.catch_warnings():  # what decoders raise on damaged heads is open-ended
                warnings.simplefilter("ignore")
                height, width, in_colour = dicom.head(source) if _is_dicom(source) else _head(source)
                self.sizes[height, width] += 1
                self.colours[in_colour] += 1
            yield where, np.zeros((1, 1, 1), np.uint8)


def _head(source: Picture) -> tuple[int, int, bool]:
    """Height, width and whether in colour, of a picture that Pillow reads, after it is turned as its orientation says."""
    if not isinstance(source, Image.Image):
        with Image.open(_stream(source), formats=_FORMATS) as picture:
            return _head(picture)
    has_exif = source.format != "PNG" or "exif" in source.info  # else Pillow decodes a PNG to look for it
    turned = has_exif and source.getexif().get(_ORIENTATION, 1) in range(5, 9)
    in_colour = source.mode[:1] not in ("1", "L", "I", "F") or source.mode == "LAB"
    return *(source.size if turned else (source.height, source.width)), in_colour


def read_files(paths: Sequence[Path], decoder: Decoder, sink: Sink = silent) -> np.ndarray:
    """Files to uint8 [N, C, H, W]. Raises DataError: as `stacked`, or a file under two names.

    Links are followed. A file under two names would be two records, and a record is protected once.
    sink: takes the progress.
    """
    names: dict[tuple[int, int], Path] = {}

    def once(path: Path) -> Path | DataError:
        status = path.stat()
        first = names.setdefault((status.st_dev, status.st_ino), path)
        if first is path or not status.st_ino:
            return path
        return DataError(f"this is the same file as {first}, under two names: keep one of them")

    shown = counted([(str(path), once(path)) for path in paths], len(paths), decoder.doing, sink)
    return stacked(shown, decoder, where=str(paths[0].parent), count=len(paths))


def counted(sources: Iterable[Source], count: int, doing: str, sink: Sink) -> Iterator[Source]:
    """The same sources. A reading that takes long is shown in per cent: how many pictures there are is not public."""
    begun, shown = time.monotonic(), -1
    for at, source in enumerate(sources):
        done = 100 * at // count
        if done > shown and time.monotonic() - begun > _SILENT:
            sink(progress(doing, done, 100))
            shown = done
        yield source
    if shown >= 0:
        sink(progress(doing, 100, 100))


def stacked(sources: Iterable[Source], decoder: Decoder, *, where: str, count: int = 0) -> np.ndarray:
    """Picture files, each with its place, to uint8 [N, C, H, W]. where: what holds them all, for messages.

    count: their number, to check the free space before the second is read; zero: unknown. Raises DataError: there are none,
    some differ in size or colour or cannot be read, or the disk is too full.
    """
    values, shape, first, problems = Filling(), None, "", Problems()
    for place, pixels in decoder.read_all(sources):
        if isinstance(pixels, DataError):
            problems.add(place, pixels)
            continue
        if shape is None:
            shape, first, values = pixels.shape, place, Filling(count * pixels.nbytes)
        if pixels.shape != shape:
            problems.add(
                place,
                f"the picture differs from {first} in size or colour: give a card, to whose shape all are converted "
                "(three lines are enough: shape, classes, declared_size)",
            )
        if not problems:
            values.add(pixels)
    problems.refuse()
    if shape is None:
        raise DataError(f"{where}: there are no pictures in it: copy or write it again")
    return values.array((-1, *shape))
