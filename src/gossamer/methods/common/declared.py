"""Noisy queries that several methods declare: gradients of DP-SGD, votes and moments. No PyTorch is loaded here.

Methods import the modules of mechanisms from here: `Lazy` ones, because these load the accountants.
"""

from typing import TYPE_CHECKING, Any, Generic, cast

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.methods.contract import C, DataCard, Method, Query, S

if TYPE_CHECKING:
    from gossamer.privacy.accounting import events
    from gossamer.privacy.mechanisms import banded, gaussian, sanitized_rows, two_term
else:
    events = Lazy("gossamer.privacy.accounting.events")
    banded = Lazy("gossamer.privacy.mechanisms.banded")
    gaussian = Lazy("gossamer.privacy.mechanisms.gaussian")
    sanitized_rows = Lazy("gossamer.privacy.mechanisms.sanitized_rows")
    two_term = Lazy("gossamer.privacy.mechanisms.two_term")

__all__ = ["ballot", "banded", "events", "gaussian", "gradients", "sanitized_rows", "two_term"]

MAX_NORM = 1.0
"""L2 bound on the votes of one unit. Another would scale votes and noise alike."""


def gradients(config: Any, card: DataCard, batch: int) -> Query:
    """The clipped sum of gradients over a Poisson sample, in each step. Abadi et al. 2016, Algorithm 1.

    Args:
        config: has `max_norm`, `noise_multiplier`, `steps` and `bands`. Cycles are whole, so steps are rounded up.
        card: has the declared size.
        batch: expected number of records in a step.
    """
    sums = banded.gradient_sum(
        sampling_rate=batch / card.declared_size,
        max_norm=config.max_norm,
        noise_multiplier=config.noise_multiplier,
        steps=config.steps,
        bands=config.bands,
    )
    return Query("gradients", sums, -(-config.steps // config.bands))


def ballot(*, noise_multiplier: float, rounds: int) -> Query:
    """A histogram of votes in each round: a Gaussian over all units."""
    sums = gaussian.clipping_sum(sampling_rate=1.0, max_norm=MAX_NORM, noise_multiplier=noise_multiplier)
    return Query("votes", sums, rounds)


def once(name: str, noise_multiplier: float) -> Query:
    """A sum of sensitivity 1 over all records, see `BoundedSum`. It is asked once."""
    return Query(
        name, gaussian.PoissonGaussianSum(sampling_rate=1.0, max_norm=1.0, noise_multiplier=noise_multiplier), 1
    )


class AsksMoments(Method[C, S], Generic[C, S]):
    """A method whose training asks for moments of all records, once."""

    def queries(self, config: C, card: "DataCard") -> list[Query]:  # noqa: ARG002 (what every method is asked)
        """One Gaussian over all records."""
        return [once("moments", cast("Any", config).noise_multiplier)]

    def check_public(self, config: C, card: "DataCard", count: int) -> None:  # noqa: ARG002 (what every method is asked)
        """Refuse too few pictures for principal axes, where these have to be of public pictures."""
        axes = cast("Any", config).axes
        if self.use_of_public(config) == "required" and count <= axes:
            raise RequestError(
                f"{count:,} public records are too few for {axes} principal axes: give more, or fewer `axes`."
            )
