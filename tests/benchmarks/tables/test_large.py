"""The large made-up table fits its card, and its columns depend on each other."""

import numpy as np

from benchmarks.tables import large
from benchmarks.tables.scores import shares
from gossamer.data.tables.read import read_table


def test_the_values_fit_the_card_and_every_later_column_depends_on_an_earlier_one():
    made, facts = large.values(4_000, 6, 0), large.card(4_000, 6)
    codes = read_table(made, facts).codes
    assert facts.domain == (16, 3, 4, 16, 6, 7)
    assert codes.max(0).tolist() == [size - 1 for size in facts.domain]

    def dependence(a: int, b: int) -> float:
        alone = [shares(codes, (k,), facts.domain) for k in (a, b)]
        return float(np.abs(shares(codes, (a, b), facts.domain) - np.outer(*alone).ravel()).sum() / 2)

    strongest = [max(dependence(a, b) for a in range(b)) for b in range(2, 6)]
    assert np.mean(strongest) > 0.2, strongest


def test_the_same_seed_gives_the_same_table():
    once, again = large.values(100, 4, 0), large.values(100, 4, 0)
    assert all((once[name] == again[name]).all() for name in once)
    assert any((once[name] != large.values(100, 4, 1)[name]).any() for name in once)
