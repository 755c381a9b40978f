"""Gradients are given to parameters in the parameters' own order of memory, which fused optimisers on a GPU ask for."""

import torch
from torch import nn

from gossamer.privacy.per_sample_gradients.gradients import assign


def test_a_gradient_in_another_order_of_memory_is_laid_out_as_its_parameter() -> None:
    layer = nn.Conv2d(3, 4, 1)  # strides that no call of contiguous() would change
    weight, bias = layer.parameters()
    other = torch.randn(4, 3, 1, 1).as_strided((4, 3, 1, 1), (3, 1, 3, 3))
    same = torch.randn(4)
    assert other.is_contiguous() and other.stride() != weight.stride()
    assign([weight, bias], [other, same])
    assert weight.grad is not None and weight.grad.stride() == weight.stride() and torch.equal(weight.grad, other)
    assert bias.grad is same
