"""Private Evolution: Algorithm 1 of Lin et al. (2024), with a drawing program or a plug-in for RANDOM_API and VARIATION_API."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.synthetic.drawing import DrawingProgram, Patches
from gossamer.data.synthetic.generators import PluginGenerator
from gossamer.data.synthetic.glyphs import Glyphs
from gossamer.errors import RequestError
from gossamer.methods import method
from gossamer.methods.common import adversarial, features, votes
from gossamer.methods.common.features import Features
from gossamer.methods.common.learners import Learner
from gossamer.methods.common.votes import Cosines
from gossamer.methods.evolve import Config, candidates_of
from gossamer.methods.evolve.nets import Evolved
from gossamer.methods.method import Logs, Run
from gossamer.nets.encoders import PluginEncoder
from gossamer.privacy.confined import Confined


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Algorithm 1, one round of votes per yield. Ends when the ledger holds no further release."""
    config, G = run.config, state.G
    release = votes.ballot(noise_multiplier=config.noise_multiplier, rng=run.rng)
    while private.remaining(release.event):  # Alg. 1, l. 2
        if state.step:
            G.parents = next_candidates(run, G)  # l. 4-6
        G.degree.fill_(config.degree * config.shrink**state.step)
        query = votes.Votes(state.likeness, lookahead(run, state), G.labels, run.card.classes)
        h = private.release(release, query)  # l. 3: Alg. 2, l. 1-5
        G.weights = votes.thresholded(h, config.noise_multiplier, threshold=config.threshold).float()  # Alg. 2, l. 6
        yield {"candidates_kept": (G.weights > 0).sum(), "votes_kept": G.weights.sum()}


def next_candidates(run: Run[Config], G: Evolved) -> Tensor:
    """Variations of parents that are drawn by the votes; as many for each class as it had. [N, P]"""
    return G.varied(_noise(run, "variations", len(G.labels), G.latent_size), G.labels)


def lookahead(run: Run[Config], state: "State") -> Tensor:
    """Embedding of each candidate: mean over variations as far as the next ones. float64 [N, d]. Section 4.2"""
    G, net = state.G, state.likeness
    if run.config.variations == 0:
        return votes.embedded(_drawn(G, G.parents, G.labels), net, run.device)
    total = torch.zeros((), device=run.device)
    for _ in range(run.config.variations):
        varied = G.program.vary(
            G.parents, G.degree, _noise(run, "lookahead", len(G.labels), G.program.normals), G.labels
        )
        total = total + votes.embedded(_drawn(G, varied, G.labels), net, run.device)
    return votes.on_grid(total / run.config.variations)


def learn_features(run: Run[Config], state: "State") -> Iterator[Logs]:
    """The features learn to classify rendered pictures, one step per yield. Sees no record."""
    config, G, learner = run.config, state.G, state.embedding
    assert isinstance(learner, Learner)
    while state.step < config.embedding_steps:
        labels = torch.randint(
            run.card.classes, (config.embedding_batch_size,), generator=run.rng.public("drawn labels")
        )
        labels = labels.to(run.device)
        parameters = G.program.random(_noise(run, "drawings", len(labels), G.program.normals), labels)
        images, labels = _drawn(G, parameters, labels).tensors(run.device)
        yield {"loss": features.learn(learner, images, labels)}


@dataclass
class State(method.State):
    """The candidates G have seen records through votes only, the embedding has seen none."""

    G: Evolved
    embedding: Learner[Features] | Cosines | PluginEncoder

    @property
    def likeness(self) -> votes.Embedding:
        """The embedding in which records vote for the nearest candidate."""
        return self.embedding.net if isinstance(self.embedding, Learner) else self.embedding

    @property
    def released(self) -> Evolved:
        """The generator that the run hands out."""
        return self.G


def start(run: Run[Config]) -> State:
    """Random candidates, and an embedding that has yet to learn."""
    config, card = run.config, run.card
    G = generator(config, card).to(run.device)
    encoder = _encoder(config, card, run.device) if config.encoder else None
    if isinstance(G.program, PluginGenerator):
        G.program.check(card.classes)
    G.parents = G.program.random(_noise(run, "candidates", len(G.labels), G.program.normals), G.labels)  # Alg. 1, l. 1
    if encoder is not None:
        return State(G, encoder)
    if config.embedding == "cosines":
        return State(G, Cosines.of(_drawn(G, G.parents, G.labels)).to(run.device))
    with adversarial.initialised_by(run.rng.public("initialisation")):
        return State(G, features.learner(card.shape, card.classes, run.device))


def generator(config: Config, card: DataCard) -> Evolved:
    """The candidates of a run, before they are drawn."""
    return Evolved(_program(config, card), card, candidates_of(config, card))


def _program(config: Config, card: DataCard) -> DrawingProgram:
    if config.generator:
        return PluginGenerator(config.generator, card.shape)
    return Patches() if config.drawing == "patches" else Glyphs(config.drawing)


def _encoder(config: Config, card: DataCard, device: str) -> PluginEncoder:
    """The encoder of a run, checked on public pictures."""
    encoder = PluginEncoder(config.encoder, card.shape)
    if encoder.size > votes.WIDEST:
        raise RequestError(
            f"The encoder {config.encoder!r} gives {encoder.size:,} features. Take one of at most {votes.WIDEST:,}: then the "
            "distances that decide a vote are exact."
        )
    encoder.check(device)
    return encoder


def _drawn(G: Evolved, parameters: Tensor, labels: Tensor) -> Records:
    """Drawings, as records."""
    return Records(G.program.draw(parameters, labels, G.side).cpu().numpy(), labels.cpu().numpy())


def _noise(run: Run[Config], stream: str, n: int, size: int) -> Tensor:
    """Standard normals [n, size] from a public stream: no record can change their place."""
    return torch.randn(n, size, generator=run.rng.public(stream)).to(run.device)
