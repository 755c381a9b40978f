"""Train on samples, test on real records: the share of real records that a classifier gets right.

The first protocol is that of Bie, Kamath, Zhang 2023 ("Private GANs, Revisited"): a small CNN is trained on most of the
samples, the epoch is chosen on the samples held out, and only that epoch sees the real test records. Choosing on
samples keeps the figure honest: choosing on the test records would report the luckiest epoch. GS-WGAN and privGAN
name no rule, so there the last epoch stands. Figures of different protocols do not compare.

The figures read real records. They are internal, and no guarantee covers them.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from typing import Protocol as Interface

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.errors import DataError
from gossamer.estimate import Estimate
from gossamer.intervals import mean, proportion
from gossamer.metrics.pictures import Images, Labels, check_images, check_labels, own_randomness, pictures, size_of
from gossamer.nets.classifiers import LeNet5, PrivganCNN, SmallCNN

Progress: TypeAlias = Callable[[int, int, float], None]
"""Called after each epoch with the epoch from 1, the number of epochs, and the accuracy on the held-out samples (nan if
none are held out)."""

_PREDICT_BATCH = 500


class Net(Interface):
    """What a Protocol asks of a class of nets: a title for `computed_on`, and the least height and width of a picture."""

    title: str
    smallest: int

    def __call__(self, shape: tuple[int, int, int], classes: int) -> nn.Module: ...


def adam(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """Adam at its defaults: Bie et al. 2023."""
    return torch.optim.Adam(parameters, learning_rate, fused=True)


def adam_half(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """Adam with a first beta of 0.5: privGAN, supplementary methods."""
    return torch.optim.Adam(parameters, learning_rate, betas=(0.5, 0.999), fused=True)


def sgd(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """Gradient descent with momentum 0.9 and weight decay 1e-4: the authors' code of GS-WGAN."""
    return torch.optim.SGD(parameters, learning_rate, momentum=0.9, weight_decay=1e-4)


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a classifier is trained.

    Args:
        net: a class of `nets/classifiers.py`.
        optimizer: `adam`, `adam_half`, `sgd`, or your own function of the parameters and the learning rate.
        epochs: passes over the training part.
        batch_size: pictures per step.
        learning_rate: of the optimiser.
        drop_after: the learning rate is divided by ten after this epoch; None: never.
        held_out: share of the samples kept back to choose the epoch, above 0 and below 1; None: all samples train, and
            the last epoch stands.
        limit: use at most this many of the samples given, drawn at random; None: all.

    Raises:
        ValueError: if a setting is outside its range.
    """

    net: Net = SmallCNN
    optimizer: Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer] = adam
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    drop_after: int | None = None
    held_out: float | None = 1 / 12
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or self.learning_rate <= 0:
            raise ValueError("a Protocol needs at least one epoch, one picture per batch and a positive learning_rate")
        if self.held_out is not None and not 0 < self.held_out < 1:
            raise ValueError("a Protocol needs held_out between 0 and 1, or None")
        if (self.limit is not None and self.limit < 2) or (self.drop_after is not None and self.drop_after < 1):
            raise ValueError("a Protocol needs a limit of at least 2 or None, and drop_after of at least 1 or None")

    def describe(self, used: int, trained_on: str) -> str:
        """In words, for `computed_on`. used: number of pictures; trained_on: what they are."""
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        reduced = "" if self in (PAPER, GS_WGAN, PRIVGAN) else ", not the paper's full protocol"
        return f"{self.net.title} trained on {used:,} {trained_on}, {epochs}{reduced}"


PAPER = Protocol()
"""Bie et al. 2023: of 60,000 samples 55,000 train and 5,000 choose among 10 epochs; batch 64, Adam 1e-3."""

REDUCED = Protocol(epochs=4, limit=12_000)
"""A twelfth of the paper's work, for demonstrations. It reads lower: 97.6 % when trained on real MNIST records (seed 0)."""

GS_WGAN = Protocol(
    net=LeNet5, optimizer=sgd, epochs=50, batch_size=128, learning_rate=0.02, drop_after=40, held_out=None
)
"""Chen, Orekondy, Fritz 2020, section 5.1; the settings are of the authors' code. 60,000 samples, all of them train."""

PRIVGAN = Protocol(net=PrivganCNN, optimizer=adam_half, epochs=50, batch_size=256, learning_rate=2e-4, held_out=None)
"""Mukherjee et al. 2021, section 5.2. The authors' code differs: another net, Adadelta, 25 epochs."""


class Classifier:
    """A trained classifier. Built by `train`.

    Args:
        net: the network at its chosen epoch.
        epoch: the chosen epoch, counted from 1.
        held_out_accuracy: its accuracy on the held-out part; nan if there was none.
        used: number of pictures that it was trained and chosen on.
    """

    def __init__(self, net: nn.Module, *, epoch: int, held_out_accuracy: float, used: int) -> None:
        self._net = net
        self.epoch = epoch
        self.held_out_accuracy = held_out_accuracy
        self.used = used

    def predict(self, images: Images) -> NDArray[np.int64]:
        """The most likely class of each picture. images: uint8 [N, C, H, W]. Returns int64 [N]."""
        return predict(self._net, images)

    def probabilities(self, images: Images) -> NDArray[np.float64]:
        """The probability that the net gives each class. images: uint8 [N, C, H, W]. Returns float64 [N, classes]."""
        probabilities: NDArray[np.float64] = torch.softmax(logits(self._net, images).double(), dim=1).numpy()
        return probabilities


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
    """Train the protocol's net, and keep the epoch that is best on the held-out pictures (the earliest of equals).

    The pictures are put in a random order first, so files sorted by class are welcome; the held-out part is the last
    `protocol.held_out` of that order, and without one the last epoch is kept. Global random state and settings of torch
    are left as they were.

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
    check_records("train", images, labels, classes, smallest=protocol.net.smallest)
    coins = np.random.default_rng(seed)
    order = coins.permutation(len(images))[: protocol.limit]
    held_out_count = 0 if protocol.held_out is None else max(1, round(len(order) * protocol.held_out))
    if held_out_count >= len(order):
        raise DataError(f"train_images: {len(order)} pictures are too few to train on and to hold some out; give more.")
    fit_on, choose_on = order[: len(order) - held_out_count], np.sort(order[len(order) - held_out_count :])
    chosen_images, chosen_labels = images[choose_on], labels[choose_on]

    best: dict[str, Tensor] = {}
    best_epoch, best_accuracy = 0, -1.0
    with own_randomness(seed, device):
        net = protocol.net(images.shape[1:], classes).to(device)
        optimizer = protocol.optimizer(net.parameters(), protocol.learning_rate)
        for epoch in range(1, protocol.epochs + 1):
            _one_epoch(net, optimizer, images, labels, coins.permutation(fit_on), protocol.batch_size)
            if epoch == protocol.drop_after:
                for group in optimizer.param_groups:
                    group["lr"] /= 10
            right = float((predict(net, chosen_images) == chosen_labels).mean()) if held_out_count else math.nan
            if right > best_accuracy or not held_out_count:
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
        protocol: `PAPER`, `REDUCED`, `GS_WGAN`, `PRIVGAN`, or your own.
        seed: fixes order, initial weights and dropout.
        device: where to train.
        progress: called after each epoch.
        trained_on: what the training pictures are, for `computed_on` ("real records" for the comparison on real ones).

    Raises:
        DataError: if the arrays do not fit together; names the argument and the index.
    """
    check_pair(train_images, train_labels, test_images, test_labels, classes, smallest=protocol.net.smallest)
    classifier = train(
        train_images, train_labels, classes=classes, protocol=protocol, seed=seed, device=device, progress=progress
    )
    right = int((classifier.predict(test_images) == test_labels).sum())
    description = protocol.describe(classifier.used, trained_on)
    return proportion(right, len(test_labels), f"{len(test_labels):,} real test records; {description}")


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
            train_images, train_labels, test_images, test_labels, classes=classes, protocol=protocol, seed=seed,
            device=device, progress=progress, trained_on=trained_on,
        )
        for seed in seeds
    ]  # fmt: skip
    computed_on = f"{runs[0].computed_on}; mean over {len(runs)} trainings"
    return mean([run.value for run in runs], computed_on, lowest=0.0, highest=1.0)


def confusion(true_labels: Labels, predicted: Labels, *, classes: int) -> NDArray[np.int64]:
    """Counts of each true class (row) predicted as each class (column): int64 [classes, classes].

    Raises:
        DataError: if lengths differ or a label is outside 0 to classes - 1; names the argument and the index.
    """
    if len(true_labels) != len(predicted):
        raise DataError(f"predicted: {len(predicted)} labels for {len(true_labels)} records; give one for each.")
    check_labels("true_labels", true_labels, classes)
    check_labels("predicted", predicted, classes)
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
        loss = F.cross_entropy(
            net(pictures(images, batch, device)), torch.from_numpy(labels[batch].astype(np.int64)).to(device)
        )
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()


def predict(net: nn.Module, images: Images) -> NDArray[np.int64]:
    """The most likely class of each picture. images: uint8 [N, C, H, W]. Returns int64 [N]."""
    classes: NDArray[np.int64] = logits(net, images).argmax(1).numpy()
    return classes


def logits(net: nn.Module, images: Images) -> Tensor:
    """What a trained net says of pictures, in evaluation mode. images: uint8 [N, C, H, W]. float32 [N, classes], on CPU."""
    device = next(net.parameters()).device
    net.eval()
    with torch.inference_mode():
        parts = [
            net(pictures(images, slice(start, start + _PREDICT_BATCH), device)).cpu()
            for start in range(0, max(1, len(images)), _PREDICT_BATCH)
        ]
    return torch.cat(parts)


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
    """Pictures and labels are what they should be.

    Args:
        name: what the arguments are called: "train" for `train_images` and `train_labels`.
        images: to be uint8 [N, C, H, W], at least one.
        labels: to be integers [N], from 0 to classes - 1.
        classes: number of classes.
        smallest: least height and width.

    Raises:
        DataError: if they are not; names the argument and the index.
    """
    check_images(f"{name}_images", images)
    if min(images.shape[2:]) < smallest:
        raise DataError(
            f"{name}_images: pictures of {size_of(images.shape)} are too small for the net; "
            f"it needs {smallest}x{smallest} or more."
        )
    if len(images) != len(labels):
        raise DataError(f"{name}_labels: {len(labels)} labels for {len(images)} pictures; give one label per picture.")
    check_labels(f"{name}_labels", labels, classes)
