"""Count, mean and covariance of each class in a public latent, in one release. `mixture.py` makes Gaussians of them.

A record is a code z = V^T (x - m) / s of d numbers, shortened to the radius R and divided by it. It adds the vector
(a, b z, c svec(z z^T)) to the block of its class. With a^2 + b^2 + c^2 = 1 the vector is at most 1 long, and lies in one block.
So the blocks of *all* classes together move by at most 1 when a record is added or removed. One Gaussian covers all.

A class may be cut into cells, each with a block. A record is in the cell of its class whose centre is nearest, and z counts
from there. The centres are fixed before the release. The nearest cell is found without rounding, as in votes.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer.data.records import Records
from gossamer.methods.common.bounded_sum import BoundedSum, svec
from gossamer.methods.common.votes import on_grid, pixels
from gossamer.nets.latent import Latent
from gossamer.privacy.per_sample_gradients.rounding import shortened

WEIGHTS = (math.sqrt(0.05), math.sqrt(0.15), math.sqrt(0.8))
"""a, b, c: how the bound of a record is shared by count, mean and covariance."""


@dataclass(frozen=True)
class Moments(BoundedSum[Tensor]):
    """The query.

    Args:
        latent: fixed before a record is read.
        classes: K.
        radius: R, in standard deviations of a code per axis: a code is shortened to radius x sqrt(d).
        centres: of the cells of each class, [K, m, d], float64, public or released; None: each class is one cell, about 0.
        coded: whether the records have codes in place of images, float64 [n, d], each made of its own record alone.
    """

    latent: Latent
    classes: int
    radius: float
    centres: Tensor | None = None
    coded: bool = False

    @property
    def cells(self) -> int:
        """m, the cells of a class."""
        return 1 if self.centres is None else self.centres.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """K m blocks of 1 + d + d (d + 1) / 2 numbers."""
        d = self.latent.axes
        return self.classes * self.cells, 1 + d + d * (d + 1) // 2

    def total(self, answer: Tensor) -> float:
        """The number of units by a noisy answer."""
        return float(answer.view(self.shape)[:, 0].sum()) / WEIGHTS[0]

    @property
    def reach(self) -> float:
        """R, the length to which a code is shortened."""
        return self.radius * math.sqrt(self.latent.axes)

    def errors(self, counts: Tensor, noise: float) -> tuple[Tensor, Tensor]:
        """Standard deviations of what noise does to means and to variances of codes, for noisy counts [c]. [c] each."""
        _, b, c = WEIGHTS
        return noise / b / counts * self.reach, noise / c / counts * self.reach**2

    def _codes(self, records: Records) -> tuple[Tensor, Tensor]:
        """Codes in units of the reach, at most 1 long, [n, d] float64, and the cells that they are in, [n].

        All is in double precision. Another record in the batch changes how products are rounded. In single precision, what that
        moves in the codes of all others would be outside the bound.
        """
        if self.coded:
            codes, cells = torch.from_numpy(records.images), torch.tensor(records.labels)
        else:
            images, labels = records.tensors(self.latent.basis.device)
            codes, cells = self.latent.wide_code(images).cpu(), labels.cpu()
        if self.centres is not None:
            cells = self._nearest(on_grid(codes), cells) if self.coded else self.nearest(images.cpu(), cells)
            codes = codes - self.centres.flatten(0, 1)[cells]
        return shortened(codes, self.reach) / self.reach, cells

    def nearest(self, images: Tensor, labels: Tensor) -> Tensor:
        """The cell of its class whose centre is nearest to each picture, [n], from 0 to K m - 1."""
        return self._nearest(self.placed(images), labels)

    def _nearest(self, where: Tensor, labels: Tensor) -> Tensor:
        """The same for codes on a grid, [n, d]."""
        assert self.centres is not None
        centres, cells = on_grid(self.centres), torch.zeros_like(labels)
        for label in range(self.classes):
            own, there = labels == label, centres[label]
            distances = there.square().sum(1) - 2 * where[own] @ there.t()  # squared, less what all have in common
            cells[own] = label * self.cells + distances.argmin(1)
        return cells

    def placed(self, images: Tensor) -> Tensor:
        """Codes on a grid, [n, d] float64.

        A picture near a border must not change cells because another picture in its batch changes how sums are rounded. So only
        whole numbers below 2^53 are added up, see `votes.on_grid`: exact, in any order.
        """
        flat, centre = images.flatten(1), self.latent.centre.cpu()[None]
        along, offset = torch.zeros(2, 1, self.latent.axes, dtype=torch.float64)
        for some in self.latent.pieces:
            basis = on_grid(self.latent.basis[some].cpu())
            along = along + pixels(flat[:, some]) @ basis
            offset = offset + on_grid(centre[:, some]) @ basis
        return on_grid((256 / 255 * along - offset) / self.latent.scale.double().cpu())

    def _sums(self, z: Tensor, cells: Tensor, factors: Tensor) -> Tensor:
        """What records add, each times its factor, cell by cell: [K m, 1 + d + d (d + 1) / 2]."""
        a, b, c = WEIGHTS
        blocks = []
        for cell in range(self.classes * self.cells):
            own, factor = z[cells == cell], factors[cells == cell]
            products = own.t() @ (own * factor[:, None])
            blocks.append(torch.cat([a * factor.sum()[None], b * (factor @ own), c * svec(products)]))
        return torch.stack(blocks)

    def _lengths(self, z: Tensor) -> Tensor:
        """[n], the length of what each record adds: |z z^T| is |z|^2."""
        a, b, c = WEIGHTS
        squares = z.square().sum(1)
        return (a**2 + b**2 * squares + c**2 * squares.square()).sqrt()
