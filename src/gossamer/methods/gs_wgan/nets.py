"""The networks of GS-WGAN (Chen, Orekondy, Fritz 2020), as their code has them: 28x28, and 32x32 likewise.

Images are in [0, 1] everywhere. Weight matrices are divided by their spectral norm (Miyato et al. 2018), pixels by the root
mean square of their channels. One departure: the power iteration takes a step when a network trains, never in `eval`
mode. The authors' takes one at every forward pass, so a critic's state would show that it was drawn.

A residual block doubles the side and then convolves. Both at once are a transposed convolution with a 4x4 kernel, the same
function with 4/9 of the multiplications; the shortcut's 1x1 convolution commutes with the doubling and comes first.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.nets.image_size import channels_and_side

_SIDES = (28, 32)
_EPSILON = 1e-10  # of the pixel norm, theirs
ROUNDS = 5
"""Power iterations on fresh weights, so that the first division is by nearly the right number."""


class ResNetGenerator(nn.Module):
    """Latents and labels to images in [0, 1]: three residual blocks from 4x4 to 32x32, cut to 28x28.

    Args:
        shape: channels, height and width of an image.
        classes: number of labels.
        width: a quarter of the channels; the paper's net has 64, 3,826,177 parameters.
        latent_size: length of a latent vector.
        bernoulli: replace latents by 1 where they are positive, else by 0: Bernoulli(1/2) from standard normal ones.
    """

    def __init__(
        self, shape: tuple[int, ...], classes: int, width: int = 64, latent_size: int = 10, *, bernoulli: bool = True
    ) -> None:
        super().__init__()
        channels, self.side = channels_and_side(shape, _SIDES, "the gs-wgan nets")
        self.classes, self.latent_size, self.bernoulli, self.depth = classes, latent_size, bernoulli, 4 * width
        self.code_in = Spectral(nn.Linear(latent_size + classes, 16 * self.depth))
        self.blocks = nn.ModuleList(_UpBlock(self.depth) for _ in range(3))
        self.out = Spectral(nn.Conv2d(self.depth, channels, 3))

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """latents: float [n, latent_size], standard normal; labels: int64 [n]. Returns [n, C, H, W]."""
        x = F.linear(_codes(self, latents, labels), self.code_in.divided(), self.code_in.bias)
        x = pixel_norm(F.relu(x.view(-1, self.depth, 4, 4))).contiguous(memory_format=torch.channels_last)
        *others, last = self.blocks
        for block in others:
            x = block(x)
        x = last(x, 30) if self.side == 28 else F.pad(last(x), (1, 1, 1, 1))
        return torch.sigmoid(F.conv2d(x, self.out.divided(), self.out.bias))


class _UpBlock(nn.Module):
    """Pixel norm, doubling, two 3x3 convolutions; a 1x1 convolution as shortcut."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.first = Spectral(nn.Conv2d(depth, depth, 3, padding=1))
        self.second = Spectral(nn.Conv2d(depth, depth, 3, padding=1))
        self.shortcut = Spectral(nn.Conv2d(depth, depth, 1))

    def forward(self, x: Tensor, side: int | None = None) -> Tensor:
        """[n, depth, s, s] to [n, depth, 2s, 2s], or to its corner of side x side pixels: what is cut off is not computed."""
        y = doubled_conv(pixel_norm(x), self.first.divided(), self.first.bias)
        beside = F.conv2d(x, self.shortcut.divided(), self.shortcut.bias)
        beside = F.interpolate(beside, scale_factor=2, mode="nearest")
        if side is None:
            y = F.conv2d(F.relu(pixel_norm(y)), self.second.divided(), self.second.bias, padding=1)
            return y + beside
        y = F.pad(F.relu(pixel_norm(y[:, :, : side + 1, : side + 1])), (1, 0, 1, 0))
        return F.conv2d(y, self.second.divided(), self.second.bias) + beside[:, :, :side, :side]


class DcganGenerator(nn.Module):
    """Latents and labels to images in [0, 1], by three transposed convolutions. Arguments as above; no spectral norm."""

    def __init__(
        self, shape: tuple[int, ...], classes: int, width: int = 64, latent_size: int = 10, *, bernoulli: bool = True
    ) -> None:
        super().__init__()
        channels, self.side = channels_and_side(shape, _SIDES, "the gs-wgan nets")
        self.classes, self.latent_size, self.bernoulli, self.depth = classes, latent_size, bernoulli, 4 * width
        self.code_in = nn.Linear(latent_size + classes, 16 * self.depth)
        self.up1 = nn.ConvTranspose2d(self.depth, 2 * width, 5)
        self.up2 = nn.ConvTranspose2d(2 * width, width, 5)
        self.up3 = nn.ConvTranspose2d(width, channels, 8 if self.side == 28 else 10, stride=2)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """latents: float [n, latent_size], standard normal; labels: int64 [n]. Returns [n, C, H, W]."""
        x = pixel_norm(F.relu(self.code_in(_codes(self, latents, labels)).view(-1, self.depth, 4, 4)))
        x = self.up1(x)
        x = pixel_norm(F.relu(x[:, :, :7, :7] if self.side == 28 else x))
        x = pixel_norm(F.relu(self.up2(x)))
        return torch.sigmoid(self.up3(x))


class ProjectionCritic(nn.Module):
    """Images and labels to one number: three 5x5 convolutions, a linear layer, and a projection on the label's embedding.

    It is piecewise linear in the image. `stacked_critics.py` computes many of them at once; this is the definition. `width`
    is the channels of the first layer. The paper's net has 64, 1,071,105 parameters.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 64) -> None:
        super().__init__()
        channels, _ = channels_and_side(shape, _SIDES, "the gs-wgan nets")
        depths = (channels, width, 2 * width, 4 * width)
        self.downs = nn.ModuleList(
            Spectral(nn.Conv2d(depths[i], depths[i + 1], 5, stride=2, padding=2)) for i in range(3)
        )
        self.out = Spectral(nn.Linear(16 * depths[3], 1))
        self.embedding = Spectral(nn.Embedding(classes, 16 * depths[3]))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """images: float [n, C, H, W] in [0, 1]; labels: int64 [n]. Returns [n]."""
        x = images
        for down in self.downs:
            assert isinstance(down, Spectral)
            x = F.relu(F.conv2d(x, down.divided(), down.bias, stride=2, padding=2))
        heads = self.out.divided() + self.embedding.divided()  # <w, h> + <e_y, h> = <w + e_y, h>
        assert self.out.bias is not None
        return (x.flatten(1) * heads[labels]).sum(1) + self.out.bias


class Spectral(nn.Module):
    """Weight and bias of a layer, the weight divided by its largest singular value where it is used.

    The weight counts as a matrix of its first dimension by the rest.
    """

    direction: Tensor

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.weight: Tensor = layer.weight  # type: ignore[assignment]  # every layer given here has one
        self.bias: Tensor | None = getattr(layer, "bias", None)
        start = torch.nn.functional.normalize(torch.randn(len(self.weight)), dim=0)
        self.register_buffer("direction", start)
        for _ in range(ROUNDS):
            self.iterate()

    @torch.no_grad()
    def iterate(self) -> None:
        """One step of the power iteration on the direction (u of Miyato et al.)."""
        matrix = self.weight.flatten(1)
        self.direction.copy_(F.normalize(matrix @ F.normalize(self.direction @ matrix, dim=0), dim=0))

    def divided(self) -> Tensor:
        """The weight over its spectral norm; takes a step of the power iteration in training mode. Same shape."""
        if self.training and torch.is_grad_enabled():
            self.iterate()
        matrix = self.weight.flatten(1)
        across = F.normalize(self.direction @ matrix.detach(), dim=0)
        return self.weight / (self.direction.clone() @ matrix @ across)


def doubled_conv(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A 3x3 convolution (padding 1) of x with every pixel doubled, without doubling it. [n, I, s, s] to [n, O, 2s, 2s].

    A kernel entry r meets pixel (p + r - 1) // 2, so the two entries that meet one pixel are added beforehand.
    """
    kernel = weight.flip(2, 3).transpose(0, 1)
    kernel = F.pad(kernel, (0, 1)) + F.pad(kernel, (1, 0))
    kernel = F.pad(kernel, (0, 0, 0, 1)) + F.pad(kernel, (0, 0, 1, 0))
    return F.conv_transpose2d(x, kernel, bias, stride=2, padding=1)


def pixel_norm(x: Tensor) -> Tensor:
    """Each pixel's channels divided by their root mean square (Karras et al. 2018, section 4.2). [n, C, H, W]"""
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + _EPSILON)


def _codes(net: "ResNetGenerator | DcganGenerator", latents: Tensor, labels: Tensor) -> Tensor:
    if net.bernoulli:
        latents = (latents > 0).to(latents.dtype)
    return torch.cat([latents, F.one_hot(labels, net.classes).to(latents.dtype)], 1)
