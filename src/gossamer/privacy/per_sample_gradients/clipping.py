"""Clipping itself: factors from norms, and what they are applied to.

Everything runs over `module.parameters()` in their order; `Bounds.groups` says which of them are clipped together.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.privacy.per_sample_gradients.ghost import add_gradient_, pieces
from gossamer.privacy.per_sample_gradients.pieces import Piece, Product
from gossamer.privacy.per_sample_gradients.precision import full_precision
from gossamer.privacy.per_sample_gradients.rounding import charged, square_norms
from gossamer.privacy.per_sample_gradients.uses import Call
from gossamer.privacy.queries import Bounds


def clip_rows(gradients: Tensor, module: nn.Module, bounds: Bounds) -> Tensor:
    """Each row clipped, group by group. gradients: [n, D]; gives [n, D]; a row that is not finite becomes zero."""
    parts = list(gradients.split([p.numel() for p in module.parameters()], dim=1))
    groups = groups_of_parameters(bounds, len(parts))
    per_tensor = [(g, square_norms(part)) for g, part in zip(groups, parts, strict=True)]
    squares = _by_group(per_tensor, len(gradients), gradients.device, len(bounds.norms))
    finite = torch.stack(squares).isfinite().all(0) & gradients.isfinite().all(1)
    factors = _factors(squares, bounds, gradients.dtype)
    clipped = [part * factors[g][:, None] for g, part in zip(groups, parts, strict=True)]
    return torch.where(finite[:, None], torch.cat(clipped, 1), 0)


@full_precision()
def add_clipped_(
    out: Tensor, calls: list[Call], module: nn.Module, bounds: Bounds, *, at_once: int, multiplicity: int, fresh: bool
) -> None:
    """Add the clipped sum of taped calls to out, [D]. Records whose norm is not finite count as zero. at_once: see `pieces`.

    Where `out` is fresh, it is written and never read: a large matrix product needs no zeros to be added to.
    """
    parameters = list(module.parameters())
    if not (parts := pieces(calls, parameters, at_once=at_once, multiplicity=multiplicity)):
        if fresh:
            out.zero_()
        return
    groups = groups_of_parameters(bounds, len(parameters))
    squares = _squares(parts, groups, len(bounds.norms))
    factors = _factors(squares, bounds, out.dtype)
    views = _views(out, parameters)
    infinite = ~torch.stack(squares).isfinite().all(0)
    # Asking a GPU means waiting for it, which takes longer than a pass that drops nothing.
    dropped = infinite if out.device.type != "cpu" or bool(infinite.any()) else None
    if dropped is not None:
        factors = [factor.masked_fill(dropped, 0) for factor in factors]
    if fresh:  # a product is all that its parameter gets, so it writes where the others add
        written = {part.parameter for part in parts if isinstance(part, Product)}
        for number, view in enumerate(views):
            if number not in written:
                view.zero_()
    for part in parts:
        put = part.write_ if fresh and isinstance(part, Product) else part.add_
        put(views[part.parameter], factors[groups[part.parameter]], dropped)


def row_norms(gradients: Tensor, module: nn.Module, groups: Sequence[int]) -> Tensor:
    """L2 norms of each row, group by group. gradients: [n, D]; gives [n, k]."""
    parts = gradients.split([p.numel() for p in module.parameters()], dim=1)
    squares = [(g, square_norms(part)) for g, part in zip(groups, parts, strict=True)]
    by_group = _by_group(squares, len(gradients), gradients.device, max(groups) + 1)
    return torch.stack(by_group, 1).sqrt().to(gradients.dtype)


@full_precision()
def call_norms(
    calls: list[Call], module: nn.Module, groups: Sequence[int], count: int, *, at_once: int, multiplicity: int
) -> Tensor:
    """L2 norms of the gradients that taped calls of `count` records hold, group by group: [count, k]. at_once: see `pieces`."""
    k = max(groups) + 1
    parts = pieces(calls, list(module.parameters()), at_once=at_once, multiplicity=multiplicity)
    if not parts:
        return torch.zeros(count, k, dtype=sum_dtype(module))
    return torch.stack(_squares(parts, groups, k), 1).sqrt().to(sum_dtype(module))


def ordinary_gradient(root: Tensor, module: nn.Module) -> Tensor:
    """[D], the gradient of one number by ordinary autograd; zero for what does not learn or is not used."""
    parameters = list(module.parameters())
    learning = [p for p in parameters if p.requires_grad]
    gradients: Iterator[Tensor | None] = itertools.repeat(None)
    if root.requires_grad and learning:
        gradients = iter(torch.autograd.grad(root, learning, allow_unused=True))
    parts = [next(gradients) if p.requires_grad else None for p in parameters]
    dtype = sum_dtype(module)
    flat = [
        torch.zeros_like(p).flatten() if part is None else part.flatten()
        for part, p in zip(parts, parameters, strict=True)
    ]
    return torch.cat(flat).to(dtype) if flat else torch.zeros(0, dtype=dtype)


@full_precision()
def summed_calls(calls: list[Call], module: nn.Module) -> Tensor:
    """[D], the sum of the gradients of taped calls, not clipped."""
    out = empty(module).zero_()
    views = _views(out, list(module.parameters()))
    for call in calls:
        add_gradient_(call, views)
    return out


def empty(module: nn.Module) -> Tensor:
    """[D], not filled: the caller writes every number of it."""
    size = sum(p.numel() for p in module.parameters())
    return torch.empty(size, dtype=sum_dtype(module), device=place(module))


def place(module: nn.Module) -> torch.device:
    """Where the module is."""
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def _views(out: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    """The part of out, [D], that belongs to each parameter, in its shape."""
    parts = out.split([p.numel() for p in parameters])
    return [part.view(p.shape) for part, p in zip(parts, parameters, strict=True)]


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


def _squares(parts: list[Piece], groups: Sequence[int], k: int) -> list[Tensor]:
    norms = [(groups[part.parameter], part.squared_norms()) for part in parts]
    return _by_group(norms, len(norms[0][1]), norms[0][1].device, k)


def _by_group(norms: list[tuple[int, Tensor]], n: int, device: torch.device, k: int) -> list[Tensor]:
    """Squared norms [n] float64 added up by group, k of them."""
    none = torch.zeros(n, dtype=torch.float64, device=device)
    return [sum((square for g, square in norms if g == group), none) for group in range(k)]


def _factors(squares: list[Tensor], bounds: Bounds, dtype: torch.dtype) -> list[Tensor]:
    """[n] per group: 1 where the norm is within its bound, else bound / norm; the bound already allows for rounding."""
    within = [charged(norm, dtype) for norm in bounds.norms]
    return [(norm / square.sqrt()).clamp(max=1).to(dtype) for norm, square in zip(within, squares, strict=True)]


def sum_dtype(module: nn.Module) -> torch.dtype:
    """float32, or wider where a parameter is."""
    dtype = torch.float32
    for p in module.parameters():
        dtype = torch.promote_types(dtype, p.dtype)
    return dtype
