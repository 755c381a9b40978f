"""Noisy queries that several methods declare: gradients of DP-SGD, and votes. No PyTorch is loaded here.

Methods import the modules of mechanisms from here: `Lazy` ones, because these load the accountants.
"""

from typing import TYPE_CHECKING, Any

from gossamer.lazy import Lazy
from gossamer.methods.contract import DataCard, Query

if TYPE_CHECKING:
    from gossamer.privacy.accounting import events
    from gossamer.privacy.mechanisms import gaussian, sanitized_rows, two_term
else:
    events = Lazy("gossamer.privacy.accounting.events")
    gaussian = Lazy("gossamer.privacy.mechanisms.gaussian")
    sanitized_rows = Lazy("gossamer.privacy.mechanisms.sanitized_rows")
    two_term = Lazy("gossamer.privacy.mechanisms.two_term")

__all__ = ["ballot", "events", "gaussian", "gradients", "sanitized_rows", "two_term"]

MAX_NORM = 1.0
"""L2 bound on the votes of one unit. Another would scale votes and noise alike."""


def gradients(config: Any, card: DataCard, batch: int) -> Query:
    """The clipped sum of gradients over a Poisson sample, in each step. Abadi et al. 2016, Algorithm 1.

    Args:
        config: has `max_norm`, `noise_multiplier` and `steps`.
        card: has the declared size.
        batch: expected number of records in a step.
    """
    sums = gaussian.clipping_sum(
        sampling_rate=batch / card.declared_size, max_norm=config.max_norm, noise_multiplier=config.noise_multiplier
    )
    return Query("gradients", sums, config.steps)


def ballot(*, noise_multiplier: float, rounds: int) -> Query:
    """A histogram of votes in each round: a Gaussian over all units."""
    sums = gaussian.clipping_sum(sampling_rate=1.0, max_norm=MAX_NORM, noise_multiplier=noise_multiplier)
    return Query("votes", sums, rounds)
