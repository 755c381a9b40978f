"""`gossamer evaluate`: how useful a release is, measured on real records under a separate ledger.

The figures are private: publishing them, or choosing a run by them, is outside the guarantee.
"""

import copy
import dataclasses
import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gossamer import notebook
from gossamer.data.card import MOST_CLASSES, DataCard
from gossamer.data.class_names import absent, match_labels
from gossamer.data.pixels import polarity
from gossamer.data.readers.in_memory import Data, called
from gossamer.data.readers.read import read
from gossamer.data.records import Records
from gossamer.data.samples.grid import sample_grid
from gossamer.data.samples.samples import Samples, frame
from gossamer.data.tables.any_card import load_card
from gossamer.errors import GossamerError, RequestError, RunFolderError
from gossamer.events import Sink, note
from gossamer.files import write_atomically
from gossamer.intervals import Estimate
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics import registry
from gossamer.metrics.baseline_cache import Baselines
from gossamer.metrics.registry import chosen_metrics, measured
from gossamer.run.report.html import write_report
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import METRICS, READINGS, WARM, RunFolder
from gossamer.run.training.progress import shown
from gossamer.run.validation import check_own_place, check_place, checked_arguments, refuse_table

NEIGHBOURS = "neighbours.png"
"""In the private folder of a RUN: samples, each with the real training record nearest to it."""
CACHE = "baselines"
"""In the private folder of a RUN: what depends on the real records alone."""


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
        return frame(self.metrics)


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
    progress: bool = True,
    sink: Sink | None = None,
) -> Evaluation:
    """Measure a release on real records.

    Args:
        synth: a RUN or a release (samples afresh; a RUN gets its metrics.json) or a file of samples.
        train: real training records, to compare with and to learn features from (split train, unless you name one).
        test: real test records (split test, unless you name one).
        metrics: names of `metrics.registry.METRICS` with commas between, or "all".
        count: number of samples to make from a run or a release.
        out: file for the figures. Default: RUN/metrics.json for a run folder, else none.
        protocol: training of the accuracy classifier: `paper`, 10 epochs, or `reduced`, fewer.
        seed: number that fixes samples and training.
        images_key: see `data.readers.read.read`.
        labels_key: see `data.readers.read.read`.
        cache: private folder for results that depend on the real records only. Default: in the run's private folder.
        inception: for fid: weights file of Inception-V3 and its SHA-256 (needs the extra `fid`). Default: a classifier
            trained on `train`.
        limit: for classical: the most training records to use.
        card: data card of the real records, if SYNTH is a file of samples. A run folder has its own.
        progress: show notes, a bar and time left, if there is a terminal or a notebook.
        sink: takes the events in place of that.

    Raises:
        RequestError: if there is no such metric, or the only one asked for does not apply; or a card is given for a RUN.
        RunFolderError: if the run is not finished, or another took its place meanwhile.
        DataError: if the records do not fit together.
    """
    names = chosen_metrics(metrics)
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
    if (either := given if synthesizer is None else synthesizer.card) is not None:
        refuse_table(either, "evaluate", where=synth if synthesizer is not None else card)
    facts = given if isinstance(given, DataCard) else None
    samples = _read_samples(synth, facts) if synthesizer is None else synthesizer.sample(count, seed=seed)
    reading = _reading(samples, synthesizer, facts)
    read_options: dict[str, Any] = {"images_key": images_key, "labels_key": labels_key, "unit_folders": True, **reading}
    real = read(train, split="train", called="train", **read_options)
    read_options["class_names"] = read_options["class_names"] or real.class_names
    tests = read(test, split="test", called="test", **read_options)
    train, test = called(train, "train"), called(test, "test")
    remarks = (polarity.contrast("the samples", samples, train, real), *absent(tests, f"the test split of {test}"))
    with shown(sink, progress=progress) as events:
        for remark in dict.fromkeys((*real.notes, *tests.notes, *remarks)):
            if remark:
                events(note(remark))
        for name, records in ((train, real), (test, tests)):
            if synthesizer is not None and synthesizer.card.classes <= int(records.labels.max()):
                raise RequestError(
                    f"{name} has labels beyond the {synthesizer.card.classes} declared classes of {synth}."
                )
        where = Path(cache) if cache is not None else (folder.private / CACHE if folder.private.is_dir() else None)
        inputs = registry.Inputs(
            samples=samples, real=real, tests=tests, labelled=synthesizer is None or synthesizer.classes > 1,
            classes=max(int(part.labels.max()) for part in (samples, real, tests)) + 1,
            warm=_warm_samples(folder, synthesizer, count, seed), public=_public_records(folder, synthesizer),
            baselines=Baselines(where, real, tests, seed), protocol=protocol,
            seed=seed, limit=limit, inception=inception, sink=events,
            **({} if synthesizer is None or not own else _grid_in(folder, synthesizer)),
        )  # fmt: skip
        evaluation = Evaluation([], {}, real.class_names)
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
        note_reading(folder, {"evaluate": names, "train": train, "test": test})
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


def _warm_samples(folder: RunFolder, synthesizer: Synthesizer | None, count: int, seed: int) -> Samples | None:
    """Samples of the public warm start alone; None: the run had none."""
    if synthesizer is None or not (folder.private / WARM).is_file():
        return None
    start = dataclasses.replace(synthesizer, net=copy.deepcopy(synthesizer.net)).with_weights(folder.private / WARM)
    samples: Samples = start.sample(count, seed=seed)
    return samples


def _public_records(folder: RunFolder, synthesizer: Synthesizer | None) -> Records | None:
    """The public records that a run had, where they can still be read: a classifier may learn from them as they are."""
    if synthesizer is None or not folder.private.is_dir():
        return None
    try:
        return DataSources.from_json(folder.source()["sources"]).read_unconfined(synthesizer.card).public
    except GossamerError:  # moved or changed since: there is no such row then
        return None


def _read_samples(path: Path, card: DataCard | None) -> Samples:
    """Samples from a file that was written earlier. The readers return them as records.

    Labels without names are folders called 0, 1, 2 ...; a class without samples has no folder. Other names are matched
    with the card, like those of the real records: folders are read in name order, the card may have another.
    """
    shape = card.shape if card is not None and path.suffix.lower() == ".csv" else None  # a .csv does not say
    records = read(str(path), split="train", shape=shape)
    labels, names = records.labels, records.class_names
    numbers = [int(name) for name in names if name.isdecimal() and str(int(name)) == name and int(name) < MOST_CLASSES]
    if names and len(numbers) == len(names) and (card is None or numbers == list(range(len(names)))):
        return Samples(records.images, np.array(numbers)[labels])
    if names and card is not None:
        labels, names = match_labels(labels, names, card.reading["class_names"], where=str(path)), card.class_names
    return Samples(records.images, labels, names)


def _reading(samples: Samples, synthesizer: Synthesizer | None, card: DataCard | None) -> dict[str, Any]:
    """How the real records are read: as the card says, or in the shape and under the names of the samples."""
    if synthesizer is not None:
        return dict(synthesizer.card.reading)
    if card is not None:
        return card.reading
    return {"shape": samples.shape, "class_names": samples.class_names}


def _grid_in(folder: RunFolder, synthesizer: Synthesizer) -> dict[str, Any]:
    """What `nearest` needs of a RUN: sample grid, and a place in its private folder for the picture of neighbours."""
    per_class = np.repeat(np.arange(synthesizer.classes), 10)

    def show_pairs(images: np.ndarray, labels: np.ndarray) -> None:
        picture = sample_grid(images, labels, columns=20, names=synthesizer.class_names)
        write_atomically(folder.private / NEIGHBOURS, picture, private=True)

    return {"grid": lambda: synthesizer.sample(len(per_class), labels=per_class, seed=0), "show_pairs": show_pairs}


def _entry(name: str, estimate: Estimate) -> dict[str, Any]:
    return {"metric": name, **dataclasses.asdict(estimate), "internal": True}


def note_reading(folder: RunFolder, entry: dict[str, Any]) -> None:
    """Record in the private folder of a RUN that real records were read outside the guarantee."""
    line = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), **entry}
    with (folder.private / READINGS).open("a") as file:
        file.write(json.dumps(line) + "\n")
