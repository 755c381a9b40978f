"""The attack by marginals: ratios by hand, a generator that gives its counts away, and one that has seen nothing."""

import itertools

import numpy as np
import pytest

from gossamer.attacks.marginals import frequencies, marginal_ratios
from gossamer.errors import DataError

SIZES = [4, 3, 2]
PAIRS = list(itertools.combinations(range(3), 2))


def attacked(seen: np.ndarray, members: np.ndarray, nonmembers: np.ndarray, reference: np.ndarray, sizes: list[int]):
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    return marginal_ratios(
        [frequencies(seen, pair, sizes) for pair in pairs],
        members, nonmembers, reference, cliques=pairs, sizes=sizes, name="m", needs="n", about="a",
    )  # fmt: skip


def test_frequencies_have_the_last_column_fastest() -> None:
    codes = np.array([[0, 1, 0], [0, 1, 1], [3, 2, 0], [3, 2, 0]])
    assert frequencies(codes, (0, 2), SIZES).tolist() == [0.25, 0.25, 0, 0, 0, 0, 0.5, 0]
    assert frequencies(codes, (1,), SIZES).tolist() == [0, 0.5, 0.5]


def test_scores_against_the_definition() -> None:
    draw = np.random.default_rng(0)
    seen, members, nonmembers, reference = (draw.integers(SIZES, size=(n, 3)) for n in (50, 9, 7, 40))
    found = attacked(seen, members, nonmembers, reference, SIZES)
    expected = []
    for row in members:
        ratios = []
        for a, b in PAIRS:
            shares = [((rows[:, [a, b]] == row[[a, b]]).all(axis=1)).mean() + 1 / 40 for rows in (seen, reference)]
            ratios.append(shares[0] / shares[1])
        expected.append(np.mean(ratios))
    assert found.roc.member_scores == pytest.approx(np.sort(expected))
    assert (found.name, found.chance) == ("m", 0.5)


def test_exact_counts_of_few_rows_give_members_away_and_other_rows_do_not() -> None:
    """200 members of 6 columns with 6 values: their exact pairs are released. Area 0.80; of other rows, chance."""
    draw, sizes = np.random.default_rng(1), [6] * 6
    members, nonmembers, reference, others = (draw.integers(6, size=(n, 6)) for n in (200, 200, 2_000, 200))
    caught = attacked(members, members, nonmembers, reference, sizes)
    assert caught.estimate.low > 0.7
    missed = attacked(others, members, nonmembers, reference, sizes)
    assert missed.estimate.low < 0.5 < missed.estimate.high


def test_one_row_is_too_few() -> None:
    rows = np.zeros((5, 3), int)
    with pytest.raises(DataError, match="one record"):
        attacked(rows, rows[:1], rows, rows, SIZES)
