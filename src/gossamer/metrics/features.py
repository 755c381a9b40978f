"""Features: what the distances between sets of pictures are computed on.

Two kinds. `ClassifierFeatures` come from a classifier trained on the real records themselves: they need no download,
and they see what separates the classes. `InceptionFeatures` come from the network of the published FID, whose weights
the caller brings. Distances on the two differ in scale and are never comparable, so each kind says what the Frechet
distance on it is called.
"""

import hashlib
import importlib
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor
from torch.nn import functional as F

from gossamer.errors import DataError, RequestError
from gossamer.files import write_atomically
from gossamer.metrics import arrays
from gossamer.metrics.arrays import Images, Labels
from gossamer.nets.features import FeatureCNN

Progress: TypeAlias = Callable[[int, int, float], None]
"""Called after each epoch with the epoch from 1, the number of epochs, and the share of its pictures it got right."""

_TRAIN_BATCH = 128
_LEARNING_RATE = 2e-3
_SETTLE_ON = 100 * _TRAIN_BATCH
"""Pictures that give the statistics of the finished batch normalisation."""
_INCEPTION_BATCH = 50
_INCEPTION_WIDTH = 2048


class ClassifierFeatures:
    """The last hidden layer of the classifier of Zhang et al. 2018, trained on real records. Built by `train` or `load`.

    The records trained it without noise: it is internal, like the figures computed with it. And it knows them: to it, new
    records of the same source differ from those that trained it. Compare samples with records that did not.

    Args:
        net: the trained network.
        trained_on: how many pictures trained it.
        of: what they are.
    """

    distance_name = "classifier-FID"

    def __init__(self, net: FeatureCNN, *, trained_on: int, of: str = "real records") -> None:
        self.net = net.eval()
        self.trained_on, self.of = trained_on, of

    @property
    def name(self) -> str:
        """What the features are, in words, for `computed_on`."""
        return f"{self.width:,} features of the classifier of Zhang et al. trained on {self.trained_on:,} {self.of}"

    @property
    def width(self) -> int:
        """Numbers per picture."""
        return self.net.width

    @classmethod
    def train(
        cls,
        images: Images,
        labels: Labels,
        *,
        classes: int,
        of: str = "real records",
        epochs: int = 5,
        width: int = 1024,
        seed: int,
        progress: Progress | None = None,
    ) -> "ClassifierFeatures":
        """Train on real records: Adam 2e-3 falling to 0 along a cosine, batch 128.

        Five epochs of 60,000 records reach 99.26 % on the test records of MNIST (99.06 % in the paper) and 91.74 % on those
        of Fashion-MNIST (seed 0). Global random state of torch is left as it was.

        Args:
            images: uint8 [n, C, H, W].
            labels: integers [n], from 0 to classes - 1, of at least two classes.
            classes: number of classes.
            of: what the pictures are, in words.
            epochs: passes over the pictures.
            width: number of features.
            seed: fixes order, initial weights and dropout.
            progress: called after each epoch.

        Raises:
            DataError: if the arrays do not fit together, or hold one class only; names the argument and the index.
        """
        arrays.check_images("images", images)
        arrays.check_labels("labels", labels, classes, len(images))
        if (labels == labels[0]).all():
            raise DataError("labels: all pictures have one class; a classifier needs at least two to tell apart.")
        coins = np.random.default_rng(seed)
        per_epoch = math.ceil(len(images) / _TRAIN_BATCH)
        with arrays.own_randomness(seed):
            net = FeatureCNN(images.shape[1:], classes, width)
            optimizer = torch.optim.Adam(net.parameters(), _LEARNING_RATE, fused=True)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * per_epoch)
            for epoch in range(1, epochs + 1):
                right = 0
                # Parts of nearly equal size: batch normalisation cannot train on a last batch of one.
                for part in np.array_split(coins.permutation(len(images)), per_epoch):
                    batch = np.sort(part)  # in rising order, so that a memory-mapped file is read forwards
                    targets = torch.from_numpy(labels[batch].astype(np.int64))
                    logits = net(arrays.pictures(images, batch))
                    optimizer.zero_grad()
                    torch.autograd.backward(F.cross_entropy(logits, targets))
                    optimizer.step()
                    schedule.step()
                    right += int((logits.argmax(1) == targets).sum())
                if progress is not None:
                    progress(epoch, epochs, right / len(images))
            _settle(net, images, coins.permutation(len(images))[:_SETTLE_ON])
        return cls(net, trained_on=len(images), of=of)

    def __call__(self, images: Images, /) -> NDArray[np.float32]:
        """images: uint8 [n, C, H, W]. Returns float32 [n, width].

        Raises:
            DataError: if the pictures are not of the size that the classifier was trained on.
        """
        return torch.cat([self.net.features(seen) for seen in self._batches(images)]).numpy()

    def probabilities(self, images: Images) -> NDArray[np.float64]:
        """The probability of each class for each picture: float64 [n, classes]. Errors as for the features."""
        return torch.cat([self.net(seen).double().softmax(1) for seen in self._batches(images)]).numpy()

    def save(self, path: Path) -> None:
        """Write a safetensors file, readable by its owner only: the weights were trained on records without noise."""
        tensors = {name: value.detach().contiguous() for name, value in self.net.state_dict().items()}
        net = self.net
        facts = json.dumps([net.shape, net.classes, net.width, self.trained_on, self.of])
        write_atomically(path, to_bytes(tensors, metadata={"facts": facts}), private=True)

    @classmethod
    def load(cls, path: Path) -> "ClassifierFeatures":
        """Read what `save` wrote. Of another file, errors have no common base."""
        with safe_open(path, framework="pt") as file:
            shape, classes, width, trained_on, of = json.loads(file.metadata()["facts"])
            net = FeatureCNN(tuple(shape), classes, width)
            net.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 (no mapping)
            return cls(net, trained_on=trained_on, of=of)

    def _batches(self, images: Images) -> Iterator[Tensor]:
        """Pieces of the pictures as float32 in [0, 1], without gradients."""
        arrays.check_images("images", images)
        if images.shape[1:] != self.net.shape:
            raise DataError(
                f"images: pictures of {arrays.size_of(images.shape)}, but the classifier was trained on "
                f"{arrays.size_of(self.net.shape)}; resize them."
            )
        return arrays.batches(images)


def turned(images: Images) -> tuple[Images, Labels]:
    """Pictures in four positions and which each has, uint8 [4 n, C, H, W] and int64 [4 n], to learn features without classes.

    Squares are turned by 0, 90, 180 and 270 degrees (Gidaris et al. 2018). Others are mirrored.
    """
    if images.shape[2] == images.shape[3]:
        four = [np.rot90(images, quarter, axes=(2, 3)) for quarter in range(4)]
    else:
        four = [np.flip(images, axes) for axes in ((), (2,), (3,), (2, 3))]
    return np.concatenate(four), np.repeat(np.arange(4), len(images))


class InceptionFeatures:
    """The 2,048 pool features of Inception-V3 of 2015-12-05, on which the published FID is computed (Heusel et al. 2017).

    Computed by torch-fidelity (the extra `fid`), which resizes as TensorFlow 1 did. Grey pictures are repeated to three
    channels, as in GS-WGAN and in Bie et al. 2023. The weights are read from a local file and never fetched.

    Args:
        weights: torch-fidelity's weights file, a state dict (weights-inception-2015-12-05-6726825d.pth).
        sha256: its checksum, in hexadecimal, from a source that you trust.

    Raises:
        RequestError: if the file is absent or its checksum differs, or torch-fidelity is not installed.
    """

    name = "2,048 pool features of Inception-V3 (2015-12-05)"
    distance_name = "FID"
    width = _INCEPTION_WIDTH

    def __init__(self, weights: Path, sha256: str) -> None:
        if not weights.is_file():
            raise RequestError(
                f"{weights}: there is no such file; bring the Inception weights, they are never fetched."
            )
        with weights.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != sha256.lower():
            raise RequestError(f"{weights}: its SHA-256 is {digest}, not the one given; bring the right file.")
        try:
            fidelity = importlib.import_module("torch_fidelity")
        except ImportError:
            raise RequestError("Inception features need torch-fidelity: pip install 'gossamer[fid]'") from None
        self._net: Any = fidelity.FeatureExtractorInceptionV3(
            "inception-v3-compat", [str(_INCEPTION_WIDTH)], feature_extractor_weights_path=str(weights)
        )

    def __call__(self, images: Images, /) -> NDArray[np.float32]:
        """images: uint8 [n, 1 or 3, H, W]. Returns float32 [n, 2048].

        Raises:
            DataError: if the pictures are neither grey nor RGB.
        """
        arrays.check_images("images", images)
        if images.shape[1] not in (1, 3):
            raise DataError(f"images: {images.shape[1]} channels; Inception features need grey or RGB pictures.")
        vectors = np.empty((len(images), _INCEPTION_WIDTH), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(images), _INCEPTION_BATCH):
                batch = slice(start, start + _INCEPTION_BATCH)
                # A copy, because torch refuses read-only memory maps.
                seen = torch.from_numpy(np.array(images[batch]))
                vectors[batch] = self._net(seen.expand(-1, 3, -1, -1).contiguous())[0].numpy()
        return vectors


Features: TypeAlias = ClassifierFeatures | InceptionFeatures


def _settle(net: FeatureCNN, images: Images, order: NDArray[Any]) -> None:
    """Recompute the statistics of batch normalisation from the finished net, as plain averages over batches.

    The running ones lag behind the weights: after a short training the net would judge by those of its first steps.
    """
    for norm in (net.norm1, net.norm2, net.norm3):
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        for part in np.array_split(order, math.ceil(len(order) / _TRAIN_BATCH)):
            net.features(arrays.pictures(images, np.sort(part)))
