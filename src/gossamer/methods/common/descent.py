"""DP-SGD on a linear classifier, as settings: what a step costs, and how far it goes. No PyTorch is loaded here."""

import math
from dataclasses import dataclass

from gossamer.methods.common.declared import banded, gradients
from gossamer.methods.contract import AT_ONCE, DataCard, MaybeZero, Query, batch_of

FASTEST = 16.0
"""The largest step size that is worked out."""


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Settings of DP-SGD. All are public.

    Args:
        noise_multiplier: standard deviation of the noise / `max_norm`. 0: no noise, no clipping.
        steps: number of gradient steps.
        expected_batch_size: expected number of records in a step. 0: see `batch_of`.
        max_norm: the largest L2 norm of the gradient of one record.
        learning_rate: learning rate. 0: computed, see `step_size`.
        momentum: momentum, from 0 to 1.
        physical_batch_size: records whose gradients are computed at once.
        bands: steps over which noise is correlated.
    """

    noise_multiplier: float
    steps: int
    expected_batch_size: MaybeZero = 0
    max_norm: float = 0.1
    learning_rate: float = 0.0
    momentum: float = 0.9
    physical_batch_size: int = AT_ONCE
    bands: int = 1

    def query(self, card: DataCard) -> Query:
        """The clipped sum of a step."""
        return gradients(self, card, batch_of(self.expected_batch_size, card))

    def step_size(self, card: DataCard) -> float:
        """The step size: it lets the weights go 1.5 s^(3/4) far in all. s = B sqrt(T) / sigma is the signal-to-noise ratio.

        A rule of thumb, found on MNIST and on scikit-learn's digits (`docs/methods/teacher.md`). All that it reads is public.
        sigma is what independent noise would need for the same error in sums over steps.
        """
        if self.learning_rate or not self.noise_multiplier:
            return self.learning_rate or FASTEST
        sigma = self.noise_multiplier * banded.error_of(self.bands, self.steps)
        signal_to_noise = batch_of(self.expected_batch_size, card) * math.sqrt(self.steps) / sigma
        farthest = 1.5 * math.pow(signal_to_noise, 0.75)
        return min(FASTEST, farthest * (1 - self.momentum) / (self.max_norm * self.steps))
