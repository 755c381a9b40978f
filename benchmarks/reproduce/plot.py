"""Draw the figure of the results page: accuracy and classifier-FID against epsilon, for all methods."""

import dataclasses
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from benchmarks.reproduce import result_files
from benchmarks.reproduce.datasets import data_set
from benchmarks.reproduce.tables import Cell, Table, rows_of_all
from gossamer.metrics import registry

TABLE = "curves"
"""The table under whose heading the figure stands."""
TITLE = "Accuracy and classifier-FID against epsilon, on MNIST and Fashion-MNIST, for every method"
LEGEND = (
    "Above, the accuracy of a classifier that learns from samples; below, classifier-FID, where less is better. A point is a "
    "row of a table, at the epsilon of its certificate. It has the mean over seeds, and a bar from the lowest to the highest. "
    "Filled: by the full protocol (10 epochs); hollow: by the reduced one. Lines join rows that differ in epsilon alone. "
    "Crosses: what a paper prints for its own run, at the epsilon that this run has by our accounting. Dashed: real records."
)
_PANELS = ((registry.ACCURACY.name, "accuracy"), (registry.CLASSIFIER_FID.name, "classifier-FID"))
_DATA = ("mnist", "fashion_mnist")
_INK = "#7f7f7f"
_LOOKS = {
    "moments": ("#d55e00", "o"), "evolve": ("#009e73", "s"), "dp-mepf": ("#c2549d", "D"), "dp-diffusion": ("#8f6bd1", "^"),
    "teacher": ("#a07d1c", "v"), "dpgan": ("#2f8fd0", "P"), "dp-wgan": ("#d9534f", "<"), "gs-wgan": ("#6f9a2a", "p"),
    "privae": ("#3a9aa8", "h"),
}  # fmt: skip
"""Colour and marker of each method. All colours, the ink too, have a contrast of 3 or more to white and to a dark page."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A figure of a row.

    Args:
        method: of the row.
        data: a key of DATASETS.
        figure: its name.
        epsilon: of the weakest certificate; of a paper's own run, what it has.
        values: one for each seed; the one that a paper prints.
        line: equal for rows that differ in epsilon alone; empty: the paper's.
        full: whether by the paper's protocol.
    """

    method: str
    data: str
    figure: str
    epsilon: float
    values: tuple[float, ...]
    line: str = ""
    full: bool = True


def path_of(into: Path) -> Path:
    """Where the figure lies."""
    return into / "curves.svg"


def points(known: Mapping[str, Table], into: Path) -> list[Point]:
    """What the figure shows: all rows with a guarantee and with all training records, and what the papers print."""
    found: list[Point] = []
    for cell, seeds in _rows(known, into):
        row = cell.row
        for figure, _ in _PANELS:
            values = tuple(each[figure]["value"] for one in seeds if figure in (each := result_files.figures(one)))
            if values:
                found.append(Point(
                    method=row.method, data=row.data, figure=figure, values=values, line=_without_epsilon(cell),
                    epsilon=max(float(each["guarantee"]["epsilon"]) for each in seeds),
                    full=cell.measures.protocol == "paper",
                ))  # fmt: skip
    return [*found, *_published(known)]


def floors(known: Mapping[str, Table], into: Path) -> dict[tuple[str, str], float]:
    """The same figures of real records: the best for each data set and figure."""
    found: dict[tuple[str, str], float] = {}
    for cell, seeds in _rows(known, into):
        for figure, _ in _PANELS:
            accuracy = figure == registry.ACCURACY.name
            name = registry.BASELINE.name if accuracy else registry.floor(figure).name
            place = cell.row.data, figure
            best = max if accuracy else min
            values = [each[name]["value"] for one in seeds if name in (each := result_files.figures(one))]
            if values:
                found[place] = best([*values, *([found[place]] if place in found else [])])
    return found


def drawn(known: Mapping[str, Table], into: Path) -> str:
    """The figure as SVG, the same for the same cells. Transparent, in colours that a light page and a dark one show."""
    shown, real = points(known, into), floors(known, into)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": TABLE, "font.family": "DejaVu Sans", "font.size": 10}):
        figure = Figure(figsize=(7, 6.6), layout="constrained")
        grid = figure.subplots(2, 2, sharex=True, sharey="row")
        for places, (name, words) in zip(grid, _PANELS, strict=True):
            for axes, data in zip(places, _DATA, strict=True):
                _panel(
                    axes, [each for each in shown if (each.data, each.figure) == (data, name)], real.get((data, name))
                )
            places[0].set_ylabel(words, color=_INK)
        for axes, data in zip(grid[0], _DATA, strict=True):
            axes.set_title(data_set(data).title, color=_INK, fontsize=10)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
        for axes in grid[1]:
            axes.set_xlabel("epsilon", color=_INK)
            axes.set_ylim(bottom=0)
        figure.legend(
            handles=_handles(shown), loc="outside lower center", ncols=4, frameon=False, labelcolor=_INK, fontsize=9
        )
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _panel(axes: Axes, shown: list[Point], real: float | None) -> None:
    lines: dict[str, list[Point]] = {}
    for point in shown:
        colour, marker = _LOOKS[point.method]
        middle = fmean(point.values)
        if point.line:
            lines.setdefault(point.line, []).append(point)
            axes.vlines(point.epsilon, min(point.values), max(point.values), color=colour, linewidth=1.2)
            face = colour if point.full else "none"
            axes.plot(
                point.epsilon, middle, marker, color=colour, markerfacecolor=face, markersize=6, markeredgewidth=1.2
            )
        else:
            axes.plot(point.epsilon, middle, "x", color=colour, markersize=7, markeredgewidth=1.8)
    for same in lines.values():
        same.sort(key=lambda each: each.epsilon)
        colour, _ = _LOOKS[same[0].method]
        axes.plot([each.epsilon for each in same], [fmean(each.values) for each in same], color=colour, linewidth=1)
    if real is not None:
        axes.axhline(real, color=_INK, linestyle=(0, (4, 3)), linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=_INK)
    axes.tick_params(which="both", colors=_INK)
    axes.grid(color=_INK, alpha=0.2, linewidth=0.6)


def _handles(shown: list[Point]) -> list[Line2D]:
    """The legend: the methods that are there, and the crosses."""
    there = {each.method for each in shown}
    found = [
        Line2D([], [], color=colour, marker=marker, linestyle="none", label=method)
        for method, (colour, marker) in _LOOKS.items()
        if method in there
    ]
    crosses = any(not each.line for each in shown)
    return [
        *found,
        *([Line2D([], [], color=_INK, marker="x", linestyle="none", label="the paper's")] if crosses else []),
    ]


def _rows(known: Mapping[str, Table], into: Path) -> Iterator[tuple[Cell, list[dict[str, Any]]]]:
    """Rows with a guarantee on all training records of the figure's data sets: a cell, and the results of all seeds."""
    for cells in rows_of_all(known):
        row = cells[0].row
        if row.method in _LOOKS and row.data in _DATA and not row.records:
            ran = result_files.certified(into, cells)
            if ran:
                yield cells[0], ran


def _published(known: Mapping[str, Table]) -> Iterator[Point]:
    """Accuracies that papers print for runs whose epsilon is known, each once."""
    seen = set()
    for table in known.values():
        for row in table.rows:
            told = row.published.get(registry.ACCURACY.name)
            if told is None or row.holds is None or row.data not in _DATA or (row.method, row.data, told) in seen:
                continue
            seen.add((row.method, row.data, told))
            value = float(told.split()[0]) / 100
            yield Point(
                method=row.method, data=row.data, figure=registry.ACCURACY.name, epsilon=row.holds, values=(value,)
            )


def _without_epsilon(cell: Cell) -> str:
    """Of rows that differ in epsilon alone."""
    return dataclasses.replace(cell, row=dataclasses.replace(cell.row, epsilon=0.0)).digest
