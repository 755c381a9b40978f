"""The pinwheel: points of the plane in four bent arms (Johnson et al. 2016), as records of two pixels.

Records hold whole numbers from 0 to 255. A coordinate v is stored as the nearest of 256 steps over [-EXTENT, EXTENT], which
are 0.02 apart; an arm is 0.1 across (one standard deviation). What lies outside is moved to the edge.
"""

import math
from typing import Literal

import numpy as np

from gossamer.data.records import Records
from gossamer.errors import DataError

EXTENT = 2.5
ARMS = 4
_PER_ARM, _ALONG, _ACROSS, _TWIST = 100, 0.3, 0.1, 0.25


def pinwheel(split: Literal["train", "test"], *, per_arm: int = _PER_ARM) -> Records:
    """The same 400 training or 400 test points every time: uint8 [400, 1, 1, 2], the label is the arm.

    Takahashi et al. 2020, section 5.2, with the constants of Mathieu et al. 2019: a point (1 + 0.3 n1, 0.1 n2) of normals
    n1 and n2, turned by a quarter of a turn per arm and by 0.25 exp(its first coordinate).

    Args:
        split: "train" or "test", two draws.
        per_arm: points of each arm.
    """
    draw = np.random.default_rng([0x9127, split == "test"])
    labels = draw.permutation(np.repeat(np.arange(ARMS), per_arm))
    normals = draw.standard_normal((len(labels), 2))
    arm = 1 + _ALONG * normals[:, 0], _ACROSS * normals[:, 1]
    angle = 2 * math.pi * labels / ARMS + _TWIST * np.exp(arm[0])
    cos, sin = np.cos(angle), np.sin(angle)
    points = np.stack([arm[0] * cos - arm[1] * sin, arm[0] * sin + arm[1] * cos], axis=1)
    return Records(as_images(points), labels.astype(np.int64))


def as_images(points: np.ndarray) -> np.ndarray:
    """Points [n, 2] as uint8 [n, 1, 1, 2].

    Raises:
        DataError: if they are not finite points of the plane; names the index.
    """
    if points.ndim != 2 or points.shape[1] != 2:
        raise DataError(f"points: an array of shape {points.shape}; it must be [n, 2].")
    wrong = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(wrong):
        raise DataError(f"points: row {wrong[0]} holds a number that is not finite ({len(wrong)} such rows).")
    share = (np.clip(points, -EXTENT, EXTENT) + EXTENT) / (2 * EXTENT)
    images: np.ndarray = np.rint(255 * share).astype(np.uint8).reshape(-1, 1, 1, 2)
    return images


def as_points(images: np.ndarray) -> np.ndarray:
    """The inverse of `as_images`, to half a step: uint8 [n, 1, 1, 2] to float64 [n, 2]."""
    points: np.ndarray = (images.reshape(-1, 2) / 255 * 2 - 1) * EXTENT
    return points
