"""Count, mean and covariance of each class in a public latent, in one release; and the Gaussians that they make.

A record is a code z = V^T (x - m) / s of d numbers, shortened to the radius R and divided by it. It adds the vector
(a, b z, c vech(z z^T)) to the block of its class, the products off the diagonal times sqrt 2, so that |z z^T| counts in full.
With a^2 + b^2 + c^2 = 1 the vector is at most 1 long, and lies in one block: the blocks of *all* classes together move by at
most 1 when a record is added or removed. One Gaussian pays for all.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gossamer.data.records import Records
from gossamer.nets.latent import Latent
from gossamer.privacy.gradients import by_unit
from gossamer.privacy.mechanisms import Bounds
from gossamer.privacy.rounding import shortened

WEIGHTS = (math.sqrt(0.05), math.sqrt(0.15), math.sqrt(0.8))
"""a, b, c: how the bound of a record is shared by count, mean and covariance."""
_BLOCK = 4_096


@dataclass(frozen=True)
class Moments:
    """The query.

    Args:
        latent: fixed before a record is read.
        classes: number of labels, K.
        radius: R, in standard deviations of a code per axis: a code is shortened to radius x sqrt(d).
    """

    latent: Latent
    classes: int
    radius: float

    @property
    def dimension(self) -> int:
        """K (1 + d + d (d + 1) / 2)"""
        d = self.latent.axes
        return self.classes * (1 + d + d * (d + 1) // 2)

    @property
    def reach(self) -> float:
        """R, the length to which a code is shortened."""
        return self.radius * math.sqrt(self.latent.axes)

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> Tensor:
        """[dimension] float64; what one unit adds is at most bounds.norms[0] long."""
        bound = min(bounds.norms[0], 1.0)
        total = torch.zeros(self.classes, self.dimension // self.classes, dtype=torch.float64)
        single, several = by_unit(records)
        for lo in range(0, len(single), _BLOCK):
            rows, labels = self._rows(single[lo : lo + _BLOCK])
            total.index_add_(0, labels, shortened(rows, bound))
        for unit in several:
            rows, labels = self._rows(unit)
            own = torch.zeros_like(total).index_add_(0, labels, rows)
            total += shortened(own.flatten()[None], bound).view_as(total)
        return total.flatten()

    def _rows(self, records: Records) -> tuple[Tensor, Tensor]:
        """What each record adds to the block of its class, [n, 1 + d + d (d + 1) / 2] float64, and the classes [n]."""
        images, labels = records.tensors(self.latent.basis.device)
        z = shortened(self.latent.code(images), self.reach).double().cpu() / self.reach
        a, b, c = WEIGHTS
        i, j = torch.triu_indices(z.shape[1], z.shape[1])
        products = z[:, i] * z[:, j] * torch.where(i == j, 1.0, math.sqrt(2.0))
        return torch.cat([torch.full((len(z), 1), a, dtype=z.dtype), b * z, c * products], 1), labels.cpu()


class ClassGaussians(nn.Module):
    """A Gaussian for each class: labels [n] and standard normals [n, d] to codes [n, d]. All of it is buffers.

    Args:
        classes: K.
        axes: d.
    """

    means: Tensor
    roots: Tensor

    def __init__(self, classes: int, axes: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(classes, axes))
        self.register_buffer("roots", torch.eye(axes).repeat(classes, 1, 1))

    def forward(self, normals: Tensor, labels: Tensor) -> Tensor:
        """Codes. [n, d]"""
        codes = normals.new_empty(normals.shape)
        for label in labels.unique().tolist():
            chosen = labels == label
            codes[chosen] = self.means[label] + normals[chosen] @ self.roots[label].t()
        return codes

    @torch.no_grad()
    def take(self, released: Tensor, query: Moments, *, noise_multiplier: float) -> None:
        """Take the moments that were released, in place. Post-processing: it reads no record.

        What stands below the noise is not there: a class whose count does has the moments of all classes together, and
        eigenvalues of a covariance that the noise alone would give (up to tau = noise / c sqrt(2 d) / count) are set to
        a floor.

        Args:
            released: [K (1 + d + d (d + 1) / 2)], with noise.
            query: what was asked.
            noise_multiplier: standard deviation of the noise on every number.
        """
        d, (a, _, _) = query.latent.axes, WEIGHTS
        blocks = released.double().cpu().view(query.classes, -1)
        together = blocks.sum(0)
        for label, block in enumerate(blocks):
            clear = block[0] / a > max(4 * noise_multiplier / a, 2 * d)
            mean, covariance = _gaussian(block if clear else together, d, noise_multiplier)
            values, vectors = torch.linalg.eigh(covariance)
            self.means[label] = mean * query.reach
            self.roots[label] = vectors @ torch.diag(values.sqrt() * query.reach) @ vectors.t()

    @property
    def spread(self) -> Tensor:
        """Standard deviation of each axis over all classes alike. [d]"""
        within = self.roots.square().sum(2).mean(0)
        return (within + self.means.var(0, correction=0)).sqrt()

    @torch.no_grad()
    def rescale(self, spread: Tensor) -> None:
        """Give the codes in units of `spread`, [d]. In place."""
        self.means.div_(spread)
        self.roots.div_(spread[:, None])


def _gaussian(block: Tensor, d: int, noise: float) -> tuple[Tensor, Tensor]:
    """Mean [d] and covariance [d, d] in units of the reach, from one class's sums; its eigenvalues are above zero."""
    a, b, c = WEIGHTS
    count = max(float(block[0] / a), 1.0)
    mean = block[1 : 1 + d] / (b * count)
    i, j = torch.triu_indices(d, d)
    products = block.new_zeros(d, d)
    products[i, j] = block[1 + d :] / (c * count) / torch.where(i == j, 1.0, math.sqrt(2.0))
    covariance = products + products.triu(1).t() - mean.outer(mean)
    values, vectors = torch.linalg.eigh(covariance)
    edge = noise / c * math.sqrt(2 * d) / count
    floor = 1e-3 / d
    kept = torch.where(values > max(edge, floor), values, floor)
    return mean, vectors @ torch.diag(kept) @ vectors.t()
