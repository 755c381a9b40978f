"""What a network can do with a weight, as far as the fast clipped sum knows it: one class per kind of layer.

Each computes its output and the gradient of its input, and no gradient of the weight: that is for `norms`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Operation(Protocol):
    """What one use of a weight computes."""

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """The ordinary output."""
        ...

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        """The gradient of the input a, from b, the gradient of the output."""
        ...


@dataclass(frozen=True)
class Linear:
    """y = a W^T + bias. a: [n, ..., D]; weight: [p, D]."""

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """[n, ..., p]"""
        assert weight is not None
        return F.linear(a, weight, bias)

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        """[n, ..., D]"""
        del a
        assert weight is not None
        return b @ weight


@dataclass(frozen=True)
class Convolution:
    """One- or two-dimensional convolution, transposed or not. a: [n, C, (H,) W]; one number per spatial dimension."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool = False
    output_padding: tuple[int, ...] = (0, 0)

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """[n, p, (Ho,) Wo]"""
        assert weight is not None
        return torch.convolution(
            a, weight, bias, self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups
        )

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        """[n, C, (H,) W]"""
        assert weight is not None
        return self._backward(b, a, weight, [True, False, False])[0]

    def weight_gradient(self, b: Tensor, a: Tensor, weight: Tensor) -> Tensor:
        """The gradient of the weight, summed over the records, in the shape of the weight."""
        return self._backward(b, a, weight, [False, True, False])[1]

    def _backward(self, b: Tensor, a: Tensor, weight: Tensor, mask: list[bool]) -> Sequence[Tensor]:
        stride, padding, dilation = list(self.stride), list(self.padding), list(self.dilation)
        outer = list(self.output_padding)
        gradients: Sequence[Tensor] = torch.ops.aten.convolution_backward(
            b, a, weight, None, stride, padding, dilation, self.transposed, outer, self.groups, mask
        )
        return gradients


@dataclass(frozen=True)
class Planes:
    """A convolution of constant planes: each channel of a record is one number, repeated over height and width.

    Labels enter a discriminator so: one-hot, expanded over the image. The convolution of a constant is the constant times
    the sum of the taps that fall inside the image, so a small table serves all records. a: [n, C], the numbers.
    """

    convolution: Convolution
    kernel: tuple[int, int]
    size: tuple[int, int]

    def taps(self, like: Tensor) -> Tensor:
        """[kernel height x kernel width, T]: 1 where a tap falls inside the image at an output position, 0 in the padding."""
        plane = torch.ones(1, 1, *self.size, dtype=like.dtype, device=like.device)
        op = self.convolution
        return F.unfold(plane, self.kernel, dilation=op.dilation, padding=op.padding, stride=op.stride)[0]

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """[n, p, Ho, Wo]"""
        assert weight is not None
        p, channels = weight.shape[:2]
        table = (weight.reshape(p * channels, -1) @ self.taps(weight)).view(p, channels, -1).transpose(0, 1)
        out = torch.mm(a, table.reshape(channels, -1))
        height, width = _outputs(self.size, self.kernel, self.convolution)
        if bias is not None:
            out.view(len(a), p, -1).add_(bias.view(1, p, 1))
        return out.view(len(a), p, height, width)

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        """Never asked: planes whose gradient is needed take the ordinary convolution."""
        raise NotImplementedError("planes have no gradient; the tape takes an ordinary convolution where one is needed")


@dataclass(frozen=True)
class Embedding:
    """y = weight[a]. a: int64 [n, ...]; weight: [V, d]. The row `padding` never learns."""

    padding: int | None

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """[n, ..., d]"""
        del bias
        assert weight is not None
        return F.embedding(a, weight)

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        """Never asked: indices have no gradient."""
        raise NotImplementedError("indices have no gradient")


@dataclass(frozen=True)
class Affine:
    """y = a * weight + bias, both broadcast: what follows a normalisation. a: [n, ...]; shape: of weight and bias in y."""

    shape: tuple[int, ...]

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """[n, ...], like a."""
        y = a.clone() if weight is None else a * weight.view(self.shape)
        return y if bias is None else y.add_(bias.view(self.shape))

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        """[n, ...], like a."""
        del a
        return b if weight is None else b * weight.view(self.shape)

    def per_record(self, product: Tensor) -> Tensor:
        """Sum over everything but the record and the dimensions of the weight. product: [n, ...]; gives [n, weight size]."""
        lead = product.dim() - len(self.shape)
        summed = [i for i in range(1, product.dim()) if i < lead or self.shape[i - lead] == 1 != product.shape[i]]
        return (product.sum(summed) if summed else product).reshape(len(product), -1)


@dataclass(eq=False)
class Call:
    """One use of a weight and a bias. a and b are filled in by the backward pass, and stay None if it does not get there.

    Args:
        op: what was computed.
        weight: position of the weight among the parameters; None if it does not learn.
        bias: likewise.
        a: input, [n, ...].
        b: gradient of the output, [n, ...].
    """

    op: Operation
    weight: int | None
    bias: int | None
    a: Tensor | None = None
    b: Tensor | None = None


def _outputs(size: tuple[int, int], kernel: tuple[int, int], op: Convolution) -> tuple[int, int]:
    """Height and width of the output of a convolution."""
    height, width = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, op.stride, op.padding, op.dilation, strict=True)
    )
    return height, width
