"""The teacher's training, by DP-SGD (`common/softmax_regression.py`), and the public pictures that it labels."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import contract
from gossamer.methods.common import softmax_regression
from gossamer.methods.common.labelled import PublicPictures
from gossamer.methods.common.learners import Average, Learner
from gossamer.methods.common.softmax_regression import Classifier, InTraining, losses, with_features
from gossamer.methods.contract import Logs, Run
from gossamer.methods.teacher import PARTS, Config
from gossamer.nets.initialised import initialised_by
from gossamer.privacy.confined import Confined


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Algorithm 1, one step per yield. Ends when the ledger holds no further release."""
    yield from softmax_regression.descend(run, state, InTraining(state.W, state.mean), run.config, private)


def describe(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """The features of all public pictures, in as many parts as the phase has steps. No record enters."""
    del run
    parts, pictures = np.array_split(np.arange(len(public)), PARTS), state.public
    for part in parts[state.step :]:
        pictures.add(public[part], torch.from_numpy(with_features(state.W.net, public[part]).images))
        yield {}


@dataclass
class State(contract.State):
    """The weights have seen records through releases only: see `InTraining`."""

    scores_have_no_scale = True

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
    with initialised_by(run.rng.public("initialisation")):
        net = generator(run.config, run.card).to(run.device)
    training = InTraining.started(run, run.config, net)
    none = PublicPictures(
        torch.empty(0, *run.card.shape, dtype=torch.uint8), torch.empty(0, net.features.size, dtype=torch.float16)
    )
    return State(training.W, training.mean, none)


def generator(config: Config, card: DataCard) -> Classifier:
    """The classifier that a run releases."""
    return softmax_regression.classifier(card, config.encoder)
