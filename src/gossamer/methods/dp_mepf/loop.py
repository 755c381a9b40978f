"""DP-MEPF's training: Harder, Jalali Asadabadi, Sutherland, Park (2023): one release, and steps towards it.

Before it, features and a first generator are learnt from public pictures. After it, records vote on what the generator
draws (Lin et al. 2024).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gossamer.data.card import DataCard
from gossamer.data.records import Records, sent
from gossamer.methods import contract
from gossamer.methods.common import adversarial, features, softmax_regression, votes
from gossamer.methods.common.features import Features
from gossamer.methods.common.learners import InTraining, Learner, N, Optimiser, adam, subset, warm_step
from gossamer.methods.contract import Logs, Run
from gossamer.methods.dp_mepf import Config, descent
from gossamer.methods.dp_mepf.embedding import Embedding
from gossamer.methods.dp_mepf.features import Codes
from gossamer.methods.dp_mepf.nets import Candidates, Discriminator, Generator, Released
from gossamer.methods.dp_mepf.targets import Targets
from gossamer.nets.initialised import initialised_by
from gossamer.privacy.confined import Confined

PUBLIC = 12_000
"""Public pictures that axes and radii are taken from, at most."""
FEATURES_RATE = 1e-3
"""Adam's step size for the features; it falls over the second half of their steps."""
NOISE = 0.1
"""Standard deviation of the noise on the pictures that features are learnt from, at most: each has a share of it."""
FALLING = 0.4
"""Share of the steps of matching over which the step size falls, to a twentieth."""
THRESHOLD = 2.0
"""Votes below so many standard deviations of their noise do not count. Lin et al. 2024, Algorithm 2, H."""
SHRINK = 0.6
"""Each variation goes so much less far than the one before."""
LIKENESS = 512
"""Features by which records vote."""
_AT_ONCE = 500
"""Candidates that are drawn at once."""


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """The one release of a run: the mean embedding of the records, with noise."""
    config, query = run.config, Embedding(state.codes, run.card.classes)
    moments = run.query("moments")
    if private.remaining(moments.event):
        answer = private.release(moments, query)
        state.targets.take(answer, query, noise_multiplier=moments.noise_multiplier, floor=config.floor)
        yield {"released_norm": answer.norm()}


def match(run: Run[Config], state: "State") -> Iterator[Logs]:
    """Steps of the generator towards what was released, one per yield. Sees no record."""
    if not state.targets.taken:  # the release was lost in a crash: there is nothing to match
        return
    config, G, T = run.config, state.G, run.config.matching_steps
    state.codes.requires_grad_(False)
    half = quotas(run.card, config.batch_size // 2).to(run.device)
    labels = half.repeat(2)
    for t in range(state.step, T):
        G.optimiser.param_groups[0]["lr"] = config.learning_rate * min(1.0, 0.05 + (T - t) / (FALLING * T))
        latents = sent(torch.randn(len(labels), G.net.latent_size, generator=run.rng.public("matching")), run.device)
        codes = [within(z) for z in state.codes(G.net(latents, labels), labels)]
        loss = state.targets.loss(codes, half, covariance_weight=config.covariance_weight)
        G.descend(loss)
        G.average.follow(at_most=(t + 1) / (t + 10))
        yield {"loss": loss.detach()}


def learn_likeness(run: Run[Config], state: "State") -> Iterator[Logs]:
    """A classifier of what the generator draws, one step per yield. Sees no record."""
    if not state.targets.taken:  # as above: nothing was matched, so there will be no votes
        return
    config, G, stream = run.config, state.G.average.released, run.rng.public("likeness")
    for _ in range(state.step, config.likeness_steps):
        latents, labels = state.G.latents(run, config.features_batch_size, prefix="likeness ")
        with torch.no_grad():
            images = G.finished(latents, labels)
        yield {"loss": features.learn(state.likeness, noisy(images, stream), labels)}


def vote(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Private Evolution over the generator's latents: Lin et al. 2024, Algorithm 1, one round of votes per yield."""
    if not state.targets.taken:  # as above: nothing was matched, so there is nothing to vote on
        return
    config, candidates, ballot = run.config, state.candidates, run.query("votes")
    noise = ballot.noise_multiplier
    while state.step < config.rounds and private.remaining(ballot.event):  # Alg. 1, l. 2
        candidates.latents = next_latents(run, candidates, first=state.step == 0)  # l. 1; later l. 4-6
        query = votes.Votes.on(drawn(state.released.generator, candidates), state.likeness.net, run.card.classes)
        h = private.release(ballot, query)  # l. 3: Alg. 2, l. 1-5
        candidates.weights = torch.where(h > THRESHOLD * noise, h, 0.0).float()  # Alg. 2, l. 6, but in full
        candidates.degree.fill_(config.degree * SHRINK**state.step)
        yield {"candidates_kept": (candidates.weights > 0).sum(), "votes_kept": candidates.weights.sum()}


def next_latents(run: Run[Config], candidates: Candidates, *, first: bool) -> Tensor:
    """Latents of candidates [N, size]: at first normals, wider than those that the generator has learnt; then variations of
    those that were chosen.
    """
    size = candidates.latents.shape[1]
    latents = torch.randn(len(candidates.labels), 1 + size, generator=run.rng.public("candidates")).to(run.device)
    return run.config.spread * latents[:, 1:] if first else candidates.varied(latents, candidates.labels)


@torch.no_grad()
def drawn(G: Generator, candidates: Candidates) -> Records:
    """Pictures of candidates, as records are stored."""
    parts = zip(candidates.latents.split(_AT_ONCE), candidates.labels.split(_AT_ONCE), strict=True)
    images = torch.cat([G.finished(latents, labels).mul(255).round().byte().cpu() for latents, labels in parts])
    return Records(images.numpy(), candidates.labels.cpu().numpy())


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


def learn_features(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """A classifier of public pictures, one step per yield; then the axes of its features. Costs nothing."""
    config, T = run.config, run.config.features_steps
    stream = run.rng.public("features")
    for t in range(state.step, T):
        positions = torch.randint(len(public), (config.features_batch_size,), generator=stream).numpy()
        images, labels = public[positions].tensors(run.device)
        loss = F.cross_entropy(state.codes.net.logits(noisy(images, stream)), labels)
        state.optimiser.param_groups[0]["lr"] = FEATURES_RATE * min(1.0, 2 * (T - t) / T)
        adversarial.descend(state.optimiser, loss, state.codes.net)
        yield {"loss": loss.detach()}
    state.codes.fit(*subset(public, PUBLIC).tensors(run.device), run.rng.public("spoilt"))


def noisy(images: Tensor, stream: torch.Generator) -> Tensor:
    """Pictures [n, C, H, W], each with noise of its own strength."""
    spread = NOISE * torch.rand(len(images), 1, 1, 1, generator=stream)
    return images + (spread * torch.randn(images.shape, generator=stream)).to(images)


def warm_start(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
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
class State(contract.State):
    """Codes, generator and discriminator begin on public pictures. Targets, generator and the features by which records vote
    have seen the release of moments, the candidates that of votes.
    """

    codes: Codes
    optimiser: torch.optim.Optimizer
    likeness: Learner[Features]
    D: Learner[Discriminator]
    G: InTraining[Generator]
    targets: Targets
    candidates: Candidates
    labelling: softmax_regression.InTraining | None = None
    """The classifier that softens the labels of samples."""

    @property
    def released(self) -> Released:
        """The generator that the run hands out."""
        labeller = None if self.labelling is None else self.labelling.mean.released
        return Released(self.G.average.released, self.candidates, labeller)


def start(run: Run[Config]) -> State:
    """Networks and optimisers at the start of a run."""
    config, card = run.config, run.card
    with initialised_by(run.rng.public("initialisation")):
        released = by_channels(generator(config, card)).to(run.device)
        D = Discriminator(card.shape, card.classes, width=config.width).to(run.device)
        codes = Codes(
            card.shape, card.classes, width=config.features_width, axes=config.axes, pixel_axes=config.pixel_axes
        )
        codes = by_channels(codes).to(run.device)
        alike = features.learner(card.shape, card.classes, run.device, width=LIKENESS)
    started, labeller = softmax_regression.InTraining.started, released.labeller
    return State(
        codes,
        adam(FEATURES_RATE, (0.9, 0.999))(list(codes.net.parameters())),
        alike,
        Learner(D, _adam(config.warm_learning_rate / 2)),
        InTraining(released.generator, _adam(config.warm_learning_rate), config.average_decay),
        Targets(card.classes, codes.axes).to(run.device),
        released.candidates,
        None if labeller is None else started(run, descent(config, card), labeller),
    )


def generator(config: Config, card: DataCard) -> Released:
    """The network that a run releases, with fresh weights."""
    G = Generator(card.shape, card.classes, config)
    labeller = softmax_regression.classifier(card, encoder="") if config.own_label < 1 else None
    return Released(G, Candidates(card, config.candidates if config.rounds else 1, G.latent_size), labeller)


def by_channels(net: N) -> N:
    """The network, its kernels laid out in memory with channels last: a step of matching takes a quarter less time."""
    return net.to(memory_format=torch.channels_last)  # type: ignore[no-any-return,call-overload]  # the stubs know of no layouts


def _adam(rate: float) -> Optimiser:
    return adam(rate, (0.5, 0.999))
