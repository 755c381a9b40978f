"""What a teacher's samples are: drawn digits and letters, which cost no privacy, with the labels that it gives them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.card import DataCard, draw_labels
from gossamer.data.synthetic.glyphs import drawn
from gossamer.methods.common.labelled import picked
from gossamer.methods.common.softmax_regression import Classifier

CANDIDATES = 4
"""Shapes that are drawn for each sample."""
FEWEST = 64
"""Shapes that are drawn at least."""


@torch.no_grad()
def labelled(
    net: nn.Module, card: DataCard, n: int, labels: Tensor | None, stream: torch.Generator
) -> tuple[Tensor, Tensor]:
    """n shapes and their labels: images [n, C, H, W] in [0, 1] and int64 [n].

    The teacher labels four shapes for each sample, half of them digits and half letters. The samples are picked so that their
    labels follow the card's prior, or are those given. Where the teacher gives a label too rarely, the shapes that it finds
    likeliest to have it fill the gap. No shape is taken twice. Arguments are those of `Method.sample`.
    """
    assert isinstance(net, Classifier)
    wanted = draw_labels(n, card, stream) if labels is None else labels
    images = shapes(max(FEWEST, CANDIDATES * n), card.shape, stream)
    probabilities = net.probabilities(images.to(net.head.weight.device)).cpu()
    return images[picked(probabilities, wanted)], wanted


def shapes(n: int, shape: tuple[int, ...], stream: torch.Generator) -> Tensor:
    """Digits and letters, half and half in random order, white on black in all channels: [n, C, H, W] in [0, 1]."""
    channels, height, width = shape
    side = min(height, width)
    first, second = torch.randint(2**62, (2,), generator=stream).tolist()
    digits, _ = drawn(n - n // 2, classes="digits", size=side, seed=first)
    letters, _ = drawn(n // 2, classes="letters", size=side, seed=second)
    images = torch.cat([digits, letters])[torch.randperm(n, generator=stream)].float().div_(255)
    left, top = (width - side) // 2, (height - side) // 2
    images = F.pad(images, (left, width - side - left, top, height - side - top))
    return images.expand(n, channels, height, width)
