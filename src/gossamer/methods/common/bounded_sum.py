"""Sums over all records of a vector for each, at most 1 long; records as codes, and symmetric matrices as such vectors."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from gossamer.data.records import Records, at_once
from gossamer.privacy.per_sample_gradients.gradients import by_unit
from gossamer.privacy.per_sample_gradients.rounding import BELOW
from gossamer.privacy.queries import Bounds

MOST = 4_096
"""Records that are read at once; fewer where pictures are large. It limits the memory, and moves the last bits of the sums."""

Z = TypeVar("Z")
"""Codes of some records."""


class BoundedSum(ABC, Generic[Z]):
    """A query that adds up a vector for each record, at most 1 long. A unit with several records has the sum of theirs, at
    most 1 long.
    """

    most: ClassVar[int] = MOST
    """See `MOST`."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Blocks of the answer, and numbers in each."""

    @abstractmethod
    def _codes(self, records: Records) -> tuple[Z, Tensor]:
        """Codes of at most 1 in length, float64, and the blocks or classes of the records, [n]."""

    @abstractmethod
    def _sums(self, z: Z, cells: Tensor, factors: Tensor) -> Tensor:
        """What records add, each times its factor: of the shape of the answer."""

    @abstractmethod
    def _lengths(self, z: Z) -> Tensor:
        """[n], the length of what each record adds."""

    @property
    def device(self) -> torch.device:
        """Where sums are made."""
        return torch.device("cpu")

    @property
    def dimension(self) -> int:
        """Numbers of the answer."""
        return math.prod(self.shape)

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> Tensor:
        """[dimension] float64; what one unit adds is at most bounds.norms[0] long."""
        bound = BELOW * min(bounds.norms[0], 1.0)
        total = torch.zeros(self.shape, dtype=torch.float64, device=self.device)
        single, several = by_unit(records)
        for z, cells in self._pieces(single):
            total += self._sums(z, cells, (bound / self._lengths(z)).clamp(max=1))
        for unit in several:
            own = torch.zeros_like(total)
            for z, cells in self._pieces(unit):
                own += self._sums(z, cells, torch.ones_like(self._lengths(z)))
            total += own * (bound / own.norm().clamp(min=1e-300)).clamp(max=1)
        return total.flatten()

    def _pieces(self, records: Records) -> Iterator[tuple[Z, Tensor]]:
        """Codes and blocks of some records at a time; see `_codes`."""
        step = at_once(records.images.shape[1:], self.most)
        return (self._codes(records[lo : lo + step]) for lo in range(0, len(records), step))


def coded(records: Records, code: Callable[[Tensor], Tensor], size: int, device: torch.device) -> Records:
    """The same records with codes in place of images: float64 [n, size]. Each code follows from its own record.

    code: images float32 [n, C, H, W] in [0, 1], on the device, to codes [n, size].
    """
    codes, step = np.empty((len(records), size)), at_once(records.shape, MOST)
    for lo in range(0, len(records), step):
        images, _ = records[lo : lo + step].tensors(device)
        codes[lo : lo + step] = code(images).cpu().numpy()
    return dataclasses.replace(records, images=codes)


def svec(matrix: Tensor) -> Tensor:
    """A symmetric matrix [d, d] as a vector of the same length: [d (d + 1) / 2], the upper triangle, times sqrt 2 off the
    diagonal. So |svec(z z^T)| = |z z^T| = |z|^2 (Alizadeh, Haeberly, Overton 1998).
    """
    i, j = torch.triu_indices(*matrix.shape, device=matrix.device)
    return matrix[i, j] * _scale(i, j)


def smat(vectors: Tensor, d: int) -> Tensor:
    """Symmetric matrices [..., d, d] of vectors [..., d (d + 1) / 2]: the inverse of `svec`."""
    i, j = torch.triu_indices(d, d, device=vectors.device)
    matrices = vectors.new_zeros(*vectors.shape[:-1], d, d)
    matrices[..., i, j] = matrices[..., j, i] = vectors / _scale(i, j)
    return matrices


def with_eigenvalues(matrix: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """A symmetric matrix [d, d] with other eigenvalues."""
    values, vectors = torch.linalg.eigh(matrix)
    changed: Tensor = vectors @ torch.diag(change(values)) @ vectors.t()
    return changed


def signal_share(signal: Tensor, noise: Tensor) -> Tensor:
    """Of what is seen, how much is signal: signal / (signal + noise); all of it where there is no noise. Both are squares."""
    return torch.where(noise > 0, signal / (signal + noise).clamp(min=1e-300), torch.ones(()).double())


def _scale(i: Tensor, j: Tensor) -> Tensor:
    return (1 + (i != j).double()).sqrt()
