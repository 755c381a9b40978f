"""Softmax regression on wavelet scattering, or on the features of an encoder; its training by DP-SGD; and what it has labelled.

DP-SGD is Algorithm 1 of Abadi et al. 2016, with momentum and an average. `teacher` is this classifier; other methods label
their samples by it.
"""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.records import Records, at_once, sent
from gossamer.methods.common.descent import Descent
from gossamer.methods.common.labelled import LabelledPictures
from gossamer.methods.common.learners import Average, Learner
from gossamer.methods.contract import DataCard, Logs, Run, State, StatefulDataclass, batch_of
from gossamer.nets.encoders import PluginEncoder
from gossamer.nets.scattering import Scattering
from gossamer.privacy import Confined, PerRecordGradient
from gossamer.privacy.per_sample_gradients.gradients import filled
from gossamer.privacy.per_sample_gradients.rounding import one_size

PIECE = 512
"""Pictures whose features are held in single precision at once; fewer where they are large (`at_once`)."""
LARGEST = 1 << 31
"""Bytes of features that are kept through a run; beyond them, each step computes the features of its batch."""


class Classifier(nn.Module):
    """Pictures to the probability of each class. Its weights are those of the last layer alone: [classes, features], from 0.

    `labelled` holds the public pictures of the run, where it had any.
    """

    labelled: LabelledPictures | None

    def __init__(self, shape: tuple[int, ...], classes: int, encoder: PluginEncoder | None = None) -> None:
        super().__init__()
        self.classes, self.labelled = classes, None
        self.features: Scattering | PluginEncoder = Scattering(shape) if encoder is None else encoder
        self.head = nn.Linear(self.features.size, classes, bias=False)
        nn.init.zeros_(self.head.weight)

    @torch.no_grad()
    def probabilities(self, images: Tensor) -> Tensor:
        """How likely each class is. images: float32 [n, C, H, W] in [0, 1]; gives [n, classes], rows that add up to 1."""
        pieces = images.split(at_once(images.shape[1:], PIECE))
        return torch.cat([F.softmax(self.head(self.halved(piece).float()), dim=1) for piece in pieces])

    def halved(self, images: Tensor) -> Tensor:
        """Features as they are kept, float16 [n, features]."""
        features: Tensor = self.features(images)
        return features.half()

    @torch.no_grad()
    def with_labelled(self, images: Tensor, features: Tensor) -> "Classifier":
        """A copy that has labelled public pictures. images: uint8 [m, C, H, W]; features: as `halved` gives them."""
        pieces = [piece.to(self.head.weight.device) for piece in features.split(PIECE)]
        net = copy.deepcopy(self)
        net.labelled = LabelledPictures(
            images, torch.cat([F.softmax(self.head(piece.float()), dim=1).cpu() for piece in pieces])
        )
        return net

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As of any module. How many pictures it has labelled is that of the state, and there may be none."""
        self.labelled = None
        if "labelled.images" in state_dict:
            self.labelled = LabelledPictures(torch.empty(0), torch.empty(0))
        return super().load_state_dict(state_dict, strict=strict, assign=assign)


def with_features(net: Classifier, records: Records) -> Records:
    """The same records with their features in place of images: float16 [n, features]. Described ones stay as they are."""
    if records.images.dtype == np.float16:
        return records
    features, device = np.empty((len(records), net.features.size), np.float16), net.head.weight.device
    step = at_once(records.shape, PIECE)
    for lo in range(0, len(records), step):
        part = records[lo : lo + step]
        images, _ = (filled(part, step) if one_size("fp32", device) else part).tensors(device)
        features[lo : lo + step] = net.halved(images)[: len(part)].cpu().numpy()
    return dataclasses.replace(records, images=features)


def losses(net: nn.Module, records: Records) -> Tensor:
    """-log p(y | x) of each record, described or not. [n]"""
    assert isinstance(net, Classifier)
    featured = with_features(net, records)
    features = sent(torch.from_numpy(featured.images), net.head.weight.device).float()
    labels = sent(torch.from_numpy(featured.labels), features.device)
    return F.cross_entropy(net.head(features), labels, reduction="none")


def features_in_memory(net: Classifier, records: Records) -> Records:
    """Described, if memory for all of them may be taken; else as they are. The losses are the same either way."""
    return with_features(net, records) if 2 * net.features.size * len(records) <= LARGEST else records


@torch.no_grad()
def softened(net: Classifier, images: Tensor, labels: Tensor, own_label: float) -> Tensor:
    """own_label x one-hot labels + (1 - own_label) x the classifier's probabilities. float32 [n, classes]

    images: [n, C, H, W] in [0, 1]; labels: int64 [n].
    """
    found = net.probabilities(images.to(net.head.weight.device)).cpu()
    own = F.one_hot(labels.cpu(), net.classes).float()
    return own_label * own + (1 - own_label) * found


@dataclass
class InTraining(StatefulDataclass):
    """A classifier in training. It has seen records through releases only.

    `mean` is that of the weights over the second half of the steps; before that, the last weights.
    """

    W: Learner[Classifier]
    mean: Average[Classifier]

    @classmethod
    def started(cls, run: Run[Any], descent: Descent, net: Classifier) -> "InTraining":
        """At the start, with the weights of the net. Raises RequestError: its encoder looks at other pictures."""
        if isinstance(net.features, PluginEncoder):
            net.features.check(run.device)
        rate = descent.step_size(run.card)
        W = Learner(net, lambda weights: torch.optim.SGD(weights, lr=rate, momentum=descent.momentum))
        return cls(W, Average(net, 1.0))


def classifier(card: DataCard, encoder: str) -> Classifier:
    """With weights of zero, which give every class the same probability. encoder: its name; empty: scattering."""
    return Classifier(card.shape, card.classes, PluginEncoder(encoder, card.shape) if encoder else None)


def descend(
    run: Run[Any], state: State, training: InTraining, descent: Descent, private: Confined[Records]
) -> Iterator[Logs]:
    """DP-SGD, one step per yield. Ends when the ledger holds no further release. Abadi et al. 2016, Algorithm 1.

    A record's gradient is (p - e_y) outer f, where f is its features. It has rank one, so its norm is |p - e_y| |f|. It is
    clipped without being formed (`privacy/per_sample_gradients/clipping.py`, `Product`).
    """
    B, W = batch_of(descent.expected_batch_size, run.card), training.W
    gradients = run.query("gradients")
    gradient = PerRecordGradient(W.net, losses, descent.physical_batch_size)
    featured = private.map(lambda records: features_in_memory(W.net, records))

    for g in featured.answers(gradients, gradient):  # Alg. 1: the sample, its clipped gradients, and the noise
        norm = g.norm()
        W.step(g.div_(B))  # divided by the expected batch, then the descent
        late = state.step + 1 - descent.steps // 2  # how many steps of the second half there are, this one included
        training.mean.follow(at_most=1 - 1 / max(1, late))
        yield {"released_norm": norm}
