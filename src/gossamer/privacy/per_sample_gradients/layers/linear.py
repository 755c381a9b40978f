"""Linear maps."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gossamer.privacy.per_sample_gradients.ghost import BY_PATCHES
from gossamer.privacy.per_sample_gradients.pieces import Product
from gossamer.privacy.per_sample_gradients.uses import Layer, NormRule, Uses


@dataclass(frozen=True)
class Linear(Layer):
    """y = a W^T + bias. a: [n, ..., D]; weight: [p, D]; y: [n, ..., p]. The patches are a and b themselves."""

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        assert weight is not None
        return F.linear(a, weight, bias)

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        del a
        assert weight is not None
        return b @ weight

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        out.addmm_(b.flatten(0, -2).t(), a.flatten(0, -2))

    def bias_gradients(self, b: Tensor) -> Tensor:
        return b if b.dim() == 2 else b.flatten(1, -2).sum(1)

    def methods(self, uses: Uses) -> Mapping[str, NormRule]:
        del uses
        return BY_PATCHES

    def product(self, uses: Uses) -> Product | None:
        """b outer a, where a record is one vector."""
        if uses.positions != 1:
            return None
        a, b = uses.calls[0].pair
        return Product(uses.parameter, a.flatten(1), b.flatten(1))

    def patches(self, a: Tensor, b: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """u [n, T, D] and b [n, T, p]."""
        del shape
        return (a.flatten(1, -2), b.flatten(1, -2)) if a.dim() > 2 else (a[:, None], b[:, None])
