"""`gossamer compare`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import as_json, force, refuse_taken
from gossamer.run.report import metric_names, wording

if TYPE_CHECKING:
    from gossamer.run.evaluation import compare as comparison
else:
    comparison = Lazy("gossamer.run.evaluation.compare")

WIDEST = 120
"""Letters of a line; a table that is wider is turned: a line for each figure, a column for each run."""


@click.command()
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--metric", default="accuracy", show_default=True, help="The figure of the plot.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The plot, .png or .svg; default: none.")
@force
@as_json
def compare(runs: tuple[Path, ...], metric: str, out: Path | None, force: bool, as_json: bool) -> None:
    """Several evaluated RUNs in one table, and utility against epsilon in one plot."""
    entries = comparison.compare(runs)
    metric = comparison.chosen_metric(entries, metric)
    if out is not None:
        refuse_taken(out, force=force)
        comparison.plot(entries, metric, out)
    if as_json:
        click.echo(json.dumps({"runs": entries}))
        return
    shared = [name for name in entries[0]["metrics"] if metric_names.stands_alone(name)]
    rows = comparison.table(entries, shared)
    lines = wording.aligned(rows)
    if max(map(len, lines)) > WIDEST:
        lines = wording.aligned(list(zip(*rows, strict=True)))
    for line in lines:
        click.echo(line)
    if unlike := comparison.unlike(entries, shared):
        click.echo(
            f"Not computed alike in all runs, so not to be compared: {', '.join(unlike)}. What each was computed on stands in "
            "RUN/metrics.json; evaluate them with the same -n, --protocol and records."
        )
    click.echo("Internal figures: choosing a run by them is not covered by the guarantees.")
