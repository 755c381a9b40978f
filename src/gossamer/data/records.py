"""Records: images with labels and, where the unit is a person, the person of each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gossamer.data.labels import listed
from gossamer.data.memory_mapped import chosen_rows
from gossamer.data.units import Grouped
from gossamer.lazy import torch

_UNEVEN = 5
"""Classes differ much if the largest has so many times the records of the smallest."""
_BLOCK = 1 << 26
"""Bytes of pictures, in single precision, that are processed at once."""


def at_once(shape: Sequence[int], most: int) -> int:
    """Return how many pictures of a shape (C, H, W) are processed at once: at most `most`, and at most 64 MiB of float32.

    It follows from public facts. The number of records has no part in it.
    """
    return max(1, min(most, _BLOCK // (4 * math.prod(shape))))


class Labelled:
    """What records and samples have in common: images with labels."""

    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        """Show number and shape: a log or a notebook that shows records must not show what is in them."""
        return f"{type(self).__name__}({self.in_words})"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    @property
    def in_words(self) -> str:
        """Number and shape, without a pixel or a label."""
        return f"{len(self):,} images of {'x'.join(map(str, self.shape))}"

    def tensors(self, device: "torch.device | str" = "cpu") -> "tuple[torch.Tensor, torch.Tensor]":
        """Images as float32 [N, C, H, W] in [0, 1], and labels as int64 [N]."""
        return on_device(self.images, device).float().div_(255), on_device(self.labels, device)


@dataclass(frozen=True, repr=False)
class Records(Labelled, Grouped):
    """A set of records, kept as the readers give them; each method scales to its own range.

    Args:
        images: uint8 [N, C, H, W], in memory or memory-mapped.
        labels: int64 [N], from 0 to classes - 1.
        units: int64 [N], from 0; equal numbers belong to one unit. None: every record is its own unit.
        names: text [population], the id of each unit, "" for a record without one. None: no unit has one.
        class_names: names of the labels, label 0 first; empty: unknown.
        notes: what the readers converted, in words: for the terminal, and for no file.
    """

    images: np.ndarray
    labels: np.ndarray
    units: np.ndarray | None = None
    names: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __getitem__(self, which: slice | np.ndarray) -> "Records":
        """Some of the records, by position. A slice makes no copy. Raises DataError: the disk is too full for a copy."""
        images = self.images[which] if isinstance(which, slice) else chosen_rows(self.images, which)
        units = None if self.units is None else self.units[which]
        return Records(images, self.labels[which], units, self.names, self.class_names, self.notes)


def sent(tensor: "torch.Tensor", device: "torch.device | str") -> "torch.Tensor":
    """A tensor of the processor on a device. To a GPU it goes by pinned memory, while the processor goes on."""
    if torch.device(device).type == tensor.device.type:
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


def on_device(array: np.ndarray, device: "torch.device | str") -> "torch.Tensor":
    """An array on a device; a mapped file is copied."""
    return sent(torch.from_numpy(np.require(array, requirements=("C", "W"))), device)


def absent(records: Labelled, where: str) -> list[str]:
    """A note on classes that have a name and no record; empty where there are none."""
    there = set(records.labels.tolist())
    gone = [name for number, name in enumerate(records.class_names) if number not in there]
    note = f"{where} holds no record of {len(gone)} of its classes: {listed(gone)}. Each keeps its number."
    return [note] if gone else []


def uneven(records: Labelled, where: str, *, shares: bool = False) -> list[str]:
    """A note on classes of very different size, where samples have as many of each; empty where there are none.

    shares: tell them, which are private.
    """
    counts = np.bincount(records.labels)
    low, high = min(counts[counts > 0], default=0), max(counts, default=0)
    if high < _UNEVEN * low or not low:
        return []
    told = f" The smallest has {low / len(records):.2%} of the records, and the largest {high / len(records):.2%}."
    return [
        f"A class of {where} has at least {_UNEVEN} times as many records as another.{told if shares else ''} Samples have as "
        "many of each, because label_prior is uniform on the card. If shares are known from elsewhere, declare them."
    ]
