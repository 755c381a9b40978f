"""Records: images with labels and, where the unit is a person, whose they are. Samples: synthetic images with labels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gossamer.lazy import Lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = Lazy("torch")


class Labelled(Protocol):
    """What records and samples have in common."""

    @property
    def images(self) -> np.ndarray:
        """uint8 [n, C, H, W]."""
        ...

    @property
    def labels(self) -> np.ndarray:
        """int64 [n]."""
        ...

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the labels are called, label 0 first; empty: nobody said."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Samples:
    """Synthetic images with labels: what a generator draws. They are nobody's, so they have no units.

    Args:
        images: uint8 [n, C, H, W].
        labels: int64 [n], from 0 to classes - 1.
        class_names: what the labels are called, label 0 first; empty: nobody said.
    """

    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, channels, height, width = self.images.shape
        return channels, height, width


@dataclass(frozen=True)
class Records:
    """A set of records, kept as the readers give them; each method scales to its own range.

    Args:
        images: uint8 [N, C, H, W], in memory or memory-mapped.
        labels: int64 [N], from 0 to classes - 1.
        units: int64 [N], from 0; equal numbers belong to one unit. None: every record is its own unit.
        names: text [population], the id of each unit, "" for a record without one that is a unit of its own. None: no
            unit has one.
        class_names: what the labels are called, label 0 first, where the source says it; empty: it does not.
        notes: what the readers converted, in words: for whoever watches, and for no file.
    """

    images: np.ndarray
    labels: np.ndarray
    units: np.ndarray | None = None
    names: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    @property
    def population(self) -> int:
        """Number of units: what a mechanism samples from."""
        if self.units is None:
            return len(self)
        return int(self.units.max()) + 1 if len(self.units) else 0

    def take(self, chosen: np.ndarray) -> "Records":
        """The records of the chosen units. chosen: int64, unit numbers in rising order; units are renumbered from 0."""
        if self.units is None:
            return Records(self.images[chosen], self.labels[chosen], class_names=self.class_names, notes=self.notes)
        rank = np.full(self.population, -1, dtype=np.int64)
        rank[chosen] = np.arange(len(chosen))
        drawn = np.flatnonzero(rank[self.units] >= 0)
        names = None if self.names is None else self.names[chosen]
        units = rank[self.units[drawn]]
        return Records(self.images[drawn], self.labels[drawn], units, names, self.class_names, self.notes)

    def __getitem__(self, which: slice | np.ndarray) -> "Records":
        """Some of the records, by position."""
        units = None if self.units is None else self.units[which]
        return Records(self.images[which], self.labels[which], units, self.names, self.class_names, self.notes)

    def tensors(self, device: "torch.device | str" = "cpu") -> "tuple[Tensor, Tensor]":
        """Images as float32 [N, C, H, W] in [0, 1], and labels as int64 [N]."""
        images = torch.from_numpy(np.require(self.images, requirements=("C", "W"))).to(
            device
        )  # a mapped file is copied
        labels = torch.from_numpy(np.require(self.labels, requirements=("C", "W"))).to(device)
        return images.float().div_(255), labels
