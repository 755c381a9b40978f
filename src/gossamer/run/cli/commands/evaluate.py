"""`gossamer evaluate`, `gossamer attack` and `gossamer compare`: private figures."""

import dataclasses
from pathlib import Path
from typing import Any

import click

import gossamer
from gossamer.metrics.metric import GUESSED, Measures
from gossamer.metrics.registry import OF_KIND, PROTOCOLS, stands_alone
from gossamer.run.cli import options as flags
from gossamer.run.cli.options import options_of
from gossamer.run.report.wording import PRIVATE, aligned

WIDEST = 120
"""Letters of a line; a table that is wider is turned: a line for each figure, a column for each run."""


@click.command()
@click.argument("synth", type=flags.PATH)
@options_of("run.evaluation.evaluate.evaluate", count={"type": click.IntRange(min=1)}, metrics=None)
@flags.reading
@options_of(
    "metrics.metric.Measures",
    protocol={"type": click.Choice(PROTOCOLS)},
    metrics={
        "help": "Metrics to compute, with commas between."
        + "".join(
            f" For {each.records}: {', '.join(each)}; all means {', '.join(each.in_all)}; default: {each.usual}."
            for each in OF_KIND.values()
        )
    },
    subgroups={"metavar": "COLUMNS"},
    cache={"type": click.Path(path_type=Path, file_okay=False)},
    inception={"type": (click.Path(path_type=Path, exists=True, dir_okay=False), str), "metavar": "WEIGHTS SHA256"},
)
@flags.as_json
def evaluate(synth: Path, as_json: bool, **options: Any) -> None:
    """Measure how good samples are, with real records. SYNTH is a run folder, a release, or a file of samples.

    Do not publish the figures: they are computed on real records, and the guarantee does not cover them.
    """
    from gossamer.run.evaluation import evaluate as evaluation

    flags.take_sources(options, "train", "test")
    measures = Measures(**{name: options.pop(name) for name in vars(Measures())})
    with flags.on_terminal() as terminal:
        result = evaluation.evaluate(synth, metrics=measures, process=gossamer.Process(sink=terminal), **options)
    lines = [
        *evaluation.lines(result.metrics, result.class_names),
        *(f"{name} left out: {reason}" for name, reason in result.left_out.items()),
        PRIVATE,
    ]
    flags.show(lines, {"metrics": result.metrics, "left_out": result.left_out}, as_json=as_json)


@click.command()
@click.argument("run", type=flags.PATH)
@options_of(
    "run.evaluation.attack.attack",
    count={"type": click.IntRange(min=100)},
    limit={"type": click.IntRange(min=20)},
)
@flags.reading
@flags.as_json
def attack(run: Path, as_json: bool, **options: Any) -> None:
    """Test whether an attacker can recognise the training records of RUN, a run folder or a release.

    Every membership attack that applies is shown next to guessing. White-box attacks need the discriminators in a run folder.
    Do not publish the figures: they are computed on real records, and the guarantee does not cover them.
    """
    from gossamer.run.evaluation import attack as attacking

    flags.take_sources(options, "members", "nonmembers")
    with flags.on_terminal() as terminal:
        report = attacking.attack(run, process=gossamer.Process(sink=terminal), **options)
    flags.show(attacking.lines(report), dataclasses.asdict(report), as_json=as_json)


@click.command()
@click.argument("runs", type=flags.PATH, nargs=-1, required=True)
@options_of("run.cli.commands.evaluate.compare", "metric", "out")
@flags.force
@flags.as_json
def compare(runs: tuple[Path, ...], *, metric: str = "accuracy", out: Path | None, force: bool, as_json: bool) -> None:
    """Compare the metrics of RUNS, folders of evaluated runs, in one table. With -o, plot a metric against epsilon.

    \f
    Args:
        runs: their folders.
        metric: metric to plot against epsilon.
        out: file for the plot, .png or .svg. Default: no plot.
        force: replace the output if it exists.
        as_json: print one JSON object.
    """
    from gossamer.run.evaluation import compare as comparison

    entries = [comparison.evaluated(run) for run in runs]
    metric = comparison.chosen_metric(entries, metric)
    if out is not None:
        flags.refuse_taken(out, force=force)
        comparison.plot(entries, metric, out)
    shared = [name for name in entries[0]["metrics"] if stands_alone(name) and name != GUESSED.name]
    rows = comparison.table(entries, shared)
    lines = aligned(rows)
    if max(map(len, lines)) > WIDEST:
        lines = aligned(list(zip(*rows, strict=True)))
    if unlike := comparison.unlike(entries, shared):
        lines.append(
            f"Do not compare {', '.join(unlike)}: the runs were evaluated in other ways, see RUN/metrics.json. "
            "Evaluate all with the same -n, --protocol and records."
        )
    lines.append("Private figures, do not publish. The guarantees do not cover the choice of a run by them.")
    flags.show(lines, {"runs": entries}, as_json=as_json)
