"""Fine detail of public pictures, for samples whose codes do not hold any. Only public pictures and released codes come here.

A code has few numbers, so a decoded code is blurred. A public picture is its own decoded code and a rest. A sample gets the
rest of the public picture whose code is nearest. Axes are orthonormal, so the rest adds nothing to the code of the sample.
Coarse neighbours with their fine parts: Freeman, Jones and Pasztor 2002, "Example-based super-resolution".
"""

import torch
from torch import Tensor, nn

from gossamer.nets.latent import Latent


class PublicDetail(nn.Module):
    """Codes [n, axes] to the detail [n, C, H, W] that is added to the decoded codes.

    Everything in it is a buffer: public pictures, uint8 [m, C, H, W], and their codes, [m, axes]. At first one is black.
    """

    images: Tensor
    codes: Tensor

    def __init__(self, shape: tuple[int, ...], axes: int) -> None:
        super().__init__()
        self.shape, self.axes = tuple(shape), axes
        self.register_buffer("images", torch.zeros(1, *self.shape, dtype=torch.uint8))
        self.register_buffer("codes", torch.zeros(1, axes))

    def forward(self, codes: Tensor, latent: Latent) -> Tensor:
        """See the class."""
        nearest = torch.cdist(codes, self.codes).argmin(1)
        return self.images[nearest].float() / 255 - latent.decode(self.codes[nearest])

    def take(self, images: Tensor, codes: Tensor) -> None:
        """Hold these public pictures from now on. images: uint8 [m, C, H, W]; codes: [m, axes]."""
        self.hold(len(images))
        self.images.copy_(images)
        self.codes.copy_(codes)

    def hold(self, m: int) -> None:
        """Hold so many black pictures."""
        self.images = self.images.new_zeros(m, *self.shape)
        self.codes = self.codes.new_zeros(m, self.axes)
