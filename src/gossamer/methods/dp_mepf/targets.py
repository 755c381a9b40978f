"""What fakes are held against: released class means and the released covariance, by which codes are whitened."""

import torch
from torch import Tensor, nn

from gossamer.methods.dp_mepf.embedding import Embedding

_SEEN = 4
"""A count below so many standard deviations of its noise is nobody."""


class Targets(nn.Module):
    """Class means in whitened codes, in which the covariance within classes is the identity.

    Args:
        classes: K.
        axes: d_j, the length of a code in each block.
    """

    shares: Tensor
    taken: Tensor

    def __init__(self, classes: int, axes: list[int]) -> None:
        super().__init__()
        self.blocks = len(axes)
        self.register_buffer("taken", torch.tensor(False))
        self.register_buffer("shares", torch.full((classes,), 1 / classes))
        for j, d in enumerate(axes):
            self.register_buffer(f"means{j}", torch.zeros(classes, d))
            self.register_buffer(f"whitening{j}", torch.eye(d))

    @torch.no_grad()
    def take(self, released: Tensor, query: Embedding, *, noise_multiplier: float, floor: float) -> None:
        """Take what was released, in place. Post-processing: it reads no record.

        A class whose count is below its noise keeps the mean of public pictures, and weighs nothing; if all are, all weigh
        the same.

        Args:
            released: [query.dimension], with noise.
            query: what was asked.
            noise_multiplier: standard deviation of the noise on every number of it.
            floor: least eigenvalue of a covariance, in units of their mean.
        """
        moments, least = query.read(released), max(1.0, _SEEN * noise_multiplier / query.weights[0])
        seen = moments.counts > least
        counts = torch.where(seen, moments.counts, 0.0 if seen.any() else least)
        shares = counts / counts.sum()
        for j, (sums, products) in enumerate(zip(moments.sums, moments.products, strict=True)):
            means = torch.where(seen[:, None], sums / counts.clamp(min=least)[:, None], 0.0)
            within = products / counts.sum() - means.t() @ (shares[:, None] * means)
            values, vectors = torch.linalg.eigh(within)
            values = values.clamp(min=max(floor * float(values.clamp(min=0).mean()), 1e-6))
            whitening = vectors @ torch.diag(values.rsqrt()) @ vectors.t()
            self._whitening(j).copy_(whitening)
            self._means(j).copy_(means @ whitening)
        self.shares.copy_(shares)
        self.taken.fill_(True)

    def loss(self, codes: list[Tensor], labels: Tensor, *, covariance_weight: float) -> Tensor:
        """Squared distances of class means and of the covariance, on average over blocks, each divided by its dimension.

        The batch has two halves of the same labels. The squared distance of an estimate would be too large by its variance; the
        inner product of the differences of two independent ones is right on average, and may be below zero.

        Args:
            codes: of fakes, for each block [2 h, d_j], at most 1 long.
            labels: of one half, int64 [h], with every class.
            covariance_weight: of the second distance.
        """
        of_class = (labels[:, None] == torch.arange(len(self.shares), device=labels.device)).to(codes[0])
        of_class = of_class / of_class.sum(0)  # [h, K], column k averages over class k
        each = (of_class @ self.shares)[:, None]  # [h, 1], the weight of a fake in the average over all
        total = codes[0].new_zeros(())
        for j, z in enumerate(codes):
            targets, d = self._means(j), z.shape[1]
            apart = [half @ self._whitening(j) - targets[labels] for half in z.chunk(2)]
            first, second = (of_class.t() @ half for half in apart)
            means = (self.shares[:, None] * first * second).sum()
            first, second = (half.t() @ (each * half) - torch.eye(d).to(half) for half in apart)
            total = total + (means + covariance_weight * (first * second).sum()) / d
        return total / self.blocks

    def _means(self, j: int) -> Tensor:
        return self.get_buffer(f"means{j}")

    def _whitening(self, j: int) -> Tensor:
        return self.get_buffer(f"whitening{j}")
