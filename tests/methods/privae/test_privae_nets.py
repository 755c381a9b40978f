"""Priors against their densities, likelihoods against scipy, and what an autoencoder without an encoder can still do."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from benchmarks.reproduce.metrics.latent_codes import log_weights
from gossamer.errors import RequestError
from gossamer.methods.privae import Config
from gossamer.methods.privae.nets import CENTRE_DEVIATION, CENTRES, Autoencoder, Prior


def autoencoder(*, encoder: bool = True, **settings: object) -> Autoencoder:
    torch.manual_seed(0)
    return Autoencoder((1, 28, 28), 3, Config(**{"width": 5, "latent_size": 4, **settings}), encoder=encoder)


def test_the_normal_prior_takes_latents_as_they_are() -> None:
    e = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    prior = Prior("normal", 3)
    assert torch.equal(prior.from_normal(e), e)
    expected = stats.norm.logpdf(e.double().numpy()).sum(1)
    np.testing.assert_allclose(prior.log_density(e.double()).numpy(), expected, rtol=1e-12)


def test_the_sparse_prior_is_its_mixture() -> None:
    """100,000 draws per dimension against the mixture's distribution (Kolmogorov-Smirnov, error rate 1e-6 each; seeded), and
    the density against scipy."""
    prior = Prior("sparse", 2)
    z = prior.from_normal(torch.randn(100_000, 2, generator=torch.Generator().manual_seed(1))).double().numpy()

    def cdf(x: np.ndarray) -> np.ndarray:
        return 0.8 * stats.norm.cdf(x, scale=0.05) + 0.2 * stats.norm.cdf(x)

    for dimension in z.T:
        assert stats.kstest(dimension, cdf).pvalue > 1e-6
    assert abs(np.corrcoef(z.T)[0, 1]) < 4.892 / len(z) ** 0.5
    point = np.array([[0.02, -1.3]])
    density = 0.8 * stats.norm.pdf(point, scale=0.05) + 0.2 * stats.norm.pdf(point)
    assert float(prior.log_density(torch.tensor(point))) == pytest.approx(np.log(density).sum(), rel=1e-12)


def test_the_mixture_prior_is_four_normals_around_signed_centres() -> None:
    """40,000 draws: a quarter at each centre (1e-6), and around it N(0, 0.03) in every dimension (1e-6 each; seeded)."""
    prior, n = Prior("mixture", 3), 40_000
    z = prior.from_normal(torch.randn(n, 3, generator=torch.Generator().manual_seed(2))).double().numpy()
    centres = np.pad(np.array(CENTRES), ((0, 0), (0, 1)))
    nearest = np.linalg.norm(z[:, None] - centres, axis=2).argmin(1)
    assert pytest.approx(0.1732, abs=1e-4) == CENTRE_DEVIATION
    assert np.abs(np.bincount(nearest) - n / 4).max() < 5.1 * (n * 3 / 16) ** 0.5
    around = (z - centres[nearest]) / CENTRE_DEVIATION
    for (
        dimension
    ) in around.T:  # the midpoints between centres are 4.08 deviations away: hardly a draw changes its centre
        assert stats.kstest(dimension, "norm").pvalue > 1e-6
    point = torch.tensor([[0.1, 0.9, -0.2]], dtype=torch.float64)
    density = np.mean([stats.multivariate_normal.pdf(point.numpy()[0], c, 0.03 * np.eye(3)) for c in centres])
    assert float(prior.log_density(point)) == pytest.approx(math.log(density), rel=1e-12)


@pytest.mark.parametrize("name", ["normal", "sparse", "mixture"])
def test_extreme_latents_stay_finite(name: str) -> None:
    e = torch.tensor([[-40.0, 40.0], [0.0, -9.0], [9.0, 0.0], [0.8416212, -0.8416212]])
    prior = Prior(name, 2)
    z = prior.from_normal(e)
    assert bool(z.isfinite().all())
    assert bool(prior.log_density(z).isfinite().all())


def test_the_mixture_needs_a_plane() -> None:
    with pytest.raises(RequestError, match="at least 2"):
        Prior("mixture", 1)


@pytest.mark.parametrize("extent", [0.0, 2.5])
@pytest.mark.parametrize("likelihood", ["bernoulli", "laplace", "normal"])
def test_likelihoods_against_scipy(likelihood: str, extent: float) -> None:
    if likelihood == "bernoulli" and extent:
        with pytest.raises(RequestError, match="bernoulli"):
            autoencoder(likelihood=likelihood, extent=extent)
        return
    vae = autoencoder(likelihood=likelihood, extent=extent).double()
    draw = torch.Generator().manual_seed(3)
    x = torch.rand(4, 1, 28, 28, generator=draw, dtype=torch.float64)
    z, labels = torch.randn(4, 4, generator=draw, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    out = vae.decode(z, labels).detach().numpy()
    v = x.numpy() * (2 * extent or 1) - extent
    if likelihood == "bernoulli":
        p = 1 / (1 + np.exp(-out[:, 0]))
        expected, mean = v * np.log(p) + (1 - v) * np.log1p(-p), p
    elif likelihood == "laplace":
        expected, mean = stats.laplace.logpdf(v, out[:, 0], 0.1), out[:, 0]
    else:
        expected, mean = stats.norm.logpdf(v, out[:, 0], np.log1p(np.exp(out[:, 1])) + 1e-3), out[:, 0]
    found = vae.log_likelihood(x, z, labels).detach().numpy()
    np.testing.assert_allclose(found, expected.sum((1, 2, 3)), rtol=1e-9)
    images = vae(z, labels).detach().numpy()
    np.testing.assert_allclose(images, np.clip((mean + extent) / (2 * extent or 1), 0, 1), atol=1e-6)


def test_log_weights_average_to_the_likelihood_that_integration_gives() -> None:
    """One code dimension, one pixel, a wide posterior: log-mean-exp of 400,000 weights against integration over z, to 0.03
    (four times the spread of that mean, seeded)."""
    torch.manual_seed(0)
    settings = {"network": "dense", "width": 3, "latent_size": 1, "likelihood": "normal", "prior": "sparse"}
    vae = Autoencoder((1, 1, 1), 1, Config(**settings)).double()
    with torch.no_grad():
        vae.encoder.out.bias[1] = 2.0
        x, label = torch.full((1, 1, 1, 1), 0.4, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
        grid = torch.cat(
            [
                torch.linspace(*part, dtype=torch.float64)
                for part in ((-8, -0.4, 2000), (-0.4, 0.4, 4000), (0.4, 8, 2000))
            ]
        )
        joint = vae.log_likelihood(x.expand(len(grid), -1, -1, -1), grid[:, None], label.expand(len(grid)))
        expected = math.log(integrate.trapezoid((joint + vae.prior.log_density(grid[:, None])).exp(), grid))
        noise = torch.randn(400, 1000, 1, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        weights = log_weights(vae, x.expand(1000, -1, -1, -1), label.expand(1000), noise)
    assert weights.shape == (400, 1000)
    assert float(weights.exp().std()) / 632 / math.exp(expected) < 0.008
    assert float(weights.exp().mean().log()) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("likelihood", ["bernoulli", "normal"])
@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize(
    ("shape", "network"),
    [
        ((1, 28, 28), "conv"),
        ((3, 32, 32), "conv"),
        ((1, 28, 28), "dense"),
        ((1, 1, 2), "dense"),
        ((3, 20, 12), "dense"),
    ],
)
def test_networks_of_every_size(shape: tuple[int, ...], network: str, classes: int, likelihood: str) -> None:
    torch.manual_seed(2)  # of some weights, all hidden units of so small a net are off
    vae = Autoencoder(shape, classes, Config(network=network, width=4, latent_size=3, likelihood=likelihood))
    draw = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, classes - 1])
    with torch.no_grad():
        images = vae(torch.randn(2, 3, generator=draw), labels)
        assert images.shape == (2, *shape)
        assert 0 <= float(images.min()) <= float(images.max()) <= 1
        mean, scale = vae.encode(images, labels)
        assert mean.shape == scale.shape == (2, 3)
        assert float(scale.min()) > 0
        assert vae.log_likelihood(images, mean, labels).shape == (2,)
        both = vae(torch.ones(2, 3), labels)
        assert bool((both[0] != both[1]).any()) == (classes > 1)
        same = vae.encode(images[:1].expand(2, -1, -1, -1), labels)[0]
        assert bool((same[0] - same[1]).abs().max() > 1e-6) == (classes > 1)


def test_the_conv_nets_at_the_width_of_mathieu() -> None:
    """32x32, 32 channels, 50 codes, methods.md 4.1: their weights, with the biases that batch normalisation had."""
    vae = Autoencoder((1, 32, 32), 1, Config(network="conv", width=32, latent_size=50, likelihood="laplace"))
    convs = 16 * 32 + 16 * 32 * 64 + 16 * 64 * 128
    heads = 16 * 128 * 50
    biases = (32 + 64 + 128 + 100) + (16 * 128 + 64 + 32 + 1)
    assert sum(p.numel() for p in vae.parameters()) == 2 * convs + 3 * heads + biases


def test_without_its_encoder_it_generates_the_same_and_encodes_nothing() -> None:
    vae = autoencoder()
    alone = autoencoder(encoder=False)
    alone.load_state_dict({name: value for name, value in vae.state_dict().items() if name.startswith("decoder")})
    latents, labels = torch.ones(2, 4), torch.tensor([0, 2])
    assert torch.equal(alone(latents, labels), vae(latents, labels))
    with pytest.raises(RequestError, match="release_encoder"):
        alone.encode(torch.zeros(2, 1, 28, 28), labels)


@pytest.mark.parametrize(
    ("shape", "settings", "words"),
    [
        ((1, 30, 30), {"network": "conv"}, "28x28 or 32x32"),
    ],
)
def test_what_cannot_be_built_is_refused(shape: tuple[int, ...], settings: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        Autoencoder(shape, 2, Config(**{"width": 4, "latent_size": 2, **settings}))
