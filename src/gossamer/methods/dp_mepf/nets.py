"""What DP-MEPF trains and releases: a DCGAN generator whose pictures bend, and latents that votes chose."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.methods.common import votes
from gossamer.methods.common.softmax_regression import Classifier
from gossamer.methods.dp_mepf import Config
from gossamer.nets import dcgan

TURN, STRETCH, SLANT, SHIFT, WAVE = 0.12, 0.06, 0.10, 0.03, 0.03
"""Standard deviations of what bends a picture. The turn is in radians, the stretches are shares of its size, the slant of its
height. The shifts, and the waves at the knots of a grid, are shares of half its side.
"""
_KNOTS, _LEARNT_KNOTS = 4, 7
"""Knots along a side of that grid, and of the one whose waves are learnt."""
BENDS = 6 + 2 * _KNOTS**2
"""Random numbers that bend a picture."""
_HIDDEN = 256
"""Width of the network that makes learnt bends of a latent."""


class Generator(nn.Module):
    """Latents [n, latent_size] and labels [n] to pictures [n, C, H, W] in [0, 1], bent before the tanh, so that nothing blurs.

    The DCGAN's own latent has `inner_size` numbers; those that bend come after it. `bends` is in units of the constants above.
    With `learnt_bends`, a small network adds what it makes of the whole latent and the class: at first nothing.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, config: Config) -> None:
        super().__init__()
        self.net = dcgan.Generator(shape, classes, width=config.width, latent_size=config.latent_size)
        self.classes, self.inner_size, self.bends = classes, config.latent_size, config.bends
        self.black, self.white = config.black, config.white
        self.latent_size = self.inner_size + BENDS
        self.learnt = learnt_bends(self.latent_size + classes) if config.learnt_bends else None

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        inner, bends = latents.split([self.inner_size, BENDS], 1)
        logits = self.net.logits(inner, labels)
        distortions = [self.bends * bends] if self.bends > 0 else []
        if self.learnt is not None:
            distortions.append(self.learnt(torch.cat([latents, F.one_hot(labels, self.classes).to(latents)], 1)))
        return dcgan.to_pixels(warped(logits, *distortions) if distortions else logits)

    def finished(self, latents: Tensor, labels: Tensor) -> Tensor:
        """The same pictures with black that is black: a tanh never is, and training with these levels would undo them."""
        pictures: Tensor = self(latents, labels)
        return ((pictures - self.black) / (1 - self.black - self.white)).clamp(0, 1)


class Discriminator(dcgan.Discriminator):
    """The DCGAN's discriminator, which sees public pictures alone: what it makes of labels is made once for each class."""

    def label_maps(self, images: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        maps: Tensor = self.label_in(self._planes(images, torch.arange(self.classes, device=labels.device)))
        return maps[labels]


def learnt_bends(inputs: int) -> nn.Sequential:
    """Latent and class [n, inputs] to what bends a picture, with waves on a finer grid: zeros until it learns."""
    last = nn.Linear(_HIDDEN, 6 + 2 * _LEARNT_KNOTS**2)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, _HIDDEN), nn.SiLU(), nn.Linear(_HIDDEN, _HIDDEN), nn.SiLU(), last)


def warped(pictures: Tensor, *bends: Tensor) -> Tensor:
    """Pictures [n, C, H, W] turned, stretched, slanted, shifted and rippled, by the sum of all `bends` in standard units.

    Each is [n, 6 + 2 k^2]; its waves are at the knots of a k x k grid. What comes in from outside is like the rim.
    """
    plain = torch.stack([by[:, :6] for by in bends]).sum(0)
    angle, slant = TURN * plain[:, 0], SLANT * plain[:, 3]
    wide, high = 1 + STRETCH * plain[:, 1], 1 + STRETCH * plain[:, 2]
    right, down = SHIFT * plain[:, 4], SHIFT * plain[:, 5]
    rows = [wide * angle.cos(), -angle.sin() + slant, right, angle.sin(), high * angle.cos(), down]
    whole, height, width = torch.stack(rows, 1).view(-1, 2, 3), *pictures.shape[2:]
    numbers = torch.cat([whole, *(WAVE * by[:, 6:].reshape(len(by), 2, -1) for by in bends)], 2)
    surfaces = torch.cat([positions(pictures), *(ripples(by.shape[1] // 2 - 3, pictures) for by in bends)])
    grid = (numbers @ surfaces).view(-1, 2, height, width).permute(0, 2, 3, 1)
    return F.grid_sample(pictures, grid, padding_mode="border", align_corners=False)


def positions(pictures: Tensor) -> Tensor:
    """Where the pixels of a picture lie across and down, in shares of half its side from its middle, and ones. [3, H * W]"""
    sides = [torch.arange(size, device=pictures.device, dtype=pictures.dtype) for size in pictures.shape[2:]]
    down, across = ((2 * side + 1) / len(side) - 1 for side in sides)
    grid = torch.meshgrid(across, down, indexing="xy")
    return torch.stack([*grid, torch.ones_like(grid[0])]).flatten(1)


def ripples(knots: int, pictures: Tensor) -> Tensor:
    """A smooth surface over the pixels for each knot of a square grid: 1 there, 0 at all others. [knots, H * W]"""
    side = math.isqrt(knots)
    peaks = torch.eye(knots, device=pictures.device, dtype=pictures.dtype).view(-1, 1, side, side)
    return F.interpolate(peaks, size=pictures.shape[2:], mode="bicubic", align_corners=True).flatten(1)


class Released(nn.Module):
    """What a run hands out: latents [n, 1 + latent_size of the generator] and labels [n] to pictures [n, C, H, W] in [0, 1].

    The first number of a latent chooses a candidate, the others vary it, as far as `Candidates.degree` says. `labeller` is the
    classifier that softens the labels of samples, where there is one.
    """

    def __init__(self, generator: Generator, candidates: "Candidates", labeller: Classifier | None = None) -> None:
        super().__init__()
        self.generator, self.candidates, self.labeller = generator, candidates, labeller
        self.classes, self.latent_size = generator.classes, 1 + generator.latent_size

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        return self.generator.finished(self.candidates.varied(latents, labels), labels)


class Candidates(votes.WeightedCandidates):
    """Latents of candidates with their weights. Before any vote the degree is 1, and samples do not depend on candidates.

    A class has `count` candidates on average, by the prior of the card. A latent has `size` numbers.
    """

    latents: Tensor

    def __init__(self, card: DataCard, count: int, size: int) -> None:
        super().__init__(card, count, 1.0)
        self.register_buffer("latents", torch.zeros(len(self.labels), size))

    def varied(self, latents: Tensor, labels: Tensor) -> Tensor:
        """sqrt(1 - degree^2) of a candidate's latent and degree of a new one: standard normals stay such. [n, size]

        latents: standard normals [n, 1 + size].
        """
        scale = (1 - self.degree.square()).clamp(min=0).sqrt()
        return scale * self.latents[self.positions(latents, labels)] + self.degree * latents[:, 1:]
