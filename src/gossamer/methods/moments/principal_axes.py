"""Mean and principal axes of the records themselves, from two noisy queries, in place of cosine waves.

The axes are those of Dwork, Talwar, Thakurta, Zhang 2014, "Analyze Gauss": eigenvectors of a sum of products with Gaussian
noise. A record is its code z in many cosine waves, shortened to the reach R and divided by it. To the mean it adds z. To the
products it adds svec(z z^T), where z counts from the released mean.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer.data.records import Records
from gossamer.methods.common.bounded_sum import BoundedSum, smat, svec
from gossamer.nets.latent import Latent
from gossamer.privacy.per_sample_gradients.rounding import shortened

WAVES = 400
"""Cosine waves in which axes are found; of many axes, twice as many as axes."""


def waves_of(latent: Latent) -> Latent:
    """The waves in which the axes of a latent are found, about its centre."""
    asked = latent.basis.shape[1]
    waves = type(latent)(latent.shape, min(max(WAVES, 2 * asked), math.prod(latent.shape))).to(latent.basis.device)
    waves.centre.copy_(latent.centre)
    return waves


@dataclass(frozen=True)
class SumInWaves(BoundedSum[Tensor]):
    """A query.

    Args:
        latent: cosine waves; see `waves_of`.
        radius: R, in the unit of `Moments`.
        coded: whether the records have codes in place of images, float64 [n, d or more], each made of its own record alone.
    """

    latent: Latent
    radius: float
    coded: bool = False

    @property
    def waves(self) -> int:
        """d, the length of a code. What more there is in a code of an aligned picture has no part in it."""
        return self.latent.basis.shape[1]

    @property
    def reach(self) -> float:
        """R, the length to which a code is shortened."""
        return self.radius * math.sqrt(self.waves)

    @abstractmethod
    def take(self, answer: Tensor, latent: Latent) -> None:
        """Put what was released into a latent, in place. Post-processing: it reads no record."""

    def _codes(self, records: Records) -> tuple[Tensor, Tensor]:
        if self.coded:
            codes = torch.from_numpy(records.images)
        else:
            codes = self.latent.wide_code(records.tensors(self.latent.basis.device)[0]).cpu()
        z = shortened(codes[:, : self.waves], self.reach) / self.reach
        return z, torch.zeros(len(z), dtype=torch.int64)

    def _in_pixels(self, codes: Tensor) -> Tensor:
        """Waves that are added up by columns of codes, [d, k]. float64 [numbers of a picture, k]"""
        codes = codes.to(self.latent.basis.device)
        return torch.cat([self.latent.basis[some].double() @ codes for some in self.latent.pieces])


@dataclass(frozen=True, kw_only=True)
class Mean(SumInWaves):
    """Sums of codes. The mean becomes the centre of a latent.

    Args:
        declared_size: how many records there are, as the card says.
    """

    declared_size: int

    @property
    def shape(self) -> tuple[int, int]:
        """One block of d numbers."""
        return 1, self.waves

    def take(self, answer: Tensor, latent: Latent) -> None:
        """Move the centre by the mean code."""
        mean = answer.double().cpu() * (self.reach / self.declared_size) * self.latent.scale.double().cpu()
        latent.centre.add_(self._in_pixels(mean[:, None])[:, 0])

    def _sums(self, z: Tensor, cells: Tensor, factors: Tensor) -> Tensor:
        return torch.zeros(self.shape, dtype=z.dtype).index_add_(0, cells, z * factors[:, None])

    def _lengths(self, z: Tensor) -> Tensor:
        lengths: Tensor = z.norm(dim=1)
        return lengths


class Products(SumInWaves):
    """Sums of products. Their eigenvectors become the axes of a latent."""

    @property
    def shape(self) -> tuple[int, int]:
        """One block of d (d + 1) / 2 numbers."""
        return 1, self.waves * (self.waves + 1) // 2

    def take(self, answer: Tensor, latent: Latent) -> None:
        """Turn the axes to the largest eigenvalues."""
        products = smat(answer.double().cpu(), self.waves)
        largest = torch.linalg.eigh(products).eigenvectors[:, -latent.basis.shape[1] :].flip(1)
        latent.turn(self._in_pixels(largest))

    def _sums(self, z: Tensor, cells: Tensor, factors: Tensor) -> Tensor:  # noqa: ARG002 (there is one block)
        return svec(z.t() @ (z * factors[:, None]))[None]

    def _lengths(self, z: Tensor) -> Tensor:
        squares: Tensor = z.square().sum(1)
        return squares
