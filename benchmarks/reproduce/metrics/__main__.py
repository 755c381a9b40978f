"""`python -m benchmarks.reproduce.metrics`, in the root of the repository."""

import json
from pathlib import Path

import click

from benchmarks.reproduce.metrics.measure import PAPER_METRICS, measure
from gossamer.errors import RequestError, did_you_mean
from gossamer.files import write_atomically
from gossamer.run.cli.main import main
from gossamer.run.cli.options import checked_seed
from gossamer.run.training import progress


def _names(_ctx: click.Context, _option: click.Parameter, text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PAPER_METRICS:
            known = f"{did_you_mean(name, PAPER_METRICS)} Known: {', '.join(PAPER_METRICS)}."
            raise RequestError(f"--metrics: there is no metric {name!r} here.{known}")
    return names


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--metrics", callback=_names, required=True, help=f"With commas between: {', '.join(PAPER_METRICS)}.")
@click.option("--train", required=True, metavar="DATA", help="Real training records.")
@click.option("--test", required=True, metavar="DATA", help="Real test records.")
@click.option("--labelled", type=click.IntRange(min=2), default=100, help="For semi-supervised: labelled records.")
@click.option("--seed", type=int, callback=checked_seed, default=0, help="Fixes trainings and draws.")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="File for the figures.")
def paper_metrics(run: Path, metrics: list[str], train: str, test: str, labelled: int, seed: int, out: Path) -> None:
    """Measure the papers' metrics on a RUN. The figures read real records; the guarantee does not cover them."""
    with progress.Terminal() as terminal:
        found = measure(run, metrics, train=train, test=test, labelled=labelled, seed=seed, sink=terminal)
    write_atomically(out, json.dumps(found, indent=2) + "\n", private=True)
    for entry in found:
        click.echo(f"{entry['metric']}  {entry['value']:.4g} ({entry['low']:.4g} to {entry['high']:.4g})")


if __name__ == "__main__":
    main(command=paper_metrics, name="python -m benchmarks.reproduce.metrics")
