"""How far samples are from real records: marginals, and answers to random range queries.

Each function gives one number for all rows of the first set, then the same without each group, for the jackknife.
"""

import math
from collections.abc import Sequence

import numpy as np

from gossamer.metrics.tables.rows import Rows

MOST_CELLS = 1 << 18
"""Cells of a marginal that are counted in full. Of a larger one, only cells with a record are counted."""

Query = dict[int, np.ndarray]
"""For some columns by position, whether each code is asked for, bool [codes]. A row must fit in all of them."""


def total_variation(rows: Rows, real: Rows, columns: Sequence[int], domain: Sequence[int]) -> np.ndarray:
    """Total variation between the marginals of two sets, half the L1 distance of their shares. float64 [1 + groups]"""
    shape = [domain[column] for column in columns]
    count, sets = math.prod(shape), (rows, real)
    ours, theirs = (np.ravel_multi_index([*each.codes[:, columns].T], shape) for each in sets)
    if count > MOST_CELLS:
        different, cells = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
        count = len(different)
        ours, theirs = np.split(cells, [len(ours)])
    apart = rows.shares(ours, count) - real.shares(theirs, count)[0]
    return np.asarray(np.abs(apart).sum(axis=1) / 2)


def random_queries(domain: Sequence[int], in_order: Sequence[int], count: int) -> list[Query]:
    """Conjunctions of conditions on two or three columns, the same for every set of rows.

    Of a column in order, a condition is a range between two of its values or bins. Of another, it is a random part of its
    values, special values, "other" and missing included.

    Args:
        domain: number of codes of each column.
        in_order: how many of the first codes of each column follow an order.
        count: number of queries.
    """
    draw = np.random.default_rng(0)
    usable = [at for at, size in enumerate(domain) if size > 1]
    queries = []
    for _ in range(count):
        chosen = draw.choice(usable, min(len(usable), int(draw.integers(2, 4))), replace=False)
        queries.append({int(at): _condition(domain[at], in_order[at], draw) for at in chosen})
    return queries


def _condition(size: int, in_order: int, draw: np.random.Generator) -> np.ndarray:
    asked = np.zeros(size, bool)
    if in_order > 1:
        low, high = np.sort(draw.integers(in_order, size=2))
        asked[low : high + 1] = True
        return asked
    while not 0 < asked.sum() < size:
        asked = draw.random(size) < 1 / 2
    return asked


def query_error(rows: Rows, real: Rows, query: Query) -> np.ndarray:
    """The difference between the shares of two sets that fit a query, not negative. float64 [1 + groups]"""
    sets = (rows, real)
    fitting = [np.logical_and.reduce([asked[each.codes[:, at]] for at, asked in query.items()]) for each in sets]
    ours, theirs = (each.shares(fits.astype(np.int64), 2) for each, fits in zip(sets, fitting, strict=True))
    return np.asarray(np.abs(ours[:, 1] - theirs[0, 1]))
