"""`gossamer compare`: several evaluated runs in one table and one plot, utility against epsilon.

The figures are private, like those of `evaluate`: choosing one of the runs by them is outside their guarantees.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gossamer.errors import RequestError, RunFolderError, did_you_mean
from gossamer.metrics import registry
from gossamer.metrics.metric import of_baseline
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.guarantee import in_full, rounded_up
from gossamer.run.evaluation.evaluate import in_units
from gossamer.run.report import plots
from gossamer.run.report.wording import NONE
from gossamer.run.storage.run_folder import METRICS, RunFolder


def evaluated(run: Path) -> dict[str, Any]:
    """The entry of a run: its folder, method, guarantee and figures by name.

    Raises:
        RunFolderError: if it is no finished run, or has not been evaluated.
    """
    folder = RunFolder(run)
    folder.check_finished()
    if not folder.file(METRICS).is_file():
        raise RunFolderError(
            f"{run} has not been evaluated: `gossamer.evaluate({str(run)!r}, train=DATA, test=DATA)` first."
        )
    certificate = Certificate.load(run)
    metrics = {entry["metric"]: entry for entry in folder.metrics()}
    return {"run": run.name, "method": certificate.method, **certificate.guarantee, "metrics": metrics}


def chosen_metric(entries: Sequence[dict[str, Any]], name: str) -> str:
    """The name of a figure that every run has.

    Raises:
        RequestError: if a run lacks it; names the nearest that all have.
    """
    shared = [metric for metric in entries[0]["metrics"] if all(metric in entry["metrics"] for entry in entries)]
    if name not in shared:
        raise RequestError(
            f"not every run has the figure {name!r}.{did_you_mean(name, shared)} All have: {', '.join(shared) or 'none'}."
        )
    return name


def table(entries: Sequence[dict[str, Any]], metrics: Sequence[str]) -> list[list[str]]:
    """Head and rows: run, method, epsilon, delta, and the figures with their intervals."""
    rows = [["run", "method", "epsilon", "delta", *metrics]]
    for entry in sorted(entries, key=lambda entry: float(entry["epsilon"])):
        figures = [in_units(entry["metrics"][name]).strip() if name in entry["metrics"] else NONE for name in metrics]
        budget = rounded_up(float(entry["epsilon"])), in_full(float(entry["delta"]))
        rows.append([entry["run"], entry["method"], *budget, *figures])
    return rows


def unlike(entries: Sequence[dict[str, Any]], metrics: Sequence[str]) -> list[str]:
    """The figures that were not computed alike in all runs: on other numbers of records, or by another protocol."""
    ways = {name: {each["metrics"].get(name, {}).get("computed_on") for each in entries} - {None} for name in metrics}
    return [name for name, found in ways.items() if len(found) > 1]


def plot(entries: Sequence[dict[str, Any]], metric: str, path: Path) -> None:
    """Utility against epsilon, as .png or .svg. Runs without a guarantee, and the real-data baseline, are horizontal lines.

    Raises:
        RequestError: another ending.
    """
    if path.suffix not in (".png", ".svg"):
        raise RequestError(f"{path}: a plot is a .png or .svg file.")
    points = [
        (f"{entry['run']} ({entry['method']})", float(entry["epsilon"]), entry["metrics"][metric]) for entry in entries
    ]
    baselines = [entry["metrics"].get(of_baseline(metric)) for entry in entries]
    plots.utility_plot(
        points,
        baseline=max((found["value"] for found in baselines if found), default=None),
        y_label=metric,
        shares=registry.figure(metric).share,
        path=path,
    )
