"""Train on samples, test on real records: the share of real records that a classifier gets right.

The protocol is that of Bie, Kamath, Zhang 2023 ("Private GANs, Revisited"). A small CNN is trained on most of the samples.
The epoch is chosen on the samples held out, and only that epoch sees the real test records.
Choosing on the test records would report the luckiest epoch.

The figures are computed on real records. They are private: no guarantee covers them.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.errors import DataError
from gossamer.intervals import Estimate, proportion
from gossamer.metrics import arrays
from gossamer.metrics.arrays import Images, Labels
from gossamer.nets.classifiers import SmallCNN

TITLE, SMALLEST = SmallCNN.title, SmallCNN.smallest
"""Of the classifier: its name, and the least height or width of a picture."""
Progress: TypeAlias = Callable[[int, int, float], None]
"""Called after each epoch with the epoch from 1, the number of epochs, and the accuracy on the held-out samples."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a classifier is trained, by Adam at its defaults.

    Args:
        epochs: passes over the training part.
        batch_size: pictures per step.
        learning_rate: of the optimiser.
        held_out: share of the samples kept back to choose the epoch.
        limit: use at most this many of the samples given, drawn at random; None: all.
    """

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    held_out: float = 1 / 12
    limit: int | None = None

    @property
    def key(self) -> str:
        """All that a figure under this protocol depends on, in words that stay the same from run to run."""
        settings = (self.epochs, self.batch_size, self.learning_rate, self.held_out, self.limit)
        return f"{SmallCNN.title}, stride above {SmallCNN.largest}, {settings}"


PAPER = Protocol()
"""Bie et al. 2023: of 60,000 samples 55,000 train and 5,000 choose among 10 epochs; batch 64, Adam 1e-3."""

_CLOSE = 1e-2
"""Logits that differ by less may change their order with the rounding of single precision."""
REDUCED = Protocol(epochs=4, limit=12_000)
"""A twelfth of the paper's work, for demonstrations. Trained on real MNIST records it reads lower: 97.6 % (seed 0)."""

PROTOCOLS = {"paper": PAPER, "reduced": REDUCED}


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained classifier.

    Args:
        net: the network at its chosen epoch.
        epoch: the chosen epoch, counted from 1.
        held_out_accuracy: its accuracy on the held-out part.
        used: number of pictures that it was trained and chosen on.
    """

    net: nn.Module
    epoch: int
    held_out_accuracy: float
    used: int


def train(
    images: Images,
    labels: Labels,
    *,
    classes: int,
    protocol: Protocol = PAPER,
    seed: int,
    progress: Progress | None = None,
    probabilities: NDArray[np.floating[Any]] | None = None,
) -> Trained:
    """Train the CNN, and keep the epoch that is best on the held-out pictures (the earliest of equals).

    The pictures are put in a random order first, so files sorted by class are welcome. The held-out part is the last
    `protocol.held_out` of that order. Global random state of torch is left as it was.

    Args:
        images: uint8 [N, C, H, W].
        labels: integers [N], from 0 to classes - 1.
        classes: number of classes.
        protocol: how to train.
        seed: fixes order, initial weights and dropout.
        progress: called after each epoch.
        probabilities: soft labels [N, classes]: what it learns in place of `labels`, which then only choose the epoch.

    Raises:
        DataError: if the arrays do not fit together; names the argument and the index.
    """
    arrays.check_records("train", images, labels, classes, smallest=SmallCNN.smallest)
    targets = labels.astype(np.int64) if probabilities is None else _soft(probabilities, len(images), classes)
    coins = np.random.default_rng(seed)
    order = coins.permutation(len(images))[: protocol.limit]
    held_out_count = max(1, round(len(order) * protocol.held_out))
    if held_out_count >= len(order):
        raise DataError(f"train_images: {len(order)} pictures are too few to train on and to hold some out; give more.")
    fit_on, choose_on = order[: len(order) - held_out_count], np.sort(order[len(order) - held_out_count :])
    chosen_images, chosen_labels = images[choose_on], labels[choose_on]

    best: dict[str, Tensor] = {}
    best_epoch, best_accuracy = 0, -1.0
    with arrays.own_randomness(seed):
        net = SmallCNN(images.shape[1:], classes)
        optimizer = torch.optim.Adam(net.parameters(), protocol.learning_rate, fused=True)
        for epoch in range(1, protocol.epochs + 1):
            train_epoch(net, optimizer, images, targets, coins.permutation(fit_on), protocol.batch_size)
            right = float((predict(net, chosen_images) == chosen_labels).mean())
            if right > best_accuracy:
                best_epoch, best_accuracy = epoch, right
                best = {name: value.clone() for name, value in net.state_dict().items()}
            if progress is not None:
                progress(epoch, protocol.epochs, right)
    net.load_state_dict(best)
    return Trained(net=net, epoch=best_epoch, held_out_accuracy=best_accuracy, used=len(order))


def accuracy(
    train_images: Images,
    train_labels: Labels,
    test_images: Images,
    test_labels: Labels,
    *,
    classes: int,
    protocol: Protocol = PAPER,
    seed: int,
    progress: Progress | None = None,
    trained_on: str = "synthetic records",
    train_probabilities: NDArray[np.floating[Any]] | None = None,
) -> Estimate:
    """Share of the real test records that a classifier trained on the samples gets right.

    The Wilson 95 % interval is over the test records, with the classifier as it is. Another seed gives another classifier.

    Args:
        train_images: uint8 [N, C, H, W], the samples.
        train_labels: integers [N], from 0 to classes - 1.
        test_images: uint8 [M, C, H, W], real records that trained nothing.
        test_labels: integers [M].
        classes: number of classes.
        protocol: how to train.
        seed: fixes order, initial weights and dropout.
        progress: called after each epoch.
        trained_on: what the training pictures are, for `computed_on` ("real records" for the comparison on real ones).
        train_probabilities: soft labels [N, classes]; see `train`.

    Raises:
        DataError: if the arrays do not fit together; names the argument and the index.
    """
    arrays.check_pair(train_images, train_labels, test_images, test_labels, classes, smallest=SmallCNN.smallest)
    found = train(
        train_images, train_labels, classes=classes, protocol=protocol, seed=seed, progress=progress,
        probabilities=train_probabilities,
    )  # fmt: skip
    right = int((predict(found.net, test_images) == test_labels).sum())
    epochs = "1 epoch" if protocol.epochs == 1 else f"{protocol.epochs} epochs"
    reduced = "" if protocol == PAPER else ", not the paper's full protocol"
    soft = "" if train_probabilities is None else " with soft labels"
    description = f"{SmallCNN.title} trained on {found.used:,} {trained_on}{soft}, {epochs}{reduced}"
    return proportion(right, len(test_labels), f"{len(test_labels):,} real test records; {description}")


def train_epoch(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: Images,
    targets: NDArray[Any],
    order: NDArray[Any],
    size: int,
) -> None:
    """One pass over the pictures in this order, `size` at a time, on the mean cross-entropy.

    targets: labels int64 [N], or probabilities float32 [N, classes].
    """
    net.train()
    for start in range(0, len(order), size):
        # In rising order, so that a memory-mapped file is read forwards; the order inside a batch does not matter.
        batch = np.sort(order[start : start + size])
        loss = F.cross_entropy(net(arrays.pictures(images, batch)), torch.from_numpy(targets[batch]))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()


def _soft(probabilities: NDArray[np.floating[Any]], count: int, classes: int) -> NDArray[np.float32]:
    """Soft labels, checked. Raises DataError."""
    if probabilities.shape != (count, classes):
        shown = " x ".join(map(str, probabilities.shape))
        raise DataError(f"probabilities: an array of {shown}, and not of {count:,} pictures x {classes} classes.")
    return arrays.checked_probabilities(probabilities).astype(np.float32)


def predict_alone(net: nn.Module, images: Images) -> NDArray[np.int64]:
    """As `predict`, and what it says of a picture does not depend on the others beside it, not even by rounding.

    Where two classes are nearly as likely in single precision, double precision decides.
    """
    net.eval()
    exact, found = copy.deepcopy(net).double(), []
    for part in arrays.batches(images):
        logits = net(part)
        best = logits.topk(2).values
        close = best[:, 0] - best[:, 1] < _CLOSE
        classes = logits.argmax(1)
        classes[close] = exact(part[close].double()).argmax(1)
        found.append(classes)
    return np.asarray(torch.cat(found))


def predict(net: nn.Module, images: Images) -> NDArray[np.int64]:
    """The most likely class of each picture, by a net in evaluation mode. images: uint8 [N, C, H, W]. Returns int64 [N]."""
    net.eval()
    classes: NDArray[np.int64] = torch.cat([net(part).argmax(1) for part in arrays.batches(images)]).numpy()
    return classes
