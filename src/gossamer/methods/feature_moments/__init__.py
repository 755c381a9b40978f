"""Moments of features: what a run promises and costs. `loop.py` releases them, `features.py` has the mathematics."""

from dataclasses import dataclass
from typing import Any, Literal

from gossamer.methods.common.declared import AsksMoments
from gossamer.methods.common.labels_public import LabelsPublic
from gossamer.methods.contract import FROM_EPSILON, BaseConfig, DataCard, Encoder, Loop, OnPublic, Phases, TrialConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise on the moments, whose sensitivity is 1. 0: no noise.
        axes: length of a code (d): principal axes of the features of public pictures.
        encoder: pre-trained network whose features describe pictures: lite0, onnx:FILE, the name of a plug-in, or
            module:object. Empty: none, the pixels are the features.
    """

    noise_multiplier: float = FROM_EPSILON
    axes: int = 64
    encoder: Encoder = "lite0"


class FeatureMoments(AsksMoments[Config, Any], LabelsPublic[Config, Any]):
    """Moments of features: class sums and second moments of an encoder's features, released once. A classifier follows from
    them, and labels public pictures.

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. One Gaussian over all records. A code is made of the
    features of a picture: their principal axes are those of public features, and its length is 1. A record adds its code to
    the sum of its class, and the products of its numbers to the second moments of all. Together they are at most 1 long. The
    release is a classifier, by ridge regression on these sums, and the public pictures that it labels. So it is
    post-processing. The encoder is assumed to have learnt from no record. A test on public pictures refuses one whose features
    depend on other pictures.
    """

    name = "feature-moments"
    title = "Moments of features (one Gaussian query)"
    ranks_take = "units by place"
    config_type = Config
    loop = Loop("gossamer.methods.feature_moments.loop")
    trial = TrialConfig(canary="record", shape=(1, 8, 8), settings={"axes": 4, "encoder": ""})

    def phases(self, config: Config, card: DataCard) -> Phases[Config, Any]:
        """Free axes from public pictures, then one Gaussian over all records."""
        return [OnPublic(name="axes", steps=1, body=self.loop.axes), self.training(config, card)]

    def use_of_public(self, config: Config) -> Literal["required"]:  # noqa: ARG002 (what every method is asked)
        """Features need pictures for their axes, and the classifier pictures to label."""
        return "required"
