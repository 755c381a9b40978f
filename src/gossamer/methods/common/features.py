"""Features by which records vote. They learn from computer-drawn pictures or from what was released."""

from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.methods.common.learners import Learner, adam
from gossamer.methods.common.votes import on_grid, pixels
from gossamer.nets.flat import gradient

_RATE = 1e-3
"""Adam's step size."""
_WEIGHT = 16.0
"""As an embedding, no weight is larger: 16 bits on the grid, where a point has 20."""
_PRODUCTS = 1 << 17
"""So many products stay below 53 bits then. Where there are more, as in pictures above 256 pixels, weights are smaller."""


class Features(nn.Module):
    """A small convolutional classifier of pictures that are no records.

    Its last hidden layer before the ReLU, on the unit sphere, is an embedding of `width` features, at most 4,096. It learns in
    single precision. As an embedding it computes on a grid: then a picture's features depend on no other picture (`votes.py`).
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 64) -> None:
        super().__init__()
        channels, height, across = shape
        self.conv1 = nn.Conv2d(channels, 16, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.hidden = nn.Linear(32 * -(-height // 4) * -(-across // 4), width)
        self.out = nn.Linear(width, classes)

    def logits(self, images: Tensor) -> Tensor:
        """images: float32 [n, C, H, W] in [0, 1]. Returns [n, classes]."""
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
    """Weights and biases on the grid, so small that the products of an output with points stay below 53 bits."""
    assert layer.bias is not None
    largest = _WEIGHT * min(1.0, _PRODUCTS / layer.weight[0].numel())
    return on_grid(layer.weight.clamp(-largest, largest)), on_grid(layer.bias)


def learner(shape: tuple[int, ...], classes: int, device: str, *, width: int = 64) -> Learner[Features]:
    """So many features with fresh weights, and what trains them."""
    return Learner(Features(shape, classes, width).to(device), adam(_RATE, (0.9, 0.999)))


def learn(features: Learner[Features], images: Tensor, labels: Tensor) -> Tensor:
    """One step towards the classes of pictures that hold no record. Returns the loss. images: [n, C, H, W] in [0, 1]"""
    loss = F.cross_entropy(features.net.logits(images), labels)
    features.step(gradient(loss, features.net))
    return loss.detach()
