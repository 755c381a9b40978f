"""The autoencoders of PriVAE (Takahashi et al. 2020), after Mathieu et al. 2019, without their batch normalisation.

Batch normalisation ties the records of a batch to each other, so that no record has a gradient of its own. The convolutional
pair has three strided convolutions and their transposes, 28x28 or 32x32; the dense pair one hidden layer, any size. Labels
enter both halves, if the autoencoder knows more than one: as constant planes or as a one-hot code. PyTorch's initialisation.

The released generator takes standard normals, whatever its prior: it makes a draw from the prior out of them.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.errors import RequestError
from gossamer.methods.privae import Config
from gossamer.nets.image_size import channels_and_side

SLOPE = 0.2
_INNER_KERNEL = {28: 3, 32: 4}
"""Kernel of the layer between 7x7 (three) or 8x8 (four) and 4x4."""

SPIKE, SPIKE_DEVIATION = 0.8, 0.05
"""The sparse prior: each dimension is off, N(0, 0.05^2), with probability 0.8 (gamma), and else on, N(0, 1)."""
CENTRES = ((0.0, -1.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0))
CENTRE_DEVIATION = 0.03**0.5
"""The mixture prior: four normals around these points of the first two dimensions, standard deviation sqrt(0.03)."""
LAPLACE_SCALE = 0.1
_SMALLEST = 1e-6
"""Least standard deviation of a posterior, as in Mathieu et al."""
_NARROWEST = 1e-3
"""Least standard deviation of a Normal likelihood."""


class Prior:
    """The distribution that the codes are to follow: its density, and how standard normals become draws from it.

    The sparse prior is that of section 5.1 in Takahashi et al. 2020, the mixture that of section 5.2.

    Raises:
        RequestError: if the mixture has fewer than two dimensions.
    """

    def __init__(self, name: Literal["normal", "sparse", "mixture"], latent_size: int) -> None:
        if name == "mixture" and latent_size < 2:
            raise RequestError("`prior=mixture` has its centres in a plane: `latent_size` must be at least 2.")
        self.name, self.latent_size = name, latent_size

    def log_density(self, z: Tensor) -> Tensor:
        """log p(z). z: [n, d]; gives [n]."""
        if self.name == "sparse":
            off = log_normal(z, torch.zeros_like(z), torch.full_like(z, SPIKE_DEVIATION)) + math.log(SPIKE)
            on = log_normal(z, torch.zeros_like(z), torch.ones_like(z)) + math.log(1 - SPIKE)
            return torch.logaddexp(off, on).sum(1)
        if self.name == "mixture":
            scale = torch.full_like(z, CENTRE_DEVIATION)
            log_p = torch.stack([log_normal(z, centre.expand_as(z), scale).sum(1) for centre in self._centres(z)])
            return torch.logsumexp(log_p, 0) - math.log(len(CENTRES))
        return log_normal(z, torch.zeros_like(z), torch.ones_like(z)).sum(1)

    def from_normal(self, e: Tensor) -> Tensor:
        """A draw from the prior out of each row of standard normals. e: [n, d]; gives [n, d].

        One normal gives one uniform number, whose leading part chooses the component. The rest of it is uniform again and
        becomes the normal of that component.
        """
        if self.name == "normal":
            return e
        uniform = torch.special.ndtr(e.double())
        if self.name == "sparse":
            off = uniform < SPIKE
            rest = torch.where(off, uniform / SPIKE, (uniform - SPIKE) / (1 - SPIKE))
            return (_normal(rest) * torch.where(off, SPIKE_DEVIATION, 1.0)).to(e.dtype)
        share = uniform[:, 0] * len(CENTRES)
        component = share.long().clamp(max=len(CENTRES) - 1)
        own = torch.cat([_normal(share - component)[:, None], e[:, 1:].double()], 1)
        return (self._centres(own)[component] + CENTRE_DEVIATION * own).to(e.dtype)

    @property
    def centres(self) -> Tensor | None:
        """The means of the mixture's components, [4, latent_size]; None: it is no mixture."""
        return self._centres(torch.zeros(())) if self.name == "mixture" else None

    def _centres(self, like: Tensor) -> Tensor:
        """[4, d]"""
        return F.pad(torch.tensor(CENTRES, dtype=like.dtype, device=like.device), (0, self.latent_size - 2))


class Autoencoder(nn.Module):
    """Encoder, decoder, prior and likelihood in one. Without its encoder it is the generator that a run releases.

    With one class it is unconditional. config: says how the networks, the prior and the likelihood are.

    Raises:
        RequestError: an image size that the network does not make, or a Bernoulli for coordinates.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, config: Config, *, encoder: bool = True) -> None:
        super().__init__()
        likelihood, latent_size, extent = config.likelihood, config.latent_size, config.extent
        if likelihood == "bernoulli" and extent:
            raise RequestError(
                "`likelihood=bernoulli` is for pixels in [0, 1]: take laplace or normal with `extent`, or `extent=0`."
            )
        self.shape, self.classes, self.latent_size = shape, classes, latent_size
        self.likelihood, self.low, self.span = likelihood, -extent, 2 * extent or 1.0
        self.prior = Prior(config.prior, latent_size)
        self.outputs = 2 if likelihood == "normal" else 1
        make_decoder = ConvDecoder if config.network == "conv" else DenseDecoder
        make_encoder = ConvEncoder if config.network == "conv" else DenseEncoder
        self.decoder = make_decoder(shape, classes, config.width, latent_size, self.outputs)
        self.encoder = make_encoder(shape, classes, config.width, latent_size) if encoder else None

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        """latents: float [n, latent_size], standard normal; labels: int64 [n]. Returns mean images [n, C, H, W] in [0, 1]."""
        out = self.decode(self.prior.from_normal(latents), labels)[:, 0]
        if self.likelihood == "bernoulli":
            return torch.sigmoid(out)
        return ((out - self.low) / self.span).clamp(0, 1)

    def encode(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q(z|x), each [n, latent_size]. images: [n, C, H, W] in [0, 1]; labels: int64 [n].

        Raises:
            RequestError: if there is no encoder here.
        """
        if self.encoder is None:
            raise RequestError("this generator was released without its encoder; train with `release_encoder`.")
        mean, raw = self.encoder(images * self.span + self.low, self._codes(labels, images)).chunk(2, 1)
        return mean, F.softplus(raw) + _SMALLEST

    def decode(self, z: Tensor, labels: Tensor) -> Tensor:
        """Parameters of p(x|z): [n, 1 or 2, C, H, W]. z: [n, latent_size]."""
        out: Tensor = self.decoder(torch.cat([z, self._codes(labels, z)], 1))
        return out.view(len(z), self.outputs, *self.shape)

    def log_likelihood(self, images: Tensor, z: Tensor, labels: Tensor) -> Tensor:
        """log p(x|z) of coordinates (pixels, where extent is 0), summed over them. [n]"""
        out = self.decode(z, labels)
        if self.likelihood == "bernoulli":
            log_p = -F.binary_cross_entropy_with_logits(out[:, 0], images, reduction="none")
        elif self.likelihood == "laplace":
            log_p = -(images * self.span + self.low - out[:, 0]).abs() / LAPLACE_SCALE - math.log(2 * LAPLACE_SCALE)
        else:
            log_p = log_normal(images * self.span + self.low, out[:, 0], F.softplus(out[:, 1]) + _NARROWEST)
        return log_p.flatten(1).sum(1)

    def _codes(self, labels: Tensor, like: Tensor) -> Tensor:
        """One-hot labels [n, classes], or [n, 0] where there is one class only."""
        if self.classes == 1:
            return like.new_zeros(len(like), 0)
        return F.one_hot(labels, self.classes).to(like.dtype)


class ConvEncoder(nn.Module):
    """Three convolutions and a linear layer to the 2 x latent_size parameters of q(z|x)."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int, latent_size: int) -> None:
        super().__init__()
        channels, side = _channels_and_side(shape)
        self.image_in = nn.Conv2d(channels, width, 4, stride=2, padding=1)
        self.label_in = nn.Conv2d(classes, width, 4, stride=2, padding=1, bias=False) if classes > 1 else None
        self.down1 = nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)
        self.down2 = nn.Conv2d(2 * width, 4 * width, _INNER_KERNEL[side], stride=2, padding=1)
        self.out = nn.Linear(64 * width, 2 * latent_size)

    def forward(self, images: Tensor, codes: Tensor) -> Tensor:
        """[n, C, H, W] and one-hot labels [n, classes] to [n, 2 x latent_size]."""
        x = self.image_in(images)
        if self.label_in is not None:
            # Expanded and not stored: the strides of zero mark the planes as constant.
            x = x + self.label_in(codes[:, :, None, None].expand(-1, -1, *images.shape[2:]))
        x = self.down1(F.leaky_relu(x, SLOPE))
        x = self.down2(F.leaky_relu(x, SLOPE))
        out: Tensor = self.out(F.leaky_relu(x, SLOPE).flatten(1))
        return out


class ConvDecoder(nn.Module):
    """A linear layer and three transposed convolutions to the parameters of p(x|z)."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int, latent_size: int, outputs: int) -> None:
        super().__init__()
        channels, side = _channels_and_side(shape)
        self.latent_in = nn.Linear(latent_size + (classes if classes > 1 else 0), 64 * width)
        self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, _INNER_KERNEL[side], stride=2, padding=1)
        self.up2 = nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1)
        self.out = nn.ConvTranspose2d(width, outputs * channels, 4, stride=2, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        """[n, latent_size + labels] to [n, outputs x C, H, W]."""
        x = F.relu(self.latent_in(z)).unflatten(1, (-1, 4, 4))
        out: Tensor = self.out(F.relu(self.up2(F.relu(self.up1(x)))))
        return out


class DenseEncoder(nn.Module):
    """One hidden layer between the pixels (with the label) and the parameters of q(z|x)."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int, latent_size: int) -> None:
        super().__init__()
        self.image_in = nn.Linear(math.prod(shape) + (classes if classes > 1 else 0), width)
        self.out = nn.Linear(width, 2 * latent_size)

    def forward(self, images: Tensor, codes: Tensor) -> Tensor:
        """[n, C, H, W] and one-hot labels [n, classes] to [n, 2 x latent_size]."""
        out: Tensor = self.out(F.relu(self.image_in(torch.cat([images.flatten(1), codes], 1))))
        return out


class DenseDecoder(nn.Module):
    """One hidden layer between code (with the label) and the parameters of p(x|z)."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int, latent_size: int, outputs: int) -> None:
        super().__init__()
        self.latent_in = nn.Linear(latent_size + (classes if classes > 1 else 0), width)
        self.out = nn.Linear(width, outputs * math.prod(shape))

    def forward(self, z: Tensor) -> Tensor:
        """[n, latent_size + labels] to [n, outputs x C x H x W]."""
        out: Tensor = self.out(F.relu(self.latent_in(z)))
        return out


def log_normal(x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """log N(x; mean, scale^2), element by element."""
    return -0.5 * ((x - mean) / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)


def _channels_and_side(shape: tuple[int, ...]) -> tuple[int, int]:
    """Of the images of the convolutional pair."""
    return channels_and_side(shape, tuple(_INNER_KERNEL), "the nets of `network=conv`, unlike those of dense,")


def _normal(uniform: Tensor) -> Tensor:
    """Standard normals from uniform numbers, in float64, away from the infinite ends."""
    normal: Tensor = torch.special.ndtri(uniform.clamp(1e-15, 1 - 1e-15))
    return normal
