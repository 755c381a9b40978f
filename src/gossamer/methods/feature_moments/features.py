"""Class sums and second moments of an encoder's features, in one release, and the classifier that follows from them.

A record is a code z of d numbers: the features of its picture on public principal axes, scaled to length 1. It adds b z to the
sums of its class, and c svec(z z^T) to the second moments, which all classes share. With b^2 + c^2 = 1 a record adds a vector
of length 1 at most. One Gaussian covers all.

The head is ridge regression on the class, by the released sums. What it labels are the public pictures of the run.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.data.records import Records, at_once
from gossamer.errors import RequestError
from gossamer.methods.common.bounded_sum import MOST, BoundedSum, signal_share, smat, svec, with_eigenvalues
from gossamer.methods.common.labelled import LabelledPictures, PictureGenerator
from gossamer.nets.encoders import PluginEncoder
from gossamer.privacy.per_sample_gradients.rounding import shortened

SHARES = (math.sqrt(0.8), math.sqrt(0.2))
"""b, c: how the bound of a record is shared by the sums of its class and the second moments."""
_RIDGE = 3.0
"""The ridge, in standard deviations of the noise on a class sum times sqrt(axes)."""
_SHARPNESS = 8.0
"""Scores of regression, times this, are logits."""


class PublicAxes(nn.Module):
    """Features of pictures on principal axes of public features: codes float64 [n, axes], each of length 1.

    The encoder is no part of the state. Without one, the pixels are the features.
    """

    centre: Tensor
    basis: Tensor

    def __init__(self, encoder: PluginEncoder | None, shape: tuple[int, ...], axes: int) -> None:
        super().__init__()
        self.encoder = nn.Flatten() if encoder is None else encoder
        size = math.prod(shape) if encoder is None else encoder.size
        if axes > size:
            raise RequestError(f"`axes={axes}` is more than the {size:,} features of the encoder. Take fewer axes.")
        self.register_buffer("centre", torch.zeros(size))
        self.register_buffer("basis", torch.eye(size, axes))

    def forward(self, images: Tensor) -> Tensor:
        """images: float32 [n, C, H, W] in [0, 1]. See the class."""
        return self.code(self.encoder(images))

    def code(self, features: Tensor) -> Tensor:
        """Codes of features. What is not finite, or has no direction, is zero."""
        along = (features.double() - self.centre.double()) @ self.basis.double()
        along = torch.where(along.isfinite().all(1, keepdim=True), along, 0.0)
        return shortened(along / along.norm(dim=1, keepdim=True).clamp(min=1e-30), 1.0)

    @torch.no_grad()
    def fit(self, features: Tensor) -> None:
        """Take mean and principal axes of public features [n, size], in place."""
        wide = features.double()
        centre = wide.mean(0)
        _, vectors = torch.linalg.eigh((wide - centre).t() @ (wide - centre))
        axes = vectors[:, -self.basis.shape[1] :].flip(1)
        signs = torch.sign(axes.gather(0, axes.abs().argmax(0, keepdim=True)))  # an axis has two directions: take one
        self.centre.copy_(centre)
        self.basis.copy_(axes * signs)


@dataclass(frozen=True)
class SumsAndProducts(BoundedSum[Tensor]):
    """The query. Its records have codes in place of images, see `bounded_sum.coded`.

    Args:
        axes: d, numbers of a code.
        classes: K.
    """

    axes: int
    classes: int

    @property
    def shape(self) -> tuple[int, int]:
        """One block of K d + d (d + 1) / 2 numbers."""
        return 1, self.classes * self.axes + self.axes * (self.axes + 1) // 2

    def parts(self, answer: Tensor) -> tuple[Tensor, Tensor]:
        """Sums of the classes [K, d] and second moments [d, d] of an answer [dimension]."""
        d, (b, c) = self.axes, SHARES
        sums, products = answer.double().cpu().split([self.classes * d, d * (d + 1) // 2])
        return sums.view(self.classes, d) / b, smat(products / c, d)

    def _codes(self, records: Records) -> tuple[Tensor, Tensor]:
        """See the class. Whatever the codes are, they are at most 1 long here."""
        return shortened(torch.from_numpy(records.images), 1.0), torch.tensor(records.labels)

    def _sums(self, z: Tensor, cells: Tensor, factors: Tensor) -> Tensor:
        """What records of classes add, each times its factor: [1, K d + d (d + 1) / 2]."""
        b, c = SHARES
        weighted = z * factors[:, None]
        by_class = torch.zeros(self.classes, z.shape[1], dtype=z.dtype).index_add_(0, cells, weighted)
        return torch.cat([b * by_class.flatten(), c * svec(z.t() @ weighted)])[None]

    def _lengths(self, z: Tensor) -> Tensor:
        """[n], the length of what each record adds: |z z^T| is |z|^2."""
        b, c = SHARES
        squares = z.square().sum(1)
        return (b**2 * squares + c**2 * squares.square()).sqrt()


def regression(sums: Tensor, second: Tensor, public: Tensor, prior: Tensor, noise: float) -> Tensor:
    """Weights of ridge regression on the class, [d, K] float64, from noisy sums. Post-processing.

    The second moments are drawn to those of public pictures, the more the less they differ beyond noise.

    Args:
        sums: of the codes of each class, [K, d].
        second: sum of the products of codes, [d, d].
        public: mean product of public codes, [d, d].
        prior: declared share of each class, [K].
        noise: standard deviation of the noise on every released number.
    """
    d = len(second)
    count = second.trace().clamp(min=1.0)
    variance = (noise / SHARES[1]) ** 2 * (1 + torch.eye(d, dtype=torch.float64)) / 2
    apart = second - count * public
    signal = (apart.square() - variance).mean().clamp(min=0)
    drawn = count * public + apart * signal_share(signal, variance)
    ridge = _RIDGE * noise / SHARES[0] * math.sqrt(d) + 1e-6 * float(count)
    inverse = with_eigenvalues(drawn, lambda values: 1 / (values.clamp(min=0) + ridge))
    weights: Tensor = inverse @ (sums - prior[:, None] * sums.sum(0)).t()
    return weights


class Labeller(PictureGenerator):
    """A classifier on features, and the public pictures that it has labelled.

    Args:
        axes: of the features.
        card: has the prior of the labels.
    """

    weights: Tensor

    def __init__(self, axes: PublicAxes, card: DataCard) -> None:
        super().__init__(card)
        self.axes, self.prior = axes, torch.tensor(card.probabilities, dtype=torch.float64)
        self.register_buffer("weights", torch.zeros(axes.basis.shape[1], card.classes))

    @torch.no_grad()
    def learn(self, weights: Tensor, images: Tensor, codes: Tensor) -> None:
        """Take other weights [axes, classes], and label pictures. images: uint8 [m, C, H, W]; codes: [m, axes]."""
        self.weights.copy_(weights)
        self.labelled = LabelledPictures(images, self.of_codes(codes).cpu())

    @torch.no_grad()
    def probabilities(self, images: Tensor) -> Tensor:
        """How likely each class is. images: float32 [n, C, H, W] in [0, 1]; gives [n, classes], rows that add up to 1."""
        step = at_once(images.shape[1:], MOST)
        return torch.cat([self.of_codes(self.axes(piece)) for piece in images.split(step)])

    def of_codes(self, codes: Tensor) -> Tensor:
        """The same from codes [n, axes]."""
        scores = self.prior.to(self.weights) + codes.to(self.weights) @ self.weights
        return F.softmax(_SHARPNESS * scores, dim=1)
