"""Mixtures of Gaussians, one for each class, out of the released moments of its cells; and how noise is taken out of moments.

A released covariance is the true covariance plus noise of one known size on every entry. Cells resemble one another, so each is
drawn to what they have in common, entry by entry in its principal axes. An entry is drawn the more, the less it differs beyond
noise (empirical Bayes, after Efron and Morris 1973). Entries whose axes have about the same product of variances are judged
together. Cells are drawn to their class, and classes to all. So are means, axis by axis.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gossamer.methods.common.bounded_sum import signal_share, smat, with_eigenvalues
from gossamer.methods.common.votes import pick, without_weight
from gossamer.methods.moments.class_moments import WEIGHTS, Moments

_TOGETHER, _BANDS = 500, 32
"""Entries that are judged together, at least, and into how many bands the entries go, at most."""
_FEW_TOGETHER = 40
"""Numbers of means that are judged together, at least."""
_SEEN = 4
"""A count below so many standard deviations of its noise counts as zero."""
_CLEARLY = 3
"""A squared distance so many standard deviations above that of noise alone is clear."""
_FLOOR = 1e-6
"""Least eigenvalue of a covariance, in units of the squared reach."""


class Mixture(nn.Module):
    """Standard normals [n, 1 + d] and labels [n] to codes [n, d]. All of it is buffers; at first every cell is standard normal.

    The first number of a row chooses the cell, the others go into its Gaussian.
    """

    groups: Tensor
    weights: Tensor
    means: Tensor
    roots: Tensor

    def __init__(self, classes: int, cells: int, axes: int) -> None:
        super().__init__()
        self.classes, self.cells, self.axes = classes, cells, axes
        n = classes * cells
        self.register_buffer("groups", torch.arange(classes).repeat_interleave(cells), persistent=False)
        self.register_buffer("weights", torch.ones(n))
        self.register_buffer("means", torch.zeros(n, axes))
        self.register_buffer("roots", torch.eye(axes).repeat(n, 1, 1))

    def forward(self, normals: Tensor, labels: Tensor) -> Tensor:
        """See the class."""
        cells = pick(self.weights, self.groups, labels, torch.special.ndtr(normals[:, 0]))
        codes = normals.new_empty(len(normals), self.axes)
        for cell in cells.unique().tolist():
            own = cells == cell
            codes[own] = self.means[cell] + normals[own, 1:] @ self.roots[cell].t()
        return codes

    @property
    def unseen(self) -> list[int]:
        """Classes that cannot be told from noise. See `Noisy.told`."""
        return without_weight(self.weights, self.groups, self.classes)

    @torch.no_grad()
    def fit(self, codes: Tensor, labels: Tensor) -> None:
        """Take the moments of public codes, in place: the cells of a class are all the same. codes: [n, d]; labels: [n]."""
        wide = codes.double()
        for label in range(self.classes):
            own = wide[labels == label]
            own = wide if len(own) < 2 else own
            here = self.groups == label
            self.means[here] = own.mean(0).float()
            self.roots[here] = _root(torch.cov(own.t(), correction=0).view(self.axes, self.axes)).float()
        self.weights.fill_(1)

    @torch.no_grad()
    def take(self, released: Tensor, query: Moments, *, noise_multiplier: float) -> None:
        """Take the moments that were released, in place. Post-processing: it reads no record.

        `released` is the noisy answer to the query, with noise of standard deviation `noise_multiplier` on every number.
        """
        noisy = Noisy.of(released.double().cpu(), query, noise_multiplier)
        groups = self.groups.cpu()
        everyone, by_class = noisy.together(torch.zeros_like(groups)), noisy.together(groups)
        offsets = noisy.offsets(everyone.means[0] if query.centres is None else torch.zeros(self.axes).double())
        within = everyone.cleaned()
        covariances = by_class.drawn_to(within)
        if self.cells > 1:
            parts = [noisy.only(groups == k).drawn_to(covariances[k]) for k in range(self.classes)]
            covariances = torch.cat(parts)
        origins = torch.zeros(1, 1) if query.centres is None else query.centres.flatten(0, 1).cpu()
        whole = replace(noisy, means=noisy.means + origins / query.reach).together(groups)
        told = whole.told(float(within.trace()))[groups]
        self.weights.copy_(torch.where(noisy.seen & told, noisy.counts, 0.0))
        self.means.copy_(origins + offsets * query.reach)
        self.roots.copy_(torch.stack([_root(covariance) for covariance in covariances]) * query.reach)


@dataclass(frozen=True)
class Noisy:
    """Noisy counts [c] above zero, means [c, d] and covariances [c, d, d], in units of the reach, float64.

    `noise` [c] is the standard deviation of the noise on every sum, times the square root of how many were added up.
    """

    counts: Tensor
    means: Tensor
    covariances: Tensor
    noise: Tensor

    @classmethod
    def of(cls, released: Tensor, query: Moments, noise: float) -> "Noisy":
        """From the sums of all cells."""
        d, (a, b, c) = query.latent.axes, WEIGHTS
        blocks = released.view(query.classes * query.cells, -1)
        counts = (blocks[:, 0] / a).clamp(min=max(1.0, noise / a))
        means = blocks[:, 1 : 1 + d] / (b * counts[:, None])
        products = smat(blocks[:, 1 + d :] / (c * counts[:, None]), d)
        covariances = products - means[:, :, None] * means[:, None, :]
        return cls(counts, means, covariances, torch.full_like(counts, noise))

    def only(self, which: Tensor) -> "Noisy":
        """Some of them."""
        return Noisy(self.counts[which], self.means[which], self.covariances[which], self.noise[which])

    def together(self, groups: Tensor) -> "Noisy":
        """Averages within groups, cells by their counts: the covariance is that *within* cells. groups: [c], from 0."""
        shares = torch.zeros(int(groups.max()) + 1, len(groups), dtype=torch.float64)
        shares[groups, torch.arange(len(groups))] = self.counts
        counts = shares.sum(1)
        shares = shares / counts[:, None]
        noise = torch.zeros_like(counts).index_add_(0, groups, self.noise.square()).sqrt()
        return Noisy(counts, shares @ self.means, torch.einsum("gc,cij->gij", shares, self.covariances), noise)

    def cleaned(self) -> Tensor:
        """The first covariance, of which eigenvalues that the noise alone would give are at the floor. [d, d]"""
        covariance = self.covariances[0]
        edge = float(self.noise[0] / WEIGHTS[2] / self.counts[0]) * math.sqrt(2 * len(covariance))
        return with_eigenvalues(covariance, lambda values: torch.where(values > max(edge, _FLOOR), values, _FLOOR))

    def offsets(self, origin: Tensor) -> Tensor:
        """Means, drawn to an origin [d] as far as noise asks; of what is too small to be seen, the origin. [c, d]

        James and Stein 1961, for axes of about the same variance together.
        """
        apart = (self.means - origin)[self.seen]
        noise = (self.noise / WEIGHTS[1] / self.counts).square()[self.seen, None]
        drawn = origin.repeat(len(self.means), 1)
        if len(apart):
            bands = min(max(1, apart.numel() // _FEW_TOGETHER), len(origin))
            drawn[self.seen] += apart * signal_share(_levels(apart.square() - noise, bands), noise)
        return drawn

    def told(self, spread: float) -> Tensor:
        """Whether each mean is more than noise. bool [c]

        It differs clearly from the mean of all, or noise moves it by less than records differ.

        Args:
            spread: variance of records about their means, over all axes.
        """
        noise, d = (self.noise / WEIGHTS[1] / self.counts).square(), self.means.shape[1]
        everyone = self.together(torch.zeros(len(self.counts), dtype=torch.int64))
        apart = (self.means - everyone.means).square().sum(1)
        return (apart > noise * (d + _CLEARLY * math.sqrt(2 * d))) | (noise * d < spread)

    @property
    def seen(self) -> Tensor:
        """Whether a cell holds more than its noise may. bool [c]"""
        return self.counts > (_SEEN * self.noise / WEIGHTS[0]).clamp(min=1)

    def drawn_to(self, common: Tensor) -> Tensor:
        """Covariances, drawn to what they have in common [d, d]. [c, d, d]"""
        d = len(common)
        values, axes = torch.linalg.eigh(common)
        apart = axes.t() @ (self.covariances - common) @ axes
        noise = (self.noise / WEIGHTS[2] / self.counts).square()[:, None, None] * (1 + torch.eye(d).double()) / 2
        i, j = torch.triu_indices(d, d)
        order = torch.argsort(values.outer(values)[i, j])
        i, j = i[order], j[order]
        beyond = apart[:, i, j].square() - noise[:, i, j]
        bands = max(1, min(_BANDS, beyond.numel() // _TOGETHER))
        signal = torch.zeros_like(common)
        signal[i, j] = signal[j, i] = _levels(beyond, bands)
        drawn = common + axes @ (apart * signal_share(signal, noise)) @ axes.t()
        return torch.stack([with_eigenvalues(matrix, lambda values: values.clamp(min=_FLOOR)) for matrix in drawn])


def _levels(beyond: Tensor, bands: int) -> Tensor:
    """The mean square of signal in each band of columns, for each column. beyond: squares less noise [c, n]. [n]"""
    levels = [band.mean().clamp(min=0).repeat(band.shape[1]) for band in beyond.tensor_split(bands, dim=1)]
    return torch.cat(levels)


def _root(covariance: Tensor) -> Tensor:
    """R with R R^T = covariance; eigenvalues below zero count as zero. [d, d]"""
    values, vectors = torch.linalg.eigh(covariance)
    root: Tensor = vectors * values.clamp(min=0).sqrt()
    return root
