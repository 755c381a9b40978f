"""A teacher's samples where its run had public pictures: those pictures, with the labels that it gives them."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.methods.teacher.nets import Labelled
from gossamer.methods.teacher.shapes import picked


def chunks(
    pictures: Labelled, card: DataCard, sizes: Sequence[int], labels: Tensor | None, stream: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Images [n, C, H, W] in [0, 1], labels int64 [n] and probabilities [n, classes], in chunks of these sizes.

    No picture comes twice before all have come. The labels have the shares of the card's prior, or are those given. A picture
    has the label that the teacher finds likeliest. Where it gives a label too rarely, the pictures that it finds likeliest to
    have it fill the gap.
    """
    wanted = in_proportion(sum(sizes), card, stream) if labels is None else labels
    rounds = wanted.split(len(pictures.images))
    positions = torch.cat([wanted[:0], *(_chosen(pictures.probabilities, part, stream) for part in rounds)])
    for chosen, given in zip(positions.split([*sizes]), wanted.split([*sizes]), strict=True):
        yield pictures.images[chosen].float() / 255, given, pictures.probabilities[chosen]


def in_proportion(n: int, card: DataCard, stream: torch.Generator) -> Tensor:
    """Labels in random order, each as often as the card's prior says, to one. int64 [n]."""
    upper = (torch.tensor(card.probabilities, dtype=torch.float64).cumsum(0) * n).round().long()
    upper[-1] = n
    labels = torch.searchsorted(upper, torch.arange(n), right=True)
    return labels[torch.randperm(n, generator=stream)]


def _chosen(probabilities: Tensor, wanted: Tensor, stream: torch.Generator) -> Tensor:
    """Positions of pictures with these labels, none twice. int64 [n]."""
    order = torch.randperm(len(probabilities), generator=stream)
    return order[picked(probabilities[order], wanted)]
