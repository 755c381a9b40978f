"""What all metrics do with arrays: check pictures, labels and vectors, and hand pictures to a net."""

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
Vectors: TypeAlias = NDArray[np.floating[Any]]
_ROUNDING = 1e-4
"""How far from 1 the probabilities of a sample may sum: softmax in half or single precision stays below."""
_AT_ONCE = 500
"""Pictures that a net sees at once."""


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


def check_vectors(name: str, vectors: Vectors, *, fewest: int) -> None:
    """Refuse what is no set of vectors [n, d], or too small a one.

    Raises:
        DataError: naming the argument, and the index of what is not finite.
    """
    if vectors.ndim != 2:
        raise DataError(f"{name}: an array of shape {vectors.shape}; it must be [n, d].")
    if len(vectors) < fewest:
        raise DataError(f"{name}: {len(vectors)} are too few; give at least {fewest}.")
    check_finite(name, vectors)


def check_finite(name: str, vectors: Vectors) -> None:
    """Refuse rows with a number that is not finite. vectors: [n, d]. Raises DataError, naming the index."""
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        raise DataError(f"{name}: row {wrong[0]} holds a number that is not finite ({len(wrong)} such rows).")


def checked_probabilities(probabilities: Vectors) -> NDArray[np.float64]:
    """The probabilities that a classifier gives to each class, as float64 [n, classes].

    Raises:
        DataError: if a row is no distribution; names the index.
    """
    rows = probabilities.astype(np.float64)
    good = np.isfinite(rows).all(axis=1) & (rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1) < _ROUNDING)
    wrong = np.flatnonzero(~good)
    if len(wrong):
        raise DataError(
            f"probabilities: row {wrong[0]} is not a distribution ({len(wrong)} such); give the softmax, not logits."
        )
    return rows
