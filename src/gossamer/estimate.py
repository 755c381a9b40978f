"""A number with its interval: what every evaluation and every attack returns."""

from dataclasses import dataclass


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

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}] (n = {self.n:,}, {self.computed_on})"
