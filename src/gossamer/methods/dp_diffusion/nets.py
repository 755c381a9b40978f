"""Denoisers: what each predicts is the clean code behind a noisy one. Karras et al. 2022 ("EDM"), section 5, equation 7.

Codes have standard deviation 1 on average, so sigma_data = 1 in every formula.
"""

import math
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.errors import RequestError
from gossamer.nets.latent import Latent

_WAVES = 16
"""Cosines, and as many sines, that encode the noise level."""


class Denoiser(nn.Module):
    """D(z; sigma, y) = c_skip z + c_out F(c_in z, sigma, y). Table 1, "Ours".

    `inner`, F, takes scaled codes [n, ...] and conditions [n, k] to a prediction like the codes. The label K (of K
    classes) means that there is no label.
    """

    waves: Tensor

    def __init__(self, inner: nn.Module, classes: int) -> None:
        super().__init__()
        self.inner, self.classes = inner, classes
        self.register_buffer("waves", 6 * torch.randn(_WAVES))

    def forward(self, noisy: Tensor, sigma: Tensor, labels: Tensor) -> Tensor:
        """noisy: [n, ...]; sigma: [n]; labels: [n], 0 to K. Gives the clean codes [n, ...]."""
        s = _beside(sigma, noisy)
        return self.c_skip(s) * noisy + self.c_out(s) * self.predicted(noisy, sigma, labels)

    def predicted(self, noisy: Tensor, sigma: Tensor, labels: Tensor) -> Tensor:
        """F. Arguments as above; gives [n, ...]."""
        angles = (sigma.log() / 4)[:, None] * self.waves
        one_hot = F.one_hot(labels, self.classes + 1)[:, :-1].to(noisy.dtype)
        c_in = (1 + _beside(sigma, noisy).square()).rsqrt()
        predicted: Tensor = self.inner(c_in * noisy, torch.cat([angles.cos(), angles.sin(), one_hot], 1))
        return predicted

    @staticmethod
    def c_skip(s: Tensor) -> Tensor:
        """1 / (1 + sigma^2)"""
        return 1 / (1 + s.square())

    @staticmethod
    def c_out(s: Tensor) -> Tensor:
        """sigma / sqrt(1 + sigma^2)"""
        return s * (1 + s.square()).rsqrt()


def _beside(sigma: Tensor, codes: Tensor) -> Tensor:
    """[n, 1, ...], to go with codes [n, ...]."""
    return sigma.view(-1, *(1,) * (codes.dim() - 1))


class Perceptron(nn.Module):
    """F for codes of a linear latent, with `depth` hidden layers."""

    def __init__(self, axes: int, conditions: int, width: int, depth: int) -> None:
        super().__init__()
        sizes = [axes + conditions] + [width] * depth
        self.hidden = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        self.last = nn.Linear(width, axes)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, codes: Tensor, conditions: Tensor) -> Tensor:
        """codes: [n, d]; conditions: [n, k]. Gives [n, d]."""
        h = torch.cat([codes, conditions], 1)
        for layer in self.hidden:
            h = F.silu(layer(h))
        out: Tensor = self.last(h)
        return out


class UNet(nn.Module):
    """F for pixels: convolutions at full, half and quarter size, with skips; noise and label shift the channels.

    There are `depth` residual blocks at each size. There are `width` channels at full size, and twice as many below.
    """

    def __init__(self, channels: int, conditions: int, width: int, depth: int) -> None:
        super().__init__()
        sizes = [width, 2 * width, 2 * width]
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.down, self.up, self.shrink, self.grow = (nn.ModuleList() for _ in range(4))
        before = width
        for size in sizes:
            self.down.append(_blocks(before, size, conditions, depth))
            before = size
        for size in sizes[:-1]:
            self.shrink.append(nn.Conv2d(size, size, 3, stride=2, padding=1))
        for above, size in zip(reversed(sizes[:-1]), reversed(sizes[1:]), strict=True):
            self.grow.append(nn.Conv2d(before, size, 3, padding=1))
            self.up.append(_blocks(size + above, above, conditions, depth))
            before = above
        self.norm = nn.GroupNorm(8, width)
        self.last = nn.Conv2d(width, channels, 3, padding=1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]  # a convolution has one by default

    def forward(self, codes: Tensor, conditions: Tensor) -> Tensor:
        """codes: [n, C, H, W]; conditions: [n, k]. Gives [n, C, H, W]."""
        h = self.first(codes)
        skips: list[Tensor] = []
        for i, blocks in enumerate(self.down):
            h = blocks(h, conditions)
            if i < len(self.shrink):
                skips.append(h)
                h = self.shrink[i](h)
        for grow, blocks in zip(self.grow, self.up, strict=True):
            skip = skips.pop()
            h = grow(F.interpolate(h, size=skip.shape[2:]))
            h = blocks(torch.cat([h, skip], 1), conditions)
        out: Tensor = self.last(F.silu(self.norm(h)))
        return out


class _Block(nn.Module):
    """Two convolutions with group normalisation, and a way past them."""

    def __init__(self, inside: int, outside: int, conditions: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(8, inside)
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.norm2 = nn.GroupNorm(8, outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.shift = nn.Linear(conditions, outside)
        self.past = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, h: Tensor, conditions: Tensor) -> Tensor:
        inner = self.conv1(F.silu(self.norm1(h))) + self.shift(conditions)[:, :, None, None]
        out: Tensor = self.past(h) + self.conv2(F.silu(self.norm2(inner)))
        return out


class _Blocks(nn.Module):
    def __init__(self, blocks: list[_Block]) -> None:
        super().__init__()
        self.each = nn.ModuleList(blocks)

    def forward(self, h: Tensor, conditions: Tensor) -> Tensor:
        for block in self.each:
            h = block(h, conditions)
        return h


def _blocks(inside: int, outside: int, conditions: int, depth: int) -> _Blocks:
    return _Blocks([_Block(inside if i == 0 else outside, outside, conditions) for i in range(depth)])


class Generator(nn.Module):
    """What a run releases: a denoiser, the latent in which it works, and the generator of a start whose samples it refines.

    Raises:
        RequestError: sizes of which no net can be made.
    """

    samples_on_gpu = True

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        network: Literal["perceptron", "unet"],
        axes: int,
        width: int,
        depth: int,
        start: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if network == "unet" and width % 8:
            raise RequestError(f"`width={width}`: the unet normalises its channels in 8 groups; take a multiple of 8.")
        self.classes, self.shape = classes, tuple(shape)
        conditions = 2 * _WAVES + classes
        inner = (
            Perceptron(axes, conditions, width, depth)
            if network == "perceptron"
            else UNet(shape[0], conditions, width, depth)
        )
        self.denoiser = Denoiser(inner, classes)
        self.latent = Latent(shape, axes) if network == "perceptron" else None
        self.start = start

    @property
    def code_shape(self) -> tuple[int, ...]:
        """Of one code."""
        return self.shape if self.latent is None else (self.latent.axes,)

    def code(self, images: Tensor) -> Tensor:
        """Images [n, C, H, W] in [0, 1] to codes [n, ...] of standard deviation about 1."""
        return (images - 0.5) * _PIXELS if self.latent is None else self.latent.code(images)

    def decode(self, codes: Tensor) -> Tensor:
        """Back to images, which may lie a little outside [0, 1]."""
        return codes / _PIXELS + 0.5 if self.latent is None else self.latent.decode(codes)


_PIXELS = 2 * math.sqrt(3)
"""Pixels that are uniform in [0, 1] have this standard deviation, inverted."""
