"""The other figures of a certificate: each is an upper bound, and the one that it says it is."""

import itertools
import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from gossamer.errors import LedgerDamaged
from gossamer.intervals import proportion
from gossamer.privacy.accounting import accountants, cost
from gossamer.privacy.accounting.events import plan_of, poisson_gaussian, without_privacy
from gossamer.privacy.certificate.figures import CELLS, figures, noisy_distance, noisy_share, purposes, smaller
from gossamer.privacy.guarantee import REPLACE_ONE, Plan
from gossamer.privacy.ledger import PrivacyLedger

SAMPLED = poisson_gaussian(sampling_rate=0.01, noise_multiplier=1.0)
ONCE = poisson_gaussian(sampling_rate=1.0, noise_multiplier=4.0)


def of(plan: Plan, *, settings: dict[str, Any] | None = None, reason: str = "", **terms: Any) -> dict[str, Any]:
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, **terms)
    ledger.reserve(plan)
    if reason:
        ledger.declassify(reason)
    return figures(ledger, settings or {"components": purposes([("training", plan)])})


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """Balle and Wang 2018, theorem 8."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def test_epsilon_at_three_deltas_is_what_the_accountants_say_there() -> None:
    found = of([(SAMPLED, 400), (ONCE, 1)])["at_deltas"]
    assert [each["delta"] for each in found] == [1e-5, 1e-7, 1e-9]
    for each in found:
        assert each["epsilon"] == cost.guarantee([(SAMPLED, 400), (ONCE, 1)], delta=each["delta"]).epsilon
    epsilons = [each["epsilon"] for each in found]
    assert all(smaller_one < larger for smaller_one, larger in itertools.pairwise(epsilons))


@pytest.mark.parametrize(("delta", "digits", "result"), [(1e-5, 2, 1e-7), (3e-4, 4, 3e-8), (1.23e-6, 2, 1.23e-8)])
def test_a_smaller_delta_has_the_same_digits(delta: float, digits: int, result: float) -> None:
    assert smaller(delta, digits) == result


def test_mu_of_gaussians_over_everyone_is_exact() -> None:
    found = of([(ONCE, 2), (poisson_gaussian(sampling_rate=1.0, noise_multiplier=3.0), 5)])
    mu = found["gdp"]["mu"]
    assert mu == pytest.approx(math.sqrt(2 / 16 + 5 / 9), rel=1e-12)
    assert "exact" in found["gdp"]["about"]
    for each in found["at_deltas"]:  # the privacy loss distribution is a grid from above
        assert delta_of_gaussian(each["epsilon"], mu) == pytest.approx(each["delta"], rel=1e-2)


@pytest.mark.parametrize(
    ("plan", "terms"),
    [
        ([(SAMPLED, 100)], {}),
        (plan_of(draw="secret", critics=10, batch_size=4, noise_multiplier=8.0, steps=50), {"relation": REPLACE_ONE}),
        (plan_of(draw="paper", critics=10, batch_size=4, noise_multiplier=8.0, steps=50), {}),
        (plan_of(draw="round_robin", critics=10, batch_size=4, noise_multiplier=8.0, steps=50), {}),
    ],
)
def test_mu_is_an_upper_bound_at_every_delta_stated(plan: Plan, terms: dict[str, Any]) -> None:
    found = of(plan, **terms)
    for each in found["at_deltas"]:
        assert delta_of_gaussian(each["epsilon"], found["gdp"]["mu"]) >= each["delta"] * (1 - 1e-2)
    event, _ = plan[0]
    exact = type(event).__name__ == "GaussianDpEvent"
    assert ("exact" in found["gdp"]["about"]) == exact
    if not exact:
        assert "loose" in found["gdp"]["about"]


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_no_smaller_mu_would_hold_for_a_sampled_gaussian(share: float) -> None:
    """Far out the sampled release is worse than a Gaussian of any smaller mu; so what the certificate says is no excuse."""
    rate, s = 0.01, 1.0

    def log_delta(epsilon: float, mu: float) -> float:
        first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(first + np.log1p(-np.exp(second - first)))

    epsilon = 20 * math.log(1 / rate) / (1 / share - 1)
    raised = epsilon - math.log(rate)  # log((e^epsilon - 1 + rate) / rate), this far out
    assert math.log(rate) + log_delta(raised, 1 / s) > log_delta(epsilon, share / s)


@pytest.mark.parametrize(
    "plan", [[(without_privacy(), 1)], [(poisson_gaussian(sampling_rate=0.1, noise_multiplier=0), 3)]]
)
def test_without_noise_every_figure_is_infinity(plan: Plan) -> None:
    found = of(plan)
    assert [each["epsilon"] for each in found["at_deltas"]] == ["inf"] * 3
    assert found["gdp"]["mu"] == "inf"
    assert found["rdp"] is None or set(found["rdp"]["epsilon"]) == {"inf"}
    assert [each["alone"]["epsilon"] for each in found["components"]] == ["inf"]


def test_a_delta_below_the_end_of_the_noise_has_no_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run at a very small delta is certified; of the smaller deltas in the table, the certificate promises nothing."""
    monkeypatch.setattr(accountants, "NOISE_END", 1e-9)
    epsilons = [entry["epsilon"] for entry in of([(ONCE, 1)])["at_deltas"]]
    assert epsilons[2] == "inf" and 0 < epsilons[0] < epsilons[1]


def test_after_a_declassify_every_figure_is_infinity() -> None:
    found = of([(SAMPLED, 100), (ONCE, 1)], reason="a test looked")
    assert [each["epsilon"] for each in found["at_deltas"]] == ["inf"] * 3
    assert (found["gdp"]["mu"], found["rdp"]) == ("inf", None)
    assert [each["alone"]["epsilon"] for each in found["components"]] == ["inf", "inf"]


def test_the_renyi_curve_is_that_of_gaussians_and_adds_up() -> None:
    """Order times n / (2 s^2); and whoever adds two curves, and converts, gets a bound on both runs together."""
    curve = of([(ONCE, 3)])["rdp"]
    for order, value in zip(curve["orders"], curve["epsilon"], strict=True):
        assert value == pytest.approx(order * 3 / (2 * 16), rel=1e-12)
    other = of([(SAMPLED, 400)])["rdp"]
    assert other["orders"] == curve["orders"]
    both = np.add(curve["epsilon"], other["epsilon"])
    added = float(dp_accounting.rdp.compute_epsilon(curve["orders"], both.tolist(), 1e-5)[0])
    right = {
        bound.accountant: bound.guarantee.epsilon for bound in cost.bounds([(ONCE, 3), (SAMPLED, 400)], delta=1e-5)
    }
    assert right["RDP"] <= added <= 1.02 * right["RDP"]


def test_the_curve_of_revealed_draws_is_of_their_own_accountant() -> None:
    curve = of(plan_of(draw="paper", critics=10, batch_size=4, noise_multiplier=8.0, steps=50))["rdp"]
    assert curve["accountant"] == "revealed RDP"
    assert 2.0 in curve["orders"]
    exact = 50 * math.log(0.9 + 0.1 * math.exp(1 / 16))
    assert curve["epsilon"][curve["orders"].index(2.0)] == pytest.approx(exact, rel=1e-9)


def test_each_component_is_named_with_its_event_and_its_cost_alone() -> None:
    settings = {"components": purposes([("warm start", []), ("votes", [(ONCE, 1)]), ("training", [(SAMPLED, 400)])])}
    found = of([(ONCE, 1), (SAMPLED, 400)], settings=settings)["components"]
    assert [(each["purpose"], each["count"]) for each in found] == [("votes", 1), ("training", 400)]
    for each, plan in zip(found, ([(ONCE, 1)], [(SAMPLED, 400)]), strict=True):
        alone = cost.guarantee(plan, delta=1e-5)
        assert each["alone"] == {"epsilon": alone.epsilon, "delta": 1e-5}
    assert found[0]["event"] == {"event": "Gaussian", "noise_multiplier": 4.0}
    whole = cost.guarantee([(ONCE, 1), (SAMPLED, 400)], delta=1e-5).epsilon
    assert max(each["alone"]["epsilon"] for each in found) < whole < sum(each["alone"]["epsilon"] for each in found)


def test_an_event_that_two_phases_share_is_told_apart_by_its_purpose() -> None:
    settings = {"components": purposes([("votes", [(ONCE, 1)]), ("moments", [(ONCE, 2)])])}
    found = of([(ONCE, 3)], settings=settings)["components"]
    assert [(each["purpose"], each["count"]) for each in found] == [("votes", 1), ("moments", 2)]


@pytest.mark.parametrize("plan", [[(ONCE, 2)], [(SAMPLED, 1)], [(ONCE, 1), (SAMPLED, 1)], []])
def test_components_that_are_not_the_reserved_plan_are_refused(plan: Plan) -> None:
    with pytest.raises(LedgerDamaged, match="not what the ledger reserved"):
        of([(ONCE, 1)], settings={"components": purposes([("training", plan)])})


def test_noisy_counts_without_noise_have_wilsons_interval() -> None:
    plain, noisy = proportion(90, 100, ""), noisy_share(90.0, 10.0, 0.0)
    assert noisy == pytest.approx((plain.low, plain.value, plain.high))


@pytest.mark.parametrize(
    ("n", "share", "noise"), [(500, 0.9, 10.0), (5000, 0.95, 60.0), (100, 0.99, 10.0), (3000, 0.5, 5.0)]
)
def test_intervals_of_noisy_counts_cover_noise_and_sampling(n: int, share: float, noise: float) -> None:
    draw = np.random.default_rng(0)
    right = draw.binomial(n, share, size=2000)
    errors = draw.normal(scale=noise, size=(2, 2000))
    found = [noisy_share(r + one, n - r + other, noise) for r, one, other in zip(right, *errors, strict=True)]
    covered = np.mean([low <= share <= high for low, _, high in found])
    assert 0.93 < covered < 0.98  # most at 0.99 of 100, where many counts are beyond the scale


def test_noise_that_may_cover_all_counts_leaves_nothing_known() -> None:
    for counts in ((10.0, -3.0), (-20.0, 5.0), (30.0, 2.0)):
        found = noisy_share(*counts, 10.0)
        assert (found[0], found[2]) == (0, 1)


def test_noisy_counts_beyond_the_scale_stay_on_it() -> None:
    found = noisy_share(1010.0, -10.0, 5.0)
    assert found[1] == found[2] == 1
    assert 0.98 < found[0] < 1


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize(
    ("columns", "off", "noise"), [(12, 0.0, 80.0), (12, 0.02, 80.0), (2, 0.05, 40.0), (3, 0.0, 40.0)]
)
def test_intervals_of_errors_cover_noise(columns: int, off: float, noise: float, below: bool) -> None:
    """4,000 records, of which samples have a share of `off` too many in one cell of each column, and too few in the next."""
    draw, shares = np.random.default_rng(0), np.tile([0.1, 0.2, 0.3, 0.4], (columns, 1))
    counts, samples = 4_000 * shares, shares + np.array([off, -off, 0, 0])
    true, totals = (off / 3**0.5, np.tri(CELLS)[:-1]) if below else (off / 2**0.5, np.eye(CELLS))
    noisy = counts + draw.normal(scale=noise, size=(1_000, columns, CELLS))
    found = np.array([noisy_distance(each, samples, noise, totals) for each in noisy])
    covered = np.mean((found[:, 0] <= true) & (true <= found[:, 2]))
    assert (
        0.93 < covered < (1.01 if below else 0.99)
    )  # sums of cells have unlike variances: the bound takes the largest
    assert np.all((found[:, 0] <= found[:, 1]) & (found[:, 1] <= found[:, 2]))
    exact = noisy_distance(counts, samples, 0.0, totals)
    assert exact == pytest.approx((true, true, true))
    assert noisy_distance(noisy[0] / 100, samples, noise, totals) == (0, 0.5, 1)
