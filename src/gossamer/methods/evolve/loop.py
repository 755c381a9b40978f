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
from gossamer.methods import contract
from gossamer.methods.common import features, votes
from gossamer.methods.common.clusters import Clusters, within_classes
from gossamer.methods.common.features import Features
from gossamer.methods.common.learners import Learner
from gossamer.methods.common.softmax_regression import InTraining, classifier
from gossamer.methods.common.votes import Cosines
from gossamer.methods.contract import Logs, Run
from gossamer.methods.evolve import Config, candidates_of, clusters_of, descent, pictures
from gossamer.methods.evolve.nets import Evolved
from gossamer.methods.evolve.pictures import VotedPictures
from gossamer.nets.encoders import PluginEncoder
from gossamer.nets.initialised import initialised_by
from gossamer.privacy.confined import Confined

_FEWEST_BINS, _CONCENTRATED = 250, 0.035
"""Bins of a class from which on the votes tell whether candidates are near, and the share in use below which none is."""
_NONE_NEAR = (
    "The records gave most votes to very few candidates, so the drawing program hardly draws pictures like yours. Compare some "
    "samples with your records. Try `smallest_size=0.4` and `largest_rotation=180`, or another method; a new run uses more "
    "budget."
)


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Algorithm 1, one round of votes per yield. Ends when the ledger holds no further release."""
    if state.public is not None:
        yield from pictures.train(run, state, state.public, state.likeness, private)
        return
    config, G = run.config, state.drawn
    ballot = run.query("votes")
    while state.step < config.steps and private.remaining(ballot.event):  # Alg. 1, l. 2
        if state.step:
            G.parents = next_candidates(run, G)  # l. 4-6
        G.degree.fill_(config.degree * config.shrink**state.step)
        groups = clustered(run, lookahead(run, state), G)
        query = votes.Votes(state.likeness, groups.centres, groups.labels, run.card.classes)
        h = private.release(ballot, query)  # l. 3: Alg. 2, l. 1-5
        kept = votes.thresholded(h, config.noise_multiplier, threshold=config.threshold)  # Alg. 2, l. 6
        G.weights = groups.shared(kept).float()
        state.concentrated = state.concentrated if state.step else concentrated(run, kept, groups.labels)
        yield {"candidates_kept": (G.weights > 0).sum(), "votes_kept": G.weights.sum()}


def next_candidates(run: Run[Config], G: Evolved) -> Tensor:
    """Variations of parents that are drawn by the votes; as many for each class as it had. [N, P]"""
    return G.varied(_noise(run, "variations", len(G.labels), G.latent_size), G.labels)


def lookahead(run: Run[Config], state: "State") -> Tensor:
    """Embedding of each candidate: mean over variations as far as the next ones. float64 [N, d]. Section 4.2"""
    G, net = state.drawn, state.likeness
    if run.config.variations == 0:
        return votes.embedded(_drawn(G, G.parents, G.labels), net, run.device)
    total = torch.zeros((), device=run.device)
    for _ in range(run.config.variations):
        varied = G.program.vary(
            G.parents, G.degree, _noise(run, "lookahead", len(G.labels), G.program.normals), G.labels
        )
        total = total + votes.embedded(_drawn(G, varied, G.labels), net, run.device)
    return votes.on_grid(total / run.config.variations)


def clustered(run: Run[Config], positions: Tensor, G: Evolved) -> Clusters:
    """The candidates in clusters, of which each has one count of votes; where records are many, each in its own."""
    counts = votes.per_class(clusters_of(run.config, run.card), run.card).to(positions.device)
    return within_classes(positions, G.labels, counts, run.rng.public("clusters"))


def embed_public(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """Public pictures replace the drawing program, and cosine waves are scaled to them. Sees no record."""
    assert state.public is not None
    if isinstance(state.embedding, Cosines):
        state.embedding = Cosines.of(public).to(run.device)
    yield from pictures.embed(run, state, state.public, state.likeness, public)


def concentrated(run: Run[Config], kept: Tensor, labels: Tensor) -> bool:
    """Whether so few clusters have the votes that no drawn digit looks like the records. Post-processing of released votes.

    False where that cannot be told: of other drawings, of few clusters, and where noise hides half of the votes. The limits
    were calibrated, see lab/evolve.md.
    """
    config, card = run.config, run.card
    usual = (config.smallest_size, config.largest_rotation) == (1.0, 0.0)
    calibrated = config.drawing == "digits" and usual and not config.generator and not config.encoder
    telling = len(labels) >= _FEWEST_BINS * card.classes and float(kept.sum()) >= card.declared_size / 2
    return calibrated and telling and votes.share_in_use(kept, labels) < _CONCENTRATED


def learn_features(run: Run[Config], state: "State") -> Iterator[Logs]:
    """The features learn to classify rendered pictures, one step per yield. Sees no record."""
    config, G, learner = run.config, state.drawn, state.embedding
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
class State(contract.State):
    """The candidates G have seen records through votes only, the embedding has seen none."""

    G: Evolved | None
    embedding: Learner[Features] | Cosines | PluginEncoder
    public: pictures.Candidates | None = None
    """The public pictures, where they replace the drawing program and G."""
    labelling: InTraining | None = None
    """The classifier that softens the labels of samples; its mean is part of G."""
    concentrated: bool = False
    """See `concentrated`; of the first round, whose candidates no vote chose."""

    @property
    def likeness(self) -> votes.Embedding:
        """The embedding in which records vote for the nearest candidate."""
        return self.embedding.net if isinstance(self.embedding, Learner) else self.embedding

    @property
    def drawn(self) -> Evolved:
        """The candidates of a drawing program."""
        assert self.G is not None
        return self.G

    @property
    def remark(self) -> str:
        """Warn that no candidate looks like the records, as far as released votes tell."""
        return _NONE_NEAR if self.concentrated else ""

    @property
    def released(self) -> "Evolved | VotedPictures":
        """The generator that the run hands out."""
        return self.drawn if self.public is None else self.public.released


def start(run: Run[Config]) -> State:
    """Random candidates, and an embedding that has yet to learn."""
    config, card = run.config, run.card
    G = generator(config, card).to(run.device)
    encoder = _encoder(config, card, run.device) if config.encoder else None
    if isinstance(G, VotedPictures):
        embedding = encoder or Cosines(card.shape).to(run.device)
        return State(None, embedding, pictures.Candidates.of(G, run.device))
    if isinstance(G.program, PluginGenerator):
        G.program.check(card.classes)
    labelling = None
    if G.labeller is not None:
        labelling = InTraining.started(run, descent(config, card), G.labeller)
        G.labeller = labelling.mean.released
    G.parents = G.program.random(_noise(run, "candidates", len(G.labels), G.program.normals), G.labels)  # Alg. 1, l. 1
    if encoder is not None:
        return State(G, encoder, labelling=labelling)
    if config.embedding == "cosines":
        return State(G, Cosines.of(_drawn(G, G.parents, G.labels)).to(run.device), labelling=labelling)
    with initialised_by(run.rng.public("initialisation")):
        return State(G, features.learner(card.shape, card.classes, run.device), labelling=labelling)


def generator(config: Config, card: DataCard) -> Evolved | VotedPictures:
    """The candidates of a run, before they are drawn; or the pictures that it releases, before there are any."""
    if config.drawing == "pictures":
        return VotedPictures(card)
    labeller = classifier(card, config.encoder) if config.own_label < 1 else None
    return Evolved(_program(config, card), card, candidates_of(config, card), labeller)


def _program(config: Config, card: DataCard) -> DrawingProgram:
    if config.generator:
        return PluginGenerator(config.generator, card.shape)
    if config.drawing == "patches":
        return Patches()
    assert config.drawing != "pictures"
    return Glyphs(config.drawing, config.smallest_size, config.largest_rotation)


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
