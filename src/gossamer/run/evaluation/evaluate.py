"""`gossamer evaluate`: how useful a release is, measured on real records under a separate ledger.

The figures are private: publishing them, or choosing a run by them, is outside the guarantee.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, cast

from gossamer import notebook
from gossamer.data.samples.samples import frame
from gossamer.data.source import Data, called, source_of
from gossamer.data.tables.any_card import card_from, load_card
from gossamer.errors import GossamerError, RequestError
from gossamer.events import note
from gossamer.files import at_home, write_atomically
from gossamer.intervals import Estimate, EstimateJson
from gossamer.kinds import all_kinds, kind_of, kind_of_records
from gossamer.kinds.kind import Comparison
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics import registry
from gossamer.metrics.metric import Measures, of_baseline
from gossamer.run.report import wording
from gossamer.run.report.html import write_report
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import METRICS, READINGS, WARM, RunFolder, today
from gossamer.run.training.progress import DEFAULT, Process
from gossamer.run.validation import check_fields, check_own_place, check_place, checked_arguments

if TYPE_CHECKING:
    import pandas as pd

CACHE = "baselines"
"""In the private folder of a RUN: what depends on the real records alone."""
WORST = 5
"""Columns of a table that a terminal shows."""
PRIVATE_FIGURES = "private figures: do not publish them"


class Figure(EstimateJson):
    """A figure with its 95 % interval, as metrics.json has it. Some have more: the figures of columns, what was drawn."""

    metric: str
    internal: bool
    figures: NotRequired[Sequence[dict[str, str | float]]]


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was measured.

    Args:
        metrics: one JSON entry per figure.
        left_out: metrics that do not apply to these records, each with its reason.
        class_names: names of the labels, label 0 first; empty: unknown.
    """

    metrics: list[Figure]
    left_out: dict[str, str]
    class_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(entry['metric'] for entry in self.metrics)}; {PRIVATE_FIGURES})"

    def _repr_html_(self) -> str:
        """Show the figures with their intervals, in a notebook."""
        rows = [
            (entry["metric"], *(f"{part:.4g}" for part in (entry["value"], entry["low"], entry["high"])))
            for entry in self.metrics
        ]
        return notebook.table(
            "Evaluation", ("metric", "value", "95 % from", "to"), rows, PRIVATE_FIGURES.capitalize() + "."
        )

    def to_frame(self) -> "pd.DataFrame":
        """Return a DataFrame with one row for each figure: metric, value, low, high, and what it was computed on.

        Raises:
            RequestError: pandas is not installed.
        """
        plain = [{key: fact for key, fact in each.items() if not isinstance(fact, tuple)} for each in self.metrics]
        return frame(plain)

    @property
    def columns(self) -> list[dict[str, str | float]]:
        """Each figure of each column of a table, the worst column first, as `metrics.tables.columns.Compared` says it."""
        return [figure for entry in self.metrics for figure in entry.get("figures", ())]


@checked_arguments
def evaluate(
    synth: str | Path | Synthesizer,
    *,
    train: Data,
    test: Data,
    metrics: str | Measures | None = None,
    count: int = 60_000,
    out: str | Path | None = None,
    seed: int = 0,
    card: str | Path | None = None,
    process: Process = DEFAULT,
) -> Evaluation:
    """Measure a release on real records, pictures or a table.

    Args:
        synth: a RUN or a release (samples afresh; a RUN gets its metrics.json), what `fit` returned, or a file of samples.
        train: real training records, to compare with and to learn features from (split train, unless you name one).
        test: real test records (split test, unless you name one). With units, each unit of a table counts once.
        metrics: names of metrics with commas between, or "all", or `Measures`, which also say how to measure. Default: of
            pictures accuracy; of a table columns, marginals and accuracy.
        count: number of samples to make from a run or a release.
        out: file for the figures. Default: RUN/metrics.json for a run folder, else none.
        seed: number that fixes samples and training.
        card: data card of the real records, if SYNTH is a file of samples. A run folder has its own.
        process: what is shown meanwhile.

    Raises:
        RequestError: if there is no such metric, or the only one asked for does not apply; or a card is given for a RUN.
        RunFolderError: if the run is not finished, or another took its place meanwhile.
        DataError: if the records do not fit together.
    """
    check_place(out)
    synth = Path(synth)
    folder = RunFolder(synth)
    is_run = synth.is_dir() and folder.finished
    if folder.begun:
        folder.check_finished()
    own = is_run and folder.private.is_dir()
    if own:
        check_own_place(synth)
    unchanged = folder.unchanged()
    synthesizer = Synthesizer.load(synth) if is_run else None
    if synthesizer is not None and card is not None:
        raise RequestError(f"{synth} is a run and has its own card: `card` is for a file of samples. Leave it out.")
    given = None if card is None else load_card(card)
    facts = given if synthesizer is None else synthesizer.card
    kind = kind_of_records(synth) if facts is None else kind_of(facts)
    measures = metrics if isinstance(metrics, Measures) else Measures(metrics=metrics)
    check_fields(measures)
    kind.refuse_others(measures, all_kinds().values(), of=synth)
    names = kind.metrics.chosen(measures.metrics)
    if measures.subgroups is not None and "subgroups" not in names:
        names.append("subgroups")
    private, warm, cache = folder.private, folder.private / WARM, measures.cache
    asked = Comparison(
        synth=synth, synthesizer=synthesizer, card=facts, train=source_of(train), test=source_of(test), count=count, seed=seed,
        measures=measures, keep=partial(_keep, private) if own else None,
        cache=at_home(cache) if cache is not None else private / CACHE if own else None,
        warm=warm if own and warm.is_file() else None, public=lambda: public_records(folder) if own else None,
    )  # fmt: skip
    with process.shown() as events:
        inputs = kind.compare(asked, events)
        for remark in filter(None, dict.fromkeys(inputs.remarks)):
            events(note(remark, about="data"))
        evaluation = Evaluation([], {}, inputs.class_names)
        for name, figures, reason in kind.metrics.measured(inputs, names):
            evaluation.metrics.extend(_entry(title, estimate) for title, estimate in figures.items())
            if reason:
                evaluation.left_out[name] = reason
    unchanged()
    entries: list[Any] = [*evaluation.metrics]
    if own and out is None:  # a RUN keeps the figures of earlier evaluations that were not measured again
        new = {entry["metric"] for entry in entries}
        entries = [entry for entry in folder.metrics() if entry["metric"] not in new] + entries
    reading = {"evaluate": names, "train": called(train, "train"), "test": called(test, "test")}
    keep_figures(entries, out or (folder.file(METRICS) if own else None), folder if own else None, reading)
    return evaluation


def _keep(private: Path, name: str, content: bytes) -> None:
    write_atomically(private / name, content, private=True)


def public_records(folder: RunFolder) -> Any:
    """The public records that a run had, where they can still be read: a classifier may learn from them as they are.

    None: there are none, or they were moved or changed since.
    """
    try:
        sources = DataSources.from_json(folder.source()["sources"])
        card: Any = card_from(folder.config()["card"])
        return sources.read_public(card)[0] if sources.share is None else sources.read_unconfined(card).public
    except GossamerError:
        return None


def lines(metrics: list[Any], class_names: Sequence[str] = ()) -> list[str]:
    """The worst columns of a table. Then a line per figure: name, value, 95 % interval, and what real records have.

    Accuracies are in per cent, classes by name.
    """
    by_name = {entry["metric"]: entry for entry in metrics}
    baselines = {of_baseline(name) for name in by_name} & {*by_name}
    names = {name: registry.shown(name, class_names) for name in by_name if name not in baselines}
    width = max(map(len, names.values()), default=0)
    found = _worst(metrics)
    for name, shown in names.items():
        entry, real = by_name[name], by_name.get(of_baseline(name))
        beside = f", real {in_units(real).lstrip()}" if real else ""
        found.append(f"{shown:<{width}}  {in_units(entry)}{beside}  {entry['computed_on']}")
    return found


def _worst(metrics: list[Any]) -> list[str]:
    """What is wrong with the worst columns of a table."""
    if not any("figures" in entry for entry in metrics):
        return []
    found = wording.columns_that_differ(metrics)
    if not found:
        return ["No column differs clearly from real test rows.", ""]
    shown = [f"{column}: {'; '.join(words[:2])}" for column, words in [*found.items()][:WORST]]
    return [f"Columns that differ most from real test rows, {len(shown)} of {len(found)}:", *shown, ""]


def in_units(entry: Any) -> str:
    """Value and interval of an entry: shares in per cent, all else as numbers."""
    if registry.figure(entry["metric"]).share:
        return f"{entry['value']:>7.2%} ({entry['low']:.2%} to {entry['high']:.2%})"
    return f"{entry['value']:>7.4g} ({entry['low']:.4g} to {entry['high']:.4g})"


def _entry(name: str, estimate: Estimate) -> Figure:
    return cast("Figure", {"metric": name, **dataclasses.asdict(estimate), "internal": True})


def keep_figures(figures: Any, out: str | Path | None, run: RunFolder | None, reading: dict[str, Any]) -> None:
    """Write private figures as JSON, and note in the private folder of a RUN what was read outside the guarantee.

    Args:
        figures: of real records.
        out: the file; None: they are not written.
        run: the RUN, which gets its report again; None: it is a release, or a file of samples.
        reading: what was read, and what for.
    """
    if out is not None:
        write_atomically(Path(out), json.dumps(figures, indent=2) + "\n", private=True)
    if run is not None:
        with (run.private / READINGS).open("a") as file:
            file.write(json.dumps({"date": today(), **reading}) + "\n")
        write_report(run.path, internal=True)
