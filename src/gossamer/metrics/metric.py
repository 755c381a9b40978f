"""What a metric declares: its figures in words, and the function that measures them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gossamer.intervals import Estimate

Figures: TypeAlias = Mapping[str, Estimate]
"""Figures by their names."""

OF_BASELINE = " of the real-data baseline"


@dataclass(frozen=True)
class Figure:
    """One figure.

    Args:
        name: its key.
        sentence: what it means for a data owner who is no statistician, with places for the value and its range.
        share: whether it is a share, shown in per cent.
        bar: its label where it is drawn as a bar; empty: it is not.
        of_public: whether it is of the public records, so that a release states that it was measured.
    """

    name: str
    sentence: str
    share: bool = False
    bar: str = ""
    of_public: bool = False


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        compute: from the `Inputs` of its kind of records to figures with their names.
        figures: those with a sentence of their own.
        needs_labels: whether it trains classifiers on the labels of pictures.
        in_all: whether `--metrics all` asks for it; the others take an hour or more, or an option.
    """

    compute: Callable[[Any], Figures]
    figures: tuple[Figure, ...]
    needs_labels: bool = False
    in_all: bool = True


_Measure: TypeAlias = Callable[[Any], Figures]


def declared(
    metrics: dict[str, Metric], name: str, *figures: Figure, needs_labels: bool = False, in_all: bool = True
) -> Callable[[_Measure], _Measure]:
    """Declare the function below as the metric of this name. metrics: those of its kind of records."""

    def declare(compute: _Measure) -> _Measure:
        metrics[name] = Metric(compute, figures, needs_labels, in_all)
        return compute

    return declare


def of_baseline(name: str) -> str:
    """The name of the same figure for the baseline: real records in place of samples."""
    return name + OF_BASELINE
