"""The sixth step: measure and attack a run. All figures are private."""

import json
from contextlib import suppress

from gossamer.data.source import Source
from gossamer.errors import GossamerError, RunFolderError
from gossamer.kinds import kind_of
from gossamer.run.page.opened import Content, DataSet, Form, Opened
from gossamer.run.page.steps.data import reading_flags, units_of
from gossamer.run.report import wording
from gossamer.run.storage import run_folder
from gossamer.run.storage.run_folder import RunFolder

QUICK = "1000"
"""Samples of a quick look."""


def show(data_set: DataSet, query: Form) -> Content:
    """The figures of a run."""
    finished = data_set.finished()
    if not finished:
        return {"run": "", "finished": []}
    name = query.get("run", finished[-1])
    folder = data_set.run(name)
    config = folder.config()
    kind, entries = kind_of(config["card"]), folder.metrics()
    seen: Content = {}
    with suppress(GossamerError):  # the records may have gone
        seen = kind.glance(Source(data_set.used, labels_key=data_set.labels or None), config["card"])
    return {
        "run": name,
        "finished": finished,
        "method": config["method"],
        "kind": kind,
        "has_test": data_set.is_divided or data_set.parts is not None,
        "verdict": wording.usefulness(entries),
        "sentences": wording.sentences(entries, kind.name),
        "drawn": [each for entry in entries for each in entry.get("drawn", ())],
        "seen": seen,
        "tables": wording.tables(entries, config["card"].get("class_names", [])),
        "attacks": _attacks(folder),
        "report": folder.file(run_folder.REPORT).is_file(),
    }


def measure(_opened: Opened, data_set: DataSet, form: Form) -> str:
    """Measure the samples of a run."""
    run, records = data_set.child(form.get("run", "")), data_set.used
    quick = ["--protocol", "reduced", "-n", QUICK] if "quick" in form else []
    kind = kind_of(data_set.run(run.name).config()["card"])
    reading = reading_flags(data_set, units_of(data_set) if kind.counts_units else "")
    data_set.jobs.start("evaluate", str(run), "--train", records, "--test", records, *quick, *reading, about=run.name)
    return f"judge?run={run.name}"


def attack(_opened: Opened, data_set: DataSet, form: Form) -> str:
    """Attack a run."""
    run, records = data_set.child(form.get("run", "")), data_set.used
    words = [*(["-n", QUICK] if "quick" in form else []), *reading_flags(data_set, units_of(data_set))]
    data_set.jobs.start("attack", str(run), "--members", records, "--nonmembers", records, *words, about=run.name)
    return f"judge?run={run.name}"


def _attacks(folder: RunFolder) -> Content | None:
    """What attacks found; None: none was run."""
    path = folder.file(run_folder.ATTACKS)
    if not path.is_file():
        return None
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        head, *rows = wording.attack_rows(report["attacks"])
        words = wording.attacks_in_words(report["attacks"])
        return {"head": head, "rows": rows, "words": words, "verdict": report["verdict"], "on": report["on"]}
    except (ValueError, KeyError, TypeError):
        raise RunFolderError(f"{path} does not hold what attacks found. Attack the run again.") from None
