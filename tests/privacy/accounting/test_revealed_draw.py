"""Releases whose draw is known: the closed form against quadrature and Monte Carlo, golden numbers, refusals."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from scipy.stats import binom, norm

from gossamer.errors import BudgetError, LedgerDamaged
from gossamer.privacy.accounting.accountants import RevealedRdp
from gossamer.privacy.accounting.calibrate import calibrate_noise
from gossamer.privacy.accounting.cost import Odometer, bounds, guarantee
from gossamer.privacy.accounting.event_json import event_from_json, event_to_json
from gossamer.privacy.accounting.revealed_draw import RevealedDrawGaussianDpEvent, RevealedMixture
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, REPLACE_ONE, Plan


def plan(parts: int, noise: float, steps: int) -> Plan:
    return [(RevealedDrawGaussianDpEvent(parts, noise), steps)]


def figures(plan: Plan, delta: float = 1e-5) -> dict[str, float]:
    return {bound.accountant: bound.guarantee.epsilon for bound in bounds(plan, delta=delta)}


def plain_delta(parts: int, noise: float, steps: int, epsilon: float) -> float:
    """The mixture written out, count by count, with the textbook formula."""
    total = 0.0
    for n in range(1, steps + 1):
        mu = math.sqrt(n) / noise
        gaussian = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        total += binom.pmf(n, steps, 1 / parts) * gaussian
    return total


def test_golden_at_the_published_setting() -> None:
    """K 1000, B 32, T 20,000, sigma 1.07: 610 by the closed form, 659 by Renyi divergence (accounting.md)."""
    found = figures(plan(1000, 1.07 / math.sqrt(32), 20_000))
    assert list(found) == ["revealed mixture", "revealed RDP"]
    assert found["revealed mixture"] == pytest.approx(610.35, abs=0.01)
    assert found["revealed RDP"] == pytest.approx(659.1, abs=0.1)


@pytest.mark.parametrize(("parts", "noise", "steps"), [(10, 2.0, 50), (3, 5.0, 30), (100, 1.0, 200)])
def test_the_closed_form_solves_the_mixture(parts: int, noise: float, steps: int) -> None:
    """At the epsilon found the plain sum is at most delta, and only just: a thousandth of delta is given to the cut."""
    for delta in (1e-3, 1e-5):
        epsilon = figures(plan(parts, noise, steps), delta)["revealed mixture"]
        assert 0.998 * delta < plain_delta(parts, noise, steps, epsilon) <= delta


def test_the_closed_form_against_drawn_losses() -> None:
    """200,000 simulated runs: delta is the mean of (1 - exp(epsilon - loss)) over losses above epsilon; error rate 1e-6."""
    parts, noise, steps, epsilon = 4, 2.0, 12, 1.5
    draw = np.random.default_rng(0)
    mu = np.sqrt(draw.binomial(steps, 1 / parts, 200_000)) / noise
    loss = mu**2 / 2 + mu * draw.standard_normal(200_000)
    shares = np.maximum(0, -np.expm1(np.minimum(epsilon - loss, 0)))
    error = 4.892 * shares.std() / math.sqrt(len(shares))
    assert abs(shares.mean() - plain_delta(parts, noise, steps, epsilon)) < error


def test_one_part_is_a_plain_composition() -> None:
    found = figures(plan(1, 2.0, 10))["revealed mixture"]
    assert found == pytest.approx(dp_accounting.get_epsilon_gaussian(2.0 / math.sqrt(10), 1e-5), rel=1e-6)


def test_two_kinds_of_answers_add_up() -> None:
    """Two events of one part each are one Gaussian; the mixture and the curve both say so."""
    both = [*plan(1, 2.0, 3), *plan(1, 4.0, 4)]
    exact = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(3 / 4 + 4 / 16), 1e-5)
    assert figures(both)["revealed mixture"] == pytest.approx(exact, rel=1e-6)
    assert figures(both)["revealed RDP"] >= exact


def test_renyi_divergence_is_above_the_closed_form_and_near_it() -> None:
    for parts, noise, steps in [(10, 3.0, 100), (1000, 2.0, 5_000), (50, 0.5, 500)]:
        found = figures(plan(parts, noise, steps))
        assert found["revealed mixture"] < found["revealed RDP"] < 1.5 * found["revealed mixture"]


def test_it_is_never_cheaper_than_the_draw_kept_secret_and_monotone() -> None:
    series = [figures(plan(100, noise, 500))["revealed mixture"] for noise in (8.0, 4.0, 2.0, 1.0)]
    assert series == sorted(series)
    series = [figures(plan(parts, 2.0, 500))["revealed mixture"] for parts in (1000, 100, 10)]
    assert series == sorted(series)


def test_no_noise_and_no_release() -> None:
    assert figures(plan(10, 0.0, 1)) == {"revealed mixture": math.inf, "revealed RDP": math.inf}
    assert guarantee(plan(10, 1.0, 0), delta=1e-5).epsilon == 0
    assert figures(plan(10**9, 1.0, 3))["revealed mixture"] == 0.0  # hardly ever drawn: less than delta in all


def test_other_accountants_refuse_the_event_and_these_refuse_others() -> None:
    mixed: Plan = [*plan(10, 1.0, 1), (GaussianDpEvent(1.0), 1)]
    with pytest.raises(BudgetError, match="RevealedDrawGaussianDpEvent"):
        bounds(mixed, delta=1e-5)
    for accountant in (RevealedMixture(), RevealedRdp()):
        assert not accountant.knows(GaussianDpEvent(1.0), ADD_OR_REMOVE_ONE)
    assert len(bounds(plan(10, 1.0, 1), delta=1e-5, relation=REPLACE_ONE)) == 2


@pytest.mark.parametrize(("parts", "noise"), [(0, 1.0), (10, -1.0), (10, math.inf), (10, math.nan)])
def test_events_out_of_range_are_refused(parts: int, noise: float) -> None:
    with pytest.raises(BudgetError, match="cannot be drawn"):
        bounds(plan(parts, noise, 1), delta=1e-5)


def test_the_event_survives_json_and_damage_is_refused() -> None:
    event = RevealedDrawGaussianDpEvent(1000, 0.189)
    assert event_from_json(event_to_json(event)) == event
    for damage in ({"population": 0}, {"population": 1.5}, {"noise_multiplier": -1.0}, {"more": 1}):
        with pytest.raises(LedgerDamaged):
            event_from_json({**event_to_json(event), **damage})


def test_the_odometer_shows_it() -> None:
    odometer = Odometer(plan(10, 3.0, 100), delta=1e-5)
    assert odometer.epsilon([0]) == 0
    assert odometer.epsilon([40]) == pytest.approx(figures(plan(10, 3.0, 40))["revealed RDP"], rel=1e-9)


def test_noise_for_an_epsilon() -> None:
    noise = calibrate_noise(lambda value: plan(1000, value / math.sqrt(32), 20_000), epsilon=10, delta=1e-5)
    assert 9.99 <= guarantee(plan(1000, noise / math.sqrt(32), 20_000), delta=1e-5).epsilon <= 10
