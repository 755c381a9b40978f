"""Lower bounds on epsilon: from the scores of an attacker to what a mechanism, at the least, gives away.

A guarantee is an upper bound, proved. These lower bounds are measured: they lie below the truth with the stated
confidence, whatever the mechanism is. A bound above the claim refutes it. A bound below the claim proves nothing, because a
better attacker may exist.

Scores are those of *canaries*: higher where the attacker thinks that the canary took part. A threshold makes two errors of
them, and differential privacy forbids both to be small together:

1. `AuditErrors.epsilon` assumes nothing. With n trials it cannot pass about ln(n / 4): 5.6 for 1,000.
   `mean_error_at` counts both errors together. Where they are alike, a third of the trials gives the same bound.
2. `log_likelihood_ratio` with `most_noise` is the best statistic there is for a canary along a direction of its own.
   Its errors lie on the privacy curve of the mechanism, so the bound comes as near as trials allow.

Thresholds are chosen on other trials than those that are counted (`split`), or fixed beforehand.
"""

import bisect
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as loss
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, signal, stats
from scipy.special import log_ndtr, ndtri

from gossamer.attacks.arrays import Scores, scores
from gossamer.errors import RequestError

CONFIDENCE = 0.95
"""With which a bound lies below the truth, unless another is asked for."""
_CHOOSING = 0.2  # share of the trials that choose the threshold
_CANDIDATES = 12  # thresholds among which they choose
_NOISES = np.geomspace(1 / 8, 64, 4_000)  # of a family that are looked at, in units of the claimed one
_LARGEST = 300.0  # epsilon beyond which no curve is drawn: e^300 trials are more than anyone makes


@dataclass(frozen=True, kw_only=True)
class AuditErrors:
    """Upper bounds on the two errors of a guess, which hold together with the stated confidence.

    Args:
        missed: a canary that took part is said not to (FNR).
        false_alarm: one that did not is said to (FPR).
    """

    missed: float
    false_alarm: float

    def contradict(self, epsilons: Scores, deltas: Scores) -> bool:
        """Whether no mechanism that is (epsilons[i], deltas[i])-DP for every i allows errors so small. [E] each."""
        return any(bool((1 - one - deltas > np.exp(epsilons) * other).any()) for one, other in self._both_ways)

    def epsilon(self, delta: float) -> float:
        """Epsilon at the least: ln((1 - FNR - delta) / FPR), or with the roles swapped. Assumes nothing about the mechanism.

        Kairouz, Oh, Viswanath 2015, theorem 2.1: an (epsilon, delta)-DP mechanism has 1 - FNR <= delta + e^epsilon FPR.
        Without a single error among n trials on either side it is about ln(n / 3.7) at 95 %: 5.6 for 1,000.
        """
        ways = [(1 - one - delta, other) for one, other in self._both_ways]
        return max([0.0, *(math.log(right / wrong) for right, wrong in ways if right > 0)])

    @property
    def _both_ways(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The errors, and those of the same guess the other way round: who says "out" now says "in"."""
        return (self.missed, self.false_alarm), (self.false_alarm, self.missed)


@dataclass(frozen=True)
class MeanError:
    """An upper bound on the chance of a wrong guess, where a canary takes part with probability one half.

    That is the mean of the two errors of `AuditErrors`.

    Args:
        wrong: the bound.
    """

    wrong: float

    def contradict(self, epsilons: Scores, deltas: Scores) -> bool:
        """See `AuditErrors.contradict`. (epsilon, delta)-DP has FNR + e^epsilon FPR >= 1 - delta both ways: add the two."""
        return bool((2 * self.wrong * (1 + np.exp(epsilons)) < 2 * (1 - deltas)).any())

    def epsilon(self, delta: float) -> float:
        """See `AuditErrors.epsilon`: ln((1 - delta) / wrong - 1)."""
        odds = (1 - delta) / self.wrong - 1
        return math.log(odds) if odds > 1 else 0.0


@dataclass(frozen=True, eq=False)
class Profile:
    """The privacy curve of a mechanism: it is (epsilons[i], deltas[i])-DP for every i.

    Args:
        epsilons: [E], zero or more, rising.
        deltas: [E], falling.
    """

    epsilons: Scores
    deltas: Scores

    def refuted_by(self, errors: AuditErrors | MeanError) -> bool:
        """Whether no mechanism with this curve lets an attacker make so few errors."""
        return errors.contradict(self.epsilons, self.deltas)


def errors_at(
    inside: ArrayLike, outside: ArrayLike, threshold: float, *, confidence: float = CONFIDENCE
) -> AuditErrors:
    """Errors of calling a score above the threshold "in", each with its Clopper-Pearson bound at half of what may go wrong.

    Assumes independent trials, and a threshold that was not chosen by these scores.

    Args:
        inside: [n], scores of canaries that took part.
        outside: [m], of canaries that did not.
        threshold: fixed beforehand, or chosen by others.
        confidence: that both bounds hold.
    """
    missed, false_alarms, n, m = errors_of(inside, outside, threshold, confidence)
    tail = (1 - confidence) / 2
    bounds = clopper_pearson_upper(missed, n, tail), clopper_pearson_upper(false_alarms, m, tail)
    return AuditErrors(missed=bounds[0], false_alarm=bounds[1])


def errors_of(inside: ArrayLike, outside: ArrayLike, threshold: float, confidence: float) -> tuple[int, int, int, int]:
    """How many canaries are missed, how many are false alarms, and the numbers of both: n and m. Checks the arguments."""
    with_canary, without = scores("inside", inside), scores("outside", outside)
    if not 0 < confidence < 1:
        raise RequestError(f"confidence: {confidence} is no share between 0 and 1; 0.95 is common.")
    missed, false_alarms = int((with_canary <= threshold).sum()), int((without > threshold).sum())
    return missed, false_alarms, len(with_canary), len(without)


def mean_error_at(
    inside: ArrayLike, outside: ArrayLike, threshold: float, *, confidence: float = CONFIDENCE
) -> MeanError:
    """The mean of both errors of calling a score above the threshold "in", with its Clopper-Pearson bound.

    Assumes independent trials, in each of which the canary takes part with probability one half, and a threshold that was not
    chosen by these scores. Then the number of wrong guesses is binomial. One bound takes all that may go wrong, and needs a
    third of the trials of `errors_at`.

    Args:
        inside: [n], scores of canaries that took part.
        outside: [m], of canaries that did not.
        threshold: fixed beforehand, or chosen by others.
        confidence: that the bound holds.
    """
    counted = errors_of(inside, outside, threshold, confidence)
    return MeanError(clopper_pearson_upper(sum(counted[:2]), sum(counted[2:]), 1 - confidence))


def clopper_pearson_upper(successes: int, trials: int, tail: float) -> float:
    """Clopper and Pearson 1934: the true share is above this with probability `tail` at most."""
    return 1.0 if successes == trials else float(stats.beta.ppf(1 - tail, successes + 1, trials - successes))


def split(inside: ArrayLike, outside: ArrayLike) -> tuple[float, Scores, Scores]:
    """A threshold that the first fifth of either set chooses, and the others, which are to be counted.

    The threshold is that with the largest mu, errors taken at their bounds.

    Returns:
        The threshold, and the scores that did not choose it: [n'], [m'].
    """
    with_canary, without = scores("inside", inside), scores("outside", outside)
    n, m = (max(1, int(_CHOOSING * len(group))) for group in (with_canary, without))
    threshold = best_threshold(with_canary[:n], without[:m])
    return threshold, with_canary[n:], without[m:]


def best_threshold(inside: Scores, outside: Scores) -> float:
    """Of some thresholds in the middle of these scores, the one with the largest mu; what it shows on them is too much."""
    quantiles = np.quantile(np.concatenate([inside, outside]), np.linspace(0.3, 0.9, _CANDIDATES + 1))
    middles = (quantiles[1:] + quantiles[:-1]) / 2  # a threshold between two groups of scores
    missed = [((inside <= threshold).sum() + 1) / (len(inside) + 2) for threshold in middles]
    false_alarm = [((outside > threshold).sum() + 1) / (len(outside) + 2) for threshold in middles]
    return float(middles[np.argmax(-ndtri(false_alarm) - ndtri(missed))])


# ---------------------------------------------------------------------- the curve of a Gaussian


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of a mu-GDP mechanism at epsilon. Dong, Roth, Su 2022, corollary 2.13; Balle and Wang 2018, theorem 8."""
    if mu == 0:
        return 0.0
    first, second = log_ndtr(-epsilon / mu + mu / 2), log_ndtr(-epsilon / mu - mu / 2)
    return float(math.exp(first) * -math.expm1(min(0.0, epsilon + second - first)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon of a mu-GDP mechanism at delta: the inverse of `gaussian_delta`."""
    highest = mu * mu / 2 + mu * float(-ndtri(delta / 2)) + 1
    return _epsilon_at(delta, functools.partial(gaussian_delta, mu), highest)


def _epsilon_at(delta: float, delta_of: Callable[[float], float], highest: float) -> float:
    """Where a falling curve of delta over epsilon comes down to a delta. It is there at the highest epsilon."""
    if delta_of(0.0) <= delta:
        return 0.0
    return float(optimize.brentq(lambda epsilon: delta_of(epsilon) - delta, 0.0, highest, xtol=1e-10))


# ---------------------------------------------------------------------- 3. the exact statistic


def log_likelihood_ratio(seen: ArrayLike, sampling_rate: ArrayLike, noise_multiplier: ArrayLike) -> Scores:
    """What T releases say about a canary that adds 1 to each with probability q, among noise of deviation sigma. [n]

    L = sum over t of ln(1 - q + q exp((2 x_t - 1) / (2 sigma^2))). By Neyman and Pearson no statistic of the releases makes
    smaller errors, so that its own lie on the privacy curve of the mechanism.

    Args:
        seen: x_t, [T, n]: the released sum along the canary's direction, in units of what one record may add.
        sampling_rate: q, one number, or [T].
        noise_multiplier: sigma, one number, or [T].
    """
    x = np.asarray(seen, dtype=np.float64)
    rate, sigma = (
        np.broadcast_to(np.asarray(value, dtype=np.float64), (len(x),)) for value in (sampling_rate, noise_multiplier)
    )
    total = np.zeros(x.shape[1])
    for x_t, q, s in zip(x, rate, sigma, strict=True):
        of_drawn = (2 * x_t - 1) / (2 * s * s)
        total += of_drawn if q == 1 else np.logaddexp(math.log1p(-q), math.log(q) + of_drawn)
    return total


def of_first_group(answers: ArrayLike, coefficients: ArrayLike) -> Scores:
    """What answers with banded noise say of units that take part in the first step of a cycle. [cycles, n]

    C makes the noise independent again, and a sampled unit adds the coefficients to the rows of its cycle. Their projection on
    these is 1 with the unit and 0 without, plus the noise multiplier (`docs/proofs.md`, "Banded noise").

    Args:
        answers: [T, n], whole cycles, as for `log_likelihood_ratio`.
        coefficients: first column of C, [b].
    """
    c, y = np.asarray(coefficients), np.asarray(answers)
    white = signal.lfilter(c, [1.0], y, axis=0).reshape(-1, len(c), y.shape[1])
    return np.asarray(np.tensordot(c, white, axes=(0, 1)) / (c @ c))


@functools.lru_cache(maxsize=256)
def poisson_gaussian(sampling_rate: float, noise_multiplier: float, steps: int, revealed: bool = False) -> Profile:
    """The privacy curve of T Poisson-sampled Gaussians, add-or-remove-one; rate 1 is T plain ones.

    By dp_accounting's privacy loss distributions, which bound it from above; a Gaussian in closed form. revealed: all see which
    of the T answers are the canary's, Binomial(T, rate) of them. These draws are part of the output, so the deltas of all
    counts add up.
    """
    if revealed or sampling_rate == 1:
        mu, delta_of = math.sqrt(steps) / noise_multiplier, _draw_delta(sampling_rate, noise_multiplier, steps)
        epsilons = np.linspace(0, min(_LARGEST, mu * mu / 2 + 6 * mu), 400)
        return Profile(epsilons, np.array([delta_of(epsilon) for epsilon in epsilons]))
    losses = _losses(sampling_rate, noise_multiplier, steps)
    with np.errstate(over="ignore", invalid="ignore"):  # far out, where nothing is left
        largest = min(_LARGEST, max(losses.get_epsilon_for_delta(1e-12), 1e-6))
        epsilons = np.linspace(0, largest, 400)
        return Profile(epsilons, np.nan_to_num(np.asarray(losses.get_delta_for_epsilon(epsilons)), nan=1.0))


@functools.lru_cache(maxsize=256)
def poisson_gaussian_epsilon(
    sampling_rate: float, noise_multiplier: float, steps: int, delta: float, revealed: bool = False
) -> float:
    """Epsilon of the same mechanism at delta."""
    if revealed or sampling_rate == 1:
        highest = gaussian_epsilon(math.sqrt(steps) / noise_multiplier, delta) + 1
        return _epsilon_at(delta, _draw_delta(sampling_rate, noise_multiplier, steps), highest)
    return float(_losses(sampling_rate, noise_multiplier, steps).get_epsilon_for_delta(delta))


def _draw_delta(share: float, noise: float, releases: int) -> Callable[[float], float]:
    """Delta by epsilon: the mean over the number of releases that are the canary's, each of which has its mu."""
    counts = [releases] if share == 1 else np.arange(1, releases + 1)
    parts = [*zip(np.sqrt(counts) / noise, stats.binom.pmf(counts, releases, share), strict=True)]
    return lambda epsilon: float(sum(chance * gaussian_delta(mu, epsilon) for mu, chance in parts))


@functools.lru_cache(maxsize=8)
def _losses(rate: float, noise: float, steps: int) -> loss.PrivacyLossDistribution:
    grid = min(1e-3, max(1e-4, rate / (4 * noise)))  # no coarser, where releases are many and each costs little
    once = loss.from_gaussian_mechanism(noise, value_discretization_interval=grid, sampling_prob=rate)
    return once.self_compose(steps)


def most_noise(errors: AuditErrors | MeanError, profile_of: Callable[[float], Profile], *, claimed: float) -> float:
    """The mechanism has at most this much noise, if it is one of a family: with more, its errors could not be so small.

    Args:
        errors: of the attacker.
        profile_of: the privacy curve with a noise multiplier; the more noise, the less is lost.
        claimed: the noise multiplier around which is searched, from an eighth of it to 64 times.

    Returns:
        Infinity where the errors are those of guessing; about an eighth of the claim where they call for less than that.
    """
    noises = (claimed * _NOISES).tolist()
    least = bisect.bisect_left(noises, True, key=lambda noise: profile_of(noise).refuted_by(errors))
    return math.inf if least == len(noises) else float(noises[least])


def fisher_direction(inside: NDArray[np.float32], outside: NDArray[np.float32]) -> Scores:
    """How far the canary moves each weight of a model, over its variance: the attacker's score is along it. float64 [numbers]

    For an attacker who has the released model and nothing else.

    Fisher 1936, with the covariances left out. The attacker trains shadow models, in pairs with the same noise. One of each
    pair has the canary, so that it makes all the difference.

    Args:
        inside: [pairs, numbers], the weights of shadow models with the canary; at least two.
        outside: [pairs, numbers], without.
    """
    with_canary, without = (weights.astype(np.float64) for weights in (inside, outside))
    variance = (with_canary.var(0) + without.var(0)) / 2
    moved = (with_canary - without).mean(0)
    return np.asarray(np.divide(moved, variance, out=np.zeros_like(moved), where=variance > 0))
