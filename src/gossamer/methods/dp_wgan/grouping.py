"""Groups of parameter tensors for grouped clipping (Zhang, Ji, Wang 2018, section 4.1). Public values only."""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

from torch import nn

from gossamer.privacy.queries import Bounds


def first_groups(grouping: Literal["none", "weight-bias", "cluster"], module: nn.Module) -> tuple[int, ...]:
    """The group of each tensor, before clustering.

    - none: all together, the global clipping of Algorithm 1.
    - weight-bias: each weight is a group of its own, and all biases together are the last one.
    - cluster: each tensor is a group of its own, where Algorithm 2 begins.
    """
    names = [name for name, _ in module.named_parameters()]
    if grouping == "none":
        return (0,) * len(names)
    alone = [name for name in names if grouping == "cluster" or not name.endswith("bias")]
    return tuple(alone.index(name) if name in alone else len(alone) for name in names)


def cluster(norms: Sequence[float], groups: int) -> Bounds:
    """Algorithm 2 (weight clustering): merge the two groups with the most similar bounds until `groups` are left.

    The bound of a merged group is sqrt(c^2 + c'^2) (line 4), because the parts are clipped together. Section 4.4 speaks of
    the *average* of the bounds instead. That would clip m equal bounds c to c, where the norm is about sqrt(m) c. Either is
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
