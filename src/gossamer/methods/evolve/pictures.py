"""Private Evolution over public pictures, which replace the program that draws candidates.

Nobody has to know the classes of the pictures, so each picture is a candidate of every class. The pictures are in clusters, and
the histogram has one bin for each cluster and class. A record votes for the nearest cluster, in the bin of its own class.
RANDOM_API of Lin et al. 2024 gives all pictures. VARIATION_API would give a similar one: any picture of the same cluster.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from gossamer.data.records import Records
from gossamer.methods.common import votes
from gossamer.methods.common.clusters import grouped
from gossamer.methods.common.labelled import LabelledPictures, PictureGenerator
from gossamer.methods.contract import Logs, Run, State, StatefulDataclass
from gossamer.methods.evolve import PARTS, Config, clusters_of
from gossamer.privacy.confined import Confined


class VotedPictures(PictureGenerator):
    """The pictures that got votes."""

    def take(self, images: Tensor, weights: Tensor) -> None:
        """Keep the pictures that have votes; all, if none has. images: uint8 [m, C, H, W]; weights: [m, classes]."""
        total = weights.sum(1)
        kept = total > 0 if bool((total > 0).any()) else torch.ones_like(total, dtype=torch.bool)
        shares = torch.where(total[:, None] > 0, weights / total[:, None], 1 / self.classes)
        self.labelled = LabelledPictures(images[kept], shares[kept].float())


@dataclass
class Candidates(StatefulDataclass):
    """All public pictures of a run: uint8 [m, C, H, W], where they are, float32 [m, d], and their noisy votes [m, classes].

    The votes are those of the clusters that a picture was in, over all rounds. No record is in them.
    """

    released: VotedPictures
    images: Tensor
    positions: Tensor
    votes: Tensor

    @classmethod
    def of(cls, net: VotedPictures, device: str) -> Self:
        """None yet."""
        images, none = net.labelled.images[:0], torch.zeros(0, 0, device=device)
        return cls(net, images, none, none.double())


def train(
    run: Run[Config], state: State, candidates: Candidates, likeness: votes.Embedding, private: Confined[Records]
) -> Iterator[Logs]:
    """Algorithm 1, one round of votes per yield. Each round has other clusters, and all rounds together say what is kept."""
    config, classes = run.config, run.card.classes
    ballot = run.query("votes")
    while private.remaining(ballot.event):
        centres, members = grouped(candidates.positions, clusters_of(config, run.card), run.rng.public("clusters"))
        bins = torch.arange(classes, device=centres.device).repeat(len(centres))
        query = votes.Votes(likeness, centres.repeat_interleave(classes, dim=0), bins, classes)
        h = private.release(ballot, query)  # Alg. 2, l. 1-5
        candidates.votes += h.view(-1, classes)[members]
        noise = config.noise_multiplier * math.sqrt(state.step + 1)  # of the sum over rounds
        weights = votes.thresholded(candidates.votes, noise, threshold=config.threshold)  # Alg. 2, l. 6
        candidates.released.take(candidates.images, weights)
        yield {"candidates_kept": len(candidates.released.labelled.images)}


def embed(
    run: Run[Config], state: State, candidates: Candidates, likeness: votes.Embedding, public: Records
) -> Iterator[Logs]:
    """Take all public pictures and where they are in the embedding, in PARTS steps. No record enters."""
    for part in np.array_split(np.arange(len(public)), PARTS)[state.step :]:
        found = votes.embedded(public[part], likeness, run.device).float()  # 20 bits: exact
        images = torch.from_numpy(np.array(public.images[part])).to(run.device)
        candidates.images = torch.cat([candidates.images, images])
        candidates.positions = torch.cat([candidates.positions.view(-1, found.shape[1]), found])
        candidates.votes = candidates.votes.new_zeros(len(candidates.images), run.card.classes)
        yield {}
    candidates.released.take(candidates.images, candidates.votes)
