"""What a mechanism is, and what it may ask of records: sums of clipped gradients, with a bound on what each unit adds.

A mechanism holds sampling, clipping bound and noise, and declares them as one `DpEvent`. So they cannot drift apart.
It is known before a record is read. Its random numbers are given with the records, by `Confined`. No PyTorch is loaded here.

A query computes on the sampled records and knows gradients, not privacy. The contract of every query: fix the random choices of
each record. Then adding or removing a unit, at any position, moves the result by at most the declared bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent
    from torch import Tensor

    from gossamer.privacy.random.noise import Rng

Value = TypeVar("Value", contravariant=True)


class Population(Protocol):
    """Records that a mechanism can sample: it sees their number and nothing else."""

    @property
    def population(self) -> int:
        """Number of units."""

    def take(self, unit_numbers: "np.ndarray", /) -> Self:
        """The records of the chosen units."""


AnyPopulation = TypeVar("AnyPopulation", bound=Population)


class Mechanism(Protocol[Value]):
    """A way out of `Confined`, with its cost: what leaves is `noised(exact(held, query, rng), query, rng)`.

    All secret choices and all noise come from `rng`. Exact answers over disjoint parts of the records add up to the exact
    answer. Ranks rely on that (`distributed.py`).
    """

    @property
    def event(self) -> "DpEvent":
        """What one call costs."""

    def exact(self, value: Value, query: Any, rng: "Rng", /) -> "Tensor":
        """Sample and ask. The answer has no noise and stays inside. Each mechanism declares the query it asks."""

    def noised(self, total: "Tensor", query: Any, rng: "Rng", /) -> "Tensor":
        """The exact answer with its noise; `total` is overwritten. It uses only public facts of the query: sizes."""


@dataclass(frozen=True)
class Bounds:
    """How much one record may contribute, per group of parameters.

    Args:
        norms: L2 bound of each group; infinity switches clipping off (the non-private run).
        groups: for each parameter tensor, in the order of `module.parameters()`, the number of its group. None: one group.
    """

    norms: tuple[float, ...]
    groups: tuple[int, ...] | None = None


class ClippedSum(Protocol[Value]):
    """A query: the sum over the drawn units of clipped gradients."""

    @property
    def dimension(self) -> int:
        """Length D of the answer."""

    def clipped_sum(self, records: Value, bounds: Bounds, /) -> "Tensor":
        """[D]; group j of one unit's gradient adds at most bounds.norms[j] in L2."""


class GroupedSum(ClippedSum[Value], Protocol[Value]):
    """A query whose answer is made of several parameter tensors, which can be clipped in groups."""

    @property
    def sizes(self) -> Sequence[int]:
        """Length of each tensor's part of the answer, in order; they add up to `dimension`."""
