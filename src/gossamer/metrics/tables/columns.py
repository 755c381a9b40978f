"""Each column of samples on its values, beside real test rows: means, quantiles, and shares of zeros, gaps and categories.

A sample of real rows, as large as the samples, has a figure inside its interval in 95 of 100 cases. It covers the choice of
samples and of test rows. How far a figure is away is measured in such intervals, or in a tolerance where that is wider. With a
million rows, each difference is outside its interval, and most do not matter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.data.columns.column import OTHER, Column
from gossamer.intervals import QUANTILE, wilson
from gossamer.metrics.tables.rows import Rows

LEVELS = {
    "1 % quantile": (0.01, 0.0025),
    "25 % quantile": (0.25, 0.01),
    "median": (0.5, 0.01),
    "75 % quantile": (0.75, 0.01),
    "99 % quantile": (0.99, 0.0025),
}
"""Each quantile with the tolerance of its level."""
OF_MEAN, OF_SD, OF_SHARE = 0.05, 0.1, 0.01
"""Tolerances: of a mean and an SD in SDs, and of a share."""
OF_VALUE, LEAST = 0.2, 0.001
"""Tolerance of the share of one value: relative to it, and at least."""
HEAVY, FEW = 10, 50
"""Of a heavy tail, few rows decide the mean and the SD. Its interval of the mean is wider, and there is none of the SD."""
UNSEEN, REPEATED = "values that no training row has", 0.05
"""Values of a number repeat, as codes do, where at most this share of the test rows has such a value."""
RARE, COUNTED, OF_RARE = 0.01, 10, 0.25
"""A category is rare below this share of the training rows. At least so many rows have it, and so many are rare. Tolerance."""
FREQUENT, SHOWN = 20, 3
"""The most frequent values of a number that are compared; the worst of them, or of categories, that are listed."""
_DAYS = {"date": 1, "datetime": 86_400}


@dataclass(frozen=True)
class Compared:
    """One figure of one column. Dates are in days since 1970, times in seconds since then, durations in seconds.

    Args:
        column: its name.
        figure: what it is, such as "median".
        samples: the figure of the samples.
        real: that of the real test rows.
        low: lower end of the interval of `real`.
        high: upper end.
        times: how far `samples` is from `real`: 1 is the end of the interval, or of the tolerance.
        words: all of this for people.
    """

    column: str
    figure: str
    samples: float
    real: float
    low: float
    high: float
    times: float
    words: str


@dataclass(frozen=True, repr=False)
class Cells:
    """One column of some rows.

    Args:
        codes: of the card, int [N].
        values: float64 [N]; the code of a category, NaN where a number has no value.
        weights: float64 [N].
        units: how many units of equal weight the rows are worth.
    """

    codes: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    units: float

    @classmethod
    def of(cls, rows: Rows, values: np.ndarray, at: int) -> "Cells":
        """The column at a position. values: of all columns, float64 [N, columns]."""
        return cls(rows.codes[:, at], values[:, at], rows.weights, rows.effective)

    def share(self, which: np.ndarray) -> float:
        """The share of some rows. which: bool [N]"""
        return float(self.weights @ which / self.weights.sum())

    def shares_of(self, values: np.ndarray) -> np.ndarray:
        """The share of each of these values, which rise. float64 [n]"""
        at = np.searchsorted(values, self.values).clip(0, len(values) - 1)
        there = values[at] == self.values
        counted = np.bincount(at[there], self.weights[there], minlength=len(values))
        return np.asarray(counted / self.weights.sum())

    def in_order(self) -> "Cells":
        """The rows with a value, the smallest first."""
        order = np.argsort(self.values)[: np.count_nonzero(~np.isnan(self.values))]
        units = self.units * self.share(~np.isnan(self.values))
        return Cells(self.codes[order], self.values[order], self.weights[order], units)


def compared(column: Column, samples: Cells, tests: Cells, train: Cells) -> list[Compared]:
    """All figures of a column, the farthest first.

    Args:
        column: declares its kind.
        samples: synthetic rows.
        tests: real test rows, which the samples are compared with.
        train: real training rows: which values there are, and which of them are rare.
    """
    found = [*_of_shares(column, samples, tests, train)]
    found += sorted(_of_values(column, samples, tests, train), key=lambda each: -each.times)[:SHOWN]
    if not column.values:
        found += _of_numbers(column, samples.in_order(), tests.in_order())
    return sorted(found, key=lambda each: -each.times)


def _of_numbers(column: Column, samples: Cells, tests: Cells) -> Iterator[Compared]:
    """Mean, SD and quantiles. A quantile of the samples is compared by its level among the test rows."""
    if not len(samples.values) or not len(tests.values):
        return
    units = _together(samples, tests)
    (ours, our_sd, _), (mean, sd, kurtosis) = (_moments(each) for each in (samples, tests))
    size, error = sd or abs(mean) or 1.0, QUANTILE * sd * np.sqrt(1 / units + HEAVY * kurtosis / units**2)
    yield _one(column, "mean", (ours, mean), (mean - error, mean + error), OF_MEAN * size)
    if units >= FEW * kurtosis:
        error *= np.sqrt((kurtosis - 1) / 4)
        yield _one(column, "SD", (our_sd, sd), (sd - error, sd + error), OF_SD * size)
    (ours_passed, passed) = (np.cumsum(each.weights) / each.weights.sum() for each in (samples, tests))
    for figure, (level, tolerance) in LEVELS.items():
        ends = wilson(level, units)
        value = samples.values[_first(ours_passed, level)]
        real, low, high = (tests.values[_first(passed, each)] for each in (level, *ends))
        below, up_to = (np.searchsorted(tests.values, value, side=side) for side in ("left", "right"))
        reached = min(max(level, passed[below - 1] if below else 0.0), passed[up_to - 1] if up_to else 0.0)
        times = _distance(reached, level, ends, tolerance)
        yield _said(column, figure, (value, real), (low, high), times)


def _moments(cells: Cells) -> tuple[float, float, float]:
    """The mean, the SD and the kurtosis, which is 3 of a normal distribution."""
    mean = np.average(cells.values, weights=cells.weights)
    second, fourth = (np.average((cells.values - mean) ** power, weights=cells.weights) for power in (2, 4))
    return float(mean), float(np.sqrt(second)), float(fourth / second**2) if second else 1.0


def _first(passed: np.ndarray, level: float) -> int:
    """The first of the values in order that such a share of the rows does not exceed."""
    return min(int(np.searchsorted(passed, level * (1 - 1e-12))), len(passed) - 1)


def _of_shares(column: Column, samples: Cells, tests: Cells, train: Cells) -> Iterator[Compared]:
    """Shares of zeros, missing and undeclared values, of values that no training row has, and of rare categories."""
    sets = samples, tests
    seen = np.unique(train.values)
    masks = {UNSEEN: [~np.isin(each.values, seen) & ~np.isin(each.codes, column.no_values) for each in sets]}
    if not column.values and tests.share(masks[UNSEEN][1]) > REPEATED:
        del masks[UNSEEN]
    if column.kind in ("integer", "number", "duration"):
        masks["zeros"] = [each.values == 0 for each in sets]
    for figure, code in (("missing", column.missing_code), (OTHER, column.other_code)):
        if code is not None:
            masks[figure] = [each.codes == code for each in sets]
    for figure, which in masks.items():
        shares = samples.share(which[0]), tests.share(which[1])
        yield _share(column, figure, shares, sets, OF_SHARE)
    if not column.values:
        return
    before, *after = (each.shares_of(np.arange(column.size)) for each in (train, *sets))
    rare = (before < RARE) & (before * train.units >= COUNTED)
    if rare.sum() >= COUNTED:
        ours, real = (float(((each > 2 * before) | (2 * each < before))[rare].mean()) for each in after)
        yield _share(column, "rare categories off by a factor of 2", (ours, real), sets, OF_RARE)


def _of_values(column: Column, samples: Cells, tests: Cells, train: Cells) -> Iterator[Compared]:
    """Shares of single values: of categories, or of the most frequent values of a number."""
    if column.values:
        values, names = np.arange(len(column.values)), column.code_names
    else:
        values = np.unique(np.concatenate([_most_frequent(each.values) for each in (train, samples)]))
        values = values[values != 0]  # zeros have a figure of their own
        names = [*map(column.written, values)]
    if len(values):
        every = zip(names, samples.shares_of(values), tests.shares_of(values), strict=False)
        for name, ours, real in every:
            tolerance = max(OF_VALUE * real, LEAST)
            yield _share(column, f'share of "{name}"', (ours, real), (samples, tests), tolerance)


def _most_frequent(values: np.ndarray) -> np.ndarray:
    different, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return np.asarray(different[np.argsort(-counts, kind="stable")[:FREQUENT]])


def _together(samples: Cells, tests: Cells) -> float:
    """A difference of two means, of samples and test rows, is as exact as one mean of so many units."""
    return 1 / (1 / max(1.0, samples.units) + 1 / max(1.0, tests.units))


def _distance(value: float, real: float, ends: tuple[float, float], tolerance: float) -> float:
    """How many intervals or tolerances there are between two figures."""
    low, high = ends
    return float(abs(value - real) / max(tolerance, high - real if value > real else real - low))


def _share(
    column: Column, figure: str, shares: tuple[float, float], sets: tuple[Cells, Cells], tolerance: float
) -> Compared:
    """A share of the samples and of the test rows. Fewer values without a training row than real rows have are no fault."""
    ends = wilson(shares[1], _together(*sets))
    fewer = shares[0] < shares[1] and (figure == UNSEEN or tolerance == OF_RARE)
    times = 0.0 if fewer else _distance(*shares, ends, tolerance)
    return _said(column, figure, shares, ends, times, share=True)


def _one(column: Column, figure: str, values: tuple[float, float], ends: Any, tolerance: float) -> Compared:
    return _said(column, figure, values, ends, _distance(*values, ends, tolerance))


def _said(column: Column, figure: str, values: Any, ends: Any, times: float, *, share: bool = False) -> Compared:
    samples, real, low, high = map(float, (*values, *ends))
    written = [_written(column, figure, number, share=share) for number in (samples, real, low, high)]
    words = f"{figure} {written[0]}, real {written[1]} ({written[2].removesuffix(' %')} to {written[3]})"
    return Compared(column.name, figure, samples, real, low, high, times, words)


def _written(column: Column, figure: str, number: float, *, share: bool) -> str:
    if share:
        return f"{100 * number:.{2 if 0 < number < 0.01 else 1}f} %"
    if figure == "SD" and column.kind in _DAYS:
        return f"{number / _DAYS[column.kind]:,.4g} days"
    if column.kind in ("integer", "number"):
        return f"{number:,.0f}" if abs(number) >= 1_000 else f"{number:.4g}"
    return column.written(number)
