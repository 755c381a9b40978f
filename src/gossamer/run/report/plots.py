"""Plots: curves as SVG that takes its colours and fonts from the page around it."""

import html
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

# Placeholders that matplotlib accepts; `_for_page` replaces them by the colours of the page.
_INK, _ACCENT = "#010203", "#040506"
_LETTERS = 8.5
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 3.5, 0.7, 0.2, 0.1, 0.46
"""Inches. Equal margins align the axes of all curves; a layout fitted to the letters would draw each figure twice."""


def curve(x: Sequence[float], y: Sequence[float], *, x_label: str, title: str) -> str:
    """A line as an inline SVG element, for an HTML page, half a column wide.

    Axes and letters have the page's text colour, the line its `--accent`; the font is the page's. The title is the
    figure's name for screen readers and is not drawn.

    Args:
        x: places, rising, at least one.
        y: values, as many.
        x_label: what x counts, written under the axis.
        title: what the curve shows, in words; different for each curve of a page.
    """

    def draw(axes: Axes) -> None:
        axes.plot(x, y, color=_ACCENT, linewidth=1.2, marker="o" if len(x) == 1 else "")
        axes.set_xlabel(x_label, color=_INK, fontsize=_LETTERS)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))

    return _svg(draw, height=2.2, title=title)


def roc(fpr: Sequence[float], tpr: Sequence[float], *, title: str) -> str:
    """Members found against false alarms, on logarithmic axes from 0.1 %, as an inline SVG; dashed: guessing.

    Args:
        fpr: false-positive rates, rising.
        tpr: true-positive rates, as many.
        title: the name of the attack; different for each curve of a page.
    """
    lowest = 1e-3

    def draw(axes: Axes) -> None:
        axes.set(xscale="log", yscale="log", xlim=(lowest, 1), ylim=(lowest, 1))
        axes.plot([lowest, 1], [lowest, 1], color=_INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.plot(np.maximum(fpr, lowest / 10), np.maximum(tpr, lowest / 10), color=_ACCENT, linewidth=1.2)
        axes.set_xlabel("false alarms", color=_INK, fontsize=_LETTERS)
        axes.set_ylabel("members found", color=_INK, fontsize=_LETTERS)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
            axis.set_minor_locator(NullLocator())

    return _svg(draw, height=2.8, title=title)


def _svg(draw: Callable[[Axes], None], *, height: float, title: str) -> str:
    """What is drawn, between axes in the colours of the page."""
    # The salt makes the ids inside the SVG the same on every run, and different from curve to curve.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(_WIDTH, height))
        wide, high = _WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM
        axes = figure.add_axes((_LEFT / _WIDTH, _BOTTOM / height, wide / _WIDTH, high / height))
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set(color=_INK, linewidth=0.6)
        axes.tick_params(which="both", colors=_INK, width=0.6, length=3, labelsize=_LETTERS)
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return _for_page(file.getvalue(), title)


def _for_page(svg: str, title: str) -> str:
    """Remove what only a separate file needs, and take colours, fonts and size from the page."""
    svg = svg[svg.index("<svg") :]
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="([^"]*)"', head)
    assert box is not None, "matplotlib writes a viewBox"
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # would hold for the whole page
    body = re.sub(r'<g id="[^"]*"', "<g", body)  # ids would repeat from figure to figure
    body = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", body)
    body = re.sub(r"font-family: [^;\"]*; ?", "", body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    body = body.replace("xlink:href", "href").replace(_INK, "currentColor")
    body = body.replace(_ACCENT, "var(--accent, currentColor)")
    name = html.escape(title, quote=True)
    return f'<svg viewBox="{box[1]}" role="img" aria-label="{name}" stroke-linejoin="round">{body.strip()}'


def utility_plot(
    points: Sequence[tuple[str, float, Mapping[str, float]]],
    *,
    baseline: float | None,
    y_label: str,
    shares: bool,
    path: Path,
) -> None:
    """A figure against epsilon, with intervals, to a file that matplotlib can write (.png, .svg).

    Args:
        points: the name of a run, its epsilon, and its figure: value, low and high. Runs without a guarantee become
            horizontal lines.
        baseline: the same figure of the real-data baseline, a dashed line.
        y_label: what is shown.
        shares: whether it is a share, for the axis.
        path: where it goes.
    """
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    finite = [epsilon for _, epsilon, _ in points if math.isfinite(epsilon)]
    for name, epsilon, found in sorted(points, key=lambda point: point[1]):
        if math.isfinite(epsilon):
            ends = [[found["value"] - found["low"]], [found["high"] - found["value"]]]
            axes.errorbar([epsilon], [found["value"]], yerr=ends, fmt="o", capsize=3, label=name)
        else:
            axes.axhline(found["value"], linestyle=":", color="0.4", label=f"{name}, no guarantee")
    if baseline is not None:
        axes.axhline(baseline, linestyle="--", color="0.6", label="trained on real records")
    if finite and max(finite) > 4 * min(finite):
        axes.set_xscale("log")
    if shares:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.set_xlabel("epsilon")
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=160)
