"""The mathematics of many critics at once: their network as grouped convolutions, and its gradient without double backward.

The critics are `ProjectionCritic`s, kept as rows of one matrix. They are piecewise linear, so the gradient of their loss

    mean D(fake) - mean D(real) + drift mean D(real)^2 + penalty mean (|grad_x D(x^)| - 1)^2

needs no double backward (`privacy/per_sample_gradients/penalty.py` has the derivation). Let g be the gradient of D at the
output of a layer, h the layer's input, and v the penalty's direction pushed forward through the masks of x^. Then the weight's
gradient is

    sum over fakes and records of g outer h, plus sum over points x^ of g outer v

`tests/methods/gs_wgan/test_gs_wgan.py` holds it against double backward, in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.grad import conv2d_input, conv2d_weight

from gossamer.methods.gs_wgan.nets import ProjectionCritic

STRIDE, PADDING = 2, 2
BETAS = (0.5, 0.9)
"""Of Adam, for all networks; the authors' code."""
_TINY = 1e-12


@dataclass(frozen=True)
class Divided:
    """Weight matrices over their spectral norms. directions: [c, o], across: [c, i], norm: [c], weight: [c, o, i]."""

    directions: Tensor
    across: Tensor
    norm: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Network:
    """Effective weights of c critics, for convolutions in c groups."""

    kernels: list[Tensor]
    """[c x out, in, 5, 5], three."""
    biases: list[Tensor]
    """[c x out], three."""
    heads: Tensor
    """[c, classes, features], the last layer and the label's embedding in one."""
    level: Tensor
    """[c], the last bias."""
    divided: list[Divided]
    """The five matrices behind kernels and heads."""


@dataclass(frozen=True)
class Batch:
    """images: [n, c x C, H, W], one group for each critic; labels: int64 [n, c]."""

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Layout:
    """The shape of each parameter in the row of a critic, in the order of `ProjectionCritic.parameters()`.

    These are three times weight and bias, then the last weight and bias, then the embedding.
    """

    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, critic: ProjectionCritic) -> "Layout":
        """The layout of critics like this one."""
        return cls(tuple(tuple(p.shape) for p in critic.parameters()))

    @property
    def classes(self) -> int:
        """Number of labels."""
        return self.shapes[-1][0]

    def flat(self, critic: ProjectionCritic) -> Tensor:
        """Its parameters as one row. [D]"""
        return torch.cat([p.detach().reshape(-1) for p in critic.parameters()])

    def flat_directions(self, critic: ProjectionCritic) -> Tensor:
        """Its directions as one row."""
        return torch.cat([buffer.reshape(-1) for buffer in critic.buffers()])

    @torch.no_grad()
    def put(self, row: Tensor, directions: Tensor, critic: ProjectionCritic) -> None:
        """The inverse of `flat` and `flat_directions`, for one row of each."""
        for parameter, part in zip(critic.parameters(), self.split(row[None]), strict=True):
            parameter.copy_(part[0])
        for buffer, part in zip(critic.buffers(), self._by_matrix(directions[None]), strict=True):
            buffer.copy_(part[0])

    def split(self, rows: Tensor) -> list[Tensor]:
        """Rows [c, D] as parameters [c, *shape]; views."""
        parts = rows.split([int(np.prod(shape)) for shape in self.shapes], 1)
        return [part.view(len(rows), *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def matrices(self, rows: Tensor) -> list[Tensor]:
        """The five weights that are divided, as matrices. [c, out, in]"""
        return [part.flatten(2) for part in self.split(rows) if part.dim() > 2]

    def iterate(self, rows: Tensor, directions: Tensor) -> Tensor:
        """One step of the power iteration on every matrix: new directions."""
        iterated = [
            F.normalize(matrix @ F.normalize(matrix.mT @ u[..., None], dim=1), dim=1)[..., 0]
            for matrix, u in zip(self.matrices(rows), self._by_matrix(directions), strict=True)
        ]
        return torch.cat(iterated, 1)

    def network(self, rows: Tensor, directions: Tensor) -> Network:
        """Effective weights; changes nothing."""
        divided = []
        for matrix, u in zip(self.matrices(rows), self._by_matrix(directions), strict=True):
            across = F.normalize((matrix.mT @ u[..., None])[..., 0], dim=1)
            norm = (u[:, None] @ matrix @ across[..., None])[:, 0, 0]
            divided.append(Divided(u, across, norm, matrix / norm[:, None, None]))
        parts = self.split(rows)
        kernels = [divided[i].weight.reshape(-1, *self.shapes[2 * i][1:]) for i in range(3)]
        heads = divided[3].weight + divided[4].weight
        return Network(kernels, [parts[i].reshape(-1) for i in (1, 3, 5)], heads, parts[7][:, 0], divided)

    def gradient(
        self, rows: Tensor, net: Network, effective: tuple[list[Tensor], list[Tensor], Tensor, Tensor]
    ) -> Tensor:
        """From the gradient of the effective weights, as `penalised` gives it, to that of the rows. [c, D]"""
        kernels, biases, heads, level = effective
        count = len(rows)
        inner = [*(k.view(count, -1, k[0].numel()) for k in kernels), heads.sum(1, keepdim=True), heads]
        outer = []
        for g, d in zip(inner, net.divided, strict=True):
            along = (g * d.weight).sum((1, 2))[:, None, None]
            outer.append((g - along * d.directions[:, :, None] * d.across[:, None]) / d.norm[:, None, None])
        rest = [*biases, level]
        ordered = [part for pair in zip(outer[:4], rest, strict=True) for part in pair]
        return torch.cat([part.reshape(count, -1) for part in [*ordered, outer[4]]], 1)

    def _by_matrix(self, directions: Tensor) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = directions.split([shape[0] for shape in self.shapes if len(shape) > 1], 1)
        return parts


@dataclass(frozen=True)
class Uses:
    """What a forward pass leaves behind. inputs, masks: of the convolutions; hidden, rows: [n, c, features]."""

    inputs: list[Tensor]
    masks: list[Tensor]
    hidden: Tensor
    rows: Tensor


def forward(net: Network, images: Tensor, labels: Tensor) -> Uses:
    """Up to the last layer: D is hidden times rows, plus level. images: [n, c x C, H, W]; labels: [n, c]."""
    count, x = len(net.heads), images
    inputs, masks = [], []
    for kernel, bias in zip(net.kernels, net.biases, strict=True):
        inputs.append(x)
        x = F.conv2d(x, kernel, bias, STRIDE, PADDING, groups=count).relu_()
        masks.append(x > 0)
    rows = net.heads[torch.arange(count, device=labels.device), labels]
    return Uses(inputs, masks, x.reshape(len(x), count, -1), rows)


def backward(net: Network, uses: Uses, weights: Tensor) -> list[Tensor]:
    """Gradient of the sum of weights x D at the output of each convolution, before its ReLU. weights: [n, c]."""
    count = len(net.heads)
    g = (weights[:, :, None] * uses.rows).view(uses.masks[2].shape) * uses.masks[2]
    slopes = [g]
    for i in (2, 1):
        g = conv2d_input(uses.inputs[i].shape, net.kernels[i], g, STRIDE, PADDING, 1, count) * uses.masks[i - 1]
        slopes.insert(0, g)
    return slopes


def penalised(
    net: Network, batch: Batch, penalty: float, drift: float
) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    """Gradient of the mean loss by kernels, biases, heads and level. batch: M fakes, M records, M points between them."""
    count, M = len(net.heads), len(batch.labels) // 3
    ends, between = slice(0, 2 * M), slice(2 * M, None)
    uses = forward(net, batch.images, batch.labels)
    weights = torch.ones_like(uses.hidden[:, :, 0])
    weights[:M] = 1 / M
    value = (uses.hidden[M : 2 * M] * uses.rows[M : 2 * M]).sum(2) + net.level
    weights[M : 2 * M] = (2 * drift * value - 1) / M
    slopes = backward(net, uses, weights)

    points = batch.images[between]
    J = conv2d_input(points.shape, net.kernels[0], slopes[0][between], STRIDE, PADDING, 1, count)
    J = J.reshape(M, count, -1)
    length = torch.linalg.vector_norm(J, dim=2, keepdim=True)
    v = (J * (2 * penalty / M * (1 - 1 / length.clamp(min=_TINY)))).reshape(points.shape)
    kernels = []
    for i, kernel in enumerate(net.kernels):
        met = torch.cat([uses.inputs[i][ends], v])
        kernels.append(conv2d_weight(met, kernel.shape, slopes[i], STRIDE, PADDING, 1, count))
        v = F.conv2d(v, kernel, None, STRIDE, PADDING, groups=count) * uses.masks[i][between]
    biases = [slope[ends].sum((0, 2, 3)) for slope in slopes]
    met = torch.cat([uses.hidden[ends] * weights[ends, :, None], v.reshape(M, count, -1)])
    codes = F.one_hot(batch.labels, net.heads.shape[1]).to(met.dtype)
    return kernels, biases, torch.einsum("ncy,ncf->cyf", codes, met), weights[ends].sum(0)


def adam(rows: Tensor, g: Tensor, mean: Tensor, square: Tensor, step: Tensor, rate: float) -> None:
    """One step of Adam (Kingma and Ba 2015) on each row, in place; step: [c], counted from 1 for each critic."""
    first, second = BETAS
    mean.lerp_(g, 1 - first)
    square.mul_(second).addcmul_(g, g, value=1 - second)
    scale = (1 - second**step).sqrt()[:, None]
    rows.addcdiv_(mean * (scale / (1 - first**step)[:, None]), square.sqrt().add_(1e-8 * scale), value=-rate)


def rounded(rows: Tensor, dtype: torch.dtype, streams: Sequence[torch.Generator]) -> Tensor:
    """Rows as they are stored. To bfloat16 each number is rounded up or down at random, and right on average.

    A step of Adam is often smaller than the spacing of bfloat16: rounding to the nearest would lose it.
    """
    if dtype != torch.bfloat16:
        return rows.to(dtype)
    low = [torch.randint(1 << 16, rows.shape[1:], generator=stream, dtype=torch.int32) for stream in streams]
    bits = rows.view(torch.int32) + torch.stack(low).to(rows.device)
    return (bits & -(1 << 16)).view(torch.float32).to(dtype)
