"""Rows as features: distances by hand; and which rows are the most isolated."""

import numpy as np
import pytest

from gossamer.attacks.rows import most_isolated, row_features


def test_distances_between_codes() -> None:
    """A category of 3, and a column of 5 codes of which the first 3 have an order."""
    rows = row_features(np.array([[0, 0], [1, 0], [0, 1], [0, 2], [0, 3], [0, 4]]), [3, 5], [0, 3])
    assert rows.dtype == np.float32
    assert rows.shape == (6, 3 + 1 + 2)
    far = np.linalg.norm(rows - rows[0], axis=1)
    assert far.tolist() == pytest.approx([0, 1, 0.5, 1, 0.5**0.5, 0.5**0.5])
    assert np.linalg.norm(rows[4] - rows[5]) == pytest.approx(1)


def test_one_code_in_order_is_no_division_by_zero() -> None:
    assert row_features(np.zeros((2, 1), int), [1], [1]).tolist() == [[0.0], [0.0]]


def test_the_most_isolated_are_those_far_from_the_reference() -> None:
    """5 of 50 are far out, 3 members and 2 non-members; a tenth of both is 5."""
    draw = np.random.default_rng(0)
    members, nonmembers, reference = (draw.normal(size=(n, 3)) for n in (25, 25, 60))
    members[[1, 4, 7]] += 50
    nonmembers[[0, 9]] -= 50
    inside, outside = most_isolated(members, nonmembers, reference)
    assert np.flatnonzero(inside).tolist() == [1, 4, 7]
    assert np.flatnonzero(outside).tolist() == [0, 9]
