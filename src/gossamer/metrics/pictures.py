"""What all evaluations do with pictures and labels: check them, hand them to a net, keep torch's randomness to themselves."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gossamer.data.records import at_once
from gossamer.errors import DataError

Images: TypeAlias = NDArray[np.uint8]
Labels: TypeAlias = NDArray[np.integer[Any]]
_AT_ONCE = 500


def pictures(images: Images, which: slice | NDArray[Any]) -> Tensor:
    """Some of the pictures as a net reads them: float32 [n, C, H, W] in [0, 1]."""
    # A copy, because torch refuses read-only memory maps.
    return torch.from_numpy(np.array(images[which])).float().div_(255)


def batches(images: Images) -> Iterator[Tensor]:
    """All pictures as a net reads them, in pieces that fit into memory. Gradients are off meanwhile."""
    step = at_once(images.shape[1:], _AT_ONCE)
    with torch.inference_mode():
        for start in range(0, len(images), step):
            yield pictures(images, slice(start, start + step))


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


def check_pair(
    train_images: Images, train_labels: Labels, test_images: Images, test_labels: Labels, classes: int, *, smallest: int
) -> None:
    """Records to train on and records to test on fit together; errors as `check_records`."""
    check_records("train", train_images, train_labels, classes, smallest=smallest)
    check_records("test", test_images, test_labels, classes, smallest=smallest)
    if train_images.shape[1:] != test_images.shape[1:]:
        raise DataError(
            f"test_images: pictures of {size_of(test_images.shape)}, but train_images holds {size_of(train_images.shape)}; "
            "resize one of them."
        )


def check_records(name: str, images: Images, labels: Labels, classes: int, *, smallest: int) -> None:
    """Refuse what is no set of labelled pictures, or pictures below a height or width.

    Raises:
        DataError: names the argument (`train_images` for the name "train") and the index.
    """
    check_images(f"{name}_images", images)
    if min(images.shape[2:]) < smallest:
        raise DataError(
            f"{name}_images: pictures of {size_of(images.shape)} are too small for the net; "
            f"it needs {smallest}x{smallest} or more."
        )
    check_labels(f"{name}_labels", labels, classes, len(images))


def size_of(shape: tuple[int, ...]) -> str:
    """The size of one picture, in words. shape: [N, C, H, W] or [C, H, W]."""
    channels, height, width = shape[-3:]
    return f"{height}x{width} with {channels} {'channel' if channels == 1 else 'channels'}"
