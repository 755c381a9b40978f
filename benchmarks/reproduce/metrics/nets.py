"""The classifiers by which the papers judge samples. They are trained for a measurement and thrown away.

Every net here starts from PyTorch's default initialisation, whatever the paper's framework did.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LeNet5(nn.Module):
    """The CNN that judges samples in Chen, Orekondy, Fritz 2020 (GS-WGAN, section 5.1, "CNN Acc").

    Two 5x5 convolutions (6 and 16 channels), each with ReLU and max-pool 2, then layers of 120 and 84 with ReLU and the
    classes. Pictures below 32x32 get a border of 2 at the first convolution, so that 28x28 ends in the 5x5 of the
    original: 61,706 parameters for one channel and ten classes. The authors normalise every data set, Fashion-MNIST
    too, with the mean and standard deviation of MNIST; the net does that itself.

    Args:
        shape: channels, height, width of a picture; height and width at least 12.
        classes: number of classes.

    Raises:
        ValueError: if the pictures are too small.
    """

    title: ClassVar[str] = "LeNet-5 of GS-WGAN"
    smallest: ClassVar[int] = 12
    _MEAN, _DEVIATION = 0.1307, 0.3081

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        channels, height, width = _large_enough(type(self).__name__, self.smallest, shape)
        border = 2 if min(height, width) < 32 else 0
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=border)
        self.conv2 = nn.Conv2d(6, 16, 5)
        rows, columns = (((side + 2 * border - 4) // 2 - 4) // 2 for side in (height, width))
        self.hidden1 = nn.Linear(16 * rows * columns, 120)
        self.hidden2 = nn.Linear(120, 84)
        self.out = nn.Linear(84, classes)

    def forward(self, images: Tensor) -> Tensor:
        """images: float32 [N, C, H, W] in [0, 1]. Returns logits [N, classes]."""
        x = (images - self._MEAN) / self._DEVIATION
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        x = F.relu(self.hidden2(F.relu(self.hidden1(x))))
        logits: Tensor = self.out(x)
        return logits


class PrivganCNN(nn.Module):
    """The classifier of Mukherjee et al. 2021 (privGAN, supplementary methods, MNIST and Fashion-MNIST).

    Two 3x3 convolutions of 32 channels with ReLU, max-pool 2, a layer of 128 with ReLU, and the classes; no dropout.
    That is the paper's net. The authors' code has 64 channels in the second convolution and two dropouts of 0.5, so it
    is another net, and the paper's larger one for CIFAR-10 is a third; neither is here.

    Args:
        shape: channels, height, width of a picture; height and width at least 6.
        classes: number of classes.

    Raises:
        ValueError: if the pictures are too small.
    """

    title: ClassVar[str] = "CNN of privGAN"
    smallest: ClassVar[int] = 6

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        channels, height, width = _large_enough(type(self).__name__, self.smallest, shape)
        self.conv1 = nn.Conv2d(channels, 32, 3)
        self.conv2 = nn.Conv2d(32, 32, 3)
        self.hidden = nn.Linear(32 * ((height - 4) // 2) * ((width - 4) // 2), 128)
        self.out = nn.Linear(128, classes)
        nn.utils.convert_conv2d_weight_memory_format(self, torch.channels_last)  # as in SmallCNN

    def forward(self, images: Tensor) -> Tensor:
        """images: float32 [N, C, H, W] in [0, 1]. Returns logits [N, classes]."""
        x = F.relu(self.conv1(images.contiguous(memory_format=torch.channels_last)))
        x = F.relu(F.max_pool2d(self.conv2(x), 2)).flatten(1)
        logits: Tensor = self.out(F.relu(self.hidden(x)))
        return logits


class CodeAndImageMLP(nn.Module):
    """The classifier C2 of Zhang, Ji, Wang 2018 (dp-GAN, section 5): it reads a picture and the code that made it.

    The sizes are of the authors' code: code and picture each go through a layer of 512 with ReLU and dropout 0.2; side
    by side through a layer of 1,024 with ReLU and dropout 0.5; one of 512 with ReLU and dropout 0.2; the classes.

    Args:
        code_size: length of a code.
        shape: channels, height, width of a picture.
        classes: number of classes.
    """

    def __init__(self, code_size: int, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.code_in = nn.Linear(code_size, 512)
        self.image_in = nn.Linear(shape[0] * shape[1] * shape[2], 512)
        self.joint = nn.Linear(1024, 1024)
        self.hidden = nn.Linear(1024, 512)
        self.out = nn.Linear(512, classes)

    def forward(self, codes: Tensor, images: Tensor) -> Tensor:
        """codes: float32 [N, code_size]; images: float32 [N, C, H, W] in [0, 1]. Returns logits [N, classes]."""
        code = F.dropout(F.relu(self.code_in(codes)), 0.2, self.training)
        image = F.dropout(F.relu(self.image_in(images.flatten(1))), 0.2, self.training)
        x = F.dropout(F.relu(self.joint(torch.cat([code, image], dim=1))), 0.5, self.training)
        x = F.dropout(F.relu(self.hidden(x)), 0.2, self.training)
        logits: Tensor = self.out(x)
        return logits


def _large_enough(name: str, smallest: int, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    _, height, width = shape
    if min(height, width) < smallest:
        raise ValueError(f"{name} needs pictures of at least {smallest}x{smallest}, not {height}x{width}")
    return shape
