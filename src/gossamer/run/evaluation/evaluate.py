"""`gossamer evaluate`: how useful a release is, measured on real records under a separate ledger.

The figures are private: publishing them, or choosing a run by them, is outside the guarantee.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer import notebook
from gossamer.data.card import Kind
from gossamer.data.samples.samples import frame
from gossamer.data.source import Data
from gossamer.data.tables.any_card import load_card
from gossamer.data.tables.recognise import is_table
from gossamer.errors import RequestError, RunFolderError
from gossamer.events import Sink, note
from gossamer.files import write_atomically
from gossamer.intervals import Estimate
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics import registry
from gossamer.metrics.registry import chosen_metrics, measured
from gossamer.run.evaluation.pictures import Pictures
from gossamer.run.evaluation.request import Compared, Request
from gossamer.run.evaluation.tables import Tables
from gossamer.run.report.html import write_report
from gossamer.run.storage.run_folder import METRICS, READINGS, RunFolder, today
from gossamer.run.training.progress import shown
from gossamer.run.validation import check_own_place, check_place, checked_arguments

PRIVATE_FIGURES = "private figures: do not publish them"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was measured.

    Args:
        metrics: one JSON entry per figure.
        left_out: metrics that do not apply to these records, each with its reason.
        class_names: names of the labels, label 0 first; empty: unknown.
    """

    metrics: list[dict[str, Any]]
    left_out: dict[str, str]
    class_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(entry['metric'] for entry in self.metrics)}; {PRIVATE_FIGURES})"

    def _repr_html_(self) -> str:
        """Show the figures with their intervals, in a notebook."""
        rows = [
            (entry["metric"], *(f"{entry[part]:.4g}" for part in ("value", "low", "high"))) for entry in self.metrics
        ]
        return notebook.table(
            "Evaluation", ("metric", "value", "95 % from", "to"), rows, PRIVATE_FIGURES.capitalize() + "."
        )

    def to_frame(self) -> Any:
        """Return a DataFrame with one row for each figure: metric, value, low, high, and what it was computed on.

        Raises:
            RequestError: pandas is not installed.
        """
        return frame([{key: value for key, value in entry.items() if key != "pairs"} for entry in self.metrics])


@checked_arguments
def evaluate(  # noqa: PLR0913 (its arguments are the options of a command)
    synth: str | Path,
    *,
    train: Data,
    test: Data,
    metrics: str = "accuracy",
    count: int = 60_000,
    out: str | Path | None = None,
    protocol: str = "paper",
    seed: int = 0,
    images_key: str | None = None,
    labels_key: str | None = None,
    cache: str | Path | None = None,
    inception: tuple[Path, str] | None = None,
    limit: int = 10_000,
    card: str | Path | None = None,
    units: str | None = None,
    subgroups: str | None = None,
    progress: bool = True,
    sink: Sink | None = None,
) -> Evaluation:
    """Measure a release on real records, pictures or a table.

    Args:
        synth: a RUN or a release (samples afresh; a RUN gets its metrics.json) or a file of samples.
        train: real training records, to compare with and to learn features from (split train, unless you name one).
        test: real test records (split test, unless you name one).
        metrics: names of metrics with commas between, or "all". `metrics.registry.OF_KIND` has them.
        count: number of samples to make from a run or a release.
        out: file for the figures. Default: RUN/metrics.json for a run folder, else none.
        protocol: for pictures: training of the accuracy classifier: `paper`, 10 epochs, or `reduced`, fewer.
        seed: number that fixes samples and training.
        images_key: see `data.source.Source`.
        labels_key: see `data.source.Source`.
        cache: private folder for results that depend on the real records only. Default: in the run's private folder.
        inception: for fid: weights file of Inception-V3 and its SHA-256 (needs the extra `fid`). Default: a classifier
            trained on `train`.
        limit: for classical: the most training records to use.
        card: data card of the real records, if SYNTH is a file of samples. A run folder has its own.
        units: for tables: the column with the id of each real row's unit, or FILE.npz:KEY. Each unit then counts once.
        subgroups: for tables: names of columns with commas between. Each of their values gets figures of its own.
        progress: show notes, a bar and time left, if there is a terminal or a notebook.
        sink: takes the events in place of that.

    Raises:
        RequestError: if there is no such metric, or the only one asked for does not apply; or a card is given for a RUN.
        RunFolderError: if the run is not finished, or another took its place meanwhile.
        DataError: if the records do not fit together.
    """
    check_place(out)
    synth = Path(synth)
    folder = RunFolder(synth)
    is_run = synth.is_dir() and folder.finished
    if folder.begun and not is_run:
        raise RunFolderError(f"{synth} is an unfinished run; `gossamer resume {synth}` finishes it.")
    own = is_run and folder.private.is_dir()
    if own:
        check_own_place(synth)
    unchanged = folder.unchanged()
    synthesizer = Synthesizer.load(synth) if is_run else None
    if synthesizer is not None and card is not None:
        raise RequestError(f"{synth} is a run and has its own card: --card is for a file of samples. Leave it out.")
    given = None if card is None else load_card(card)
    request = Request(
        synth=synth, folder=folder, own=own, synthesizer=synthesizer, card=given if synthesizer is None else synthesizer.card,
        train=train, test=test, count=count, seed=seed, cache=None if cache is None else Path(cache),
        only={
            "images_key": images_key, "labels_key": labels_key, "protocol": protocol, "inception": inception, "limit": limit,
            "units": units, "subgroups": subgroups,
        },
    )  # fmt: skip
    if request.card is None and is_table(synth):
        raise RequestError(f"{synth} is a table: give its card with --card. `gossamer card` drafts one.")
    kind: Kind = "pictures" if request.card is None else request.card.kind
    names = chosen_metrics(metrics, kind)
    if subgroups is not None and "subgroups" not in names:
        names.append("subgroups")
    with shown(sink, progress=progress) as events:
        compared: Compared = Tables.read(request) if kind == "table" else Pictures.read(request, sink=events)
        for remark in dict.fromkeys(compared.remarks):
            if remark:
                events(note(remark))
        inputs = compared.inputs(events)
        evaluation = Evaluation([], {}, compared.class_names)
        for name, figures, reason in measured(inputs, names):
            evaluation.metrics.extend(_entry(title, estimate) for title, estimate in figures.items())
            if reason:
                evaluation.left_out[name] = reason
    unchanged()
    entries = evaluation.metrics
    if own and out is None:  # a RUN keeps the figures of earlier evaluations that were not measured again
        new = {entry["metric"] for entry in entries}
        entries = [entry for entry in folder.metrics() if entry["metric"] not in new] + entries
    target = Path(out) if out is not None else (folder.file(METRICS) if own else None)
    if target is not None:
        write_atomically(target, json.dumps(entries, indent=2) + "\n", private=True)
    if own:
        note_reading(folder, {"evaluate": names, **dict(zip(("train", "test"), request.called, strict=True))})
        write_report(folder.path, internal=True)
    return evaluation


def lines(metrics: list[dict[str, Any]], class_names: Sequence[str] = ()) -> list[str]:
    """One line per figure: name, value, 95 % interval, what it was computed on. Accuracies in per cent, classes by name."""
    names = [registry.shown(entry["metric"], class_names) for entry in metrics]
    width = max(map(len, names), default=0)
    rows = zip(names, metrics, strict=True)
    return [f"{name:<{width}}  {in_units(entry)}  {entry['computed_on']}" for name, entry in rows]


def in_units(entry: dict[str, Any]) -> str:
    """Value and interval of an entry: shares in per cent, all else as numbers."""
    if registry.figure(entry["metric"]).share:
        return f"{entry['value']:>7.2%} ({entry['low']:.2%} to {entry['high']:.2%})"
    return f"{entry['value']:>7.4g} ({entry['low']:.4g} to {entry['high']:.4g})"


def _entry(name: str, estimate: Estimate) -> dict[str, Any]:
    return {"metric": name, **dataclasses.asdict(estimate), "internal": True}


def note_reading(folder: RunFolder, entry: dict[str, Any]) -> None:
    """Record in the private folder of a RUN that real records were read outside the guarantee."""
    line = {"date": today(), **entry}
    with (folder.private / READINGS).open("a") as file:
        file.write(json.dumps(line) + "\n")
