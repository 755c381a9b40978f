"""`gossamer attack`."""

import dataclasses
from pathlib import Path
from typing import Any

import click

import gossamer
from gossamer.run.cli.options import PATH, as_json, on_terminal, options_of, reading, show, take_sources


@click.command()
@click.argument("run", type=PATH)
@options_of(
    "run.evaluation.attack.attack",
    count={"type": click.IntRange(min=100)},
    limit={"type": click.IntRange(min=20)},
)
@reading
@as_json
def attack(run: Path, as_json: bool, **options: Any) -> None:
    """Test whether an attacker can recognise the training records of RUN, a run folder or a release.

    Every membership attack that applies is shown next to guessing. White-box attacks need the discriminators in a run folder.
    Do not publish the figures: they are computed on real records, and the guarantee does not cover them.
    """
    from gossamer.run.evaluation import attack as attacking

    take_sources(options, "members", "nonmembers")
    with on_terminal() as terminal:
        report = attacking.attack(run, process=gossamer.Process(sink=terminal), **options)
    show(attacking.lines(report), dataclasses.asdict(report), as_json=as_json)
