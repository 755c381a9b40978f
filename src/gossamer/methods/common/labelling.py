"""A labelling phase: a classifier learns from the records by DP-SGD, within the plan, and softens the labels of samples.

The labels of a drawing program are those of what it meant to draw. A classifier that has seen records says how a picture reads.
Its cost follows the votes or moments of the method in one plan. No PyTorch is loaded here.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.methods.common.descent import Descent
from gossamer.methods.contract import BaseConfig, DataCard, Draw, Method, OnPrivate, Query, S, Share, batch_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gossamer.methods.common import softmax_regression
else:
    softmax_regression = Lazy("gossamer.methods.common.softmax_regression")

SMALLEST = 8
"""Height or width below which scattering leaves too little."""
_STRONGEST = 12_500
"""Signal-to-noise ratio, B sqrt(T) / sigma, of the classifier beyond which its labels get no better."""
_RATIO = 0.42
"""How much less noise the classifier has than the other queries of the run together, as Gaussian mechanisms, before that."""


@dataclass(frozen=True, kw_only=True)
class LabellingConfig(BaseConfig):
    """What labels the samples.

    Args:
        own_label: share of a sample's label that stays what was drawn. The rest is how likely each class is, by a classifier
            that learns from the records after the votes, within the budget. 1: no classifier.
        labelling_noise: noise multiplier of a step of that classifier, divided by `noise_multiplier`. 0: computed from noise,
            steps and declared size.
        labelling_steps: steps of that classifier. Each step is one noisy query.
    """

    own_label: Share = 1.0
    labelling_noise: float = 0.0
    labelling_steps: int = 234


def descent_of(config: LabellingConfig, card: DataCard, *, noise_multiplier: float, others: Sequence[Query]) -> Descent:
    """The training of the classifier.

    By default it gets a fixed share of the budget, but no more than helps. Costs of Gaussians add up as 1 / sigma^2.

    Args:
        config: of the run.
        card: has the declared size.
        noise_multiplier: of the run. 0: no noise.
        others: the other queries of the run: Gaussians over all records. They cost what one Gaussian costs whose 1 / sigma^2
            is the sum of theirs.
    """
    T, B = config.labelling_steps, batch_of(0, card)
    if config.labelling_noise or not noise_multiplier:
        return Descent(noise_multiplier=config.labelling_noise * noise_multiplier, steps=T)
    made = [(query.mechanism.noise_multiplier, query.times) for query in others if query.times > 0]
    exact = any(noise == 0 for noise, _ in made)  # without noise, the plan has no epsilon anyway
    together = 0.0 if exact else 1 / math.sqrt(sum(count / noise**2 for noise, count in made))
    shared = _RATIO * together * math.sqrt(T) * B / card.declared_size
    return Descent(noise_multiplier=max(shared, B * math.sqrt(T) / _STRONGEST), steps=T)


C = TypeVar("C", bound=LabellingConfig)


class LabelsSamples(Method[C, S], Generic[C, S]):
    """A method whose network may hold a classifier that has learnt from the records, as `labeller`."""

    def labelling(self, config: C, card: DataCard, descent: Descent) -> list[OnPrivate[C, S]]:
        """The phase in which it learns; empty: no classifier. descent: see `descent_of`."""
        if config.own_label == 1:
            return []

        def body(run: Any, state: Any, private: Any) -> Any:
            return softmax_regression.descend(run, state, state.labelling, descent, private)

        return [OnPrivate(name="labelling", steps=descent.steps, queries=[descent.query(card)], body=body)]

    def check_labelling(self, config: C, card: DataCard, encoder: str) -> None:
        """Refuse pictures that scattering cannot read. encoder: its name, or empty."""
        if config.own_label < 1 and not encoder and min(card.shape[1:]) < SMALLEST:
            raise RequestError(
                f"`own_label` needs a classifier, which reads pictures of at least {SMALLEST}x{SMALLEST}. The card declares "
                f"{card.shape[1]}x{card.shape[2]}. Declare a larger shape, and the readers resize to it."
            )

    def chunks(self, net: "nn.Module", draw: Draw[C], sizes: Sequence[int]) -> "Iterator[tuple[Tensor, ...]]":
        """With probabilities, where a classifier gives them."""
        labeller: Any = getattr(net, "labeller", None)
        for images, given, *more in super().chunks(net, draw, sizes):
            if labeller is not None:
                more.append(softmax_regression.softened(labeller, images, given, draw.config.own_label))
            yield images, given, *more
