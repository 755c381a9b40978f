"""What a metric declares: its figures in words, and the function that measures them. And what all metrics are given."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gossamer.errors import DataError, RequestError, did_you_mean
from gossamer.events import Sink, progress, silent
from gossamer.intervals import Estimate

if TYPE_CHECKING:
    from gossamer.metrics.baseline_cache import Baselines

Figures: TypeAlias = Mapping[str, Estimate]
"""Figures by their names."""

OF_BASELINE = " of the real-data baseline"
_MEMBER = "{}"


@dataclass(frozen=True)
class Figure:
    """One figure, or a family of figures: one for each class, classifier or subgroup.

    Args:
        name: its key. That of a family has a place for the name of a member: "{}".
        sentence: what it means for a data owner who is no statistician, with places for the value and its range.
        share: whether it is a share, shown in per cent.
        bar: its label where it is drawn as a bar, as shares alone are; empty: it is not.
    """

    name: str
    sentence: str = ""
    share: bool = False
    bar: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", self.share or bool(self.bar))

    def of(self, member: object) -> str:
        """The name of the figure of a member of this family."""
        return self.name.replace(_MEMBER, str(member))

    def member(self, name: str) -> str | None:
        """The member of this family that a figure of this name is about; "": it is this figure; None: of none."""
        before, place, after = self.name.partition(_MEMBER)
        if not place:
            return "" if name == before else None
        return name[len(before) : len(name) - len(after)] if name.startswith(before) and name.endswith(after) else None


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        compute: from the `Inputs` of its kind of records to figures with their names.
        figures: those with a sentence of their own, and families.
        needs_labels: whether it trains classifiers on the labels of pictures.
        in_all: whether `--metrics all` asks for it; the others take an hour or more, or an option.
    """

    compute: Callable[[Any], Figures]
    figures: tuple[Figure, ...]
    needs_labels: bool = False
    in_all: bool = True


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What is measured, and against what. Each kind of records adds its own.

    Args:
        samples: of the release.
        real: real training records.
        tests: real test records.
        baselines: the cache of what depends on real records alone.
        labelled: whether the samples carry labels.
        class_names: names of the labels, label 0 first; empty: unknown, or those of a column.
        remarks: what to say before the work: what the readers converted, and what looks wrong.
        seed: of all trainings and draws.
        sink: takes progress.
    """

    samples: Any
    real: Any
    tests: Any
    baselines: "Baselines"
    labelled: bool = True
    class_names: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    seed: int = 0
    sink: Sink = silent

    def progress(self, label: str) -> Callable[..., None]:
        """Return a progress function for one training: done and all.

        It gets the accuracy on held-out samples too and does not show it: beside the result it would look like one. For the
        same reason a label names the training, not the figure: "accuracy 100 %" beside a full bar would look like a result.
        """
        return lambda done, total, _held_out=None: self.sink(progress(label, done, total))


@dataclass(frozen=True, kw_only=True)
class Measures:
    """What `evaluate` measures, and how.

    Args:
        metrics: names of metrics with commas between, or "all". Default: the usual ones of this kind of records.
            `metrics.registry.OF_KIND` has them.
        protocol: for pictures: training of the accuracy classifier: `paper`, 10 epochs, or `reduced`, fewer.
        inception: for fid: weights file of Inception-V3 and its SHA-256 (needs the extra `fid`). Default: a classifier
            trained on the real training records.
        subgroups: for tables: names of columns with commas between. Each of their values gets figures of its own.
        cache: private folder for results that depend on the real records only. Default: in the run's private folder.
    """

    metrics: str | None = None
    protocol: str = "paper"
    inception: tuple[Path, str] | None = None
    subgroups: str | None = None
    cache: str | Path | None = None


_Measure: TypeAlias = Callable[[Any], Figures]


class Registry(dict[str, Metric]):
    """The metrics of one kind of records, by their names on the command line.

    Args:
        records: the kind in words, such as "tables".
        usual: the metrics where none are named, with commas between.
    """

    def __init__(self, records: str, usual: str = "accuracy") -> None:
        super().__init__()
        self.records, self.usual = records, usual

    def metric(
        self, name: str, *figures: Figure, needs_labels: bool = False, in_all: bool = True
    ) -> Callable[[_Measure], _Measure]:
        """Declare the function below as the metric of this name."""

        def declare(compute: _Measure) -> _Measure:
            self[name] = Metric(compute, figures, needs_labels, in_all)
            return compute

        return declare

    @property
    def in_all(self) -> tuple[str, ...]:
        """The metrics that `--metrics all` asks for."""
        return tuple(name for name, metric in self.items() if metric.in_all)

    def chosen(self, text: str | None) -> list[str]:
        """The metrics of a comma-separated list; "all" means the quick ones, and None the usual ones.

        Raises:
            RequestError: if there is no such metric for this kind of records; names the nearest.
        """
        names: list[str] = []
        for name in (part.strip() for part in (self.usual if text is None else text).split(",")):
            if name != "all" and name not in self:
                near = did_you_mean(name, self)
                known = ", ".join(["all", *self])
                raise RequestError(f"there is no metric {name!r} for {self.records}.{near} Known: {known}.")
            names += [metric for metric in (self.in_all if name == "all" else (name,)) if metric not in names]
        return names

    def measured(self, inputs: Inputs, names: list[str]) -> Iterator[tuple[str, Figures, str]]:
        """Name of the metric, its figures, and why there are none where it does not apply to these records.

        Raises:
            DataError, RequestError: if the only metric asked for does not apply.
        """
        for name in names:
            try:
                if self[name].needs_labels and not inputs.labelled:
                    raise RequestError(
                        f"{name}: the samples carry no labels (an unconditional generator), so nothing can be trained on them. "
                        "Take fid, neighbours or mmd."
                    )
                yield name, self[name].compute(inputs), ""
            except (DataError, RequestError) as error:
                if len(names) == 1:
                    raise
                yield name, {}, str(error)


GUESSED = Figure(
    "accuracy of guessing", "Always guessing the most frequent label gets {value} right ({range}).", True, "guessing"
)


def of_baseline(name: str) -> str:
    """The name of the same figure for the baseline: real records in place of samples."""
    return name + OF_BASELINE
