"""The teacher's training: DP-SGD (Abadi et al. 2016, Algorithm 1) on a softmax regression, with momentum and an average."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import method
from gossamer.methods.common import adversarial
from gossamer.methods.common.learners import Average, Learner
from gossamer.methods.method import Logs, Run, StatefulDataclass, batch_of
from gossamer.methods.teacher import PARTS, Config, learning_rate
from gossamer.methods.teacher.nets import Classifier, features_in_memory, losses, with_features
from gossamer.nets.encoders import PluginEncoder
from gossamer.privacy.confined import Confined
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum, clipped_to
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Algorithm 1, one step per yield. Ends when the ledger holds no further release.

    A record's gradient is (p - e_y) outer f, with f its features: of rank one, so that its norm is |p - e_y| |f| and it is
    clipped without being formed (`privacy/per_sample_gradients/pieces.py`, `Product`).
    """
    config, B, W = run.config, batch_of(run.config.expected_batch_size, run.card), state.W
    C = clipped_to(config.max_norm, noise_multiplier=config.noise_multiplier)
    release = PoissonGaussianSum(
        sampling_rate=B / run.card.declared_size, max_norm=C, noise_multiplier=config.noise_multiplier, rng=run.rng
    )
    gradient = PerRecordGradient(W.net, losses, config.physical_batch_size)
    featured = private.map(lambda records: features_in_memory(W.net, records))

    while featured.remaining(release.event):
        g = featured.release(release, gradient)  # Alg. 1: the sample, its clipped gradients, and the noise
        norm = g.norm()
        W.step(g.div_(B))  # divided by the expected batch, then the descent
        late = state.step + 1 - config.steps // 2  # how many steps of the second half there are, this one included
        state.mean.follow(at_most=1 - 1 / max(1, late))
        yield {"released_norm": norm}


def describe(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """The features of all public pictures, in as many parts as the phase has steps. No record enters."""
    del run
    parts, pictures = np.array_split(np.arange(len(public)), PARTS), state.public
    for part in parts[state.step :]:
        pictures.add(state.W.net, public[part])
        yield {}


@dataclass
class PublicPictures(StatefulDataclass):
    """The pictures that the classifier labels: uint8 [m, C, H, W], and their features [m, features], float16."""

    images: Tensor
    features: Tensor

    def add(self, net: Classifier, pictures: Records) -> None:
        """Take pictures with their features."""
        described = torch.from_numpy(with_features(net, pictures).images)
        self.images = torch.cat([self.images, torch.from_numpy(np.ascontiguousarray(pictures.images))])
        self.features = torch.cat([self.features, described])


@dataclass
class State(method.State):
    """The weights have seen records through releases only.

    `mean` is that of the weights over the second half of the steps; before that, the last weights.
    """

    W: Learner[Classifier]
    mean: Average[Classifier]
    public: PublicPictures

    @property
    def released(self) -> Classifier:
        """The classifier that the run hands out, with the public pictures that it has labelled."""
        net = self.mean.released
        return net.with_labelled(self.public.images, self.public.features) if len(self.public.images) else net

    @torch.no_grad()
    def scores(self, records: Records) -> Tensor:
        """log p(y | x) of records, by the weights that are released, so that attackers can rank them. [1, n]"""
        return -losses(self.mean.released, records)[None]


def start(run: Run[Config]) -> State:
    """Weights of zero, which give every class the same probability."""
    config = run.config
    with adversarial.initialised_by(run.rng.public("initialisation")):
        net = generator(config, run.card).to(run.device)
    if isinstance(net.features, PluginEncoder):
        net.features.check(run.device)
    W = Learner(
        net, lambda weights: torch.optim.SGD(weights, lr=learning_rate(config, run.card), momentum=config.momentum)
    )
    none = PublicPictures(
        torch.empty(0, *run.card.shape, dtype=torch.uint8), torch.empty(0, net.features.size, dtype=torch.float16)
    )
    return State(W, Average(net, 1.0), none)


def generator(config: Config, card: DataCard) -> Classifier:
    """The classifier that a run releases."""
    return Classifier(card.shape, card.classes, PluginEncoder(config.encoder, card.shape) if config.encoder else None)
