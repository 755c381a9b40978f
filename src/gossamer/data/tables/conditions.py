"""Conditions on the values of samples: which codes can meet them, and which rows do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gossamer.data.columns.column import OTHER, WRITTEN, Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import to_numbers
from gossamer.data.tables.samples import TableSamples
from gossamer.errors import RequestError, did_you_mean


@dataclass(frozen=True)
class Conditions:
    """What some columns of a row must be.

    Args:
        codes: bool [values] for each position of a column with a condition: the codes that can meet it.
        intervals: pairs of the lowest and the highest number, for each position of a number or date with a condition.
    """

    codes: Mapping[int, np.ndarray]
    intervals: Mapping[int, list[tuple[float, float]]]

    @classmethod
    def of(cls, where: Mapping[str, Any], card: TableCard) -> Self:
        """Read conditions by the names of columns.

        A condition is a value, a pair (lowest, highest) of a number or date, or a list of these, of which one must hold. None
        is a missing value. Text is read as a file has it, "" is a missing value, and "60..80" a pair.

        Raises:
            RequestError: a column or a value that the card does not have; names the column.
        """
        codes, intervals = {}, {}
        for name, wanted in where.items():
            if name not in card.names:
                near = did_you_mean(str(name), card.names)
                raise RequestError(f"`where`: the generator has no column {name!r}.{near}")
            at = card.names.index(name)
            column, each = card.columns[at], wanted if isinstance(wanted, list) else [wanted]
            codes[at], own = _read(column, each)
            if not column.values:
                intervals[at] = own
            if not codes[at].any():
                raise RequestError(f"`where`: no value that the card declares of column {name!r} meets the condition.")
            if column.at_least or any(other.at_least == name for other in card.columns):
                codes[at][: column.plain + len(column.apart)] = True  # samples may exchange values of the two
        return cls(codes, intervals)

    def met(self, rows: TableSamples) -> np.ndarray:
        """Which rows meet all of them, by their values. bool [n]"""
        found = np.ones(len(rows), bool)
        numbers = to_numbers(rows.codes, rows.card, seed=rows.seed, rows=rows.numbers)
        for at, can in self.codes.items():
            coded, values = can[rows.codes[:, at]], numbers[:, at]
            if at in self.intervals:
                inside = [(low <= values) & (values <= high) for low, high in self.intervals[at]]
                coded = np.any([coded & np.isnan(values), *inside], axis=0)
            found &= coded  # a rule between columns may have changed a code
        return found


def _read(column: Column, wanted: list[Any]) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """The codes that can meet one of some conditions, bool [values], and the intervals among the conditions."""
    codes, intervals = np.zeros(column.size, bool), []
    for each in wanted:
        special = {None: column.missing_code, "": column.missing_code, OTHER: column.other_code}
        if not isinstance(each, tuple) and special.get(each) is not None:
            codes[special[each]] = True
        elif column.values:
            text = str(each).capitalize() if column.kind == "boolean" else str(each)
            codes[: column.plain] |= np.array([value == text for value in column.values])
        else:
            low, high = (_number(column, end) for end in _ends(each))
            intervals.append((low, high))
            first, beyond, apart = column.cuts[:-1], column.cuts[1:], np.array(column.apart)
            if column.after:  # codes are of differences, so values decide
                low, high = -np.inf, np.inf
            codes[: column.plain] |= (first <= high) & (beyond > low)
            codes[column.plain : column.plain + len(apart)] |= (low <= apart) & (apart <= high)
    return codes, intervals


def _ends(wanted: Any) -> tuple[Any, Any]:
    wanted = tuple(wanted.split("..", 1)) if isinstance(wanted, str) and ".." in wanted else wanted
    return wanted if isinstance(wanted, tuple) and len(wanted) == 2 else (wanted, wanted)


def _number(column: Column, value: Any) -> float:
    try:
        return column.position(value, column.kind)
    except (TypeError, ValueError, AttributeError):
        raise RequestError(
            f"`where`: a condition on column {column.name!r} is {value!r}. Write {WRITTEN.get(column.kind, 'a number')}, and "
            "an interval as 60..80, in Python as (60, 80)."
        ) from None
