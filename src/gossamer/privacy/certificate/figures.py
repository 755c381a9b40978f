"""The other figures of a certificate: what a plan costs at other deltas, part by part, and as curves that others can compose.

Pure functions of the ledger and of the settings, like the words (`statements.py`). Every figure is an upper bound.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent

from gossamer.errors import LedgerDamaged
from gossamer.privacy.accounting import cost
from gossamer.privacy.accounting.accountants import CURVES, delta_left, flatten, rate_and_noise
from gossamer.privacy.guarantee import Plan, as_json
from gossamer.privacy.ledger import PrivacyLedger, merge, plan_from_json, plan_to_json

CELLS = 4
"""Of each column that a score compares."""
SMALLER = (0, 2, 4)
"""Digits by which delta shrinks: a certificate has epsilon at delta, delta / 100 and delta / 10,000."""
ORDERS = (
    1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 63, 128, 256, 512,
)  # fmt: skip
"""Of the Renyi curve in a certificate: enough to compose with, and few enough to be read."""

_TIGHT = "exact: no records are sampled, and Gaussian mechanisms compose to one Gaussian mechanism"
_NOT_TIGHT = (
    "an upper bound that ignores sampling, as if every unit were in every batch. It is valid but loose: the epsilons of this "
    "certificate are closer bounds"
)
_NO_MU = "infinity: a query has no noise"


def figures(ledger: PrivacyLedger, settings: dict[str, Any]) -> dict[str, Any]:
    """Epsilon at three deltas, mu of Gaussian DP, the Renyi curve, each component alone, look and score, as JSON.

    Raises:
        LedgerDamaged: if the components that the settings name are not what the ledger reserved.
    """
    return {
        "at_deltas": [_cost(ledger, merge(ledger.plan), smaller(ledger.delta, digits)) for digits in SMALLER],
        "gdp": gdp(ledger),
        "rdp": renyi_curve(ledger),
        "components": components(ledger, settings),
        **({} if ledger.look is None else {"look": look(settings, ledger.choice)}),
        **({} if ledger.score is None else {"score": score(ledger, **settings["score"])}),
    }


def look(settings: dict[str, Any], choice: int) -> dict[str, Any]:
    """Which method a noisy answer chose, and for what it is."""
    shows = str(settings["look"]["shows"][choice])
    said = f"A noisy look at the records chose the method {settings['method']}, for {shows}. Epsilon covers it."
    return {"shows": shows, "statement": said}


def score_weights(judge: str, categories: int = 0, numbers: int = 0) -> list[float]:
    """How much each sum of a score counts: two of a judge, then `CELLS` of each column. Half of the squares are the judge's.

    One of the two is true of a record, and one cell of each column, so that squares for a record add up to 1.
    """
    columns = categories + numbers
    of_judge = (0.5 if columns else 1.0) if judge else 0.0
    return [math.sqrt(of_judge)] * (2 if judge else 0) + [math.sqrt((1 - of_judge) / max(1, columns))] * CELLS * columns


def score(ledger: PrivacyLedger, noise_multiplier: float, judge: str, **columns: int) -> dict[str, Any]:
    """What samples are good for, from the noisy answer in the ledger: the accuracy of a judge, and errors of counts.

    Args:
        ledger: has a score.
        noise_multiplier: of the query.
        judge: what learnt from samples alone, in words; empty: nothing.
        columns: how many of each sort, see `kinds.score.Score`.

    Raises:
        LedgerDamaged: if the answer is not as long as the settings say.
    """
    weights, (answer, samples) = score_weights(judge, **columns), ledger.score or ([], [])
    found, said, after = dict[str, Any](), list[str](), 2 if judge else 0
    if (len(answer), len(samples)) != (len(weights), len(weights) - after):
        raise LedgerDamaged("the score is not as long as config.json says")
    sums, noise = np.divide(answer, weights).tolist(), noise_multiplier / weights[-1]
    if judge:
        low, value, high = noisy_share(sums[0], sums[1], noise_multiplier / weights[0])
        found |= {"accuracy": value, "low": low, "high": high}
        said.append(
            "The accuracy is unknown: noise covers the counts."
            if high - low == 1
            else f"{judge[:1].upper()}{judge[1:]} gets {100 * value:.1f} % of the private records right. The 95 % interval, "
            f"{100 * low:.1f} to {100 * high:.1f} %, covers noise and sampling. The run learnt from these records: on new ones "
            "it may be lower."
        )
    cells, shares = (np.reshape(part, (-1, CELLS)) for part in (sums[after:], samples))
    first = columns.get("categories", 0)
    for name, words, which, totals in (
        ("counts", "frequent values", slice(first), np.eye(CELLS)),
        ("quantiles", "numbers below quartiles", slice(first, None), np.tri(CELLS)[:-1]),
    ):
        if len(cells[which]):
            low, value, high = noisy_distance(cells[which], shares[which], noise, totals)
            found[name] = {"error": value, "low": low, "high": high}
            said.append(
                f"Shares of {words} in samples are off by {100 * value:.2f} points (root mean square; 95 % interval "
                f"{100 * low:.2f} to {100 * high:.2f})."
            )
    return {**found, "statement": " ".join([*said, "Epsilon covers this query."])}


def noisy_distance(
    counts: np.ndarray, shares: np.ndarray, noise: float, totals: np.ndarray
) -> tuple[float, float, float]:
    """The root mean square of differences of shares, between the ends of a 95 % interval that covers noise.

    A sum of squares with Gaussian noise has the mean T + D and at most the variance 2 Q + 4 L D. D is its value without noise,
    T and Q the traces of the covariance and of its square, and L its largest eigenvalue. The ends solve for D.

    Args:
        counts: noisy, [columns, cells]: each row has all records.
        shares: of samples, [columns, cells].
        noise: standard deviation of the noise on each count.
        totals: the sums of cells that are compared, [sums, cells].
    """
    n, many, z = counts.sum() / len(counts), len(counts) * len(totals), 1.959963984540054
    if n < 4 * noise:
        return 0.0, 0.5, 1.0
    values = np.linalg.eigvalsh((noise / n) ** 2 * totals @ totals.T)
    beyond = float(np.square((counts / n - shares) @ totals.T).sum() - len(counts) * values.sum())
    middle, square = beyond + 2 * z**2 * values[-1], beyond**2 - 2 * z**2 * len(counts) * np.square(values).sum()
    spread = math.sqrt(max(0.0, middle**2 - square))
    low, value, high = (math.sqrt(max(0.0, end) / many) for end in (middle - spread, beyond, middle + spread))
    return min(low, value), value, min(1.0, max(high, value))


def noisy_share(successes: float, failures: float, noise: float) -> tuple[float, float, float]:
    """A share from two noisy counts, between the ends of a 95 % interval that covers their noise and sampling.

    The ends p solve |successes - p n| = 1.96 sqrt(n p (1 - p) + noise^2 ((1 - p)^2 + p^2)), with n the sum of both (Fieller,
    JRSS B 1954). Without noise they are Wilson's. Where noise may cover all of n, the interval is from 0 to 1.

    Args:
        successes: a count with Gaussian noise.
        failures: the same of the others.
        noise: standard deviation of the noise on each.
    """
    n, z = successes + failures, 1.959963984540054
    if n < 1 or n < 2 * z * noise:
        return 0.0, 0.5, 1.0
    share, noise = min(1.0, max(0.0, successes / n)), noise / n
    spread = z * z * (1 / n - 2 * noise**2)
    square = spread**2 / 4 + spread * share * (1 - share) + (1 + spread) * (z * noise) ** 2
    low, high = ((share + spread / 2 + sign * math.sqrt(square)) / (1 + spread) for sign in (-1, 1))
    return max(0.0, min(share, low)), share, min(1.0, max(share, high))


def smaller(delta: float, digits: int) -> float:
    """Delta with the point moved, so that 1e-5 becomes 1e-7 and not the float next to it.

    >>> smaller(1e-5, 2), smaller(2.5e-4, 4)
    (1e-07, 2.5e-08)
    """
    return float(Decimal(repr(delta)).scaleb(-digits))


def gdp(ledger: PrivacyLedger) -> dict[str, Any]:
    """Mu of Gaussian differential privacy (Dong, Roth and Su 2022): the root of the sum of 1 / s^2 over all releases.

    Gaussians of sensitivity 1 and deviation s are 1/s-GDP, and compose to the root of the sum of squares (corollary 3.3). For a
    release that samples it is an upper bound, because to tell the attacker who was sampled can only help. No smaller number
    holds: where e^-epsilon is below the sampling rate, its trade-off curve falls like that of the Gaussian.
    """
    plan = flatten(ledger.plan)
    noises = [(rate_and_noise(event)[1], count) for event, count in plan]
    square = sum(count / noise**2 if noise > 0 else math.inf for noise, count in noises)
    sampled = not all(isinstance(event, GaussianDpEvent) for event, _ in plan)
    if ledger.reasons or math.isinf(square):
        return {"mu": "inf", "about": _NO_MU}
    return {"mu": math.sqrt(square), "about": _NOT_TIGHT if sampled else _TIGHT}


def renyi_curve(ledger: PrivacyLedger) -> dict[str, Any] | None:
    """Renyi divergence of the whole plan at `ORDERS`; None without a promise, or where no Renyi accountant knows the plan."""
    plan = flatten(ledger.plan)
    able = [accountant for accountant in CURVES if all(accountant.knows(event, ledger.relation) for event, _ in plan)]
    if ledger.reasons or not able:
        return None
    accountant = able[0]
    whole = dict(zip(accountant.orders.tolist(), accountant.curve(plan, ledger.relation).tolist(), strict=True))
    curve = {order: whole[order] for order in ORDERS if order in whole}
    return {
        "accountant": accountant.name,
        "orders": [float(order) for order in curve],
        "epsilon": [as_json(value) for value in curve.values()],
    }


def components(ledger: PrivacyLedger, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Each part of the plan: what it is for, its event, how often, and what it would cost alone.

    Raises:
        LedgerDamaged: if the settings name others than those that were reserved.
    """
    stated = settings["components"]
    parts = [(str(entry["purpose"]), part) for entry in stated for part in plan_from_json(entry["plan"])]
    if dict(merge([part for _, part in parts])) != dict(merge(ledger.plan)):
        raise LedgerDamaged("the components in config.json are not what the ledger reserved")
    return [
        {"purpose": purpose, **plan_to_json([part])[0], "alone": _cost(ledger, [part], ledger.delta)}
        for purpose, part in parts
    ]


def purposes(parts: Sequence[tuple[str, Plan]]) -> list[dict[str, Any]]:
    """The components as the settings of a run hold them: the name of a phase, and what it may release."""
    return [{"purpose": name, "plan": plan_to_json(plan)} for name, plan in parts if plan]


def _cost(ledger: PrivacyLedger, plan: Plan, delta: float) -> dict[str, Any]:
    """Epsilon and delta of a part of the plan, by the accountant that bounds it best."""
    if ledger.reasons or delta_left(flatten(plan), delta) <= 0:
        return {"epsilon": "inf", "delta": delta}
    spent = cost.guarantee(plan, delta=delta, relation=ledger.relation, unit=ledger.unit)
    return {"epsilon": as_json(spent.epsilon), "delta": delta}
