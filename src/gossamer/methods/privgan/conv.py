"""The convolutional pair of privGAN for CIFAR-10 (Mukherjee et al. 2021, appendix 1), 32x32 pixels.

The layers are those of the published code: the paper's list leaves an activation out and has a reshape that fits no shape.
Activations, scaling and initialisation are those of `dense.py`. Labels join the generator's latents as one-hot codes, and the
discriminator's image as constant planes.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, one_hot

from gossamer.errors import RequestError
from gossamer.methods.privgan.dense import SLOPE, codes, initialise, with_codes
from gossamer.nets.image_size import channels_and_side

_KERNEL, _PADDING = 5, 2


class Generator(nn.Module):
    """Latents and labels to images: a dense layer to 2x2, then four transposed convolutions. With one class labels are ignored.

    `width` is the channels at 2x2, 512 in the paper, a multiple of 8.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 512, latent_size: int = 100) -> None:
        super().__init__()
        channels = _checked(shape, width)
        self.shape, self.classes, self.latent_size, self.width = shape, classes, latent_size, width
        sizes = (width, width // 2, width // 4, width // 8, channels)
        self.layers = nn.ModuleList([nn.Linear(latent_size + codes(classes), 4 * width)])
        for inside, out in pairwise(sizes):
            self.layers.append(nn.ConvTranspose2d(inside, out, _KERNEL, 2, _PADDING, output_padding=1))
        initialise(self.layers)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """latents: float [n, latent_size], standard normal; labels: int64 [n]. Returns [n, C, 32, 32] in [0, 1]."""
        x = self.layers[0](with_codes(latents, labels, self.classes)).view(-1, self.width, 2, 2)
        for layer in self.layers[1:]:
            x = layer(leaky_relu(x, SLOPE))
        return (torch.tanh(x) + 1) / 2


class Discriminator(nn.Module):
    """Images and labels to logits: four convolutions and a dense layer. With several outputs, the privacy discriminator.

    `width` is twice the channels at 2x2, a multiple of 8: 512 gives the paper's 64, 128, 128, 256. `outputs` is 1, or the
    number of generators. With one class labels are ignored.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 512, outputs: int = 1) -> None:
        super().__init__()
        channels = _checked(shape, width)
        self.classes = classes
        sizes = (channels + codes(classes), width // 8, width // 4, width // 4, width // 2)
        self.layers = nn.ModuleList(nn.Conv2d(inside, out, _KERNEL, 2, _PADDING) for inside, out in pairwise(sizes))
        self.layers.append(nn.Linear(2 * width, outputs))
        initialise(self.layers)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """images: float [n, C, 32, 32] in [0, 1]; labels: int64 [n]. Returns logits [n, outputs]."""
        x = 2 * images - 1
        if self.classes > 1:
            planes = one_hot(labels, self.classes).to(x.dtype)[:, :, None, None].expand(-1, -1, *x.shape[2:])
            x = torch.cat([x, planes], dim=1)
        for layer in self.layers[:-1]:
            x = leaky_relu(layer(x), SLOPE)
        logits: Tensor = self.layers[-1](x.flatten(1))
        return logits


def _checked(shape: tuple[int, ...], width: int) -> int:
    """Number of channels."""
    channels, _ = channels_and_side(shape, (32,), "the nets of `network=conv`, unlike those of dense,")
    if width % 8:
        raise RequestError(f"the width of the convolutional pair must be a multiple of 8, not {width}")
    return channels
