"""What several runs cost together, against exact figures of one Gaussian and against the accountants of one run."""

import dataclasses
import math

import pytest
from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent
from scipy.optimize import brentq
from scipy.special import log_ndtr

from gossamer.privacy.accounting import composition, cost
from gossamer.privacy.accounting.accountants import accountants_for, flatten
from gossamer.privacy.accounting.composition import RunCost, together
from gossamer.privacy.accounting.cost import smallest
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.accounting.revealed_draw import RevealedDrawGaussianDpEvent
from gossamer.privacy.budget_log import Charge
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, REPLACE_ONE

DELTA = 1e-5
POISSON = poisson_gaussian(sampling_rate=0.01, noise_multiplier=1.0)
OTHER = poisson_gaussian(sampling_rate=0.02, noise_multiplier=2.0)


def run(event, count, relation=ADD_OR_REMOVE_ONE, unit="record", **more):
    return RunCost(plan=((event, count),), relation=relation, unit=unit, **more)


def exact(noise: float, delta: float) -> float:
    """Epsilon of one Gaussian (Balle and Wang 2018, theorem 8)."""
    mu = 1 / noise

    def excess(epsilon: float) -> float:
        low = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return math.exp(log_ndtr(mu / 2 - epsilon / mu)) - math.exp(low) - delta

    return float(brentq(excess, 0, 200))


def test_alike_runs_cost_what_one_run_of_both_would() -> None:
    both = together([run(POISSON, 300), run(POISSON, 700)], delta=DELTA)
    assert both == cost.bounds([(POISSON, 1_000)], delta=DELTA)
    assert {bound.accountant for bound in both} == {"RDP", "PLD"}


def test_different_runs_are_composed_not_added() -> None:
    alone = [smallest(together([each], delta=DELTA)).epsilon for each in (run(POISSON, 1_000), run(OTHER, 1_000))]
    total = smallest(together([run(POISSON, 1_000), run(OTHER, 1_000)], delta=DELTA))
    assert total == cost.guarantee([(POISSON, 1_000), (OTHER, 1_000)], delta=DELTA)
    assert max(alone) < total.epsilon < sum(alone)


def test_two_gaussians_are_the_exact_one() -> None:
    total = smallest(together([run(GaussianDpEvent(2.0), 1), run(GaussianDpEvent(2.0), 1)], delta=DELTA)).epsilon
    assert exact(math.sqrt(2), DELTA) <= total <= 1.01 * exact(math.sqrt(2), DELTA)


def test_a_run_without_a_guarantee_makes_the_sum_infinite() -> None:
    total = smallest(together([run(POISSON, 10), run(POISSON, 10, infinite=True)], delta=DELTA))
    assert math.isinf(total.epsilon)
    free = run(poisson_gaussian(sampling_rate=0.1, noise_multiplier=0), 1)
    assert math.isinf(smallest(together([free, run(POISSON, 10)], delta=DELTA)).epsilon)


def test_events_that_no_accountant_knows_together_are_added_with_delta_shared_out() -> None:
    """Revealed draws have accountants of their own: epsilons add at half of delta each."""
    revealed = run(RevealedDrawGaussianDpEvent(100, 2.0), 50)
    (bound,) = together([run(POISSON, 1_000), revealed, run(OTHER, 10)], delta=DELTA)
    assert bound.accountant == "basic composition"
    parts = [
        cost.guarantee([(POISSON, 1_000), (OTHER, 10)], delta=DELTA / 2).epsilon,
        cost.guarantee(revealed.plan, delta=DELTA / 2).epsilon,
    ]
    assert bound.guarantee.epsilon == pytest.approx(sum(parts))


def test_a_mixed_sum_is_two_steps_of_removing_and_adding() -> None:
    """A Gaussian for add-or-remove-one has half its multiplier for replace-one: the bound must not lie below that, exactly."""
    gaussian = run(GaussianDpEvent(2.0), 1)
    drawn = SampledWithoutReplacementDpEvent(2, 2, GaussianDpEvent(50.0))
    other = run(drawn, 1, relation=REPLACE_ONE)  # not known to hold for adding
    total = smallest(together([gaussian, other], delta=DELTA))
    assert total.relation is REPLACE_ONE
    true = exact(1 / math.hypot(2 / 2.0, 1 / 50.0), DELTA)
    assert true <= total.epsilon <= 2.5 * true
    assert total.epsilon > exact(2.0, DELTA), "not the figure of one step"


def test_two_steps_spend_the_delta_that_the_formula_says() -> None:
    """2 epsilon at (1 + e^epsilon) delta', with the epsilon that the accountants give at the delta' that was taken."""
    family = composition._Family(flatten([(GaussianDpEvent(1.0), 1)]), ADD_OR_REMOVE_ONE, 2)
    part, total = composition._part(family, DELTA), composition._epsilon(family, DELTA)
    epsilon = cost.guarantee(family.plan, delta=part).epsilon
    assert total == 2 * epsilon
    assert DELTA / 20 < (1 + math.exp(epsilon)) * part <= DELTA
    assert total >= exact(0.5, DELTA), "a Gaussian that moves by two sensitivities is the truth"


def test_four_steps_of_a_loud_plan_have_no_bound_rather_than_a_wrong_one() -> None:
    family = composition._Family(flatten([(GaussianDpEvent(0.01), 1)]), ADD_OR_REMOVE_ONE, 4)
    assert math.isinf(composition._epsilon(family, DELTA))


def test_different_units_are_added_for_the_record_in_two_steps() -> None:
    writers, records = run(POISSON, 200, unit="writer"), run(POISSON, 200)
    total = smallest(together([writers, records], delta=DELTA))
    assert (total.unit, total.relation) == ("record", ADD_OR_REMOVE_ONE)
    assert total.epsilon > smallest(together([records, records], delta=DELTA)).epsilon
    alike = smallest(together([writers, writers], delta=DELTA))
    assert alike.unit == "writer"
    assert alike.epsilon == smallest(together([records, records], delta=DELTA)).epsilon


def test_runs_of_two_larger_units_are_two_steps_of_a_record_though_one_family() -> None:
    """To exchange a writer or a hospital for another moves each sum by two sensitivities: no figure may lie below that."""
    runs = [run(GaussianDpEvent(4.0), 1, unit=unit) for unit in ("writer", "hospital")]
    (bound,) = together(runs, delta=DELTA)
    assert (bound.accountant, bound.guarantee.unit) == ("basic composition", "record")
    assert exact(1 / (2 * math.hypot(1 / 4, 1 / 4)), DELTA) <= bound.guarantee.epsilon < math.inf


def test_what_nothing_adds_is_infinite_and_not_forgotten() -> None:
    total = smallest(together([run(GaussianDpEvent(5.0), 1, REPLACE_ONE, "writer"), run(POISSON, 1)], delta=DELTA))
    assert math.isinf(total.epsilon)


def test_secret_draws_and_poisson_runs_have_a_finite_sum() -> None:
    secret = run(SampledWithoutReplacementDpEvent(100, 1, GaussianDpEvent(2.0)), 500, relation=REPLACE_ONE)
    total = smallest(together([secret, run(POISSON, 500)], delta=DELTA))
    assert math.isfinite(total.epsilon)
    assert total.epsilon > smallest(together([secret], delta=DELTA)).epsilon
    known = accountants_for(flatten([*secret.plan, (POISSON, 1)]), ADD_OR_REMOVE_ONE)
    assert total.relation is (ADD_OR_REMOVE_ONE if known else REPLACE_ONE)


def test_draws_among_clients_elsewhere_say_nothing_of_one_client_more() -> None:
    """Shards have coins, clients have none: with runs of another relation too, such runs are added up for replace-one."""
    event = SampledWithoutReplacementDpEvent(100, 1, GaussianDpEvent(2.0))
    clients = run(event, 500, REPLACE_ONE, "client", by_client=True)
    alone = smallest(together([clients], delta=DELTA))
    assert alone.relation is REPLACE_ONE and math.isfinite(alone.epsilon)
    assert math.isfinite(smallest(together([clients, clients], delta=DELTA)).epsilon)
    adding = run(POISSON, 1, unit="client")
    assert smallest(together([clients, adding], delta=DELTA)).relation is REPLACE_ONE
    shards = dataclasses.replace(clients, by_client=False)
    assert smallest(together([shards, adding], delta=DELTA)).relation is ADD_OR_REMOVE_ONE
    assert math.isinf(smallest(together([clients, run(POISSON, 1)], delta=DELTA)).epsilon)


def test_runs_of_one_relation_and_unit_have_a_sum_under_it() -> None:
    """The certificate of such a run states its guarantee and its sum with the runs before it: one relation for both."""
    event = SampledWithoutReplacementDpEvent(100, 1, GaussianDpEvent(2.0))
    for count in (1, 2):
        total = smallest(together([run(event, 500, REPLACE_ONE)] * count, delta=DELTA))
        assert total == cost.guarantee([(event, 500 * count)], delta=DELTA, relation=REPLACE_ONE)
    units = [run(event, 500, REPLACE_ONE, unit) for unit in ("record", "writer")]
    assert smallest(together(units, delta=DELTA)).relation is ADD_OR_REMOVE_ONE


def test_the_book_knows_whose_draws_were_among_clients() -> None:
    """A line that lacks the entry is no line: a simulation would look like shards."""
    event = SampledWithoutReplacementDpEvent(100, 1, GaussianDpEvent(2.0))
    here = Charge(
        run="r", name="d", mark="m", date="2026-11-23", method="gs-wgan", folder="/run", plan=((event, 500),),
        relation=REPLACE_ONE, unit="client", delta=DELTA,
    )  # fmt: skip
    adding = run(POISSON, 1, unit="client")
    for charge, relation in (
        (here, ADD_OR_REMOVE_ONE),
        (dataclasses.replace(here, by_client=True), REPLACE_ONE),
        (Charge.from_json(here.to_json()), ADD_OR_REMOVE_ONE),
    ):
        others = dataclasses.replace(adding, unit=charge.unit)
        assert smallest(together([charge, others], delta=DELTA)).relation is relation
    for name in here.to_json():
        with pytest.raises((KeyError, ValueError)):
            Charge.from_json({key: value for key, value in here.to_json().items() if key != name})


def test_many_different_runs_are_summed_by_renyi_bounds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "MOST_FOR_PLD", 1)
    (bound,) = together([run(POISSON, 300), run(OTHER, 300)], delta=DELTA)
    assert bound.accountant == "RDP"
    assert bound.guarantee.epsilon >= cost.guarantee([(POISSON, 300), (OTHER, 300)], delta=DELTA).epsilon
