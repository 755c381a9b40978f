"""PriVAE: variational autoencoders with term-wise DP-SGD (Takahashi, Takagi, Ono, Komatsu 2020).

Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. Each step is one Poisson-sampled Gaussian. The sample-wise sum
moves by at most C1 (`max_norm`). The batch-wise sum moves by at most 2 C2 (`max_norm_batch`): a unit is in one group, by a
coin of its own, and moves that group's clipped gradient between two points of a ball of radius C2. The noise covers the
pair (`privacy/termwise.py`). Encoder and decoder see the records through these sums only; the decoder is released.

Departures from the paper:
    - Lemma 2 takes C2 for 2 C2, and Theorem 2 composes two releases on the same draw, at twice the noise (kappa = 2.06). Here
      both terms are one Gaussian, with noise sqrt(2) C1 and sqrt(2) 2 C2 times the multiplier, or split otherwise.
    - Groups come from independent coins, so that a removed record does not re-partition the others.
    - No batch normalisation. KL(q || p) in closed form where the prior is standard normal. KL(p || q) averages where the
      paper sums. The mixture prior has the signed centres and the spread of Mathieu et al. 2019, whom the paper follows.
    - The baselines of Table 1 with the sensitivity that they have. `batch`: the whole gradient is clipped to C and moves by
      at most 2 C. `micro`: every record's gradient holds the batch-wise term, so n drawn records move by up to 2 C each, and n
      is random; the sum is therefore clipped once more, to B C, and moves by at most 2 B C whatever was drawn.
    - Labels, if `conditional`; Adam; a running average of the weights; a warm start on public records.
"""

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.events import Event, Sink
from gossamer.methods import adversarial, divergences
from gossamer.methods.facts import Facts
from gossamer.methods.kept import Kept
from gossamer.nets.flat import flatten
from gossamer.nets.vae import Autoencoder, log_normal
from gossamer.privacy.clipping import ordinary_gradient
from gossamer.privacy.confined import Confined
from gossamer.privacy.costs import poisson_gaussian
from gossamer.privacy.gradients import PerRecordGradient, norms
from gossamer.privacy.guarantee import Plan
from gossamer.privacy.mechanisms import Bounds
from gossamer.privacy.noise import Rng
from gossamer.privacy.termwise import TermwiseGaussianSum, WholeGaussian

FACTS = Facts(title="PriVAE (Takahashi, Takagi, Ono, Komatsu 2020)")
Coins: TypeAlias = Callable[[Records, int], Tensor]
"""Standard normals [n, k] for n records: k coins that belong to each of them."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of one run.

    Args:
        noise_multiplier: of the joint release, against its sensitivity. Zero: the non-private twin, without clipping.
        steps: steps (T), each one release.
        expected_batch_size: expected number of records in a step (B).
        max_norm: L2 bound on the sample-wise gradient of one record (C1); C of the baselines.
        max_norm_batch: L2 bound on the batch-wise gradient of one group (C2); 0 leaves the batch-wise term out.
        partitions: groups for the batch-wise term (b).
        split: share of a step's privacy (w1 squared) that the sample-wise term gets; its noise is wider by 1 / sqrt(split).
        draws: codes drawn for each record in the sample-wise term (L).
        divergence: batch-wise term between codes and prior: none, mmd (section 5.1), kl: KL(p || q) (section 5.2).
        alpha: weight of the batch-wise term. Clipped to max_norm_batch, it only decides how often clipping binds.
        beta: weight of KL(q || p) in the sample-wise term.
        prior: normal; sparse: spikes of weight 0.8 and width 0.05 (section 5.1); mixture: four normals (section 5.2).
        likelihood: bernoulli; laplace: scale 0.1; normal: with a learned standard deviation.
        aggregation: termwise: the paper's method; micro, batch: the baselines of Table 1, with their true sensitivities.
        network: conv (28x28 or 32x32) or dense (one hidden layer, any size).
        conditional: encoder and decoder know the label; off: without labels, as in the paper.
        width: channels of the outermost hidden layer (conv), or hidden units (dense).
        latent_size: length of a code.
        extent: pixels stand for coordinates in [-extent, extent], as of the pinwheel; 0: for themselves, in [0, 1].
        optimiser: adam, or sgd as in the paper.
        learning_rate: step size of the optimiser.
        average_decay: decay of the running average of the weights that is released; 0 releases the last weights.
        release_encoder: release the encoder too, under the same guarantee.
        warm_steps: non-private steps on public records before the first private one; needs public data.
        warm_batch_size: public records in a warm step.
        warm_learning_rate: step size of the optimiser in the warm start.
        physical_batch_size: records whose own gradients are computed at once; bounds the memory, not the result.
    """

    noise_multiplier: float
    steps: int = 2_000
    expected_batch_size: int = 1_024
    max_norm: float = 1.0
    max_norm_batch: float = 0.1
    partitions: int = 16
    split: float = 0.5
    draws: int = 1
    divergence: Literal["none", "mmd", "kl"] = "none"
    alpha: float = 100.0
    beta: float = 1.0
    prior: Literal["normal", "sparse", "mixture"] = "normal"
    likelihood: Literal["bernoulli", "laplace", "normal"] = "bernoulli"
    aggregation: Literal["termwise", "micro", "batch"] = "termwise"
    network: Literal["conv", "dense"] = "dense"
    conditional: bool = True
    width: int = 200
    latent_size: int = 8
    extent: float = 0.0
    optimiser: Literal["sgd", "adam"] = "adam"
    learning_rate: float = 2e-3
    average_decay: float = 0.99
    release_encoder: bool = False
    warm_steps: int = 4_000
    warm_batch_size: int = 64
    warm_learning_rate: float = 1e-3
    physical_batch_size: int = 512


def plan(config: Config, card: DataCard) -> Plan:
    """One joint Gaussian per step, whatever the terms. Pure: reads no record.

    Raises:
        RequestError: if the settings contradict each other.
    """
    _check(config)
    rate = config.expected_batch_size / card.declared_size
    return [(poisson_gaussian(sampling_rate=rate, noise_multiplier=config.noise_multiplier), config.steps)]


def generator(config: Config, card: DataCard) -> Autoencoder:
    """The network that a run releases, with fresh weights: the decoder, and the encoder where it was asked for."""
    return _network(config, card, encoder=config.release_encoder)


def train(
    private: Confined[Records],
    config: Config,
    card: DataCard,
    *,
    public: Records | None = None,
    resume: "State | None" = None,
    emit: Sink,
    rng: Rng,
    device: str = "cpu",
) -> Iterator["State"]:
    """Algorithm 1, one step per yield; its lines counted from "Initialize". Ends when the ledger holds no further release."""
    state = resume or State.fresh(config, card, rng, device)  # l. 1
    if public is not None:
        yield from warm_start(state, public, config, emit=emit, rng=rng)
    mechanism = mechanism_for(config, card, rng)
    query = Objective.of(state.vae, config, secret_coins(rng))
    every = max(1, config.steps // 400)

    while left := private.remaining(mechanism.event):  # l. 2
        released = private.release(mechanism, query)  # l. 3-6, and both noises of l. 7
        g = direction(released, config)  # l. 7
        state.theta.grad = g
        state.optimiser.step()  # l. 8
        state.step, state.left = state.step + 1, left - 1
        if state.average is not None:
            adversarial.update_average(
                state.average, state.vae, min(config.average_decay, state.step / (state.step + 9))
            )
        if state.step % every == 0 or state.step == 1:
            emit(Event("step", state.step, {"released_norm": float(g.norm())}))
        yield state


def mechanism_for(config: Config, card: DataCard, rng: Rng) -> TermwiseGaussianSum | WholeGaussian:
    """The release of one step. Without noise nothing is clipped: the twin."""
    common: dict[str, Any] = {
        "sampling_rate": config.expected_batch_size / card.declared_size,
        "noise_multiplier": config.noise_multiplier,
        "rng": rng,
    }
    C1, C2 = (config.max_norm, config.max_norm_batch) if config.noise_multiplier else (math.inf, math.inf)
    if config.aggregation == "batch":
        return WholeGaussian(max_norm=C1, **common)
    if config.aggregation == "micro":
        return WholeGaussian(max_norm=config.expected_batch_size * C1, **common)
    weights = config.split**0.5, (1 - config.split) ** 0.5
    has_batch_term = config.divergence != "none" and config.max_norm_batch > 0
    return TermwiseGaussianSum(
        max_norm=C1,
        max_norm_batch=C2 if has_batch_term else 0.0,
        partitions=config.partitions,
        weights=weights,
        **common,
    )


def direction(released: Tensor, config: Config) -> Tensor:
    """Line 7 after the noise: division by the expected batch and by the number of groups, never by what was drawn. [D]"""
    if config.aggregation == "batch":
        return released
    if config.aggregation == "micro":
        return released / config.expected_batch_size
    return released[0] / config.expected_batch_size + released[1] / config.partitions


def secret_coins(rng: Rng) -> Coins:
    """Coins of operating-system entropy, fresh at every call: no record can learn, or shift, those of another."""
    return lambda records, k: torch.randn(len(records), k, generator=rng.secret_generator())


@dataclass(frozen=True)
class Objective:
    """The query: the gradients of phi(x), record by record, and of psi(s), group by group. Equation 13.

    Args:
        vae: the network.
        config: the settings of the run.
        coins: reparametrisation noise and draws from the prior, those of each record its own.
        phi: the per-record query.
    """

    vae: Autoencoder
    config: Config
    coins: Coins
    phi: PerRecordGradient[Records]

    @classmethod
    def of(cls, vae: Autoencoder, config: Config, coins: Coins) -> "Objective":
        """The query of a run; `phi` remembers what it has learnt about the network."""

        def loss(_module: torch.nn.Module, records: Records) -> Tensor:
            return sample_wise(vae, records, config, coins)

        return cls(vae, config, coins, PerRecordGradient(vae, loss, config.physical_batch_size, draws=config.draws))

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
        C = self.config.max_norm if self.config.noise_multiplier else math.inf
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
        L, parameters = self.config.draws, list(self.vae.parameters())
        normals = self.coins(records, L * self.vae.latent_size)

        def loss(_module: torch.nn.Module, held: Records) -> Tensor:
            return sample_wise(self.vae, held, self.config, lambda _records, _k: normals)

        g = norms(dataclasses.replace(self.phi, loss=loss), records, [0] * len(parameters))[:, 0].to(psi.device)
        finite = g.isfinite()
        if not bool(finite.all()):
            normals, g, records = normals[finite.cpu()], g[finite], records[np.flatnonzero(finite.cpu().numpy())]
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
    n, L = len(records), config.draws
    images, labels = records.tensors(next(vae.parameters()).device)
    images, labels = images.repeat(L, 1, 1, 1), labels.repeat(L)
    noise = coins(records, L * vae.latent_size).view(n, L, -1).transpose(0, 1).reshape(L * n, -1).to(images.device)
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
    of_code, of_prior = coins(records, 2 * vae.latent_size).to(images.device).chunk(2, 1)
    mean, scale = vae.encode(images, labels)
    prior = vae.prior.from_normal(of_prior)
    if config.divergence == "mmd":
        return config.alpha * divergences.mmd(mean + scale * of_code, prior)
    return config.alpha * divergences.kl_from_prior(mean, scale, prior, vae.prior.log_density(prior))


def warm_start(state: "State", public: Records, config: Config, *, emit: Sink, rng: Rng) -> Iterator["State"]:
    """Train on public records, without privacy, one step per yield. Costs nothing."""
    B = min(config.warm_batch_size, len(public))

    def coins(records: Records, k: int) -> Tensor:
        return torch.randn(len(records), k, generator=rng.public("warm coins"))

    query = Objective.of(state.vae, config, coins)
    every = max(1, config.warm_steps // 40)
    if state.warm == 0:
        state.optimiser = _optimiser(state.theta, config, config.warm_learning_rate)
    while state.warm < config.warm_steps:
        batch = public[torch.randint(len(public), (B,), generator=rng.public("warm start")).numpy()]
        g = query.phi.summed(batch) / B
        if config.divergence != "none":
            g = g + query.group_gradient(batch)
        state.theta.grad = g
        state.optimiser.step()
        state.warm += 1
        if state.warm == config.warm_steps:
            state.begin_private(config)
        if state.warm % every == 0:
            emit(Event("warm", state.warm, {"gradient_norm": float(g.norm())}))
        yield state


@dataclass
class State(Kept):
    """Everything a run goes on from. The network and its optimiser have seen records through releases only."""

    vae: Autoencoder
    theta: Tensor
    optimiser: torch.optim.Optimizer
    average: Autoencoder | None
    with_encoder: bool
    step: int = 0
    warm: int = 0
    left: int = 0

    counters = ("step", "warm")

    @classmethod
    def fresh(cls, config: Config, card: DataCard, rng: Rng, device: str = "cpu") -> "State":
        """Network and optimiser at the start of a run."""
        with adversarial.initialised_by(rng.public("initialisation")):
            vae = _network(config, card, encoder=True).to(device)
        average = copy.deepcopy(vae) if config.average_decay else None
        theta = flatten(vae)
        return cls(vae, theta, _optimiser(theta, config, config.learning_rate), average, config.release_encoder)

    def begin_private(self, config: Config) -> None:
        """After a warm start: a fresh optimiser (its moments belong to gradients without noise), a fresh average."""
        self.optimiser = _optimiser(self.theta, config, config.learning_rate)
        if self.average is not None:
            self.average.load_state_dict(self.vae.state_dict())

    @property
    def released(self) -> Autoencoder:
        """A copy of the network that the run hands out."""
        net = copy.deepcopy(self.vae if self.average is None else self.average)
        if not self.with_encoder:
            net.encoder = None
        return net

    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the counters."""
        parts = {"vae": self.vae, "optimiser": self.optimiser}
        return parts if self.average is None else {**parts, "average": self.average}


def _network(config: Config, card: DataCard, *, encoder: bool) -> Autoencoder:
    return Autoencoder(
        card.shape,
        card.classes if config.conditional else 1,
        network=config.network,
        width=config.width,
        latent_size=config.latent_size,
        prior=config.prior,
        likelihood=config.likelihood,
        extent=config.extent,
        encoder=encoder,
    )


def _optimiser(theta: Tensor, config: Config, rate: float) -> torch.optim.Optimizer:
    if config.optimiser == "sgd":
        return torch.optim.SGD([theta], lr=rate)
    return torch.optim.Adam([theta], lr=rate, fused=True)


def _check(config: Config) -> None:
    """Refuse settings that contradict each other."""
    if not 0 < config.split < 1:
        raise RequestError(f"--split must lie between 0 and 1, not {config.split:g}: it shares out one budget.")
    if config.aggregation != "termwise" and config.divergence == "none":
        raise RequestError(
            f"--aggregation {config.aggregation} is a baseline for a batch-wise term: give --divergence mmd or kl."
        )
