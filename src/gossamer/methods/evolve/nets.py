"""The generator that `evolve` releases. It has not seen a record."""

import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.synthetic.drawing import DrawingProgram
from gossamer.methods.common.softmax_regression import Classifier
from gossamer.methods.common.votes import pick


def per_class(average: int, card: DataCard) -> Tensor:
    """How many of each class, by the declared prior; at least one. int64 [classes]. average: over the classes."""
    return torch.tensor([max(1, round(average * card.classes * share)) for share in card.probabilities])


class Evolved(nn.Module):
    """Candidates with weights: a sample is a variation of one of them. Latents [n, latent_size] and labels [n] to pictures
    [n, C, H, W] in [0, 1].

    The first number of a latent chooses the candidate, the others vary it. A class has so many candidates on average.
    `labeller` is the classifier that softens the labels of samples, where there is one.
    """

    labels: Tensor
    parents: Tensor
    weights: Tensor
    degree: Tensor

    def __init__(
        self, program: DrawingProgram, card: DataCard, candidates: int, labeller: Classifier | None = None
    ) -> None:
        super().__init__()
        self.labeller = labeller
        self.program, self.classes, self.side = program, card.classes, card.shape[1]
        self.latent_size = 1 + program.normals
        labels = torch.repeat_interleave(torch.arange(card.classes), per_class(candidates, card))
        self.register_buffer("labels", labels, persistent=False)
        self.register_buffer("parents", torch.zeros(len(self.labels), program.size, dtype=program.dtype))
        self.register_buffer("weights", torch.ones(len(self.labels)))
        self.register_buffer("degree", torch.tensor(0.0))

    def varied(self, latents: Tensor, labels: Tensor) -> Tensor:
        """Parameters of samples, [n, program.size]."""
        positions = pick(self.weights, self.labels, labels, torch.special.ndtr(latents[:, 0]))
        return self.program.vary(self.parents[positions], self.degree, latents[:, 1:], labels)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        return self.program.draw(self.varied(latents, labels), labels, self.side).float() / 255
