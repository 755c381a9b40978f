"""Summaries of a column in constant memory: how many different values there are, and how numbers lie."""

import numpy as np

KEPT = 65_536
"""Smallest hashes that are kept, and numbers of a sample. Up to so many different values, their number is exact."""
ENDS = 8
MOST_DIGITS = 10


class DifferentValues:
    """The smallest hashes of the values of a column (Bar-Yossef et al. 2002)."""

    def __init__(self) -> None:
        self._hashes, self._limit = np.empty(0, np.uint64), np.uint64(2**64 - 1)
        self.repeats = False
        """Whether a value was seen twice, as far as values are kept."""

    def add(self, hashes: np.ndarray, counts: np.ndarray) -> None:
        """Add hashes of different values, uint64 [n], each with a number of cells, int64 [n]."""
        self.repeats = self.repeats or bool((counts > 1).any())
        self._hashes = np.append(self._hashes, hashes[hashes <= self._limit])
        if len(self._hashes) > 2 * KEPT:
            self.merge()

    @property
    def number(self) -> int:
        """Number of different values; above KEPT an estimate, whose standard error is 0.4 %."""
        if len(self._hashes) < KEPT:
            return len(self._hashes)
        return round((KEPT - 1) / (float(self._limit) / 2.0**64))

    def merge(self) -> None:
        """Join what was added. Needed before `number` and `repeats` are asked for."""
        hashes, times = np.unique(self._hashes, return_counts=True)
        self.repeats = self.repeats or bool((times > 1).any())
        self._hashes = hashes[:KEPT]
        if len(hashes) >= KEPT:
            self._limit = self._hashes[-1]


class Spread:
    """How numbers lie: their ends, their digits, and a sample of them."""

    def __init__(self) -> None:
        self.cells = 0
        self.lowest, self.highest = np.empty(0), np.empty(0)
        """The smallest and the largest different numbers, ENDS of each, in rising order."""
        self.digits = 0
        """Most digits after the point, up to MOST_DIGITS."""
        self.sample, self._every = np.empty(0), 1
        """Some of the numbers. Up to KEPT cells, all."""

    def add(self, numbers: np.ndarray, counts: np.ndarray) -> None:
        """Add finite numbers, float64 [n], each with a number of cells, int64 [n]."""
        if not len(numbers):
            return
        numbers = numbers + 0.0  # no minus zero
        ends = np.cumsum(counts)
        added = int(ends[-1])
        self.cells += added
        while self.digits < MOST_DIGITS and not np.array_equal(np.round(numbers, self.digits), numbers):
            self.digits += 1
        low = numbers if len(self.lowest) < ENDS else numbers[numbers < self.lowest[-1]]
        high = numbers if len(self.highest) < ENDS else numbers[numbers > self.highest[0]]
        self.lowest = np.unique(np.append(self.lowest, low))[:ENDS]
        self.highest = np.unique(np.append(self.highest, high))[-ENDS:]
        while len(self.sample) + len(range(0, added, self._every)) > KEPT:
            self.sample, self._every = self.sample[::2], 2 * self._every
        chosen = np.searchsorted(ends, np.arange(0, added, self._every), "right")  # counts may be of all rows
        self.sample = np.append(self.sample, numbers[chosen])

    @property
    def steps(self) -> int:
        """How many steps of their last digit the largest is above the smallest, at most 2^63."""
        return int(min((self.highest[-1] - self.lowest[0]) * 10.0**self.digits, 2.0**63))

    @property
    def is_whole(self) -> bool:
        """Whether all are whole numbers."""
        return self.digits == 0

    def has_peak(self, number: float) -> bool:
        """Whether a number occurs ten times, and three times as often as each near it. Above KEPT cells, an estimate."""
        numbers, counts = np.unique(self.sample, return_counts=True)
        at = int(np.searchsorted(numbers, number))
        beside = np.append(counts[max(at - ENDS, 0) : at], counts[at + 1 : at + 1 + ENDS])
        return self.count_of(number) > 0 and counts[at] >= max(10, 3 * beside.max(initial=1))

    @property
    def is_clock(self) -> bool:
        """Whether numbers look like times such as 1545: their last two digits are half of all minutes or more, and below 60."""
        minutes = np.unique(self.sample % 100)
        is_of_day = self.is_whole and self.lowest[0] >= 0 and 100 <= self.highest[-1] <= 2400
        return bool(is_of_day and len(minutes) >= 30 and minutes[-1] < 60)

    @property
    def is_beyond(self) -> bool:
        """Whether there are numbers beyond 2^53, which may not be exact."""
        return bool(max(-self.lowest[0], self.highest[-1]) > 2**53)

    def count_of(self, number: float) -> int:
        """The number of cells with a number. Above KEPT cells, an estimate."""
        return round(self.cells * float(np.mean(self.sample == number)))
