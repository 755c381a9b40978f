"""`gossamer split`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import SOURCE, options_of, take_source

if TYPE_CHECKING:
    from gossamer.data import split as splitting
    from gossamer.run.training import progress
else:
    splitting, progress = Lazy("gossamer.data.split"), Lazy("gossamer.run.training.progress")


@click.command()
@click.argument("data")
@options_of("gossamer.data.split.split", missing_unit={"type": click.Choice(["refuse", "own"])})
@options_of(SOURCE, "images_key", "labels_key", "units")
def split(data: str, out: Path, **options: Any) -> None:
    """Split DATA into train and test before a run. All records of a unit are on one side.

    `gossamer attack` needs a random split: it compares train and test, and must see no other difference. A hash of each unit
    picks its side, so a new unit moves no other. In the card of train, declare (1 - share) of the size.
    """
    source = take_source(options, data)
    with progress.Terminal() as terminal:
        result = splitting.split(source, out=out, sink=terminal, **options)
    for text in result.notes:
        click.echo(f"Note: {text}", err=True)
    for side, records, people in zip(("train", "test"), result.records, result.units, strict=True):
        click.echo(f"{side}: {records:,} records" + (f" of {people:,} units" if result.spec else ""))
    whose = ""
    if result.spec:
        in_file = result.spec == splitting.UNITS_FILE
        whose = f" --units {shlex.quote(str(out / result.spec) if in_file else result.spec)}"
    if source.labels_key == "none" and out.suffix != ".npz":
        whose += " --labels-key none"
    place = shlex.quote(str(out))
    attack = f"gossamer attack --members {place} --nonmembers {place}{whose}"
    click.echo(f"Use `gossamer fit --data {place}{whose}` and `{attack}`.")
    click.echo(
        f"Note: {place} is a new data set to the budget log: runs and limits on {shlex.quote(data)} do not count. To count "
        "both, write the same data_set on all cards of these people before the first run.",
        err=True,
    )
