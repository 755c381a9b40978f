"""Handwriting drawn from fonts: digits and letters that cost no privacy, for warm starts and for tests.

Each character of a few fonts was rendered once and thinned to the path of its strokes (`tools/strokes.py`). That path is bent,
sheared and stretched at random, and drawn again with a round pen of random width. It is framed as MNIST's digits are: white on
black, the longer side 20 pixels, the centre of mass in the middle of 28x28. Other characters that look like a written digit (a
plain stroke for 1, an open 4) are drawn too.

No record enters a glyph. `tools/choose_glyphs.py` chose the characters, and how far they are turned, bent and waved, by every
other one of scikit-learn's 1,797 digits. So results on *those* digits depend on them. Slant, stretch and pen follow paper and
pens. The way of drawing, but no number, comes from an earlier version that was tuned on MNIST's training pictures. Provisional
glyphs were once evaluated on MNIST's training records; nothing was changed for it.
"""

import base64
import math
import zlib
from functools import cache
from importlib import resources
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from gossamer.data.records import Records, at_once
from gossamer.data.synthetic.drawing import DrawingProgram, Range
from gossamer.errors import RequestError

Classes = Literal["digits", "letters"]

_STROKES = resources.files("gossamer.data.synthetic").joinpath("strokes.txt").read_text()
"""For digits and for letters: their name, where each class begins, and packed pixels."""

_FIELD = 64
"""Side of a rendered character, in its own pixels; the character itself is at most _INK of them."""
_INK = 40
_FRAME, _BOX = 28, 20
"""Side of a glyph and of the box into which its ink fits, as in MNIST."""
_WIDER, _NEAR = 1.5, 1.5
"""A first look, to find the frame, is this much wider and takes points this near to a path, in pixels, as its ink."""
_BATCH = 2000
"""Glyphs that are drawn at once, up to this size; of larger ones, fewer: a pixel takes about so many numbers."""
_USUAL, _ROOM = 64, 16
_RANGES = {
    "angle": Range(0.0, 0.14, -0.42, 0.42),
    "shear": Range(0.0, 0.3, -0.6, 0.6),
    "stretch": Range(0.0, 0.2, -0.6, 0.6),
    "bends": Range(0.0, 0.2, -0.5, 0.5, 4),
    "waves": Range(0.0, 1.0, -3.0, 3.0, 2 * 16),
    "pen waves": Range(0.0, 0.2, -0.6, 0.6, 16),
    "radius": Range(1.35, 0.35, 0.7, 2.0),
    "softness": Range(0.25, 0.04, 0.15, 0.35),
    "peak": Range(1.0, 0.05, 0.9, 1.1),
}
"""The continuous parameters of a glyph."""


def glyphs(split: Literal["train", "test"]) -> Records:
    """The public digits that `glyphs` names as DATA: 20,000 for training or 2,000 for tests, always the same."""
    return draw(20_000, seed=1) if split == "train" else draw(2_000, seed=2)


class Glyphs(DrawingProgram):
    """Digits (labels 0 to 9) or letters (upper and lower case together, labels 0 to 25) as a drawing program.

    Args:
        classes: which.
        smallest_size: size of the smallest characters, of that of MNIST's, above 0 and at most 1. Below 1, each picture has one
            more parameter: the logarithm of its size.
        largest_rotation: how far a character is turned at most, either way, in degrees. Above 0, each picture has one more
            parameter: its angle.

    Raises:
        RequestError: for other classes.
    """

    choices = 1  # which of the shapes of its class

    def __init__(self, classes: Classes, smallest_size: float = 1.0, largest_rotation: float = 0.0) -> None:
        self._fields, self._first = _fields(classes)
        self.classes = len(self._first) - 1
        self._named = dict(_RANGES)
        if smallest_size < 1:
            least = math.log(smallest_size)
            self._named["size"] = Range(least / 2, -least / 2, least, 0.0)
        if largest_rotation > 0:
            most = math.radians(largest_rotation)
            self._named["rotation"] = Range(0.0, 0.6 * most, -most, most)
        self.ranges = tuple(self._named.values())

    def draw(self, parameters: Tensor, labels: Tensor, size: int) -> Tensor:
        """Pictures uint8 [n, 1, size, size] from parameters [n, size of the program] and labels [n]."""
        most = _BATCH if size <= _USUAL else at_once((_ROOM, size, size), _BATCH)
        parts = zip(torch.split(parameters, most), torch.split(labels, most), strict=True)
        return torch.cat([self._draw(*part, size) for part in parts])

    def _draw(self, parameters: Tensor, labels: Tensor, size: int) -> Tensor:
        choice, *free = torch.split(parameters, [1, *(values.count for values in self.ranges)], dim=1)
        drawn = dict(zip(self._named, (values[:, :, None] for values in free), strict=True))
        first = self._first.to(labels.device)
        counts = (first[1:] - first[:-1])[labels]
        path_numbers = first[labels] + (choice[:, 0] * counts).long()
        paths = self._fields.to(labels.device)[path_numbers][:, None]
        none = torch.zeros_like(drawn["angle"])
        size_here, rotation = torch.exp(drawn.get("size", none)), drawn.get("rotation", none)
        affine = _affine(angle=drawn["angle"] + rotation, shear=drawn["shear"], stretch=torch.exp(drawn["stretch"]))
        waves = torch.cat([drawn["waves"], drawn["pen waves"]], dim=1).view(-1, 3, 4, 4)
        bends = drawn["bends"][..., None, None]
        radius, soft, peak = drawn["radius"], drawn["softness"], drawn["peak"]

        view = _frame(_FRAME).to(labels.device) * _WIDER
        rough, _ = _distance(paths, affine, bends, waves, view.expand(len(labels), -1, -1, -1))
        centre, length = _extent(rough < _NEAR, view)
        scale = (length + _WIDER - 2 * _NEAR) / (_BOX - 2 * radius[:, 0, 0])
        where = centre[:, None, None] + (scale[:, None, None] / size_here)[..., None] * _frame(size).to(labels.device)
        distance, wave = _distance(paths, affine, bends, waves, where)
        ink = torch.sigmoid(size_here * (radius * (1 + wave) - distance / scale[:, None, None]) / soft) * peak
        return (ink.clamp(0, 1) * 255).round().to(torch.uint8)[:, None]


def draw(n: int, *, classes: Classes = "digits", size: int = _FRAME, seed: int) -> Records:
    """Draw n glyphs of `size` pixels a side: uint8 [n, 1, size, size]. Equal arguments give equal glyphs.

    The classes are as even as n allows, in random order. Raises RequestError: n or size below 1, or unknown classes.
    """
    images, labels = drawn(n, classes=classes, size=size, seed=seed)
    return Records(images.numpy(), labels.numpy())


def drawn(n: int, *, classes: Classes, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """The images and the labels of `draw`, as tensors."""
    if n < 1 or size < 1:
        raise RequestError(f"glyphs needs at least one glyph of at least one pixel, not n = {n}, size = {size}")
    program, rng = Glyphs(classes), torch.Generator().manual_seed(seed)
    labels = (torch.arange(n) % program.classes)[torch.randperm(n, generator=rng)]
    parameters = program.random(torch.randn(n, program.size, generator=rng))
    return program.draw(parameters, labels, size), labels


def _affine(*, angle: Tensor, shear: Tensor, stretch: Tensor) -> Tensor:
    """Matrices from glyph pixels to field coordinates in [-1, 1]. Arguments [n, 1, 1]; returns [n, 2, 2]."""
    cos, sin = torch.cos(angle), torch.sin(angle)
    turn = torch.cat([torch.cat([cos, -sin], 2), torch.cat([sin, cos], 2)], 1)
    lean = torch.cat([torch.cat([1 / stretch, -shear], 2), torch.cat([torch.zeros_like(shear), stretch], 2)], 1)
    return (lean @ turn) * (_INK / _BOX * 2 / _FIELD)


def _frame(size: int) -> Tensor:
    """Pixel centres (x, y) of a glyph, in pixels of a 28x28 frame, from its middle. [size, size, 2]"""
    axis = ((torch.arange(size) + 0.5) / size - 0.5) * _FRAME
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([x, y], dim=2)


def _distance(paths: Tensor, affine: Tensor, bends: Tensor, waves: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """Distance to the strokes, in pixels of the frame, at bent points, and a smooth wave for the width of the pen.

    Args:
        paths: [n, 1, F, F], distance to the path in field pixels.
        affine: [n, 2, 2], from frame pixels to field coordinates in [-1, 1].
        bends: [n, 4, 1, 1, 1], see `_bend`.
        waves: [n, 3, 4, 4], coarse random displacements of x and y, and of the pen.
        where: [n, size, size, 2], points in frame pixels.
    """
    smooth = grid_sample(waves, where / _FRAME * 1.5, mode="bicubic", padding_mode="border", align_corners=False)
    warped = _bend(where, bends) + smooth[:, :2].permute(0, 2, 3, 1)
    points = torch.einsum("nij,nhwj->nhwi", affine, warped)
    sampled = grid_sample(paths, points, padding_mode="border", align_corners=False)[:, 0]
    return sampled * (_BOX / _INK), smooth[:, 2]


def _bend(where: Tensor, bends: Tensor) -> Tensor:
    """Shift the middle sideways and up, and taper both ways. where: [n, s, s, 2]; bends: [n, 4, 1, 1, 1]."""
    half = _BOX / 2
    x, y = torch.split(where / half, 1, dim=3)
    inside_x, inside_y = x.clamp(-1, 1), y.clamp(-1, 1)
    hump = 1 - inside_y**2
    moved = [x + bends[:, 0] * hump + bends[:, 1] * inside_y * x, y + bends[:, 2] * hump + bends[:, 3] * inside_x * y]
    return torch.cat(moved, dim=3) * half


def _extent(ink: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
    """Centre of mass [n, 2] and longer side [n] of the ink. ink: bool [n, s, s]; view: [s, s, 2]."""
    points = view[None]
    mask = ink[..., None]
    low = torch.where(mask, points, torch.inf).amin((1, 2))
    high = torch.where(mask, points, -torch.inf).amax((1, 2))
    centre = (points * mask).sum((1, 2)) / mask.sum((1, 2))
    return centre, (high - low).amax(1)


@cache
def _fields(classes: Classes) -> tuple[Tensor, Tensor]:
    """Distance fields [K, F, F] of all characters, class by class, and where each class begins [classes + 1]."""
    paths, first = strokes(classes)
    return torch.stack([_field(path) for path in paths]), first


def _field(path: Tensor) -> Tensor:
    """Distance of each field pixel to a path. bool [F, F] to float32 [F, F]: the roots of whole numbers, rounded once."""
    axis, points = torch.arange(_FIELD)[:, None], path.nonzero()
    down, across = (axis - points[:, 0]) ** 2, (axis - points[:, 1]) ** 2
    return (down[:, None] + across).amin(2).double().sqrt().float()


def strokes(classes: Classes) -> tuple[Tensor, Tensor]:
    """The strokes of all characters as thin lines, bool [K, F, F], and where each class begins. `strokes.txt` has them."""
    blocks = {name: lines for name, *lines in map(str.splitlines, _STROKES.split("\n\n"))}
    if classes not in blocks:
        raise RequestError(f"glyphs draws digits or letters, not {classes!r}")
    first, *packed = blocks[classes]
    rows = zlib.decompress(base64.b85decode("".join(packed)))
    bits = torch.frombuffer(bytearray(rows), dtype=torch.uint8)[:, None] >> torch.arange(7, -1, -1)
    return (bits & 1).bool().view(-1, _FIELD, _FIELD), torch.tensor([int(number) for number in first.split()])
