"""Public pictures with labels that the records gave them: which come as samples, and with which labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.records import Records
from gossamer.methods.contract import DataCard, StatefulDataclass


class LabelledPictures(nn.Module):
    """Public pictures, and how likely each class is.

    Args:
        images: uint8 [m, C, H, W], as they were given.
        probabilities: float32 [m, classes].
    """

    images: Tensor
    probabilities: Tensor

    def __init__(self, images: Tensor, probabilities: Tensor) -> None:
        super().__init__()
        self.register_buffer("images", images)
        self.register_buffer("probabilities", probabilities)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        """Take as many pictures as the state has."""
        for name in ("images", "probabilities"):
            if isinstance(given := state_dict.get(f"{prefix}{name}"), Tensor):
                setattr(self, name, torch.empty_like(given))
        super()._load_from_state_dict(state_dict, prefix, *others)


class PictureGenerator(nn.Module):
    """Labelled public pictures as a generator: standard normals [n, 1] and labels [n] to pictures [n, C, H, W] in [0, 1].

    Each picture is drawn by how likely it has the label. `chunks` draws samples without repeating a picture.
    """

    def __init__(self, card: DataCard) -> None:
        super().__init__()
        self.classes, self.latent_size = card.classes, 1
        none = torch.zeros(1, *card.shape, dtype=torch.uint8)
        self.labelled = LabelledPictures(none, torch.full((1, card.classes), 1 / card.classes))

    @torch.no_grad()
    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        uniform, chosen = torch.special.ndtr(latents[:, 0].double()), torch.zeros_like(labels)
        for y in labels.unique().tolist():
            up_to = (self.labelled.probabilities[:, y].double() + 1e-12).cumsum(0)
            wanted = torch.nonzero(labels == y)[:, 0]
            chosen[wanted] = torch.searchsorted(up_to, uniform[wanted] * up_to[-1]).clamp(max=len(up_to) - 1)
        return self.labelled.images[chosen].float() / 255


@dataclass
class PublicPictures(StatefulDataclass):
    """The pictures that a classifier labels: uint8 [m, C, H, W], and what it reads of each, [m, features]."""

    images: Tensor
    features: Tensor

    def add(self, pictures: Records, features: Tensor) -> None:
        """Take pictures with their features."""
        self.images = torch.cat([self.images, torch.from_numpy(np.ascontiguousarray(pictures.images))])
        self.features = torch.cat([self.features, features])


def chunks(
    pictures: LabelledPictures, card: DataCard, sizes: Sequence[int], labels: Tensor | None, stream: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Images [n, C, H, W] in [0, 1], labels int64 [n] and probabilities [n, classes], in chunks of these sizes.

    No picture comes twice before all have come. The labels have the shares of the card's prior, or are those given. A picture
    has the label that is likeliest. Where too few have a label, the pictures that are likeliest to have it fill the
    gap.
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


def picked(probabilities: Tensor, wanted: Tensor) -> Tensor:
    """Positions of the shapes that are taken, int64 [n]: one for each label, none twice.

    A label that is named too rarely gets the shapes that are likeliest to have it, of those that no other label needs.

    Args:
        probabilities: of each class, for at least n shapes in random order, [m, classes].
        wanted: the label of each sample, int64 [n].
    """
    classes = probabilities.shape[1]
    predicted, free = probabilities.argmax(1), torch.ones(len(probabilities), dtype=torch.bool)
    left_over = predicted.bincount(minlength=classes) - wanted.bincount(minlength=classes)
    positions, none = torch.empty_like(wanted), torch.zeros(0, dtype=torch.int64)
    filling = {}
    for label in (left_over < 0).nonzero()[:, 0].tolist():
        order = probabilities[:, label].argsort(descending=True)
        order = order[free[order] & (left_over[predicted[order]] > 0)]
        named = predicted[order]
        rank = F.one_hot(named, classes).cumsum(0).gather(1, named[:, None])[:, 0]
        likeliest = order[rank <= left_over[named]][: -left_over[label]]
        left_over -= predicted[likeliest].bincount(minlength=classes)
        filling[label], free[likeliest] = likeliest, False
    for label in wanted.unique().tolist():
        places, matching = (wanted == label).nonzero()[:, 0], (free & (predicted == label)).nonzero()[:, 0]
        positions[places] = torch.cat([matching, filling.get(label, none)])[: len(places)]
    return positions
