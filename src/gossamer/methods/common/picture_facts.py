"""What a look at pictures asks: whether each is drawn as a program draws it, one shape on a plain ground, on a dark ground.

Each fact is true or false of one picture, and is computed with whole numbers or from this picture alone. So another picture
beside it changes nothing, not even by rounding.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.synthetic.glyphs import Glyphs
from gossamer.nets.latent import Latent

FACTS = ("drawn", "shape", "dark")
"""A classifier of drawings says its class. Its ground is large, and its ink has few shades and thin strokes. Ground is dark."""
WORDS = ("anything", "things on black", "shapes", "digits")
"""What a look may answer, the most general first. Presets say for which of them they are."""
_MOSTLY, _LIKE_DRAWN = 0.7, 0.55
"""The share of pictures that shows what most are, and the share whose class a classifier of drawings says."""
_DIGITS = 10
_DRAWN, _AXES, _RIDGE = 2_000, 64, 0.1
"""Drawings that the classifier learns from, cosine waves, and what is added to their variances, in units of the mean one."""
_FAINT, _FULL = 0.15, 0.7
"""Of the largest difference from the ground: what is below counts as ground, what is above as full ink."""
_GROUND, _SHADES, _THIN, _NEARLY_ALL = 0.45, 0.65, 0.3, 0.9
"""The least share of ground in a shape, the largest of shades in its ink, and of full ink; the ground of tiny shapes."""
_DARK, _SOME = 64, 0.3
"""Pixels of a dark ground are below, and the ground is at least this share of the picture."""


def facts(card: DataCard) -> Callable[[Records], np.ndarray]:
    """A function of records, which gives `FACTS` of each: bool [n, 3]."""
    channels, height, width = card.shape
    may_be_digits = channels == 1 and height == width and card.classes == _DIGITS
    said = _classifier(card) if may_be_digits else None

    def of(records: Records) -> np.ndarray:
        drawn = np.zeros(len(records), bool) if said is None else said(records) == records.labels
        shape = np.array([_looks(image) for image in records.images], bool).reshape(-1, 2)
        return np.column_stack([drawn, shape])

    return of


def shown(shares: Sequence[float]) -> str:
    """What records show, one of `WORDS`. shares: about how many have each of `FACTS`; noise is in them."""
    drawn, shape, dark = shares
    if shape > _MOSTLY:
        return "digits" if drawn > _LIKE_DRAWN else "shapes"
    return "things on black" if dark > _MOSTLY else "anything"


def _looks(image: np.ndarray) -> tuple[bool, bool]:
    """Whether a picture shows one shape, and whether its ground is dark. image: uint8 [C, H, W]"""
    border = np.ones(image.shape[1:], bool)
    border[1:-1, 1:-1] = False
    ground = np.median(image[:, border], axis=1)
    apart = np.abs(image - ground[:, None, None]).sum(0)
    largest = apart.max()
    plain, full = (apart < _FAINT * largest).mean(), (apart > _FULL * largest).mean()
    shades = 1 - plain - full
    is_shape = plain > _NEARLY_ALL or (plain > _GROUND and shades < _SHADES * (1 - plain) and full < _THIN)
    return bool(is_shape), bool(plain > _SOME and ground.max() < _DARK)


def _classifier(card: DataCard) -> Callable[[Records], np.ndarray]:
    """Linear discriminants of drawings. Returns a function that says the class of each record, int [n]."""
    draw, program = torch.Generator().manual_seed(0), Glyphs("digits", 1.0, 0.0)
    labels = torch.arange(_DRAWN) % _DIGITS
    images = program.draw(
        program.random(torch.randn(_DRAWN, program.normals, generator=draw), labels), labels, card.shape[1]
    )
    latent = Latent(card.shape, min(_AXES, card.shape[1] * card.shape[2]))
    codes = latent.wide_code(images.float() / 255)
    means = torch.stack([codes[labels == label].mean(0) for label in range(_DIGITS)])
    spread = torch.cov((codes - means[labels]).t())
    ridge = _RIDGE * spread.diagonal().mean() * torch.eye(len(spread))
    weights: Tensor = torch.linalg.solve(spread + ridge, means.t())
    offsets = (means.t() * weights).sum(0) / 2

    def said(records: Records) -> np.ndarray:
        pictures = (records[at : at + 1].tensors("cpu")[0] for at in range(len(records)))
        return np.array([int((latent.wide_code(each) @ weights - offsets).argmax()) for each in pictures])

    return said
