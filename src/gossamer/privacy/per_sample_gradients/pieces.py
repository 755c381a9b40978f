"""What the records of a batch contribute to one parameter: a piece knows their norms, and adds up their gradients.

The columns of a convolution run over taps first and channels last, so that unfolding copies the channels of a pixel in one go.
`by_taps` and `by_channels` go between that order and the parameter's own. Norms are the same in both.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gossamer.privacy.per_sample_gradients.rounding import square_norms


class Piece(Protocol):
    """What the records of a batch contribute to one parameter."""

    @property
    def parameter(self) -> int:
        """Position among the parameters."""

    def squared_norms(self) -> Tensor:
        """[n] float64, squared L2 norm of what each record can add, rounding included; not finite where its gradient is not."""

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """Add the sum over records of factor x gradient to out, which has the parameter's shape. dropped: bool [n] or None."""


@dataclass(eq=False)
class Instantiated:
    """Per-record gradients that were formed. rows: [n, size of the parameter]; of a convolution, taps before channels."""

    parameter: int
    rows: Tensor
    taps: int = 1

    def squared_norms(self) -> Tensor:
        return square_norms(self.rows)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        total = factors @ without(self.rows, dropped)
        if self.taps > 1:
            total = by_channels(total.view(len(out), -1), self.taps)
        out.add_(total.view(out.shape))


@dataclass(eq=False)
class Product:
    """Gradients of rank one: b outer a. a: [n, columns]; b: [n, rows], for a parameter of rows x columns numbers."""

    parameter: int
    a: Tensor
    b: Tensor

    def squared_norms(self) -> Tensor:
        return square_norms(self.a) * square_norms(self.b)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        a, b = scaled(without(self.a, dropped), without(self.b, dropped), factors)
        out.view(b.shape[1], a.shape[1]).addmm_(b.t(), a)

    def write_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """The same, overwriting out, which is not read."""
        a, b = scaled(without(self.a, dropped), without(self.b, dropped), factors)
        torch.mm(b.t(), a, out=out.view(b.shape[1], a.shape[1]))


def scaled(a: Tensor, b: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """a and b with the factors, [n], multiplied into the smaller one; never into indices.

    Never in place: other calls may hold the same tensor.
    """
    if a.numel() < b.numel() and a.is_floating_point():
        return a * _column(factors, a), b
    return a, b * _column(factors, b)


def without(t: Tensor, dropped: Tensor | None) -> Tensor:
    """t with the dropped records, bool [n], at zero. By `where`, because zero times NaN is NaN."""
    if dropped is None or not t.is_floating_point():
        return t
    return torch.where(_column(dropped, t), torch.zeros((), dtype=t.dtype, device=t.device), t)


def by_taps(columns: Tensor, taps: int) -> Tensor:
    """[..., channels x taps], the parameter's own order, to [..., taps x channels]."""
    return columns if taps == 1 else columns.unflatten(-1, (-1, taps)).transpose(-1, -2).flatten(-2)


def by_channels(columns: Tensor, taps: int) -> Tensor:
    """[..., taps x channels] to [..., channels x taps], the parameter's own order."""
    return columns if taps == 1 else columns.unflatten(-1, (taps, -1)).transpose(-1, -2).flatten(-2)


def _column(values: Tensor, like: Tensor) -> Tensor:
    """[n] as [n, 1, ...], beside the rows of another tensor."""
    return values.view(-1, *(1,) * (like.dim() - 1))
