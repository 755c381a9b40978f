"""Marginals of linked tables: every question of the conformance suite, and draws row after row."""

import itertools
import math
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from gossamer.data.tables.linked.card import LinkedCard
from gossamer.data.tables.table import Table
from gossamer.methods import METHODS
from gossamer.methods.contract import Draw
from gossamer.methods.marginals import Noise, linked, loop, of_parts, steps
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.tree import JunctionTree
from gossamer.privacy.queries import Bounds
from gossamer.testing import MethodTests

CARD = LinkedCard.loads(
    """
declared_size = 200
unit = "patient"
[table.patients]
key = "id"
[[table.patients.column]]
name = "sex"
kind = "category"
values = ["f", "m"]
[[table.patients.column]]
name = "side"
kind = "category"
values = ["left", "middle", "right"]
[table.visits]
parent = "patients"
order = "day"
max_rows = 3
[[table.visits.column]]
name = "day"
kind = "integer"
bounds = [0, 99]
bins = 4
[[table.visits.column]]
name = "ill"
kind = "category"
values = ["no", "yes"]
[table.pets]
parent = "patients"
max_rows = 2
[[table.pets.column]]
name = "animal"
kind = "category"
values = ["cat", "dog"]
[[table.pets.column]]
name = "old"
kind = "boolean"
"""
)


class TestLinkedTables(MethodTests):
    method = METHODS["marginals"]
    card = CARD
    small: ClassVar[dict[str, Any]] = {"noise_multiplier": 1.0, "rounds": 2, "cells": 2_000, "iterations": 10}
    toy: ClassVar[dict[str, Any]] = {"noise_multiplier": 0.1, "rounds": 1, "cells": 2_000, "triples_from": 0}


def test_the_parts_share_the_budget() -> None:
    config = METHODS["marginals"].config_type(noise_multiplier=2.0)
    noises = [own.noise_multiplier for _, own in of_parts(config, CARD)]
    assert sum(noise**-2 for noise in noises) == pytest.approx(2.0**-2)
    assert noises[1] < noises[0], "the part with most columns has most of the budget"


def test_groups_of_steps_are_first_rows_equal_values_and_distances_that_double() -> None:
    part = CARD.parts[1]
    net = MarkovField(part.card.domain, None)
    before, own = part.before[0] + part.first_before, part.own  # days in four bins, and no row before
    groups = steps._groups(part.card, net, (before, own)).view(net.sizes[before], net.sizes[own])
    rows, last = groups[:-1], groups[-1]
    assert last.tolist() == [0, 1, 2, 3], "first rows are counted by their values"
    for far, group in ((0, 4), (1, 5), (2, 6), (3, 6)):
        assert {int(rows[a, b]) for a in range(4) for b in range(4) if abs(a - b) == far} == {group}
    ill = steps._groups(part.card, net, (before + 1, own + 1)).view(3, 2)
    assert ill.tolist() == [[2, 3], [3, 2], [0, 1]], "values without an order are equal, or not"


def test_no_unit_moves_the_groups_of_a_table_by_more_than_one() -> None:
    part = CARD.parts[1]
    asked = steps.query(part.card, MarkovField(part.card.domain, None))
    draw = np.random.default_rng(0)
    units = np.repeat(np.arange(5), [1, 2, 7, 3, 40])
    codes = np.stack([draw.integers(0, size, len(units)) for size in part.card.domain], 1).astype(np.int16)
    bounds = Bounds(norms=asked.norms, groups=tuple(range(len(asked.norms))))
    whole = asked.clipped_sum(Table(codes, units), bounds)
    for unit in range(5):
        left = units != unit
        moved = whole - asked.clipped_sum(Table(codes[left], units[left]), bounds)
        for table in asked.tables(moved):
            assert table.min() >= 0
            assert table.sum() == pytest.approx(1, abs=1e-4)
            assert table.sum() <= 1
    with pytest.raises(ValueError, match="a unit moves"):
        asked.clipped_sum(Table(codes, units), Bounds(norms=(0.5,) * len(asked.norms)))


def test_known_columns_are_not_counted_alone_and_no_pair_of_them_is_asked_for() -> None:
    part = CARD.parts[1]
    config = METHODS["marginals"].config_type(noise_multiplier=1.0, rounds=2, cells=2_000).resolved(part.card)
    run: Any = SimpleNamespace(config=config, card=part.card)
    known = {*part.card.known}
    assert known == set(range(part.own - 1))
    assert not known & {column for clique in loop.first_query(run).cliques for column in clique}
    state = loop.State(MarkovField(part.card.domain, None), 200.0)
    assert not any(known.issuperset(clique) for clique in loop.open_candidates(config, part.card, state, 0))


def test_shares_of_the_budget_add_up() -> None:
    """With rounds and, where noise hides errors, without."""
    part = CARD.parts[1]
    for noise in (0.1, 1_000.0):
        config = METHODS["marginals"].config_type(noise_multiplier=noise)
        each = Noise.of(config, part.card)
        times = (1, 1, config.rounds, config.rounds)
        spent = (each.columns, each.steps, each.errors, each.marginals)
        assert sum(n / own**2 for n, own in zip(times, spent, strict=True)) == pytest.approx(1 / noise**2)
    assert math.isinf(each.marginals) and each.columns == each.steps, "half for columns, and half for steps"


def _field(seed: int) -> MarkovField:
    """Three columns in a chain of random tables, the last value of the middle one merged with the first."""
    stream = torch.Generator().manual_seed(seed)
    own = MarkovField((3, 4, 2), None)
    own.merge(
        [torch.arange(3), torch.tensor([0, 1, 2, 0]), torch.arange(2)],
        [torch.ones(3), torch.tensor([1.0, 1, 1, 3]), torch.ones(2)],
    )
    tree = JunctionTree.over([(0, 1), (1, 2)], own.sizes)
    first = torch.rand(3, 3, generator=stream, dtype=torch.float64)
    first /= first.sum()
    second = torch.rand(3, 2, generator=stream, dtype=torch.float64)
    second = second / second.sum(1, keepdim=True) * first.sum(0)[:, None]
    own.take(tree, [first if clique == (0, 1) else second for clique in tree.cliques])
    return own


@pytest.mark.parametrize("known", [0, 2])
def test_draws_given_a_column_have_the_exact_conditional_shares(known: int) -> None:
    """One of the two columns is in the root of the tree, the other in a clique below it."""
    own, n = _field(1), 200_000
    first, second = (own.tables[own.tree.cliques.index(clique)] for clique in ((0, 1), (1, 2)))
    joint = {}
    for a, value, c in itertools.product(range(3), range(4), range(2)):
        b = int(own.maps[1][value])
        joint[a, value, c] = float(first[a, b] * own.shares_of(1)[value] * second[b, c] / second[b].sum())
    rows = torch.zeros(n, 3, dtype=torch.int64)
    rows[:, known] = torch.arange(n) % own.domain[known]
    drawn = linked.given(own, [known], rows, {}, torch.Generator().manual_seed(0))
    assert torch.equal(drawn[:, known], rows[:, known])
    for cell, share in joint.items():
        mine = drawn[drawn[:, known] == cell[known]]
        expected = share / sum(each for other, each in joint.items() if other[known] == cell[known])
        found = float((mine == torch.tensor(cell)).all(1).double().mean())
        assert abs(found - expected) < 5 * math.sqrt(expected / len(mine)), cell


def test_weights_leave_out_values_inside_merged_ones_too() -> None:
    allowed = torch.tensor([0.0, 0, 1, 1])
    drawn = linked.given(
        _field(2), [0], torch.zeros(5_000, 3, dtype=torch.int64), {1: allowed}, torch.Generator().manual_seed(0)
    )
    assert set(drawn[:, 1].tolist()) == {2, 3}, "value 3 shares its place in the tree with value 0, which is left out"


def test_each_parent_has_the_rows_that_its_number_says_and_only_the_first_has_no_row_before() -> None:
    config = METHODS["marginals"].config_type(noise_multiplier=1.0)
    rows, _ = linked.sample(linked.LinkedField(CARD), Draw(config, CARD, 300, None, torch.Generator().manual_seed(0)))
    patients, visits = (rows[rows[:, 0] == at] for at in (0, 1))
    counts = torch.bincount(visits[:, 1], minlength=len(patients))
    assert counts.max() == 3
    assert counts.min() == 0
    none = CARD.parts[1].card.columns[CARD.parts[1].step].missing_code
    first = np.diff(visits[:, 1].numpy(), prepend=-1) != 0
    assert np.array_equal(visits[:, 2].numpy() == none, first)
