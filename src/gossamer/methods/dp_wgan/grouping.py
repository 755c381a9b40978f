"""Groups of parameter tensors for grouped clipping (Zhang, Ji, Wang 2018, section 4.1). Public values only."""

import itertools
import math
from collections.abc import Callable, Sequence

from torch import nn

from gossamer.privacy.queries import Bounds


def one_group(module: nn.Module) -> tuple[int, ...]:
    """All tensors together: the global clipping of Algorithm 1."""
    return (0,) * len(list(module.parameters()))


def weight_bias(module: nn.Module) -> tuple[int, ...]:
    """Weight-bias separation: each weight tensor is a group of its own, all biases together are the last one."""
    biases = [name.endswith("bias") for name, _ in module.named_parameters()]
    weights = biases.count(False)
    numbers = iter(range(weights))
    return tuple(weights if bias else next(numbers) for bias in biases)


def per_tensor(module: nn.Module) -> tuple[int, ...]:
    """Each tensor is a group of its own: where Algorithm 2 begins."""
    return tuple(range(len(list(module.parameters()))))


START: dict[str, Callable[[nn.Module], tuple[int, ...]]] = {
    "none": one_group,
    "weight-bias": weight_bias,
    "cluster": per_tensor,
}
"""The groups before clustering, by the setting's name."""


def cluster(norms: Sequence[float], groups: int) -> Bounds:
    """Algorithm 2 (weight clustering): merge the two groups with the most similar bounds until `groups` are left.

    The bound of a merged group is sqrt(c^2 + c'^2) (line 4), because the parts are clipped together. Section 4.4 speaks of
    the *average* of the bounds instead, which would clip m equal bounds c to c, where the norm is about sqrt(m) c. Either is
    private, because the bound of a group is the bound that its noise is made for. This one clips less.

    Args:
        norms: c(g_i), the bound of each tensor, above zero.
        groups: k, how many groups to keep, between 1 and the number of tensors.

    Returns:
        Bounds with the groups numbered in the order of their first tensor.
    """
    members = [([i], norm) for i, norm in enumerate(norms)]  # l. 1
    while len(members) > groups:  # l. 2
        order = sorted(members, key=lambda group: group[1])
        # The smallest ratio of larger to smaller bound is between neighbours in this order.
        a, b = min(itertools.pairwise(order), key=lambda pair: pair[1][1] / pair[0][1])  # l. 3
        members = [group for group in members if group is not a and group is not b]
        members.append((sorted(a[0] + b[0]), math.hypot(a[1], b[1])))  # l. 4
    members.sort(key=lambda group: group[0])
    number = {tensor: j for j, (tensors, _) in enumerate(members) for tensor in tensors}
    return Bounds(
        norms=tuple(norm for _, norm in members), groups=tuple(number[tensor] for tensor in range(len(norms)))
    )
