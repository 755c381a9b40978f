"""Teacher: what a run promises and costs. `common/softmax_regression.py` has the classifier and its training, `shapes.py`
and `common/labelled.py` what it labels.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.methods import contract
from gossamer.methods.common.descent import Descent
from gossamer.methods.common.labelling import SMALLEST
from gossamer.methods.common.labels_public import LabelsPublic, drawing_program
from gossamer.methods.contract import FROM_EPSILON, BaseConfig, DataCard, Loop, Phases, Query, TrialConfig

if TYPE_CHECKING:  # `load.py` of a release finds these two by their imports
    from gossamer.methods.common import labelled
    from gossamer.methods.teacher import shapes
else:
    labelled, shapes = Lazy("gossamer.methods.common.labelled"), Lazy("gossamer.methods.teacher.shapes")

PARTS = 100
"""Steps in which the features of the public pictures are computed."""


@dataclass(frozen=True, kw_only=True)
class Config(Descent, BaseConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise / `max_norm`. 0: no noise, no clipping.
        steps: number of gradient steps. Each step is one noisy query.
        expected_batch_size: expected number of records in a step. 0: 4,096, or all records where fewer are declared.
        max_norm: clipping bound: the largest L2 norm of the gradient of one record. Most are longer, so it sets the step size.
        learning_rate: learning rate. 0: computed from noise, batch and steps.
        momentum: momentum of gradient descent, from 0 to 1.
        physical_batch_size: records whose gradients are computed at once. It limits the memory, not the result.
        bands: steps over which noise is correlated (b), so that sums over steps have less of it. 1: independent noise.
        encoder: pre-trained network whose features replace wavelet scattering: lite0, onnx:FILE, the name of a plug-in, or
            module:object. Empty: scattering.
    """

    noise_multiplier: float = FROM_EPSILON
    steps: int = 468
    encoder: contract.Encoder = ""


class Teacher(LabelsPublic[Config, Any]):
    """Softmax regression on wavelet scattering, or on the features of an encoder, by DP-SGD: a classifier. It then labels
    public pictures, or drawn shapes.

    After Tramer and Boneh, "Differentially Private Learning Needs Better Features (or Much More Data)", ICLR 2021. The features
    are formulas, so no privacy goes into finding them, and what is trained is linear: 40,000 weights for ten classes of 28x28.

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. Each step is one Poisson-sampled Gaussian mechanism: every
    record's gradient is clipped to `max_norm`, noise is added to the sum once. With `bands`, so many steps together are one
    such mechanism (`privacy/mechanisms/banded.py`). Features are computed, and normalised,
    within each picture alone. An encoder is assumed to do the same, and to have learnt from no record. A test on public
    pictures refuses one whose features depend on other pictures. What is released is the weights, and the public pictures of
    the run as they are. Without public pictures, samples are shapes of a drawing program that reads no record. So samples are
    post-processing. They carry what the teacher learnt about the labels, and nothing of how the records look.

    Departures from the paper:
        - Group norm is over groups of 3 maps. The paper searches for the number of groups, and also takes means and deviations
          over all records, which cost privacy.
        - Every gradient is clipped to a bound that most of them exceed. The mean of the weights over the second half of the
          steps is released. It carries less noise than the last ones.
        - Optional: correlated noise, with groups of records in turn (`bands`; Choquette-Choo et al. 2023).
    """

    name = "teacher"
    title = "DP teacher (softmax regression on wavelet scattering)"
    ranks_take = "units by place"
    config_type = Config
    loop = Loop("gossamer.methods.teacher.loop")
    trial = TrialConfig(canary="gradients", shape=(1, 8, 8), settings={"steps": 10})

    def queries(self, config: Config, card: DataCard) -> list[Query]:
        """One Poisson-sampled Gaussian per step."""
        return [config.query(card)]

    def phases(self, config: Config, card: DataCard) -> Phases[Config, Any]:
        """The features of the public pictures, free; then the training."""
        return [
            contract.OnPublic(name="public features", steps=PARTS, body=self.loop.describe),
            self.training(config, card),
        ]

    def own_input(self, config: Config) -> dict[str, str]:  # noqa: ARG002 (what every method is asked)
        """The drawing program, whose pictures it labels where there are no public ones."""
        return drawing_program("digits and letters")

    def check(self, config: Config, card: DataCard) -> None:
        """Refuse pictures that scattering cannot read, and a momentum that never forgets."""
        if not config.encoder and min(card.shape[1:]) < SMALLEST:
            raise RequestError(
                f"the teacher reads pictures of at least {SMALLEST}x{SMALLEST}, and the card declares "
                f"{card.shape[1]}x{card.shape[2]}: declare a larger shape, and the readers resize to it."
            )
        if config.momentum >= 1:
            raise RequestError(f"`momentum` must be below 1, not {config.momentum:g}.")

    def sample(self, net: Any, draw: contract.Draw[Config]) -> Any:
        """Public pictures, or drawn digits and letters, with labels in the shares of the card's prior that are the teacher's
        own. See `common/labelled.py` and `shapes.labelled`.
        """
        if net.labelled is None:
            return shapes.labelled(net, draw.card, draw.n, draw.labels, draw.stream)
        images, given, _ = next(labelled.chunks(net.labelled, draw.card, [draw.n], draw.labels, draw.stream))
        return images, given
