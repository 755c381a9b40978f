"""Convolutions, transposed or not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer.privacy.per_sample_gradients.ghost import BY_PATCHES
from gossamer.privacy.per_sample_gradients.layers.phase import StridePhases
from gossamer.privacy.per_sample_gradients.layers.taps import Taps, gradients, serves
from gossamer.privacy.per_sample_gradients.layers.unfolding import Unfolding
from gossamer.privacy.per_sample_gradients.pieces import Product, by_channels
from gossamer.privacy.per_sample_gradients.uses import Call, Layer, NormRule, Uses


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

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        assert weight is not None
        return torch.convolution(
            a, weight, bias, self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups
        )

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        assert weight is not None
        return self._backward(b, a, weight, [True, False, False])[0]

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        out.add_(self._backward(b, a, out, [False, True, False])[1])

    def _backward(self, b: Tensor, a: Tensor, weight: Tensor, mask: list[bool]) -> Sequence[Tensor]:
        stride, padding, dilation = list(self.stride), list(self.padding), list(self.dilation)
        outer = list(self.output_padding)
        gradients: Sequence[Tensor] = torch.ops.aten.convolution_backward(
            b, a, weight, None, stride, padding, dilation, self.transposed, outer, self.groups, mask
        )
        return gradients

    def bias_gradients(self, b: Tensor) -> Tensor:
        return b.flatten(2).sum(2)

    def methods(self, uses: Uses) -> Mapping[str, NormRule]:
        """Gram, instantiate (by taps where that serves), and phase for a weight that is used once."""
        ways: dict[str, NormRule] = dict(BY_PATCHES)
        if all(isinstance(call.layer, Convolution) and call.layer.by_taps(*call.pair) for call in uses.calls):
            ways["instantiate"] = Taps(_of_call)
        if uses.alone:
            ways["phase"] = StridePhases(self._of_records)
        return ways

    def by_taps(self, a: Tensor, b: Tensor) -> bool:
        """Whether gradients are formed tap by tap."""
        return self.groups == 1 and serves(self.unfolding(a[:0], b[:0], self._kernel(a, b)))

    def formed(self, a: Tensor, b: Tensor, multiplicity: int) -> Tensor | None:
        """By taps, where that serves."""
        if not self.by_taps(a, b):
            return None
        return gradients(self.unfolding(a, b, self._kernel(a, b)), multiplicity).flatten(1)

    def product(self, uses: Uses) -> Product | None:
        """b outer the one patch, where a record has only one."""
        a, b = uses.calls[0].pair
        if self.groups > 1 or self.positions(a, b) != 1:
            return None
        here = self.unfolding(a, b, uses.shape)
        columns = here.x.flatten(1) if here.is_plain() else by_channels(here.patches().squeeze(1), uses.taps)
        return Product(uses.parameter, columns, here.y.flatten(1))

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

    def unfolding(self, a: Tensor, b: Tensor, shape: torch.Size) -> Unfolding:
        """One-dimensional, transposed and grouped ones, all in one form. shape: of the weight."""
        x, y = (self._apart(t if t.dim() == 4 else t.unsqueeze(2)) for t in self._sides(a, b))
        return Unfolding(x, y, _two(shape[2:], 1), _two(self.stride, 1), _two(self.padding, 0), _two(self.dilation, 1))

    def _kernel(self, a: Tensor, b: Tensor) -> torch.Size:
        """A shape of which `unfolding` reads the kernel; right with stride 1 and dilation 1."""
        x, y = self._sides(a, b)
        sides = [size + 2 * p - o + 1 for size, p, o in zip(x.shape[2:], self.padding, y.shape[2:], strict=True)]
        return torch.Size((1, 1, *sides))

    def _of_records(self, uses: Uses, lo: int, hi: int) -> Unfolding:
        a, b = uses.calls[0].pair
        return self.unfolding(a[lo:hi], b[lo:hi], uses.shape)

    def _sides(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """What is unfolded, and the other."""
        return (b, a) if self.transposed else (a, b)

    def _apart(self, t: Tensor) -> Tensor:
        """[m, C, H, W] to [m x groups, C / groups, H, W]."""
        return t if self.groups == 1 else t.reshape(len(t) * self.groups, t.shape[1] // self.groups, *t.shape[2:])


def _of_call(uses: Uses, call: Call, lo: int, hi: int) -> Unfolding:
    """The rows of records lo to hi in one call."""
    a, b = (uses.rows_of(t, lo, hi) for t in call.pair)
    assert isinstance(call.layer, Convolution)
    return call.layer.unfolding(a, b, uses.shape)


def _two(numbers: Sequence[int], above: int) -> tuple[int, int]:
    """Vertical and horizontal; `above` is the vertical one of a convolution in one dimension."""
    return (above, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
