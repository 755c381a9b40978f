"""A number with its interval: what every evaluation and every attack returns, from counts and from repeats."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from gossamer.lazy import Lazy

np: Any = Lazy("numpy")
stats: Any = Lazy("scipy.stats")

LEVEL = 0.95
"""Nominal coverage of every interval."""
QUANTILE = 1.959963984540054
"""Of the standard normal distribution, at 0.5 + LEVEL / 2."""


class EstimateJson(TypedDict):
    """An `Estimate` as JSON files have it."""

    value: float
    low: float
    high: float
    n: int
    computed_on: str


@dataclass(frozen=True)
class Estimate:
    """A measured value with its interval.

    >>> print(Estimate(0.951, 0.947, 0.955, 10_000, "real test records"))
    0.951 [0.947, 0.955] (n = 10,000, real test records)

    Args:
        value: the point estimate.
        low: lower end of the interval.
        high: upper end of the interval.
        n: sample size behind the estimate (test records, or repeats).
        computed_on: in words, what the number was computed on ("10,000 real test records").
    """

    value: float
    low: float
    high: float
    n: int
    computed_on: str

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"an Estimate needs low <= value <= high, not {self.low}, {self.value}, {self.high}")

    def to_json(self) -> EstimateJson:
        """Return it as a dict of its parts."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n, "computed_on": self.computed_on}

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}] (n = {self.n:,}, {self.computed_on})"


def wilson(share: Any, n: float) -> tuple[Any, Any]:
    """The ends of the Wilson score interval of one share, or of an array of shares, of n trials."""
    z = QUANTILE
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At 0 and n the interval ends exactly at the share; rounding must not put the share outside.
    return np.minimum(share, np.maximum(0, centre - half)), np.maximum(share, np.minimum(1, centre + half))


def proportion(successes: float, n: float, computed_on: str) -> Estimate:
    """A share with its 95 % Wilson score interval (Wilson, JASA 1927; Brown, Cai, DasGupta, Statistical Science 2001).

    Args:
        successes: how many of the n, from 0 to n. A fraction where ties are shared out, or where n is an effective size.
        n: number of independent trials, at least 1. A fraction where it is an effective size; the Estimate rounds it down.
        computed_on: in words, what was counted.

    Raises:
        ValueError: if n is below 1 or successes is outside [0, n].
    """
    if not (n >= 1 and 0 <= successes <= n):
        raise ValueError(f"a proportion needs n >= 1 and 0 <= successes <= n, not {successes} of {n}")
    share = successes / n
    low, high = map(float, wilson(share, n))
    return Estimate(share, low, high, math.floor(n), computed_on)


def difference(first: Estimate, second: Estimate, computed_on: str) -> Estimate:
    """First minus second, two independent shares, with the interval made from theirs (Newcombe, Stat. in Medicine 1998).

    It is Newcombe's method 10 where the two intervals are Wilson's. n is the smaller one.
    """
    value = first.value - second.value
    low = value - math.hypot(first.value - first.low, second.high - second.value)
    high = value + math.hypot(first.high - first.value, second.value - second.low)
    return Estimate(value, max(-1.0, low), min(1.0, high), min(first.n, second.n), computed_on)


def mean(
    values: Sequence[float], computed_on: str, *, lowest: float = -math.inf, highest: float = math.inf
) -> Estimate:
    """The mean of independent repeats with its 95 % Student t interval.

    Args:
        values: one number per repeat, at least two.
        computed_on: in words, what was repeated.
        lowest: lower end of the scale, where the interval is cut.
        highest: upper end of the scale.

    Raises:
        ValueError: if there are fewer than two values, or one is not finite.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        raise ValueError(f"an interval over repeats needs at least two finite values, not {len(numbers)}")
    centre = float(numbers.mean())
    t = float(stats.t.ppf(0.5 + LEVEL / 2, len(numbers) - 1))
    half = t * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Estimate(centre, max(lowest, centre - half), min(highest, centre + half), len(numbers), computed_on)


def jackknife(
    value: float,
    without: Sequence[float],
    n: int,
    computed_on: str,
    *,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> Estimate:
    """A statistic with its 95 % interval by the delete-a-group jackknife (Kott, Journal of Official Statistics 2001).

    Args:
        value: the statistic of all records.
        without: the statistic without each of G groups, at least two, into which the records fall at random. A value that is
            not finite says that a group cannot be missed: then the interval is the whole scale.
        n: number of records, or of units, that were divided into groups.
        computed_on: in words, what was measured.
        lowest: lower end of the scale, where the interval is cut.
        highest: upper end of the scale.

    Raises:
        ValueError: if there are fewer than two groups.
    """
    numbers = np.asarray(without, dtype=np.float64)
    groups = len(numbers)
    if groups < 2:
        raise ValueError(f"a jackknife needs at least two groups, not {groups}")
    if not np.isfinite(numbers).all():
        return Estimate(value, lowest, highest, n, computed_on)
    error = math.sqrt((groups - 1) / groups * float(((numbers - numbers.mean()) ** 2).sum()))
    half = float(stats.t.ppf(0.5 + LEVEL / 2, groups - 1)) * error
    low, high = min(value, max(lowest, value - half)), max(value, min(highest, value + half))  # rounding of the value
    return Estimate(value, low, high, n, computed_on)
