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

**Rounding.** A Gram sum can cancel: a record can be made whose b_t are huge and add up to almost nothing, so that the
computed norm is zero while the weight gradient, computed in another order, is not. The error of either is bounded by a few
machine epsilons times |u|^2 |b|^2. So wherever the computed squared norm is not far above that error, the error is added
to it (`guarded`). A record's contribution then stays below max_norm x 1.002, whatever its values are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from gossamer.privacy.tape import Affine, Call, Convolution, Embedding, Linear, Planes

ROUNDING = 16.0  # error of a computed squared norm, in units of machine epsilon x |u|^2 |b|^2
MARGIN = 250.0  # a squared norm this many errors above zero is exact to 0.4 %, the norm to 0.2 %
BLOCK = 1 << 22  # numbers in a temporary: a block of records that stays near the processor
KEEP = 1 << 24  # numbers of instantiated gradients that may be kept per layer


class Piece(Protocol):
    """What the records of a batch contribute to one parameter."""

    @property
    def parameter(self) -> int:
        """Position among the parameters."""
        ...

    def squared_norms(self) -> Tensor:
        """[n] squared L2 norm of each record's gradient; not finite where the record's gradient is not."""
        ...

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """Add the sum over records of factor x gradient to out, which has the parameter's shape. dropped: bool [n] or None."""
        ...


@dataclass(eq=False)
class Kept:
    """Per-record gradients that were formed. rows: [n, size of the parameter]."""

    parameter: int
    rows: Tensor

    def squared_norms(self) -> Tensor:
        """[n]"""
        return self.rows.square().sum(1)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """One product with the factors."""
        out.add_((factors @ _without(self.rows, dropped)).view(out.shape))


@dataclass(eq=False)
class Product:
    """Gradients of rank one: b outer a. a: [n, columns]; b: [n, rows], for a parameter of rows x columns numbers."""

    parameter: int
    a: Tensor
    b: Tensor

    def squared_norms(self) -> Tensor:
        """[n], |a|^2 |b|^2."""
        return self.a.square().sum(1) * self.b.square().sum(1)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """One matrix product, straight into out."""
        a, b = _scaled(_without(self.a, dropped), _without(self.b, dropped), factors)
        out.view(b.shape[1], a.shape[1]).addmm_(b.t(), a)


@dataclass(eq=False)
class PlanesProduct:
    """Gradients of a convolution of constant planes. a: [n, C], the constants; b: [n, p, taps], b summed under each tap."""

    parameter: int
    a: Tensor
    b: Tensor

    def squared_norms(self) -> Tensor:
        """[n], |a|^2 |b|^2."""
        return self.a.square().sum(1) * self.b.square().sum((1, 2))

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
        n = len(_given(self.calls[0].b)) // self.draws
        work = self._numbers_per_record()
        step = max(1, BLOCK // max(work, 1))
        norms = [self._block(lo, min(lo + step, n)) for lo in range(0, n, step)]
        return torch.cat(norms)

    def _numbers_per_record(self) -> int:
        plan = _work(self.calls, self.shape, self.draws)[self.method]
        return plan.memory

    def _block(self, lo: int, hi: int) -> Tensor:
        groups = _groups(self.calls)
        if self.method == "phase":
            a_gram, b = _phase_gram(self.calls[0], self.shape, lo, hi), _outputs(self.calls[0], lo, hi)
            squares = _paired(a_gram, b.transpose(1, 2) @ b)
        elif self.method == "gram" and all(isinstance(call.op, Embedding) for call in self.calls):
            squares = _paired(*_embedding_grams(self.calls, self.draws, lo, hi))
        else:
            u, b = _joined(self.calls, self.shape, self.draws, lo, hi)
            if self.method == "gram":
                squares = _paired(u.transpose(1, 2) @ u, b.transpose(1, 2) @ b)
            else:
                instantiated = (b @ u.transpose(1, 2)).square().sum((1, 2))
                squares = guarded(instantiated, u.square().sum((1, 2)), b.square().sum((1, 2)))
        squares = squares.view(hi - lo, groups).sum(1)
        return squares + _unread(self.calls, self.shape, self.draws, lo, hi)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        """One weight-gradient call per use."""
        factors = factors.repeat(self.draws)
        dropped = None if dropped is None else dropped.repeat(self.draws)
        for call in self.calls:
            a, b = _pair(call)
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
            rows = _folded(_bias_rows(call), draws)
            by_bias[call.bias] = by_bias[call.bias] + rows if call.bias in by_bias else rows
    found: list[Piece] = []
    for weight, uses in by_weight.items():
        shared = by_bias.pop(weight, None)
        if shared is not None or any(isinstance(use.op, Affine) for use in uses):
            found.append(Kept(weight, _instantiated(uses, parameters[weight].shape, draws, shared)))
        else:
            found.append(_piece(weight, parameters[weight].shape, uses, draws))
    return found + [Kept(bias, rows) for bias, rows in by_bias.items()]


def add_gradient_(call: Call, views: Sequence[Tensor]) -> None:
    """Add the gradients of one call, summed over its rows and not clipped, to the parameters' views."""
    if call.b is None:
        return
    a, b = _pair(call)
    if call.weight is not None and isinstance(call.op, Affine):
        views[call.weight].add_(call.op.per_record(a * b).sum(0).view(views[call.weight].shape))
    elif call.weight is not None:
        _add_weight_gradient_(call, views[call.weight], a, b, None)
    if call.bias is not None:
        views[call.bias].add_(_bias_rows(call).sum(0).view(views[call.bias].shape))


def guarded(squares: Tensor, u_squares: Tensor, b_squares: Tensor) -> Tensor:
    """Squared norms, raised by their rounding error where that is not negligible.

    All [n]: the computed squared norms, and the squared Frobenius norms of u and of b that they were computed from.
    """
    error = (ROUNDING * torch.finfo(squares.dtype).eps) * (u_squares * b_squares)
    squares = squares.clamp(min=0)
    return torch.where(squares < MARGIN * error, squares + error, squares)


def _piece(weight: int, shape: torch.Size, uses: list[Call], draws: int) -> Piece:
    """Choose the form of one weight's piece."""
    alone = len(uses) == 1 and draws == 1
    if alone and isinstance(uses[0].op, Planes):
        a, b = _pair(uses[0])
        return PlanesProduct(weight, a, b.flatten(2) @ uses[0].op.taps(b).t())
    if alone and not isinstance(uses[0].op, Embedding) and _groups(uses) == 1 and _positions(uses[0]) == 1:
        u, b = _patches(uses[0], shape, 1, 0, len(_given(uses[0].b)))
        return Product(weight, u.squeeze(2), b.squeeze(2))
    n = len(_given(uses[0].b)) // draws
    keep = n * shape.numel() <= KEEP
    work = _work(uses, shape, draws, keep=keep)
    method = min(work, key=lambda name: work[name].cost)
    if method == "instantiate" and keep:
        return Kept(weight, _instantiated(uses, shape, draws, None))
    return Ghost(weight, shape, uses, draws, method)


@dataclass(frozen=True)
class _Work:
    """Work for one record. macs: multiplications; memory: numbers written to temporaries; saved: multiplications spared later."""

    macs: int
    memory: int
    saved: int = 0

    @property
    def cost(self) -> float:
        """In multiplications: a number moved costs as much as about 24 of them in a matrix product."""
        return self.macs + 24.0 * self.memory - self.saved


def _work(calls: list[Call], shape: torch.Size, draws: int, *, keep: bool = False) -> dict[str, _Work]:
    """What each method would cost, by name. keep: whether instantiated gradients may be kept."""
    groups = _groups(calls)
    t = sum(_positions(call) for call in calls) * draws
    rows, columns = _matrix(calls[0], shape)
    numbers = rows * columns * groups
    unfolded = t * (columns if isinstance(calls[0].op, (Convolution, Planes)) else 0) * groups
    embedding = all(isinstance(call.op, Embedding) for call in calls)
    gram = t * t * (columns if embedding else rows + columns) * groups
    work = {"gram": _Work(gram, unfolded + 3 * t * t * groups)}
    # A kept gradient spares the weight-gradient call, which costs as much as forming the gradients does.
    work["instantiate"] = _Work(t * numbers, unfolded + 2 * numbers, t * numbers if keep else 0)
    if len(calls) == 1 and draws == 1 and isinstance(calls[0].op, Convolution):
        plane = _plane(calls[0], shape, 0, 0)
        work["phase"] = _phase_work(plane, t, rows, groups)
    return work


# How the pairs of each operation become u [m, columns, T] and b [m, rows, T], with the gradient b u^T of the weight's shape.
# The groups of a convolution fold into m.


def _matrix(call: Call, shape: torch.Size) -> tuple[int, int]:
    """Rows and columns of the weight as a matrix, per group."""
    rows = shape[0]
    return rows // _groups([call]), shape.numel() // rows


def _groups(calls: list[Call]) -> int:
    op = calls[0].op
    return op.groups if isinstance(op, Convolution) else 1


def _positions(call: Call) -> int:
    """T: how often one row of the batch meets the weight in this call."""
    a, b = _pair(call)
    if isinstance(call.op, Convolution):
        return (a if call.op.transposed else b).shape[2:].numel()
    if isinstance(call.op, Planes):
        return b.shape[2:].numel()
    return b.shape[1:-1].numel()


def _joined(calls: list[Call], shape: torch.Size, draws: int, lo: int, hi: int) -> tuple[Tensor, Tensor]:
    """u and b of records lo to hi, all uses and draws side by side."""
    both = [_patches(call, shape, draws, lo, hi) for call in calls]
    if len(both) == 1:
        return both[0]
    return torch.cat([u for u, _ in both], 2), torch.cat([b for _, b in both], 2)


def _patches(call: Call, shape: torch.Size, draws: int, lo: int, hi: int) -> tuple[Tensor, Tensor]:
    """u [m, columns, T] and b [m, rows, T] of records lo to hi, m = (hi - lo) x groups."""
    a, b = (_records(t, draws, lo, hi) for t in _pair(call))
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
    if plane.kernel == tuple(plane.x.shape[2:]) and plane.padding == (0, 0) and plane.dilation == (1, 1):
        # The one patch is the whole input.
        return _side_by_side(plane.x.reshape(len(plane.x), 1, -1), draws), _side_by_side(
            plane.y.reshape(len(plane.y), 1, -1), draws
        )
    u = F.unfold(plane.x, plane.kernel, dilation=plane.dilation, padding=plane.padding, stride=plane.stride)
    y = plane.y.flatten(2)
    return _side_by_side(u.transpose(1, 2), draws), _side_by_side(y.transpose(1, 2), draws)


def _records(t: Tensor, draws: int, lo: int, hi: int) -> Tensor:
    """Rows of records lo to hi, draw by draw: [draws x (hi - lo), ...]."""
    if draws == 1:
        return t[lo:hi]
    n = len(t) // draws
    return t.view(draws, n, *t.shape[1:])[:, lo:hi].flatten(0, 1)


def _side_by_side(t: Tensor, draws: int) -> Tensor:
    """[draws x m, T, features] to [m, features, draws x T]."""
    if draws == 1:
        return t.transpose(1, 2)
    m = len(t) // draws
    return t.unflatten(0, (draws, m)).permute(1, 3, 0, 2).flatten(2)


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
    a, b = _pair(call)
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


def _apart(t: Tensor, groups: int) -> Tensor:
    """[m, C, H, W] to [m x groups, C / groups, H, W]."""
    return t if groups == 1 else t.reshape(len(t) * groups, t.shape[1] // groups, *t.shape[2:])


def _outputs(call: Call, lo: int, hi: int) -> Tensor:
    """[m, rows, T], what stands beside the unfolded side."""
    assert isinstance(call.op, Convolution)
    a, b = _pair(call)
    y = (a if call.op.transposed else b)[lo:hi]
    return _apart(y if y.dim() == 4 else y.unsqueeze(2), call.op.groups).flatten(2)


def _paired(u_gram: Tensor, b_gram: Tensor) -> Tensor:
    """[m] squared norms from two Gram matrices [m, T, T]."""
    u_squares = u_gram.diagonal(dim1=1, dim2=2).sum(1)
    b_squares = b_gram.diagonal(dim1=1, dim2=2).sum(1)
    return guarded((u_gram * b_gram).flatten(1).sum(1), u_squares, b_squares)


def _embedding_grams(calls: list[Call], draws: int, lo: int, hi: int) -> tuple[Tensor, Tensor]:
    """Two tokens share a row of the table where their indices are equal. Both [m, T, T]."""
    indices, gradients = [], []
    for call in calls:
        assert isinstance(call.op, Embedding)
        a, b = (_records(t, draws, lo, hi) for t in _pair(call))
        a = a.reshape(len(a), -1)
        if call.op.padding is not None:
            # A non-finite b must still show, so that it stays in the Gram of b; the index alone is taken out.
            a = a.masked_fill(a == call.op.padding, -1)
        indices.append(_side_by_side(a[:, :, None], draws))
        gradients.append(_side_by_side(b.reshape(*a.shape, -1), draws))
    index, b = torch.cat(indices, 2), torch.cat(gradients, 2)
    same = (index.transpose(1, 2) == index) & (index >= 0)
    return same.to(b.dtype), b.transpose(1, 2) @ b


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


def _phase_work(plane: _Plane, t: int, rows: int, groups: int) -> _Work:
    channels, (height, width) = plane.x.shape[1], plane.y.shape[2:]
    macs, memory = t * t * rows, 3 * t * t
    for (down, phases_down), (right, phases_right) in _phase_groups(plane):
        pixels = _span(down, height) * _span(right, width)
        features = len(phases_down) * len(phases_right) * channels
        macs += pixels * pixels * features
        memory += pixels * features + pixels * pixels + len(down) * len(right) * t * t
    return _Work(macs * groups, memory * groups)


def _phase_gram(call: Call, shape: torch.Size, lo: int, hi: int) -> Tensor:
    """[m, T, T], the Gram matrix of the unfolded patches, without unfolding them."""
    plane = _plane(call, shape, lo, hi)
    m, (height, width) = len(plane.x), plane.y.shape[2:]
    total: Tensor | None = None
    for (down, phases_down), (right, phases_right) in _phase_groups(plane):
        size = _span(down, height), _span(right, width)
        pixels = torch.cat(
            [_one_phase(plane, (i, j), (min(down), min(right)), size) for i in phases_down for j in phases_right], 1
        )
        gram = (pixels.transpose(1, 2) @ pixels).view(m, *size, *size)
        # Taps add up one axis after the other: k + k slices where all pairs would be k k.
        gram = _slices_added([gram[:, i : i + height, :, i : i + height] for i in _steps(down)])
        gram = _slices_added([gram[:, :, i : i + width, :, i : i + width] for i in _steps(right)])
        total = gram if total is None else total.add_(gram)
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


def _one_phase(plane: _Plane, phase: tuple[int, int], first: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """[m, C, pixels]: the pixels of the padded x at stride x (first + q) + phase, for q in 0 .. size - 1; zero in the padding."""
    x = plane.x
    out = x.new_zeros(*x.shape[:2], *size)
    target, source = [], []
    for axis in range(2):
        offset = plane.stride[axis] * first[axis] + phase[axis] - plane.padding[axis]
        start = max(0, -(offset // plane.stride[axis]))
        stop = min(size[axis], (x.shape[2 + axis] - 1 - offset) // plane.stride[axis] + 1)
        stop = max(start, stop)
        target.append(slice(start, stop))
        begin = offset + plane.stride[axis] * start
        source.append(slice(begin, begin + plane.stride[axis] * (stop - start), plane.stride[axis]))
    if target[0].stop > target[0].start and target[1].stop > target[1].start:
        out[:, :, target[0], target[1]] = x[:, :, source[0], source[1]]
    return out.flatten(2)


# Sums.


def _instantiated(uses: list[Call], shape: torch.Size, draws: int, shared: Tensor | None) -> Tensor:
    """[n, size of the weight], the records' gradients themselves. shared: rows of the same parameter used as a bias."""
    affine = [use for use in uses if isinstance(use.op, Affine)]
    others = [use for use in uses if not isinstance(use.op, Affine)]
    n = len(_given(uses[0].b)) // draws
    rows = _given(uses[0].b).new_zeros(n, shape.numel()).to(_pair(uses[0])[1].dtype) if shared is None else shared
    for use in affine:
        assert isinstance(use.op, Affine)
        a, b = _pair(use)
        rows = rows + _folded(use.op.per_record(a * b), draws)
    if not others:
        return rows
    if not affine and shared is None and len({_groups([use]) for use in others}) == 1:
        step = max(1, BLOCK // (4 * max(1, _work(others, shape, draws)["instantiate"].memory)))
        for lo in range(0, n, step):
            hi = min(lo + step, n)
            u, b = _joined(others, shape, draws, lo, hi)
            torch.bmm(b, u.transpose(1, 2), out=rows[lo:hi].view(len(b), b.shape[1], u.shape[1]))
        return rows
    for use in others:
        u, b = _patches(use, shape, draws, 0, n)
        rows = rows + (b @ u.transpose(1, 2)).view(n, -1)
    return rows


def _bias_rows(call: Call) -> Tensor:
    """[draws x n, size of the bias]"""
    _, b = _pair(call)
    if isinstance(call.op, Affine):
        return call.op.per_record(b)
    if isinstance(call.op, Linear):
        return b if b.dim() == 2 else b.flatten(1, -2).sum(1)
    return b.flatten(2).sum(2)


def _folded(rows: Tensor, draws: int) -> Tensor:
    return rows if draws == 1 else rows.unflatten(0, (draws, -1)).sum(0)


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


def _pair(call: Call) -> tuple[Tensor, Tensor]:
    """a and b of a call, at least in single precision: rounded numbers define the gradient, their norms are exact."""
    return _widened(_given(call.a)), _widened(_given(call.b))


def _widened(t: Tensor) -> Tensor:
    return t.float() if t.dtype in (torch.bfloat16, torch.float16) else t


def _given(t: Tensor | None) -> Tensor:
    assert t is not None
    return t


def _unread(calls: list[Call], shape: torch.Size, draws: int, lo: int, hi: int) -> Tensor | float:
    """Zero, or NaN for a record that holds a non-finite number where no position reads it: a kernel may multiply it by zero."""
    total: Tensor | float = 0.0
    for call in calls:
        if isinstance(call.op, Convolution) and not _reads_all(_plane(call, shape, 0, 0)):
            a, b = _pair(call)
            seen = _records(b if call.op.transposed else a, draws, lo, hi).flatten(1)
            total = total + _folded((seen * 0).sum(1, keepdim=True), draws).squeeze(1)
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
