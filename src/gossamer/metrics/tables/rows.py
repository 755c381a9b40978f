"""Rows of codes with weights, and their shares in cells, also without each group of a jackknife."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

GROUPS = 20
"""Groups of a jackknife. A table has at least so many units."""


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows of codes.

    Args:
        codes: int [N, columns].
        weights: float64 [N]; a row of a unit with m rows weighs min(1, max_rows / m), as in what a method for tables releases.
        groups: int64 [N], the jackknife's group of each row. All rows of a unit are in one.
        owners: int64 [N], the unit of each row.
    """

    codes: np.ndarray
    weights: np.ndarray
    groups: np.ndarray
    owners: np.ndarray

    @classmethod
    def of(cls, codes: np.ndarray, units: np.ndarray | None = None, max_rows: int = 1) -> "Rows":
        """Rows with their weights, and groups at random.

        Args:
            codes: int [N, columns].
            units: int64 [N], or None: each row is its own unit.
            max_rows: of the card.
        """
        owners = np.arange(len(codes)) if units is None else np.unique(units, return_inverse=True)[1]
        counts = np.bincount(owners)
        groups = np.random.default_rng(0).permutation(len(counts)) % GROUPS
        return cls(codes, np.minimum(1, max_rows / counts[owners]), groups[owners], owners)

    @property
    def units(self) -> int:
        """Number of units; of rows, where each is its own unit."""
        return len(self._owners())

    def _owners(self) -> np.ndarray:
        """The units with a row, in order. int64 [units]"""
        return np.flatnonzero(np.bincount(self.owners))

    def take(self, which: np.ndarray) -> "Rows":
        """The rows at these positions, int64 [n], with the weights and groups that they have."""
        return Rows(self.codes[which], self.weights[which], self.groups[which], self.owners[which])

    @property
    def effective(self) -> float:
        """How many units of equal weight say as much as these, whose rows may be alike (Kish, Survey Sampling, 1965)."""
        of_units = np.bincount(self.owners, self.weights)
        return float(of_units.sum() ** 2 / (of_units @ of_units))

    def some_units(self, most: int) -> np.ndarray:
        """The positions of the rows of at most so many units, at random. int64 [n]"""
        chosen = np.zeros(self.owners.max() + 1, bool)
        chosen[np.random.default_rng(0).permutation(self._owners())[:most]] = True
        return np.flatnonzero(chosen[self.owners])

    def __len__(self) -> int:
        return len(self.codes)

    def shares(self, cells: np.ndarray, count: int) -> np.ndarray:
        """The share of the weight in each cell: of all rows, then without each group. float64 [1 + groups, count]

        cells: int64 [N].
        """
        flat = np.bincount(self.groups * count + cells, self.weights, minlength=GROUPS * count)
        counted = flat.reshape(GROUPS, count)
        sums = np.vstack([total := counted.sum(axis=0), total - counted])
        return np.asarray(sums / sums.sum(axis=1, keepdims=True))


def column_sets(columns: int, order: int, most: int) -> list[tuple[int, ...]]:
    """All sets of so many columns; where there are more than `most`, that many different ones at random, always the same."""
    if math.comb(columns, order) <= most:
        return [*itertools.combinations(range(columns), order)]
    draw, chosen = np.random.default_rng(0), set[tuple[int, ...]]()
    while len(chosen) < most:
        chosen.add(tuple(sorted(draw.choice(columns, order, replace=False).tolist())))
    return sorted(chosen)
