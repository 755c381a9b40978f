"""The dominating pair of a secret draw: against brute force, against K = 1, against what is known of it."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from scipy.stats import norm

from gossamer.privacy.accounting.calibrate import calibrate_noise
from gossamer.privacy.accounting.cost import bounds, guarantee
from gossamer.privacy.accounting.secret_draw import distribution
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation, Plan

slow = pytest.mark.slow


def answers(K: int, noise: float, steps: int, *, rows: int = 1) -> Plan:
    return [(SampledWithoutReplacementDpEvent(K, 1, GaussianDpEvent(noise / math.sqrt(rows))), steps)]


def pld(plan: Plan, *, delta: float = 1e-5, relation: NeighboringRelation = REPLACE_ONE) -> float:
    found = {bound.accountant: bound.guarantee for bound in bounds(plan, delta=delta, relation=relation)}
    return found["PLD"].epsilon


@pytest.mark.parametrize(
    ("K", "rows", "steps", "noise", "epsilon"),
    [
        (1000, 1, 640_000, 1.07, 5.508),
        (1000, 32, 20_000, 2.872, 6.915),
        (1000, 8, 20_000, 1.436, 6.915),
        (250, 32, 20_000, 4.400, 7.310),
        (100, 16, 5_000, 3.641, 6.526),
        (1000, 1, 320_000, 0.772, 7.546),
        (1000, 1, 320_000, 2.516, 1.0),
        (100, 16, 5_000, 3.036, 10.0),
        (100, 16, 5_000, 12.15, 1.0),
    ],
)
def test_golden(K: int, rows: int, steps: int, noise: float, epsilon: float) -> None:
    """Figures that were worked out apart from this code, on a coarser grid in part, to 1e-3 of them."""
    assert pld(answers(K, noise, steps, rows=rows)) == pytest.approx(epsilon, rel=1e-3)


def test_the_published_noise_lies_above_what_no_valid_figure_can_go_below() -> None:
    """K 1000, 640,000 answers of one row, noise multiplier 1.07: 4.118 is the loss of the best attack on one known pair."""
    assert 4.118 < pld(answers(1000, 1.07, 640_000)) < 5.51


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (5.0, 100), (0.7, 3)])
def test_with_one_part_it_is_the_plain_gaussian(noise: float, steps: int) -> None:
    """Exact: Balle and Wang 2018, theorem 8, for mu = sqrt(steps) / noise."""
    mu, delta = math.sqrt(steps) / noise, 1e-5
    epsilon = pld(answers(1, noise, steps), delta=delta)
    exact = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert exact == pytest.approx(delta, rel=2e-3)
    assert exact <= delta


def hockey_stick(gamma: float, p: np.ndarray, q: np.ndarray, area: float) -> float:
    return float(np.maximum(p - gamma * q, 0).sum() * area)


@pytest.mark.parametrize(
    ("K", "noise"), [pytest.param(2, 0.5, marks=slow), (4, 1.0), pytest.param(10, 0.4, marks=slow)]
)
def test_it_dominates_every_triple_in_the_ball(K: int, noise: float) -> None:
    """200 random triples of answers in the plane, each two of them at most 1 apart, and the extreme ones; all 9 gammas.

    A, B: the answers of the record's part before and after, R: a mixture of two other parts. The bound is met where R = B, so
    the integrals, on a grid of 1/20 of the noise, are allowed the error that they have there: 3 thousandths.
    """
    rng = np.random.default_rng(5)
    step = noise / 20
    axis = np.arange(-0.8 - 6 * noise, 1.8 + 6 * noise, step)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    triples = [[(1, 0), (0, 0), (0, 0), (0, 0)], [(0, 0), (1, 0), (0, 0), (0, 0)], [(1, 0), (0, 0), (1, 0), (1, 0)]]
    triples += [[(0, 0), (1, 0), (0.5, 3**0.5 / 2), (0.5, 3**0.5 / 2)], [(0, 0), (1, 0), (0, 0), (1, 0)]]
    while len(triples) < 200:
        found = rng.uniform(0, 1, (4, 2))
        if max(np.linalg.norm(a - b) for a in found for b in found) <= 1:
            triples.append(found.tolist())
    pair = distribution(1 / K, noise, 1e-3)
    gammas = np.exp(np.array([-2.0, -0.5, -0.1, 0.0, 0.01, 0.1, 0.5, 1.0, 2.0]))
    most = np.zeros(len(gammas))
    for triple in triples:
        A, B, R, S = (
            np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * noise**2)) / (2 * math.pi * noise**2) for a, b in triple
        )
        others = (R + S) / 2
        p, q = (1 - 1 / K) * others + A / K, (1 - 1 / K) * others + B / K
        for i, gamma in enumerate(gammas):
            exact = hockey_stick(gamma, p, q, step**2)
            most[i] = max(most[i], exact)
            assert exact <= 1.003 * pair.get_delta_for_epsilon(math.log(gamma))
    bound = np.array([pair.get_delta_for_epsilon(math.log(gamma)) for gamma in gammas])
    assert (most > 0.997 * bound).all()  # and nothing smaller would do


@pytest.mark.parametrize(
    ("K", "noise", "grid"), [(1000, 1.07, 1e-4), (100, 0.3, 1e-4), (7, 2.0, 1e-2), (10**6, 10.0, 1e-6)]
)
def test_the_grid_is_the_curve_at_its_dots_and_above_it_between(K: int, noise: float, grid: float) -> None:
    pair = distribution(1 / K, noise, grid)

    def curve(epsilon: float) -> float:
        inner = math.log1p(math.expm1(epsilon) * K)
        first, second = norm.logcdf(0.5 / noise - inner * noise), norm.logcdf(-0.5 / noise - inner * noise)
        return float(math.exp(first) * -math.expm1(inner + second - first) / K)

    for cell in (0, 1, 5, 50, 500, 5_000):
        if curve(cell * grid) > 1e-18:
            assert pair.get_delta_for_epsilon(cell * grid) == pytest.approx(curve(cell * grid), rel=1e-9)
            assert pair.get_delta_for_epsilon((cell + 0.5) * grid) >= curve((cell + 0.5) * grid) * (1 - 1e-9)
            mirrored = 1 - math.exp(-cell * grid) + math.exp(-cell * grid) * curve(cell * grid)
            assert pair.get_delta_for_epsilon(-cell * grid) == pytest.approx(mirrored, rel=1e-9)
    assert pair.get_delta_for_epsilon(1e6) == pytest.approx(0, abs=1e-22)


def test_it_composes_with_other_releases_under_add_or_remove_one() -> None:
    secret = answers(1000, 1.0, 10_000)
    poisson: Plan = [(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 1_000)]
    alone = [guarantee(plan, delta=1e-5, relation=ADD_OR_REMOVE_ONE).epsilon for plan in (secret, poisson)]
    both = guarantee([*secret, *poisson], delta=1e-5, relation=ADD_OR_REMOVE_ONE).epsilon
    assert max(alone) < both < sum(alone)
    assert alone[0] == guarantee(secret, delta=1e-5, relation=REPLACE_ONE).epsilon


def test_no_noise_is_no_promise() -> None:
    assert math.isinf(guarantee(answers(10, 0.0, 5), delta=1e-5, relation=REPLACE_ONE).epsilon)


@pytest.mark.parametrize(
    ("K", "rows", "steps", "epsilon", "noise"),
    [
        (100, 16, 5_000, 10.0, 3.036),
        pytest.param(1000, 32, 20_000, 10.0, 2.630, marks=slow),
        pytest.param(1000, 1, 320_000, 1.0, 2.516, marks=slow),
    ],
)
def test_calibration_meets_the_target(K: int, rows: int, steps: int, epsilon: float, noise: float) -> None:
    found = calibrate_noise(
        lambda value: answers(K, value, steps, rows=rows), epsilon=epsilon, delta=1e-5, relation=REPLACE_ONE
    )
    assert found == pytest.approx(noise, rel=2e-3)
    assert 0.999 * epsilon <= guarantee(answers(K, found, steps, rows=rows), delta=1e-5, relation=REPLACE_ONE).epsilon
