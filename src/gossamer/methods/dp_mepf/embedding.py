"""Counts and mean codes of classes, and second moments of all classes together, in one release. `targets.py` uses them.

A record is K blocks of codes z_1 ... z_K, each shortened to length 1. To the sums of its class it adds the count a and, for
each block, b z_j. To the sums of all classes it adds, for each block, c svec(z_j z_j^T). With a^2 + K (b^2 + c^2) = 1 the whole
is at most 1 long. So the sum over all records moves by at most 1 when a record is added or removed. One Gaussian covers all.
The paper has one for each moment.
"""

import copy
import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gossamer.data.records import Records
from gossamer.methods.common.bounded_sum import BoundedSum, smat, svec
from gossamer.methods.dp_mepf.features import Codes
from gossamer.privacy.per_sample_gradients.rounding import shortened

COUNT, MEANS, PRODUCTS = 0.02, 0.28, 0.70
"""a^2, K b^2 and K c^2: how the squared bound of a record is shared by count, means and second moments."""


@dataclass(frozen=True)
class Moments:
    """What an answer holds, exact or with noise. All are sums over records, float64."""

    counts: Tensor
    """[classes]"""
    sums: list[Tensor]
    """Of codes by class, for each block [classes, d_j]."""
    products: list[Tensor]
    """Of codes of all classes, for each block [d_j, d_j]."""


@dataclass(frozen=True)
class Embedding(BoundedSum[list[Tensor]]):
    """The query. Its codes are fixed before a record is read."""

    most = 1_000  # a network runs on so many pictures at once, in double precision
    codes: Codes
    classes: int

    @property
    def device(self) -> torch.device:
        """That of the codes."""
        return self.codes.radii.device

    @property
    def weights(self) -> tuple[float, float, float]:
        """a, b, c"""
        blocks = len(self.codes.axes)
        return math.sqrt(COUNT), math.sqrt(MEANS / blocks), math.sqrt(PRODUCTS / blocks)

    @property
    def sizes(self) -> list[int]:
        """Numbers in the answer: counts, then the sums of each block, then its products."""
        axes = self.codes.axes
        return [self.classes, *(self.classes * d for d in axes), *(d * (d + 1) // 2 for d in axes)]

    @property
    def shape(self) -> tuple[int, int]:
        """One block of all these numbers."""
        return 1, sum(self.sizes)

    def read(self, answer: Tensor) -> Moments:
        """The sums that an answer [dimension] stands for. Post-processing: it reads no record."""
        (a, b, c), axes = self.weights, self.codes.axes
        counts, *parts = answer.double().cpu().split(self.sizes)
        sums = [part.view(self.classes, d) / b for part, d in zip(parts[: len(axes)], axes, strict=True)]
        products = [smat(part, d) / c for part, d in zip(parts[len(axes) :], axes, strict=True)]
        return Moments(counts / a, sums, products)

    @cached_property
    def _wide(self) -> Codes:
        """The codes in double precision; made once, however many units there are."""
        return copy.deepcopy(self.codes).double()

    @torch.no_grad()
    def _codes(self, records: Records) -> tuple[list[Tensor], Tensor]:
        """Codes of at most 1 in length, [n, d_j] float64 each; one that is not finite is zero. And labels, [n].

        All is in double precision. Another record in the batch changes how products are rounded. In single precision, what that
        moves in the codes of all others would be outside the bound.
        """
        images, labels = records.tensors(self.device)
        return [shortened(z, 1.0) for z in self._wide(images.double(), labels)], labels

    def _lengths(self, codes: list[Tensor]) -> Tensor:
        """[n], the length of what each record adds: |z z^T| is |z|^2."""
        a, b, c = self.weights
        squares = torch.stack([z.square().sum(1) for z in codes])
        return (a**2 + (b**2 * squares + c**2 * squares.square()).sum(0)).sqrt()

    def _sums(self, codes: list[Tensor], labels: Tensor, factors: Tensor) -> Tensor:
        """What records add, each times its factor. [dimension]"""
        a, b, c = self.weights
        cells = factors.new_zeros(len(labels), self.classes).scatter_(1, labels[:, None], factors[:, None])
        means = [b * (cells.t() @ z).flatten() for z in codes]
        products = [c * svec(z.t() @ (z * factors[:, None])) for z in codes]
        return torch.cat([a * cells.sum(0), *means, *products])[None]
