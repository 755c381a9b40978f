"""The noisy query that counts votes; `votes.py` has the votes. No PyTorch is loaded here."""

from typing import TYPE_CHECKING

from gossamer.lazy import Lazy
from gossamer.methods.contract import Query

if TYPE_CHECKING:
    from gossamer.privacy.mechanisms import gaussian
else:
    gaussian = Lazy("gossamer.privacy.mechanisms.gaussian")

MAX_NORM = 1.0
"""L2 bound on the votes of one unit. Another would scale votes and noise alike."""


def ballot(*, noise_multiplier: float, rounds: int) -> Query:
    """A histogram of votes in each round: a Gaussian over all units."""
    sums = gaussian.clipping_sum(sampling_rate=1.0, max_norm=MAX_NORM, noise_multiplier=noise_multiplier)
    return Query("votes", sums, rounds)
