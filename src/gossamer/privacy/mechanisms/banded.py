"""Banded noise: each step takes back a part of the noise of the steps before it, so that sums over steps have less of it.

Choquette-Choo et al. 2023, "(Amplified) Banded Matrix Factorization", with a Toeplitz matrix C of b bands, and Poisson samples
in cycles (their algorithm 2). The answers of all steps are C^-1 (C x + z): exact sums x, fresh noise z. The proof is in
`docs/proofs.md`, "Banded noise".
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from dp_accounting import DpEvent, NoOpDpEvent

from gossamer.errors import ConfinedError, RequestError
from gossamer.lazy import Lazy
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum, clipping_sum
from gossamer.privacy.queries import AnyPopulation, Bounds, ClippedSum

if TYPE_CHECKING:
    import torch
    from scipy import optimize, signal
    from torch import Tensor

    from gossamer.privacy.random.noise import Rng
else:
    torch, optimize, signal = Lazy("torch"), Lazy("scipy.optimize"), Lazy("scipy.signal")

LENGTH = 1 - 2.0**-20
"""L2 norm of the coefficients. What is left to 1 covers the rounding of sums in float64."""


@dataclass(eq=False, repr=False)
class _Cycle:
    """Where a training is. Private: who knows past noise can subtract it. So it is in memory alone, and no checkpoint has it.

    Args:
        records: whose units have these groups.
        groups: of each unit, in secret.
        noise: of the last answers, the latest first.
        position: the group whose turn is next.
    """

    records: Any
    groups: np.ndarray
    noise: "deque[Tensor]"
    position: int = 0

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ConfinedError("past noise is private: a mechanism with banded noise cannot be pickled or copied deeply")


@dataclass(frozen=True, kw_only=True)
class BandedGaussianSum(PoissonGaussianSum):
    """Clipped sums over Poisson draws from b groups in turn, with noise that is correlated over b steps.

    One object per training: it knows where in a cycle it is, and a new one begins a new cycle with new groups.
    Add-or-remove-one: a unit is in one group, so it takes part at most once in b consecutive steps. Then it moves C x by at
    most `max_norm` times the length of the coefficients. So a cycle costs one subsampled Gaussian, and its first step records
    this cost.

    Args:
        sampling_rate: of a unit, in the steps of its group: b times its rate over all steps.
        coefficients: first column of C, see `coefficients_for`. Their number is b.

    Raises:
        RequestError: a rate above 1, or coefficients that would make the noise smaller than it is said to be.
    """

    coefficients: tuple[float, ...]
    _cycles: list[_Cycle] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sampling_rate > 1:
            raise RequestError(
                f"`bands={self.bands}` makes as many groups, and a step would sample {self.sampling_rate:.3g} times the units "
                "of one. Take fewer bands or a smaller expected batch."
            )
        if not (self.coefficients[0] > 0 and math.hypot(*self.coefficients) <= (1 + LENGTH) / 2):
            raise RequestError(
                "the coefficients of banded noise must begin above zero, and be less than 1 long together"
            )

    @property
    def bands(self) -> int:
        """b: groups, and steps of a cycle."""
        return len(self.coefficients)

    @property
    def paid(self) -> DpEvent:
        """What a plan reserves, and one charge covers: a cycle."""
        return poisson_gaussian(sampling_rate=self.sampling_rate, noise_multiplier=self.noise_multiplier)

    @property
    def event(self) -> DpEvent:
        """What the next call costs. Within a cycle it is nothing: the first step has recorded the cost."""
        return NoOpDpEvent() if self._position else self.paid

    @property
    def next_group(self) -> Any:
        """The records of the group whose turn is next, for an auditor. Private."""
        (cycle,) = self._cycles
        return cycle.records.take(np.flatnonzero(cycle.groups == cycle.position))

    @property
    def _position(self) -> int:
        return self._cycles[0].position if self._cycles else 0

    def left(self, remaining: Callable[[DpEvent], int]) -> int:
        """See `PoissonSampled.left`."""
        return self.bands * remaining(self.paid) + -self._position % self.bands

    def exact(self, records: AnyPopulation, query: ClippedSum[AnyPopulation], rng: "Rng", /) -> "Tensor":
        """Sum over the drawn units of the group whose turn it is. [D]

        Raises:
            RequestError: other records than those whose cycle was charged.
        """
        cycle = self._cycles.pop() if self._cycles else self._begun(records, rng)
        if records is not cycle.records:
            raise RequestError("the cycles of banded noise go over the units of one Confined value")
        drawn = rng.poisson_sample(records.population, self.sampling_rate)
        of_group = records.take(drawn[cycle.groups[drawn] == cycle.position])
        total = query.clipped_sum(of_group, Bounds(norms=(self.max_norm,)))
        cycle.position = (cycle.position + 1) % self.bands
        self._cycles.append(cycle)  # after a failure a new cycle begins, with a charge of its own
        return total

    def _begun(self, records: AnyPopulation, rng: "Rng") -> _Cycle:
        return _Cycle(records, rng.integers(records.population, self.bands), deque(maxlen=self.bands - 1))

    def noised(self, total: "Tensor", query: object, rng: "Rng", /) -> "Tensor":
        """The sum, with noise that takes back a part of the last noise. [D]

        The noise that is kept is the answer minus the exact sum. So every rounding of an answer is post-processing.
        """
        del query
        if self.noise_multiplier > 0:
            first, *later = self.coefficients
            cycles = [*self._cycles]
            self._cycles.clear()  # after a failure a new cycle begins, with a charge of its own
            past = cycles[0].noise if cycles else deque()
            exact = total.to(torch.float64, copy=True)
            noisy = exact.clone()
            for coefficient, noise in zip(later, past, strict=False):
                noisy.sub_(noise, alpha=coefficient / first)
            total.copy_(rng.add_gaussian_(noisy, self.noise_multiplier * self.max_norm / first))
            past.appendleft(total - exact)
            self._cycles.extend(cycles)
        return total


def gradient_sum(
    *, sampling_rate: float, max_norm: float, noise_multiplier: float, steps: int, bands: int
) -> PoissonGaussianSum:
    """The sum of a step of DP-SGD, clipped to `max_norm`; without noise it is not. A charge covers `bands` steps.

    sampling_rate: of a unit, over all steps.
    """
    independent = clipping_sum(
        sampling_rate=bands * sampling_rate, max_norm=max_norm, noise_multiplier=noise_multiplier
    )
    if bands == 1:
        return independent
    return BandedGaussianSum(**vars(independent), coefficients=coefficients_for(bands, steps))


@lru_cache(maxsize=64)
def coefficients_for(bands: int, steps: int) -> tuple[float, ...]:
    """Coefficients with little error in the running sums of so many steps: those of (1 - x)^-p, for the best p.

    Within 0.2 % of the error of the best Toeplitz matrix with these bands (`lab/banded-noise.md`).
    """

    def of(power: float) -> tuple[float, ...]:
        series = np.cumprod([1.0, *((k - 1 + power) / k for k in range(1, bands))])
        return tuple((series * (LENGTH / np.linalg.norm(series))).tolist())

    return of(optimize.minimize_scalar(lambda power: _running_error(of(power), steps), bounds=(0, 1)).x)


def error_of(bands: int, steps: int) -> float:
    """Root mean square error of running sums, with this noise multiplier and independent noise as 1."""
    return 1.0 if bands == 1 else _running_error(coefficients_for(bands, steps), steps) / _running_error((1.0,), steps)


def _running_error(coefficients: tuple[float, ...], steps: int) -> float:
    """Of the sums of the first t answers, t up to `steps`, at noise multiplier and bound 1: rows of A C^-1, in the mean."""
    row = np.cumsum(signal.lfilter([1.0], coefficients, np.eye(1, steps)[0]))
    return math.sqrt(np.cumsum(row**2).mean())
