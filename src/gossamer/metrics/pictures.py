"""What all evaluations do with pictures and labels: check them, hand them to a net, keep torch's randomness to themselves."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gossamer.errors import DataError

Images: TypeAlias = NDArray[np.uint8]
Labels: TypeAlias = NDArray[np.integer[Any]]


def pictures(images: Images, which: slice | NDArray[Any]) -> Tensor:
    """Some of the pictures as a net reads them: float32 [n, C, H, W] in [0, 1]."""
    # A copy, because torch refuses read-only memory maps.
    return torch.from_numpy(np.array(images[which])).float().div_(255)


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Seed torch for initial weights and dropout, and put its random state back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def check_images(name: str, images: Images) -> None:
    """At least one picture, uint8 [N, C, H, W]; else a DataError names the argument."""
    if images.dtype != np.uint8 or images.ndim != 4:
        raise DataError(
            f"{name}: an array of {images.dtype} with {images.ndim} axes; pictures must be uint8 [N, C, H, W]."
        )
    if len(images) == 0:
        raise DataError(f"{name}: there are no pictures; give some.")


def check_labels(name: str, labels: Labels, classes: int, count: int) -> None:
    """Labels of `count` pictures are integers [N] from 0 to classes - 1; else a DataError names the argument and the index."""
    if len(labels) != count:
        raise DataError(f"{name}: {len(labels)} labels for {count} pictures; give one label per picture.")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{name}: an array of {labels.dtype} with {labels.ndim} axes; labels must be integers [N].")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise DataError(
            f"{name}: the label at index {wrong[0]} is outside 0 to {classes - 1} ({len(wrong)} such labels); "
            "correct the labels or the number of classes."
        )


def size_of(shape: tuple[int, ...]) -> str:
    """The size of one picture, in words. shape: [N, C, H, W] or [C, H, W]."""
    channels, height, width = shape[-3:]
    return f"{height}x{width} with {channels} {'channel' if channels == 1 else 'channels'}"
