"""Computer-drawn pictures of any size for benchmarks: "dead leaves", shapes that cover each other.

The class of a picture says which shape its leaves have (disc, square, triangle, ring, bar), and whether they are striped.
Sizes, places and colours are random. No photograph enters, and equal seeds give equal pictures.

    python benchmarks/leaves.py --side 128 --out leaves.png       # two pictures of each class
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from gossamer.data.records import Records

SHAPES: list[Callable[[np.ndarray, np.ndarray], np.ndarray]] = [
    lambda x, y: x**2 + y**2 < 1,
    lambda x, y: np.maximum(abs(x), abs(y)) < 0.89,
    lambda x, y: (y > -0.6) & (y + 1.73 * abs(x) < 1.1),
    lambda x, y: abs(np.hypot(x, y) - 0.8) < 0.25,
    lambda x, y: (abs(x) < 0.3) & (abs(y) < 1.4),
]
"""Whether a point is in the leaf. The radius of a leaf is about 1."""
CLASSES = 2 * len(SHAPES)
LEAVES = 40
_REACH, _STRIPES = 1.5, 5.0


def leaves(n: int, side: int, *, seed: int, grey: bool = False) -> Records:
    """So many pictures, uint8 [n, 3, side, side] or [n, 1, side, side], in 10 classes of about as many each.

    The picture of a seed is the same scene at each `side`.
    """
    labels = np.random.default_rng(seed).permutation(np.arange(n) % CLASSES)
    images = np.empty((n, 1 if grey else 3, side, side), np.uint8)
    for i, label in enumerate(labels):
        picture = drawn(int(label), side, np.random.default_rng([seed, i]))
        images[i] = picture.mean(2, keepdims=True).transpose(2, 0, 1) if grey else picture.transpose(2, 0, 1)
    return Records(images, labels.astype(np.int64))


def drawn(label: int, side: int, draw: np.random.Generator) -> np.ndarray:
    """One picture, uint8 [side, side, 3]."""
    shape, striped = SHAPES[label % len(SHAPES)], label >= len(SHAPES)
    picture = np.empty((side, side, 3))
    picture[:] = draw.uniform(0, 255, 3)
    for _ in range(LEAVES):
        radius, (u, v), angle = 0.05 / draw.uniform(0.25, 1), draw.uniform(0, 1, 2), draw.uniform(0, 2 * np.pi)
        colours = draw.uniform(0, 255, (2, 3))
        low, high = (
            [min(max(int((centre + way * _REACH * radius) * side), 0), side) for centre in (u, v)] for way in (-1, 1)
        )
        down, across = (
            ((np.arange(a, b) + 0.5) / side - centre) / radius for a, b, centre in zip(low, high, (u, v), strict=True)
        )
        y, x = (
            down[:, None] * np.cos(angle) - across * np.sin(angle),
            down[:, None] * np.sin(angle) + across * np.cos(angle),
        )
        stripe = (np.sin(_STRIPES * x) > 0) & striped
        part = picture[low[0] : high[0], low[1] : high[1]]
        part[:] = np.where(shape(x, y)[..., None], np.where(stripe[..., None], colours[1], colours[0]), part)
    return (picture + draw.normal(0, 8, picture.shape)).clip(0, 255).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = [
        np.concatenate([drawn(label, given.side, np.random.default_rng([row, label])) for label in range(CLASSES)], 1)
        for row in range(2)
    ]
    Image.fromarray(np.concatenate(rows)).save(given.out)


if __name__ == "__main__":
    main()
