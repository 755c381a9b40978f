"""scikit-learn's digits: 1,797 handwritten digits of 8x8 pixels, embedded, so that the demo needs no download."""

from typing import Any

import numpy as np

from gossamer.data.pixels.to_uint8 import resize
from gossamer.data.records import Records
from gossamer.lazy import Lazy

datasets: Any = Lazy("sklearn.datasets")

_TRAIN = 1437
_BOX, _MARGIN = 20, 4


def digits(split: str) -> Records:
    """1,437 training or 360 test records of 1x28x28.

    They are framed as MNIST's: in a box of 20x20 on a black 28x28, with the centre of mass in the middle. The split is a
    fixed public permutation.
    """
    source = datasets.load_digits()
    order = np.random.RandomState(0).permutation(len(source.target))
    positions = order[:_TRAIN] if split == "train" else order[_TRAIN:]
    small = np.rint(source.images[positions] * (255 / 16)).astype(np.uint8)
    boxes = resize(small[:, None], (1, _BOX, _BOX))
    images = np.stack([_centred(box[0])[None] for box in boxes])
    return Records(images, source.target[positions].astype(np.int64))


def _centred(box: np.ndarray) -> np.ndarray:
    """A box on black, moved within its margin so that the centre of mass comes nearest to the middle. uint8 [28, 28]"""
    from_middle = np.arange(_BOX) - (_BOX - 1) / 2
    mass = box.sum()
    down = np.clip(np.rint(box.sum(axis=1) @ from_middle / mass), -_MARGIN, _MARGIN).astype(int)
    right = np.clip(np.rint(box.sum(axis=0) @ from_middle / mass), -_MARGIN, _MARGIN).astype(int)
    return np.roll(np.pad(box, _MARGIN), (-down, -right), axis=(0, 1))
