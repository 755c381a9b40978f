"""The generator that `evolve` releases, and the features in which likeness is measured. Neither has seen a record."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.data.drawing import DrawingProgram
from gossamer.methods.votes import on_grid, pick, pixels


class Evolved(nn.Module):
    """Candidates with weights: a sample is a variation of one of them. Latents [n, latent_size] and labels [n] to pictures
    [n, 1, H, W] in [0, 1].

    The first number of a latent chooses the candidate, the others vary it.

    Args:
        program: draws.
        card: the declared facts: the classes, their prior, the size of a picture.
        candidates: of a class, on average.
    """

    labels: Tensor
    parents: Tensor
    weights: Tensor
    degree: Tensor

    def __init__(self, program: DrawingProgram, card: DataCard, candidates: int) -> None:
        super().__init__()
        self.program, self.classes, self.side = program, card.classes, card.shape[1]
        self.latent_size = 1 + program.size
        counts = [max(1, round(candidates * card.classes * share)) for share in card.probabilities]
        labels = torch.repeat_interleave(torch.arange(card.classes), torch.tensor(counts))
        self.register_buffer("labels", labels, persistent=False)
        self.register_buffer("parents", torch.zeros(len(self.labels), program.size))
        self.register_buffer("weights", torch.ones(len(self.labels)))
        self.register_buffer("degree", torch.tensor(0.0))

    def varied(self, latents: Tensor, labels: Tensor) -> Tensor:
        """Parameters of samples, [n, program.size]."""
        chosen = pick(self.weights, self.labels, labels, torch.special.ndtr(latents[:, 0]))
        return self.program.vary(self.parents[chosen], self.degree, latents[:, 1:])

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        return self.program.draw(self.varied(latents, labels), labels, self.side).float() / 255


class Features(nn.Module):
    """A small convolutional classifier of drawings; its last hidden layer before the ReLU, on the unit sphere, is an embedding.

    It learns in single precision. As an embedding it computes on a grid, so that a picture's features depend on no other
    picture in the batch, to the last bit (`votes.py`).

    Args:
        side: height and width of a picture.
        classes: of the drawings.
        width: number of features.
    """

    def __init__(self, side: int, classes: int, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.hidden = nn.Linear(32 * (-(-side // 4)) ** 2, width)
        self.out = nn.Linear(width, classes)

    def logits(self, images: Tensor) -> Tensor:
        """images: float32 [n, 1, H, W] in [0, 1]. Returns [n, classes]."""
        x = F.relu(self.conv2(F.relu(self.conv1(images)))).flatten(1)
        logits: Tensor = self.out(F.relu(self.hidden(x)))
        return logits

    def forward(self, images: Tensor) -> Tensor:
        """The embedding. images: as above. Returns float64 [n, width] on the unit sphere."""
        x = F.relu(on_grid(F.conv2d(pixels(images), *_exact(self.conv1), stride=2, padding=2)))
        x = F.relu(on_grid(F.conv2d(x, *_exact(self.conv2), stride=2, padding=1))).flatten(1)
        x = on_grid(F.linear(x, *_exact(self.hidden)))
        return x / x.square().sum(1, keepdim=True).sqrt().clamp(min=2.0**-12)


def _exact(layer: nn.Conv2d | nn.Linear) -> tuple[Tensor, Tensor]:
    assert layer.bias is not None
    return on_grid(layer.weight), on_grid(layer.bias)
