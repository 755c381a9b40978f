"""Class moments: what a run promises and costs. `loop.py` releases them, `methods/class_moments.py` has the mathematics."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.lazy import Lazy
from gossamer.methods.method import BaseConfig, Method, OnPublic, Phases

if TYPE_CHECKING:
    from gossamer.data.card import DataCard
    from gossamer.methods.moments import loop
    from gossamer.privacy import costs
else:
    loop, costs = Lazy("gossamer.methods.moments.loop"), Lazy("gossamer.privacy.costs")


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise on every moment; a record moves all of them together by 1. Zero: none.
        axes: length of a code (d); principal axes of public pictures, or without any the lowest cosine waves.
        radius: a code is shortened to radius x sqrt(axes), in standard deviations of public codes.
    """

    noise_multiplier: float
    axes: int = 64
    radius: float = 1.15


class ClassMoments(Method[Config, "loop.State"]):
    """Class moments: count, mean and covariance of each class in a public latent, released once.

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. One Gaussian over all records: what a record adds to the
    moments of its class is at most 1 long, and it is in one class, so the moments of all classes together move by at most 1.
    The axes come from public pictures or from formulas, never from records. All that follows is post-processing.

    The generator draws a code from its class's Gaussian and decodes it: blurred pictures, in seconds, whose classes a
    classifier can tell. For tiny budgets; it is also the private start of `dp-diffusion`.
    """

    name = "moments"
    title = "Class moments (one Gaussian release)"
    config_type = Config
    loop = loop

    def phases(self, config: Config, card: "DataCard") -> "Phases[Config, loop.State]":  # noqa: ARG002 (as every method)
        """Free axes from public pictures, then one Gaussian over all records."""
        release = costs.poisson_gaussian(sampling_rate=1.0, noise_multiplier=config.noise_multiplier)
        return [
            OnPublic(name="axes", steps=1, body=lambda run, state, public: loop.axes(run, state, public)),
            self.training(1, [(release, 1)]),
        ]
