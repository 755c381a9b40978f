"""Answers of critics as sanitised gradient rows: the query of GS-WGAN (Chen, Orekondy, Fritz 2020, equation 11).

K critics are trained on disjoint shards of the records, and none of them leaves. An answer asks one critic for the gradient of
the generator's loss at B generated images. It clips each row to C and adds noise for a sensitivity of 2C per row. One record
changes one critic, arbitrarily, so it moves the B rows of that critic by at most 2 C sqrt(B). That is a Gaussian of multiplier
noise_multiplier / sqrt(B). The draws differ in which critic answers (`docs/accounting.md`, GS-WGAN):

- secret: uniform and secret; nothing else may depend on it. Sampling without replacement of 1 of K, replace-one
  (`secret_draw.py`). It needs critics whose state does not depend on earlier draws.
- round_robin: one after the other. A charge covers a pass over all K critics, because a record is in one of them.
- paper: uniform, and known to the loop, which trains the drawn critic. Its cost takes the draw as revealed.

A call may ask for several answers. Each has a draw, an event and a charge of its own, as if they came one after the other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dp_accounting import ComposedDpEvent, DpEvent, NoOpDpEvent

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.privacy.accounting.events import Draw, charges_of, event_of
from gossamer.privacy.queries import Value

if TYPE_CHECKING:
    from torch import Tensor

    from gossamer.privacy.per_sample_gradients import rounding
    from gossamer.privacy.random.noise import Rng
else:
    rounding = Lazy("gossamer.privacy.per_sample_gradients.rounding")


class Rows(Protocol[Value]):
    """A query: the rows of some critics. Answering changes nothing in what is held."""

    def rows(self, value: Value, critics: Sequence[int], /) -> "Tensor":
        """[critics, B, ...], one gradient for each generated image, not clipped; the same critic may be asked twice."""


@dataclass(kw_only=True)
class SanitizedRows:
    """The mechanism. One object per training: it knows where in a pass it is, and a new one begins a new pass.

    Args:
        critics: K, how many are held.
        batch_size: B, rows in an answer.
        max_norm: C, L2 bound of each row; infinity switches clipping off (the non-private run).
        noise_multiplier: standard deviation of the noise / 2C. Zero: the non-private run, charged as infinity.
        answers: how many critics a call asks.

    Raises:
        RequestError: numbers that make no sense, or noise without a bound.
    """

    draw: Draw
    critics: int
    batch_size: int
    max_norm: float
    noise_multiplier: float
    answers: int = 1
    _position: int = field(default=0, init=False)
    _drawn: int | None = field(default=None, init=False)
    _value: object = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if min(self.critics, self.batch_size, self.answers) < 1:
            raise RequestError("sanitised rows need at least one critic, one row and one answer")
        if self.answers > 1 and self.draw == "paper":
            raise RequestError("the paper's draw asks one critic at a time")
        if self.noise_multiplier > 0 and not 0 < self.max_norm < math.inf:
            raise RequestError("the bound of rows with noise must be a finite number above zero")

    @property
    def paid(self) -> DpEvent:
        """What a plan reserves, and one charge covers: one answer, or one pass of the round robin."""
        return event_of(
            draw=self.draw, critics=self.critics, batch_size=self.batch_size, noise_multiplier=self.noise_multiplier
        )

    @property
    def event(self) -> DpEvent:
        """What the next call costs, answer by answer. In a pass of the round robin, only the first has a cost."""
        costs = [self._cost_at(self._position + i) for i in range(self.answers)]
        return ComposedDpEvent(costs) if len(costs) > 1 else costs[0]

    def _cost_at(self, position: int) -> DpEvent:
        within_a_pass = self.draw == "round_robin" and position % self.critics
        return NoOpDpEvent() if within_a_pass else self.paid

    def answers_left(self, charges_left: int, steps: int) -> int:
        """How many answers a plan of `steps` answers has left. charges_left: of the event `paid`."""
        if self.draw != "round_robin":
            return charges_left
        passes = charges_of(draw=self.draw, critics=self.critics, answers=steps) - charges_left
        answered = passes * self.critics - ((self.critics - self._position) if self._position else 0)
        return max(0, steps - answered)

    def next_critic(self, rng: "Rng") -> int | None:
        """The critic that the next call will ask, which the loop of `paper` trains first; None for the secret draw."""
        if self.draw == "paper" and self._drawn is None:
            self._drawn = _coin(self.critics, rng)
        return self._position if self.draw == "round_robin" else self._drawn

    def __call__(self, value: Value, query: Rows[Value], rng: "Rng", /) -> "Tensor":
        """The whole mechanism, on critics that are all here."""
        return self.noised(self.exact(value, query, rng), query, rng)

    def noised(self, total: "Tensor", query: object, rng: "Rng", /) -> "Tensor":  # noqa: ARG002 (what every mechanism is asked)
        """The rows, with noise. [answers x B, ...]"""
        if self.noise_multiplier > 0:
            rng.add_gaussian_(total.view(-1), self.noise_multiplier * 2 * self.max_norm)
        return total

    def exact(self, value: Value, query: Rows[Value], rng: "Rng", /) -> "Tensor":
        """The rows of the answering critics, clipped. [answers x B, ...], answer by answer

        Raises:
            RequestError: another number of rows than declared, or another value than the one whose pass was charged.
        """
        rows = query.rows(value, [self._answering(value, rng) for _ in range(self.answers)])
        if rows.shape[:2] != (self.answers, self.batch_size):
            actual, charged = tuple(rows.shape[:2]), (self.answers, self.batch_size)
            raise RequestError(f"the query gave {actual} answers and rows, and {charged} are charged")
        return clipped(rows.flatten(0, 1), self.max_norm)

    def _answering(self, value: object, rng: "Rng") -> int:
        """The critic that gives the next answer; moves on, so that no failure can make one answer twice."""
        if self.draw == "secret":
            return _coin(self.critics, rng)
        critic = self.next_critic(rng)
        assert critic is not None
        self._drawn = None
        if self.draw == "round_robin":
            if critic and value is not self._value:
                raise RequestError("a pass of the round robin goes over the critics of one Confined value")
            self._value = value
            self._position = (critic + 1) % self.critics
        return critic


def _coin(critics: int, rng: "Rng") -> int:
    return int(rng.common_integers(1, critics)[0])


def clipped(rows: "Tensor", max_norm: float) -> "Tensor":
    """Each row scaled to an L2 norm of at most `max_norm`; one that is not finite becomes zero. [B, ...], at least float32."""
    return rounding.shortened(rows.flatten(1), max_norm).view(rows.shape)
