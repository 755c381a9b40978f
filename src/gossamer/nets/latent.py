"""Linear latents of pictures: a few axes, fixed before a record is read, from formulas or from public pictures."""

import itertools
import math

import torch
from torch import Tensor, nn

from gossamer.errors import RequestError

_CENTRE, _SPREAD = 0.3, 0.3
"""Where no public picture says better: the mean of a pixel and, over the axes, the root mean square of what differs from it."""


_PIECE = 2_048
"""Numbers of a picture that are in double precision at once."""


class Latent(nn.Module):
    """Codes of pictures, z = V^T (x - m) / s, and back. One scale serves all axes: high ones have small codes, as they should.

    Everything in it is a buffer: it is released with a generator, and no optimiser moves it. At first it has a `basis`
    [numbers, axes] that no picture went into, or the lowest cosine waves.

    Raises:
        RequestError: if there are more axes than pixels.
    """

    basis: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...], axes: int, basis: Tensor | None = None) -> None:
        super().__init__()
        if axes > math.prod(shape):
            whole = "picture" if basis is None else "latent"
            raise RequestError(
                f"`axes={axes}` is more than the {math.prod(shape):,} numbers of a {whole}: take fewer axes."
            )
        self.shape, self.axes = tuple(shape), axes
        self.register_buffer("basis", cosines(self.shape, axes) if basis is None else basis)
        self.register_buffer("centre", torch.full((math.prod(shape),), _CENTRE))
        self.register_buffer("scale", torch.tensor(_SPREAD * math.sqrt(math.prod(shape) / axes)))

    def code(self, images: Tensor) -> Tensor:
        """images: [n, C, H, W] in [0, 1]. Gives [n, axes]."""
        codes: Tensor = (images.flatten(1) - self.centre) @ self.basis / self.scale
        return codes

    def wide_code(self, images: Tensor) -> Tensor:
        """`code` in double precision, with no double copy of all pictures or axes. float64 [n, axes]"""
        flat, codes = images.flatten(1), torch.zeros((), dtype=torch.float64, device=images.device)
        for some in self.pieces:
            codes = codes + (flat[:, some].double() - self.centre[some].double()) @ self.basis[some].double()
        return codes / self.scale.double()

    @property
    def pieces(self) -> list[slice]:
        """Ranges of the numbers of a picture, the same for any pictures."""
        return [slice(lo, lo + _PIECE) for lo in range(0, len(self.centre), _PIECE)]

    def _axes_of_few(self, flat: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
        """Eigenvalues in rising order, and the axes of the largest, [numbers, axes], from the Gram matrix of n pictures."""
        gram = torch.zeros(len(flat), len(flat), dtype=torch.float64, device=flat.device)
        for some in self.pieces:
            about = flat[:, some].double() - centre[some]
            gram += about @ about.t()
        values, vectors = torch.linalg.eigh(gram / len(flat))
        largest = vectors[:, -self.basis.shape[1] :].flip(1)
        axes = torch.cat([(flat[:, some].double() - centre[some]).t() @ largest for some in self.pieces])
        return values, axes / axes.norm(dim=0).clamp(min=1e-300)

    def decode(self, codes: Tensor) -> Tensor:
        """codes: [n, axes]. Gives [n, C, H, W], which may lie a little outside [0, 1]."""
        flat = ((codes * self.scale) @ self.basis.t()).add_(self.centre)
        return flat.view(-1, *self.shape)

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Take mean, principal axes and scale from public pictures, [n, C, H, W] in [0, 1] with n > axes. In place.

        With fewer pictures than numbers in each, the axes come from the products of pictures: memory grows with n^2.

        Raises:
            RequestError: if there are too few pictures.
        """
        count = self.basis.shape[1]
        if len(images) <= count:
            raise RequestError(
                f"{len(images):,} public records are too few for {count} principal axes: give more, or fewer `axes`."
            )
        flat, n = images.flatten(1), len(images)
        centre = torch.cat([flat[:, some].double().mean(0) for some in self.pieces])
        if n < flat.shape[1]:
            values, axes = self._axes_of_few(flat, centre)
        else:
            about = flat.double() - centre
            values, vectors = torch.linalg.eigh(about.t() @ about / n)
            axes = vectors[:, -count:].flip(1)
        self.turn(axes)
        self.centre.copy_(centre)
        self.scale.copy_(values[-count:].mean().clamp(min=1e-12).sqrt())

    @torch.no_grad()
    def turn(self, axes: Tensor) -> None:
        """Take other axes, orthonormal, [numbers, axes]. In place."""
        signs = torch.sign(axes.gather(0, axes.abs().argmax(0, keepdim=True)))  # an axis has two directions: take one
        self.basis.copy_(axes * signs)


def cosines(shape: tuple[int, ...], axes: int) -> Tensor:
    """The lowest two-dimensional cosine waves, orthonormal. [C H W, axes]

    Waves of (i, j) half periods in height and width are ordered by i^2 + j^2. Of three channels their mean comes first. The two
    differences count as nine times as high, because most photographs have little in them.
    """
    channels, height, width = shape
    mixed = torch.eye(1, dtype=torch.float64) if channels == 1 else _opponents()
    down, across = _waves(height), _waves(width)
    rows, columns = min(height, axes), min(width, axes)  # higher ones are never among the lowest
    order = sorted(
        itertools.product(range(channels), range(rows), range(columns)),
        key=lambda wave: ((wave[1] ** 2 + wave[2] ** 2 + (wave[0] > 0)) * (9 if wave[0] else 1), wave),
    )
    basis = torch.empty(math.prod(shape), axes)
    for axis, (c, i, j) in enumerate(order[:axes]):
        basis[:, axis] = torch.einsum("c,h,w->chw", mixed[c], down[i], across[j]).flatten()
    return basis


def _waves(size: int) -> Tensor:
    """Row i is the cosine of i half periods, of length 1. [size, size]"""
    at = (torch.arange(size, dtype=torch.float64) + 0.5) * math.pi / size
    rows = torch.cos(torch.arange(size, dtype=torch.float64)[:, None] * at)
    return _unit(rows)


def _opponents() -> Tensor:
    """Mean, red against blue, green against both. [3, 3]"""
    rows = torch.tensor([[1.0, 1, 1], [1, 0, -1], [-1, 2, -1]], dtype=torch.float64)
    return _unit(rows)


def _unit(rows: Tensor) -> Tensor:
    unit: Tensor = rows / rows.norm(dim=1, keepdim=True)
    return unit
