"""What the codes of an autoencoder show: the metric `latent`, and the experiments of `benchmarks/privae.py`."""

from typing import Protocol

import torch
from torch import Tensor

from benchmarks.reproduce.metrics import latent
from gossamer import intervals
from gossamer.data.records import Records
from gossamer.intervals import Estimate

LIKELIHOOD, LIKELIHOOD_DRAWS = 500, 100
"""Test records at most whose likelihood is estimated, and codes drawn for each."""


class Prior(Protocol):
    """The distribution of codes."""

    @property
    def centres(self) -> Tensor | None:
        """The means of its components, [c, latent_size]; None: it is no mixture."""
        ...

    def from_normal(self, normals: Tensor, /) -> Tensor:
        """Draws from it, from standard normals of the same shape."""
        ...


class Encodes(Protocol):
    """A generator that was released with its encoder."""

    latent_size: int
    prior: Prior

    def encode(self, images: Tensor, labels: Tensor, /) -> tuple[Tensor, Tensor]:
        """Mean and scale of the codes of images. Each [n, latent_size]"""
        ...

    def distances(self, images: Tensor, labels: Tensor, /) -> Tensor:
        """How far from each image its reconstruction lies. [n]"""
        ...

    def log_weights(self, images: Tensor, labels: Tensor, noise: Tensor, /) -> Tensor:
        """Logarithms of the importance weights of drawn codes. [draws, n]"""
        ...


@torch.no_grad()
def codes(net: Encodes, tests: Records, *, seed: int) -> dict[str, Estimate]:
    """Sparsity of the posterior means, log p(x) by importance weights, MMD between codes and prior, distance of
    reconstructions, separation of classes, and how well the centres of a mixture prior tell them apart.

    Args:
        net: with its encoder.
        tests: real test records. The likelihood takes the first `LIKELIHOOD` of them.
        seed: of the codes and of the draws from the prior.
    """
    stream = torch.Generator().manual_seed(seed)
    images, labels = tests.tensors("cpu")
    mean, scale = net.encode(images, labels)
    drawn, prior, count = (
        torch.randn(mean.shape, generator=stream),
        torch.randn(mean.shape, generator=stream),
        LIKELIHOOD,
    )
    noise = torch.randn(LIKELIHOOD_DRAWS, len(mean[:count]), net.latent_size, generator=stream)
    weights = net.log_weights(images[:count], labels[:count], noise)
    used = mean[:, mean.std(0) > 0].numpy()  # a dimension that the encoder never uses has no scale
    figures = {
        "sparsity of the codes": latent.hoyer_sparsity(used),
        f"log p(x), nats, {LIKELIHOOD_DRAWS} draws": latent.iwae(weights.numpy()),
        "MMD between codes and prior": latent.prior_discrepancy(
            (mean + scale * drawn).numpy(), net.prior.from_normal(prior).numpy()
        ),
    }
    figures["distance of reconstructions"] = intervals.mean(
        net.distances(images, labels).tolist(), f"{len(images):,} records, by the mean of q(z|x)", lowest=0.0
    )
    if len(labels.unique()) > 1:
        figures["separation of the classes' codes (silhouette)"] = latent.cluster_separation(
            mean.numpy(), labels.numpy()
        )
        if net.prior.centres is not None:
            figures["classes by the prior's nearest centre (adjusted Rand)"] = latent.cluster_agreement(
                mean.numpy(), labels.numpy(), net.prior.centres.numpy()
            )
    return figures
