"""Linear latents of pictures: a few axes, fixed before a record is read, from formulas or from public pictures."""

import itertools
import math

import torch
from torch import Tensor, nn

from gossamer.errors import RequestError

_CENTRE, _SPREAD = 0.3, 0.3
"""Where no public picture says better: the mean of a pixel and, over the axes, the root mean square of what differs from it."""


class Latent(nn.Module):
    """Codes of pictures, z = V^T (x - m) / s, and back. One scale serves all axes: high ones have small codes, as they should.

    Everything in it is a buffer: it is released with a generator, and no optimiser moves it. At first it has the lowest
    cosine waves as axes, which no picture went into.

    Raises:
        RequestError: if there are more axes than pixels.
    """

    basis: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...], axes: int) -> None:
        super().__init__()
        if axes > math.prod(shape):
            raise RequestError(
                f"--axes {axes} is more than the {math.prod(shape):,} numbers of a picture: take fewer axes."
            )
        self.shape, self.axes = tuple(shape), axes
        self.register_buffer("basis", cosines(self.shape, axes))
        self.register_buffer("centre", torch.full((math.prod(shape),), _CENTRE))
        self.register_buffer("scale", torch.tensor(_SPREAD * math.sqrt(math.prod(shape) / axes)))

    def code(self, images: Tensor) -> Tensor:
        """images: [n, C, H, W] in [0, 1]. Gives [n, axes]."""
        codes: Tensor = (images.flatten(1) - self.centre) @ self.basis / self.scale
        return codes

    def decode(self, codes: Tensor) -> Tensor:
        """codes: [n, axes]. Gives [n, C, H, W], which may lie a little outside [0, 1]."""
        flat = self.centre + (codes * self.scale) @ self.basis.t()
        return flat.view(-1, *self.shape)

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Take mean, principal axes and scale from public pictures, [n, C, H, W] in [0, 1] with n > axes. In place.

        Raises:
            RequestError: if there are too few pictures.
        """
        if len(images) <= self.axes:
            raise RequestError(
                f"{len(images):,} public records are too few for {self.axes} principal axes: give more, or fewer --axes."
            )
        flat = images.flatten(1).double()
        centre = flat.mean(0)
        values, vectors = torch.linalg.eigh((flat - centre).t() @ (flat - centre) / len(flat))
        axes = vectors[:, -self.axes :].flip(1)
        signs = torch.sign(axes.gather(0, axes.abs().argmax(0, keepdim=True)))  # an axis has two directions: take one
        self.basis.copy_(axes * signs)
        self.centre.copy_(centre)
        self.scale.copy_(values[-self.axes :].mean().clamp(min=1e-12).sqrt())


def cosines(shape: tuple[int, ...], axes: int) -> Tensor:
    """The lowest two-dimensional cosine waves, orthonormal. [C H W, axes]

    Waves of (i, j) half periods in height and width are ordered by i^2 + j^2. Of three channels their mean comes first. The two
    differences count as nine times as high, because most photographs have little in them.
    """
    channels, height, width = shape
    mixed = torch.eye(1, dtype=torch.float64) if channels == 1 else _opponents()
    down, across = _waves(height), _waves(width)
    order = sorted(
        itertools.product(range(channels), range(height), range(width)),
        key=lambda wave: ((wave[1] ** 2 + wave[2] ** 2 + (wave[0] > 0)) * (9 if wave[0] else 1), wave),
    )
    directions = [torch.einsum("c,h,w->chw", mixed[c], down[i], across[j]).flatten() for c, i, j in order[:axes]]
    return torch.stack(directions, 1).float()


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
