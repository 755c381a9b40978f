"""What a unit moves, at most, and that no rounding moves more: the counts and the errors that are released."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer.data.tables import table as counting
from gossamer.data.tables.table import GRID, Table, row_weights
from gossamer.methods.marginals.counts import Counts, Errors, Interactions
from gossamer.methods.marginals.tree import Clique
from gossamer.privacy.queries import Bounds

DOMAIN = (3, 2, 4)
MAPS = [torch.arange(3), torch.arange(2), torch.tensor([0, 1, 1, 0])]
CLIQUES: list[Clique] = [(0,), (0, 1), (1, 2), (0, 1, 2)]
COUNTS = Counts(MAPS, CLIQUES)


def bounds(query: Counts = COUNTS) -> Bounds:
    return Bounds(norms=(float(query.max_rows),) * len(CLIQUES), groups=(0, 1, 2, 3))


ONES = bounds()


def table(n: int, *, seed: int = 0, units: np.ndarray | None = None) -> Table:
    draw = np.random.default_rng(seed)
    return Table(np.stack([draw.integers(size, size=n) for size in DOMAIN], 1).astype(np.int32), units)


def without(held: Table, unit: int) -> Table:
    """The table without a unit, whose number no other unit takes up: numbers above it move down by one."""
    if held.units is None:
        return held[np.delete(np.arange(len(held)), unit)]
    stay = held.units != unit
    return Table(held.codes[stay], held.units[stay] - (held.units[stay] > unit))


def errors(expected: list[Tensor] | None = None, scale: float = 1.0, counts: Counts = COUNTS) -> Errors:
    draw = torch.Generator().manual_seed(3)
    tables = [scale * torch.rand(shape, generator=draw, dtype=torch.float64) for shape in COUNTS.shapes]
    return Errors(counts, tables if expected is None else expected)


def tables_of(held: Table, query: Counts = COUNTS) -> list[Tensor]:
    return query.tables(query.clipped_sum(held, bounds(query)))


SAME = np.zeros((40, 3), np.int32)
PERSONS = np.array([0] * 7 + [1] * 1 + [2] * 3 + [3] * 13 + [4] * 16)
HELD = {
    "rows": table(40),
    "the same row": Table(SAME),
    "persons": table(40, units=PERSONS),
    "persons in another order": table(40, units=np.random.default_rng(1).permutation(PERSONS)),
    "persons with the same row": Table(SAME, PERSONS),
    "one person": table(40, units=np.zeros(40, np.int64)),
    "one row": table(1),
}


def test_counts_by_hand() -> None:
    held = table(50, seed=2)
    for clique, found in zip(CLIQUES, tables_of(held), strict=True):
        by_hand = torch.zeros(found.shape, dtype=torch.float64)
        for row in held.codes:
            by_hand[tuple(int(MAPS[column][row[column]]) for column in clique)] += 1
        assert torch.equal(found, by_hand)


def test_rows_of_a_person_weigh_one_together() -> None:
    """Two persons with the same row, one of them seven times: each counts once, up to a step of the grid for each row."""
    held = Table(np.zeros((8, 3), np.int32), np.array([0] * 7 + [1]))
    for found in tables_of(held):
        assert 2 - 8 / GRID <= float(found.sum()) <= 2
        assert float(found.flatten()[0]) == float(found.sum())


def test_rows_of_a_person_weigh_as_many_as_the_card_says() -> None:
    held = Table(np.zeros((8, 3), np.int32), np.array([0] * 6 + [1, 1]))
    assert row_weights(held.units, 3).tolist() == [GRID / 2] * 6 + [GRID] * 2
    assert [float(each.sum()) for each in tables_of(held, Counts(MAPS, CLIQUES, 3))] == [5.0] * len(CLIQUES)


@pytest.mark.parametrize("max_rows", [1, 3, 50])
@pytest.mark.parametrize("name", HELD)
def test_a_unit_moves_each_table_by_at_most_its_bound(name: str, max_rows: int) -> None:
    """Any unit, at any position: exactly, in L1 and so in L2. The total movement is that of the tables together."""
    held, query = HELD[name], Counts(MAPS, CLIQUES, max_rows)
    whole = tables_of(held, query)
    moved = []
    for unit in range(held.population):
        for before, after in zip(whole, tables_of(without(held, unit), query), strict=True):
            moved.append(float((before - after).abs().sum()))
            assert float((before - after).norm()) <= max_rows
    assert max(moved) <= max_rows
    most = 1 if held.units is None else int(np.bincount(held.units).max())
    assert max(moved) > min(max_rows, most) - 40 / GRID, "the bound is reached where a unit has so many rows"


@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("scale", [0.0, 1.0, 40.0, 1e6])
def test_a_unit_moves_the_errors_by_at_most_the_bound(name: str, scale: float, max_rows: int) -> None:
    held, query = HELD[name], errors(scale=scale, counts=Counts(MAPS, CLIQUES, max_rows))
    asked = Bounds(norms=query.norms)
    whole = query.clipped_sum(held, asked)
    for unit in range(held.population):
        moved = whole - query.clipped_sum(without(held, unit), asked)
        assert float(moved.abs().max()) <= max_rows
        assert float(moved.norm()) <= query.norms[0] == 2 * max_rows


def test_the_bound_of_the_errors_is_reached() -> None:
    """A model that expects nothing: one row more is one more in each error. So no smaller bound holds."""
    query = errors(scale=0.0)
    asked = Bounds(norms=query.norms)
    moved = query.clipped_sum(table(5), asked) - query.clipped_sum(table(5)[:4], asked)
    assert float(moved.norm()) == pytest.approx(math.sqrt(len(CLIQUES)))


def test_other_units_do_not_change_how_a_unit_is_rounded() -> None:
    """Weights of a third, in tables of up to 3 million rows: what one person adds is the same to the last bit."""
    person = Table(np.zeros((3, 3), np.int32), np.zeros(3, np.int64))
    alone = COUNTS.clipped_sum(person, ONES)
    for others in (1, 1_000, 1_000_000):
        crowd = Table(np.zeros((3 * others, 3), np.int32), 1 + np.repeat(np.arange(others), 3))
        both = Table(np.concatenate([crowd.codes, person.codes]), np.concatenate([crowd.units, person.units]))
        assert torch.equal(COUNTS.clipped_sum(both, ONES) - COUNTS.clipped_sum(crowd, ONES), alone)


def test_errors_by_hand() -> None:
    held, query = table(30), errors(scale=5.0)
    found = query.clipped_sum(held, Bounds(norms=(2.0,)))
    by_hand = [float((a - b).abs().sum()) for a, b in zip(tables_of(held), query.expected, strict=True)]
    assert found.tolist() == pytest.approx(by_hand, abs=1e-4)


def test_an_empty_table_and_a_code_out_of_range_are_answered() -> None:
    """An error message would be an output."""
    empty = table(0)
    assert float(COUNTS.clipped_sum(empty, ONES).abs().sum()) == 0
    assert errors().clipped_sum(empty, Bounds(norms=(2.0,))).shape == (4,)
    strange = Table(np.array([[99, -1, 7]], np.int32))
    for found in tables_of(strange):
        assert float(found.sum()) == 1


def test_no_candidate_is_an_answer() -> None:
    nothing = Errors(Counts(MAPS, []), [])
    assert nothing.clipped_sum(table(3), Bounds(norms=nothing.norms)).shape == (0,)


def test_a_smaller_bound_than_the_sensitivity_is_refused() -> None:
    with pytest.raises(ValueError, match="by up to 1"):
        COUNTS.clipped_sum(table(3), Bounds(norms=(1.0, 1.0, 0.5, 1.0)))
    with pytest.raises(ValueError, match="by up to 3"):
        Counts(MAPS, CLIQUES, 3).clipped_sum(table(3), Bounds(norms=(3.0, 3.0, 2.0, 3.0)))
    with pytest.raises(ValueError, match="4 errors by up to 2"):
        errors().clipped_sum(table(3), Bounds(norms=(1.0,)))


def test_every_table_of_few_rows() -> None:
    """All tables of at most three rows over a small domain, with and without persons: the worst movement is the bound."""
    maps = [torch.arange(2), torch.arange(2)]
    counts = Counts(maps, [(0,), (0, 1)])
    every = list(itertools.product(range(2), repeat=2))
    expected = [torch.tensor([0.5, 1.5]).double(), torch.tensor([[1.0, 0.0], [0.25, 0.75]]).double()]
    query = Errors(counts, expected)
    bounds, worst = Bounds(norms=(1.0, 1.0), groups=(0, 1)), 0.0
    for rows in itertools.product(every, repeat=3):
        for units in (None, np.array([0, 0, 1]), np.array([0, 1, 0])):
            held = Table(np.array(rows, np.int32), units)
            for unit in range(held.population):
                fewer = without(held, unit)
                pair = [counts.clipped_sum(each, bounds) for each in (held, fewer)]
                assert all(float(part.norm()) <= 1 for part in (pair[0] - pair[1]).split(counts.sizes))
                asked = Bounds(norms=query.norms)
                moved = float((query.clipped_sum(held, asked) - query.clipped_sum(fewer, asked)).norm())
                worst = max(worst, moved)
    assert worst <= query.norms[0]


HALVES = [torch.tensor(half).double() for half in ([-1, 1, 1], [-1, 1], [1, -1, -1, 1])]
SETS: list[Clique] = [(0,), (2,), (0, 2)]
INTERACTIONS = Interactions(HALVES, 1, SETS)


def test_interactions_by_hand() -> None:
    """Weight times the halves of the label and the set, added up over more rows than one block holds."""
    units = np.arange(2**18 + 92) // 3
    for held in (table(2**18 + 92, seed=4), table(2**18 + 92, seed=4, units=units)):
        weights = np.ones(len(held)) if held.units is None else np.full(len(held), (GRID * 2 // 3) / GRID)
        signs = np.stack([half.numpy()[held.codes[:, k]] for k, half in enumerate(HALVES)], 1)
        by_hand = [float((weights * signs[:, 1] * signs[:, list(each)].prod(1)).sum()) for each in SETS]
        assert INTERACTIONS.of(held, 2).tolist() == pytest.approx(by_hand, abs=1e-9)


def test_a_label_that_is_a_parity_has_one_interaction_of_all_rows() -> None:
    codes = np.array(list(itertools.product(range(2), repeat=4)), np.int32)
    label = codes.sum(1) % 2
    columns: list[Clique] = [each for k in range(1, 5) for each in itertools.combinations(range(4), k)]
    query = Interactions([torch.tensor([-1.0, 1.0]).double()] * 5, 4, columns)
    found = query.of(Table(np.column_stack([codes, label]).astype(np.int32)), 1)
    assert found.abs().tolist() == [0.0] * 14 + [16.0]


@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("name", HELD)
def test_a_unit_moves_the_interactions_by_at_most_the_bound(name: str, max_rows: int) -> None:
    """Each by at most K, all of them by K sqrt(3); and the errors beside them by their own bound."""
    held, counts = HELD[name], Counts(MAPS, CLIQUES, max_rows)
    query = Errors(counts, errors().expected, INTERACTIONS)
    asked = Bounds(norms=query.norms, groups=(0, 1))
    assert query.norms == (2 * max_rows, max_rows * math.sqrt(3))
    whole = query.clipped_sum(held, asked)
    for unit in range(held.population):
        own, beside = (whole - query.clipped_sum(without(held, unit), asked)).split(query.sizes)
        assert float(own.norm()) <= query.norms[0]
        assert float(beside.abs().max()) <= max_rows
        assert float(beside.norm()) <= query.norms[1]


def test_the_bound_of_the_interactions_is_reached() -> None:
    moved = INTERACTIONS.of(table(5), 1) - INTERACTIONS.of(table(5)[:4], 1)
    assert moved.abs().tolist() == [1.0] * 3


def test_interactions_of_an_empty_table_and_of_codes_out_of_range_are_answered() -> None:
    assert INTERACTIONS.of(table(0), 1).tolist() == [0.0] * 3
    assert INTERACTIONS.of(Table(np.array([[99, -1, 7]], np.int32)), 1).abs().tolist() == [1.0] * 3


def test_a_smaller_bound_than_that_of_the_interactions_is_refused() -> None:
    query = Errors(COUNTS, errors().expected, INTERACTIONS)
    with pytest.raises(ValueError, match=r"3 errors by up to 1\.73"):
        query.clipped_sum(table(3), Bounds(norms=(2.0, 1.0), groups=(0, 1)))


@pytest.mark.parametrize(("most", "few", "count"), [(1, 1, 7), (216, 1, 3), (2**18, 1, 1), (1, 24, 1), (1, 11, 5)])
def test_cliques_that_are_counted_together_have_the_counts_of_each(
    monkeypatch: pytest.MonkeyPatch, most: int, few: int, count: int
) -> None:
    monkeypatch.setattr(counting, "MOST_CELLS", most)
    monkeypatch.setattr(counting, "_FEW_CELLS", few)
    held = table(40, units=PERSONS)
    every: list[Clique] = [each for k in (1, 2, 3) for each in itertools.combinations(range(3), k)]
    found = tables_of(held, Counts(MAPS, every))
    for clique, counted in zip(every, found, strict=True):
        (alone,) = tables_of(Table(held.codes, PERSONS), Counts(MAPS, [clique]))
        assert torch.equal(counted, alone)
    covers = counting.together(every, (3, 2, 2))
    assert len(covers) == count
    assert sorted(itertools.chain.from_iterable(covers.values())) == sorted(every)


def test_19900_pairs_need_2211_tables() -> None:
    pairs: list[Clique] = [*itertools.combinations(range(200), 2)]
    covers = counting.together(pairs, [6] * 200)
    assert len(covers) == 2_211
    assert sorted(itertools.chain.from_iterable(covers.values())) == pairs
    assert max(6 ** len(cover) for cover in covers) <= 2**18


def test_a_table_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For other merged values and other numbers of rows that count in full, it is another table."""
    held, asked = table(40, units=PERSONS), []
    count = Table._sums
    monkeypatch.setattr(
        Table, "_sums", lambda self, maps, cliques, k: asked.append(len(cliques)) or count(self, maps, cliques, k)
    )
    merged = [MAPS[0], MAPS[1], torch.tensor([0, 0, 1, 1])]
    queries = [COUNTS, Counts(MAPS, CLIQUES, 3), Counts(merged, CLIQUES), COUNTS]
    found = [tables_of(held, query) for query in queries]
    assert asked == [1, 1, 1, 0]
    for query, own in zip(queries, found, strict=True):
        assert all(map(torch.equal, own, tables_of(Table(held.codes, PERSONS), query)))
