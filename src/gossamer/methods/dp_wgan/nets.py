"""The networks of dp-GAN (Zhang, Ji, Wang 2018): 28x28, 48x48 and 64x64 as published, and 32x32 like 28x28.

Images are in [-1, 1] for the critic and come out of the generator in [0, 1]. There are two departures from the authors' nets.
The generators normalise the channels of each pixel, where the authors' normalise over the batch. That would tie the fake of
one record to those of the others. Labels enter both nets, if they are conditional: as one-hot codes beside the latents, and
as constant planes beside the image, which cost the clipped sum hardly anything.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.nets.image_size import channels_and_side

SLOPE = 0.2
_SIDES = (28, 32, 48, 64)


class Generator(nn.Module):
    """Latents and labels to images in [0, 1]. With one class it is unconditional. `width` is d of the paper, which has 64."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 64, latent_size: int = 128) -> None:
        super().__init__()
        channels, side = channels_and_side(shape, _SIDES, "the dp-wgan nets")
        self.classes, self.latent_size, self.side = classes, latent_size, side
        codes = latent_size + (classes if classes > 1 else 0)
        self.start = (6, 8 * width) if side == 48 else (4, 4 * width) if side < 48 else (4, 8 * width)
        spread, depth = self.start
        self.latent_in = nn.Linear(codes, spread * spread * depth)
        if side < 48:
            self.ups = nn.ModuleList(
                nn.ConvTranspose2d(before, after, 5, stride=2, padding=2, output_padding=1)
                for before, after in ((depth, 2 * width), (2 * width, width), (width, channels))
            )
        else:
            widths = (8, 4, 2) if side == 48 else (8, 4, 2, 1)
            depths = [depth, *(factor * width for factor in widths)]
            self.ups = nn.ModuleList(_UpBlock(depths[i], depths[i + 1]) for i in range(len(widths)))
            self.out = nn.Conv2d(depths[-1], channels, 3, padding=1)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """latents: float [n, latent_size], standard normal; labels: int64 [n]. Returns [n, C, H, W] in [0, 1]."""
        if self.classes > 1:
            latents = torch.cat([latents, F.one_hot(labels, self.classes).to(latents.dtype)], 1)
        spread, depth = self.start
        x = self.latent_in(latents).view(-1, depth, spread, spread)
        if self.side >= 48:
            for block in self.ups:
                x = block(x)
            return (torch.tanh(self.out(F.relu(pixel_norm(x)))) + 1) / 2
        first, second, last = self.ups
        x = first(F.relu(pixel_norm(x)))
        if self.side == 28:
            x = x[:, :, :7, :7]
        x = F.relu(second(x))
        return (torch.tanh(last(x)) + 1) / 2


class _UpBlock(nn.Module):
    """A residual block that doubles the side, for 48x48 and 64x64."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 5, padding=2, bias=False)
        self.second = nn.Conv2d(after, after, 5, padding=2)
        self.shortcut = nn.Conv2d(before, after, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[n, before, s, s] to [n, after, 2s, 2s]."""
        y = self.first(_doubled(F.relu(pixel_norm(x))))
        y = self.second(F.relu(pixel_norm(y)))
        out: Tensor = y + self.shortcut(_doubled(x))
        return out


class Critic(nn.Module):
    """Images in [-1, 1] and labels to one number, without bounds. With one class it is unconditional."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 64) -> None:
        super().__init__()
        channels, side = channels_and_side(shape, _SIDES, "the dp-wgan nets")
        factors = {28: (1, 2, 4), 32: (1, 2, 4), 48: (2, 4, 8), 64: (1, 2, 4, 8)}[side]
        self.classes = classes
        depths = [factor * width for factor in factors]
        self.image_in = nn.Conv2d(channels, depths[0], 5, stride=2, padding=2)
        self.label_in = nn.Conv2d(classes, depths[0], 5, stride=2, padding=2, bias=False) if classes > 1 else None
        self.downs = nn.ModuleList(
            nn.Conv2d(depths[i], depths[i + 1], 5, stride=2, padding=2) for i in range(len(depths) - 1)
        )
        spread = -(-side // 2 ** len(depths))
        self.out = nn.Linear(spread * spread * depths[-1], 1, bias=False)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """images: float [n, C, H, W] in [-1, 1]; labels: int64 [n]. Returns [n]."""
        x = self.image_in(images)
        if self.label_in is not None:
            codes = F.one_hot(labels, self.classes).to(images.dtype)
            x = x + self.label_in(codes[:, :, None, None].expand(-1, -1, *images.shape[2:]))
        for down in self.downs:
            x = down(F.leaky_relu(x, SLOPE))
        value: Tensor = self.out(F.leaky_relu(x, SLOPE).flatten(1))
        return value.squeeze(1)


def pixel_norm(x: Tensor) -> Tensor:
    """Each pixel's channels divided by their root mean square (Karras et al. 2018, section 4.2). [n, C, H, W]"""
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-8)


def _doubled(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="nearest")
