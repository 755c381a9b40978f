"""A Gaussian query of a Poisson-sampled batch: its privacy loss distribution.

It is that of dp_accounting's `from_gaussian_mechanism`, which inverts the privacy loss of one grid point after the other and
takes seconds. Here all points are inverted at once, by the same formulas. Both are equal to the last bit; a test compares them.
"""

import math

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

_SAME = 1e-9
"""Relative distance of losses that dp_accounting takes for equal."""


def distribution(rate: float, noise_multiplier: float, grid: float) -> PrivacyLossDistribution:
    """The dominating pair of one query under add-or-remove-one, on multiples of `grid`.

    rate: q, in (0, 1]; noise_multiplier: s, above 0; grid: width of a cell of privacy loss.
    """
    removed = _on_grid(AdjacencyType.REMOVE, rate, noise_multiplier, grid)
    if rate == 1:  # both orders have the same losses
        return PrivacyLossDistribution(removed)
    return PrivacyLossDistribution(removed, _on_grid(AdjacencyType.ADD, rate, noise_multiplier, grid))


def _on_grid(order: AdjacencyType, rate: float, noise_multiplier: float, grid: float) -> pld_pmf.PLDPmf:
    """The curve of one order, its dots connected (Doroshenko et al. 2022, algorithm 1)."""
    mechanism = GaussianPrivacyLoss(noise_multiplier, sampling_prob=rate, adjacency_type=order)
    ends = mechanism.connect_dots_bounds()
    first, last = math.floor(ends.epsilon_lower / grid), math.ceil(ends.epsilon_upper / grid)
    deltas = _deltas(mechanism, np.arange(first, last + 1) * grid, removing=order == AdjacencyType.REMOVE)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, first, last, deltas)


def _deltas(mechanism: GaussianPrivacyLoss, losses: np.ndarray, *, removing: bool) -> np.ndarray:
    """The smallest delta at each loss as epsilon. See dp_accounting's `AdditiveNoisePrivacyLoss.get_delta_for_epsilon`."""
    rate, sign = mechanism.sampling_prob, 1.0 if removing else -1.0
    end = sign * (math.log1p(-rate) if rate < 1 else -math.inf)  # no outcome has a loss beyond
    deltas = np.zeros_like(losses)
    inside = sign * losses > sign * end
    if removing:
        deltas[~inside] = -np.expm1(losses[~inside])
    losses = losses[inside]
    outcomes = -0.5 - sign * _without_sampling(sign * losses, rate) * mechanism.standard_deviation**2
    if not removing:
        outcomes = 1.0 + outcomes
    deltas[inside] = mechanism.mu_upper_cdf(outcomes) - np.exp(losses + mechanism.mu_lower_log_cdf(outcomes))
    return deltas.clip(0, 1)


def _without_sampling(losses: np.ndarray, rate: float) -> np.ndarray:
    """log(1 + (exp(loss) - 1) / rate): the loss of an outcome, had every record been in the batch."""
    if rate == 1:
        return losses
    whole, rest = 1 / rate, 1 / rate - 1
    grown = losses + np.log(whole)
    end = math.log(1 - rate)
    at_end = np.abs(losses - end) <= _SAME * np.maximum(np.abs(losses), abs(end))
    with np.errstate(divide="ignore", invalid="ignore"):
        shrunk = grown + np.log1p(-np.exp(np.log(rest) - grown))
    return np.where(at_end, -math.inf, np.where(losses == 0, np.log(whole - rest), shrunk))
