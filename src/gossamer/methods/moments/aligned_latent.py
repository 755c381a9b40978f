"""Codes of aligned pictures: each is moved, sized and slanted to one frame. They are for single shapes on a plain ground.

Moment normalisation: Casey 1970, "Moment normalization of handprinted characters". The ground is the median of a picture's
border. The mass of a pixel is its difference from the ground, if that is not faint. Centre, spreads and slant of the mass are
the pose of the shape. Aligned shapes have about the same pose, so Gaussians of them are less blurred. All of it follows from
one picture.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from gossamer.nets.latent import Latent

POSE = 5
"""Numbers of a pose: centre across and down, logarithms of the spreads across and down, slant."""
_SPREADS = (0.3, 0.4)
"""Spreads across and down of an aligned shape, in half sides of the picture."""
_FARTHEST = (0.6, 0.6, math.log(3), math.log(3), 1.0)
"""How far each number of a pose may be from that of an aligned shape."""
_POSE, _GROUND = 0.36, 0.3
"""How much a pose and a ground count in a code, for each square root of an axis."""
_PLAIN = 0.1
"""A sample whose ground is so near to black or white has that ground."""
_ONE_SHADE = 0.25
"""The largest standard deviation of a ground that noise may have made of a plain one."""
_BOTH, _FAR = 0.36, 100.0
"""The least variance of grounds that are black or white, as a share of the largest, and by how much they are drawn apart."""
_CLEARLY = 3
"""The ground of a cell is another than that of most if it is so many standard deviations of its noise away."""
_FAINT = 0.15
"""What differs from the ground by less than this share of the largest difference has no mass: paper is never of one shade."""
_LEAST = 1e-3
"""Added to variances: a thin line has a spread, too."""


class AlignedLatent(Latent):
    """Codes [n, d] of pictures and back: of the aligned difference from the ground, of the pose, and of the ground.

    `axes` is d: the axes asked for, 5 numbers of the pose and a ground for each channel.

    Args:
        shape: of the pictures, (C, H, W).
        axes: of the aligned pictures: the lowest cosine waves, or principal axes of public pictures.

    Raises:
        RequestError: if there are more axes than pixels.
    """

    edge: Tensor
    monomials: Tensor

    def __init__(self, shape: tuple[int, ...], axes: int) -> None:
        super().__init__(shape, axes)
        self.centre.zero_()  # a shape may be darker or brighter than its ground
        self.axes = axes + POSE + shape[0]
        border = torch.ones(shape[1:], dtype=torch.bool)
        border[1:-1, 1:-1] = False
        self.register_buffer("edge", border.flatten().nonzero().flatten(), persistent=False)
        self.register_buffer("monomials", _monomials(*shape[1:]), persistent=False)

    def code(self, images: Tensor) -> Tensor:
        """images: [n, C, H, W] in [0, 1]. Gives [n, d]."""
        return self.wide_code(images).float()

    def wide_code(self, images: Tensor) -> Tensor:
        """The same in double precision. Each picture is computed by itself."""
        codes = images.new_empty(len(images), self.axes, dtype=torch.float64)
        for i, image in enumerate(images.split(1)):
            shape, pose, ground = self._aligned(image.double())
            waves = super().wide_code(shape)
            codes[i] = torch.cat([waves, pose * self._weight(_POSE), (ground - 0.5) * self._weight(_GROUND)], 1)[0]
        return codes

    def decode(self, codes: Tensor) -> Tensor:
        """codes: [n, d]. Gives [n, C, H, W], which may lie a little outside [0, 1]."""
        waves = self.basis.shape[1]
        pose = codes[:, waves : waves + POSE] / self._weight(_POSE)
        farthest = pose.new_tensor(_FARTHEST)
        shapes = _warped(super().decode(codes[:, :waves]), _to_picture(pose.clamp(-farthest, farthest)))
        ground = self.ground(codes)
        return ground + (1 - 2 * (ground > 0.5)) * shapes

    def ground(self, codes: Tensor) -> Tensor:
        """Of decoded codes, [n, C, 1, 1] in [0, 1]."""
        ground = (codes[:, self.basis.shape[1] + POSE :] / self._weight(_GROUND) + 0.5).clamp(0, 1)
        ground = torch.where(ground < _PLAIN, 0.0, torch.where(ground > 1 - _PLAIN, 1.0, ground))
        return ground[:, :, None, None]

    def cleared(self, images: Tensor, codes: Tensor, threshold: float) -> Tensor:
        """Images in [0, 1] with the ground in place of what differs by less than this share of the largest difference."""
        ground = self.ground(codes)
        apart = (images - ground).abs()
        return torch.where(apart < threshold * apart.amax((1, 2, 3), keepdim=True), ground, images)

    def make_plain(self, means: Tensor, roots: Tensor, errors: tuple[Tensor, Tensor]) -> None:
        """Give cells a black or white ground where theirs differs from it by little, or by less than it spreads. In place.

        Noise would give a few samples a grey box. So the ground of a cell counts as that of most, unless it is clearly another.
        Where it spreads nearly as far as black and white do, samples have both and no grey: their codes go far beyond.

        Args:
            means: of cells, [c, d].
            roots: of their covariances, [c, d, d].
            errors: standard deviations of the noise in means and in variances, [c] each.
        """
        own, weight = slice(self.basis.shape[1] + POSE, None), self._weight(_GROUND)
        ground = _as_most(means[:, own] / weight + 0.5, errors[0] / weight)
        spread, end = roots[:, own].norm(dim=2) / weight, ground.round().clamp(0, 1)
        variance = _as_most(spread.square(), errors[1] / weight**2)
        near = spread.maximum(spread.median(0).values).clamp(min=_PLAIN)
        plain = ((ground - end).abs() < near) & (variance < _ONE_SHADE**2)
        means[:, own] = torch.where(plain, (end - 0.5) * weight, means[:, own])
        roots[:, own] = torch.where(plain[:, :, None], 0.0, roots[:, own])
        both = ~plain & (variance > _BOTH * ground * (1 - ground))
        means[:, own] = torch.where(both, _FAR * means[:, own], means[:, own])
        roots[:, own] = torch.where(both[:, :, None], _FAR * roots[:, own], roots[:, own])

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Take mean, principal axes and scale of aligned public pictures. As of any latent."""
        super().fit(torch.cat([self._aligned(image.double())[0].float() for image in images.split(1)]))

    def _aligned(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of one picture [1, C, H, W]: its difference from the ground in the frame, its pose [1, 5] and its ground [1, C]."""
        ground = image.flatten(2).index_select(2, self.edge).median(2).values
        apart = image - ground[:, :, None, None]
        mass = apart.abs()
        mass = mass.where(mass > _FAINT * mass.max(), 0.0)
        pose = image.new_tensor([_pose((mass.mean(1).flatten() @ self.monomials.to(image)).tolist())])
        brighter = 1 - 2 * (ground > 0.5)[:, :, None, None]  # black on white has the shape of white on black
        return _warped(apart * brighter, _to_frame(pose)), pose, ground

    def _weight(self, weight: float) -> float:
        return weight * math.sqrt(self.basis.shape[1])


def _as_most(values: Tensor, errors: Tensor) -> Tensor:
    """The median of all cells in place of what noise alone may have moved away from it. values: [c, n]; errors: [c]"""
    usual = values.median(0).values
    return torch.where((values - usual).abs() < _CLEARLY * errors[:, None], usual, values)


def _monomials(height: int, width: int) -> Tensor:
    """The numbers 1, x, y, x^2, x y and y^2 of each pixel. A side goes from -1 to 1. float64 [H W, 6]"""
    sides = [(torch.arange(size, dtype=torch.float64) + 0.5) * (2 / size) - 1 for size in (height, width)]
    y, x = (side.flatten() for side in torch.meshgrid(*sides, indexing="ij"))
    return torch.stack([torch.ones_like(x), x, y, x * x, x * y, y * y], 1)


def _pose(sums: list[float]) -> list[float]:
    """Of a mass whose sums with the monomials are given. As far from the pose of an aligned shape as it may be."""
    total = max(sums[0], _LEAST)
    x, y, xx, xy, yy = (number / total for number in sums[1:])
    high = max(yy - y * y, 0) + _LEAST
    slant = (xy - x * y) / high
    wide = max(xx - x * x - slant * slant * high, 0) + _LEAST
    spreads = (math.log(math.sqrt(variance) / usual) for variance, usual in zip((wide, high), _SPREADS, strict=True))
    return [max(-most, min(number, most)) for number, most in zip((x, y, *spreads, slant), _FARTHEST, strict=True)]


def _to_frame(pose: Tensor) -> Tensor:
    """Where a point of the frame is in the picture, [n, 2, 3]."""
    x, y, wide, high, slant = pose.unbind(1)
    nothing = torch.zeros_like(x)
    return torch.stack([wide.exp(), slant * high.exp(), x, nothing, high.exp(), y], 1).view(-1, 2, 3)


def _to_picture(pose: Tensor) -> Tensor:
    """Where a point of the picture is in the frame, [n, 2, 3]: the inverse."""
    x, y, wide, high, slant = pose.unbind(1)
    nothing = torch.zeros_like(x)
    across, down = (-wide).exp(), (-high).exp()
    return torch.stack([across, -slant * across, (slant * y - x) * across, nothing, down, -y * down], 1).view(-1, 2, 3)


def _warped(shapes: Tensor, where: Tensor) -> Tensor:
    """Shapes [n, C, H, W] at other points; nothing outside."""
    grid = F.affine_grid(where, list(shapes.shape), align_corners=False)
    return F.grid_sample(shapes, grid, mode="bicubic", padding_mode="zeros", align_corners=False)
