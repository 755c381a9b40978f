"""A release by one of K parts, where the draw stays secret: its privacy loss distribution.

One of K disjoint parts is drawn uniformly and answers with Gaussian noise; a record is in one part. Let q = 1/K. Let A
and B be the answers of its part on two neighbouring data sets. Let R be that of the others (a mixture). The noise
multiplier s is relative to the diameter of what the parts can answer. For gamma >= 1 and gamma' = 1 + (gamma - 1) / q

    H_gamma((1-q) R + q A || (1-q) R + q B)
        = q H_gamma'(A || (1-b) R + b B),  b = gamma / gamma'      (Balle, Barthe and Gaboardi 2018, theorem 2)
       <= q H_gamma'(N(1, s^2) || N(0, s^2))                       (joint convexity: B and each part of R are at most 1 from A)

and the same with A and B exchanged. For gamma < 1, H_gamma(P || Q) = 1 - gamma + gamma H_1/gamma(Q || P) carries it over.
The whole curve is convex, falls from 1 at 0 and stays above 1 - gamma. So it is the curve of a pair of distributions
(Zhu, Dong and Wang 2022, proposition 10). That pair dominates every such release, in both orders, and dominating pairs compose
adaptively (their theorem 10). `lab/gs-wgan.md` has the proof line by line. It covers replace-one and, where units go to
parts at random and independently, add-or-remove-one. The same curve holds for m of n records drawn without replacement, with
q = m / n, under replace-one (Balle, Barthe and Gaboardi 2018, theorem 11).

The curve is put on a grid by connecting its dots (Doroshenko et al. 2022, algorithm 1), which bounds it from above. The mass of
a cell is the integral of a positive function. Differences of the curve would lose it to rounding after some 10^5 steps.
"""

import math

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.special import log_ndtr, ndtr

TAIL = 10.0
"""The grid ends this many standard deviations of the noise out; the chance of what lies beyond, 1e-23, counts as lost."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_NARROW = 1.0  # up to so many standard deviations the 12 nodes integrate a cell to the last digit


def largest_loss(rate: float, noise_multiplier: float) -> float:
    """Where the grid of one release ends: losses lie between minus this and this."""
    not_drawn = math.log1p(-rate) if rate < 1 else -math.inf
    return float(np.logaddexp(not_drawn, math.log(rate) + TAIL / noise_multiplier + 0.5 / noise_multiplier**2))


def distribution(rate: float, noise_multiplier: float, grid: float) -> PrivacyLossDistribution:
    """The dominating pair of one release, on multiples of `grid`; the same in both orders.

    rate: q, in (0, 1]; noise_multiplier: s, above 0; grid: width of a cell of privacy loss.
    """
    cells = max(1, math.ceil(largest_loss(rate, noise_multiplier) / grid))
    losses = np.arange(cells + 1) * grid
    inner = _inner(losses, rate)
    lower, upper = _split(inner, rate, noise_multiplier, grid)
    above = np.zeros(cells + 1)  # P(loss = j grid), j = 0 ... cells; the one at 0 comes last
    above[:-1] += lower
    above[1:] += upper
    end = inner[-1]
    above[-1] += rate * math.exp(losses[-1] - math.log(rate) + float(log_ndtr(_below(end, noise_multiplier)[1])))
    lost = rate * _gaussian_delta(float(end), noise_multiplier)
    below = above[1:] * np.exp(-losses[1:])  # the pair is the same in both orders: P(-l) = e^-l P(l)
    above[0] = 1 - lost - above[1:].sum() - below.sum()
    pmf = pld_pmf.DensePLDPmf(grid, -cells, np.concatenate([below[::-1], above]), lost, True)
    return PrivacyLossDistribution(pmf)


def _inner(losses: np.ndarray, rate: float) -> np.ndarray:
    """Log gamma' of log gamma: 1 + (gamma - 1) / q, without overflow. losses: zero or more."""
    positive = losses > 0
    inner = np.zeros_like(losses)
    part = losses[positive]
    grown = part + np.log(-np.expm1(-part)) - math.log(rate)  # log((gamma - 1) / q)
    inner[positive] = np.logaddexp(0, grown)
    return inner


def _below(inner: np.ndarray | float, noise_multiplier: float) -> tuple[np.ndarray, np.ndarray]:
    """For the plain Gaussian pair, the arguments of Phi for the chance of a loss above `inner`, under either distribution."""
    half, slope = 0.5 / noise_multiplier, noise_multiplier
    return half - np.asarray(inner) * slope, -half - np.asarray(inner) * slope


def _gaussian_delta(inner: float, noise_multiplier: float) -> float:
    """H_exp(inner)(N(1, s^2) || N(0, s^2)); Balle and Wang 2018, theorem 8."""
    first, second = (float(log_ndtr(place)) for place in _below(inner, noise_multiplier))
    return math.exp(first) * -math.expm1(min(0.0, inner + second - first))


def _split(inner: np.ndarray, rate: float, noise_multiplier: float, grid: float) -> tuple[np.ndarray, np.ndarray]:
    """What each cell gives to its lower and to its upper end, so that its mass under both distributions is kept.

    With p the density of the inner loss l' under P, a cell from l'_0 to l'_1 gives

        q integral of (exp(l'_1 - l') - 1) p / (exp(grid) - 1) to the lower end,
        q integral of (1 - exp(l'_0 - l')) p / (1 - exp(-grid)) to the upper end.
    """
    start, width = inner[:-1], np.diff(inner)
    deviation = 1 / noise_multiplier  # of the inner loss, whose mean under P is half its square
    lower, upper = np.zeros_like(start), np.zeros_like(start)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        share = (node + 1) / 2
        place = start + share * width
        density = np.exp(-0.5 * ((place - deviation**2 / 2) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
        mass = weight / 2 * width * density
        lower += mass * np.expm1((1 - share) * width)
        upper += mass * -np.expm1(-share * width)
    wide = width > _NARROW * deviation
    if wide.any():
        first, second = _below(inner, noise_multiplier)
        p = ndtr(first[:-1][wide]) - ndtr(first[1:][wide])
        scaled = np.exp(start[wide] + log_ndtr(second[:-1][wide])) - np.exp(start[wide] + log_ndtr(second[1:][wide]))
        upper[wide] = np.maximum(p - scaled, 0)
        lower[wide] = np.maximum(np.exp(width[wide]) * scaled - p, 0)
    return rate * lower / math.expm1(grid), rate * upper / -math.expm1(-grid)
