"""What the codes of an autoencoder show: the metric `latent`, and the experiments of `benchmarks/privae.py`."""

import torch
from torch import Tensor

from benchmarks.reproduce.metrics import latent
from gossamer import intervals
from gossamer.data.records import Records
from gossamer.intervals import Estimate
from gossamer.methods.privae.nets import Autoencoder, log_normal

LIKELIHOOD, LIKELIHOOD_DRAWS = 500, 100
"""Test records at most whose likelihood is estimated, and codes drawn for each."""


@torch.no_grad()
def codes(net: Autoencoder, tests: Records, *, seed: int) -> dict[str, Estimate]:
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
    weights = log_weights(net, images[:count], labels[:count], noise)
    used = mean[:, mean.std(0) > 0].numpy()  # a dimension that the encoder never uses has no scale
    figures = {
        "sparsity of the codes": latent.hoyer_sparsity(used),
        f"log p(x), nats, {LIKELIHOOD_DRAWS} draws": latent.iwae(weights.numpy()),
        "MMD between codes and prior": latent.prior_discrepancy(
            (mean + scale * drawn).numpy(), net.prior.from_normal(prior).numpy()
        ),
    }
    figures["distance of reconstructions"] = intervals.mean(
        distances(net, images, labels).tolist(), f"{len(images):,} records, by the mean of q(z|x)", lowest=0.0
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


def distances(net: Autoencoder, images: Tensor, labels: Tensor) -> Tensor:
    """Distance of each image to its reconstruction from the mean of q(z|x), in coordinates (pixels, if extent is 0). [n]"""
    z, _ = net.encode(images, labels)
    out = net.decode(z, labels)[:, 0]
    made = torch.sigmoid(out) if net.likelihood == "bernoulli" else out
    norms: Tensor = torch.linalg.vector_norm((images * net.span + net.low - made).flatten(1), dim=1)
    return norms


def log_weights(net: Autoencoder, images: Tensor, labels: Tensor, noise: Tensor) -> Tensor:
    """log p(x, z) - log q(z|x) for k draws of z per image: what the importance-weighted likelihood takes. [k, n]

    noise: standard normals [k, n, latent_size].
    """
    mean, scale = net.encode(images, labels)
    rows = []
    for normals in noise:
        z = mean + scale * normals
        posterior = log_normal(z, mean, scale).sum(1)
        rows.append(net.log_likelihood(images, z, labels) + net.prior.log_density(z) - posterior)
    return torch.stack(rows)
