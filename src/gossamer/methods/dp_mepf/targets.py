"""The targets of fakes: released class means and covariance within classes, and the distance of fakes from them.

The distance is the squared Frechet distance between normals of these moments (Dowson and Landau 1982), to second order. With
|m - m'|^2 for the means, and in the axes in which the released covariance is diagonal, with variances v_i,

    tr(C + C' - 2 (C^1/2 C' C^1/2)^1/2) = sum over i, j of (C' - C)_ij^2 / (2 (v_i + v_j)), up to third order in C' - C.

It weighs every axis by how far records spread along it. Whitened codes would weigh all alike, most of all those in which
records hardly differ, and fakes match these by becoming all alike.
"""

import torch
from torch import Tensor, nn

from gossamer.methods.dp_mepf.embedding import Embedding

_SEEN = 4
"""A count below so many standard deviations of its noise counts as zero."""


class Targets(nn.Module):
    """Moments of codes, in the axes along which the released covariance is diagonal. axes: length of a code in each block."""

    shares: Tensor
    taken: Tensor

    def __init__(self, classes: int, axes: list[int]) -> None:
        super().__init__()
        self.blocks = len(axes)
        self.register_buffer("taken", torch.tensor(False))
        self.register_buffer("shares", torch.full((classes,), 1 / classes))
        for j, d in enumerate(axes):
            self.register_buffer(f"means{j}", torch.zeros(classes, d))
            self.register_buffer(f"axes{j}", torch.eye(d))
            self.register_buffer(f"variances{j}", torch.ones(d))
            self.register_buffer(f"weights{j}", torch.full((d, d), 0.25))

    @torch.no_grad()
    def take(self, released: Tensor, query: Embedding, *, noise_multiplier: float, floor: float) -> None:
        """Take what was released, in place. Post-processing: it reads no record.

        A class whose count is below its noise keeps the mean of public pictures, and weighs nothing; if all are, all weigh
        the same. `noise_multiplier` is the standard deviation of the noise on every number. `floor`: see `Config`.
        """
        moments, least = query.read(released), max(1.0, _SEEN * noise_multiplier / query.weights[0])
        seen = moments.counts > least
        counts = torch.where(seen, moments.counts, 0.0 if seen.any() else least)
        shares = counts / counts.sum()
        for j, (sums, products) in enumerate(zip(moments.sums, moments.products, strict=True)):
            means = torch.where(seen[:, None], sums / counts.clamp(min=least)[:, None], 0.0)
            within = products / counts.sum() - means.t() @ (shares[:, None] * means)
            values, vectors = torch.linalg.eigh(within)
            values = values.clamp(min=0)  # noise alone makes them negative
            raised = values.clamp(min=max(floor * float(values.mean()), 1e-6))
            self._of("axes", j).copy_(vectors)
            self._of("means", j).copy_(means @ vectors)
            self._of("variances", j).copy_(values)
            self._of("weights", j).copy_(0.5 / (raised[:, None] + raised))
        self.shares.copy_(shares)
        self.taken.fill_(True)

    def loss(self, codes: list[Tensor], labels: Tensor, *, covariance_weight: float) -> Tensor:
        """Squared Frechet distance of class means and of the covariance within, by the whole variance; on average over blocks.

        The batch has two halves of the same labels. The squared distance of an estimate would be too large by its variance. The
        inner product of the differences of two independent estimates is right on average, and may be below zero.

        Args:
            codes: of fakes, for each block [2 h, d_j], at most 1 long.
            labels: of one half, int64 [h], with every class.
            covariance_weight: of the second distance.
        """
        of_class = (labels[:, None] == torch.arange(len(self.shares), device=labels.device)).to(codes[0])
        of_class = of_class / of_class.sum(0)  # [h, K], column k averages over class k
        weights = (of_class @ self.shares)[:, None]  # [h, 1], the weight of a fake in the average over all
        total = codes[0].new_zeros(())
        for j, z in enumerate(codes):
            variances, targets = self._of("variances", j), self._of("means", j)
            apart = [half @ self._of("axes", j) - targets[labels] for half in z.chunk(2)]
            first, second = (of_class.t() @ half for half in apart)
            means = (self.shares[:, None] * first * second).sum()
            first, second = (half.t() @ (weights * half) - torch.diag(variances) for half in apart)
            covariances = (self._of("weights", j) * first * second).sum()
            total = total + (means + covariance_weight * covariances) / variances.sum().clamp(min=1e-6)
        return total / self.blocks

    def _of(self, name: str, j: int) -> Tensor:
        return self.get_buffer(f"{name}{j}")
