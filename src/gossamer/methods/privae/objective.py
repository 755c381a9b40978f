"""PriVAE's loss as a query: a term that is a sum over records, and one that a group of records has together. Equation 13.

Takahashi et al. 2020, sections 4 and 5; the baselines of Table 1, whose gradients mix the two, are asked for as a whole.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from gossamer.data.records import Records, sent
from gossamer.methods.privae import Config, divergences
from gossamer.methods.privae.nets import Autoencoder, log_normal
from gossamer.privacy import Bounds, PerRecordGradient, Rng
from gossamer.privacy.mechanisms.gaussian import clipped_to
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

    def whole(self, records: Records, /) -> Tensor:
        """[D], the gradient of the baselines of Table 1 for all that was drawn; the mechanism clips it."""
        nothing = torch.zeros(self.dimension, device=next(self.vae.parameters()).device)
        if len(records) == 0:
            return nothing
        psi = self.group_gradient(records)
        C = clipped_to(self.config.max_norm, noise_multiplier=self.config.noise_multiplier)
        size = self.config.physical_batch_size
        pieces = [records[lo : lo + size] for lo in range(0, len(records), size)]
        if self.config.aggregation == "micro":
            return sum((self._micro(piece, psi, C) for piece in pieces), nothing)
        return sum(map(self.phi.summed, pieces), nothing) / self.config.expected_batch_size + psi

    def _micro(self, records: Records, psi: Tensor, C: float) -> Tensor:
        """The sum of clip_C(g_r + psi) over records, from |g_r + psi|^2 = |g_r|^2 + 2 <g_r, psi> + |psi|^2. [D]

        The inner products are the derivative, by the weights u of the records, of <sum of u_r g_r, psi>. The expansion can
        cancel, so that a term comes out longer than C: the guarantee does not rest on it, but on the mechanism's clip of
        the whole sum.
        """
        L, parameters = self.config.codes_per_record, list(self.vae.parameters())
        records = dataclasses.replace(records, units=None)  # clipped one by one, whoever they are of
        normals = self.coins(records, L * self.vae.latent_size)

        def loss(_module: torch.nn.Module, records: Records) -> Tensor:
            return sample_wise(self.vae, records, self.config, lambda _records, _k: normals)

        g = dataclasses.replace(self.phi, loss=loss).norms(records, [0] * len(parameters))[:, 0].to(psi.device)
        finite = g.isfinite()
        if not bool(finite.all()):
            normals, g, records = normals[finite.cpu()], g[finite], records[np.flatnonzero(finite.cpu().numpy())]
        if len(records) == 0:
            return torch.zeros_like(psi)
        losses = loss(self.vae, records).view(L, -1).sum(0)
        u = torch.ones_like(losses, requires_grad=True)
        whole = torch.autograd.grad((u * losses).sum(), parameters, create_graph=True, allow_unused=True)
        parts = zip(whole, psi.split(self.phi.sizes), strict=True)
        (slopes,) = torch.autograd.grad(
            sum((a.flatten() @ b for a, b in parts if a is not None), u.sum() * 0), u, retain_graph=True
        )
        squares = g.square() + 2 * slopes + psi.square().sum()
        factors = (C / squares.clamp(min=0).sqrt()).clamp(max=1)
        return ordinary_gradient((factors * losses).sum(), self.vae) + factors.sum() * psi


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
