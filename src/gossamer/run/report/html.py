"""`report.html`: what a release promises and what it is good for, on one page for a data owner who is no cryptographer.

The page shows files of a RUN or of a release: the certificate, the sample grid, and the events and metrics that are there.
It loads nothing from elsewhere. Curves come from events, so from fakes and released values only. Metrics read real records,
so a page that may be handed out leaves them out (`internal=False`).
"""

import base64
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from markupsafe import Markup

from gossamer.errors import LedgerDamaged, RunFolderError
from gossamer.files import CERTIFICATE, MODEL, write_atomically
from gossamer.kinds import kind_of
from gossamer.kinds.histograms import MOST_DRAWN
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.run.report import plots, promise, wording
from gossamer.run.report.audit_record import audited, said_by
from gossamer.run.report.templates import as_written, template
from gossamer.run.storage.run_folder import ATTACKS, EVENTS, METRICS, REPORT, SAMPLES, RunFolder, parsed

_COPY = "restore it from a copy of the run."
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
        folder: holds certificate.json, and perhaps events.jsonl and metrics.json. Of a release, also samples.png.
        internal: True shows the metrics, marked as not covered by the guarantee, in a file of mode 0600. False leaves them
            out: the copy that may be handed out, of mode 0644.

    Returns:
        The path of the page.

    Raises:
        RunFolderError: if a file is missing or damaged; names the file and, in events.jsonl, the line.
    """
    certificate, drawn = _certificate(folder / CERTIFICATE), folder / SAMPLES
    with as_written(
        folder / CERTIFICATE,
        "what a certificate holds",
        "restore it from a copy, or run `gossamer.verify` to see what was changed.",
    ):
        kind = kind_of(certificate["card"])
        if internal and not drawn.is_file():
            drawn.write_bytes(kind.picture(Synthesizer.load(folder)))
        page = template(REPORT).render(
            certificate=certificate,
            promise=promise.in_words(certificate["guarantee"]),
            grid=base64.b64encode(_read(drawn, "restore it from a copy")).decode(),
            **kind.page(lambda: Synthesizer.load(folder)),
            remark=_remark(folder),
            internal=internal,
            metrics=metrics(RunFolder(folder), certificate["card"]) if internal else None,
            attacks=attacks(folder / ATTACKS) if internal else None,
            audited=audited(folder) or said_by(certificate),
            curves=_curves(_events(folder / EVENTS)),
            drawn=_drawn,
            roc=lambda entry: Markup(plots.roc(**entry["roc"], title=f"ROC of {entry['attack']}")),
        )
    path = folder / REPORT
    write_atomically(path, page, private=internal)
    return path


def _remark(folder: Path) -> str:
    """What the model says of its classes; empty where it cannot be loaded, as `verify` says why."""
    try:
        return Synthesizer.load(folder).remark if (folder / MODEL).is_file() else ""
    except (LedgerDamaged, RunFolderError):
        return ""


def _certificate(path: Path) -> dict[str, Any]:
    certificate = parsed(_read(path, "finish the run first (`gossamer.resume`), or name another folder"), path, _COPY)
    names = [field.name for field in dataclasses.fields(Certificate)]
    if missing := [name for name in names if not isinstance(certificate, dict) or name not in certificate]:
        raise RunFolderError(f"{path} lacks {', '.join(missing)}; {_COPY}")
    return dict(certificate)


def metrics(folder: RunFolder, card: dict[str, Any]) -> dict[str, Any]:
    """Sentences and tables. Raises RunFolderError: a damaged file."""
    entries = folder.metrics()
    with as_written(
        folder.file(METRICS), "a list of metrics", "write it again with `gossamer.evaluate`, or remove it."
    ):
        return {
            "usefulness": wording.usefulness(entries),
            "sentences": wording.sentences(entries, kind_of(card).name),
            "tables": wording.tables(entries, card.get("class_names", [])),
            "apart": apart(entries, card),
            "drawn": [{"metric": each["metric"], **column} for each in entries for column in each.get("drawn", ())],
        }


def attacks(path: Path) -> dict[str, Any] | None:
    """Verdict, table and figures, where the run was attacked. Raises RunFolderError: a damaged file."""
    if not path.is_file():
        return None
    report = parsed(path.read_bytes(), path, _COPY)
    with as_written(path, "what attacks found", "write it again with `gossamer.attack`, or remove it."):
        head, *rows = wording.attack_rows(report["attacks"])
        return {**report, "head": head, "rows": rows, "words": wording.attacks_in_words(report["attacks"])}


def _events(path: Path) -> list[dict[str, Any]]:
    """The events of kind "step", whose steps go on from phase to phase. A release has no events, so it has no curves."""
    if not path.is_file():
        return []
    steps: list[dict[str, Any]] = []
    phase, before = None, 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            event = json.loads(line)
            if event["kind"] == "step":
                if event.get("phase") != phase:
                    phase, before = event.get("phase"), steps[-1]["step"] if steps else 0
                steps.append({"step": before + int(event["step"]), **event["values"]})
        except (ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{path}, line {number}: this line is no event; remove it, or restore the file from a copy of the run."
            ) from error
    return steps


def _read(path: Path, remedy: str) -> bytes:
    if not path.is_file():
        raise RunFolderError(f"{path.parent} is not a finished run: it has no {path.name}; {remedy}.")
    return path.read_bytes()


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


def _curves(events: list[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Points by name: epsilon first, then every other figure of the steps that ever changes. One step makes no curve."""
    names = dict.fromkeys([_SPENT, *(name for event in events for name in event if name != "step")])
    found = [(name, _series(events, name)) for name in names]
    return {
        name: points
        for name, points in found
        if len(points) > 1 and (name == _SPENT or len({value for _, value in points}) > 1)
    }


def _drawn(points: list[tuple[int, float]], title: str) -> Markup:
    """One curve, thinned."""
    thinned = [*points[: -1 : max(1, len(points) // _POINTS)], points[-1]]
    return Markup(plots.curve(*zip(*thinned, strict=True), x_label="steps", title=title))


def _series(events: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    """Steps and finite numbers of one name; words and infinities are left out."""
    pairs = [(event["step"], event[name]) for event in events if name in event]
    numbers = [(step, float(value)) for step, value in pairs if isinstance(value, int | float)]
    return [(step, value) for step, value in numbers if math.isfinite(value)]
