"""The generator that `evolve` releases. It has not seen a record."""

import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.synthetic.drawing import DrawingProgram
from gossamer.methods.common.softmax_regression import Classifier
from gossamer.methods.common.votes import WeightedCandidates


class Evolved(WeightedCandidates):
    """Candidates with weights: a sample is a variation of one of them. Latents [n, latent_size] and labels [n] to pictures
    [n, C, H, W] in [0, 1].

    The first number of a latent chooses the candidate, the others vary it. A class has so many candidates on average.
    `labeller` is the classifier that softens the labels of samples, where there is one.
    """

    parents: Tensor

    def __init__(
        self, program: DrawingProgram, card: DataCard, candidates: int, labeller: Classifier | None = None
    ) -> None:
        super().__init__(card, candidates, 0.0)
        self.labeller = labeller
        self.program, self.classes, self.side = program, card.classes, card.shape[1]
        self.latent_size = 1 + program.normals
        self.register_buffer("parents", torch.zeros(len(self.labels), program.size, dtype=program.dtype))

    def varied(self, latents: Tensor, labels: Tensor) -> Tensor:
        """Parameters of samples, [n, program.size]."""
        parents = self.parents[self.positions(latents, labels)]
        return self.program.vary(parents, self.degree, latents[:, 1:], labels)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        return self.program.draw(self.varied(latents, labels), labels, self.side).float() / 255
