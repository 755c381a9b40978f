"""The sixth step: measure and attack a run. All figures are private."""

from contextlib import suppress

from gossamer.data.source import Source
from gossamer.errors import GossamerError
from gossamer.kinds import kind_of
from gossamer.privacy.certificate import certificate
from gossamer.run.page.opened import Content, DataSet, Form, Opened
from gossamer.run.page.steps.data import reading_flags, units_of
from gossamer.run.report import html
from gossamer.run.storage import run_folder

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
    kind = kind_of(config["card"])
    seen: Content = {}
    with suppress(GossamerError):  # the records may have gone
        seen = kind.glance(Source(data_set.used, labels_key=data_set.labels or None), config["card"])
    return {
        "run": name,
        "finished": finished,
        "method": config["method"],
        "kind": kind,
        "has_test": data_set.is_divided or data_set.parts is not None,
        "seen": seen,
        "score": certificate.Certificate.load(folder.path).figures.get("score", {}).get("statement", ""),
        **html.metrics(folder, config["card"]),
        "attacks": html.attacks(folder.file(run_folder.ATTACKS)),
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
