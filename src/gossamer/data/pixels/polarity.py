"""Whether pictures are ink on white or white on black, by the pixels of their edges. And how much of the range they use.

The answers come from the records. They are for the data owner's terminal, and for nothing that is released.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np

from gossamer.data.records import Labelled

_LIGHT, _DARK = 160, 96
"""The mean of the outermost pixels above which the ground of a picture is light, and below which it is dark."""
_MOST = 0.9
"""The share of the pictures that must agree."""
_LOOKED_AT = 2_000
_SHADES = 16
"""A picture is nearly constant if the pixels of each channel are no further apart, as those of 12 bits read as 16."""

NEARLY_CONSTANT = (
    f"Nearly every picture is one shade: its darkest and brightest pixels are {_SHADES} of 255 apart or less. Look at some of "
    "them before a run uses privacy budget. If the value W is white, multiply the pixels of each set: "
    "`images = np.rint(images * (255 / W)).astype(np.uint8)`."
)
_CORNER, _NEARLY_ALL = 64, 0.99
"""The width of a corner of the 256 values, a quarter of them, and the share of a picture's pixels that make it crowded."""
CROWDED = (
    "In nearly every picture, nearly all pixels are in the darkest or in the brightest quarter of pixel_range. Look at some of "
    "them, and declare a range that the pixels fill, before a run uses privacy budget."
)


def ground(records: Labelled) -> Literal["light", "dark", "neither"]:
    """The ground of nine in ten pictures; of many, 2,000 are looked at."""
    edges = [_edge(image) for image in _some(records)]
    if _mostly(edge > _LIGHT for edge in edges):
        return "light"
    return "dark" if _mostly(edge < _DARK for edge in edges) else "neither"


def nearly_constant(records: Labelled) -> bool:
    """Whether nine in ten pictures show one shade; of many, 2,000 are looked at. No pictures: False."""
    return _mostly(np.ptp(image, axis=(1, 2)).max() <= _SHADES for image in _some(records))


def crowded(records: Labelled) -> bool:
    """Whether nine in ten pictures fill a quarter of the range, at one end of it; of many, 2,000 are looked at."""
    corners = ((image < _CORNER, image >= 256 - _CORNER) for image in _some(records))
    return _mostly(max(dark.mean(), bright.mean()) >= _NEARLY_ALL for dark, bright in corners)


def contrast(first: str, first_pictures: Labelled, second: str, second_pictures: Labelled) -> str:
    """What to say of two sets of pictures, each after its name, whose grounds are opposite. Empty where they are not."""
    one, other = ground(first_pictures), ground(second_pictures)
    if "neither" in (one, other) or one == other:
        return ""
    ink = {"light": "ink on white", "dark": "white on black"}
    return (
        f"{first}: nearly all look like {ink[one]}, and those of {second} like {ink[other]}. A model finds nothing in common. "
        "`invert` in the card exchanges dark and light as data are read (digits and glyphs stay white on black)."
    )


def _mostly(found: Iterable[bool]) -> bool:
    """Whether nine in ten pictures agree. No pictures: False."""
    agree = [*found]
    return bool(agree) and bool(np.mean(agree) >= _MOST)


def _some(records: Labelled) -> Iterator[np.ndarray]:
    """Pictures from the first to the last, one by one. uint8 [C, H, W]"""
    positions = np.linspace(0, len(records) - 1, min(len(records), _LOOKED_AT)).astype(np.int64)
    return (records.images[position] for position in positions)


def _edge(image: np.ndarray) -> float:
    """The mean of the outermost pixels. image: uint8 [C, H, W]"""
    inside = image[:, 1:-1, 1:-1]
    return float((image.sum(dtype=np.int64) - inside.sum(dtype=np.int64)) / (image.size - inside.size))
