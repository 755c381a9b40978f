"""`gossamer attack`."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import as_json, checked_seed, images_key, labels_key, units

if TYPE_CHECKING:
    from gossamer.run.evaluation import attack as attacking
    from gossamer.run.training import progress
else:
    attacking, progress = Lazy("gossamer.run.evaluation.attack"), Lazy("gossamer.run.training.progress")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--members", required=True, help="Records of the run's training data (default split: train).")
@click.option(
    "--nonmembers", required=True, help="Records of the same kind that the run never saw (default split: test)."
)
@click.option(
    "-n", "count", type=click.IntRange(min=100), default=20_000, show_default=True, help="Samples drawn from the RUN."
)
@click.option(
    "--limit", type=click.IntRange(min=20), default=2_000, show_default=True, help="Members, and non-members, at most."
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Where the figures go; default: RUN/attacks.json.")
@click.option("--seed", type=int, callback=checked_seed, default=0, show_default=True, help="Fixes samples and draws.")
@images_key
@labels_key
@units
@as_json
def attack(run: Path, as_json: bool, **named: Any) -> None:
    """Can RUN's training records be recognised? Every membership attack that applies, beside what guessing reaches.

    White-box attacks need the discriminators of the private checkpoint; a release is attacked through its samples only.
    The figures read real records. They are internal: the guarantee does not cover them.
    """
    with progress.Terminal() as terminal:
        found = attacking.attack(run, sink=terminal, **named)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found)))
        return
    for line in attacking.lines(found):
        click.echo(line)
