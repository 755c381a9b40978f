"""DP-MEPF's training: Harder, Jalali Asadabadi, Sutherland, Park (2023): one release, and steps towards it.

What is learnt from public pictures, the features and a generator to begin with, comes before.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.data.records import Records, sent
from gossamer.methods import adversarial, method
from gossamer.methods.dp_mepf import Config
from gossamer.methods.dp_mepf.embedding import Embedding
from gossamer.methods.dp_mepf.features import Codes
from gossamer.methods.dp_mepf.targets import Targets
from gossamer.methods.method import Run, Shown
from gossamer.methods.parts import InTraining, Learner, Optimiser, adam, some, warm_step
from gossamer.nets.dcgan import Discriminator, Generator
from gossamer.privacy.confined import Confined
from gossamer.privacy.mechanisms import PoissonGaussianSum

PUBLIC = 12_000
"""Public pictures that axes and radii are taken from, at most."""
FEATURES_RATE = 1e-3
"""Adam's step size for the features; it falls over the second half of their steps."""
NOISE = 0.1
"""Standard deviation of the noise on the pictures that features are learnt from, at most: each has a share of it."""
FALLING = 0.4
"""Share of the steps of matching over which the step size falls, to a twentieth."""


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Shown]:
    """The one release of a run: the mean embedding of the records, with noise."""
    config, query = run.config, Embedding(state.codes, run.card.classes)
    noise = config.noise_multiplier
    release = PoissonGaussianSum(sampling_rate=1.0, max_norm=1.0, noise_multiplier=noise, rng=run.rng)
    if private.remaining(release.event):
        answer = private.release(release, query)
        state.targets.take(answer, query, noise_multiplier=noise, floor=config.floor)
        yield {"released_norm": answer.norm()}


def match(run: Run[Config], state: "State") -> Iterator[Shown]:
    """Steps of the generator towards what was released, one per yield. Sees no record."""
    if not state.targets.taken:  # the release was lost in a crash: there is nothing to match
        return
    config, G, T = run.config, state.G, run.config.matching_steps
    state.codes.requires_grad_(False)
    half = quotas(run.card, config.batch_size // 2).to(run.device)
    labels = half.repeat(2)
    for t in range(state.step, T):
        G.optimiser.param_groups[0]["lr"] = config.learning_rate * min(1.0, 0.05 + (T - t) / (FALLING * T))
        latents = sent(torch.randn(len(labels), config.latent_size, generator=run.rng.public("matching")), run.device)
        codes = [within(z) for z in state.codes(G.net(latents, labels), labels)]
        loss = state.targets.loss(codes, half, covariance_weight=config.covariance_weight)
        G.descend(loss)
        G.average.follow(at_most=(t + 1) / (t + 10))
        yield {"loss": loss.detach()}


def within(codes: Tensor) -> Tensor:
    """The codes [n, d] of fakes, shortened to length 1 as those of records are."""
    shortened: Tensor = codes / codes.norm(dim=1, keepdim=True).clamp(min=1)
    return shortened


def quotas(card: DataCard, n: int) -> Tensor:
    """n labels, as many of each class as the declared prior says, and at least one. int64 [n]"""
    owed = torch.tensor(card.probabilities, dtype=torch.float64) * (n - card.classes)
    counts = 1 + owed.floor().long()
    counts[torch.argsort(owed - owed.floor(), descending=True, stable=True)[: n - int(counts.sum())]] += 1
    return torch.repeat_interleave(torch.arange(card.classes), counts)


def learn_features(run: Run[Config], state: "State", public: Records) -> Iterator[Shown]:
    """A small classifier of public pictures, one step per yield; then the axes of its features. Costs nothing."""
    config, T = run.config, run.config.features_steps
    stream = run.rng.public("features")
    for t in range(state.step, T):
        positions = torch.randint(len(public), (config.features_batch_size,), generator=stream).numpy()
        images, labels = public[positions].tensors(run.device)
        spread = NOISE * torch.rand(len(images), 1, 1, 1, generator=stream)
        images = images + (spread * torch.randn(images.shape, generator=stream)).to(run.device)
        loss = F.cross_entropy(state.codes.net.logits(images), labels)
        state.optimiser.param_groups[0]["lr"] = FEATURES_RATE * min(1.0, 2 * (T - t) / T)
        adversarial.descend(state.optimiser, loss, state.codes.net)
        yield {"loss": loss.detach()}
    state.codes.fit(*some(public, PUBLIC).tensors(run.device), run.rng.public("spoilt"))


def warm_start(run: Run[Config], state: "State", public: Records) -> Iterator[Shown]:
    """Both halves of a GAN on public pictures, without privacy, one step of each per yield. Costs nothing."""
    config, B, D, G = run.config, min(run.config.warm_batch_size, len(public)), state.D, state.G
    for t in range(state.step, config.warm_steps):
        warm_step(run, D, G, public, B)
        latents, labels = G.latents(run, B)
        loss = adversarial.non_saturating_losses(D.net(G.net(latents, labels), labels)).mean()
        G.descend(loss)
        G.average.follow(at_most=(t + 1) / (t + 10))
        yield {"generator_loss": loss.detach()}
    G.net.load_state_dict(G.average.released.state_dict())  # matching goes on from what is smoothest
    G.renew(_adam(config.learning_rate))


@dataclass
class State(method.State):
    """Codes, generator and discriminator begin on public pictures; targets and generator have seen the release.

    Args:
        codes: of pictures, in features.
        optimiser: of the features.
        D: the discriminator of the warm start.
        G: the generator.
        targets: what was released.
    """

    codes: Codes
    optimiser: torch.optim.Optimizer
    D: Learner[Discriminator]
    G: InTraining[Generator]
    targets: Targets

    @classmethod
    def fresh(cls, run: Run[Config]) -> "State":
        """Networks and optimisers at the start of a run."""
        config, card = run.config, run.card
        with adversarial.initialised_by(run.rng.public("initialisation")):
            G = generator(config, card).to(run.device)
            D = Discriminator(card.shape, card.classes, width=config.width).to(run.device)
            codes = Codes(
                card.shape, card.classes, width=config.features_width, axes=config.axes, pixel_axes=config.pixel_axes
            ).to(run.device)
        return cls(
            codes,
            adam(FEATURES_RATE, (0.9, 0.999))(list(codes.net.parameters())),
            Learner(D, _adam(config.warm_learning_rate / 2)),
            InTraining(G, _adam(config.warm_learning_rate), config.average_decay),
            Targets(card.classes, codes.axes).to(run.device),
        )

    @property
    def released(self) -> Generator:
        """The generator that the run hands out."""
        return self.G.average.released


start = State.fresh


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases, with fresh weights."""
    return Generator(card.shape, card.classes, width=config.width, latent_size=config.latent_size)


def _adam(rate: float) -> Optimiser:
    return adam(rate, (0.5, 0.999))
