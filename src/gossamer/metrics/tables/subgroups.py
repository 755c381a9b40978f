"""Figures for each value of a column: are there as many samples as records, and does a model that learnt from them fit?"""

from collections.abc import Iterator

import numpy as np

from gossamer.data.columns.column import Column
from gossamer.errors import RequestError, did_you_mean
from gossamer.intervals import Estimate, difference, proportion
from gossamer.metrics.tables.rows import Rows

MOST_GROUPS = 50
"""Values or bins of one column."""


def chosen_columns(named: tuple[str, ...], columns: tuple[Column, ...]) -> list[int]:
    """The positions of columns by their names. Raises RequestError: no such column, or one with too many values."""
    names = [column.name for column in columns]
    for name in named:
        if name not in names:
            raise RequestError(
                f"`subgroups`: there is no column {name!r}.{did_you_mean(name, names)} Known: {', '.join(names)}."
            )
        if (size := columns[names.index(name)].size) > MOST_GROUPS:
            raise RequestError(
                f"`subgroups`: {name!r} has {size:,} values or bins, and at most {MOST_GROUPS} are subgroups."
            )
    return [names.index(name) for name in named]


def share_difference(samples: Rows, real: Rows, at: int, code: int) -> Estimate | None:
    """The share of a code in a column of the samples, minus that of real training units; None: neither has it.

    Newcombe's interval for two independent shares.
    """
    ours, theirs = (_share(rows, rows.codes[:, at] == code, np.ones(len(rows), bool)) for rows in (samples, real))
    if ours is None or theirs is None or ours.value + theirs.value == 0:
        return None
    return difference(ours, theirs, f"{len(samples):,} samples and {len(real):,} real training rows")


def accuracy_difference(right: tuple[np.ndarray, np.ndarray], tests: Rows, at: int, code: int) -> Estimate | None:
    """How much less often a model is right in a subgroup of the test rows, trained on samples; None: too few test rows.

    Newcombe's interval takes the two shares for independent. Both come from the same rows, so it is wider than needed.

    Args:
        right: bool [N] each: which test rows are classified right after training on samples, and on real rows.
        tests: the test rows.
        at: position of the column.
        code: of the subgroup.
    """
    inside = tests.codes[:, at] == code
    ours, theirs = (_share(tests, correct, inside) for correct in right)
    if ours is None or theirs is None:
        return None
    return difference(ours, theirs, f"{int(inside.sum()):,} test rows of the subgroup")


def _share(rows: Rows, which: np.ndarray, inside: np.ndarray) -> Estimate | None:
    """The share of some rows among those inside, by weight; None: these weigh less than one unit."""
    total = float(rows.weights[inside].sum())
    if total < 1:
        return None
    return proportion(min(total, float(rows.weights[inside & which].sum())), total, "")


def named_groups(columns: tuple[Column, ...], chosen: list[int]) -> Iterator[tuple[int, int, str]]:
    """Position, code and name of each subgroup, such as "sex = Female"."""
    for at in chosen:
        for code, value in enumerate(columns[at].code_names):
            yield at, code, f"{columns[at].name} = {value}"
