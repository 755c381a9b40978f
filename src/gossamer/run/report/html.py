"""`report.html`: what a release promises and what it is good for, on one page for a data owner who is no cryptographer.

The page shows files of a RUN or of a release: the certificate, the sample grid, and the events and metrics that are there.
It loads nothing from elsewhere. Curves come from events, so from fakes and released values only. Metrics read real records,
so a page that may be handed out leaves them out (`internal=False`).
"""

import base64
import functools
import json
import math
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, UndefinedError
from markupsafe import Markup

from gossamer.errors import RunFolderError
from gossamer.files import write_atomically
from gossamer.kinds import kind_of
from gossamer.kinds.histograms import MOST_DRAWN
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate.certificate import CERTIFICATE
from gossamer.privacy.guarantee import rounded_up
from gossamer.run.report import plots, promise, wording
from gossamer.run.report.audit_record import audited, said_by
from gossamer.run.storage.run_folder import ATTACKS, EVENTS, METRICS, REPORT, SAMPLES, RunFolder

_REQUIRED = (
    "statement", "method", "guarantee", "guarantees", "plan", "assumptions", "covered", "not_covered", "adds_up", "public_data",
    "reasons", "card", "config", "model", "ledger", "versions", "created",
)  # fmt: skip
_ACCOUNTANTS = {"PLD": "privacy loss distributions", "RDP": "Rényi differential privacy"}
_CURVES = {
    "generator_loss": ("Generator loss", "on its own fakes"),
    "accuracy_on_fakes": ("Accuracy of the discriminator", "on fresh fakes"),
    "adversary_accuracy": ("Accuracy of the privacy discriminator", "on fakes"),
    "released_norm": ("Length of the released sum", "clipped, with noise"),
    "mean_error": ("Error before each round", "of all candidates, with noise"),
    "cliques": ("Tables measured", "in each round"),
    "cells": ("Size of the model", "in probabilities"),
    "n_D": ("Discriminator steps", "per generator step"),
}
_SPENT = "epsilon_spent"
_POINTS = 600
"""A curve is thinned to about this many points."""
_NAMED = 5
"""Pairs that are written out."""
_LEAST_FULL = 0.05
"""Total variation of full colour, at least: so noise alone has little colour."""


def write_report(folder: Path, *, internal: bool) -> Path:
    """Write report.html into a RUN or a release folder, in place of an older one.

    Args:
        folder: holds certificate.json and samples.png, and perhaps events.jsonl and metrics.json.
        internal: True shows the metrics, marked as not covered by the guarantee, in a file of mode 0600. False leaves them
            out: the copy that may be handed out, of mode 0644.

    Returns:
        The path of the page.

    Raises:
        RunFolderError: if a file is missing or damaged; names the file and, in events.jsonl, the line.
    """
    certificate = _certificate(folder)
    events = _events(folder / EVENTS)
    metrics = _metrics(RunFolder(folder), certificate["card"]) if internal else None
    attacks = _attacks(folder / ATTACKS) if internal else None
    try:
        page = _template().render(
            certificate=certificate,
            title=_title(certificate),
            promise=promise.in_words(certificate["guarantee"]),
            together=_together(certificate.get("facts", {}).get("all_runs")),
            accountants=[_accountant(entry) for entry in certificate["guarantees"]],
            grid=_grid(folder / SAMPLES),
            **kind_of(certificate["card"]).page(lambda: Synthesizer.load(folder)),
            internal=internal,
            metrics=metrics,
            attacks=attacks,
            audited=audited(folder) or said_by(certificate),
            curves=_curves(events),
            plan=[f"{entry['count']:,} × {wording.release_in_words(entry['event'])}" for entry in certificate["plan"]],
            settings={name: wording.setting_in_words(value) for name, value in certificate["config"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, UndefinedError) as error:
        raise RunFolderError(
            f"{folder / 'certificate.json'} does not hold what a certificate holds ({type(error).__name__}: {error}); "
            "restore it from a copy, or run `gossamer.verify` to see what was changed."
        ) from error
    path = folder / REPORT
    write_atomically(path, page, private=internal)
    return path


@functools.cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("gossamer.run.report", "."),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template(REPORT)


def _certificate(folder: Path) -> dict[str, Any]:
    certificate = _json(folder / CERTIFICATE, "finish the run first (`gossamer.resume`), or name another folder")
    missing = [name for name in _REQUIRED if not isinstance(certificate, dict) or name not in certificate]
    if missing:
        raise RunFolderError(
            f"{folder / 'certificate.json'} lacks {', '.join(missing)}; restore it from a copy of the run."
        )
    return dict(certificate)


def _metrics(folder: RunFolder, card: dict[str, Any]) -> dict[str, Any]:
    """Sentences and tables."""
    entries = folder.metrics()
    try:
        return {
            "sentences": wording.sentences(entries, kind_of(card).name),
            "tables": wording.tables(entries, card.get("class_names", [])),
            "apart": apart(entries, card),
        }
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise RunFolderError(
            f"{folder.file(METRICS)} does not hold a list of metrics ({type(error).__name__}: {error}); write it again with "
            "`gossamer.evaluate`, or remove it."
        ) from error


def _attacks(path: Path) -> dict[str, Any] | None:
    """Verdict, table and curves, where the run was attacked."""
    if not path.is_file():
        return None
    report = _json(path, "")
    try:
        head, *rows = wording.attack_rows(report["attacks"])
        curves = [
            {"title": entry["attack"], "svg": Markup(plots.roc(**entry["roc"], title=f"ROC of {entry['attack']}"))}
            for entry in report["attacks"]
            if entry["roc"]
        ]
        words = wording.attacks_in_words(report["attacks"])
        return {**report, "head": head, "rows": rows, "words": words, "curves": curves}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(
            f"{path} does not hold what attacks found ({type(error).__name__}: {error}); write it again with "
            "`gossamer.attack`, or remove it."
        ) from error


def _events(path: Path) -> list[dict[str, Any]]:
    """The events of kind "step". A release has no events, so it has no curves."""
    if not path.is_file():
        return []
    steps = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            event = json.loads(line)
            if event["kind"] == "step":
                steps.append({"step": int(event["step"]), **event["values"]})
        except (ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{path}, line {number}: this line is no event; remove it, or restore the file from a copy of the run."
            ) from error
    return steps


def _json(path: Path, remedy: str) -> Any:
    if not path.is_file():
        raise RunFolderError(f"{path.parent} is not a finished run: it has no {path.name}; {remedy}.")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunFolderError(f"{path} is not JSON any more ({error}); restore it from a copy of the run.") from error


def _grid(path: Path) -> str:
    """The sample grid as a data URI."""
    if not path.is_file():
        raise RunFolderError(f"{path.parent} is not a finished run: it has no {path.name}; restore it from a copy.")
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def apart(metrics: list[dict[str, Any]], card: dict[str, Any]) -> dict[str, Any] | None:
    """How far samples are from records, for each pair of columns. Private: for the internal report.

    Args:
        metrics: entries of metrics.json.
        card: of the certificate.

    Returns:
        names: of the first 60 columns that were measured. pairs: (row, column, total variation) of the heat map, row after
        column. full: the value of full colour. worst: the largest in words. None: there are none.
    """
    found = {(a, b): float(value) for entry in metrics for a, b, value in entry.get("pairs", ())}
    measured = {name for pair in found for name in pair}
    names = [column["name"] for column in card.get("column", ()) if column["name"] in measured][:MOST_DRAWN]
    place = {name: at for at, name in enumerate(names)}
    shown = {(a, b): value for (a, b), value in found.items() if a in place and b in place}
    if not shown:
        return None
    worst = sorted(shown, key=lambda pair: -shown[pair])[:_NAMED]
    return {
        "names": names,
        "pairs": [(*sorted((place[a], place[b]), reverse=True), value) for (a, b), value in shown.items()],
        "full": max(_LEAST_FULL, *shown.values()),
        "worst": [f"{a} and {b} {shown[a, b]:.3f}" for a, b in worst],
    }


def _title(certificate: dict[str, Any]) -> str:
    data = str(certificate["card"].get("title", ""))
    return f"Synthetic records for {data}" if data else "Synthetic records"


def _together(earlier: dict[str, Any] | None) -> dict[str, str] | None:
    """What this run and the earlier ones on its data set promise together; None: the budget log has no earlier run."""
    if not earlier or not earlier["earlier_runs"]:
        return None
    count, epsilon = int(earlier["earlier_runs"]), float(earlier["together"]["epsilon"])
    return {
        "runs": "1 earlier run" if count == 1 else f"{count:,} earlier runs",
        "epsilon": promise.up(epsilon, 3) if math.isfinite(epsilon) else "infinite",
        "delta": promise.all_digits(float(earlier["together"]["delta"])) if math.isfinite(epsilon) else "",
    }


def _accountant(entry: dict[str, Any]) -> dict[str, str]:
    epsilon = float(entry["epsilon"])
    return {
        "name": str(entry["accountant"]),
        "words": _ACCOUNTANTS.get(entry["accountant"], ""),
        "epsilon": promise.up(epsilon, 3) if math.isfinite(epsilon) else rounded_up(epsilon),
        "delta": promise.all_digits(float(entry["delta"])),
    }


def _curves(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Epsilon first, then every other figure of the steps that ever changes. One step makes no curve."""
    shown = []
    if len(spent := _series(events, _SPENT)) > 1:
        svg = plots.epsilon_curve(*_columns(spent))
        shown.append({"title": "Epsilon spent", "note": "running bound, against steps", "svg": Markup(svg)})
    names = dict.fromkeys(name for event in events for name in event if name not in ("step", _SPENT))
    for name in names:
        points = _series(events, name)
        if len({value for _, value in points}) < 2:
            continue
        title, note = _CURVES.get(name, (name.replace("_", " "), ""))
        svg = plots.curve(*_columns(points), x_label="steps", title=f"{title} {note}".strip())
        shown.append({"title": title, "note": note, "svg": Markup(svg)})
    return shown


def _series(events: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    """Steps and finite numbers of one name; words and infinities are left out."""
    pairs = [(event["step"], event[name]) for event in events if name in event]
    numbers = [(step, float(value)) for step, value in pairs if isinstance(value, int | float)]
    return [(step, value) for step, value in numbers if math.isfinite(value)]


def _columns(points: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    every = max(1, len(points) // _POINTS)
    thinned = points[:-1:every] + points[-1:]
    return [step for step, _ in thinned], [value for _, value in thinned]
