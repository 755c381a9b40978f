"""`gossamer evaluate` and `gossamer compare`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.metrics.metric import Measures
from gossamer.metrics.registry import OF_KIND, PROTOCOLS, stands_alone
from gossamer.run.cli.options import PATH, SOURCE, as_json, force, options_of, refuse_taken, take_sources
from gossamer.run.report import wording

if TYPE_CHECKING:
    from gossamer.run.evaluation import compare as comparison
    from gossamer.run.evaluation import evaluate as evaluation
    from gossamer.run.training import progress
else:
    comparison, evaluation = Lazy("gossamer.run.evaluation.compare"), Lazy("gossamer.run.evaluation.evaluate")
    progress = Lazy("gossamer.run.training.progress")

MEASURES = "gossamer.metrics.metric.Measures"
WIDEST = 120
"""Letters of a line; a table that is wider is turned: a line for each figure, a column for each run."""


@click.command()
@click.argument("synth", type=PATH)
@options_of(
    "gossamer.run.evaluation.evaluate.evaluate",
    "train",
    "test",
    "count",
    "out",
    "seed",
    "card",
    count={"type": click.IntRange(min=1)},
)
@options_of(SOURCE, "images_key", "labels_key", "units")
@options_of(
    MEASURES,
    protocol={"type": click.Choice(PROTOCOLS)},
    metrics={
        "help": "Metrics to compute, with commas between."
        + "".join(
            f" For {each.records}: {', '.join(each)}; all means {', '.join(each.in_all)}." for each in OF_KIND.values()
        )
    },
    subgroups={"metavar": "COLUMNS"},
    limit={"type": click.IntRange(min=10)},
    cache={"type": click.Path(path_type=Path, file_okay=False)},
    inception={
        "type": (click.Path(path_type=Path, exists=True, dir_okay=False), str),
        "metavar": "WEIGHTS SHA256",
    },
)
@as_json
def evaluate(synth: Path, out: Path | None, as_json: bool, **options: Any) -> None:
    """Measure how good samples are, with real records. SYNTH is a run folder, a release, or a file of samples.

    Do not publish the figures: they are computed on real records, and the guarantee does not cover them.
    """
    take_sources(options, "train", "test")
    measures = Measures(**{name: options.pop(name) for name in vars(Measures())})
    with progress.Terminal() as terminal:
        result = evaluation.evaluate(
            synth, out=out, metrics=measures, process=progress.Process(sink=terminal), **options
        )
    if as_json:
        click.echo(json.dumps({"metrics": result.metrics, "left_out": result.left_out}))
        return
    for line in evaluation.lines(result.metrics, result.class_names):
        click.echo(line)
    for name, reason in result.left_out.items():
        click.echo(f"{name} left out: {reason}")
    click.echo("Private figures, do not publish: they come from real records, and the guarantee does not cover them.")


@click.command()
@click.argument("runs", type=PATH, nargs=-1, required=True)
@click.option("--metric", default="accuracy", show_default=True, help="Metric to plot against epsilon.")
@click.option("-o", "--out", type=PATH, help="File for the plot, .png or .svg. Default: no plot.")
@force
@as_json
def compare(runs: tuple[Path, ...], metric: str, out: Path | None, force: bool, as_json: bool) -> None:
    """Compare the metrics of RUNS, folders of evaluated runs, in one table. With -o, plot a metric against epsilon."""
    entries = [comparison.evaluated(run) for run in runs]
    metric = comparison.chosen_metric(entries, metric)
    if out is not None:
        refuse_taken(out, force=force)
        comparison.plot(entries, metric, out)
    if as_json:
        click.echo(json.dumps({"runs": entries}))
        return
    shared = [name for name in entries[0]["metrics"] if stands_alone(name)]
    rows = comparison.table(entries, shared)
    lines = wording.aligned(rows)
    if max(map(len, lines)) > WIDEST:
        lines = wording.aligned(list(zip(*rows, strict=True)))
    for line in lines:
        click.echo(line)
    if unlike := comparison.unlike(entries, shared):
        click.echo(
            f"Do not compare {', '.join(unlike)}: the runs were evaluated in different ways, which RUN/metrics.json lists. "
            "Evaluate all of them with the same -n, --protocol and records."
        )
    click.echo("Private figures, do not publish. The guarantees do not cover the choice of a run by them.")
