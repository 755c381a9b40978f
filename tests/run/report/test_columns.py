"""The heat map of total variation in the internal report."""

from gossamer.run.report.columns import MOST_DRAWN, apart

CARD = {"column": [{"name": "id", "kind": "key"}, *({"name": name, "kind": "category"} for name in "cab")]}


def entry(pairs: list[list[object]]) -> list[dict[str, object]]:
    return [{"metric": "1-way TV", "value": 0.5}, {"metric": "2-way TV", "value": 0.1, "pairs": pairs}]


def test_columns_have_the_order_of_the_card() -> None:
    found = apart(entry([["a", "b", 0.01], ["a", "c", 0.2], ["b", "c", 0.02]]), CARD)
    assert found == {
        "names": ["c", "a", "b"],
        "pairs": [(2, 1, 0.01), (1, 0, 0.2), (2, 0, 0.02)],
        "full": 0.2,
        "worst": ["a and c 0.200", "b and c 0.020", "a and b 0.010"],
    }


def test_noise_alone_has_little_colour() -> None:
    found = apart(entry([["a", "b", 0.001]]), CARD)
    assert found is not None and found["full"] == 0.05


def test_without_pairs_there_is_none() -> None:
    assert apart(entry([]), CARD) is None
    assert apart([], CARD) is None


def test_a_wide_table_is_drawn_in_part() -> None:
    names = [f"c{at}" for at in range(MOST_DRAWN + 5)]
    card = {"column": [{"name": name, "kind": "category"} for name in names]}
    found = apart(entry([[first, names[-1], 0.3] for first in names[:-1]] + [["c0", "c1", 0.1]]), card)
    assert found is not None and (len(found["names"]), found["pairs"], found["full"]) == (
        MOST_DRAWN,
        [(1, 0, 0.1)],
        0.1,
    )
