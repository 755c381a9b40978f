"""Samples: synthetic images with labels, and the ways to use them elsewhere."""

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from PIL import Image

from gossamer.data.records import Labelled
from gossamer.data.samples.grid import sample_grid
from gossamer.data.samples.writers import write_samples
from gossamer.errors import RequestError
from gossamer.lazy import Lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = Lazy("torch")


MOST_SHOWN = 20
"""Classes that a notebook shows without being asked for more."""


def frame(rows: Any) -> Any:
    """Return a DataFrame. Raises RequestError: pandas, which is optional, is not installed."""
    try:
        import pandas as pd  # noqa: PLC0415 (an optional library)
    except ImportError:
        raise RequestError("This needs pandas. Install it with: pip install pandas") from None
    return pd.DataFrame(rows)


@dataclass(frozen=True, repr=False)
class Samples(Labelled):
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

    def to_torch(self, device: "torch.device | str" = "cpu", *, soft_labels: bool = False) -> "tuple[Tensor, Tensor]":
        """Return images as float32 [n, C, H, W] in [0, 1], and labels as int64 [n].

        soft_labels: return `probabilities`, float32 [n, classes], in place of labels. `torch.nn.functional.cross_entropy`
        takes either.

        Raises:
            RequestError: the samples have no soft labels.
        """
        if soft_labels and self.probabilities is None:
            raise RequestError("These samples have no soft labels. Leave soft_labels out.")
        labels = self.probabilities if soft_labels else self.labels
        images = torch.from_numpy(np.ascontiguousarray(self.images)).to(device)
        return images.float().div_(255), torch.from_numpy(np.ascontiguousarray(labels)).to(device)

    def to_pandas(self) -> Any:
        """Return a DataFrame: label, class if classes have names, then pixel0, pixel1 ... as uint8, row by row of an image.

        Raises:
            RequestError: pandas is not installed.
        """
        flat = self.images.reshape(len(self), -1)
        named = {"class": np.array(self.class_names, dtype=object)[self.labels]} if self.class_names else {}
        return frame({"label": self.labels, **named, **{f"pixel{at}": flat[:, at] for at in range(flat.shape[1])}})

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the samples to a .npz, .csv or .parquet file, or to a folder (no ending) with a .png for each.

        Raises:
            RequestError: another ending, or no samples.
            RunFolderError: the path is taken and `force` is not set, cannot be written, or its disk is too full.
        """
        write_samples(path, [self], count=len(self), force=force)

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

    def __repr__(self) -> str:
        return f"Samples({self.in_words})"

    def _repr_html_(self) -> str:
        """Show the picture of `plot` with a caption, in a notebook."""
        if not len(self):
            return f"<p>{self.in_words}</p>"
        shown = self[np.isin(self.labels, np.unique(self.labels)[:MOST_SHOWN])]
        data = base64.b64encode(shown._grid(10)).decode("ascii")
        picture = f'<img style="max-width:min(100%,32em)" alt="Synthetic images" src="data:image/png;base64,{data}">'
        return f'<figure style="margin:0.5em 0">{picture}<p>{self.in_words}</p></figure>'
