"""Layers that are no convolution: linear maps, tables that are looked up by index, and weights beside activations."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gossamer.privacy.per_sample_gradients.ghost import BY_PATCHES, Layer, NormRule, Uses, Work, folded
from gossamer.privacy.per_sample_gradients.rounding import gram, paired, roundings


@dataclass(frozen=True)
class Linear(Layer):
    """y = a W^T + bias. a: [n, ..., D]; weight: [p, D]; y: [n, ..., p]. The patches are a and b themselves."""

    joins = True

    def forward(self, a: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(a, weight, bias)

    def input_gradient(self, b: Tensor, weight: Tensor, a: Tensor) -> Tensor:
        del a
        return b @ weight

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        out.addmm_(b.flatten(0, -2).t(), a.flatten(0, -2))

    def bias_gradients(self, b: Tensor) -> Tensor:
        return b if b.dim() == 2 else b.flatten(1, -2).sum(1)

    def product(self, uses: Uses) -> tuple[Tensor, Tensor] | None:
        """b outer a, where a record is one vector."""
        if uses.positions != 1:
            return None
        a, b = uses.calls[0].pair
        return a.flatten(1), b.flatten(1)

    def patches(self, a: Tensor, b: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """u [n, T, D] and b [n, T, p]."""
        del shape
        return (a.flatten(1, -2), b.flatten(1, -2)) if a.dim() > 2 else (a[:, None], b[:, None])


@dataclass(frozen=True)
class Copies(Layer):
    """y = weight, once for every record: what is added to activations or multiplied by them. a: [n], not read; y: [n, ...].

    The gradient of a record's copy is the record's gradient. It is always formed.
    """

    autocasts = False

    def forward(self, a: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        del bias
        return weight.expand(len(a), *weight.shape)

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        del a
        out.add_(b.sum(0))

    def formed(self, a: Tensor, b: Tensor, shape: torch.Size, multiplicity: int) -> Tensor:
        del a, shape
        return folded(b.flatten(1), multiplicity)

    def methods(self, uses: Uses) -> Mapping[str, NormRule]:
        """None."""
        del uses
        return {}


@dataclass(frozen=True)
class Embedding(Layer):
    """y = weight[a]. a: int64 [n, ...]; weight: [V, d]; y: [n, ..., d]. The row `padding` never learns."""

    padding: int | None
    autocasts = False

    def forward(self, a: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        del bias
        return F.embedding(a, weight)

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        """Each b to the row of its index."""
        indices, gradients = a.flatten(), b.reshape(a.numel(), -1)
        if self.padding is not None:
            gradients = gradients.masked_fill((indices == self.padding)[:, None], 0)
        out.index_add_(0, indices, gradients)

    def methods(self, uses: Uses) -> Mapping[str, NormRule]:
        """Instantiate, and a Gram form that compares indices."""
        del uses
        return {"gram": BY_ROWS, "instantiate": BY_PATCHES["instantiate"]}

    def patches(self, a: Tensor, b: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """The gradients of the looked-up rows, [n, T, d], and which rows these are, one-hot, [n, T, V]."""
        hot = F.one_hot(a.reshape(len(a), -1), shape[0]).to(b.dtype)
        if self.padding is not None:
            hot[..., self.padding] = 0
        return b.reshape(*hot.shape[:2], -1), hot

    def learning(self, a: Tensor) -> Tensor:
        """[n, T, 1], the indices, -1 where a row does not learn."""
        a = a.reshape(len(a), -1, 1)
        return a if self.padding is None else a.masked_fill(a == self.padding, -1)


def _work_of_rows(uses: Uses) -> Work:
    """T x T comparisons, and inner products of gradients."""
    t = uses.positions
    return Work(t * t * uses.matrix[1], 3 * t * t)


def _by_rows(uses: Uses, lo: int, hi: int) -> Tensor:
    """Two tokens share a row of the table where their indices are equal: no one-hot vectors, and a Gram matrix for b alone."""
    both = []
    for call in uses.calls:
        assert isinstance(call.layer, Embedding)
        a, b = uses.rows_of(call, lo, hi)
        index = call.layer.learning(a)
        # A non-finite b must still show, so that it stays in the Gram of b; the index alone is taken out.
        both.append((uses.side_by_side(index), uses.side_by_side(b.reshape(*index.shape[:2], -1))))
    index, b = (torch.cat(side, 2) for side in zip(*both, strict=True))
    same = (index.transpose(1, 2) == index) & (index >= 0)
    return paired(same.to(b.dtype), gram(b), uses.b.dtype, roundings(uses.matrix[1], b.shape[2]))


BY_ROWS = NormRule(_work_of_rows, _by_rows)
