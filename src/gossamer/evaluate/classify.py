"""Train on samples, test on real records: the share of real records that a classifier gets right.

The protocol is that of Bie, Kamath, Zhang 2023 ("Private GANs, Revisited"): a small CNN is trained on most of the
samples, the epoch is chosen on the samples held out, and only that epoch sees the real test records. Choosing on
samples keeps the figure honest: choosing on the test records would report the luckiest epoch.

The figures read real records. They are internal, and no guarantee covers them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.errors import DataError
from gossamer.estimate import Estimate
from gossamer.evaluate.intervals import mean, proportion
from gossamer.nets.classifiers import SmallCNN

Images: TypeAlias = NDArray[np.uint8]
Labels: TypeAlias = NDArray[np.integer[Any]]
Progress: TypeAlias = Callable[[int, int, float], None]
"""Called after each epoch with the epoch from 1, the number of epochs, and the accuracy on the held-out samples."""

_PREDICT_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a classifier is trained.

    Args:
        epochs: passes over the training part.
        batch_size: pictures per Adam step.
        learning_rate: of Adam, other settings at their defaults.
        held_out: share of the samples kept back to choose the epoch, above 0 and below 1.
        limit: use at most this many of the samples given, drawn at random; None: all.

    Raises:
        ValueError: if a setting is outside its range.
    """

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    held_out: float = 1 / 12
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or self.learning_rate <= 0:
            raise ValueError("a Protocol needs at least one epoch, one picture per batch and a positive learning_rate")
        if not 0 < self.held_out < 1 or (self.limit is not None and self.limit < 2):
            raise ValueError("a Protocol needs held_out between 0 and 1, and a limit of at least 2 or None")

    def describe(self, used: int, trained_on: str) -> str:
        """In words, for `computed_on`. used: number of pictures; trained_on: what they are."""
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        reduced = "" if self == PAPER else ", not the paper's full protocol"
        return f"CNN of Bie et al. trained on {used:,} {trained_on}, {epochs}{reduced}"


PAPER = Protocol()
"""Bie et al. 2023: of 60,000 samples 55,000 train and 5,000 choose among 10 epochs; batch 64, Adam 1e-3."""

REDUCED = Protocol(epochs=4, limit=12_000)
"""A twelfth of the paper's work, for demonstrations. It reads lower: 97.6 % when trained on real MNIST records (seed 0)."""


class Classifier:
    """A trained classifier. Built by `train`.

    Args:
        net: the network at its chosen epoch.
        epoch: the chosen epoch, counted from 1.
        held_out_accuracy: its accuracy on the held-out part.
        used: number of pictures that it was trained and chosen on.
    """

    def __init__(self, net: nn.Module, *, epoch: int, held_out_accuracy: float, used: int) -> None:
        self._net = net
        self.epoch = epoch
        self.held_out_accuracy = held_out_accuracy
        self.used = used

    def predict(self, images: Images) -> NDArray[np.int64]:
        """The most likely class of each picture. images: uint8 [N, C, H, W]. Returns int64 [N]."""
        return _predict(self._net, images)


def train(
    images: Images,
    labels: Labels,
    *,
    classes: int,
    protocol: Protocol = PAPER,
    seed: int,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Classifier:
    """Train the CNN of Bie et al., and keep the epoch that is best on the held-out pictures (the earliest of equals).

    The pictures are put in a random order first, so files sorted by class are welcome; the held-out part is the last
    `protocol.held_out` of that order. Global random state and settings of torch are left as they were.

    Args:
        images: uint8 [N, C, H, W].
        labels: integers [N], from 0 to classes - 1.
        classes: number of classes.
        protocol: how to train.
        seed: fixes order, initial weights and dropout.
        device: where to train.
        progress: called after each epoch.

    Raises:
        DataError: if the arrays do not fit together; names the argument and the index.
    """
    _check("train", images, labels, classes)
    coins = np.random.default_rng(seed)
    order = coins.permutation(len(images))[: protocol.limit]
    held = max(1, round(len(order) * protocol.held_out))
    if held >= len(order):
        raise DataError(f"train_images: {len(order)} pictures are too few to train on and to hold some out; give more.")
    fit_on, choose_on = order[:-held], np.sort(order[-held:])
    chosen_images, chosen_labels = images[choose_on], labels[choose_on]

    best: dict[str, Tensor] = {}
    best_epoch, best_accuracy = 0, -1.0
    with _own_randomness(seed, device):
        net = SmallCNN(images.shape[1:], classes).to(device)
        optimizer = torch.optim.Adam(net.parameters(), protocol.learning_rate, fused=True)
        for epoch in range(1, protocol.epochs + 1):
            _one_epoch(net, optimizer, images, labels, coins.permutation(fit_on), protocol.batch_size)
            right = float((_predict(net, chosen_images) == chosen_labels).mean())
            if right > best_accuracy:
                best_epoch, best_accuracy = epoch, right
                best = {name: value.clone() for name, value in net.state_dict().items()}
            if progress is not None:
                progress(epoch, protocol.epochs, right)
    net.load_state_dict(best)
    return Classifier(net, epoch=best_epoch, held_out_accuracy=best_accuracy, used=len(order))


def accuracy(
    train_images: Images,
    train_labels: Labels,
    test_images: Images,
    test_labels: Labels,
    *,
    classes: int,
    protocol: Protocol = PAPER,
    seed: int,
    device: str = "cpu",
    progress: Progress | None = None,
    trained_on: str = "synthetic records",
) -> Estimate:
    """Share of the real test records that a classifier trained on the samples gets right.

    The Wilson 95 % interval is over the test records, with the classifier as it is; `accuracy_over_seeds` shows how
    much the training itself varies.

    Args:
        train_images: uint8 [N, C, H, W], the samples.
        train_labels: integers [N], from 0 to classes - 1.
        test_images: uint8 [M, C, H, W], real records that trained nothing.
        test_labels: integers [M].
        classes: number of classes.
        protocol: `PAPER`, `REDUCED`, or your own.
        seed: fixes order, initial weights and dropout.
        device: where to train.
        progress: called after each epoch.
        trained_on: what the training pictures are, for `computed_on` ("real records" for the comparison on real ones).

    Raises:
        DataError: if the arrays do not fit together; names the argument and the index.
    """
    _check("train", train_images, train_labels, classes)
    _check("test", test_images, test_labels, classes)
    if train_images.shape[1:] != test_images.shape[1:]:
        raise DataError(
            f"test_images: pictures of {_size(test_images)}, but train_images holds {_size(train_images)}; "
            "resize one of them."
        )
    classifier = train(
        train_images, train_labels, classes=classes, protocol=protocol, seed=seed, device=device, progress=progress
    )
    right = int((classifier.predict(test_images) == test_labels).sum())
    words = protocol.describe(classifier.used, trained_on)
    return proportion(right, len(test_labels), f"{len(test_labels):,} real test records; {words}")


def accuracy_over_seeds(
    train_images: Images,
    train_labels: Labels,
    test_images: Images,
    test_labels: Labels,
    *,
    classes: int,
    protocol: Protocol = PAPER,
    seeds: Sequence[int],
    device: str = "cpu",
    progress: Progress | None = None,
    trained_on: str = "synthetic records",
) -> Estimate:
    """The mean of `accuracy` over several trainings, with the 95 % t interval over the seeds; n is their number.

    Args and errors as `accuracy`; seeds: at least two, all different.

    Raises:
        ValueError: if there are fewer than two different seeds.
    """
    if len(seeds) < 2 or len(set(seeds)) < len(seeds):
        raise ValueError("accuracy_over_seeds needs at least two seeds, all different")
    runs = [
        accuracy(
            train_images,
            train_labels,
            test_images,
            test_labels,
            classes=classes,
            protocol=protocol,
            seed=seed,
            device=device,
            progress=progress,
            trained_on=trained_on,
        )
        for seed in seeds
    ]
    words = f"{runs[0].computed_on}; mean over {len(runs)} trainings"
    return mean([run.value for run in runs], words, lowest=0.0, highest=1.0)


def confusion(true_labels: Labels, predicted: Labels, *, classes: int) -> NDArray[np.int64]:
    """Counts of each true class (row) predicted as each class (column): int64 [classes, classes].

    Raises:
        DataError: if lengths differ or a label is outside 0 to classes - 1; names the argument and the index.
    """
    if len(true_labels) != len(predicted):
        raise DataError(f"predicted: {len(predicted)} labels for {len(true_labels)} records; give one for each.")
    _check_labels("true_labels", true_labels, classes)
    _check_labels("predicted", predicted, classes)
    cells = true_labels.astype(np.int64) * classes + predicted.astype(np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes).astype(np.int64)


def _one_epoch(
    net: nn.Module, optimizer: torch.optim.Optimizer, images: Images, labels: Labels, order: NDArray[Any], size: int
) -> None:
    device = next(net.parameters()).device
    net.train()
    for start in range(0, len(order), size):
        # In rising order, so that a memory-mapped file is read forwards; the order inside a batch does not matter.
        batch = np.sort(order[start : start + size])
        logits = net(_pictures(images, batch, device))
        loss = F.cross_entropy(logits, torch.from_numpy(labels[batch].astype(np.int64)).to(device))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()


def _predict(net: nn.Module, images: Images) -> NDArray[np.int64]:
    device = next(net.parameters()).device
    net.eval()
    found = np.empty(len(images), dtype=np.int64)
    with torch.inference_mode():
        for start in range(0, len(images), _PREDICT_BATCH):
            batch = slice(start, start + _PREDICT_BATCH)
            found[batch] = net(_pictures(images, batch, device)).argmax(1).cpu().numpy()
    return found


def _pictures(images: Images, which: slice | NDArray[Any], device: torch.device) -> Tensor:
    # A copy, because torch refuses read-only memory maps.
    return torch.from_numpy(np.array(images[which])).to(device).float().div_(255)


@contextmanager
def _own_randomness(seed: int, device: str) -> Iterator[None]:
    """Seed torch for initial weights and dropout, and put its random state back afterwards."""
    where = torch.device(device)
    gpus = list(range(torch.cuda.device_count())) if where.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        if gpus:
            torch.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)
        yield


def _check(name: str, images: Images, labels: Labels, classes: int) -> None:
    if images.dtype != np.uint8 or images.ndim != 4:
        raise DataError(
            f"{name}_images: an array of {images.dtype} with {images.ndim} axes; pictures must be uint8 [N, C, H, W]."
        )
    if min(images.shape[2:]) < 6:
        raise DataError(f"{name}_images: pictures of {_size(images)} are too small for the CNN; it needs 6x6 or more.")
    if len(images) != len(labels):
        raise DataError(f"{name}_labels: {len(labels)} labels for {len(images)} pictures; give one label per picture.")
    if len(images) == 0:
        raise DataError(f"{name}_images: there are no pictures; give at least two to train on and one to test on.")
    _check_labels(f"{name}_labels", labels, classes)


def _check_labels(name: str, labels: Labels, classes: int) -> None:
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{name}: an array of {labels.dtype} with {labels.ndim} axes; labels must be integers [N].")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise DataError(
            f"{name}: the label at index {wrong[0]} is outside 0 to {classes - 1} ({len(wrong)} such labels); "
            "correct the labels or the number of classes."
        )


def _size(images: Images) -> str:
    channels, height, width = images.shape[1:]
    return f"{height}x{width} with {channels} {'channel' if channels == 1 else 'channels'}"
