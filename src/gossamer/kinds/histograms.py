"""A histogram of each column of a table, as a picture."""

import io
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.data.columns.column import Column
from gossamer.data.tables.samples import TableSamples
from gossamer.lazy import Lazy

if TYPE_CHECKING:
    import matplotlib
    from matplotlib import figure as figures
else:
    matplotlib, figures = Lazy("matplotlib"), Lazy("matplotlib.figure")

DRAWN = 10_000
"""Rows of the histograms."""
MOST_DRAWN = 60
"""Columns of the picture."""
_MOST_BARS = 40
"""Bars of bins. Where there are more bins, a bar has several neighbours."""
_ACROSS = 3
_HEIGHT = 1.7
"""Inches of a row of histograms."""
_LABELLED = 8
"""Values of a category that have their names on the axis."""
_LETTERS = 14
_BESIDE = 26
"""Letters that fit along an axis. Names that are longer than the space between them are turned."""


def png(*tables: TableSamples) -> bytes:
    """A PNG with a histogram of the codes of each column, of the first 60 columns of all tables."""
    plain: Any = {"text.parse_math": False, "font.family": "DejaVu Sans", "font.size": 8, "axes.titlesize": 8}
    with matplotlib.rc_context(plain), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name may have letters that the font lacks
        file = io.BytesIO()
        _drawn(tables).savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _drawn(tables: Sequence[TableSamples]) -> "figures.Figure":
    """A figure with an axis for each column."""
    drawn = [each for own in tables for each in zip(own.card.columns, own.codes.T, strict=True)][:MOST_DRAWN]
    down = math.ceil(len(drawn) / _ACROSS)
    figure = figures.Figure(figsize=(7.2, _HEIGHT * down), dpi=140, layout="constrained")
    grid = figure.subplots(down, _ACROSS, squeeze=False).flatten()
    for axes, (column, codes) in zip(grid, drawn, strict=False):
        bars = _bars(column)
        shares = np.bincount(bars[codes], minlength=bars[-1] + 1) / max(1, len(codes))
        if len(shares) <= 2 * _MOST_BARS:
            axes.bar(np.arange(len(shares)), 100 * shares, width=0.9, color="#3b6ea5")
        else:  # a rectangle for each takes seconds
            axes.stairs(100 * shares, np.arange(len(shares) + 1) - 0.5, fill=True, color="#3b6ea5")
        after = f"\nafter {_short(column.after)}" * bool(column.after)
        axes.set_title(_short(column.name) + after + _last_bars(column))
        positions, words = _ticks(column, bars)
        apart = (positions[1] if len(positions) > 1 else len(shares)) / len(shares)
        crowded = max(map(len, words)) > _BESIDE * apart
        axes.set_xticks(positions, words, rotation=30 * crowded, ha="right" if crowded else "center")
        axes.yaxis.set_major_formatter("{x:g} %")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[len(drawn) :]:
        axes.set_visible(False)
    return figure


def _bars(column: Column) -> np.ndarray:
    """The bar of each code, int64 [codes]."""
    width = 1 if column.values else -(-column.plain // _MOST_BARS)
    plain = np.arange(column.plain) // width
    return np.concatenate([plain, plain[-1] + 1 + np.arange(column.size - column.plain)])


def _ticks(column: Column, bars: np.ndarray) -> tuple[list[int], list[str]]:
    """Positions and words on the axis: few values by name, else the two ends."""
    if column.values:
        if column.size > _LABELLED:
            return [0, column.size - 1], ["1", f"{column.size:,}"]
        return [*range(len(column.values))], [_short(value) for value in column.values]
    ends = column.bounds or (column.edges[0], column.edges[-1])
    return [0, int(bars[column.plain - 1])], [str(ends[0]), str(ends[-1])]


def _last_bars(column: Column) -> str:
    """What stands after the bins or values of a column, for its title."""
    apart = column.code_names[column.plain :]
    return f"\nlast bar{'s' * (len(apart) > 1)}: {_short(', '.join(apart), 2 * _LETTERS)}" if apart else ""


def _short(text: str, letters: int = _LETTERS) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
