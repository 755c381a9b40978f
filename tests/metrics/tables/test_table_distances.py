"""Marginals and range queries of tiny tables, beside values by hand."""

import itertools

import numpy as np
import pytest

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.metrics.tables import distances
from gossamer.metrics.tables.distances import query_error, random_queries, total_variation
from gossamer.metrics.tables.rows import GROUPS, Rows, column_sets

DOMAIN = (2, 3, 4)


def drawn(n: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    codes = np.stack([draw.integers(size, size=n) for size in DOMAIN], 1)
    codes[:, 1] = np.where(draw.random(n) < 0.5, codes[:, 0], codes[:, 1])  # the first two columns depend on each other
    return codes.astype(np.int32)


def test_rows_weigh_as_many_as_the_card_says() -> None:
    codes, units = np.zeros((6, 1), np.int32), np.array([4, 4, 4, 4, 7, 7])
    assert Rows.of(codes).weights.tolist() == [1.0] * 6
    assert Rows.of(codes, units).weights.tolist() == [0.25] * 4 + [0.5] * 2
    assert Rows.of(codes, units, 2).weights.tolist() == [0.5] * 4 + [1.0] * 2


def test_total_variation_by_hand() -> None:
    samples = Rows.of(np.array([[0, 0], [0, 1], [1, 1], [1, 1]], np.int32))
    real = Rows.of(np.array([[0, 0], [0, 0], [0, 0], [1, 0]], np.int32))
    # Shares of the first column: 1/2, 1/2 against 3/4, 1/4. Of the second: 1/4, 3/4 against 1, 0.
    assert total_variation(samples, real, (0,), (2, 2))[0] == 0.25
    assert total_variation(samples, real, (1,), (2, 2))[0] == 0.75
    # Of both: 1/4, 1/4, 0, 1/2 against 3/4, 0, 1/4, 0.
    assert total_variation(samples, real, (0, 1), (2, 2))[0] == 0.75
    assert total_variation(samples, samples, (0, 1), (2, 2))[0] == 0


def test_a_unit_counts_once_however_many_rows_it_has() -> None:
    """Three rows of one person with the value 0 and one row of another with 1 are half and half."""
    real = Rows.of(np.array([[0], [0], [0], [1]], np.int32), np.array([7, 7, 7, 2]))
    assert (real.units, real.weights.tolist()) == (2, [1 / 3, 1 / 3, 1 / 3, 1])
    assert len(set(real.groups[:3].tolist())) == 1
    halves = Rows.of(np.array([[0], [1]], np.int32))
    assert total_variation(halves, real, (0,), (2,))[0] == 0
    assert total_variation(real, halves, (0,), (2,))[0] == 0
    alike = Rows.of(np.array([[0], [0], [0], [1]], np.int32))
    assert total_variation(halves, alike, (0,), (2,))[0] == 0.25


@pytest.mark.parametrize("columns", [(0,), (0, 2), (0, 1, 2)])
def test_large_marginals_are_counted_alike(columns: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    samples, real = Rows.of(drawn(300, 0)), Rows.of(drawn(200, 1))
    dense = total_variation(samples, real, columns, DOMAIN)
    monkeypatch.setattr(distances, "MOST_CELLS", 1)
    sparse = total_variation(samples, real, columns, DOMAIN)
    assert np.allclose(dense, sparse, atol=1e-12)


def test_figures_without_a_group_are_those_of_the_other_rows() -> None:
    codes, units = drawn(300, 0), np.random.default_rng(5).integers(100, size=300)
    samples, real = Rows.of(codes, units), Rows.of(drawn(200, 1))
    query = {0: np.array([True, False]), 2: np.array([True, True, False, False])}
    for found in (
        lambda rows: total_variation(rows, real, (0, 1), DOMAIN),
        lambda rows: query_error(rows, real, query),
    ):
        all_of_them = found(samples)
        assert len(all_of_them) == 1 + GROUPS
        for group in (0, GROUPS - 1):
            others = found(samples.take(np.flatnonzero(samples.groups != group)))
            assert all_of_them[1 + group] == pytest.approx(others[0], abs=1e-12)


CARD = TableCard(
    columns=(
        Column(name="sex", kind="category", values=("f", "m")),
        Column(name="age", kind="integer", bounds=(0, 89), bins=9, missing=True),
        Column(name="one", kind="category", values=("x",)),
        Column(name="grade", kind="category", values=("a", "b", "c"), ordered=True),
    ),
    declared_size=100,
)


def test_range_queries_are_conjunctions_of_two_or_three_columns() -> None:
    in_order = [column.in_order for column in CARD.columns]
    queries = random_queries(CARD.domain, in_order, 200)
    assert {len(query) for query in queries} == {2, 3} and not any(2 in query for query in queries)
    for again, query in zip(random_queries(CARD.domain, in_order, 200), queries, strict=True):
        assert all((again[at] == asked).all() for at, asked in query.items())
    for query in queries:
        for at, asked in query.items():
            assert len(asked) == CARD.columns[at].size and asked.any()
            if CARD.columns[at].in_order:
                inside = np.flatnonzero(asked)
                assert (np.diff(inside) == 1).all() and inside[-1] < CARD.columns[at].in_order
            else:
                assert not asked.all()


def test_error_of_a_range_query_by_hand() -> None:
    samples = Rows.of(np.array([[0, 1], [0, 2], [1, 1], [0, 3]], np.int32))
    real = Rows.of(np.array([[0, 1], [1, 2]], np.int32))
    query = {0: np.array([True, False]), 1: np.array([False, True, True, False])}
    assert query_error(samples, real, query)[0] == 0  # two of four, and one of two
    assert query_error(samples, real, {1: query[1]})[0] == 0.25  # three of four, and both


def test_sets_of_columns_are_all_of_them_or_different_ones() -> None:
    assert column_sets(5, 2, 100) == [*itertools.combinations(range(5), 2)]
    some = column_sets(40, 3, 400)
    assert len(set(some)) == 400 and all(a < b < c for a, b, c in some)
    assert some == column_sets(40, 3, 400)
    assert column_sets(2, 3, 400) == []
