"""Samples: synthetic images with labels, and the ways to use them elsewhere."""

import base64
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
from PIL import Image

from gossamer.data.records import Labelled, at_once, on_device
from gossamer.data.samples.grid import sample_grid
from gossamer.data.samples.synthetic_records import SyntheticRecords
from gossamer.data.samples.writers import PICTURES, Form
from gossamer.errors import RequestError
from gossamer.lazy import torch

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 1_000
"""Pictures that are made at once; fewer where they are large (`at_once`)."""
MOST_SHOWN = 20
"""Classes that a notebook shows without being asked for more."""


def frame(rows: Any) -> "pd.DataFrame":
    """Return a DataFrame. Raises RequestError: pandas, which is optional, is not installed."""
    try:
        import pandas as pd  # noqa: PLC0415 (an optional library)
    except ImportError:
        raise RequestError("This needs pandas. Install it with: pip install pandas") from None
    return pd.DataFrame(rows)


@dataclass(frozen=True, repr=False)
class Samples(Labelled, SyntheticRecords):
    """Synthetic images with labels: the output of a generator. They belong to no unit.

    `images, labels = samples` unpacks them. `samples[3]` is one image with its label, so samples are also a map-style dataset
    for `torch.utils.data.DataLoader`. A slice, positions or a mask gives Samples.

    Args:
        images: uint8 [n, C, H, W].
        labels: int64 [n], from 0 to classes - 1.
        class_names: names of the labels, label 0 first; empty: unknown.
        probabilities: float32 [n, classes], how likely each class is, where a classifier gave the labels.
    """

    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...] = ()
    probabilities: np.ndarray | None = None
    file: ClassVar[str] = "samples.npz"
    written_as: ClassVar[str] = "samples are written as .npz, .csv, .parquet, or a folder (no ending) of .png"
    forms: ClassVar[Mapping[str, Form]] = PICTURES
    loader: ClassVar[tuple[str, ...]] = ("load.py.txt", "torch", "safetensors")

    @classmethod
    def sizes(cls, card: Any) -> tuple[int, int]:
        """Fewer are made at once where they are large."""
        return at_once(card.shape, CHUNK), int(math.prod(card.shape)) + 8

    @classmethod
    def piece(cls, card: Any, class_names: tuple[str, ...], seed: int, first: int, drawn: Any) -> Self:
        """Pixels in 0 to 255."""
        images, labels, probabilities = drawn
        pixels = images.mul(255).round_().clamp_(0, 255).byte().numpy()
        return cls(pixels, labels.numpy(), class_names, None if probabilities is None else probabilities.numpy())

    @classmethod
    def joined(cls, pieces: Iterable[Self], n: int, card: Any, class_names: tuple[str, ...]) -> Self:
        """Memory holds all samples once, and one piece more."""
        images, labels = np.empty((n, *card.shape), np.uint8), np.empty(n, np.int64)
        done, soft = 0, []
        for piece in pieces:
            images[done : done + len(piece)], labels[done : done + len(piece)] = piece.images, piece.labels
            done += len(piece)
            soft += [] if piece.probabilities is None else [piece.probabilities]
        return cls(images, labels, class_names, np.concatenate(soft) if soft else None)

    @classmethod
    def preview(cls, generator: Any) -> Any:
        """Ten samples of each class, of the first 20."""
        return cls.grid_of(generator, min(generator.classes, MOST_SHOWN))

    @staticmethod
    def grid_of(generator: Any, classes: int, per_class: int = 10) -> Any:
        """So many samples of each of the first classes, with seed 0."""
        labels = np.repeat(np.arange(classes), per_class)
        return generator.sample(len(labels), labels=labels, seed=0)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield images, then labels."""
        yield self.images
        yield self.labels

    @overload
    def __getitem__(self, which: int) -> tuple[np.ndarray, int]: ...
    @overload
    def __getitem__(self, which: "slice | list[int] | np.ndarray") -> "Samples": ...
    def __getitem__(self, which: Any) -> "tuple[np.ndarray, int] | Samples":
        """Return the image and label at a position, or the Samples at a slice, positions or a mask."""
        if isinstance(which, int | np.integer):
            return self.images[which], int(self.labels[which])
        probabilities = None if self.probabilities is None else self.probabilities[which]
        return Samples(self.images[which], self.labels[which], self.class_names, probabilities)

    def to_torch(
        self, device: "torch.device | str" = "cpu", *, soft_labels: bool = False
    ) -> "tuple[torch.Tensor, torch.Tensor]":
        """Return images as float32 [n, C, H, W] in [0, 1], and labels as int64 [n].

        soft_labels: return `probabilities`, float32 [n, classes], in place of labels. `torch.nn.functional.cross_entropy`
        takes either.

        Raises:
            RequestError: the samples have no soft labels.
        """
        images, labels = self.tensors(device)
        if not soft_labels:
            return images, labels
        if self.probabilities is None:
            raise RequestError("These samples have no soft labels. Leave soft_labels out.")
        return images, on_device(self.probabilities, device)

    def to_pandas(self) -> "pd.DataFrame":
        """Return a DataFrame: label, class if classes have names, then pixel0, pixel1 ... as uint8, row by row of an image.

        Raises:
            RequestError: pandas is not installed.
        """
        flat = self.images.reshape(len(self), -1)
        named = {"class": np.array(self.class_names, dtype=object)[self.labels]} if self.class_names else {}
        return frame({"label": self.labels, **named, **{f"pixel{at}": flat[:, at] for at in range(flat.shape[1])}})

    def plot(self, columns: int = 10) -> Image.Image:
        """Return a picture with one row for each class and its first samples in it. Notebooks show it.

        Raises:
            RequestError: there are no samples.
        """
        if not len(self):
            raise RequestError("plot() needs at least one sample.")
        return Image.open(io.BytesIO(self._grid(columns)))

    def _grid(self, columns: int) -> bytes:
        return sample_grid(self.images, self.labels, columns=columns, names=self.class_names)

    def _repr_html_(self) -> str:
        """Show the picture of `plot` with a caption, in a notebook."""
        if not len(self):
            return f"<p>{self.in_words}</p>"
        shown = self[np.isin(self.labels, np.unique(self.labels)[:MOST_SHOWN])]
        data = base64.b64encode(shown._grid(10)).decode("ascii")
        picture = f'<img style="max-width:min(100%,32em)" alt="Synthetic images" src="data:image/png;base64,{data}">'
        return f'<figure style="margin:0.5em 0">{picture}<p>{self.in_words}</p></figure>'
