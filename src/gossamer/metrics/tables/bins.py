"""Bins that follow from real values, and not from a card: they see what the bins of a card would hide."""

from dataclasses import dataclass

import numpy as np

from gossamer.data.columns.column import Column

BINS = 10
"""Bins with equal numbers of real training rows. A value with half as many rows stands alone."""
_AWAY = "elsewhere"


@dataclass(frozen=True, repr=False)
class Bins:
    """The bins of a column.

    Those of a category are its values. Of other columns, a frequent value is a bin of its own, such as 0: half a bin of the
    training rows have it. The other values are in bins of equal numbers of rows. One bin more is for what no training row has:
    values below the smallest, above the largest, or between two neighbours that stand alone.

    Args:
        names: of the bins in their order: "other" and "missing" are the last.
        in_order: how many of the first bins follow an order.
        starts: the smallest value of each bin in order, float64 [bins]. Of a category: empty.
        alone: whether a bin has one value, bool [bins].
        largest: the largest real value.
        others: the codes of the card that stand for no number.
    """

    names: list[str]
    in_order: int
    starts: np.ndarray
    alone: np.ndarray
    largest: float = 0.0
    others: tuple[int, ...] = ()

    @classmethod
    def of(cls, column: Column, values: np.ndarray, count: int = BINS) -> "Bins":
        """The bins of a column.

        Args:
            column: declares its kind, and the values of a category.
            values: of the training rows, float64 [N]; NaN where there is none.
            count: number of bins, without those of one value.
        """
        names = column.code_names
        if column.values:
            return cls(names, column.in_order, np.empty(0), np.empty(0, bool))
        known = values[~np.isnan(values)]
        if not len(known):
            known = np.zeros(1)
        different, counts = np.unique(known, return_counts=True)
        alone = counts * 2 * count >= len(known)
        quantile = (np.cumsum(np.where(alone, 0, counts)) - 1) * count // len(known)
        first = np.ones(len(different), bool)
        first[1:] = alone[1:] | alone[:-1] | (quantile[1:] != quantile[:-1])
        starts, alone = different[first], alone[first]
        after = np.flatnonzero(~alone[1:] & alone[:-1]) + 1
        starts[after] = starts[after - 1]
        ends = [*starts[1:], different[-1]]
        written = [
            column.written(start) if single else f"{column.written(start)} to {column.written(end)}"
            for start, end, single in zip(starts, ends, alone, strict=True)
        ]
        starts[after] = np.nextafter(starts[after], np.inf)
        without = len(column.no_values)
        names = [*written, _AWAY, *names[len(names) - without :]]
        return cls(names, len(starts), starts, alone, float(different[-1]), tuple(column.no_values))

    def codes(self, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The bin of each row. int [N]

        Args:
            codes: those of the card, int [N].
            values: float64 [N], NaN where there is none.
        """
        if not len(self.starts):
            return codes
        at = np.searchsorted(self.starts, values, side="right") - 1
        inside = (at >= 0) & (values <= self.largest)
        inside &= ~self.alone[at] | (values == self.starts[at])
        found = np.where(inside, at, self.in_order).astype(np.int32)
        for place, code in enumerate(self.others, self.in_order + 1):
            found[codes == code] = place
        return found
