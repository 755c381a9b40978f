"""The histograms of samples, and the heat map of total variation in the internal report."""

import itertools

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from gossamer.data.tables.any_card import card_from
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.samples import TableSamples
from gossamer.kinds.histograms import MOST_DRAWN, _drawn
from gossamer.run.report.html import apart

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


def test_no_word_of_the_histograms_is_over_another_or_cut() -> None:
    """Names of values that do not fit beside each other are turned, and a long list of last bars gets a line."""
    places, bins = ["abroad", "east", "north", "south", "west"], {"kind": "integer", "bounds": [0, 59000]}
    columns = [
        {"name": "sex", "kind": "category", "values": ["f", "m", "x"]},
        {"name": "region", "kind": "category", "values": places, "outside": "other"},
        {"name": "admitted", "kind": "date", "bounds": ["2023-01-01", "2025-12-31"]},
        {"name": "a name of many letters", "special": [-1, -2, -3], "missing": True, **bins},
    ]
    card = card_from({"title": "T", "data_set": "t", "declared_size": 100, "unit": "record", "column": columns})
    assert isinstance(card, TableCard)
    figure = _drawn([TableSamples(np.zeros((10, len(columns)), dtype=np.int32), card)])
    FigureCanvasAgg(figure).draw()
    shown = [axes for axes in figure.axes if axes.get_visible()]
    turned = [axes.get_xticklabels()[0].get_rotation() > 0 for axes in shown]
    assert turned == [False, True, False, False]
    titles = [axes.title for axes in shown]
    flat = [
        label
        for axes, is_turned in zip(shown, turned, strict=True)
        if not is_turned
        for label in axes.get_xticklabels()
    ]
    boxes = [text.get_window_extent() for text in (*titles, *flat)]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 for box in boxes)


def test_a_thousand_bins_are_drawn_as_forty_bars_and_what_is_no_bin_alone() -> None:
    column = {"name": "pay", "kind": "integer", "bounds": [0, 999], "bins": 1_000, "special": [-1], "missing": True}
    card = card_from({"title": "T", "data_set": "t", "declared_size": 100, "unit": "record", "column": [column]})
    assert isinstance(card, TableCard)
    codes = np.array([[0], [24], [25], [999], [1_000], [1_001], [1_001], [500]], dtype=np.int16)
    heights = [bar.get_height() for bar in _drawn([TableSamples(codes, card)]).axes[0].patches]
    assert len(heights) == 42 and [heights[at] for at in (0, 1, 20, 39, 40, 41)] == [25, 12.5, 12.5, 12.5, 12.5, 25]
