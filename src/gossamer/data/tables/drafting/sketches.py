"""Summaries of a column in constant memory: which values are frequent, how many different ones there are, how numbers lie."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

FREQUENT = 200
"""Frequent values that are kept, once there are too many different ones to count each."""
KEPT = 65_536
"""Smallest hashes that are kept. Up to so many different values, their number is exact."""
ENDS = 8
_BUCKETS = 1 << 16


class Frequent:
    """How often values occur. Exact up to `most` different ones; then a lower bound for each frequent one.

    A count is too low by at most 1 / FREQUENT of all cells (Misra and Gries 1982; blocks are merged as in Agarwal et al. 2012).
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.counts: dict[Any, int] = {}
        self.is_exact = True

    def add(self, values: "pa.Array", counts: np.ndarray) -> None:
        """Add different values, and how often each occurs. int64 [n]"""
        if not self.is_exact and len(counts) > FREQUENT:
            counts = counts - counts.sum() // (FREQUENT + 1)
            often = np.flatnonzero(counts > 0)  # at most FREQUENT
            values, counts = values.take(often), counts[often]
        for value, count in zip(values.to_pylist(), counts.tolist(), strict=True):
            self.counts[value] = self.counts.get(value, 0) + count
        self.is_exact = self.is_exact and len(self.counts) <= self._most
        if not self.is_exact and len(self.counts) > FREQUENT:
            least = sorted(self.counts.values(), reverse=True)[FREQUENT]
            self.counts = {value: count - least for value, count in self.counts.items() if count > least}


class DifferentValues:
    """The smallest hashes of the values of a column, and how often each occurs (Bar-Yossef et al. 2002)."""

    def __init__(self) -> None:
        self._hashes, self._counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._limit = np.uint64(2**64 - 1)
        self.repeats = False
        """Whether a value was seen twice; known late, if it is in two blocks."""

    def add(self, hashes: np.ndarray, counts: np.ndarray) -> None:
        """Add hashes, uint64 [n], each with a number of cells, int64 [n]."""
        self.repeats = self.repeats or bool((counts > 1).any())
        below = hashes <= self._limit
        self._hashes = np.concatenate([self._hashes, hashes[below]])
        self._counts = np.concatenate([self._counts, counts[below]])
        if len(self._hashes) > 2 * KEPT:
            self._merge()

    @property
    def each_differs(self) -> bool:
        """Whether no value was seen twice, as far as values are kept."""
        self._merge()
        return not self.repeats

    @property
    def number(self) -> int:
        """Number of different values; above KEPT an estimate, whose standard error is 0.4 %."""
        self._merge()
        if len(self._hashes) < KEPT:
            return len(self._hashes)
        return round((KEPT - 1) / (float(self._limit) / 2.0**64))

    def _merge(self) -> None:
        order = np.argsort(self._hashes)
        hashes, counts = self._hashes[order], self._counts[order]
        begins = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)])
        self._counts = np.add.reduceat(counts, begins)[:KEPT] if len(counts) else counts
        self._hashes = hashes[begins][:KEPT]
        self.repeats = self.repeats or bool((self._counts > 1).any())
        if len(self._hashes) == KEPT:
            self._limit = self._hashes[-1]


class Spread:
    """How numbers lie: their ends, and a histogram whose buckets are 6 % wide."""

    def __init__(self) -> None:
        self.cells = self.zeros = 0
        self.lowest, self.highest = np.empty(0), np.empty(0)
        """The smallest and the largest different numbers, ENDS of each, in rising order."""
        self.digits: int | None = 0
        """Most digits after the point; None: more than nine."""
        self._histogram = np.zeros(_BUCKETS, np.int64)

    def add(self, numbers: np.ndarray, counts: np.ndarray) -> None:
        """Add finite numbers, float64 [n], each with a number of cells, int64 [n]."""
        if not len(numbers):
            return
        numbers = numbers + 0.0  # no minus zero
        self.cells += int(counts.sum())
        self.zeros += int(counts[numbers == 0].sum())
        while self.digits is not None and not np.array_equal(np.round(numbers, self.digits), numbers):
            self.digits = self.digits + 1 if self.digits < 9 else None
        low = numbers if len(self.lowest) < ENDS else numbers[numbers < self.lowest[-1]]
        high = numbers if len(self.highest) < ENDS else numbers[numbers > self.highest[0]]
        self.lowest = np.unique(np.append(self.lowest, low))[:ENDS]
        self.highest = np.unique(np.append(self.highest, high))[-ENDS:]
        buckets = (numbers.view(np.uint64) >> np.uint64(48)).astype(np.int64)
        self._histogram += np.bincount(buckets, counts, _BUCKETS).astype(np.int64)

    @property
    def is_whole(self) -> bool:
        """Whether all are whole numbers."""
        return self.digits == 0

    def shares(self, cuts: np.ndarray, without: Collection[float] = ()) -> np.ndarray:
        """The share of cells between each two neighbouring cuts, as if each bucket were flat. float64 [cuts - 1]

        without: numbers whose cells do not count.
        """
        used = np.flatnonzero(self._histogram)
        near, far = (index.astype(np.uint64) << np.uint64(48) for index in (used, used + 1))
        ends = np.sort(np.stack([near.view(np.float64), far.view(np.float64)]), axis=0)
        order = np.argsort(ends[0])
        (low, high), counts = ends[:, order], self._histogram[used][order]
        for number in without:
            counts = np.where((low <= number) & (number < high), 0, counts)
        below = np.repeat(np.append(0, np.cumsum(counts)), 2)[1:-1]
        places = np.stack([low, high], axis=1).ravel().clip(self.lowest[0], self.highest[-1])
        return np.asarray(np.diff(np.interp(cuts, places, below)) / max(counts.sum(), 1))
