"""Convolutions: transposed or not, of constant planes, and two ways of their own to norms of gradients.

**By phases**, the Gram matrix of the patches without unfolding them. <u_t, u_t'> is assembled from inner products of single
pixels. Two taps of a convolution with stride s meet only pixels of one phase modulo s. So each phase has a small Gram matrix,
and every tap adds one slice of it.

**By taps**, the gradients of a convolution with stride 1 without unfolding: for a GPU. All that a tap meets is the padded
image, shifted. Lay the rows of the padded image end to end, and give the output gradient zeros up to the same width. Then a
shift is an offset, and the gradient of a tap is one matrix product of what is there already.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from gossamer.privacy.per_sample_gradients.ghost import BY_PATCHES, Call, Layer, NormRule, Uses, Work, by_channels
from gossamer.privacy.per_sample_gradients.rounding import FEW, gram, paired, raised, roundings, square_norms

MOST_ZEROS = 3.0
"""Pixels of an image with its zeros, for each pixel of the output, up to which gradients are formed tap by tap."""
_Phases: TypeAlias = tuple[tuple[int, ...], list[int]]
"""Shifts, and the phases of the stride that are met at just these."""


@dataclass(frozen=True)
class Convolution(Layer):
    """One- or two-dimensional convolution, transposed or not. a: [n, C, (H,) W]; y: [n, p, (Ho,) Wo].

    Settings have one number per spatial dimension. In a transposed one, input and output gradient have changed places.
    """

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = (0, 0)

    def forward(self, a: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.convolution(
            a, weight, bias, self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups
        )

    def input_gradient(self, b: Tensor, weight: Tensor, a: Tensor) -> Tensor:
        return self._backward(b, a, weight, [True, False, False])[0]

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        out.add_(self._backward(b, a, out, [False, True, False])[1])

    def _backward(self, b: Tensor, a: Tensor, weight: Tensor, mask: list[bool]) -> Sequence[Tensor]:
        settings = (self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups)
        gradients: Sequence[Tensor] = torch.ops.aten.convolution_backward(b, a, weight, None, *settings, mask)
        return gradients

    def bias_gradients(self, b: Tensor) -> Tensor:
        return b.flatten(2).sum(2)

    def methods(self, uses: Uses) -> Mapping[str, NormRule]:
        """Gram, instantiate (by taps where that serves), and phase for a weight that is used once."""
        ways = dict(BY_PATCHES)
        if all(
            isinstance(call.layer, Convolution) and call.layer.by_taps(*call.pair, uses.shape) for call in uses.calls
        ):
            ways["instantiate"] = BY_TAPS
        if uses.alone:
            ways["phase"] = BY_PHASES
        return ways

    def by_taps(self, a: Tensor, b: Tensor, shape: torch.Size) -> bool:
        """Whether gradients are formed tap by tap: a shift is an offset, and it is less work than unfolding.

        A channel unfolds to little, and zeros cost as much as pixels.
        """
        if not taps_help(b.device) or self.groups > 1:
            return False
        here = self.unfolding(a[:0], b[:0], shape)
        if here.stride != (1, 1) or here.dilation != (1, 1) or here.x.shape[1] == 1:
            return False
        return here.size.numel() <= MOST_ZEROS * here.y.shape[2:].numel()

    def formed(self, a: Tensor, b: Tensor, shape: torch.Size, multiplicity: int) -> Tensor | None:
        """By taps, where that serves."""
        if not self.by_taps(a, b, shape):
            return None
        return gradients(self.unfolding(a, b, shape), multiplicity).flatten(1)

    def product(self, uses: Uses) -> tuple[Tensor, Tensor] | None:
        """b outer the one patch, where a record has only one."""
        a, b = uses.calls[0].pair
        if self.groups > 1 or self.positions(a, b) != 1:
            return None
        here = self.unfolding(a, b, uses.shape)
        columns = here.x.flatten(1) if here.is_plain() else by_channels(here.patches().squeeze(1), uses.taps)
        return columns, here.y.flatten(1)

    def taps(self, shape: torch.Size) -> int:
        return shape[2:].numel()

    def positions(self, a: Tensor, b: Tensor) -> int:
        """Pixels of the output; of the input, if transposed."""
        return self._sides(a, b)[1].shape[2:].numel()

    def patches(self, a: Tensor, b: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """u [n x groups, T, taps x channels] and b [n x groups, T, rows]."""
        here = self.unfolding(a, b, shape)
        return here.patches(), here.y.flatten(2).transpose(1, 2)

    def unfolded(self, a: Tensor, b: Tensor, shape: torch.Size) -> int:
        return self.positions(a, b) * (shape.numel() // shape[0]) * self.groups

    def partly_read(self, a: Tensor, b: Tensor, shape: torch.Size) -> Tensor | None:
        """What is unfolded, where the stride leaves pixels out."""
        return None if self.unfolding(a[:0], b[:0], shape).reads_all() else self._sides(a, b)[0]

    def unfolding(self, a: Tensor, b: Tensor, shape: torch.Size) -> "Unfolding":
        """One-dimensional, transposed and grouped ones, all in one form. shape: of the weight."""
        x, y = (self._apart(t if t.dim() == 4 else t.unsqueeze(2)) for t in self._sides(a, b))
        return Unfolding(x, y, _two(shape[2:], 1), _two(self.stride, 1), _two(self.padding, 0), _two(self.dilation, 1))

    def _sides(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """What is unfolded, and the other."""
        return (b, a) if self.transposed else (a, b)

    def _apart(self, t: Tensor) -> Tensor:
        """[m, C, H, W] to [m x groups, C / groups, H, W]."""
        return t if self.groups == 1 else t.reshape(len(t) * self.groups, t.shape[1] // self.groups, *t.shape[2:])


def taps_help(device: torch.device) -> bool:
    """An H200 takes a sixth of the time that unfolding takes. A CPU, whose cache holds what it unfolds, gains nothing."""
    return device.type != "cpu"


def _two(numbers: Sequence[int], above: int) -> tuple[int, int]:
    """Vertical and horizontal; `above` is the vertical one of a convolution in one dimension."""
    return (above, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


@dataclass(frozen=True)
class Planes(Layer):
    """A convolution of constant planes: each channel of a record is one number, repeated over height and width.

    Labels enter a discriminator like this: one-hot, expanded over the image. The convolution of a constant is the
    constant times the sum of the taps inside the image, from a small table. Planes whose gradient is needed take the ordinary
    convolution. Norms by patches are asked for only where a weight is used more than once. Shapes: a [n, C]; y [n, p, Ho, Wo].
    """

    convolution: Convolution
    kernel: tuple[int, int]
    size: tuple[int, int]

    def forward(self, a: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        p, channels = weight.shape[:2]
        table = (weight.reshape(p * channels, -1) @ self._inside(weight)).view(p, channels, -1).transpose(0, 1)
        out = torch.mm(a, table.reshape(channels, -1)).view(len(a), p, -1)
        if bias is not None:
            out.add_(bias.view(1, p, 1))
        op = self.convolution
        reach = self.size[0] + 2 * op.padding[0] - op.dilation[0] * (self.kernel[0] - 1) - 1
        return out.view(len(a), p, reach // op.stride[0] + 1, -1)

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        self.convolution.add_weight_gradient_(out, self._drawn(a), b)

    def bias_gradients(self, b: Tensor) -> Tensor:
        return self.convolution.bias_gradients(b)

    def product(self, uses: Uses) -> tuple[Tensor, Tensor]:
        """The constants, and b summed under each tap."""
        a, b = uses.calls[0].pair
        return a, b.flatten(2) @ self._inside(b).t()

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


@dataclass(frozen=True)
class Unfolding:
    """A convolution in two dimensions, of one group: x is unfolded, y is not. As a matrix product: patches beside pixels."""

    x: Tensor  # [m, columns / taps, H, W]
    y: Tensor  # [m, rows, Ho, Wo]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def size(self) -> torch.Size:
        """Height and width of an image with its zeros."""
        (height, width), (top, left) = self.x.shape[2:], self.padding
        return torch.Size((height + 2 * top, width + 2 * left))

    def patches(self) -> Tensor:
        """[m, T, taps x channels]. What F.unfold gives in another order, four times faster: it gathers pixel by pixel."""
        padded = self.padded()
        m, _, _, channels = padded.shape
        image, row, pixel, _ = padded.stride()
        (down, right), (tall, wide) = self.stride, self.dilation
        windows = padded.as_strided(
            (m, *self.y.shape[2:], *self.kernel, channels),
            (image, down * row, right * pixel, tall * row, wide * pixel, 1),
        )
        return windows.reshape(m, self.y.shape[2:].numel(), math.prod(self.kernel) * channels)

    def padded(self) -> Tensor:
        """[m, H, W, C], x with its padding: every tap of every position is inside."""
        m, channels, height, width = self.x.shape
        top, left = self.padding
        padded = self.x.new_zeros(m, *self.size, channels)
        padded[:, top : top + height, left : left + width] = self.x.permute(0, 2, 3, 1)
        return padded

    def is_plain(self) -> bool:
        """Whether the one patch is the whole input, in its own order."""
        return self.kernel == tuple(self.x.shape[2:]) and self.padding == (0, 0) and self.dilation == (1, 1)

    def reads_all(self) -> bool:
        """Whether every pixel of x is met by some tap."""
        for size, outputs, k, s, p, d in zip(
            self.x.shape[2:], self.y.shape[2:], self.kernel, self.stride, self.padding, self.dilation, strict=True
        ):
            read = {s * t + d * i - p for t in range(outputs) for i in range(k)}
            if not set(range(size)) <= read:
                return False
        return True

    def phases(self) -> Iterator[tuple[_Phases, _Phases]]:
        """Vertical and horizontal phases of the stride, in all combinations."""
        yield from itertools.product(*map(_phases, self.kernel, self.stride, self.dilation))


def _unfolding(uses: Uses, call: Call, lo: int, hi: int) -> Unfolding:
    """The rows of records lo to hi in one call of a convolution."""
    assert isinstance(call.layer, Convolution)
    return call.layer.unfolding(*uses.rows_of(call, lo, hi), uses.shape)


def _work_of_phases(uses: Uses) -> Work:
    """Products of pixels, slices added, and the Gram matrix beside them."""
    here = _unfolding(uses, uses.calls[0], 0, 0)
    (height, width), (channels, rows) = here.y.shape[2:], (here.x.shape[1], here.y.shape[1])
    t = height * width
    macs, memory = t * t * rows, 3 * t * t
    for (down, phases_down), (right, phases_right) in here.phases():
        pixels = _span(down, height) * _span(right, width)
        features = len(phases_down) * len(phases_right) * channels
        macs += pixels * pixels * features
        memory += pixels * features + pixels * pixels + len(down) * len(right) * t * t
    return Work(macs * uses.groups, memory * uses.groups)


def _by_phases(uses: Uses, lo: int, hi: int) -> Tensor:
    """For a weight that one convolution uses once."""
    here = _unfolding(uses, uses.calls[0], lo, hi)
    b = here.y.flatten(2)
    rows, columns = uses.matrix
    # Beside the products of pixels, of which there are more than positions, it sums slices: fewer than two per tap.
    steps = roundings(columns, FEW + 1) + 2 * uses.taps + roundings(rows, b.shape[2])
    return paired(_gram_of_patches(here), gram(b), uses.b.dtype, steps)


def _gram_of_patches(here: Unfolding) -> Tensor:
    """[m, T, T]"""
    padded = here.padded()
    m, (height, width) = len(padded), here.y.shape[2:]
    total: Tensor | None = None
    for (down, phases_down), (right, phases_right) in here.phases():
        size = _span(down, height), _span(right, width)
        met = list(itertools.product(phases_down, phases_right))
        pixels = padded.new_empty(m, *size, len(met), padded.shape[3])
        for slot, (i, j) in enumerate(met):
            rows = _every(here.stride[0], min(down), i, size[0])
            pixels[:, :, :, slot] = padded[:, rows, _every(here.stride[1], min(right), j, size[1])]
        met_twice = gram(pixels.view(m, math.prod(size), -1).transpose(1, 2)).view(m, *size, *size)
        # Taps add up one axis after the other: k + k slices where all pairs would be k k.
        slices = _slices_added([met_twice[:, i : i + height, :, i : i + height] for i in _steps(down)])
        slices = _slices_added([slices[:, :, i : i + width, :, i : i + width] for i in _steps(right)])
        total = slices if total is None else total.add_(slices)
    assert total is not None
    return total.reshape(m, height * width, height * width)


def _phases(taps: int, stride: int, dilation: int) -> list[_Phases]:
    """Which phases of the stride the taps meet, and at which shifts: phases with the same shifts are in one entry."""
    shifts: dict[int, list[int]] = {}
    for tap in range(taps):
        shifts.setdefault(tap * dilation % stride, []).append(tap * dilation // stride)
    together: dict[tuple[int, ...], list[int]] = {}
    for phase, steps in shifts.items():
        together.setdefault(tuple(steps), []).append(phase)
    return list(together.items())


def _span(shifts: tuple[int, ...], outputs: int) -> int:
    return outputs + max(shifts) - min(shifts)


def _steps(shifts: tuple[int, ...]) -> list[int]:
    return [shift - min(shifts) for shift in shifts]


def _slices_added(slices: list[Tensor]) -> Tensor:
    """The sum of at least one tensor, none of which is changed."""
    if len(slices) == 1:
        return slices[0]
    total = slices[0] + slices[1]
    for more in slices[2:]:
        total += more
    return total


def _every(stride: int, first: int, phase: int, count: int) -> slice:
    """The padded pixels stride x (first + q) + phase, for q from 0 to count - 1."""
    start = stride * first + phase
    return slice(start, start + stride * (count - 1) + 1, stride)


def gradients(here: Unfolding, multiplicity: int) -> Tensor:
    """[n, rows, taps, channels], of n records with `multiplicity` rows of the batch each: their images lie end to end too."""
    size, (tall, wide) = here.size, here.kernel
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


def _work_of_taps(uses: Uses) -> Work:
    """T products of a column and a row, with the zeros; both sides are written once. Then the gradients."""
    macs = memory = 0
    for call in uses.calls:
        here = _unfolding(uses, call, 0, 0)
        channels, rows, pixels = here.x.shape[1], here.y.shape[1], here.size.numel()
        macs += uses.multiplicity * pixels * rows * channels * math.prod(here.kernel)
        memory += uses.multiplicity * pixels * (channels + rows)
    return Work(macs, memory + 2 * uses.shape.numel())


def _by_taps(uses: Uses, lo: int, hi: int) -> Tensor:
    """From the gradients themselves, as `BY_PATCHES` does."""
    total: Tensor | None = None
    lengths: list[list[Tensor]] = []
    for call in uses.calls:
        here = _unfolding(uses, call, lo, hi)
        formed = gradients(here, uses.multiplicity)
        total = formed if total is None else total.add_(formed)
        pixels = here.x.square().sum(1, keepdim=True)
        met = F.conv2d(pixels, pixels.new_ones(1, 1, *here.kernel), padding=here.padding)  # |u_t|^2
        both = met.sqrt().flatten(1), torch.linalg.vector_norm(here.y, dim=1).flatten(1)
        lengths.append([uses.side_by_side(t[:, :, None])[:, 0] for t in both])
    assert total is not None
    u, b = (torch.cat(side, 1) for side in zip(*lengths, strict=True))
    return raised(square_norms(total.flatten(1)), u, b, uses.b.dtype, 0)


BY_PHASES, BY_TAPS = NormRule(_work_of_phases, _by_phases), NormRule(_work_of_taps, _by_taps)
