"""The clipped sum of taped calls: each weight's gradients in the cheapest form, factors from their norms, and their use.

What a batch contributes to one parameter is a *piece*: `Instantiated`, `Product` or `Ghost`. `squared_norms` gives float64 [n],
the squared L2 norm of what each record can add, rounding included. It is not finite where the record's gradient is not. `add_`
adds the sum over records of factor x gradient to `out`, which has the parameter's shape. dropped: bool [n] or None. Its form
follows counted work, not a clock, so that the same seed gives the same bits. It does not follow how many records were sampled.
The ways to norms differ in how far they raise a norm, so one record more would change the norms of all others, and what they
add.

Everything runs over `module.parameters()` in their order; `Bounds.groups` says which of them are clipped together.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.privacy.per_sample_gradients.ghost import (
    BY_PATCHES,
    Call,
    NormRule,
    Place,
    Uses,
    Work,
    by_channels,
    by_taps,
    folded,
)
from gossamer.privacy.per_sample_gradients.rounding import charged, full_precision, square_norms
from gossamer.privacy.queries import Bounds

BLOCK = 1 << 22  # numbers in a temporary: a block of records that stays near the processor
KEEP = 1 << 25  # numbers of instantiated gradients that may be kept per layer
GPU_BLOCK = 1 << 28  # on a GPU, where starting a product costs more than its numbers, and nothing stays near


@dataclass(eq=False)
class Instantiated:
    """Per-record gradients that were formed. rows: [n, size of the parameter]; of a convolution, taps before channels."""

    rows: Tensor
    taps: int = 1

    def squared_norms(self) -> Tensor:
        return square_norms(self.rows)

    def in_order(self, size: torch.Size) -> Tensor:
        """[n, *size], as the parameter has them."""
        return by_channels(self.rows.view(len(self.rows), size[0], -1), self.taps).reshape(-1, *size)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        total = factors @ without(self.rows, dropped)
        if self.taps > 1:
            total = by_channels(total.view(len(out), -1), self.taps)
        out.add_(total.view(out.shape))


@dataclass(eq=False)
class Product:
    """Gradients of rank one: b outer a. a: [n, columns]; b: [n, rows], for a parameter of rows x columns numbers.

    Of constant planes, b is [n, rows, taps]. Where beta is 0, `add_` overwrites out, which is not read.
    """

    a: Tensor
    b: Tensor
    beta: int = 1

    def squared_norms(self) -> Tensor:
        return square_norms(self.a) * square_norms(self.b.flatten(1))

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        a, b = without(self.a, dropped), without(self.b, dropped)
        if b.dim() == 2:
            a, b = scaled(a, b, factors)
            out.view(b.shape[1], a.shape[1]).addmm_(b.t(), a, beta=self.beta)
            return
        total = (a * factors[:, None]).t() @ b.flatten(1)
        if not self.beta:
            out.zero_()
        out.view(*out.shape[:2], -1).add_(total.unflatten(1, (len(out), -1)).transpose(0, 1))


@dataclass(eq=False)
class Ghost:
    """Gradients that are never kept: norms from the pairs, then one weight-gradient call per use on factor x b."""

    uses: Uses
    method: NormRule

    def squared_norms(self) -> Tensor:
        """[n], by blocks of records."""
        n = self.uses.records
        step = max(1, _numbers(self.uses, BLOCK) // max(self.method.work(self.uses).memory, 1))
        return torch.cat([self._block(lo, min(lo + step, n)) for lo in range(0, n, step)])

    def _block(self, lo: int, hi: int) -> Tensor:
        squares = self.method.squares(self.uses, lo, hi).view(hi - lo, self.uses.groups).sum(1)
        return squares + self.uses.unread(lo, hi)

    def add_(self, out: Tensor, factors: Tensor, dropped: Tensor | None) -> None:
        factors = factors.repeat(self.uses.multiplicity)
        dropped = None if dropped is None else dropped.repeat(self.uses.multiplicity)
        for call in self.uses.calls:
            a, b = call.pair
            call.layer.add_weight_gradient_(out, *scaled(without(a, dropped), without(b, dropped), factors))


Piece: TypeAlias = Instantiated | Product | Ghost


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


def _column(values: Tensor, like: Tensor) -> Tensor:
    """[n] as [n, 1, ...], beside the rows of another tensor."""
    return values.view(-1, *(1,) * (like.dim() - 1))


def pieces(calls: Sequence[Call], sizes: Sequence[int], *, at_once: int, multiplicity: int) -> dict[Place, Piece]:
    """Sort taped calls into pieces, by the place of each weight and bias that was used. No two places share a number.

    sizes: of the parameters. at_once: how many records a batch may have at most, a public number. The form of each piece
    depends on it.
    """
    by_weight: dict[Place, Uses] = {}
    by_bias: dict[Place, Tensor] = {}
    for call in side_by_side(calls):
        if call.weight is not None:
            by_weight.setdefault(call.weight, Uses(call.weight.size, [], multiplicity)).calls.append(call)
        if call.bias is not None:
            rows = folded(call.layer.bias_gradients(call.pair[1]), multiplicity)
            by_bias[call.bias] = by_bias[call.bias] + rows if call.bias in by_bias else rows
    found: dict[Place, Piece] = {}
    for number, places in itertools.groupby(
        sorted({**by_weight, **by_bias}, key=_by_number), lambda place: place.number
    ):
        here = list(places)
        if all(one.end <= other.start for one, other in itertools.pairwise(here)):
            found |= {place: _piece(by_weight.get(place), by_bias.get(place), at_once) for place in here}
            continue
        formed = [(place, _instantiated(by_weight.get(place), by_bias.get(place))) for place in here]
        total = formed[0][1].rows.new_zeros(len(formed[0][1].rows), sizes[number])
        for place, part in formed:
            place.of(total).add_(part.in_order(place.size))
        found[Place.of_all(number, total.shape[1:])] = Instantiated(total)
    return found


def _by_number(place: Place) -> tuple[int, int]:
    return place.number, place.start


def side_by_side(calls: Sequence[Call]) -> list[Call]:
    """The calls that have gradients. Those of one linear map are one call: a recurrent layer makes one for each step."""
    alike: dict[object, list[Call]] = {}
    for call in calls:
        if call.b is not None:
            alike.setdefault((call.weight, call.bias) if call.layer.joins else id(call), []).append(call)
    return [some[0] if len(some) == 1 else _one_call(some) for some in alike.values()]


def _one_call(calls: Sequence[Call]) -> Call:
    first = calls[0]
    patches = [call.layer.patches(*call.pair, torch.Size()) for call in calls]
    a, b = (torch.cat(side, 1) for side in zip(*patches, strict=True))
    return Call(first.layer, first.weight, first.bias, a, b)


def _piece(uses: Uses | None, shared: Tensor | None, at_once: int) -> Piece:
    """Choose the form of one weight's piece, by public numbers. shared: its gradients where it is a bias too, [n, size]."""
    if uses is None or shared is not None or not (methods := _methods(uses)):
        return _instantiated(uses, shared)
    if uses.alone and (product := uses.calls[0].layer.product(uses)) is not None:
        return Product(*product)
    keep = at_once * uses.shape.numel() <= _numbers(uses, KEEP)
    work = {name: method.work(uses) for name, method in methods.items()}
    if keep:
        # A kept gradient spares the weight-gradient call, which costs as much as forming the gradients does.
        work["instantiate"] = replace(work["instantiate"], saved=work["instantiate"].macs)
    name = cheapest(work)
    return _instantiated(uses, None) if keep and name == "instantiate" else Ghost(uses, methods[name])


def _methods(uses: Uses) -> Mapping[str, NormRule]:
    """The ways to the norms that all uses of a weight share; none where its gradients have to be formed."""
    offered = [call.layer.methods(uses) for call in uses.calls]
    if not all(offered) or len({call.layer.groups for call in uses.calls}) > 1:
        return {}
    return offered[0] if len({type(call.layer) for call in uses.calls}) == 1 else BY_PATCHES


def cheapest(work: Mapping[str, Work]) -> str:
    """The method with the least work."""
    return min(work, key=lambda method: work[method].cost)


def _numbers(uses: Uses, on_cpu: int) -> int:
    """Numbers of a temporary, or of gradients that are kept, where this weight's pairs are."""
    return on_cpu if uses.b.device.type == "cpu" else GPU_BLOCK


def _instantiated(uses: Uses | None, shared: Tensor | None) -> Instantiated:
    """The records' gradients themselves. shared: gradients of the same parameter used as a bias, [n, size]."""
    if uses is None:
        assert shared is not None
        return Instantiated(shared)
    n, size, taps = uses.records, uses.shape.numel(), uses.taps
    others, formed = [], [] if shared is None else [(shared, 1)]
    for call in uses.calls:
        if (rows := call.layer.formed(*call.pair, uses.shape, uses.multiplicity)) is None:
            others.append(call)
        else:
            formed.append((rows, call.layer.taps(uses.shape)))
    ordered = [
        rows if before == taps else by_taps(rows.view(n, uses.shape[0], -1), taps).view(n, -1)
        for rows, before in formed
    ]
    total = sum(ordered[1:], ordered[0]) if ordered else uses.b.new_empty(n, size)
    step = max(1, _numbers(uses, BLOCK // 16) // max(1, size, *(uses.unfolded(call) for call in others)))
    for lo in range(0, n if others else 0, step):
        hi = min(lo + step, n)
        for i, call in enumerate(others):
            u, b = uses.patches_of(call, lo, hi)
            here = total[lo:hi].view(len(b), b.shape[1], u.shape[1])
            torch.baddbmm(here, b, u.transpose(1, 2), beta=1 if ordered or i else 0, out=here)
    return Instantiated(total, taps)


def clip_rows(gradients: Tensor, module: nn.Module, bounds: Bounds) -> Tensor:
    """Each row clipped, group by group. gradients: [n, D]; gives [n, D]; a row that is not finite becomes zero."""
    parts = _parts(gradients, module)
    groups = groups_of_parameters(bounds, len(parts))
    squares = _squares_of_rows(gradients, parts, groups, len(bounds.norms))
    finite = torch.stack(squares).isfinite().all(0) & gradients.isfinite().all(1)
    factors = _factors(squares, bounds, gradients.dtype)
    clipped = [part * factors[g][:, None] for g, part in zip(groups, parts, strict=True)]
    return torch.where(finite[:, None], torch.cat(clipped, 1), 0)


def row_norms(gradients: Tensor, module: nn.Module, groups: Sequence[int]) -> Tensor:
    """L2 norms of each row, group by group. gradients: [n, D]; gives [n, k]."""
    squares = _squares_of_rows(gradients, _parts(gradients, module), groups, max(groups) + 1)
    return torch.stack(squares, 1).sqrt().to(gradients.dtype)


@full_precision()
def add_clipped_(
    out: Tensor, calls: list[Call], module: nn.Module, bounds: Bounds, *, at_once: int, multiplicity: int, fresh: bool
) -> None:
    """Add the clipped sum of taped calls to out, [D]. Records whose norm is not finite count as zero. at_once: see `pieces`.

    Where `out` is fresh, it is written and never read: a large matrix product needs no zeros to be added to.
    """
    views = _parts(out, module)
    if not (parts := pieces(calls, [*map(len, views)], at_once=at_once, multiplicity=multiplicity)):
        if fresh:
            out.zero_()
        return
    groups = groups_of_parameters(bounds, len(views))
    squares = _squares(parts, groups, len(bounds.norms))
    factors = _factors(squares, bounds, out.dtype)
    infinite = ~torch.stack(squares).isfinite().all(0)
    # Asking a GPU means waiting for it, which takes longer than a pass that drops nothing.
    dropped = infinite if out.device.type != "cpu" or bool(infinite.any()) else None
    if dropped is not None:
        factors = [factor.masked_fill(dropped, 0) for factor in factors]
    written = set()
    for place, part in parts.items():  # all that its parameter gets, so it writes where others add
        if fresh and isinstance(part, Product) and place.size.numel() == len(views[place.number]):
            part.beta = 0
            written.add(place.number)
    for number, view in enumerate(views if fresh else ()):
        if number not in written:
            view.zero_()
    for place, part in parts.items():
        part.add_(place.of(views[place.number]), factors[groups[place.number]], dropped)


@full_precision()
def call_norms(
    calls: list[Call], module: nn.Module, groups: Sequence[int], count: int, *, at_once: int, multiplicity: int
) -> Tensor:
    """L2 norms of the gradients that taped calls of `count` records hold, group by group: [count, k]. at_once: see `pieces`."""
    k = max(groups) + 1
    sizes = [p.numel() for p in module.parameters()]
    parts = pieces(calls, sizes, at_once=at_once, multiplicity=multiplicity)
    if not parts:
        return torch.zeros(count, k, dtype=sum_dtype(module))
    return torch.stack(_squares(parts, groups, k), 1).sqrt().to(sum_dtype(module))


@full_precision()
def summed_calls(calls: list[Call], module: nn.Module) -> Tensor:
    """[D], the sum of the gradients of taped calls, not clipped."""
    out = empty(module).zero_()
    views = _parts(out, module)
    for call in side_by_side(calls):
        if call.weight is not None:
            call.layer.add_weight_gradient_(call.weight.of(views[call.weight.number]), *call.pair)
        if call.bias is not None:
            view = call.bias.of(views[call.bias.number])
            view.add_(call.layer.bias_gradients(call.pair[1]).sum(0).view(view.shape))
    return out


def ordinary_gradient(root: Tensor, module: nn.Module) -> Tensor:
    """[D], the gradient of one number by ordinary autograd; zero for what does not learn or is not used."""
    learning = [p for p in module.parameters() if p.requires_grad]
    found = torch.autograd.grad(root, learning, materialize_grads=True) if root.requires_grad and learning else ()
    by_id = {id(p): gradient for p, gradient in zip(learning, found, strict=False)}
    parts = [by_id[id(p)].flatten() if id(p) in by_id else torch.zeros_like(p).flatten() for p in module.parameters()]
    return torch.cat(parts).to(sum_dtype(module)) if parts else empty(module)


def empty(module: nn.Module) -> Tensor:
    """[D], not filled: the caller writes every number of it."""
    size = sum(p.numel() for p in module.parameters())
    return torch.empty(size, dtype=sum_dtype(module), device=place(module))


def sum_dtype(module: nn.Module) -> torch.dtype:
    """float32, or wider where a parameter is."""
    return functools.reduce(torch.promote_types, (p.dtype for p in module.parameters()), torch.float32)


def place(module: nn.Module) -> torch.device:
    """Where the module is."""
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def _parts(gradients: Tensor, module: nn.Module) -> Sequence[Tensor]:
    """Columns of gradients, [n, D], or numbers of one, [D], that belong to each parameter."""
    parts: Sequence[Tensor] = gradients.split([p.numel() for p in module.parameters()], dim=-1)
    return parts


def clips(bounds: Bounds) -> bool:
    """Whether any bound is finite."""
    return not all(math.isinf(norm) for norm in bounds.norms)


def groups_of_parameters(bounds: Bounds, count: int) -> Sequence[int]:
    """The group of each of `count` parameter tensors.

    Raises:
        RequestError: if the bounds do not fit.
    """
    if not all(norm > 0 for norm in bounds.norms):
        raise RequestError("bounds must be above zero; infinity switches clipping off")
    if bounds.groups is None:
        if len(bounds.norms) != 1:
            raise RequestError(f"{len(bounds.norms)} bounds were given, but no groups: say the group of each parameter")
        return (0,) * count
    if len(bounds.groups) != count or any(not 0 <= group < len(bounds.norms) for group in bounds.groups):
        raise RequestError(f"groups must name a bound, from 0 to {len(bounds.norms) - 1}, for each of {count} tensors")
    return bounds.groups


def _squares(parts: Mapping[Place, Piece], groups: Sequence[int], k: int) -> list[Tensor]:
    norms = [part.squared_norms() for part in parts.values()]
    return _by_group(norms, [groups[place.number] for place in parts], k, torch.zeros_like(norms[0]))


def _squares_of_rows(gradients: Tensor, parts: Sequence[Tensor], groups: Sequence[int], k: int) -> list[Tensor]:
    return _by_group([*map(square_norms, parts)], groups, k, gradients.new_zeros(len(gradients), dtype=torch.float64))


def _by_group(norms: list[Tensor], groups: Sequence[int], k: int, none: Tensor) -> list[Tensor]:
    """Squared norms [n] float64 added up by group, k of them. none: zeros, [n]."""
    return [sum((square for g, square in zip(groups, norms, strict=True) if g == group), none) for group in range(k)]


def _factors(squares: list[Tensor], bounds: Bounds, dtype: torch.dtype) -> list[Tensor]:
    """[n] per group: 1 where the norm is within its bound, else bound / norm; the bound already allows for rounding."""
    within = [charged(norm, dtype) for norm in bounds.norms]
    return [(norm / square.sqrt()).clamp(max=1).to(dtype) for norm, square in zip(within, squares, strict=True)]
