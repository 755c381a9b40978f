"""`gossamer evaluate`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import as_json, checked_seed, images_key, labels_key
from gossamer.run.evaluation.metric_registry import IN_ALL, METRICS, PROTOCOLS

if TYPE_CHECKING:
    from gossamer.run.evaluation import evaluate as evaluation
    from gossamer.run.training import progress
else:
    evaluation, progress = Lazy("gossamer.run.evaluation.evaluate"), Lazy("gossamer.run.training.progress")


@click.command()
@click.argument("synth", type=click.Path(path_type=Path))
@click.option(
    "--train", required=True, help="Real training records, for the real-data baseline (default split: train)."
)
@click.option("--test", required=True, help="Real test records (default split: test).")
@click.option(
    "-n", "count", type=click.IntRange(min=1), default=60_000, show_default=True, help="Samples drawn from a RUN."
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Where the figures go; default for a RUN: RUN/metrics.json."
)
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    default="paper",
    show_default=True,
    help="For accuracy: the paper's 10 epochs, or fewer.",
)
@click.option(
    "--metrics",
    default="accuracy",
    show_default=True,
    help=f"Names with commas between: {', '.join(METRICS)}; or all ({', '.join(IN_ALL)}).",
)
@click.option(
    "--labelled",
    type=click.IntRange(min=2),
    default=100,
    show_default=True,
    help="For semi-supervised: labelled records.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=10),
    default=10_000,
    show_default=True,
    help="For classical: training records at most.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    help="Private folder for what depends on the real records alone; default: in the RUN.",
)
@click.option(
    "--inception",
    type=(click.Path(path_type=Path, exists=True, dir_okay=False), str),
    metavar="WEIGHTS SHA256",
    help="For fid: Inception-V3 from a local file (extra fid); default: a classifier trained on --train.",
)
@click.option(
    "--card",
    type=click.Path(path_type=Path),
    help="For a file of samples: the card that says how real records are read.",
)
@click.option(
    "--seed", type=int, callback=checked_seed, default=0, show_default=True, help="Fixes samples and training."
)
@images_key
@labels_key
@as_json
def evaluate(synth: Path, out: Path | None, as_json: bool, **named: Any) -> None:
    """How good is SYNTH (a RUN, a release, or a file of samples)? Measured on real records.

    The figures read real records. They are internal: the guarantee does not cover them.
    """
    with progress.Terminal() as terminal:
        found = evaluation.evaluate(synth, out=out, sink=terminal, **named)
    if as_json:
        click.echo(json.dumps({"metrics": found.metrics, "left_out": found.left_out}))
        return
    for line in evaluation.lines(found.metrics, found.class_names):
        click.echo(line)
    for name, reason in found.left_out.items():
        click.echo(f"{name} left out: {reason}")
    click.echo("Internal figures: they were computed on real records and are not covered by the guarantee.")
