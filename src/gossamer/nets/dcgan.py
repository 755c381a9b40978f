"""The conditional DCGAN pair of "Private GANs, Revisited" (Bie, Kamath, Zhang 2023).

Nothing is normalised over the batch, so that every record has a gradient of its own. Images are in [0, 1]. On 28x28 grey
images with 10 classes the pair has the paper's 2,272,129 and 1,724,289 parameters at width 128. Narrow discriminators take
less noise, because its norm grows with the root of their size.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, one_hot

from gossamer.errors import RequestError
from gossamer.nets.image_size import channels_and_side

SLOPE = 0.2
_INNER_KERNEL = {28: 3, 32: 4}
"""Kernel of the layer between 4x4 and 7x7 (three) or 8x8 (four)."""


class Spread(nn.ConvTranspose2d):
    """A transposed convolution. Of pictures of one pixel [n, in, 1, 1] it is a matrix product, in a quarter of the time."""

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Returns [n, out, k, k] for one pixel, and what PyTorch does for others."""
        if x.shape[2:] != (1, 1) or output_size is not None:
            return super().forward(x, output_size)
        kernels = self.weight.permute(0, 2, 3, 1)
        y: Tensor = (x.flatten(1) @ kernels.flatten(1)).unflatten(1, kernels.shape[1:])
        if self.bias is not None:
            y = y + self.bias
        return y.permute(0, 3, 1, 2)


class Generator(nn.Module):
    """Latents and labels to images. Bie et al. 2023, generator for MNIST (28x28) and CelebA (32x32).

    `width` is the channels of the last hidden layer, 128 in the paper.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 128, latent_size: int = 128) -> None:
        super().__init__()
        channels, side = channels_and_side(shape, tuple(_INNER_KERNEL), "the DCGAN nets")
        self.classes, self.latent_size = classes, latent_size
        self.latent_in = Spread(latent_size, 2 * width, 4)
        self.label_in = Spread(classes, 2 * width, 4)
        self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, _INNER_KERNEL[side], stride=2, padding=1)
        self.up2 = nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1)
        self.out = nn.ConvTranspose2d(width, channels, 4, stride=2, padding=1)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """latents: float [n, latent_size], standard normal; labels: int64 [n]. Returns [n, C, H, W] in [0, 1]."""
        return to_pixels(self.logits(latents, labels))

    def logits(self, latents: Tensor, labels: Tensor) -> Tensor:
        """Pictures before the last tanh. [n, C, H, W]"""
        codes = one_hot(labels, self.classes).to(latents.dtype)
        x = torch.cat([self.latent_in(latents[:, :, None, None]), self.label_in(codes[:, :, None, None])], dim=1)
        x = self.up1(leaky_relu(x, SLOPE))
        x = self.up2(leaky_relu(x, SLOPE))
        logits: Tensor = self.out(leaky_relu(x, SLOPE))
        return logits


def to_pixels(logits: Tensor) -> Tensor:
    """Any numbers to [0, 1]."""
    return (torch.tanh(logits) + 1) / 2


class Discriminator(nn.Module):
    """Images and labels to logits, positive for "real". Bie et al. 2023, discriminator for MNIST and CelebA.

    `width` is the channels after the first layer, 128 in the paper. It is even, because images and labels share them.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 128) -> None:
        super().__init__()
        channels, side = channels_and_side(shape, tuple(_INNER_KERNEL), "the DCGAN nets")
        if width % 2:
            raise RequestError(
                f"the discriminator's width must be even, not {width}: images and labels share the first layer"
            )
        self.classes = classes
        self.image_in = nn.Conv2d(channels, width // 2, 4, stride=2, padding=1)
        self.label_in = nn.Conv2d(classes, width // 2, 4, stride=2, padding=1)
        self.down1 = nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)
        self.down2 = nn.Conv2d(2 * width, 4 * width, _INNER_KERNEL[side], stride=2, padding=1)
        self.out = nn.Conv2d(4 * width, 1, 4)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """images: float [n, C, H, W] in [0, 1]; labels: int64 [n]. Returns logits [n]."""
        x = torch.cat([self.image_in(images), self.label_maps(images, labels)], dim=1)
        x = self.down1(leaky_relu(x, SLOPE))
        x = self.down2(leaky_relu(x, SLOPE))
        logits: Tensor = self.out(leaky_relu(x, SLOPE))
        return logits.flatten()

    def label_maps(self, images: Tensor, labels: Tensor) -> Tensor:
        """What the first layer makes of labels [n, width / 2, h, w]; of each record apart, which has a gradient of its own."""
        maps: Tensor = self.label_in(self._planes(images, labels))
        return maps

    def _planes(self, images: Tensor, labels: Tensor) -> Tensor:
        """One-hot planes [n, classes, H, W], expanded and not stored: the strides of zero mark them as constant."""
        codes = one_hot(labels, self.classes).to(images.dtype)
        return codes[:, :, None, None].expand(-1, -1, *images.shape[2:])
