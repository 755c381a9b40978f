"""PriVAE's loss as a query: a term that is a sum over records, and one that a group of records has together. Equation 13.

Takahashi et al. 2020, sections 4 and 5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from gossamer.data.records import Records, sent
from gossamer.methods.privae import Config, divergences
from gossamer.methods.privae.nets import Autoencoder, log_normal
from gossamer.privacy import Bounds, PerRecordGradient, Rng
from gossamer.privacy.per_sample_gradients.clipping import ordinary_gradient

Coins: TypeAlias = Callable[[Records, int], Tensor]
"""Standard normals [n, k] for n records: k random numbers that belong to each of them."""


def secret_coins(rng: Rng) -> Coins:
    """Random numbers in secret, fresh at every call: no record can learn, or shift, the numbers of another."""
    return lambda records, k: torch.randn(len(records), k, generator=rng.secret_generator())


@dataclass(frozen=True)
class Objective:
    """The query: the gradients of phi(x), record by record, and of psi(s), group by group. Equation 13.

    `coins` gives each record its own reparametrisation noise and draws from the prior. `phi` is the per-record query.
    """

    vae: Autoencoder
    config: Config
    coins: Coins
    phi: PerRecordGradient[Records]

    @classmethod
    def of(cls, vae: Autoencoder, config: Config, coins: Coins) -> "Objective":
        """The query of a run."""

        def loss(_module: torch.nn.Module, records: Records) -> Tensor:
            return sample_wise(vae, records, config, coins)

        phi = PerRecordGradient(vae, loss, config.physical_batch_size, multiplicity=config.codes_per_record)
        return cls(vae, config, coins, phi)

    @property
    def dimension(self) -> int:
        """D, the number of parameters."""
        return self.phi.dimension

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> Tensor:
        """[D], line 4."""
        return self.phi.clipped_sum(records, bounds)

    def group_gradient(self, records: Records, /) -> Tensor:
        """[D], the gradient of psi(s) for one group, not clipped: inside line 6."""
        return ordinary_gradient(batch_wise(self.vae, records, self.config, self.coins), self.vae)


def sample_wise(vae: Autoencoder, records: Records, config: Config, coins: Coins) -> Tensor:
    """phi(x) = rec(x) + beta kld(x), equations 11 to 13, divided by the number of draws, which then add up. [draws x n]"""
    n, L = len(records), config.codes_per_record
    images, labels = records.tensors(next(vae.parameters()).device)
    images, labels = images.repeat(L, 1, 1, 1), labels.repeat(L)
    of_records = coins(records, L * vae.latent_size).view(n, L, -1)
    noise = sent(of_records.transpose(0, 1).reshape(L * n, -1), images.device)
    mean, scale = vae.encode(images, labels)
    z = mean + scale * noise
    reconstruction = -vae.log_likelihood(images, z, labels)
    if config.prior == "normal":
        divergence = 0.5 * (mean.square() + scale.square() - 1).sum(1) - scale.log().sum(1)
    else:
        divergence = log_normal(z, mean, scale).sum(1) - vae.prior.log_density(z)
    return (reconstruction + config.beta * divergence) / L


def batch_wise(vae: Autoencoder, records: Records, config: Config, coins: Coins) -> Tensor:
    """psi(s) = alpha D(q(z), p(z)) of one group, with one code and one draw from the prior for each record. One number."""
    images, labels = records.tensors(next(vae.parameters()).device)
    of_code, of_prior = sent(coins(records, 2 * vae.latent_size), images.device).chunk(2, 1)
    mean, scale = vae.encode(images, labels)
    prior = vae.prior.from_normal(of_prior)
    if config.divergence == "mmd":
        return config.alpha * divergences.mmd(mean + scale * of_code, prior)
    return config.alpha * divergences.kl_from_prior(mean, scale, prior, vae.prior.log_density(prior))
