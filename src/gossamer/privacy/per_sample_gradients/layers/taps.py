"""Gradients of a convolution with stride 1, tap by tap and without unfolding: for a GPU.

All that a tap meets is the padded image, shifted. Lay the rows of the padded image end to end, and give the output gradient
zeros up to the same width. Then a shift is an offset, and the gradient of a tap is one matrix product of what is there already.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gossamer.privacy.per_sample_gradients.layers.unfolding import Unfolding
from gossamer.privacy.per_sample_gradients.rounding import raised, square_norms
from gossamer.privacy.per_sample_gradients.uses import Call, Uses, Work

MOST_ZEROS = 3.0
"""Pixels of an image with its zeros, for each pixel of the output."""


def serves(here: Unfolding) -> bool:
    """Whether a shift is an offset, and less work than unfolding: a channel unfolds to little, zeros cost as much as pixels."""
    if not helps(here.x.device) or here.stride != (1, 1) or here.dilation != (1, 1):
        return False
    return here.x.shape[1] > 1 and _padded(here).numel() <= MOST_ZEROS * here.y.shape[2:].numel()


def _padded(here: Unfolding) -> torch.Size:
    """Height and width of an image with its zeros."""
    height, width = here.x.shape[2:]
    return torch.Size((height + 2 * here.padding[0], width + 2 * here.padding[1]))


def helps(device: torch.device) -> bool:
    """An H200 takes a sixth of the time that unfolding takes. A CPU, whose cache holds what it unfolds, gains nothing."""
    return device.type != "cpu"


def work_of(here: Unfolding) -> Work:
    """Of one row: T products of a column and a row, with the zeros; both sides are written once."""
    channels, rows, pixels = here.x.shape[1], here.y.shape[1], _padded(here).numel()
    return Work(pixels * rows * channels * math.prod(here.kernel), pixels * (channels + rows))


def gradients(here: Unfolding, multiplicity: int) -> Tensor:
    """[n, rows, taps, channels], of n records with `multiplicity` rows of the batch each: their images lie end to end too."""
    size, (tall, wide) = _padded(here), here.kernel
    shifts = [i * size[1] + j for i in range(tall) for j in range(wide)]
    x = _by_image(here.x, multiplicity, size, here.padding, shifts[-1])
    y = _by_image(here.y, multiplicity, size, (0, 0), 0)
    out = x.new_empty(len(x), y.shape[1], len(shifts), x.shape[1])
    for tap, shift in enumerate(shifts):
        torch.bmm(y, x[:, :, shift : shift + y.shape[2]].transpose(1, 2), out=out[:, :, tap])
    return out


def _by_image(t: Tensor, multiplicity: int, size: torch.Size, at: tuple[int, int], more: int) -> Tensor:
    """[multiplicity x n, C, h, w] to [n, C, multiplicity x H x W + more]: each image in zeros of this size, at this corner."""
    m, channels, height, width = t.shape
    pixels = multiplicity * size.numel()
    out = t.new_zeros(m // multiplicity, channels, pixels + more)
    images = out[:, :, :pixels].unflatten(2, (multiplicity, *size))
    inside = images[..., at[0] : at[0] + height, at[1] : at[1] + width]
    inside.copy_(t.unflatten(0, (multiplicity, -1)).permute(1, 2, 0, 3, 4))
    return out


@dataclass(frozen=True)
class Taps:
    """From the gradients themselves, as `Instantiate`. unfolding: of one call, and of its rows."""

    unfolding: Callable[[Uses, Call, int, int], Unfolding]

    def work(self, uses: Uses) -> Work:
        """Of all rows, and the gradients."""
        rows = [work_of(self.unfolding(uses, call, 0, 0)) for call in uses.calls]
        macs, memory = (
            uses.multiplicity * sum(numbers) for numbers in zip(*((w.macs, w.memory) for w in rows), strict=True)
        )
        return Work(macs, memory + 2 * uses.shape.numel())

    def squares(self, uses: Uses, lo: int, hi: int) -> Tensor:
        total: Tensor | None = None
        lengths: list[tuple[Tensor, Tensor]] = []
        for call in uses.calls:
            here = self.unfolding(uses, call, lo, hi)
            formed = gradients(here, uses.multiplicity)
            total = formed if total is None else total.add_(formed)
            pixels = here.x.square().sum(1, keepdim=True)
            met = F.conv2d(pixels, pixels.new_ones(1, 1, *here.kernel), padding=here.padding)  # |u_t|^2
            lengths.append((met.sqrt(), torch.linalg.vector_norm(here.y, dim=1)))
        assert total is not None
        u, b = (torch.cat([_by_record(t, uses.multiplicity) for t in side], 1) for side in zip(*lengths, strict=True))
        return raised(square_norms(total.flatten(1)), u, b, uses.dtype, 0)


def _by_record(lengths: Tensor, multiplicity: int) -> Tensor:
    """[multiplicity x m, ...] to [m, multiplicity x T]."""
    by_record: Tensor = lengths.flatten(1).unflatten(0, (multiplicity, -1)).transpose(0, 1).flatten(1)
    return by_record
