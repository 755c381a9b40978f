"""A table of noisy counts as recipients see it: what each cell stands for, and how far its count may be off."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.data.columns.column import Column
from gossamer.data.samples.samples import frame


@dataclass(frozen=True)
class NoisyTable:
    """Noisy counts of the combinations of values of some columns.

    A count is below zero where the noise is. It lies within 1.96 standard errors of the true one in 95 of 100 releases.

    Args:
        names: of the columns.
        values: of each column, what each position along its axis stands for.
        counts: float64 [values of each column], in rows, each with its weight.
        standard_errors: float64, the same shape.
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    counts: np.ndarray
    standard_errors: np.ndarray

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for each cell. Raises RequestError: pandas is not installed."""
        cells = zip(self.names, zip(*itertools.product(*self.values), strict=True), strict=True)
        numbers = {"count": self.counts.ravel(), "standard_error": self.standard_errors.ravel()}
        return frame({**{name: np.array(own, dtype=object) for name, own in cells}, **numbers})


def merged_texts(column: Column, merged: Sequence[int]) -> tuple[str, ...]:
    """What each merged value of a column stands for: a list of values, or an interval of neighbouring bins.

    merged: the merged value of each code.
    """
    names, found = column.code_names, []
    for value in range(max(merged) + 1):
        codes = [code for code, own in enumerate(merged) if own == value]
        bins = [] if column.values else [code for code in codes if code < column.plain]
        texts = [column.interval(*column.cuts[[bins[0], bins[-1] + 1]])] if bins else []
        found.append(", ".join([*texts, *(names[code] for code in codes[len(bins) :])]))
    return tuple(found)
