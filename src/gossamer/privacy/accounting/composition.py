"""What several runs on the same records cost together, where they may differ in method, relation and unit.

Runs whose events one accountant knows are composed like the releases of one run. The rest is added by basic composition:
epsilons and deltas add (Dwork and Roth 2014, theorem 3.16). Delta is split evenly beforehand.

**Relations.** Runs that all state one relation for one unit have a total under that relation, as their certificates do.
Others have a total for add-or-remove-one wherever every run can. A run of secret draws, stated for replace-one, can. Its
records go to shards at random and independently, so adding or removing a record changes one shard too
(`sanitized_rows.py`). A federated run cannot, because one more client changes the draws and the turns. All other totals
are for replace-one, which is two steps of add-or-remove-one.

**Units.** Runs that protect different units have a total for the record only. A promise for a writer covers each record of
the writer, and a promise for a record covers no writer. To take one record from a writer is to exchange the writer: two steps.

k steps of (epsilon, delta) are (k epsilon, (1 + e^epsilon + ... + e^((k-1) epsilon)) delta) (Vadhan 2017, lemma 2.2).

**What is assumed.** The plans of later runs do not follow from what earlier runs released. Where they do, Renyi bounds of an
order fixed beforehand still add (Feldman and Zrnic 2021). For privacy loss distributions that is not known.
"""

import dataclasses
import math
from collections.abc import Sequence

from dp_accounting import SampledWithoutReplacementDpEvent
from scipy.special import logsumexp

from gossamer.privacy.accounting import cost
from gossamer.privacy.accounting.accountants import Accountant, FlatPlan, Pld, accountants_for, bound, flatten
from gossamer.privacy.accounting.cost import Bound, smallest
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, REPLACE_ONE, Guarantee, NeighboringRelation, Plan

RECORD = "record"
"""The smallest unit: every other one is made of records."""
MOST_FOR_PLD = 24
"""Different events beyond which the privacy loss distributions (0.2 s each) are left to one side; Renyi bounds remain."""
_LEAST = 1e-300


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunCost:
    """What one run may release, for adding up.

    Args:
        plan: its mechanisms.
        relation: which data sets are neighbours.
        unit: whose contribution is protected.
        infinite: it has no guarantee, whatever its plan says.
        by_client: its answers were sampled among clients, so its plan says nothing about one more client.
    """

    plan: Plan
    relation: NeighboringRelation
    unit: str
    infinite: bool = False
    by_client: bool = False


@dataclasses.dataclass(frozen=True)
class _Family:
    """Runs that one accountant can compose, and how many of their own steps one step of the total takes."""

    plan: FlatPlan
    relation: NeighboringRelation
    steps: int


def together(runs: Sequence[RunCost], *, delta: float) -> tuple[Bound, ...]:
    """Bound what the runs (at least one) cost together: by every accountant that knows all events, or by basic composition.

    The smallest bound counts. Epsilon is infinity where a run has no guarantee, or where nothing adds them.

    Raises:
        BudgetError: delta is out of range, or no accountant knows the events of a run.
    """
    units = {run.unit for run in runs}
    unit = units.pop() if len(units) == 1 else RECORD
    stated = {run.relation for run in runs}
    own = (REPLACE_ONE,) if stated == {REPLACE_ONE} and all(run.unit == unit for run in runs) else ()
    for relation in (*own, ADD_OR_REMOVE_ONE, REPLACE_ONE):
        steps = [_steps(run, relation, unit) for run in runs]
        if all(steps):
            break
    else:
        relation = ADD_OR_REMOVE_ONE
    terms = Guarantee(epsilon=math.inf, delta=delta, relation=relation, unit=unit)
    if not all(steps) or any(run.infinite for run in runs):
        return (Bound("none", terms),)
    families = _families(runs, steps, relation)
    if len(families) == 1 and families[0].steps == 1:
        return _bounds(families[0].plan, families[0].relation, terms)
    epsilon = sum(_epsilon(family, delta / len(families)) for family in families)
    return (Bound("basic composition", Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)),)


def _steps(run: RunCost, relation: NeighboringRelation, unit: str) -> int:
    """The most steps of the run's own kind that one step of (relation, unit) takes; 0: no bound."""
    if run.relation is REPLACE_ONE and relation is REPLACE_ONE and run.unit == unit:
        return 1
    if not _holds_for_adding(run):
        return 0
    return (1 if relation is ADD_OR_REMOVE_ONE else 2) * (1 if run.unit == unit else 2)


def _holds_for_adding(run: RunCost) -> bool:
    """Whether the run's plan bounds add-or-remove-one too."""
    if run.relation is ADD_OR_REMOVE_ONE or run.by_client:
        return run.relation is ADD_OR_REMOVE_ONE
    secret = all(isinstance(event, SampledWithoutReplacementDpEvent) for event, _ in run.plan)
    return secret and bool(accountants_for(flatten(run.plan), ADD_OR_REMOVE_ONE))


def _families(runs: Sequence[RunCost], steps: Sequence[int], stated: NeighboringRelation) -> list[_Family]:
    """The runs in as few families as the accountants allow, for a total under `stated`."""
    alike: dict[tuple[int, NeighboringRelation], list[RunCost]] = {}
    for run, count in zip(runs, steps, strict=True):
        alike.setdefault((count, stated if count == 1 else ADD_OR_REMOVE_ONE), []).append(run)
    return [
        _Family(plan, relation, count) for (count, relation), group in alike.items() for plan in _known(group, relation)
    ]


def _known(runs: Sequence[RunCost], relation: NeighboringRelation) -> list[FlatPlan]:
    """Their plans as one, if an accountant knows all of it; else one for each set of accountants."""
    whole = flatten([entry for run in runs for entry in run.plan])
    if accountants_for(whole, relation):
        return [whole]
    by_accountant: dict[tuple[str, ...], list[RunCost]] = {}
    for run in runs:
        names = tuple(accountant.name for accountant in accountants_for(flatten(run.plan), relation))
        by_accountant.setdefault(names, []).append(run)
    return [flatten([entry for run in group for entry in run.plan]) for group in by_accountant.values()]


def _bounds(plan: FlatPlan, relation: NeighboringRelation, terms: Guarantee) -> tuple[Bound, ...]:
    """By every accountant that knows the plan, but for PLD where it would take minutes."""
    if len(plan) <= MOST_FOR_PLD:
        return cost.bounds(plan, delta=terms.delta, relation=relation, unit=terms.unit)
    bounds = ((used.name, bound(used, plan, delta=terms.delta, relation=relation)) for used in _quick(plan, relation))
    return tuple(Bound(name, dataclasses.replace(terms, epsilon=epsilon)) for name, epsilon in bounds)


def _quick(plan: FlatPlan, relation: NeighboringRelation) -> Sequence[Accountant]:
    """Those that take no time, if there are any."""
    able = accountants_for(plan, relation)
    return [accountant for accountant in able if not isinstance(accountant, Pld)] or able


def _epsilon(family: _Family, delta: float) -> float:
    """Epsilon of a family at delta, for one step of the total."""
    part = delta if family.steps == 1 else _part(family, delta)
    if part == 0:
        return math.inf
    terms = Guarantee(epsilon=math.inf, delta=part, relation=family.relation, unit=RECORD)
    return family.steps * smallest(_bounds(family.plan, family.relation, terms)).epsilon


def _part(family: _Family, delta: float) -> float:
    """A delta for one own step that several steps carry no further than `delta`; 0 where none is found.

    Found with the quick accountants: a smaller epsilon carries it less far.
    """
    quick = _quick(family.plan, family.relation)
    log_part = math.log(delta / family.steps)
    while log_part >= math.log(_LEAST):
        part = math.exp(log_part)
        epsilon = min(bound(accountant, family.plan, delta=part, relation=family.relation) for accountant in quick)
        grown = float(logsumexp([step * epsilon for step in range(family.steps)]))
        if log_part + grown <= math.log(delta):
            return part
        # Half of what this epsilon allows, because the next one is larger. So each turn at least halves the delta.
        log_part = math.log(delta) - grown - math.log(2)
    return 0.0
