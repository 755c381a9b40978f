"""`gs-wgan-cnn` and `privgan-cnn`: accuracy by the classifiers and the protocols of those papers.

All samples train, and the last epoch stands: neither paper names a rule. Figures of different protocols do not compare.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from benchmarks.reproduce.metrics.nets import LeNet5, PrivganCNN
from gossamer.intervals import Estimate, proportion
from gossamer.metrics.arrays import Images, Labels, check_pair, own_randomness
from gossamer.metrics.classify import predict, train_epoch


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a classifier is trained.

    Args:
        net: the class of the network.
        optimizer: of the parameters.
        epochs: passes over the pictures.
        batch_size: pictures per step.
        drop_after: the learning rate is divided by ten after this epoch; None: never.
    """

    net: type[LeNet5] | type[PrivganCNN]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    epochs: int
    batch_size: int
    drop_after: int | None = None


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Gradient descent with momentum 0.9 and weight decay 1e-4: the authors' code of GS-WGAN."""
    return torch.optim.SGD(parameters, 0.02, momentum=0.9, weight_decay=1e-4)


def adam_half(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Adam with a first beta of 0.5: privGAN, supplementary methods."""
    return torch.optim.Adam(parameters, 2e-4, betas=(0.5, 0.999), fused=True)


GS_WGAN = Protocol(net=LeNet5, optimizer=sgd, epochs=50, batch_size=128, drop_after=40)
"""Chen, Orekondy, Fritz 2020, section 5.1; the settings are of the authors' code. The paper trains on 60,000 samples."""

PRIVGAN = Protocol(net=PrivganCNN, optimizer=adam_half, epochs=50, batch_size=256)
"""Mukherjee et al. 2021, section 5.2. The authors' code differs: another net, Adadelta, 25 epochs."""


def train(images: Images, labels: Labels, *, classes: int, protocol: Protocol, seed: int) -> nn.Module:
    """Train the protocol's net. images: uint8 [N, C, H, W]. labels: integers [N], from 0 to classes - 1."""
    coins = np.random.default_rng(seed)
    with own_randomness(seed):
        net = protocol.net(images.shape[1:], classes)
        optimizer = protocol.optimizer(net.parameters())
        for epoch in range(1, protocol.epochs + 1):
            train_epoch(net, optimizer, images, labels, coins.permutation(len(images)), protocol.batch_size)
            if epoch == protocol.drop_after:
                for group in optimizer.param_groups:
                    group["lr"] /= 10
    return net


def accuracy(
    train_images: Images,
    train_labels: Labels,
    test_images: Images,
    test_labels: Labels,
    *,
    classes: int,
    protocol: Protocol,
    seed: int,
    trained_on: str,
) -> Estimate:
    """Share of the real test records that a classifier trained on the samples gets right; see `gossamer.metrics.classify`."""
    check_pair(train_images, train_labels, test_images, test_labels, classes, smallest=protocol.net.smallest)
    net = train(train_images, train_labels, classes=classes, protocol=protocol, seed=seed)
    right = int((predict(net, test_images) == test_labels).sum())
    description = f"{protocol.net.title} trained on {len(train_images):,} {trained_on}, {protocol.epochs} epochs"
    return proportion(right, len(test_labels), f"{len(test_labels):,} real test records; {description}")
