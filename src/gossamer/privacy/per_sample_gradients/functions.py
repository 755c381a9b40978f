"""Which functions of torch the tape knows, and the layer that each becomes.

Each function here takes a test whether the tape knows a weight and a bias, and then torch's own arguments. It returns
the layer and its inputs, or None. After None, torch's function stays in place.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from gossamer.privacy.per_sample_gradients.layers.affine import Affine
from gossamer.privacy.per_sample_gradients.layers.convolution import Convolution
from gossamer.privacy.per_sample_gradients.layers.embedding import Embedding
from gossamer.privacy.per_sample_gradients.layers.linear import Linear
from gossamer.privacy.per_sample_gradients.layers.planes import Planes
from gossamer.privacy.per_sample_gradients.uses import Layer

Knows: TypeAlias = Callable[[Tensor | None, Tensor | None], bool]
Found: TypeAlias = tuple[Layer, Tensor, Tensor | None, Tensor | None]
"""The layer, its input, weight and bias."""


def _linear(knows: Knows, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Found | None:  # noqa: A002  # torch's name
    if input.dim() < 2 or weight.dim() != 2 or not knows(weight, bias):  # a weight of one row may come as a vector
        return None
    return Linear(), input, weight, bias


def _convolution(
    knows: Knows,
    input: Tensor,  # noqa: A002  # torch's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Found | None:
    spatial = weight.dim() - 2
    if input.dim() != weight.dim() or not knows(weight, bias):
        return None
    step, reach = _several(stride, spatial), _several(dilation, spatial)
    if isinstance(padding, str):
        input, edge = _padded(input, padding, weight.shape[2:], reach)  # noqa: A001  # torch's name
    else:
        edge = _several(padding, spatial)
    op = Convolution(step, edge, reach, groups, output_padding=(0,) * spatial)
    if spatial == 2 and groups == 1 and _constant(input):
        size, kernel = (input.shape[2], input.shape[3]), (weight.shape[2], weight.shape[3])
        return Planes(op, kernel, size), input[:, :, 0, 0].contiguous(), weight, bias
    return op, input, weight, bias


def _convolution_transposed(
    knows: Knows,
    input: Tensor,  # noqa: A002  # torch's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Found | None:
    spatial = weight.dim() - 2
    if input.dim() != weight.dim() or not knows(weight, bias):
        return None
    step, edge, reach, outer = (_several(v, spatial) for v in (stride, padding, dilation, output_padding))
    return Convolution(step, edge, reach, groups, True, outer), input, weight, bias


def _embedding(
    knows: Knows,
    input: Tensor,  # noqa: A002  # torch's name
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Found | None:
    del norm_type
    if input.dim() < 1 or max_norm is not None or scale_grad_by_freq or sparse or not knows(weight, None):
        return None
    padding = padding_idx if padding_idx is None or padding_idx >= 0 else padding_idx + len(weight)
    return Embedding(padding), input, weight, None


def _layer_norm(
    knows: Knows,
    input: Tensor,  # noqa: A002  # torch's name
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Found | None:
    if input.dim() <= len(normalized_shape) or not knows(weight, bias):
        return None
    plain = F.layer_norm(input, list(normalized_shape), None, None, eps)
    return Affine(tuple(normalized_shape)), plain, weight, bias


def _rms_norm(
    knows: Knows,
    input: Tensor,  # noqa: A002  # torch's name
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Found | None:
    if input.dim() <= len(normalized_shape) or not knows(weight, None):
        return None
    plain = F.rms_norm(input, list(normalized_shape), None, eps)
    return Affine(tuple(normalized_shape)), plain, weight, None


def _group_norm(
    knows: Knows,
    input: Tensor,  # noqa: A002  # torch's name
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Found | None:
    if not knows(weight, bias):
        return None
    plain = F.group_norm(input, num_groups, None, None, eps)
    return Affine((input.shape[1],) + (1,) * (input.dim() - 2)), plain, weight, bias


def _several(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * count if len(numbers) == 1 else numbers


def _padded(
    a: Tensor, padding: str, kernel: Sequence[int], dilation: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...]]:
    """Padding by name as numbers; where "same" needs more on one side than on the other, the input is padded."""
    total = [0 if padding == "valid" else d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    if all(t % 2 == 0 for t in total):
        return a, tuple(t // 2 for t in total)
    sides = [side for t in reversed(total) for side in (t // 2, t - t // 2)]
    return F.pad(a, sides), (0,) * len(total)


def _constant(a: Tensor) -> bool:
    """Whether planes were made by `expand` over height and width, and need no gradient."""
    height, width = a.shape[2:]
    expanded = (height == 1 or a.stride(2) == 0) and (width == 1 or a.stride(3) == 0)
    return height * width > 1 and expanded and not a.requires_grad


KNOWN_FUNCTIONS: dict[Callable[..., Any], Callable[..., Found | None]] = {
    F.linear: _linear,
    F.conv1d: _convolution,
    F.conv2d: _convolution,
    torch.conv1d: _convolution,
    torch.conv2d: _convolution,
    F.conv_transpose1d: _convolution_transposed,
    F.conv_transpose2d: _convolution_transposed,
    torch.conv_transpose1d: _convolution_transposed,
    torch.conv_transpose2d: _convolution_transposed,
    F.embedding: _embedding,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    F.group_norm: _group_norm,
}
