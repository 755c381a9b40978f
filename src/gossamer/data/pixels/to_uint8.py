"""From arrays as people store them to uint8 [N, C, H, W]: layout, pixel range, size.

Every record is converted by itself. By the maximum or mean of all pixels, one record would change the others, and no clipping
bounds that.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
from PIL import Image

from gossamer.data.memory_mapped import filled
from gossamer.data.problems import records
from gossamer.errors import DataError

Resize = Literal["squash", "crop", "pad"]
"""How pictures of other proportions than the card's are fitted."""

_OVERSHOOT = 1e-3
"""How far beyond [0, 1] floating-point pixels may be."""

_CHUNK, _BYTES = 4096, 1 << 25
"""Images that are converted at a time, and their bytes at most."""

MADE_GREY = "Colour pictures were made grey (luma of ITU-R 601), because the card's shape begins with 1."
MADE_COLOUR = "Grey pictures were given three equal colours, because the card's shape begins with 3."
CLIPPED = "Pixels slightly below 0 or above 1, as resizing leaves them, became black or white."
WINDOWED = "DICOM pictures were scaled by the display window of each file, as the card says."
SCALED = "Pixels of more than 8 bits were scaled, as pixel_range says. Values beyond its ends became black or white."


def as_images(
    array: np.ndarray, *, where: str, notes: set[str], pixel_range: tuple[float, float] | None = None
) -> np.ndarray:
    """Pixels as uint8 [N, C, H, W], a view where nothing needs converting.

    Accepts [N, H, W], [N, C, H, W] and [N, H, W, C] with one or three channels. Where both fit, the channels come first.
    uint8 is taken as it is. Other whole numbers must lie in 0..255. Floats are rounded; they lie in [0, 1] and are multiplied
    by 255, or in 0..255. The largest value of an image that is not black decides, and a file that mixes the two is refused.
    What lies up to 0.001 outside [0, 1] is clipped. A pixel_range scales whole numbers and floats instead. notes: takes in
    words what was done.

    Raises:
        DataError: another layout or type, an empty array, a pixel that is not finite or out of range; or a full disk.
    """
    if array.dtype.kind not in "uif":
        raise DataError(f"{where}: pixels must be numbers, not {array.dtype}: store them as uint8, 0 to 255")
    array = _channels_first(array, where)
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "f":
        _refuse(array, lambda piece: ~np.isfinite(piece), where, "a pixel that is NaN or infinite: mend or remove it")
    if pixel_range is not None:
        notes.add(SCALED)
        return filled((scaled(piece, pixel_range) for _, piece in _pieces(array)), array.shape)
    scale = _scale_of_floats(array, where) if array.dtype.kind == "f" else 1
    low, high = (-_OVERSHOOT, 1 + _OVERSHOOT) if scale > 1 else (0, 255)
    outside = "a pixel outside 0 to 255: declare the values of black and white as pixel_range in the card"
    _refuse(array, lambda piece: (piece < low) | (piece > high), where, outside)
    if scale > 1 and any(piece.min() < 0 or piece.max() > 1 for _, piece in _pieces(array)):
        notes.add(CLIPPED)
    return filled((np.rint((piece * scale).clip(0, 255)).astype(np.uint8) for _, piece in _pieces(array)), array.shape)


def scaled(pixels: np.ndarray, pixel_range: tuple[float, float]) -> np.ndarray:
    """Finite pixels of any type as uint8. The range's ends become 0 and 255; what lies outside becomes the nearer end."""
    low, high = pixel_range
    return np.rint((pixels.astype(np.float64).clip(low, high) - low) * (255 / (high - low))).astype(np.uint8)


def resize(
    images: np.ndarray, shape: Sequence[int] | None = None, how: Resize = "squash", *, invert: bool = False
) -> np.ndarray:
    """Colour made grey (or grey repeated) as the card's shape says, then stretched or shrunk to its height and width.

    Grey is the luma of ITU-R 601. The filter is Pillow's antialiased bilinear one.

    Args:
        images: uint8 [N, 1 or 3, H, W].
        shape: channels, height and width. None: as they are.
        how: "squash" to the new proportions, "crop" the middle to them first, or "pad" with black bars to them.
        invert: exchange dark and light first: 255 - pixel.

    Returns:
        uint8 [N, *shape]; the argument itself if nothing has to be done.

    Raises:
        DataError: the disk is too full.
    """
    wanted = images.shape[1:] if shape is None else tuple(shape)
    if not invert and wanted == images.shape[1:]:
        return images
    if len(images) == 1:
        return _resized(images, wanted, how, invert)
    pieces = (_resized(piece, wanted, how, invert) for _, piece in _pieces(images))
    return filled(pieces, (len(images), *wanted))


def _resized(images: np.ndarray, shape: tuple[int, ...], how: Resize, invert: bool) -> np.ndarray:
    images = 255 - images if invert else images
    box, (top, left, height, width) = _cut(images.shape[2:], shape[1:], how)
    resized = np.zeros((len(images), *shape), np.uint8)
    for image, target in zip(images, resized, strict=True):
        for channel, plane in zip(_with_channels(image, shape[0]), target, strict=True):
            picture = Image.fromarray(np.ascontiguousarray(channel))
            small = picture.resize((width, height), Image.Resampling.BILINEAR, box=box)
            plane[top : top + height, left : left + width] = np.asarray(small)
    return resized


def _with_channels(image: np.ndarray, channels: int) -> np.ndarray:
    """One image [C, H, W] in grey or colour."""
    if len(image) == channels:
        return image
    if channels == 3:
        return np.repeat(image, 3, axis=0)
    return np.asarray(Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).convert("L"))[None]


def _cut(
    size: tuple[int, ...], wanted: tuple[int, ...], how: Resize
) -> tuple[tuple[float, float, float, float], tuple[int, int, int, int]]:
    """The box that is taken of a picture (left, top, right, bottom), and where it goes (top, left, height, width)."""
    (high, wide), (height, width) = size, wanted
    whole = (0.0, 0.0, float(wide), float(high))
    if how == "crop":
        scale = min(high / height, wide / width)
        across, down = max(0.0, wide - scale * width) / 2, max(0.0, high - scale * height) / 2
        return (across, down, wide - across, high - down), (0, 0, height, width)
    if how == "pad":
        scale = min(height / high, width / wide)
        inner = max(1, round(scale * high)), max(1, round(scale * wide))
        return whole, ((height - inner[0]) // 2, (width - inner[1]) // 2, *inner)
    return whole, (0, 0, height, width)


def _pieces(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The first position of each piece, and the piece: a mapped array is never copied whole."""
    size = max(1, min(_CHUNK, _BYTES // array[0].nbytes))
    return ((start, array[start : start + size]) for start in range(0, len(array), size))


def _channels_first(array: np.ndarray, where: str) -> np.ndarray:
    """A view [N, C, H, W]."""
    if array.size == 0:
        raise DataError(f"{where}: there are no images (the array has shape {list(array.shape)})")
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 4 and array.shape[1] in (1, 3):
        return array
    if array.ndim == 4 and array.shape[3] in (1, 3):
        return array.transpose(0, 3, 1, 2)
    raise DataError(
        f"{where}: images must be [N, height, width], or have one or three channels, and these are {list(array.shape)}: "
        "reshape flat vectors, and drop an alpha channel"
    )


def _scale_of_floats(array: np.ndarray, where: str) -> int:
    """255 for a file in [0, 1], 1 for a file in 0..255; refuses a mixture, so that no record decides for the others."""
    scale = None
    for start, piece in _pieces(array):
        for index, largest in enumerate(piece.max(axis=(1, 2, 3)).tolist(), start):
            own = 1 if largest > 1 + _OVERSHOOT else 255
            if largest > 0 and scale not in (None, own):
                raise DataError(
                    f"{where}: image {index} (counted from 0) and the images before it have different ranges, "
                    "[0, 1] and 0 to 255: bring all to one range, best as uint8"
                )
            scale = own if largest > 0 else scale
    return scale or 255


def _refuse(array: np.ndarray, bad: Callable[[np.ndarray], np.ndarray], where: str, problem: str) -> None:
    """Raise for the images with a bad pixel, if there are any. bad: from [n, C, H, W] to bool of the same shape."""
    found = (start + np.flatnonzero(bad(piece).any(axis=(1, 2, 3))) for start, piece in _pieces(array))
    if images := records((index for indices in found for index in indices.tolist()), "image"):
        raise DataError(f"{where}: {images}: {problem}")
