"""The phase form: the Gram matrix of a convolution's patches without unfolding them.

<u_t, u_t'> is assembled from inner products of single pixels. Two taps of a convolution with stride s meet only pixels of one
phase modulo s. So each phase has a small Gram matrix, and every tap adds one slice of it.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from gossamer.privacy.per_sample_gradients.layers.unfolding import Unfolding
from gossamer.privacy.per_sample_gradients.rounding import FEW, gram, paired, roundings
from gossamer.privacy.per_sample_gradients.uses import Uses, Work

_Phases: TypeAlias = tuple[tuple[int, ...], list[int]]
"""Shifts, and the phases of the stride that are met at just these."""


@dataclass(frozen=True)
class StridePhases:
    """For a weight that one convolution uses once. unfolding: of its records lo to hi."""

    unfolding: Callable[[Uses, int, int], Unfolding]

    def work(self, uses: Uses) -> Work:
        """Products of pixels, slices added, and the Gram matrix beside them."""
        here = self.unfolding(uses, 0, 0)
        (height, width), (channels, rows) = here.y.shape[2:], (here.x.shape[1], here.y.shape[1])
        t = height * width
        macs, memory = t * t * rows, 3 * t * t
        for (down, phases_down), (right, phases_right) in _phase_groups(here):
            pixels = _span(down, height) * _span(right, width)
            features = len(phases_down) * len(phases_right) * channels
            macs += pixels * pixels * features
            memory += pixels * features + pixels * pixels + len(down) * len(right) * t * t
        return Work(macs * uses.groups, memory * uses.groups)

    def squares(self, uses: Uses, lo: int, hi: int) -> Tensor:
        here = self.unfolding(uses, lo, hi)
        b = here.y.flatten(2)
        rows, columns = uses.matrix
        # Beside the products of pixels, of which there are more than positions, it sums slices: fewer than two per tap.
        steps = roundings(columns, FEW + 1) + 2 * uses.taps + roundings(rows, b.shape[2])
        return paired(_gram_of_patches(here), gram(b), uses.dtype, steps)


def _gram_of_patches(here: Unfolding) -> Tensor:
    """[m, T, T]"""
    padded = here.padded()
    m, (height, width) = len(padded), here.y.shape[2:]
    total: Tensor | None = None
    for (down, phases_down), (right, phases_right) in _phase_groups(here):
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


def _phase_groups(here: Unfolding) -> Iterator[tuple[_Phases, _Phases]]:
    """Vertical and horizontal phases, in all combinations."""
    vertical, horizontal = (_phases(here.kernel[i], here.stride[i], here.dilation[i]) for i in range(2))
    yield from itertools.product(vertical, horizontal)


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
