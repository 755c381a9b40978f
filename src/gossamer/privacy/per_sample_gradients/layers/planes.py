"""Convolutions of constant planes."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gossamer.privacy.per_sample_gradients.ghost import BY_PATCHES
from gossamer.privacy.per_sample_gradients.layers.convolution import Convolution
from gossamer.privacy.per_sample_gradients.pieces import without
from gossamer.privacy.per_sample_gradients.rounding import square_norms
from gossamer.privacy.per_sample_gradients.uses import Layer, NormRule, Uses


@dataclass(frozen=True)
class Planes(Layer):
    """A convolution of constant planes: each channel of a record is one number, repeated over height and width.

    Labels enter a discriminator like this: one-hot, expanded over the image. The convolution of a constant is the
    constant times the sum of the taps inside the image, from a small table. Shapes: a [n, C]; y [n, p, Ho, Wo].
    """

    convolution: Convolution
    kernel: tuple[int, int]
    size: tuple[int, int]

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        assert weight is not None
        p, channels = weight.shape[:2]
        table = (weight.reshape(p * channels, -1) @ self._inside(weight)).view(p, channels, -1).transpose(0, 1)
        out = torch.mm(a, table.reshape(channels, -1))
        height, width = _outputs(self.size, self.kernel, self.convolution)
        if bias is not None:
            out.view(len(a), p, -1).add_(bias.view(1, p, 1))
        return out.view(len(a), p, height, width)

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        """Never called: planes whose gradient is needed take the ordinary convolution."""
        raise NotImplementedError("planes have no gradient; the tape takes an ordinary convolution where one is needed")

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        self.convolution.add_weight_gradient_(out, self._drawn(a), b)

    def bias_gradients(self, b: Tensor) -> Tensor:
        return self.convolution.bias_gradients(b)

    def methods(self, uses: Uses) -> Mapping[str, NormRule]:
        """Gram and instantiate; asked only where a weight is used more than once."""
        del uses
        return BY_PATCHES

    def product(self, uses: Uses) -> "PlanesProduct":
        """The constants, and b summed under each tap."""
        a, b = uses.calls[0].pair
        return PlanesProduct(uses.parameter, a, b.flatten(2) @ self._inside(b).t())

    def taps(self, shape: torch.Size) -> int:
        return self.convolution.taps(shape)

    def positions(self, a: Tensor, b: Tensor) -> int:
        return self.convolution.positions(a, b)

    def patches(self, a: Tensor, b: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        return self.convolution.patches(self._drawn(a), b, shape)

    def unfolded(self, a: Tensor, b: Tensor, shape: torch.Size) -> int:
        return self.convolution.unfolded(a, b, shape)

    def _drawn(self, a: Tensor) -> Tensor:
        """[n, C, H, W], the planes."""
        return a[:, :, None, None].expand(*a.shape, *self.size)

    def _inside(self, like: Tensor) -> Tensor:
        """[kernel height x kernel width, T]: 1 where a tap falls inside the image at an output position, 0 in the padding."""
        plane = torch.ones(1, 1, *self.size, dtype=like.dtype, device=like.device)
        op = self.convolution
        return F.unfold(plane, self.kernel, dilation=op.dilation, padding=op.padding, stride=op.stride)[0]


@dataclass(eq=False)
class PlanesProduct:
    """Gradients of a convolution of constant planes. a: [n, C], the constants; b: [n, p, taps], b summed under each tap."""

    parameter: int
    a: Tensor
    b: Tensor

    def squared_norms(self) -> Tensor:
        return square_norms(self.a) * square_norms(self.b.flatten(1))

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        a, b = without(self.a, dropped), without(self.b, dropped)
        total = (a * factors[:, None]).t() @ b.flatten(1)
        p, channels = out.shape[:2]
        out.view(p, channels, -1).add_(total.view(channels, p, -1).transpose(0, 1))


def _outputs(size: tuple[int, int], kernel: tuple[int, int], op: Convolution) -> tuple[int, int]:
    """Height and width of the output of a convolution."""
    height, width = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, op.stride, op.padding, op.dilation, strict=True)
    )
    return height, width
