"""What follows a normalisation."""

from dataclasses import dataclass

from torch import Tensor

from gossamer.privacy.per_sample_gradients.uses import Layer, folded


@dataclass(frozen=True)
class Affine(Layer):
    """y = a * weight + bias, both broadcast: what follows a normalisation. a: [n, ...]; shape: of weight and bias in y.

    A record's gradient is a sum of a * b, no longer than the weight: it is always formed.
    """

    shape: tuple[int, ...]
    autocasts = False

    def forward(self, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        y = a.clone() if weight is None else a * weight.view(self.shape)
        return y if bias is None else y.add_(bias.view(self.shape))

    def input_gradient(self, b: Tensor, weight: Tensor | None, a: Tensor) -> Tensor:
        del a
        return b if weight is None else b * weight.view(self.shape)

    def add_weight_gradient_(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        out.add_(self._summed(a * b).sum(0).view(out.shape))

    def bias_gradients(self, b: Tensor) -> Tensor:
        return self._summed(b)

    def formed(self, a: Tensor, b: Tensor, multiplicity: int) -> Tensor:
        return folded(self._summed(a * b), multiplicity)

    def _summed(self, product: Tensor) -> Tensor:
        """Over everything but the record and the dimensions of the weight. product: [n, ...]; gives [n, weight size]."""
        lead = product.dim() - len(self.shape)
        summed = [i for i in range(1, product.dim()) if i < lead or self.shape[i - lead] == 1 != product.shape[i]]
        return (product.sum(summed) if summed else product).reshape(len(product), -1)
