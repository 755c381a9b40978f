"""Norms of per-record gradients, and their clipped sum, from taped pairs: the second half of the fast clipped sum.

A record's gradient for a weight is the sum over positions t of (b_t outer u_t). Here u is the input as the weight meets it (a
row, or an unfolded patch) and b the gradient of the output. Of several ways to its squared norm, the way with the least work
is taken. Two serve every layer that has patches:

- instantiate: form the gradient itself; where it is small it is kept, and the clipped sum is one product with the factors;
- Gram: the sum over t and t' of <u_t, u_t'> <b_t, b_t'>. It never forms the gradient. Goodfellow 2015; Rochette, Manoel and
  Tramel 2019; Li, Tramer, Liang and Hashimoto 2021.

A layer may have others of its own (`layers.phase`, `layers.embedding`). The choice follows counted work, not a clock, so that
the same seed gives the same bits. It does not follow how many records were sampled. The ways differ in how far they raise a
norm, so one record more would change the norms of all others, and what they add. Every squared norm is an upper bound
(`rounding`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gossamer.privacy.per_sample_gradients.pieces import Instantiated, Piece, by_taps, scaled, without
from gossamer.privacy.per_sample_gradients.rounding import gram, instantiated, paired, roundings
from gossamer.privacy.per_sample_gradients.uses import Call, NormRule, Uses, Work, folded

BLOCK = 1 << 22  # numbers in a temporary: a block of records that stays near the processor
KEEP = 1 << 25  # numbers of instantiated gradients that may be kept per layer
GPU_BLOCK = 1 << 28  # on a GPU, where starting a product costs more than its numbers, and nothing stays near


@dataclass(frozen=True)
class Gram:
    """From the Gram matrices of all patches."""

    def work(self, uses: Uses) -> Work:
        """T x T inner products on either side."""
        t = uses.positions
        return Work(t * t * sum(uses.matrix) * uses.groups, uses.unfolded + 3 * t * t * uses.groups)

    def squares(self, uses: Uses, lo: int, hi: int) -> Tensor:
        u, b = uses.patches(lo, hi)
        rows, columns = (roundings(size, u.shape[2]) for size in uses.matrix)
        return paired(gram(u), gram(b), uses.dtype, columns + rows)


@dataclass(frozen=True)
class Instantiate:
    """From the gradients themselves."""

    def work(self, uses: Uses) -> Work:
        """T products of a column and a row."""
        numbers = uses.matrix[0] * uses.matrix[1] * uses.groups
        return Work(uses.positions * numbers, uses.unfolded + 2 * numbers)

    def squares(self, uses: Uses, lo: int, hi: int) -> Tensor:
        return instantiated(*uses.patches(lo, hi))


BY_PATCHES: Mapping[str, NormRule] = {"gram": Gram(), "instantiate": Instantiate()}


@dataclass(eq=False)
class Ghost:
    """Gradients that are never kept: norms from the pairs, then one weight-gradient call per use on factor x b."""

    uses: Uses
    method: NormRule

    @property
    def parameter(self) -> int:
        return self.uses.parameter

    def squared_norms(self) -> Tensor:
        """[n], by blocks of records."""
        n = self.uses.records
        step = max(1, _block(self.uses) // max(self.method.work(self.uses).memory, 1))
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


def pieces(calls: Sequence[Call], parameters: Sequence[Tensor], *, at_once: int, multiplicity: int) -> list[Piece]:
    """Sort taped calls into pieces, one per parameter that was used.

    at_once: how many records a batch may have at most, a public number. The form of each piece depends on it.
    """
    by_weight: dict[int, Uses] = {}
    by_bias: dict[int, Tensor] = {}
    for call in calls:
        if call.b is None:
            continue
        if call.weight is not None:
            if call.weight not in by_weight:
                by_weight[call.weight] = Uses(call.weight, parameters[call.weight].shape, [], multiplicity)
            by_weight[call.weight].calls.append(call)
        if call.bias is not None:
            rows = folded(call.layer.bias_gradients(call.pair[1]), multiplicity)
            by_bias[call.bias] = by_bias[call.bias] + rows if call.bias in by_bias else rows
    of_weights = [_piece(uses, by_bias.pop(weight, None), at_once) for weight, uses in by_weight.items()]
    return of_weights + [Instantiated(bias, rows) for bias, rows in by_bias.items()]


def add_gradient_(call: Call, views: Sequence[Tensor]) -> None:
    """Add the gradients of one call, summed over its rows and not clipped, to the parameters' views."""
    if call.b is None:
        return
    if call.weight is not None:
        call.layer.add_weight_gradient_(views[call.weight], *call.pair)
    if call.bias is not None:
        total = call.layer.bias_gradients(call.pair[1]).sum(0)
        views[call.bias].add_(total.view(views[call.bias].shape))


def _piece(uses: Uses, shared: Tensor | None, at_once: int) -> Piece:
    """Choose the form of one weight's piece, by public numbers. shared: its gradients where it is a bias too, [n, size]."""
    if shared is not None or not (methods := _methods(uses)):
        return _instantiated(uses, shared)
    if uses.alone and (product := uses.calls[0].layer.product(uses)) is not None:
        return product
    keep = at_once * uses.shape.numel() <= (KEEP if uses.on_cpu else GPU_BLOCK)
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


def _instantiated(uses: Uses, shared: Tensor | None) -> Instantiated:
    """The records' gradients themselves. shared: gradients of the same parameter used as a bias, [n, size]."""
    n, size, taps = uses.records, uses.shape.numel(), uses.taps

    others, formed = [], [] if shared is None else [(shared, 1)]
    for call in uses.calls:
        if (rows := call.layer.formed(*call.pair, uses.multiplicity)) is None:
            others.append(call)
        else:
            formed.append((rows, call.layer.taps(uses.shape)))
    ordered = [
        rows if before == taps else by_taps(rows.view(n, uses.shape[0], -1), taps).view(n, -1)
        for rows, before in formed
    ]
    total = sum(ordered[1:], ordered[0]) if ordered else uses.calls[0].pair[1].new_empty(n, size)
    step = max(
        1, (BLOCK // 16 if uses.on_cpu else GPU_BLOCK) // max(1, size, *(uses.unfolded_by(call) for call in others))
    )
    for lo in range(0, n if others else 0, step):
        hi = min(lo + step, n)
        for i, call in enumerate(others):
            u, b = uses.patches_of(call, lo, hi)
            here = total[lo:hi].view(len(b), b.shape[1], u.shape[1])
            torch.baddbmm(here, b, u.transpose(1, 2), beta=1 if ordered or i else 0, out=here)
    return Instantiated(uses.parameter, total, taps)


def _block(uses: Uses) -> int:
    """Numbers in a temporary, where this weight's pairs are."""
    return BLOCK if uses.on_cpu else GPU_BLOCK
