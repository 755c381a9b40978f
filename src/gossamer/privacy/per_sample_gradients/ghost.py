"""One weight and its uses: what clipping asks of every kind of layer, and norms of gradients that are never formed.

A *call* is one use of a weight by a batch. It has the layer and its input a. The backward pass adds b, the gradient of the
output. The layer turns a call into *patches*: u [m, columns, T] and b [m, rows, T]. The record's gradient, a matrix of rows
x columns, is b u^T. T counts the positions at which a record meets the weight: one in a plain linear map, the pixels of the
output in a convolution. The groups of a convolution fold into m.

Several rows of a batch may belong to one record, its *multiplicity*: record r of n has the rows r, r + n, r + 2n ...

A record's gradient is the sum over positions t of (b_t outer u_t). Of several ways to its squared norm, the way with the least
work is taken (`clipping`). Two serve every layer that has patches, `BY_PATCHES`:

- instantiate: form the gradient itself; where it is small it is kept, and the clipped sum is one product with the factors;
- gram: the sum over t and t' of <u_t, u_t'> <b_t, b_t'>. It never forms the gradient. Goodfellow 2015; Rochette, Manoel and
  Tramel 2019; Li, Tramer, Liang and Hashimoto 2021.

A layer may have others of its own (`convolution`, `layers.Embedding`). Every squared norm is an upper bound (`rounding`).

The columns of a convolution run over taps first and channels last, so that unfolding copies the channels of a pixel in one go.
`by_taps` and `by_channels` go between that order and the parameter's own. Norms are the same in both.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer.privacy.per_sample_gradients.rounding import gram, instantiated, paired, roundings


@dataclass(frozen=True)
class Work:
    """Work for one record: multiplications, numbers written to temporaries, and multiplications saved in the sum later."""

    macs: int
    memory: int
    saved: int = 0

    @property
    def cost(self) -> float:
        """In multiplications: a number moved costs as much as about 24 of them in a matrix product."""
        return self.macs + 24.0 * self.memory - self.saved


@dataclass(frozen=True)
class NormRule:
    """A way to the squared norms of the records' gradients for one weight.

    Args:
        work: what it would cost.
        squares: [(hi - lo) x groups] float64, of records lo to hi: upper bounds, rounding included.
    """

    work: Callable[["Uses"], Work]
    squares: Callable[["Uses", int, int], Tensor]


class Layer(ABC):
    """A kind of layer, with its settings: what it computes, and what a and b say about the gradient of its weight.

    The first dimension of a and b runs over rows of a batch, n of them. Behind `input_gradient` both are at least in single
    precision.
    """

    autocasts = True  # whether torch computes it in the narrow type under autocast
    joins = False  # whether several calls are one call with more positions
    groups: int = 1  # parts that meet parts of the input and of the weight

    @abstractmethod
    def forward(self, a: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
        """The ordinary output."""

    def input_gradient(self, b: Tensor, weight: Any, a: Tensor) -> Tensor:
        """The gradient of the input a, from b, the gradient of the output."""
        raise NotImplementedError(f"the input of {type(self).__name__} has no gradient")

    @abstractmethod
    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        """Add the gradient of the weight, summed over the rows, to out, which has its shape."""

    def bias_gradients(self, b: Tensor) -> Tensor:
        """[n, size of the bias], one row each."""
        raise NotImplementedError(f"{type(self).__name__} has no bias")

    def formed(self, a: Tensor, b: Tensor, shape: torch.Size, multiplicity: int) -> Tensor | None:
        """[n, size of the weight], one gradient per record, of a layer that forms them without patches; None: it does not.

        Of a convolution, taps come before channels. shape: of the weight.
        """
        del a, b, shape, multiplicity
        return None

    def methods(self, uses: "Uses") -> Mapping[str, NormRule]:
        """The ways to norms of a weight that only layers of this kind use, by name; the first wins a tie.

        None at all: its gradients are always formed.
        """
        del uses
        return BY_PATCHES

    def product(self, uses: "Uses") -> tuple[Tensor, Tensor] | None:
        """a and b of a `Product`, where the one call of a weight makes its gradients that; None where it does not."""
        del uses
        return None

    def taps(self, shape: torch.Size) -> int:
        """Taps of a convolution's kernel; 1 for all else. shape: of the weight."""
        del shape
        return 1

    def positions(self, a: Tensor, b: Tensor) -> int:
        """How often one row meets the weight."""
        del a
        return b.shape[1:-1].numel()

    def patches(self, a: Tensor, b: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """u [n x groups, positions, columns] and b [n x groups, positions, rows]. shape: of the weight."""
        raise NotImplementedError(f"the gradients of {type(self).__name__} are formed without patches")

    def unfolded(self, a: Tensor, b: Tensor, shape: torch.Size) -> int:
        """Numbers that `patches` writes for one row, beyond those that a and b hold."""
        del a, b, shape
        return 0

    def partly_read(self, a: Tensor, b: Tensor, shape: torch.Size) -> Tensor | None:
        """Return a or b if some of its numbers meet no tap at any position; None where all are read."""
        del a, b, shape
        return None


class Place(NamedTuple):
    """Numbers of a parameter that a weight is: all of them, or a view of them.

    number: position among the parameters. size, strides, start: of the view, where the parameter is one row of numbers. No
    number is in a view twice, so the gradient of the weight has the norm of the parameter's.
    """

    number: int
    size: torch.Size
    strides: tuple[int, ...]
    start: int = 0

    @classmethod
    def of_all(cls, number: int, size: torch.Size) -> "Place":
        """All numbers of a parameter of this size."""
        strides = [math.prod(size[i + 1 :]) * (length > 1) for i, length in enumerate(size)]
        return cls(number, size, tuple(strides))

    def viewed(self, size: torch.Size, strides: tuple[int, ...], start: int) -> "Place | None":
        """A view of this parameter; None where it may hold a number twice."""
        reach = 1
        for stride, length in sorted(zip(strides, size, strict=True)):
            if length > 1 and stride < reach:
                return None
            reach += stride * (length - 1)
        return Place(self.number, size, tuple(s * (n > 1) for s, n in zip(strides, size, strict=True)), start)

    @property
    def end(self) -> int:
        """Behind the last number."""
        return self.start + 1 + sum(stride * (size - 1) for stride, size in zip(self.strides, self.size, strict=True))

    def of(self, rows: Tensor) -> Tensor:
        """The view of rows, [..., size of the parameter]: [..., *size]."""
        strides = (*rows.stride()[:-1], *self.strides)
        return rows.as_strided((*rows.shape[:-1], *self.size), strides, rows.storage_offset() + self.start)


@dataclass(eq=False)
class Call:
    """One use of a weight and a bias. The backward pass fills in a and b. They stay None without it.

    weight, bias: None if they do not learn. a: input, [n, ...]. b: gradient of the output, [n, ...].
    """

    layer: Layer
    weight: Place | None
    bias: Place | None
    a: Tensor | None = None
    b: Tensor | None = None

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        """a and b, at least in single precision: rounded numbers define the gradient, their norms are exact."""
        assert self.a is not None
        assert self.b is not None
        self.a, self.b = _widened(self.a), _widened(self.b)  # once, because many callers use them
        return self.a, self.b

    def keep(self, n: int, multiplicity: int) -> None:
        """Drop all records but the first n: a batch may be filled up with others."""
        if self.b is not None:
            self.a, self.b = (_rows(t, 0, n, multiplicity) for t in self.pair)


@dataclass(eq=False)
class Uses:
    """All uses, at least one, of one weight in a batch.

    Args:
        shape: of the weight.
        calls: all with the same number of rows.
        multiplicity: rows of the batch that belong to one record.
    """

    shape: torch.Size
    calls: list[Call]
    multiplicity: int

    @cached_property
    def alone(self) -> bool:
        """Whether each record meets the weight in one row of one call."""
        return len(self.calls) == 1 and self.multiplicity == 1

    @cached_property
    def b(self) -> Tensor:
        """Of the first call: its rows, dtype and device are those of all."""
        return self.calls[0].pair[1]

    @cached_property
    def records(self) -> int:
        """n"""
        return len(self.b) // self.multiplicity

    @cached_property
    def groups(self) -> int:
        """Of the layer."""
        return self.calls[0].layer.groups

    @cached_property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of the weight as a matrix, per group."""
        rows = self.shape[0]
        return rows // self.groups, self.shape.numel() // rows

    @cached_property
    def taps(self) -> int:
        """Taps of the kernel, where a convolution uses it; else 1."""
        return max(call.layer.taps(self.shape) for call in self.calls)

    @cached_property
    def positions(self) -> int:
        """T, over all calls and rows of one record."""
        return sum(call.layer.positions(*call.pair) for call in self.calls) * self.multiplicity

    def unfolded(self, *calls: Call) -> int:
        """Numbers that `patches` writes for one record, of some calls or of all."""
        some = calls or self.calls
        return self.multiplicity * sum(call.layer.unfolded(*call.pair, self.shape) for call in some)

    def patches(self, lo: int, hi: int) -> tuple[Tensor, Tensor]:
        """u [m, columns, T] and b [m, rows, T] of records lo to hi. Calls and rows are side by side. m = (hi - lo) x groups."""
        both = [self.patches_of(call, lo, hi) for call in self.calls]
        if len(both) == 1:
            return both[0]
        u = torch.cat([u.transpose(1, 2) for u, _ in both], 1).transpose(1, 2)
        return u, torch.cat([b for _, b in both], 2)

    def patches_of(self, call: Call, lo: int, hi: int) -> tuple[Tensor, Tensor]:
        """The part of one call in these."""
        u, b = call.layer.patches(*self.rows_of(call, lo, hi), self.shape)
        return self.side_by_side(u), self.side_by_side(b)

    def rows_of(self, call: Call, lo: int, hi: int) -> tuple[Tensor, Tensor]:
        """Rows of a and b for records lo to hi, [multiplicity x (hi - lo), ...]."""
        a, b = (_rows(t, lo, hi, self.multiplicity) for t in call.pair)
        return a, b

    def side_by_side(self, t: Tensor) -> Tensor:
        """[multiplicity x m, T, features] to [m, features, multiplicity x T]."""
        if self.multiplicity == 1:
            return t.transpose(1, 2)
        apart: Tensor = t.unflatten(0, (self.multiplicity, -1))
        return apart.permute(1, 3, 0, 2).flatten(2)

    def unread(self, lo: int, hi: int) -> Tensor | float:
        """Zero, or NaN for a record that holds a non-finite number where no position reads it.

        A weight-gradient call may multiply such a number by zero.
        """
        total: Tensor | float = 0.0
        for call in self.calls:
            if (side := call.layer.partly_read(*call.pair, self.shape)) is not None:
                seen = _rows(side, lo, hi, self.multiplicity).flatten(1)
                total = total + folded((seen * 0).sum(1), self.multiplicity)
        return total


def folded(rows: Tensor, multiplicity: int) -> Tensor:
    """Rows of the batch added up by record: [multiplicity x n, ...] to [n, ...]."""
    return rows if multiplicity == 1 else rows.reshape(multiplicity, len(rows) // multiplicity, *rows.shape[1:]).sum(0)


def by_taps(columns: Tensor, taps: int) -> Tensor:
    """[..., channels x taps], the parameter's own order, to [..., taps x channels]."""
    return columns if taps == 1 else columns.unflatten(-1, (-1, taps)).transpose(-1, -2).flatten(-2)


def by_channels(columns: Tensor, taps: int) -> Tensor:
    """[..., taps x channels] to [..., channels x taps], the parameter's own order."""
    return columns if taps == 1 else columns.unflatten(-1, (taps, -1)).transpose(-1, -2).flatten(-2)


def _rows(t: Tensor, lo: int, hi: int, multiplicity: int) -> Tensor:
    """Rows of records lo to hi. [multiplicity x n, ...] to [multiplicity x (hi - lo), ...]"""
    return t[lo:hi] if multiplicity == 1 else t.unflatten(0, (multiplicity, -1))[:, lo:hi].flatten(0, 1)


def _widened(t: Tensor) -> Tensor:
    return t.float() if t.dtype in (torch.bfloat16, torch.float16) else t


def _work_of_gram(uses: Uses) -> Work:
    """T x T inner products on either side."""
    t = uses.positions
    return Work(t * t * sum(uses.matrix) * uses.groups, uses.unfolded() + 3 * t * t * uses.groups)


def _by_gram(uses: Uses, lo: int, hi: int) -> Tensor:
    """From the Gram matrices of all patches."""
    u, b = uses.patches(lo, hi)
    rows, columns = (roundings(size, u.shape[2]) for size in uses.matrix)
    return paired(gram(u), gram(b), uses.b.dtype, columns + rows)


def _work_of_forming(uses: Uses) -> Work:
    """T products of a column and a row."""
    numbers = uses.matrix[0] * uses.matrix[1] * uses.groups
    return Work(uses.positions * numbers, uses.unfolded() + 2 * numbers)


def _by_forming(uses: Uses, lo: int, hi: int) -> Tensor:
    """From the gradients themselves."""
    return instantiated(*uses.patches(lo, hi))


BY_PATCHES: Mapping[str, NormRule] = {
    "gram": NormRule(_work_of_gram, _by_gram),
    "instantiate": NormRule(_work_of_forming, _by_forming),
}
