"""Taped pairs as patches: how the input and the output gradient of every kind of layer meet in its weight.

For records lo to hi, `patches` gives u [m, columns, T] and b [m, rows, T] such that b u^T is the gradient as a matrix of
rows x columns. T counts the positions at which a record meets the weight: one in a plain linear map, the pixels of the
output in a convolution. The groups of a convolution fold into m. Transposed convolutions are ordinary ones in which input
and output gradient have changed places. The columns of a convolution run over taps first and channels last: the channels
of a pixel then lie side by side, and unfolding copies them in one go. `by_taps` and `by_channels` go between that order
and the parameter's own; norms do not care.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from gossamer.privacy.operations import Call, Convolution, Embedding, Linear, Planes
from gossamer.privacy.rounding import gram

_Phases: TypeAlias = tuple[
    tuple[int, ...], list[int]
]  # shifts, and the phases of the stride that are met at just these


def pair(call: Call) -> tuple[Tensor, Tensor]:
    """a and b of a call, at least in single precision: rounded numbers define the gradient, their norms are exact."""
    return _widened(given(call.a)), _widened(given(call.b))


def _widened(t: Tensor) -> Tensor:
    return t.float() if t.dtype in (torch.bfloat16, torch.float16) else t


def given(t: Tensor | None) -> Tensor:
    assert t is not None
    return t


def matrix(call: Call, shape: torch.Size) -> tuple[int, int]:
    """Rows and columns of the weight as a matrix, per group."""
    rows = shape[0]
    return rows // groups_of([call]), shape.numel() // rows


def groups_of(calls: list[Call]) -> int:
    op = calls[0].op
    return op.groups if isinstance(op, Convolution) else 1


def positions(call: Call) -> int:
    """T: how often one row of the batch meets the weight in this call."""
    a, b = pair(call)
    if isinstance(call.op, Convolution):
        return (a if call.op.transposed else b).shape[2:].numel()
    if isinstance(call.op, Planes):
        return b.shape[2:].numel()
    return b.shape[1:-1].numel()


def joined(calls: list[Call], shape: torch.Size, draws: int, lo: int, hi: int) -> tuple[Tensor, Tensor]:
    """u and b of records lo to hi, all uses and draws side by side."""
    both = [patches(call, shape, draws, lo, hi) for call in calls]
    if len(both) == 1:
        return both[0]
    u = torch.cat([u.transpose(1, 2) for u, _ in both], 1).transpose(1, 2)
    return u, torch.cat([b for _, b in both], 2)


def patches(call: Call, shape: torch.Size, draws: int, lo: int, hi: int) -> tuple[Tensor, Tensor]:
    """u [m, columns, T] and b [m, rows, T] of records lo to hi, m = (hi - lo) x groups."""
    a, b = (_records(t, draws, lo, hi) for t in pair(call))
    if isinstance(call.op, Linear):
        return _side_by_side(a.flatten(1, -2) if a.dim() > 2 else a[:, None], draws), _side_by_side(
            b.flatten(1, -2) if b.dim() > 2 else b[:, None], draws
        )
    if isinstance(call.op, Embedding):
        hot = F.one_hot(a.reshape(len(a), -1), shape[0]).to(b.dtype)
        if call.op.padding is not None:
            hot[..., call.op.padding] = 0
        return _side_by_side(b.reshape(*hot.shape[:2], -1), draws), _side_by_side(hot, draws)
    plane = _as_plane(call, shape, a, b)
    return _side_by_side(_unfolded(plane), draws), _side_by_side(plane.y.flatten(2).transpose(1, 2), draws)


def only_patch(call: Call, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """u [n, columns] in the parameter's own order and b [n, rows], of a call that meets the weight at one position."""
    if isinstance(call.op, (Convolution, Planes)):
        plane = _plane(call, shape, 0, len(given(call.b)))
        if plane.kernel == tuple(plane.x.shape[2:]) and plane.padding == (0, 0) and plane.dilation == (1, 1):
            return plane.x.flatten(1), plane.y.flatten(1)  # the one patch is the whole input
    u, b = patches(call, shape, 1, 0, len(given(call.b)))
    return by_channels(u.squeeze(2), taps_of([call], shape)), b.squeeze(2)


def taps_of(calls: list[Call], shape: torch.Size) -> int:
    """Taps of a convolution's kernel; 1 for all else."""
    return shape[2:].numel() if any(isinstance(call.op, (Convolution, Planes)) for call in calls) else 1


def by_taps(columns: Tensor, taps: int) -> Tensor:
    """[..., channels x taps], the parameter's own order, to [..., taps x channels]."""
    return columns if taps == 1 else columns.unflatten(-1, (-1, taps)).transpose(-1, -2).flatten(-2)


def by_channels(columns: Tensor, taps: int) -> Tensor:
    """[..., taps x channels] to [..., channels x taps], the parameter's own order."""
    return columns if taps == 1 else columns.unflatten(-1, (taps, -1)).transpose(-1, -2).flatten(-2)


def _records(t: Tensor, draws: int, lo: int, hi: int) -> Tensor:
    """Rows of records lo to hi, draw by draw: [draws x (hi - lo), ...]."""
    if draws == 1:
        return t[lo:hi]
    n = len(t) // draws
    return t.view(draws, n, *t.shape[1:])[:, lo:hi].flatten(0, 1)


def folded(rows: Tensor, draws: int) -> Tensor:
    """Rows of the batch added up by record: [draws x n, ...] to [n, ...]."""
    return rows if draws == 1 else rows.reshape(draws, len(rows) // draws, *rows.shape[1:]).sum(0)


def _side_by_side(t: Tensor, draws: int) -> Tensor:
    """[draws x m, T, features] to [m, features, draws x T]."""
    if draws == 1:
        return t.transpose(1, 2)
    return t.reshape(draws, len(t) // draws, *t.shape[1:]).permute(1, 3, 0, 2).flatten(2)


@dataclass(frozen=True)
class _Plane:
    """A convolution in two dimensions: x is unfolded, y stands beside it. Transposed ones have changed places."""

    x: Tensor  # [m, columns / taps, H, W]
    y: Tensor  # [m, rows, Ho, Wo]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]


def _plane(call: Call, shape: torch.Size, lo: int, hi: int) -> _Plane:
    a, b = pair(call)
    return _as_plane(call, shape, a[lo:hi], b[lo:hi])


def _as_plane(call: Call, shape: torch.Size, a: Tensor, b: Tensor) -> _Plane:
    """One-dimensional, transposed, grouped and constant inputs, all in one form."""
    op = call.op
    if isinstance(op, Planes):
        a, op = a[:, :, None, None].expand(*a.shape, *op.size), op.convolution
    assert isinstance(op, Convolution)
    x, y = (b, a) if op.transposed else (a, b)
    x, y = (_apart(t if t.dim() == 4 else t.unsqueeze(2), op.groups) for t in (x, y))
    flat = len(shape) == 3
    kernel = (1, shape[2]) if flat else (shape[2], shape[3])
    stride = (1, op.stride[0]) if flat else (op.stride[0], op.stride[1])
    padding = (0, op.padding[0]) if flat else (op.padding[0], op.padding[1])
    dilation = (1, op.dilation[0]) if flat else (op.dilation[0], op.dilation[1])
    return _Plane(x, y, kernel, stride, padding, dilation)


def _unfolded(plane: _Plane) -> Tensor:
    """[m, T, taps x channels]. What F.unfold gives in another order, four times faster: it gathers pixel by pixel."""
    padded = _channels_last(plane)
    m, _, _, channels = padded.shape
    image, row, pixel, _ = padded.stride()
    (down, right), (tall, wide) = plane.stride, plane.dilation
    windows = padded.as_strided(
        (m, *plane.y.shape[2:], *plane.kernel, channels),
        (image, down * row, right * pixel, tall * row, wide * pixel, 1),
    )
    return windows.reshape(m, plane.y.shape[2:].numel(), math.prod(plane.kernel) * channels)


def _channels_last(plane: _Plane) -> Tensor:
    """[m, H, W, C], x with its padding: every tap of every position is inside."""
    m, channels, height, width = plane.x.shape
    top, left = plane.padding
    padded = plane.x.new_zeros(m, height + 2 * top, width + 2 * left, channels)
    padded[:, top : top + height, left : left + width] = plane.x.permute(0, 2, 3, 1)
    return padded


def _apart(t: Tensor, groups: int) -> Tensor:
    """[m, C, H, W] to [m x groups, C / groups, H, W]."""
    return t if groups == 1 else t.reshape(len(t) * groups, t.shape[1] // groups, *t.shape[2:])


def beside(call: Call, lo: int, hi: int) -> Tensor:
    """[m, rows, T], what stands beside the unfolded side."""
    assert isinstance(call.op, Convolution)
    a, b = pair(call)
    y = (a if call.op.transposed else b)[lo:hi]
    return _apart(y if y.dim() == 4 else y.unsqueeze(2), call.op.groups).flatten(2)


def unfolded_size(call: Call, shape: torch.Size, draws: int) -> int:
    """Numbers that unfolding writes for one record."""
    if not isinstance(call.op, (Convolution, Planes)):
        return 0
    return draws * positions(call) * matrix(call, shape)[1] * groups_of([call])


def embedding_grams(calls: list[Call], draws: int, lo: int, hi: int) -> tuple[Tensor, Tensor]:
    """Two tokens share a row of the table where their indices are equal. Both [m, T, T]."""
    indices, gradients = [], []
    for call in calls:
        assert isinstance(call.op, Embedding)
        a, b = (_records(t, draws, lo, hi) for t in pair(call))
        a = a.reshape(len(a), -1)
        if call.op.padding is not None:
            # A non-finite b must still show, so that it stays in the Gram of b; the index alone is taken out.
            a = a.masked_fill(a == call.op.padding, -1)
        indices.append(_side_by_side(a[:, :, None], draws))
        gradients.append(_side_by_side(b.reshape(*a.shape, -1), draws))
    index, b = torch.cat(indices, 2), torch.cat(gradients, 2)
    same = (index.transpose(1, 2) == index) & (index >= 0)
    return same.to(b.dtype), gram(b)


# The phase form.


def _phases(taps: int, stride: int, dilation: int) -> list[tuple[tuple[int, ...], list[int]]]:
    """Which phases of the stride the taps meet, and at which shifts: phases with the same shifts stand together."""
    shifts: dict[int, list[int]] = {}
    for tap in range(taps):
        shifts.setdefault(tap * dilation % stride, []).append(tap * dilation // stride)
    together: dict[tuple[int, ...], list[int]] = {}
    for phase, steps in shifts.items():
        together.setdefault(tuple(steps), []).append(phase)
    return list(together.items())


def _phase_groups(
    plane: _Plane,
) -> Iterator[tuple[tuple[tuple[int, ...], list[int]], tuple[tuple[int, ...], list[int]]]]:
    for vertical in _phases(plane.kernel[0], plane.stride[0], plane.dilation[0]):
        for horizontal in _phases(plane.kernel[1], plane.stride[1], plane.dilation[1]):
            yield vertical, horizontal


def _span(shifts: tuple[int, ...], outputs: int) -> int:
    return outputs + max(shifts) - min(shifts)


def phase_work(call: Call, shape: torch.Size) -> tuple[int, int]:
    """Multiplications and numbers written for one record by `phase_gram` and the Gram matrix beside it."""
    plane = _plane(call, shape, 0, 0)
    t, rows, groups = plane.y.shape[2:].numel(), plane.y.shape[1], groups_of([call])
    channels, (height, width) = plane.x.shape[1], plane.y.shape[2:]
    macs, memory = t * t * rows, 3 * t * t
    for (down, phases_down), (right, phases_right) in _phase_groups(plane):
        pixels = _span(down, height) * _span(right, width)
        features = len(phases_down) * len(phases_right) * channels
        macs += pixels * pixels * features
        memory += pixels * features + pixels * pixels + len(down) * len(right) * t * t
    return macs * groups, memory * groups


def phase_gram(call: Call, shape: torch.Size, lo: int, hi: int) -> Tensor:
    """[m, T, T], the Gram matrix of the unfolded patches, without unfolding them."""
    plane = _plane(call, shape, lo, hi)
    padded = _channels_last(plane)
    m, (height, width) = len(padded), plane.y.shape[2:]
    total: Tensor | None = None
    for (down, phases_down), (right, phases_right) in _phase_groups(plane):
        size = _span(down, height), _span(right, width)
        met = list(itertools.product(phases_down, phases_right))
        pixels = padded.new_empty(m, *size, len(met), padded.shape[3])
        for slot, (i, j) in enumerate(met):
            rows = _every(plane.stride[0], min(down), i, size[0])
            pixels[:, :, :, slot] = padded[:, rows, _every(plane.stride[1], min(right), j, size[1])]
        met_twice = gram(pixels.view(m, math.prod(size), -1).transpose(1, 2)).view(m, *size, *size)
        # Taps add up one axis after the other: k + k slices where all pairs would be k k.
        slices = _slices_added([met_twice[:, i : i + height, :, i : i + height] for i in _steps(down)])
        slices = _slices_added([slices[:, :, i : i + width, :, i : i + width] for i in _steps(right)])
        total = slices if total is None else total.add_(slices)
    assert total is not None
    return total.reshape(m, height * width, height * width)


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


def unread(calls: list[Call], shape: torch.Size, draws: int, lo: int, hi: int) -> Tensor | float:
    """Zero, or NaN for a record that holds a non-finite number where no position reads it: a kernel may multiply it by zero."""
    total: Tensor | float = 0.0
    for call in calls:
        if isinstance(call.op, Convolution) and not _reads_all(_plane(call, shape, 0, 0)):
            a, b = pair(call)
            seen = _records(b if call.op.transposed else a, draws, lo, hi).flatten(1)
            total = total + folded((seen * 0).sum(1, keepdim=True), draws).squeeze(1)
    return total


def _reads_all(plane: _Plane) -> bool:
    """Whether every pixel of x is met by some tap."""
    for axis in range(2):
        size, outputs = plane.x.shape[2 + axis], plane.y.shape[2 + axis]
        k, s, p, d = plane.kernel[axis], plane.stride[axis], plane.padding[axis], plane.dilation[axis]
        read = {s * t + d * i - p for t in range(outputs) for i in range(k)}
        if not set(range(size)) <= read:
            return False
    return True
