"""Count, mean and covariance of each class in a public latent, in one release; and the Gaussians that they make.

A record is a code z = V^T (x - m) / s of d numbers, shortened to the radius R and divided by it. It adds the vector
(a, b z, c vech(z z^T)) to the block of its class, the products off the diagonal times sqrt 2, so that |z z^T| counts in full.
With a^2 + b^2 + c^2 = 1 the vector is at most 1 long, and lies in one block: the blocks of *all* classes together move by at
most 1 when a record is added or removed. One Gaussian pays for all.

A class may be cut into cells: a record is in the cell of its class whose centre is nearest, z counts from there, and every cell
has a block. The centres are fixed before the release; which cell is nearest is found without rounding, as votes are.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gossamer.data.records import Records
from gossamer.methods.votes import on_grid, pixels
from gossamer.nets.latent import Latent
from gossamer.privacy.engine.answers import by_unit
from gossamer.privacy.engine.rounding import BELOW, shortened
from gossamer.privacy.mechanisms import Bounds

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
        centres: of the cells of each class, [K, m, d], float64, public or released; None: each class is one cell, about 0.
    """

    latent: Latent
    classes: int
    radius: float
    centres: Tensor | None = None

    @property
    def cells(self) -> int:
        """m, the cells of a class."""
        return 1 if self.centres is None else self.centres.shape[1]

    @property
    def dimension(self) -> int:
        """K m (1 + d + d (d + 1) / 2)"""
        d = self.latent.axes
        return self.classes * self.cells * (1 + d + d * (d + 1) // 2)

    @property
    def reach(self) -> float:
        """R, the length to which a code is shortened."""
        return self.radius * math.sqrt(self.latent.axes)

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> Tensor:
        """[dimension] float64; what one unit adds is at most bounds.norms[0] long."""
        bound = BELOW * min(bounds.norms[0], 1.0)
        blocks = self.classes * self.cells
        total = torch.zeros(blocks, self.dimension // blocks, dtype=torch.float64)
        single, several = by_unit(records)
        for lo in range(0, len(single), _BLOCK):
            z, cells = self._codes(single[lo : lo + _BLOCK])
            total += self._sums(z, cells, (bound / _lengths(z)).clamp(max=1))
        for unit in several:
            z, cells = self._codes(unit)
            own = self._sums(z, cells, torch.ones(len(z), dtype=z.dtype))
            total += own * min(1.0, bound / float(own.norm()))
        return total.flatten()

    def _codes(self, records: Records) -> tuple[Tensor, Tensor]:
        """Codes in units of the reach, at most 1 long, [n, d] float64, and the cells that they are in, [n].

        In double precision throughout: a product is rounded in another way when another record stands in its block, and in
        single precision what that moves in the codes of all others would be outside the bound.
        """
        images, labels = records.tensors(self.latent.basis.device)
        codes, cells = copy.deepcopy(self.latent).double().code(images.double()).cpu(), labels.cpu()
        if self.centres is not None:
            cells = self.nearest(images.cpu(), cells)
            codes = codes - self.centres.flatten(0, 1)[cells]
        return shortened(codes, self.reach) / self.reach, cells

    def nearest(self, images: Tensor, labels: Tensor) -> Tensor:
        """The cell of its class whose centre is nearest to each picture, [n], from 0 to K m - 1."""
        assert self.centres is not None
        where, centres, found = self.placed(images), on_grid(self.centres), torch.zeros_like(labels)
        for label in range(self.classes):
            own, there = labels == label, centres[label]
            distances = there.square().sum(1) - 2 * where[own] @ there.t()  # squared, less what all have in common
            found[own] = label * self.cells + distances.argmin(1)
        return found

    def placed(self, images: Tensor) -> Tensor:
        """Codes on a grid, [n, d] float64.

        A picture near a border must not change cells because another picture is in its block and sums are rounded in another
        way. So all that adds up are whole numbers below 2^53, see `votes.on_grid`: exact, in any order.
        """
        basis = on_grid(self.latent.basis.cpu())
        along = 256 / 255 * (pixels(images).flatten(1) @ basis)
        offset = on_grid(self.latent.centre.cpu()[None]) @ basis
        return on_grid((along - offset) / self.latent.scale.double().cpu())

    def _sums(self, z: Tensor, cells: Tensor, factors: Tensor) -> Tensor:
        """What records add, each times its factor, cell by cell: [K m, 1 + d + d (d + 1) / 2]."""
        a, b, c = WEIGHTS
        i, j = torch.triu_indices(z.shape[1], z.shape[1])
        twice = torch.where(i == j, 1.0, math.sqrt(2.0))
        blocks = []
        for cell in range(self.classes * self.cells):
            own, factor = z[cells == cell], factors[cells == cell]
            products = own.t() @ (own * factor[:, None])
            blocks.append(torch.cat([a * factor.sum()[None], b * (factor @ own), c * products[i, j] * twice]))
        return torch.stack(blocks)


def _lengths(z: Tensor) -> Tensor:
    """[n], the length of what each record adds: |z z^T| is |z|^2."""
    a, b, c = WEIGHTS
    squares = z.square().sum(1)
    return (a**2 + b**2 * squares + c**2 * squares.square()).sqrt()


class ClassGaussians(nn.Module):
    """A Gaussian for each class, and one for all classes together, over codes of d numbers. All of it is buffers.

    At first each is standard normal.

    Args:
        classes: K. The label K means: not told.
        axes: d.
    """

    means: Tensor
    vectors: Tensor
    spreads: Tensor

    def __init__(self, classes: int, axes: int) -> None:
        super().__init__()
        self.classes = classes
        self.register_buffer("means", torch.zeros(classes + 1, axes))
        self.register_buffer("vectors", torch.eye(axes).repeat(classes + 1, 1, 1))
        self.register_buffer("spreads", torch.ones(classes + 1, axes))

    def forward(self, normals: Tensor, labels: Tensor) -> Tensor:
        """Codes out of standard normals. normals: [n, d]; labels: [n], 0 to K. Gives [n, d]."""
        return self._each(normals, labels, lambda k, own: self.means[k] + (own * self.spreads[k]) @ self.vectors[k].t())

    def denoised(self, noisy: Tensor, sigma: Tensor, labels: Tensor) -> Tensor:
        """The clean codes to expect behind noisy ones, were they really Gaussian: m + S (S + sigma^2)^-1 (z - m). [n, d]"""

        def of_class(k: int, own: Tensor) -> Tensor:
            code, level = own[:, :-1], own[:, -1:]
            variance = self.spreads[k].square()
            along = (code - self.means[k]) @ self.vectors[k] * (variance / (variance + level.square()))
            return self.means[k] + along @ self.vectors[k].t()

        return self._each(torch.cat([noisy, sigma[:, None]], 1), labels, of_class)

    @property
    def deviations(self) -> Tensor:
        """Standard deviation of each axis over all classes together. [d]"""
        deviations: Tensor = (self.vectors[-1] * self.spreads[-1]).norm(dim=1)
        return deviations

    def _each(self, rows: Tensor, labels: Tensor, of_class: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Class by class. rows: [n, ...]; gives [n, d]."""
        found = rows.new_empty(len(rows), self.means.shape[1])
        for label in labels.unique().tolist():
            own = labels == label
            found[own] = of_class(label, rows[own])
        return found

    @torch.no_grad()
    def take(self, released: Tensor, query: Moments, *, noise_multiplier: float) -> None:
        """Take the moments that were released, in place. Post-processing: it reads no record.

        What stands below the noise is not there. A covariance is that within all classes together, and what its class differs
        from it by; of either, eigenvalues that the noise alone would give are set to a floor or to zero. A class whose count is
        below the noise has the moments of all.

        Args:
            released: [K (1 + d + d (d + 1) / 2)], with noise.
            query: what was asked.
            noise_multiplier: standard deviation of the noise on every number.
        """
        d = query.latent.axes
        blocks = released.double().cpu().view(query.classes, -1)
        least = max(4 * noise_multiplier / WEIGHTS[0], 2.0)
        own = [_Gaussian.of(block, d, noise_multiplier) for block in blocks]
        there = [each for each in own if each.count > least]
        everyone = _Gaussian.of(blocks.sum(0), d, noise_multiplier * math.sqrt(len(own)))
        within = _Gaussian.within(there) if there else everyone
        for label, each in enumerate(own):
            mean, covariance = each.shrunk(within) if each.count > least else (everyone.mean, everyone.cleaned)
            self._put(label, mean * query.reach, covariance * query.reach**2)
        self._put(self.classes, everyone.mean * query.reach, everyone.cleaned * query.reach**2)

    @torch.no_grad()
    def fit(self, codes: Tensor, labels: Tensor) -> None:
        """Take the moments of public codes, in place. codes: [n, d]; labels: [n]."""
        wide = codes.double().cpu()
        for label in range(self.classes + 1):
            own = wide[labels.cpu() == label]
            own = wide if len(own) < 2 else own
            centred = own - own.mean(0)
            self._put(label, own.mean(0), _above(centred.t() @ centred / len(own), 0.0))

    def matched(self, codes: Tensor, labels: Tensor, source: "ClassGaussians") -> Tensor:
        """Codes that follow `source`, moved and stretched class by class to these means and covariances. [n, d]"""

        def of_class(k: int, own: Tensor) -> Tensor:
            normal = (own - source.means[k]) @ source.vectors[k] / source.spreads[k] @ source.vectors[k].t()
            return self.means[k] + normal @ self.vectors[k] * self.spreads[k] @ self.vectors[k].t()

        return self._each(codes, labels, of_class)

    def _put(self, label: int, mean: Tensor, covariance: Tensor) -> None:
        values, vectors = torch.linalg.eigh(covariance)
        self.means[label], self.vectors[label], self.spreads[label] = mean, vectors, values.clamp(min=0).sqrt()


@dataclass(frozen=True)
class _Gaussian:
    """Mean and covariance in units of the reach, with noise in them.

    Args:
        count: of records.
        mean: [d]
        covariance: [d, d]
        edge: eigenvalues that the noise alone would give the covariance: noise / c sqrt(2 d) / count.
    """

    count: float
    mean: Tensor
    covariance: Tensor
    edge: float

    @classmethod
    def of(cls, block: Tensor, d: int, noise: float) -> "_Gaussian":
        """From the sums of one class. block: [1 + d + d (d + 1) / 2]"""
        a, b, c = WEIGHTS
        count = max(float(block[0] / a), 1.0)
        mean = block[1 : 1 + d] / (b * count)
        i, j = torch.triu_indices(d, d)
        products = block.new_zeros(d, d)
        products[i, j] = block[1 + d :] / (c * count) / torch.where(i == j, 1.0, math.sqrt(2.0))
        covariance = products + products.triu(1).t() - mean.outer(mean)
        return cls(count, mean, covariance, noise / c * math.sqrt(2 * d) / count)

    @classmethod
    def within(cls, classes: list["_Gaussian"]) -> "_Gaussian":
        """The covariance within classes: their average, with less noise than any."""
        count = sum(each.count for each in classes)
        covariance = sum((each.covariance * each.count for each in classes), 0 * classes[0].covariance) / count
        edge = math.sqrt(sum((each.edge * each.count) ** 2 for each in classes)) / count
        return cls(count, classes[0].mean, covariance, edge)

    @property
    def cleaned(self) -> Tensor:
        """The covariance; what stands below the noise is at a floor above zero. [d, d]"""
        return _above(self.covariance, self.edge)

    def shrunk(self, within: "_Gaussian") -> tuple[Tensor, Tensor]:
        """Mean [d] and covariance [d, d]: that within all classes, and what this one surely differs by."""
        values, vectors = torch.linalg.eigh(self.covariance - within.covariance)
        sure = torch.where(values.abs() > self.edge, values, 0.0)
        return self.mean, _above(within.cleaned + vectors @ torch.diag(sure) @ vectors.t(), 0.0)


def _above(covariance: Tensor, edge: float) -> Tensor:
    """The same with eigenvalues up to the edge at a floor. [d, d]"""
    values, vectors = torch.linalg.eigh(covariance)
    floor = 1e-3 / len(values)
    cleaned: Tensor = vectors @ torch.diag(torch.where(values > max(edge, floor), values, floor)) @ vectors.t()
    return cleaned
