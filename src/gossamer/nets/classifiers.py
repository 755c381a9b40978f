"""The classifier that judges samples. It is trained for a measurement and thrown away.

It starts from PyTorch's default initialisation, whatever the paper's framework did.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SmallCNN(nn.Module):
    """The classifier of Bie, Kamath, Zhang 2023 (evaluation of section 4.1).

    Two 3x3 convolutions (32 and 64 channels) with ReLU, max-pool 2, dropout 0.25, a layer of 128 with ReLU, dropout
    0.5, and the classes. On 28x28 pictures the layer of 128 has 9,216 inputs, and the net 1,199,882 parameters for one
    channel and ten classes. Above 32x32 pictures the first convolution has stride 2, above 64x64 stride 3, and so on.

    Args:
        shape: channels, height, width of a picture; height and width at least 6.
        classes: number of classes.

    Raises:
        ValueError: if the pictures are too small.
    """

    title: ClassVar[str] = "small classifier (Bie et al.)"
    smallest: ClassVar[int] = 6
    """Height or width below which nothing is left after two convolutions and the pool."""
    largest: ClassVar[int] = 32
    """Height and width above which the first convolution has a stride: without it, the net learnt nothing on scans of 64x64."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        if min(height, width) < self.smallest:
            raise ValueError(
                f"SmallCNN needs pictures of at least {self.smallest}x{self.smallest}, not {height}x{width}"
            )
        stride = -(-min(height, width) // self.largest)
        self.conv1 = nn.Conv2d(channels, 32, 3, stride)
        self.conv2 = nn.Conv2d(32, 64, 3)
        left = [((side - 3) // stride - 1) // 2 for side in (height, width)]
        self.hidden = nn.Linear(64 * math.prod(left), 128)
        self.out = nn.Linear(128, classes)
        # Most of the time on a CPU goes into the second convolution, which is fastest with the channels innermost.
        nn.utils.convert_conv2d_weight_memory_format(self, torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        """images: float32 [N, C, H, W] in [0, 1]. Returns logits [N, classes]."""
        x = F.relu(self.conv1(images.contiguous(memory_format=torch.channels_last)))
        # The pool before the ReLU: both are monotone, so the values are the same, on a quarter of the numbers.
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.dropout(x, 0.25, self.training).flatten(1)
        x = F.dropout(F.relu(self.hidden(x)), 0.5, self.training)
        logits: Tensor = self.out(x)
        return logits
