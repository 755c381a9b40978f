"""Convolutions seen as matrix products: the patches of one side, beside the pixels of the other."""

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Unfolding:
    """A convolution in two dimensions, of one group: x is unfolded, y is not."""

    x: Tensor  # [m, columns / taps, H, W]
    y: Tensor  # [m, rows, Ho, Wo]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def patches(self) -> Tensor:
        """[m, T, taps x channels]. What F.unfold gives in another order, four times faster: it gathers pixel by pixel."""
        padded = self.padded()
        m, _, _, channels = padded.shape
        image, row, pixel, _ = padded.stride()
        (down, right), (tall, wide) = self.stride, self.dilation
        windows = padded.as_strided(
            (m, *self.y.shape[2:], *self.kernel, channels),
            (image, down * row, right * pixel, tall * row, wide * pixel, 1),
        )
        return windows.reshape(m, self.y.shape[2:].numel(), math.prod(self.kernel) * channels)

    def padded(self) -> Tensor:
        """[m, H, W, C], x with its padding: every tap of every position is inside."""
        m, channels, height, width = self.x.shape
        top, left = self.padding
        padded = self.x.new_zeros(m, height + 2 * top, width + 2 * left, channels)
        padded[:, top : top + height, left : left + width] = self.x.permute(0, 2, 3, 1)
        return padded

    def is_plain(self) -> bool:
        """Whether the one patch is the whole input, in its own order."""
        return self.kernel == tuple(self.x.shape[2:]) and self.padding == (0, 0) and self.dilation == (1, 1)

    def reads_all(self) -> bool:
        """Whether every pixel of x is met by some tap."""
        for axis in range(2):
            size, outputs = self.x.shape[2 + axis], self.y.shape[2 + axis]
            k, s, p, d = self.kernel[axis], self.stride[axis], self.padding[axis], self.dilation[axis]
            read = {s * t + d * i - p for t in range(outputs) for i in range(k)}
            if not set(range(size)) <= read:
                return False
        return True
