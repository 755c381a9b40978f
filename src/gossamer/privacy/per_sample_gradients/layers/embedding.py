"""Tables that are looked up by index."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gossamer.privacy.per_sample_gradients.ghost import Instantiate
from gossamer.privacy.per_sample_gradients.rounding import gram, paired, roundings
from gossamer.privacy.per_sample_gradients.uses import Layer, NormRule, Uses, Work


@dataclass(frozen=True)
class Embedding(Layer):
    """y = weight[a]. a: int64 [n, ...]; weight: [V, d]; y: [n, ..., d]. The row `padding` never learns."""

    padding: int | None
    autocasts = False

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        del bias
        assert weight is not None
        return F.embedding(a, weight)

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        """Never called: indices have no gradient."""
        raise NotImplementedError("indices have no gradient")

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        """Each b to the row of its index."""
        indices, gradients = a.flatten(), b.reshape(a.numel(), -1)
        if self.padding is not None:
            gradients = gradients.masked_fill((indices == self.padding)[:, None], 0)
        out.index_add_(0, indices, gradients)

    def methods(self, uses: Uses) -> Mapping[str, NormRule]:
        """Instantiate, and a Gram form that compares indices."""
        del uses
        return {"gram": SharedRows(), "instantiate": Instantiate()}

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


@dataclass(frozen=True)
class SharedRows:
    """Two tokens share a row of the table where their indices are equal: no one-hot vectors, and a Gram matrix for b alone."""

    def work(self, uses: Uses) -> Work:
        """T x T comparisons, and inner products of gradients."""
        t = uses.positions
        return Work(t * t * uses.matrix[1], 3 * t * t)

    def squares(self, uses: Uses, lo: int, hi: int) -> Tensor:
        indices, gradients = [], []
        for call in uses.calls:
            assert isinstance(call.layer, Embedding)
            a, b = (uses.rows_of(t, lo, hi) for t in call.pair)
            index = call.layer.learning(a)
            # A non-finite b must still show, so that it stays in the Gram of b; the index alone is taken out.
            indices.append(uses.side_by_side(index))
            gradients.append(uses.side_by_side(b.reshape(*index.shape[:2], -1)))
        index, b = torch.cat(indices, 2), torch.cat(gradients, 2)
        same = (index.transpose(1, 2) == index) & (index >= 0)
        return paired(same.to(b.dtype), gram(b), uses.dtype, roundings(uses.matrix[1], b.shape[2]))
