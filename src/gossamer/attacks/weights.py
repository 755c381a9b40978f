"""An attacker who has the released model and nothing else: along which of its weights a canary shows."""

import numpy as np
from numpy.typing import NDArray

from gossamer.attacks.arrays import Scores


def fisher_direction(inside: NDArray[np.float32], outside: NDArray[np.float32]) -> Scores:
    """How far the canary moves each weight of a model, over its variance: the attacker's score is along it. float64 [numbers]

    Fisher 1936, with the covariances left out. The attacker trains shadow models, in pairs with the same noise. One of each
    pair has the canary, so that it makes all the difference.

    Args:
        inside: [pairs, numbers], the weights of shadow models with the canary; at least two.
        outside: [pairs, numbers], without.
    """
    with_canary, without = (weights.astype(np.float64) for weights in (inside, outside))
    variance = (with_canary.var(0) + without.var(0)) / 2
    moved = (with_canary - without).mean(0)
    return np.asarray(np.divide(moved, variance, out=np.zeros_like(moved), where=variance > 0))
