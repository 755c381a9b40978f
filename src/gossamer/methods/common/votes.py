"""Votes of private records on public candidates, and the choice by votes. No record enters a picture.

Every record votes for the candidate of its class that is most similar to it, in an embedding that has seen no record.
All votes are ONE histogram over all candidates, released once by a Gaussian. A record adds 1 to one bin; a unit with
several records adds a vector that is clipped to 1. So the histogram moves by at most 1 in L2, add-or-remove-one. Lin et
al. 2024 ("Differentially private synthetic data via foundation model APIs 1: images"), Algorithm 2.

That holds only if a vote depends on its record alone, to the last bit. If another record in the batch changed how a sum is
rounded, a vote near a tie would move to another bin. So points lie on a grid. Everything between a record and its vote is a
sum of whole numbers below 2^53, in double precision: exact, in any order. A GPU library that transforms a convolution first
would break it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias

import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard, draw_labels
from gossamer.data.records import Records, at_once
from gossamer.methods.common.declared import MAX_NORM
from gossamer.privacy.mechanisms.sanitized_rows import clipped
from gossamer.privacy.queries import Bounds

Embedding: TypeAlias = Callable[[Tensor], Tensor]
"""Images float32 [n, C, H, W] in [0, 1] to points [n, d], of which near ones look alike. It has seen no private record, and
adds up nothing but numbers on the grid, see `on_grid`. Or it is a plug-in, checked by `nets/encoders.py`: a row of a batch does
not depend on the others.
"""

WIDEST = 4_096
"""The most features of which the sums are exact."""

_STEPS, _REACH = 2.0**12, 2.0**8
"""A coordinate of a point is a multiple of 1 / _STEPS, at most _REACH: 20 bits, so 4,096 products of two stay below 53 bits."""
_CHUNK = 1_000
"""Pictures that are embedded or compared at once, fewer where they are large; bounds the memory, not the result."""


@dataclass(frozen=True)
class Votes:
    """The query: how often each candidate is the nearest of its class. Algorithm 2, lines 1 to 5.

    Args:
        embedding: of the records.
        positions: where the candidates are in it, float64 [N, d] on the grid.
        labels: their classes, int64 [N].
        classes: how many classes the records have. Records of a class without candidates have no vote.
    """

    embedding: Embedding
    positions: Tensor
    labels: Tensor
    classes: int

    @classmethod
    def on(cls, candidates: Records, embedding: Embedding, classes: int) -> Self:
        """Votes on pictures."""
        return cls(embedding, embedded(candidates, embedding), torch.from_numpy(candidates.labels), classes)

    @property
    def dimension(self) -> int:
        """N, the number of candidates."""
        return len(self.positions)

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> Tensor:
        """[N] float64; the votes of one unit are at most bounds.norms[0] long."""
        device = self.positions.device
        cells = self._nearest(records)
        units = torch.arange(len(records)) if records.units is None else torch.from_numpy(records.units)
        pairs = (units.to(device) * self.dimension + cells)[cells >= 0]  # a number for each unit and candidate
        pairs, counts = torch.unique(pairs, return_counts=True)
        units, cells = pairs // max(1, self.dimension), pairs % max(1, self.dimension)
        different = torch.bincount(units, minlength=records.population)[units]  # candidates that the unit votes for
        total = torch.zeros(self.dimension, dtype=torch.float64, device=device)
        for many in different.unique().tolist():  # units with equally many are rows of one matrix: `pairs` rise
            rows = counts[different == many].double().view(-1, many)
            total.index_add_(0, cells[different == many], clipped(rows, bounds.norms[0]).flatten())
        return total

    def _nearest(self, records: Records) -> Tensor:
        """The bin in which each record votes, int64 [n]; -1: in none."""
        where = embedded(records, self.embedding, self.positions.device)
        labels = torch.tensor(records.labels, device=where.device)
        cells = torch.full_like(labels, -1)
        for y in range(self.classes):
            candidates, voters = torch.nonzero(self.labels == y)[:, 0], torch.nonzero(labels == y)[:, 0]
            there = self.positions[candidates]
            for chunk in voters.split(_CHUNK) if len(candidates) else ():
                distances = there.square().sum(1) - 2 * where[chunk] @ there.T  # squared, less what all have in common
                cells[chunk] = candidates[distances.argmin(1)]
        return cells


def thresholded(votes: Tensor, noise_multiplier: float, *, threshold: float) -> Tensor:
    """Weights [N]: what votes [N] exceed the threshold by, in standard deviations of their noise. Algorithm 2, line 6."""
    return (votes - threshold * noise_multiplier * MAX_NORM).clamp(min=0)


def share_in_use(weights: Tensor, groups: Tensor) -> float:
    """How large a share of the bins of a class the votes are on, by Kish's effective number; the median class. Post-processing.

    1: all bins of a class have as many votes. Where records look like no candidate, they vote for few.

    Args:
        weights: [B], as `thresholded` gives them.
        groups: int64 [B], the class of each bin.
    """
    sums, squares = (
        torch.zeros(int(groups.max()) + 1, dtype=torch.float64).index_add_(0, groups.cpu(), values.cpu().double())
        for values in (weights, weights.square())
    )
    counts = torch.bincount(groups.cpu())
    shares = sums.square() / (squares * counts).clamp(min=1e-12)
    return float(shares[sums > 0].median()) if bool((sums > 0).any()) else 0.0


def pick(weights: Tensor, groups: Tensor, labels: Tensor, uniform: Tensor) -> Tensor:
    """Draw candidates of given classes by their weights, with replacement. Algorithm 1, lines 4 and 5, class by class.

    One uniform number makes one draw, whatever the weights: the streams that they come from move equally far for all records.

    Args:
        weights: [N], not negative; a class whose weights are all zero is drawn from evenly.
        groups: int64 [N], the class of each candidate.
        labels: int64 [n], the classes to draw from; each has a candidate.
        uniform: [n], in [0, 1); each becomes the position of a candidate, int64 [n].
    """
    order = torch.argsort(groups, stable=True)
    kinds = int(torch.cat([groups, labels]).max()) + 1 if len(labels) else 1
    counts = torch.bincount(groups, minlength=kinds)
    sums = torch.zeros(kinds, dtype=torch.float64, device=groups.device).index_add_(0, groups, weights.double())
    shares = torch.where((sums > 0)[groups], weights.double() / sums[groups], 1 / counts[groups])[order]
    ends = counts.cumsum(0)
    cumulative = shares.cumsum(0)  # the class before ends at its number, but for rounding
    last = torch.cat([cumulative.new_zeros(1), cumulative])[ends]
    first = torch.cat([last.new_zeros(1), last[:-1]])
    wanted = first[labels] + uniform.double() * (last - first)[labels]
    positions = torch.searchsorted(cumulative, wanted, right=True)
    return order[torch.minimum(torch.maximum(positions, (ends - counts)[labels]), ends[labels] - 1)]


def without_weight(weights: Tensor, groups: Tensor, classes: int) -> list[int]:
    """Classes of which no candidate has a weight: noise hides them."""
    sums = weights.new_zeros(classes).index_add_(0, groups, weights)
    return (sums == 0).nonzero().flatten().tolist()


def per_class(average: int, card: DataCard) -> Tensor:
    """How many of each class, by the declared prior; at least one. int64 [classes]. average: over the classes."""
    return torch.tensor([max(1, round(average * card.classes * share)) for share in card.probabilities])


class WeightedCandidates(nn.Module):
    """Candidates with weights by votes. A class has so many on average. A variation of one is as strong as `degree` says."""

    labels: Tensor
    weights: Tensor
    degree: Tensor

    def __init__(self, card: DataCard, average: int, degree: float) -> None:
        super().__init__()
        labels = torch.repeat_interleave(torch.arange(card.classes), per_class(average, card))
        self.register_buffer("labels", labels, persistent=False)
        self.register_buffer("weights", torch.ones(len(labels)))
        self.register_buffer("degree", torch.tensor(degree))

    @property
    def unseen(self) -> list[int]:
        """Classes without a vote that counts. See `without_weight`."""
        return without_weight(self.weights, self.labels, int(self.labels.max()) + 1)

    def positions(self, latents: Tensor, labels: Tensor) -> Tensor:
        """Candidates of these classes, chosen by their weights and the first number of each latent. int64 [n]"""
        return pick(self.weights, self.labels, labels, torch.special.ndtr(latents[:, 0]))


def draw_preferred(candidates: Records, weights: Tensor, n: int, card: DataCard, stream: torch.Generator) -> Tensor:
    """Positions of public pictures that the votes prefer, some several times. Post-processing.

    Of n draws, with classes by the declared prior, those of classes without candidates are left out.
    """
    groups = torch.from_numpy(candidates.labels)
    labels, uniform = draw_labels(n, card, stream), torch.rand(n, generator=stream)
    there = torch.isin(labels, groups)
    return pick(weights.cpu(), groups, labels[there], uniform[there])


def embedded(records: Records, embedding: Embedding, device: torch.device | str = "cpu") -> Tensor:
    """Where records are in an embedding, float64 [n, d] on the grid. What is no number is zero: raising would be an output."""
    with torch.no_grad():
        step = at_once(records.shape, _CHUNK)
        parts = [
            on_grid(embedding(records[start : start + step].tensors(device)[0]))
            for start in range(0, max(1, len(records)), step)
        ]
    return torch.cat(parts)


def on_grid(values: Tensor) -> Tensor:
    """The nearest multiples of 2^-12 within 256 of zero, float64: sums of 4,096 products of such numbers are exact."""
    return values.double().nan_to_num(nan=0.0).clamp(-_REACH, _REACH).mul(_STEPS).round() / _STEPS


def pixels(images: Tensor) -> Tensor:
    """Images [n, C, H, W] in [0, 1], as records hold them, on the grid: whole numbers of 1/256. float64"""
    return (images * 255).round().double() / 256


class Cosines(nn.Module):
    """Embedding: the lowest cosine waves of a picture, each scaled to the spread that it has over public pictures.

    Each channel has at most `size` waves, by their squared frequency.
    """

    waves: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...], size: int = 64) -> None:
        super().__init__()
        channels, height, width = shape
        down, across = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        order = torch.argsort((down**2 + across**2).flatten(), stable=True)[:size]
        vertical = _waves(height)[down.flatten()[order]]
        horizontal = _waves(width)[across.flatten()[order]]
        waves = vertical[:, :, None] * horizontal[:, None, :]
        self.register_buffer("waves", on_grid(waves.flatten(1)))
        self.register_buffer("scale", torch.ones(channels * len(order), dtype=torch.float64))

    @classmethod
    def of(cls, public: Records, size: int = 64) -> Self:
        """Scaled to public pictures."""
        made = cls(public.shape, size)
        spread = embedded(public, made).std(0, correction=0)
        made.scale = torch.where(spread > 1e-6, 1 / spread, 0.0)
        return made

    def forward(self, images: Tensor) -> Tensor:
        """images: float32 [n, C, H, W]. Returns [n, C x size]."""
        return (pixels(images).flatten(2) @ self.waves.T).flatten(1) * self.scale


def _waves(length: int) -> Tensor:
    """Cosine waves of rising frequency, orthonormal. [length, length]"""
    frequency = torch.arange(length, dtype=torch.float64)
    waves = torch.cos(math.pi / length * frequency[:, None] * (frequency + 0.5)) * math.sqrt(2 / length)
    waves[0] /= math.sqrt(2)
    return waves
