"""The networks of privGAN by its Config, dense or convolutional, and what a run releases: its generators as one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gossamer.methods.contract import DataCard
from gossamer.methods.privgan import Config, conv, dense


class Mixture(nn.Module):
    """The released generators as one: each sample comes from a random one of them.

    There is one group of generators, or one per class, each of which makes its class only. Generators of a group are adjacent.
    """

    def __init__(self, generators: Sequence[nn.Module], *, groups: int) -> None:
        super().__init__()
        self.generators, self.groups = nn.ModuleList(generators), groups
        first: Any = generators[0]
        self.shape: tuple[int, ...] = first.shape
        self.classes = groups * int(first.classes)
        self.latent_size = int(first.latent_size) + 1

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """latents: float [n, latent_size], standard normal; labels: int64 [n]. Returns [n, C, H, W] in [0, 1].

        The normal distribution function turns the last latent into a uniform number, and that into a generator.
        """
        released = len(self.generators) // self.groups
        numbers = (torch.special.ndtr(latents[:, -1]) * released).long().clamp_(max=released - 1)
        if self.groups > 1:
            numbers = numbers + released * labels
        images = latents.new_zeros(len(latents), *self.shape)
        for number in numbers.unique().tolist():
            mask = numbers == number
            images[mask] = self.generators[number](latents[mask, :-1], labels[mask])
        return images


def generator(config: Config, card: DataCard) -> dense.Generator | conv.Generator:
    """One generator, with fresh weights. The last latent is not its own: it picks the generator."""
    kind = conv.Generator if config.network == "conv" else dense.Generator
    return kind(card.shape, _classes(config, card), width=config.width, latent_size=config.latent_size - 1)


def discriminator(config: Config, card: DataCard, *, outputs: int) -> dense.Discriminator | conv.Discriminator:
    """One discriminator, with fresh weights; with several outputs the privacy discriminator."""
    kind = conv.Discriminator if config.network == "conv" else dense.Discriminator
    return kind(card.shape, _classes(config, card), width=config.width, outputs=outputs)


def _classes(config: Config, card: DataCard) -> int:
    """The number of labels that one network distinguishes."""
    return card.classes if config.labels == "conditional" else 1
