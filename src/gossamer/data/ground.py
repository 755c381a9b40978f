"""Ink on white, or white on black: what pictures stand on, by the pixels of their edges.

Telling it looks at records: what comes of it is for the curator at the terminal, and for nothing that is released.
"""

from typing import Literal

import numpy as np

from gossamer.data.records import Labelled

Ground = Literal["light", "dark", "neither"]

_LIGHT, _DARK = 160, 96
"""The mean of the outermost pixels above which a picture stands on a light ground, and below which on a dark one."""
_MOST = 0.9
"""The share of the pictures that must agree."""
_LOOKED_AT = 2_000


def ground(records: Labelled) -> Ground:
    """What nine in ten of the pictures stand on; of many, 2,000 from the first to the last are looked at. None: neither."""
    if len(records) == 0:
        return "neither"
    chosen = np.linspace(0, len(records) - 1, min(len(records), _LOOKED_AT)).astype(np.int64)
    edges = np.array([_edge(image) for image in records.images[chosen]])
    if (edges > _LIGHT).mean() >= _MOST:
        return "light"
    return "dark" if (edges < _DARK).mean() >= _MOST else "neither"


def contrast(some: str, pictures: Labelled, others: str, more: Labelled) -> str:
    """What to say of two sets of pictures that stand on opposite grounds; empty where they do not.

    Args:
        some: what the first set is called.
        pictures: the first set.
        others: what the second set is called.
        more: the second set.
    """
    one, other = ground(pictures), ground(more)
    if "neither" in (one, other) or one == other:
        return ""
    ink = {"light": "ink on white", "dark": "white on black"}
    return (
        f"{some}: nearly all look like {ink[one]}, and those of {others} like {ink[other]}. To a model they have nothing in "
        "common. The card's line `invert` exchanges dark and light as data are read (digits and glyphs stay white on black)."
    )


def _edge(image: np.ndarray) -> float:
    """The mean of the outermost pixels. image: uint8 [C, H, W]"""
    _, height, width = image.shape
    inside = image[:, 1:-1, 1:-1] if min(height, width) > 2 else image[:, :0, :0]
    return float((image.sum(dtype=np.int64) - inside.sum(dtype=np.int64)) / (image.size - inside.size))
