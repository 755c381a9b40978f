"""What a mechanism may ask of records: sums of clipped gradients, with a bound on what each unit adds.

A query computes on the sampled records and knows gradients, not privacy. The contract of every query: fix the random choices of
each record. Then adding or removing a unit, at any position, moves the result by at most the declared bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Bounds:
    """How much one record may contribute, per group of parameters.

    Args:
        norms: L2 bound of each group; infinity switches clipping off (the non-private run).
        groups: for each parameter tensor, in the order of `module.parameters()`, the number of its group. None: one group.
    """

    norms: tuple[float, ...]
    groups: tuple[int, ...] | None = None


Drawn = TypeVar("Drawn", contravariant=True)


class ClippedSum(Protocol[Drawn]):
    """A query: the sum over the drawn units of clipped gradients."""

    @property
    def dimension(self) -> int:
        """Length D of the answer."""

    def clipped_sum(self, records: Drawn, bounds: Bounds, /) -> "Tensor":
        """[D]; group j of one unit's gradient adds at most bounds.norms[j] in L2."""


class GroupedSum(ClippedSum[Drawn], Protocol[Drawn]):
    """A query whose answer is made of several parameter tensors, which can be clipped in groups."""

    @property
    def sizes(self) -> Sequence[int]:
        """Length of each tensor's part of the answer, in order; they add up to `dimension`."""
