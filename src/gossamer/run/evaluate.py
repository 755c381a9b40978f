"""`gossamer evaluate`: how useful a release is, measured on real records under a ledger of its own.

The figures are internal: publishing them, or choosing a run by them, is outside the guarantee.
"""

import datetime
import json
from pathlib import Path
from typing import Any

from gossamer.data.readers import read
from gossamer.data.records import Records
from gossamer.errors import RequestError, RunFolderError
from gossamer.estimate import Estimate
from gossamer.evaluate.classify import PAPER, REDUCED, Protocol, accuracy
from gossamer.files import write_atomically
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.folder import METRICS, WARM, RunFolder
from gossamer.run.report import write_report
from gossamer.run.sinks import Terminal

PROTOCOLS: dict[str, Protocol] = {"paper": PAPER, "reduced": REDUCED}
ACCURACY, TWIN, WARM_ALONE = "accuracy", "accuracy of the real-data twin", "accuracy of the public warm start alone"
TRAINED_ON = {
    ACCURACY: "synthetic records",
    TWIN: "real records",
    WARM_ALONE: "samples of the public warm start, before any record was read (epsilon 0)",
}


def evaluate(
    synth: Path,
    *,
    train: str,
    test: str,
    count: int = 60_000,
    out: Path | None = None,
    protocol: str = "paper",
    seed: int = 0,
    labels_key: str | None = None,
    terminal: Terminal | None = None,
) -> list[dict[str, Any]]:
    """Accuracy on real test records of a classifier trained on synthetic ones, and of its twin trained on real ones.

    Args:
        synth: a RUN (samples afresh, writes RUN/metrics.json) or a file of samples.
        train: real training records, for the twin.
        test: real test records.
        count: samples drawn from a RUN.
        out: where the figures are written; needed for a file only if they are to be kept.
        protocol: a key of PROTOCOLS.
        seed: fixes samples and training.
        labels_key: key of the labels in an .npz.
        terminal: shows progress.

    Returns:
        One JSON entry per figure.
    """
    folder = RunFolder(synth)
    is_run = synth.is_dir() and folder.finished
    if folder.begun and not is_run:
        raise RunFolderError(f"{synth} is an unfinished run; `gossamer resume {synth}` finishes it.")
    if is_run:
        synthesizer = Synthesizer.load(synth)
        shape, classes = synthesizer.card.shape, synthesizer.card.classes
        samples = synthesizer.sample(count, seed=seed)
    else:
        samples = read(str(synth), split="train")
        shape, classes = samples.shape, int(samples.labels.max()) + 1
    real = read(train, split="train", labels_key=labels_key, shape=shape)
    tests = read(test, split="test", labels_key=labels_key, shape=shape)
    if classes <= int(tests.labels.max()) and is_run:
        raise RequestError(f"{test} has labels beyond the {classes} declared classes of {synth}.")
    classes = max(classes, int(tests.labels.max()) + 1, int(real.labels.max()) + 1)
    sets = {ACCURACY: samples, TWIN: real}
    if is_run and (folder.private / WARM).is_file():
        sets[WARM_ALONE] = synthesizer.with_weights(folder.private / WARM).sample(count, seed=seed)
    figures = {
        name: _accuracy(name, records, tests, classes, protocol, seed, terminal) for name, records in sets.items()
    }
    metrics = [_entry(name, estimate) for name, estimate in figures.items()]
    target = out or (folder.file(METRICS) if is_run else None)
    if target is not None:
        write_atomically(target, json.dumps(metrics, indent=2) + "\n")
    if is_run:
        _note(folder, {"evaluate": list(figures), "train": train, "test": test})
        write_report(folder.path, internal=True)
    return metrics


def _accuracy(
    name: str, records: Records, tests: Records, classes: int, protocol: str, seed: int, terminal: Terminal | None
) -> Estimate:
    chosen = PROTOCOLS[protocol]
    if terminal is not None:
        terminal.begin(name, chosen.epochs)

    def progress(done: int, _total: int, held_out: float) -> None:
        if terminal is not None:
            terminal.advance(done, f"{held_out:.1%} of the held-out samples")

    return accuracy(
        records.images, records.labels, tests.images, tests.labels, classes=classes, protocol=chosen, seed=seed,
        trained_on=TRAINED_ON[name], progress=progress,
    )  # fmt: skip


def _entry(name: str, estimate: Estimate) -> dict[str, Any]:
    return {
        "metric": name,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "computed_on": estimate.computed_on,
        "internal": True,
    }


def _note(folder: RunFolder, what: dict[str, Any]) -> None:
    """Write down, in the private folder, that real records were read outside the guarantee."""
    if folder.private.is_dir():
        line = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), **what}
        with (folder.private / "internal.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
