"""Drawing programs: pictures from a few numbers, and other numbers nearby. They are simulators for Private Evolution.

All randomness is an argument: standard normals, as many as a picture has parameters. So the same numbers may come from a
seeded stream, or be the latent of a generator.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Range:
    """How some parameters of a picture are drawn: normal, and kept inside a range.

    Args:
        mean: of the normal.
        spread: its standard deviation.
        low: the least value.
        high: the largest.
        count: how many parameters are drawn so, one after the other.
    """

    mean: float
    spread: float
    low: float
    high: float
    count: int = 1


class DrawingProgram(ABC):
    """Pictures from parameters, [n, size] float32 each row. The first `choices` columns are choices, uniform in [0, 1): which
    shape is drawn, for instance; all others are continuous.
    """

    dtype: ClassVar[torch.dtype] = torch.float32
    choices: ClassVar[int]
    ranges: tuple[Range, ...]

    @property
    def size(self) -> int:
        """How many parameters a picture has."""
        return self.choices + sum(prior.count for prior in self.ranges)

    @property
    def normals(self) -> int:
        """How many standard normals a picture takes."""
        return self.size

    def random(self, noise: Tensor, labels: Tensor | None = None) -> Tensor:  # noqa: ARG002 (for programs that need them)
        """Parameters from standard normals, both [n, size]. RANDOM_API of Lin et al. 2024."""
        mean, spread, low, high = self._table(noise)
        choices, free = self._parts(noise)
        return torch.cat([_uniform(choices), (mean + spread * free).clamp(low, high)], dim=1)

    def vary(self, parameters: Tensor, degree: Tensor | float, noise: Tensor, labels: Tensor | None = None) -> Tensor:
        """Parameters near others. VARIATION_API of Lin et al. 2024.

        Args:
            parameters: [n, size].
            degree: how far, from 0 to 1. Continuous parameters move by degree x their spread x a normal, inside their
                range. A choice is redrawn with probability degree.
            noise: standard normals, [n, size].
            labels: of the pictures, int64 [n], for programs that need them.
        """
        del labels
        _, spread, low, high = self._table(noise)
        choices, free = self._parts(parameters)
        normals, steps = self._parts(noise)
        u = _uniform(normals)  # given u < degree, u / degree is uniform in [0, 1): it is the new choice
        again = torch.where(u < degree, (u / degree).clamp(max=_BELOW_ONE), choices)
        return torch.cat([again, (free + degree * spread * steps).clamp(low, high)], dim=1)

    @abstractmethod
    def draw(self, parameters: Tensor, labels: Tensor, size: int) -> Tensor:
        """Pictures uint8 [n, 1, size, size] from parameters [n, size of the program] and labels [n]."""

    def _parts(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        return parameters[:, : self.choices], parameters[:, self.choices :]

    def _table(self, like: Tensor) -> list[Tensor]:
        """Mean, spread, low and high of every continuous parameter, [size - choices] each."""
        rows = [[prior.mean, prior.spread, prior.low, prior.high] for prior in self.ranges for _ in range(prior.count)]
        return list(torch.tensor(rows, dtype=like.dtype, device=like.device).T)


_BELOW_ONE = 1 - 2.0**-24  # the largest float32 below 1


def _uniform(normals: Tensor) -> Tensor:
    """Uniform numbers in [0, 1) from standard normals."""
    uniform: Tensor = torch.special.ndtr(normals)
    return uniform.clamp(max=_BELOW_ONE)


class Patches(DrawingProgram):
    """A rectangle with soft edges on an even ground: for records that are no characters, and for tests. Labels change nothing.

    The first parameters are in sides of the picture: middle (x, y), half sides (x, y) and softness of the edges. The
    others are the brightness of the patch and of the ground.
    """

    choices = 0
    ranges = (
        Range(0.5, 0.25, 0.0, 1.0, 2), Range(0.3, 0.15, 0.02, 0.7, 2), Range(0.04, 0.03, 0.01, 0.2),
        Range(0.7, 0.3, 0.0, 1.0), Range(0.2, 0.2, 0.0, 1.0),
    )  # fmt: skip

    def draw(self, parameters: Tensor, labels: Tensor, size: int) -> Tensor:  # noqa: ARG002 (as every program)
        """See the class."""
        axis = (torch.arange(size, device=parameters.device) + 0.5) / size
        x, y, half_x, half_y, soft, bright, ground = parameters[:, :, None].unbind(1)
        across = torch.sigmoid((half_x - (axis - x).abs()) / soft)
        down = torch.sigmoid((half_y - (axis - y).abs()) / soft)
        inside = down[:, :, None] * across[:, None, :]
        picture = ground[:, :, None] + (bright - ground)[:, :, None] * inside
        return (picture * 255).round().to(torch.uint8)[:, None]
