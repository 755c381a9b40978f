"""The convolutional pair of privGAN for CIFAR-10 (Mukherjee et al. 2021, appendix 1), 32x32 pixels.

The paper's list of the discriminator's layers leaves the first activation out and prints a reshape that fits no shape; the
published code has neither oddity, and stands here. Activations, scaling and initialisation are those of `dense.py`; labels
join the generator's latents as one-hot codes and the discriminator's image as constant planes.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, one_hot

from gossamer.errors import RequestError
from gossamer.methods.privgan.dense import SLOPE, codes, counted, initialise, with_codes

_KERNEL, _PADDING = 5, 2


class Generator(nn.Module):
    """Latents and labels to images: a dense layer to 2x2, then four transposed convolutions.

    Args:
        shape: channels and 32, 32.
        classes: number of labels; with one, labels are ignored.
        width: channels at 2x2, 512 in the paper; a multiple of 8.
        latent_size: length of a latent vector, 100 in the paper.

    Raises:
        RequestError: another image size, a count below 1, or a width that 8 does not divide.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 512, latent_size: int = 100) -> None:
        super().__init__()
        counted(classes=classes, width=width, latent_size=latent_size)
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

    Args:
        shape: channels and 32, 32.
        classes: number of labels; with one, labels are ignored.
        width: twice the channels at 2x2; 512 gives the paper's 64, 128, 128, 256; a multiple of 8.
        outputs: 1, or the number of generators.

    Raises:
        RequestError: another image size, a count below 1, or a width that 8 does not divide.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 512, outputs: int = 1) -> None:
        super().__init__()
        counted(classes=classes, width=width, outputs=outputs)
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
    if len(shape) != 3 or shape[1:] != (32, 32):
        raise RequestError(
            f"the convolutional pair makes images of 32x32 pixels, not of shape {'x'.join(map(str, shape))}: set "
            "shape = [channels, 32, 32] in the card, or take --network dense, which makes any size"
        )
    if width % 8:
        raise RequestError(f"the width of the convolutional pair must be a multiple of 8, not {width}")
    return shape[0]
