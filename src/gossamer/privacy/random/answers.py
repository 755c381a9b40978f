"""The noisy answers of a run. With its public inputs, they are all that its model is made of.

An answer is noted where its noise is added, after the noise. So no sum without noise can be among the answers, and they are
covered by the same guarantee as the model. To replay a run is to put the noted answers where the noise would be added.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gossamer.errors import LedgerDamaged

MOST = 1 << 23
"""Numbers that are kept of a run, 64 MiB. Of a run with more of them, none is."""
_DIGITS, _SURPRISE = 16, 40.0
"""Last digits of answers in grids, and how uneven they may be, in nats. Of real noise they are more so once in 10^16."""


@dataclass
class Answers:
    """The answers of a run, in order.

    Args:
        parts: float64 numbers [n], and the standard deviation of their noise. An answer in groups has a part for each.
        left: how many more numbers are kept. Below zero, none is.
    """

    parts: list[tuple[Tensor, float]] = field(default_factory=list)
    left: int = MOST

    def take(self, noisy: Tensor, std: float, _grid: float, /) -> None:
        """Note what leaves. noisy: [n], with noise of this standard deviation, rounded to this grid."""
        self.left -= len(noisy)
        if self.left < 0:
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
        """The inverse of `tensors`. Raises LedgerDamaged: they are no answers with noise."""
        values, sizes, deviations = tensors["values"], tensors["sizes"], tensors["deviations"]
        if any(each.dim() != 1 for each in tensors.values()) or len(sizes) != len(deviations) or not len(sizes):
            raise LedgerDamaged("its tensors have other shapes than those of answers.")
        if len(values) > MOST or int(sizes.min()) < 0 or int(sizes.max()) > len(values) or sizes.sum() != len(values):
            raise LedgerDamaged("its sizes are not those of its values.")
        if not values.isfinite().all() or not bool((deviations.isfinite() & (deviations > 0)).all()):
            raise LedgerDamaged("a number is not finite, or an answer has no noise.")
        return cls(list(zip(values.split(sizes.tolist()), deviations.tolist(), strict=True)))


@dataclass
class Replay(Answers):
    """Noted answers, which take the place of new ones. at: how many were asked for."""

    at: int = 0

    def take(self, noisy: Tensor, std: float, grid: float, /) -> None:
        """Overwrite what would leave. Raises LedgerDamaged: the run asks for an answer of another size or noise."""
        answer, deviation = self.parts[self.at] if self.at < len(self.parts) else (noisy[:0], std)
        self.at += 1
        if answer.shape != noisy.shape:
            raise LedgerDamaged(
                f"the run asks for {len(noisy):,} numbers as answer {self.at:,}, and there are {len(answer):,}."
            )
        if not math.isclose(std, deviation, rel_tol=1e-6):
            raise LedgerDamaged(f"answer {self.at:,} states noise of another width than the run adds.")
        if not (torch.equal(noisy.copy_(answer).cpu().double(), answer) and _looks_noisy(noisy, grid)):
            raise LedgerDamaged(f"answer {self.at:,} holds numbers that noise of its width does not leave.")


def _looks_noisy(answer: Tensor, grid: float) -> bool:
    """Whether numbers are on the grid, and their last digits there are even. A count without noise has zeros there.

    Left out are numbers so large that their type rounds them before the grid does, more often to even steps.
    """
    steps = answer.double() / grid
    steps = steps[steps.abs() < 2.0**-9 / torch.finfo(answer.dtype).eps]
    if not len(steps):
        return True
    most = torch.bincount(steps.long() % _DIGITS).max() / len(steps)
    other = (1 - most) / (_DIGITS - 1)
    surprise = torch.special.xlogy(most, _DIGITS * most) + torch.special.xlogy(1 - most, _DIGITS * other)
    return torch.equal(steps, steps.round()) and float(len(steps) * surprise) < _SURPRISE
