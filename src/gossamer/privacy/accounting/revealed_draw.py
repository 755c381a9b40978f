"""A release by one critic of many, where the draw is known: its event, and an accountant that knows it.

In the loop of GS-WGAN as published the drawn critic trains and answers. So the state of every critic depends on the draws, and
nothing is gained by hiding them. With the draws given, a record's critic has answered n times, where n is Binomial(T, 1/K) and
independent of the record. Then n Gaussian answers of noise multiplier s are one Gaussian with mu = sqrt(n) / s (Dong, Roth and
Su 2022, corollary 3.3). The draws are part of the output, so the deltas of all n add up:

    delta(epsilon) = sum over n of P(n) delta_mu(n)(epsilon)

This is exact for the worst case: nothing is amplified (`docs/accounting.md`, GS-WGAN). Add-or-remove-one and
replace-one have one bound, because a critic's answer may change arbitrarily under either.
"""

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting import DpEvent
from scipy.special import log_ndtr
from scipy.stats import binom

from gossamer.privacy.guarantee import RELATION_NAMES, NeighboringRelation, Plan

_CUT = 1e-3  # of delta: counts so unlikely together are taken off delta
_CLOSE = 1e-9  # relative; the upper end of the bracket is the answer


@dataclass(frozen=True)
class RevealedDrawGaussianDpEvent(DpEvent):  # type: ignore[misc]  # dp_accounting has no types
    """One of `population` disjoint parts (K critics), drawn uniformly and known to all, answers with Gaussian noise."""

    population: int
    noise_multiplier: float


class RevealedMixture:
    """The closed form above, solved for epsilon."""

    name = "revealed mixture"

    def knows(self, event: DpEvent, relation: NeighboringRelation) -> bool:
        """Revealed draws and nothing else, under add-or-remove-one and replace-one."""
        return isinstance(event, RevealedDrawGaussianDpEvent) and relation in RELATION_NAMES

    def epsilon(self, plan: Plan, *, delta: float, relation: NeighboringRelation) -> float:  # noqa: ARG002 (both relations alike)
        square, chance, lost = np.zeros(1), np.ones(1), 0.0
        for event, count in plan:
            if not isinstance(event, RevealedDrawGaussianDpEvent) or event.noise_multiplier == 0:
                return math.inf
            answers, likely, missed = _counts(count, event.population, _CUT * delta / len(plan))
            square = np.add.outer(square, answers / event.noise_multiplier**2).ravel()
            chance = np.multiply.outer(chance, likely).ravel()
            lost += missed
        return _solve(np.sqrt(square), chance, delta - lost)


def _counts(draws: int, population: int, cut: float) -> tuple[np.ndarray, np.ndarray, float]:
    """How often one part is drawn: counts [m], their probabilities [m], and the probability left out, at most `cut`."""
    law = binom(draws, 1 / population)
    low, high = int(law.ppf(cut / 4)), int(law.isf(cut / 4))
    answers = np.arange(low, high + 1)
    missed = float(law.cdf(low - 1) + law.sf(high)) if population > 1 else 0.0
    return answers, law.pmf(answers), missed


def _delta(epsilon: float, mu: np.ndarray, chance: np.ndarray) -> float:
    """Delta of the mixture: Balle and Wang 2018, theorem 8, for each mu; a part that never answers loses nothing."""
    answering = mu > 0
    mu = mu[answering]
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = np.minimum(epsilon + log_ndtr(-mu / 2 - epsilon / mu), first)  # rounding must not make a delta negative
    return float((chance[answering] * -np.exp(first) * np.expm1(second - first)).sum())


def _solve(mu: np.ndarray, chance: np.ndarray, delta: float) -> float:
    """The smallest epsilon whose delta is small enough, from above."""
    if _delta(0.0, mu, chance) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while _delta(high, mu, chance) > delta:
        low, high = high, 2 * high
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(middle, mu, chance) > delta else (low, middle)
    return high
