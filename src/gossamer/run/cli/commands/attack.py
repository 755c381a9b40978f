"""`gossamer attack`."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import PATH, SOURCE, as_json, options_of, take_sources

if TYPE_CHECKING:
    from gossamer.run.evaluation import attack as attacking
    from gossamer.run.training import progress
else:
    attacking, progress = Lazy("gossamer.run.evaluation.attack"), Lazy("gossamer.run.training.progress")


@click.command()
@click.argument("run", type=PATH)
@options_of(
    "gossamer.run.evaluation.attack.attack",
    count={"type": click.IntRange(min=100)},
    limit={"type": click.IntRange(min=20)},
)
@options_of(SOURCE, "images_key", "labels_key", "units")
@as_json
def attack(run: Path, as_json: bool, **options: Any) -> None:
    """Test whether an attacker can recognise the training records of RUN, a run folder or a release.

    Every membership attack that applies is shown next to guessing. White-box attacks need the discriminators in a run folder.
    Do not publish the figures: they are computed on real records, and the guarantee does not cover them.
    """
    take_sources(options, "members", "nonmembers")
    with progress.Terminal() as terminal:
        report = attacking.attack(run, process=progress.Process(sink=terminal), **options)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report)))
        return
    for line in attacking.lines(report):
        click.echo(line)
