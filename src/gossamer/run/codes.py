"""What the codes of an autoencoder tell: `evaluate --metrics latent`, and the experiments of `benchmarks/privae.py`."""

import torch

from gossamer.data.records import Records
from gossamer.estimate import Estimate
from gossamer.methods.privae.nets import Autoencoder
from gossamer.metrics import latent

LIKELIHOOD, LIKELIHOOD_DRAWS = 500, 100
"""Test records at most whose likelihood is estimated, and codes drawn for each."""


@torch.no_grad()
def codes(net: Autoencoder, tests: Records, *, seed: int) -> dict[str, Estimate]:
    """Sparsity of the posterior means, log p(x) by importance weights, MMD between codes and prior, separation of classes.

    Args:
        net: with its encoder.
        tests: real test records. The likelihood takes the first `LIKELIHOOD` of them.
        seed: of the codes and of the draws from the prior.
    """
    stream = torch.Generator().manual_seed(seed)
    images, labels = tests.tensors("cpu")
    mean, scale = net.encode(images, labels)
    drawn, prior, some = (
        torch.randn(mean.shape, generator=stream),
        torch.randn(mean.shape, generator=stream),
        LIKELIHOOD,
    )
    noise = torch.randn(LIKELIHOOD_DRAWS, len(mean[:some]), net.latent_size, generator=stream)
    weights = net.log_weights(images[:some], labels[:some], noise)
    used = mean[:, mean.std(0) > 0].numpy()  # a dimension that the encoder never uses has no scale
    found = {
        "sparsity of the codes": latent.hoyer_sparsity(used),
        f"log p(x), nats, {LIKELIHOOD_DRAWS} draws": latent.iwae(weights.numpy()),
        "MMD between codes and prior": latent.prior_discrepancy(
            (mean + scale * drawn).numpy(), net.prior.from_normal(prior).numpy()
        ),
    }
    if len(labels.unique()) > 1:
        found["separation of the classes' codes (silhouette)"] = latent.cluster_separation(mean.numpy(), labels.numpy())
    return found
