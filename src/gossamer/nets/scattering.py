"""Wavelet scattering: features of a picture by fixed formulas, learnt from no record.

Bruna and Mallat 2013, "Invariant Scattering Convolution Networks"; Oyallon and Mallat 2015 for the settings. The moduli of
wavelet coefficients, and the moduli of their wavelet coefficients, are averaged over neighbourhoods of 2^J pixels. What is
left moves little where a picture is shifted or bent a little, and a linear classifier on it comes near a trained network.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from gossamer.errors import RequestError

ANGLES = 8
SMALLEST = 8
"""Height or width below which too little is left after averaging."""
_LARGE = 64
"""Height and width from which on averages are over 8 pixels, not 4."""
_ENVELOPE = 0.8
"""Standard deviation of the finest wavelet's envelope, in pixels."""
_FREQUENCY = 0.75 * math.pi
"""Of the finest wavelet, in radians per pixel."""
_SLANT = 0.5
"""Length of an envelope along its wave / across."""
_EPSILON = 1e-4


class Scattering(nn.Module):
    """Pictures to features: scattering of order 0, 1 and 2, normalised within each picture, and a constant.

    Each channel has 1 + JL + L^2 J(J - 1)/2 maps with L = 8 angles. Pictures below 64x64 have J = 2 and 81 maps, others
    J = 3 and 217. A map has a value for every 2^J-th pixel. The maps of a picture are normalised in groups of 3 (of 7
    where there are 217). The mean of a group is subtracted, and the rest is divided by its standard deviation + 10^-4.
    The filters are periodic and follow from the shape; no weights file holds them.

    Each thread transforms one picture at a time, so its features do not depend on the others, to the last bit. The
    temporaries fit the processor's cache: this is faster than a batch, or several threads on one picture.

    Raises:
        RequestError: if the pictures are below 8x8.
    """

    phi_rows: Tensor
    phi_columns: Tensor
    psi: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        channels, height, width = shape
        if min(height, width) < SMALLEST:
            raise RequestError(
                f"scattering needs pictures of at least {SMALLEST}x{SMALLEST}, not {height}x{width}: declare a larger shape."
            )
        self.scales = 3 if min(height, width) >= _LARGE else 2
        maps = 1 + self.scales * ANGLES + self.scales * (self.scales - 1) // 2 * ANGLES**2
        self.group = 3 if maps % 3 == 0 else 7
        self.register_buffer("psi", wavelets(height, width, self.scales), persistent=False)
        self.register_buffer("phi_rows", averages(height, self.scales), persistent=False)
        self.register_buffer("phi_columns", averages(width, self.scales), persistent=False)
        self.shape = (channels * maps, len(self.phi_rows), len(self.phi_columns))
        """Maps, and the height and width of one."""

    @property
    def size(self) -> int:
        """Number of features, the constant included."""
        return math.prod(self.shape) + 1

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """images: float32 [n, C, H, W] in [0, 1]. Returns [n, size]; the last feature is 1."""
        features = images.new_ones(len(images), self.size)
        threads = torch.get_num_threads()
        workers = threads if images.device.type == "cpu" else 1

        def fill(first: int) -> None:
            torch.set_num_threads(1)
            for i in range(first, len(images), workers):
                features[i, :-1] = normalised(self.coefficients(images[i].clone()), self.group).flatten()

        try:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(fill, range(workers)))
        finally:
            torch.set_num_threads(threads)
        return features

    def coefficients(self, image: Tensor) -> Tensor:
        """S of one picture [C, H, W], not normalised: [C, maps, h, w].

        Order 0; order 1 by scale and angle; order 2 by first scale, first angle, later scale, second angle.
        """
        orders = [image[:, None]]
        first = modulus(torch.fft.fft2(image)[:, None, None] * self.psi)  # U1: [C, J, L, H, W]
        orders.append(first.flatten(1, 2))
        for j in range(self.scales - 1):
            spectrum = torch.fft.fft2(first[:, j])[:, :, None, None]
            orders.append(modulus(spectrum * self.psi[j + 1 :]).flatten(1, 3))  # U2: [C, L, J - 1 - j, L, H, W]
        return self.phi_rows @ torch.cat(orders, 1) @ self.phi_columns.t()


def modulus(spectrum: Tensor) -> Tensor:
    """|u| of what has this Fourier transform over its last two axes. Through the square: a third of the time of `abs`."""
    u: Tensor = torch.fft.ifft2(spectrum)
    return (u * u.conj()).real.sqrt()


def normalised(maps: Tensor, group: int) -> Tensor:
    """Maps [C, maps, h, w] in groups: the mean taken off, divided by the standard deviation + 10^-4."""
    groups = maps.flatten().view(-1, group * maps.shape[2] * maps.shape[3])
    spread, mean = torch.std_mean(groups, 1, correction=0, keepdim=True)
    return ((groups - mean) / (spread + _EPSILON)).view(maps.shape)


def wavelets(height: int, width: int, scales: int) -> Tensor:
    """Fourier transforms of the Morlet wavelets, which are real: [scales, 8, height, width].

    The wavelet of scale j and angle pi l / 8 is a wave of frequency (3 pi / 4) / 2^j under a Gaussian. Its standard
    deviation is 0.8 2^j along the wave and twice that across, and its sum is 1. A multiple of the Gaussian is
    subtracted, so that the wavelet's sum is 0.
    """
    return torch.stack(
        [
            torch.stack([_morlet(height, width, 2.0**j, math.pi * angle / ANGLES) for angle in range(ANGLES)])
            for j in range(scales)
        ]
    )


def _morlet(height: int, width: int, scale: float, angle: float) -> Tensor:
    y, x = (_around_zero(side) for side in (height, width))
    along = x * math.cos(angle) + y[:, None] * math.sin(angle)
    across = y[:, None] * math.cos(angle) - x * math.sin(angle)
    envelope = torch.exp(-(along**2 + (_SLANT * across) ** 2) / (2 * (_ENVELOPE * scale) ** 2))
    wave = envelope * torch.exp(1j * (_FREQUENCY / scale) * along)
    wave = _wrapped(wave - envelope * (wave.sum() / envelope.sum()), height, width) / envelope.sum()
    spectrum: Tensor = torch.fft.fft2(wave)
    return spectrum.real.float()


def averages(side: int, scales: int) -> Tensor:
    """The low pass along one axis, at every 2^scales-th pixel from 2^(scales - 1) on: [values, side], rows that add up to 1."""
    bump = torch.exp(-(_around_zero(side) ** 2) / (2 * (_ENVELOPE * 2 ** (scales - 1)) ** 2))
    bump = _wrapped((bump / bump.sum())[None], 1, side)[0]
    at = torch.arange(2 ** (scales - 1), side, 2**scales)
    return bump[(at[:, None] - torch.arange(side)) % side].float()


def _around_zero(side: int) -> Tensor:
    """Offsets in pixels over all turns of a filter around the picture, float64."""
    turns = 1 if side >= _LARGE else 3  # each way; it is below 10^-12 of its middle by then
    return torch.arange(-turns * side, (turns + 1) * side, dtype=torch.float64)


def _wrapped(filter_: Tensor, height: int, width: int) -> Tensor:
    """The same on a torus of the picture's size; offset 0 comes first."""
    return filter_.reshape(-1, height, filter_.shape[1]).sum(0).reshape(height, -1, width).sum(1)
