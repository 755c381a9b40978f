"""Codes of pictures in features of a small classifier. Everything here is learnt from public pictures, or from drawn ones."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

SLOPE = 0.1
HIDDEN = 256
WITHIN = 0.95
"""Share of public codes that are not shortened."""
_AT_ONCE = 1_000
"""Pictures that go through the network at once."""
_SPOILT = 4_000
"""Public pictures that are spoilt, at most."""


class Classifier(nn.Module):
    """Three convolutions and two linear layers, whose activations are features. Pictures of 28x28 or 32x32.

    The first convolution has `width` channels.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], width, 5, padding=2)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.conv3 = nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1)
        self.hidden = nn.Linear(2 * width * 4 * 4, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def logits(self, images: Tensor) -> Tensor:
        """images: float [n, C, H, W] in [0, 1]. Returns [n, classes]."""
        logits: Tensor = self.out(self._layers(images)[-1])
        return logits

    def forward(self, images: Tensor) -> list[Tensor]:
        """Blocks of features, each [n, D_j]: hidden layer, last convolution, Gram matrices of the first two, and pixels.

        images: float [n, C, H, W] in [0, 1].
        """
        first, second, third, hidden = self._layers(images)
        return [hidden, third.flatten(1), _gram(first), _gram(second), images.flatten(1)]

    def _layers(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        first = _active(self.conv1(images))
        second = F.max_pool2d(_active(self.conv2(F.max_pool2d(first, 2))), 2)
        third = _active(self.conv3(second))
        return first, second, third, _active(self.hidden(third.flatten(1)))


def _active(x: Tensor) -> Tensor:
    """The leaky ReLU, in place: no layer before it needs its output for the backward pass."""
    return F.leaky_relu(x, SLOPE, inplace=True)


def sizes(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    """D_j, the length of each block of features."""
    grams = tuple(w * (w + 1) // 2 for w in (width, 2 * width))
    return HIDDEN, 2 * width * 4 * 4, *grams, torch.Size(shape).numel()


def _gram(activations: Tensor) -> Tensor:
    """What channels have in common, on average over positions. [n, w, H, W] to [n, w (w + 1) / 2]"""
    positions = activations.permute(0, 2, 3, 1).flatten(1, 2)
    products: Tensor = _Products.apply(positions) / positions.shape[1]  # type: ignore[no-untyped-call]  # torch gives it no types
    i, j = torch.triu_indices(products.shape[1], products.shape[1], device=products.device)
    return products[:, i, j]


class _Products(torch.autograd.Function):
    """X^T X of [n, p, w]. Autograd alone makes two gradients of X and adds them, in another layout than X has."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return rows.transpose(1, 2) @ rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        rows: Tensor
        (rows,) = ctx.saved_tensors
        return rows @ (gradient + gradient.transpose(1, 2))


class Codes(nn.Module):
    """Blocks of codes of pictures. Of features phi in block j of a picture of class y,

        z_j = (V_j^T (phi_j - m_j) - c_jy) / R_j,

    with principal axes V_j, the mean m_j, class means c_jy and a radius R_j, all of public pictures. A block of features has at
    most `axes` of them, the pixels at most `pixel_axes`. `width` is that of the classifier.
    """

    radii: Tensor

    def __init__(self, shape: tuple[int, ...], classes: int, *, width: int, axes: int, pixel_axes: int) -> None:
        super().__init__()
        self.net = Classifier(shape, classes, width)
        *features, pixels = sizes(shape, width)
        self.axes = [*(min(axes, size) for size in features), min(pixel_axes, pixels)]
        for j, (size, d) in enumerate(zip([*features, pixels], self.axes, strict=True)):
            self.register_buffer(f"basis{j}", torch.eye(size, d))
            self.register_buffer(f"mean{j}", torch.zeros(size))
            self.register_buffer(f"centres{j}", torch.zeros(classes, d))
        self.register_buffer("radii", torch.ones(len(self.axes)))

    def forward(self, images: Tensor, labels: Tensor) -> list[Tensor]:
        """Codes that may be longer than 1: one [n, d_j] for each block. images: [n, C, H, W] in [0, 1]; labels: int64 [n]"""
        projected = self._projected(self.net(images))
        centres = self._each("centres")
        return [(p - c[labels]) / R for p, c, R in zip(projected, centres, self.radii, strict=True)]

    @torch.no_grad()
    def fit(self, images: Tensor, labels: Tensor, stream: torch.Generator) -> None:
        """Take axes, means and radii from public pictures, in place; a class without any has the mean of all.

        The axes are those of the pictures together with spoilt ones, so that they span what fakes get wrong, too. `stream` is
        that of what spoils.
        """
        whole, broken = self._features(images), self._features(corrupted(images[:_SPOILT], stream))
        buffers = self._each("basis"), self._each("mean"), self._each("centres")
        for j, (own, bad, basis, mean, centres) in enumerate(zip(whole, broken, *buffers, strict=True)):
            mean.copy_(own.mean(0))
            basis.copy_(principal(torch.cat([own, bad]), basis.shape[1]))
            codes = (own - mean) @ basis
            for label in range(len(centres)):
                of_class = codes[labels == label]
                centres[label] = of_class.mean(0) if len(of_class) else codes.mean(0)
            self.radii[j] = (codes - centres[labels]).norm(dim=1).quantile(WITHIN).clamp(min=1e-6)

    def _features(self, images: Tensor) -> list[Tensor]:
        pieces = [self.net(piece) for piece in images.split(_AT_ONCE)]
        return [torch.cat(block) for block in zip(*pieces, strict=True)]

    def _projected(self, features: list[Tensor]) -> Iterator[Tensor]:
        for block, basis, mean in zip(features, self._each("basis"), self._each("mean"), strict=True):
            yield (block - mean) @ basis

    def _each(self, name: str) -> list[Tensor]:
        return [self.get_buffer(f"{name}{j}") for j in range(len(self.axes))]


def corrupted(images: Tensor, stream: torch.Generator) -> Tensor:
    """The same pictures, each spoilt in one of four ways: noise, blur, pixels left out, a checkerboard. [n, C, H, W]"""
    noisy, blurred, holed, checked = (images[way::4] for way in range(4))
    noise = torch.randn(noisy.shape, generator=stream).to(images)
    mask = (torch.rand(holed.shape, generator=stream) > 0.3).to(images)
    rows, columns = (torch.arange(size, device=images.device) for size in images.shape[2:])
    board = 0.5 + 0.5 * ((rows[:, None] + columns) % 2)
    blurred = F.avg_pool2d(F.pad(blurred, (1, 1, 1, 1)), 3, 1)
    return torch.cat([(noisy + 0.3 * noise).clamp(0, 1), blurred, holed * mask, checked * board])


def principal(rows: Tensor, axes: int) -> Tensor:
    """Orthonormal axes along which rows [n, D] spread most, each in one of its two directions. [D, axes]"""
    wide = rows.double()
    wide = wide - wide.mean(0)
    if axes <= len(wide) < wide.shape[1]:  # fewer rows than numbers in one: much the smaller problem
        basis = torch.linalg.svd(wide, full_matrices=False).Vh[:axes].t()
    else:
        _, vectors = torch.linalg.eigh(wide.t() @ wide)
        basis = vectors[:, -axes:].flip(1)
    directed: Tensor = basis * torch.sign(basis.gather(0, basis.abs().argmax(0, keepdim=True)))
    return directed.to(rows)
