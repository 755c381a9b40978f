"""Rows as one-hot pictures and back, and a run of each method on a few rows."""

import numpy as np
import pytest
from test_table_scores import DATA

from benchmarks.tables import own


@pytest.mark.parametrize("side", [None, 28])
def test_one_hot_rows_come_back(side: int | None):
    card = own.picture_card(DATA, side)
    assert card.shape == ((1, 1, 5) if side is None else (1, 28, 28))
    assert card.classes == 2
    pictures = own.one_hot(DATA.seen, DATA, card.shape)
    assert pictures.dtype == np.uint8
    assert (pictures.reshape(600, -1).sum(1) == 2 * 255).all(), "one value of each column but the label"
    np.testing.assert_array_equal(own.from_one_hot(pictures / 255, DATA.seen[:, 2], DATA), DATA.seen)


def test_the_likeliest_value_wins():
    picture = np.array([[0.2, 0.5, 0.4, 0.1, 0.3]]).reshape(1, 1, 1, 5)
    np.testing.assert_array_equal(own.from_one_hot(picture, np.array([1]), DATA), [[1, 1, 1]])


def test_marginals_gives_as_many_rows_as_it_got():
    made = own.samples("marginals", DATA, 10.0, 0, {"rounds": 1})
    assert made.shape == DATA.seen.shape
    agree = (made[:, 1] == made[:, 2]).mean()
    assert agree > 0.8, "y is b in nine rows of ten"
    np.testing.assert_array_equal(made, own.samples("marginals", DATA, 10.0, 0, {"rounds": 1}))


@pytest.mark.slow
def test_privae_gives_rows_of_the_card():
    made = own.samples("privae", DATA, 10.0, 0, {"steps": 2, "expected_batch_size": 100, "width": 8})
    assert made.shape == DATA.seen.shape
    assert (made.max(0) < DATA.facts.domain).all()
