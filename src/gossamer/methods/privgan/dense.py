"""The fully connected pair of privGAN (Mukherjee et al. 2021, appendix 1: MNIST, Fashion-MNIST, LFW), for images of any size.

LeakyReLU with slope 0.2, no normalisation. Initialisation as in the published code: the first layer normal with standard
deviation 0.02, the others uniform after Glorot and Bengio, biases zero. Images are [0, 1] outside and [-1, 1] inside. At width
512 without labels, on 28x28 grey images, the generator has 1,643,280 parameters and the discriminator 2,788,353.
Labels, where there are several, join the input as one-hot codes (the paper has no labels).
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, one_hot

from gossamer.errors import RequestError

SLOPE = 0.2


class Generator(nn.Module):
    """Latents and labels to images: three hidden layers of width, width and twice the width. With one class labels are ignored.

    The paper has a width of 512 and latents of 100 numbers.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 512, latent_size: int = 100) -> None:
        super().__init__()
        self.shape, self.classes, self.latent_size = shape, classes, latent_size
        sizes = (latent_size + codes(classes), width, width, 2 * width, math.prod(shape))
        self.layers = _dense(sizes)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """latents: float [n, latent_size], standard normal; labels: int64 [n]. Returns [n, C, H, W] in [0, 1]."""
        x = _through(self.layers, with_codes(latents, labels, self.classes))
        return ((torch.tanh(x) + 1) / 2).view(-1, *self.shape)


class Discriminator(nn.Module):
    """Images and labels to logits. With several outputs it is the privacy discriminator: a logit for each generator.

    Args:
        shape: channels, height and width of an image.
        classes: number of labels; with one, labels are ignored.
        width: twice the units of the last hidden layer; 512 gives the paper's 2048, 512, 256.
        outputs: 1, or the number of generators.

    Raises:
        RequestError: an odd width.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 512, outputs: int = 1) -> None:
        super().__init__()
        if width % 2:
            raise RequestError(f"width must be even, not {width}: the last hidden layer has half of it")
        self.classes = classes
        self.layers = _dense((math.prod(shape) + codes(classes), 4 * width, width, width // 2, outputs))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """images: float [n, C, H, W] in [0, 1]; labels: int64 [n]. Returns logits [n, outputs]."""
        return _through(self.layers, with_codes((2 * images - 1).flatten(1), labels, self.classes))


def codes(classes: int) -> int:
    """Length of a label's code: zero where there is one class."""
    return classes if classes > 1 else 0


def with_codes(rows: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Rows [n, k] with the one-hot codes of their labels behind them, [n, k + codes(classes)].

    A code is sqrt(k) long, as a row of k numbers of size 1 is: a single 1 would go unnoticed among hundreds of pixels.
    """
    if classes == 1:
        return rows
    return torch.cat([rows, math.sqrt(rows.shape[1]) * one_hot(labels, classes).to(rows.dtype)], dim=1)


def initialise(layers: nn.ModuleList) -> None:
    """The published code's initialisation, in place: the first layer N(0, 0.02), the others Glorot uniform, biases zero."""
    for number, layer in enumerate(layers):
        if number:
            nn.init.xavier_uniform_(layer.weight)  # type: ignore[arg-type]  # all layers here have a weight
        else:
            nn.init.normal_(layer.weight, std=0.02)  # type: ignore[arg-type]  # as above
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]  # and a bias


def _dense(sizes: tuple[int, ...]) -> nn.ModuleList:
    layers = nn.ModuleList(nn.Linear(inside, out) for inside, out in pairwise(sizes))
    initialise(layers)
    return layers


def _through(layers: nn.ModuleList, x: Tensor) -> Tensor:
    for layer in layers[:-1]:
        x = leaky_relu(layer(x), SLOPE)
    out: Tensor = layers[-1](x)
    return out
