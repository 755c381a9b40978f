"""The image classifier of dp-GAN (Zhang, Ji, Wang 2018), whose last hidden layer serves as features of a picture."""

from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.errors import RequestError

_SMALLEST = 8
"""Height or width below which two convolutions with stride 2 leave less than 2x2."""


class FeatureCNN(nn.Module):
    """The image classifier C1 of Zhang et al. 2018 (section 5), also behind their Inception score, as their code has it.

    Two 5x5 convolutions with stride 2 (32 and 64 channels), each followed by ReLU, batch normalisation and ReLU, a layer
    of `width` with batch normalisation and ReLU, dropout 0.5, and the classes. On 28x28 pictures of one channel with ten
    classes it has 3,276,874 parameters.

    Batch normalisation mixes the records of a batch: this net is for measurements, never for training under privacy.
    A Frechet distance needs as many pictures as there are features, `width`.

    Raises:
        RequestError: if the pictures are below 8x8, or a count is below 1.
    """

    def __init__(self, shape: tuple[int, int, int], classes: int, width: int = 1024) -> None:
        super().__init__()
        channels, height, breadth = shape
        if min(height, breadth) < _SMALLEST or min(channels, classes, width) < 1:
            raise RequestError(
                f"FeatureCNN needs at least one channel, class and feature, and pictures of at least "
                f"{_SMALLEST}x{_SMALLEST}, not {channels}, {classes}, {width} and {height}x{breadth}."
            )
        self.shape, self.classes, self.width = (channels, height, breadth), classes, width
        self.conv1 = nn.Conv2d(channels, 32, 5, stride=2, padding=2)
        self.norm1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 5, stride=2, padding=2)
        self.norm2 = nn.BatchNorm2d(64)
        # Each convolution halves a side, rounding up: 28 to 14 to 7.
        self.hidden = nn.Linear(64 * -(-height // 4) * -(-breadth // 4), width)
        self.norm3 = nn.BatchNorm1d(width)
        self.out = nn.Linear(width, classes)

    def features(self, images: Tensor) -> Tensor:
        """images: float32 [n, C, H, W] in [0, 1]. Returns the last hidden layer [n, width], not negative."""
        x = F.relu(self.norm1(F.relu(self.conv1(images))))
        x = F.relu(self.norm2(F.relu(self.conv2(x))))
        return F.relu(self.norm3(self.hidden(x.flatten(1))))

    def logits(self, features: Tensor) -> Tensor:
        """features: float32 [n, width]. Returns logits [n, classes]."""
        logits: Tensor = self.out(F.dropout(features, 0.5, self.training))
        return logits

    def forward(self, images: Tensor) -> Tensor:
        """images: float32 [n, C, H, W] in [0, 1]. Returns logits [n, classes]."""
        return self.logits(self.features(images))
