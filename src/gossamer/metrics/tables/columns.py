"""Each column of samples on its values, beside real test rows: means, quantiles, and shares of zeros, gaps and categories.

The interval of a figure has the values that a sample of real rows would have in 95 of 100 cases, where it has as many rows as
the samples. It covers the choice of samples and of test rows. How far a figure is away is measured in such intervals, or in a
tolerance where that is wider: with a million rows, each difference is outside its interval, and most do not matter.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gossamer.data.columns.column import OTHER, Column
from gossamer.intervals import QUANTILE, wilson
from gossamer.metrics.tables.rows import Rows
from gossamer.metrics.tables.subgroups import code_names

LEVELS = {"1 % quantile": 0.01, "25 % quantile": 0.25, "median": 0.5, "75 % quantile": 0.75, "99 % quantile": 0.99}
OF_MEAN, OF_SD, OF_QUARTILE, OF_END, OF_SHARE = 0.05, 0.1, 0.05, 0.1, 0.01
"""Tolerances: in SDs, in SDs, in interquartile ranges, in distances of an end from the median, and of a share."""
OF_VALUE, LEAST = 0.2, 0.001
"""Tolerance of the share of one value: relative to it, and at least."""
OF_NO_RANGE = 0.01
"""Tolerance of a quantile among equal values, in SDs."""
RARE, FACTOR = 0.01, 2
"""A category with a smaller share of the training rows is rare. It is off where its share is so many times as large or small."""
REPEATED = 0.05
"""Values of a number repeat, as those of codes do, where no more of the test rows have a value that no training row has."""
_FREQUENT, _SHOWN = 20, 3
"""The most frequent values of a number that are compared; the worst of them, or of categories, that are listed."""
_DAY = 86_400


@dataclass(frozen=True)
class Compared:
    """One figure of one column.

    Args:
        column: its name.
        figure: what it is, such as "median".
        samples: the figure of the samples. Dates are in days since 1970, times in seconds since then, durations in seconds.
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
        codes: of the card, int32 [N].
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

    def only(self, which: np.ndarray) -> "Cells":
        """Some of the rows. which: bool [N]"""
        units = self.units * self.share(which)
        return Cells(self.codes[which], self.values[which], self.weights[which], units)

    def shares_of(self, values: np.ndarray) -> np.ndarray:
        """The share of each of these values, which rise. float64 [n]"""
        at = np.searchsorted(values, self.values).clip(0, len(values) - 1)
        there = values[at] == self.values
        counted = np.bincount(at[there], self.weights[there], minlength=len(values))
        return np.asarray(counted / self.weights.sum())

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """The smallest value that at least such a share of the rows does not exceed. float64 [n]"""
        order = np.argsort(self.values)
        passed = np.cumsum(self.weights[order])
        at = np.searchsorted(passed, levels * passed[-1] * (1 - 1e-12))
        return np.asarray(self.values[order][at.clip(0, len(order) - 1)])

    def moments(self) -> tuple[float, float, float]:
        """The mean, the SD and the kurtosis, which is 3 of a normal distribution."""
        mean = np.average(self.values, weights=self.weights)
        apart = self.values - mean
        variance = np.average(apart**2, weights=self.weights)
        fourth = np.average(apart**4, weights=self.weights)
        return float(mean), float(np.sqrt(variance)), float(fourth / variance**2) if variance else 1.0


def compared(column: Column, samples: Cells, tests: Cells, train: Cells) -> list[Compared]:
    """All figures of a column, the farthest first.

    Args:
        column: declares its kind.
        samples: synthetic rows.
        tests: real test rows, which the samples are compared with.
        train: real training rows: which values there are, and which of them are rare.
    """
    sets = samples, tests
    found = [*_of_shares(column, sets, train), *_of_values(column, sets, train)]
    if not column.values:
        samples, tests = (each.only(~np.isnan(each.values)) for each in sets)
        if len(samples.values) and len(tests.values):
            found += _of_numbers(column, samples, tests)
    return sorted(found, key=lambda each: -each.times)


def _of_numbers(column: Column, samples: Cells, tests: Cells) -> Iterator[Compared]:
    """Mean, SD and quantiles of rows with a value."""
    units = _together(samples, tests)
    mean, sd, kurtosis = tests.moments()
    ours, our_sd, _ = samples.moments()
    size = sd or abs(mean) or 1.0
    error = QUANTILE * sd / np.sqrt(units)
    yield _one(column, "mean", ours, mean, (mean - error, mean + error), OF_MEAN * size)
    error *= np.sqrt((kurtosis - 1) / 4)
    yield _one(column, "SD", our_sd, sd, (sd - error, sd + error), OF_SD * size)
    levels = np.array([*LEVELS.values()])
    real, lows, highs = (tests.quantiles(each) for each in (levels, *wilson(levels, units)))
    quartile, end = OF_QUARTILE * (real[3] - real[1]), OF_END * np.abs(real - real[2])
    widths = [end[0], quartile, quartile, quartile, end[4]]
    every = zip(LEVELS, samples.quantiles(levels), real, lows, highs, widths, strict=True)
    for figure, value, of_real, low, high, width in every:
        yield _one(column, figure, value, of_real, (low, high), width or OF_NO_RANGE * size)


def _of_shares(column: Column, sets: tuple[Cells, Cells], train: Cells) -> Iterator[Compared]:
    """Shares of zeros, missing and undeclared values, and of values that no training row has."""
    named = {"zeros": 0.0} if column.kind in ("integer", "number", "duration") else {}
    for figure, value in named.items():
        yield _share(column, figure, sets, [each.values == value for each in sets])
    codes = {"missing": column.missing_code, OTHER: None if column.values else column.other_code}
    for figure, code in codes.items():
        if code is not None:
            yield _share(column, figure, sets, [each.codes == code for each in sets])
    seen = np.unique(train.values)
    unseen = [~np.isin(each.values, seen) & ~np.isin(each.codes, column.no_values) for each in sets]
    if column.values or sets[1].share(unseen[1]) <= REPEATED:
        yield _share(column, "values that no training row has", sets, unseen)
    if not column.values:
        return
    before, *after = (each.shares_of(np.arange(column.size)) for each in (train, *sets))
    rare = (before > 0) & (before < RARE)
    if rare.any():
        off = [((each > FACTOR * before) | (each * FACTOR < before))[rare].mean() for each in after]
        low, high = wilson(off[1], rare.sum())
        figure = f"rare categories off by a factor of {FACTOR}"
        yield _one(column, figure, off[0], off[1], (low, high), OF_VALUE, share=True)


def _of_values(column: Column, sets: tuple[Cells, Cells], train: Cells) -> list[Compared]:
    """Shares of single values, the worst of them: of categories, or of the most frequent values of a number."""
    samples, tests = sets
    if column.values:
        values = np.arange(column.size - column.missing, dtype=np.float64)
        names = code_names(column)
    else:
        frequent = [_most_frequent(each.values) for each in (train, samples)]
        values = np.unique(np.concatenate(frequent))
        if column.kind not in ("date", "datetime"):
            values = values[values != 0]
        names = [*map(column.written, values)]
    if not len(values):
        return []
    real = tests.shares_of(values)
    lows, highs = wilson(real, _together(*sets))
    widths = np.maximum(OF_VALUE * real, LEAST)
    every = zip(names, samples.shares_of(values), real, lows, highs, widths, strict=False)
    found = [
        _one(column, f'share of "{name}"', value, of_real, (low, high), width, share=True)
        for name, value, of_real, low, high, width in every
    ]
    return sorted(found, key=lambda each: -each.times)[:_SHOWN]


def _most_frequent(values: np.ndarray) -> np.ndarray:
    """The most frequent values. float64 [n]"""
    different, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return np.asarray(different[np.argsort(-counts, kind="stable")[:_FREQUENT]])


def _share(column: Column, figure: str, sets: tuple[Cells, Cells], which: list[np.ndarray]) -> Compared:
    value, real = (each.share(mask) for each, mask in zip(sets, which, strict=True))
    return _one(column, figure, value, real, wilson(real, _together(*sets)), OF_SHARE, share=True)


def _together(samples: Cells, tests: Cells) -> float:
    """A difference of two means, of samples and test rows, is as exact as one mean of so many units."""
    return 1 / (1 / max(1.0, samples.units) + 1 / max(1.0, tests.units))


def _one(
    column: Column,
    figure: str,
    samples: float,
    real: float,
    ends: tuple[float, float],
    tolerance: float,
    *,
    share: bool = False,
) -> Compared:
    low, high = map(float, ends)
    end = max(high - real, tolerance) if samples > real else max(real - low, tolerance)
    numbers = [_written(column, figure, number, share=share) for number in (samples, real, low, high)]
    words = f"{figure} {numbers[0]}, real {numbers[1]} ({numbers[2]} to {numbers[3]})"
    times = abs(samples - real) / end
    return Compared(column.name, figure, float(samples), float(real), low, high, float(times), words)


def _written(column: Column, figure: str, number: float, *, share: bool) -> str:
    """A figure for people."""
    if share:
        return f"{100 * number:.{2 if 0 < number < 0.01 else 1}f} %"
    if figure == "SD" and column.kind in ("date", "datetime"):
        return f"{number / (_DAY if column.kind == 'datetime' else 1):,.4g} days"
    if column.kind in ("integer", "number"):
        return f"{number:,.0f}" if abs(number) >= 1_000 else f"{number:.4g}"
    return column.written(number)
