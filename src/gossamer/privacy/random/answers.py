"""The noisy answers of a run. With its public inputs, they are all that its model is made of.

An answer is noted where its noise is added, after the noise. So no sum without noise can be among the answers, and they are
covered by the same guarantee as the model. To replay a run is to put the noted answers where the noise would be added.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gossamer.errors import PrivacyError

MOST = 1 << 23
"""Numbers that are kept of a run, 64 MiB. Of a run with more of them, none is."""
_WHOLE = 1 << 22
"""Below so many grids, a number of any type is rounded to the grid (`noise.py`)."""
_DIGITS, _SURPRISE = 16, 40.0
"""Last digits of answers in grids, and how uneven they may be, in nats. Of real noise they are more so once in 10^16."""


@dataclass
class Answers:
    """The answers of a run, in order.

    Args:
        parts: float64 numbers [n], and the standard deviation of their noise. An answer in groups has a part for each.
        room: how many more numbers are kept. Below zero, none is.
    """

    parts: list[tuple[Tensor, float]] = field(default_factory=list)
    room: int = MOST

    def take(self, noisy: Tensor, std: float, grid: float) -> None:  # noqa: ARG002 (what a replay needs)
        """Note what leaves. noisy: [n], with noise of this standard deviation, rounded to this grid."""
        self.room -= len(noisy)
        if self.room < 0:
            self.parts.clear()
        else:
            self.parts.append((noisy.to("cpu", torch.float64, copy=True), std))

    def tensors(self) -> dict[str, Tensor]:
        """All numbers in a row, and size and deviation of each part."""
        parts, deviations = zip(*self.parts, strict=True)
        return {
            "values": torch.cat(parts),
            "sizes": torch.tensor([len(part) for part in parts]),
            "deviations": torch.tensor(deviations, dtype=torch.float64),
        }

    @classmethod
    def of(cls, tensors: dict[str, Tensor]) -> "Answers":
        """The inverse of `tensors`. Raises ValueError: they are no answers with noise."""
        values, sizes, deviations = tensors["values"], tensors["sizes"], tensors["deviations"]
        if any(each.dim() != 1 for each in tensors.values()) or len(sizes) != len(deviations) or not len(sizes):
            raise ValueError("its tensors have other shapes")
        if len(values) > MOST or int(sizes.min()) < 0 or int(sizes.max()) > len(values) or sizes.sum() != len(values):
            raise ValueError("its sizes are not those of its values")
        if not values.isfinite().all() or not bool((deviations.isfinite() & (deviations > 0)).all()):
            raise ValueError("a number is not finite, or an answer has no noise")
        return cls(list(zip(values.split(sizes.tolist()), deviations.tolist(), strict=True)))


@dataclass
class Replay(Answers):
    """Noted answers, which take the place of new ones.

    Args:
        at: how many parts were asked for.
    """

    at: int = 0

    def take(self, noisy: Tensor, std: float, grid: float) -> None:
        """Overwrite what would leave. Raises PrivacyError: the run asks for an answer of another size or noise."""
        if self.at == len(self.parts):
            raise PrivacyError(f"the run asks for more than {self.at:,} answers")
        self.at += 1
        answer, deviation = self.parts[self.at - 1]
        if answer.shape != noisy.shape:
            raise PrivacyError(f"answer {self.at:,} has {len(answer):,} numbers, and the run asks for {len(noisy):,}")
        if not math.isclose(std, deviation, rel_tol=1e-6):
            raise PrivacyError(f"answer {self.at:,} states noise of another width than the run adds")
        if not _looks_noisy(answer, grid):
            raise PrivacyError(f"answer {self.at:,} holds numbers that noise of its width does not leave")
        noisy.copy_(answer)


def _looks_noisy(answer: Tensor, grid: float) -> bool:
    """Whether numbers are on the grid, and their last digits there are even. A count without noise has zeros there."""
    steps = answer / grid
    steps = steps[steps.abs() < _WHOLE]
    if not len(steps):
        return True
    most = torch.bincount(steps.long() % _DIGITS).max() / len(steps)
    other = (1 - most) / (_DIGITS - 1)
    surprise = torch.special.xlogy(most, _DIGITS * most) + torch.special.xlogy(1 - most, _DIGITS * other)
    return torch.equal(steps, steps.round()) and float(len(steps) * surprise) < _SURPRISE
