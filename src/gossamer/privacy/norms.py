"""Norms of per-record gradients, and their clipped sum, from taped pairs: the second half of the fast clipped sum.

A record's gradient for a weight is the sum over positions t of (b_t outer u_t), where u is the input as the weight meets it
(a row, or an unfolded patch) and b the gradient of the output. Its squared norm is found in one of three ways, whichever
needs the least work for the layer at hand:

- instantiate: form the gradient itself; where it is small it is kept, and the clipped sum is one product with the factors;
- Gram: the sum over t and t' of <u_t, u_t'> <b_t, b_t'>, which never forms the gradient (Goodfellow 2015; Rochette, Manoel
  and Tramel 2019; Li, Tramer, Liang and Hashimoto 2021);
- phase: the same, with <u_t, u_t'> assembled from inner products of single pixels. Two taps of a convolution with stride s
  meet only pixels of one phase modulo s, so each phase has its own small Gram matrix, and every tap adds one slice of it.

The choice follows counted work, not a clock, so that the same seed gives the same bits.

Every squared norm is an upper bound: it is raised by what rounding may have taken from it, and by what the weight-gradient
call may add (`rounding`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gossamer.privacy.operations import Affine, Call, Convolution, Embedding, Linear, Planes
from gossamer.privacy.patches import (
    beside,
    by_channels,
    by_taps,
    embedding_grams,
    folded,
    given,
    groups_of,
    joined,
    matrix,
    only_patch,
    pair,
    patches,
    phase_gram,
    phase_work,
    positions,
    taps_of,
    unfolded_size,
    unread,
)
from gossamer.privacy.rounding import FEW, gram, instantiated, paired, roundings, square_norms

BLOCK = 1 << 22  # numbers in a temporary: a block of records that stays near the processor
KEEP = 1 << 24  # numbers of instantiated gradients that may be kept per layer


class Piece(Protocol):
    """What the records of a batch contribute to one parameter."""

    @property
    def parameter(self) -> int:
        """Position among the parameters."""
        ...

    def squared_norms(self) -> Tensor:
        """[n] float64, squared L2 norm of what each record can add, rounding included; not finite where its gradient is not."""
        ...

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """Add the sum over records of factor x gradient to out, which has the parameter's shape. dropped: bool [n] or None."""
        ...


@dataclass(eq=False)
class Kept:
    """Per-record gradients that were formed. rows: [n, size of the parameter]; of a convolution, taps before channels."""

    parameter: int
    rows: Tensor
    taps: int = 1

    def squared_norms(self) -> Tensor:
        """[n]"""
        return square_norms(self.rows)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """One product with the factors."""
        total = factors @ _without(self.rows, dropped)
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
        """[n], |a|^2 |b|^2."""
        return square_norms(self.a) * square_norms(self.b)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """One matrix product, straight into out."""
        a, b = _scaled(_without(self.a, dropped), _without(self.b, dropped), factors)
        out.view(b.shape[1], a.shape[1]).addmm_(b.t(), a)

    def write_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """The same in place of what stands in out, which is not read."""
        a, b = _scaled(_without(self.a, dropped), _without(self.b, dropped), factors)
        torch.mm(b.t(), a, out=out.view(b.shape[1], a.shape[1]))


@dataclass(eq=False)
class PlanesProduct:
    """Gradients of a convolution of constant planes. a: [n, C], the constants; b: [n, p, taps], b summed under each tap."""

    parameter: int
    a: Tensor
    b: Tensor

    def squared_norms(self) -> Tensor:
        """[n], |a|^2 |b|^2."""
        return square_norms(self.a) * square_norms(self.b.flatten(1))

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """One small matrix product."""
        a, b = _without(self.a, dropped), _without(self.b, dropped)
        total = (a * factors[:, None]).t() @ b.flatten(1)
        p, channels = out.shape[:2]
        out.view(p, channels, -1).add_(total.view(channels, p, -1).transpose(0, 1))


@dataclass(eq=False)
class Ghost:
    """Gradients that are never formed: norms from the pairs, then one weight-gradient call per use on factor x b.

    Args:
        parameter: position of the weight among the parameters.
        shape: of the weight.
        calls: its uses, all with the same number of records.
        draws: how many rows of the batch belong to one record.
        method: "instantiate", "gram" or "phase".
    """

    parameter: int
    shape: torch.Size
    calls: list[Call]
    draws: int
    method: str

    def squared_norms(self) -> Tensor:
        """[n], by blocks of records that stay in the cache."""
        n = len(given(self.calls[0].b)) // self.draws
        work = self._numbers_per_record()
        step = max(1, BLOCK // max(work, 1))
        norms = [self._block(lo, min(lo + step, n)) for lo in range(0, n, step)]
        return torch.cat(norms)

    def _numbers_per_record(self) -> int:
        plan = _work(self.calls, self.shape, self.draws)[self.method]
        return plan.memory

    def _block(self, lo: int, hi: int) -> Tensor:
        groups = groups_of(self.calls)
        dtype, t = pair(self.calls[0])[1].dtype, sum(positions(call) for call in self.calls) * self.draws
        rows, columns = (roundings(size, t) for size in matrix(self.calls[0], self.shape))
        if self.method == "phase":
            pixels, b = phase_gram(self.calls[0], self.shape, lo, hi), beside(self.calls[0], lo, hi)
            # Beside the products of pixels, of which there are more than positions, it sums slices: fewer than two per tap.
            columns = roundings(matrix(self.calls[0], self.shape)[1], FEW + 1) + 2 * taps_of(self.calls, self.shape)
            squares = paired(pixels, gram(b), dtype, columns + rows)
        elif self.method == "gram" and all(isinstance(call.op, Embedding) for call in self.calls):
            squares = paired(*embedding_grams(self.calls, self.draws, lo, hi), dtype, columns)
        else:
            u, b = joined(self.calls, self.shape, self.draws, lo, hi)
            squares = instantiated(u, b) if self.method != "gram" else paired(gram(u), gram(b), dtype, columns + rows)
        squares = squares.view(hi - lo, groups).sum(1)
        return squares + unread(self.calls, self.shape, self.draws, lo, hi)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """One weight-gradient call per use."""
        factors = factors.repeat(self.draws)
        dropped = None if dropped is None else dropped.repeat(self.draws)
        for call in self.calls:
            a, b = pair(call)
            _add_weight_gradient_(call, out, _without(a, dropped), _without(b, dropped), factors)


def pieces(calls: Sequence[Call], parameters: Sequence[Tensor], *, draws: int = 1) -> list[Piece]:
    """Sort taped calls into pieces, one or more per parameter that was used.

    Args:
        calls: what the tape holds after the backward pass. The first dimension of each a and b is draws x n.
        parameters: the tensors that the calls name by position.
        draws: rows r, r + n, r + 2n ... of a batch belong to record r; its gradient is the sum over them.
    """
    reached = [call for call in calls if call.b is not None]
    by_weight: dict[int, list[Call]] = {}
    by_bias: dict[int, Tensor] = {}
    for call in reached:
        if call.weight is not None:
            by_weight.setdefault(call.weight, []).append(call)
        if call.bias is not None:
            rows = folded(_bias_rows(call), draws)
            by_bias[call.bias] = by_bias[call.bias] + rows if call.bias in by_bias else rows
    found: list[Piece] = []
    for weight, uses in by_weight.items():
        shared = by_bias.pop(weight, None)
        alike = len({groups_of([use]) for use in uses}) == 1
        if shared is not None or not alike or any(isinstance(use.op, Affine) for use in uses):
            found.append(_kept(weight, uses, parameters[weight].shape, draws, shared))
        else:
            found.append(_piece(weight, parameters[weight].shape, uses, draws))
    return found + [Kept(bias, rows) for bias, rows in by_bias.items()]


def add_gradient_(call: Call, views: Sequence[Tensor]) -> None:
    """Add the gradients of one call, summed over its rows and not clipped, to the parameters' views."""
    if call.b is None:
        return
    a, b = pair(call)
    if call.weight is not None and isinstance(call.op, Affine):
        views[call.weight].add_(call.op.per_record(a * b).sum(0).view(views[call.weight].shape))
    elif call.weight is not None:
        _add_weight_gradient_(call, views[call.weight], a, b, None)
    if call.bias is not None:
        views[call.bias].add_(_bias_rows(call).sum(0).view(views[call.bias].shape))


def _piece(weight: int, shape: torch.Size, uses: list[Call], draws: int) -> Piece:
    """Choose the form of one weight's piece."""
    alone = len(uses) == 1 and draws == 1
    if alone and isinstance(uses[0].op, Planes):
        a, b = pair(uses[0])
        return PlanesProduct(weight, a, b.flatten(2) @ uses[0].op.taps(b).t())
    if alone and not isinstance(uses[0].op, Embedding) and groups_of(uses) == 1 and positions(uses[0]) == 1:
        return Product(weight, *only_patch(uses[0], shape))
    n = len(given(uses[0].b)) // draws
    keep = n * shape.numel() <= KEEP
    work = _work(uses, shape, draws, keep=keep)
    method = cheapest(work)
    if method == "instantiate" and keep:
        return _kept(weight, uses, shape, draws, None)
    return Ghost(weight, shape, uses, draws, method)


@dataclass(frozen=True)
class Work:
    """Work for one record.

    Args:
        macs: multiplications.
        memory: numbers written to temporaries.
        saved: multiplications that the clipped sum is spared later.
    """

    macs: int
    memory: int
    saved: int = 0

    @property
    def cost(self) -> float:
        """In multiplications: a number moved costs as much as about 24 of them in a matrix product."""
        return self.macs + 24.0 * self.memory - self.saved


def cheapest(work: Mapping[str, Work]) -> str:
    """The method with the least work."""
    return min(work, key=lambda method: work[method].cost)


def _work(calls: list[Call], shape: torch.Size, draws: int, *, keep: bool = False) -> dict[str, Work]:
    """What each method would cost, by name. keep: whether instantiated gradients may be kept."""
    groups = groups_of(calls)
    t = sum(positions(call) for call in calls) * draws
    rows, columns = matrix(calls[0], shape)
    numbers = rows * columns * groups
    unfolded = sum(unfolded_size(call, shape, draws) for call in calls)
    embedding = all(isinstance(call.op, Embedding) for call in calls)
    gram = t * t * (columns if embedding else rows + columns) * groups
    work = {"gram": Work(gram, unfolded + 3 * t * t * groups)}
    # A kept gradient spares the weight-gradient call, which costs as much as forming the gradients does.
    work["instantiate"] = Work(t * numbers, unfolded + 2 * numbers, t * numbers if keep else 0)
    if len(calls) == 1 and draws == 1 and isinstance(calls[0].op, Convolution):
        work["phase"] = Work(*phase_work(calls[0], shape))
    return work


def _kept(weight: int, uses: list[Call], shape: torch.Size, draws: int, shared: Tensor | None) -> Kept:
    """The records' gradients themselves. shared: rows of the same parameter used as a bias."""
    n = len(given(uses[0].b)) // draws
    like, taps = pair(uses[0])[1], taps_of(uses, shape)

    def ordered(rows: Tensor) -> Tensor:
        return by_taps(rows.view(n, shape[0], -1), taps).view(n, -1)

    others = [use for use in uses if not isinstance(use.op, Affine)]
    empty = shared is None and len(others) == len(uses)
    rows = (torch.empty if empty else torch.zeros)(n, shape.numel(), dtype=like.dtype, device=like.device)
    if shared is not None:
        rows += ordered(shared)
    for use in uses:
        if isinstance(use.op, Affine):
            a, b = pair(use)
            rows += ordered(folded(use.op.per_record(a * b), draws))
    step = max(1, BLOCK // (16 * max(1, shape.numel(), *(unfolded_size(use, shape, draws) for use in others))))
    for lo in range(0, n if others else 0, step):
        hi = min(lo + step, n)
        for i, use in enumerate(others):
            u, b = patches(use, shape, draws, lo, hi)
            here = rows[lo:hi].view(len(b), b.shape[1], u.shape[1])
            torch.baddbmm(here, b, u.transpose(1, 2), beta=0 if empty and i == 0 else 1, out=here)
    return Kept(weight, rows, taps)


def _bias_rows(call: Call) -> Tensor:
    """[draws x n, size of the bias]"""
    _, b = pair(call)
    if isinstance(call.op, Affine):
        return call.op.per_record(b)
    if isinstance(call.op, Linear):
        return b if b.dim() == 2 else b.flatten(1, -2).sum(1)
    return b.flatten(2).sum(2)


def _add_weight_gradient_(call: Call, out: Tensor, a: Tensor, b: Tensor, factors: Tensor | None) -> None:
    """Add the sum over rows of factor x gradient to out, in the shape of the weight."""
    op = call.op
    if isinstance(op, Embedding):
        indices, gradients = a.flatten(), _scaled(b, b, factors)[1].reshape(a.numel(), -1)
        if op.padding is not None:
            gradients = gradients.masked_fill((indices == op.padding)[:, None], 0)
        out.index_add_(0, indices, gradients)
        return
    a, b = _scaled(a, b, factors)
    if isinstance(op, Linear):
        out.addmm_(b.flatten(0, -2).t(), a.flatten(0, -2))
        return
    if isinstance(op, Planes):
        a, op = a[:, :, None, None].expand(*a.shape, *op.size), op.convolution
    assert isinstance(op, Convolution)
    out.add_(op.weight_gradient(b, a, out))


def _scaled(a: Tensor, b: Tensor, factors: Tensor | None) -> tuple[Tensor, Tensor]:
    """a and b with the factors multiplied into the smaller one. Never in place: other calls may hold the same tensor."""
    if factors is None:
        return a, b
    if a.numel() < b.numel():
        return a * _column(factors, a), b
    return a, b * _column(factors, b)


def _column(factors: Tensor, like: Tensor) -> Tensor:
    return factors.view(-1, *(1,) * (like.dim() - 1))


def _without(t: Tensor, dropped: Tensor | None) -> Tensor:
    """t with the dropped records at zero. By `where`, because zero times NaN is NaN."""
    if dropped is None or not t.is_floating_point():
        return t
    return torch.where(_column(dropped, t), torch.zeros((), dtype=t.dtype, device=t.device), t)
