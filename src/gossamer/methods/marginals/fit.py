"""The most probable table under noisy counts, by its dual. McKenna, Sheldon, Miklau 2019 (private-PGM) solve the primal.

N is the number of rows, y_c are the noisy counts of clique c with variances v_c, and s is the smoothing. The distribution p of
rows maximises

    N H(p) - sum over c of |N p_c - y_c|^2 / (2 s v_c)

Its dual has a number t for each measured cell. It minimises N log Z(t) - <t, y> + s <t^2, v> / 2, which is smooth and convex.
"""

from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from gossamer.methods.marginals.measurements import Fold, Measurement
from gossamer.methods.marginals.tree import JunctionTree, spread

MEMORY = 20
"""Pairs of steps that L-BFGS keeps."""


def fit(
    measured: Sequence[Measurement | Fold],
    tree: JunctionTree,
    *,
    total: float,
    smoothing: float,
    iterations: int,
    duals: Tensor | None = None,
) -> tuple[list[Tensor], Tensor]:
    """Minimise the dual by L-BFGS, in float64.

    Args:
        measured: measurements, or folds. A clique of the tree holds each of them.
        tree: of the measured cliques.
        total: N, a released or declared number of rows, above zero.
        smoothing: s. At 1 the counts have the weight that their variances give; below, more.
        iterations: steps of L-BFGS, at most.
        duals: of the first measurements, from an earlier fit.

    Returns:
        The probabilities of the cells of the tree's cliques, and the t of all measured cells, [m], where the next fit begins.
    """
    homes = [tree.home(clique) for clique, *_ in measured]
    groups = [
        (own[0] if own else torch.arange(noisy.numel())).view([tree.sizes[column] for column in clique])
        for clique, *own, noisy, _ in measured
    ]
    counts = torch.cat([noisy.flatten() for *_, noisy, _ in measured])
    variances = smoothing * torch.cat([each.flatten() for *_, each in measured])
    scale = torch.rsqrt(counts.clamp(min=1.0) + variances)  # the curvature of the dual is about counts + variances

    def potentials(t: Tensor) -> list[Tensor]:
        sums = [torch.zeros(shape, dtype=torch.float64) for shape in tree.shapes]
        parts = t.split([noisy.numel() for *_, noisy, _ in measured])
        for home, part, own, (clique, *_) in zip(homes, parts, groups, measured, strict=True):
            assert home is not None
            sums[home] = sums[home] + spread(part[own], clique, tree.cliques[home])
        return sums

    def objective(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.tensor(scaled, requires_grad=True)
        t = point * scale
        value = total * tree.log_partition(potentials(t)) - t @ counts + (t.square() @ variances) / 2
        value.backward()
        assert point.grad is not None
        return float(value.detach()), point.grad.numpy()

    begin = np.zeros(len(counts))
    if duals is not None:
        begin[: len(duals)] = (duals / scale[: len(duals)]).numpy()
    limits = {"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": MEMORY, "ftol": 1e-12, "gtol": 1e-3}
    best = minimize(objective, begin, jac=True, method="L-BFGS-B", options=limits)
    t = torch.from_numpy(best.x) * scale
    return tree.marginals(potentials(t)), t
