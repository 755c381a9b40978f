"""`gossamer split`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import options_of

if TYPE_CHECKING:
    from gossamer.data import split as splitting
else:
    splitting = Lazy("gossamer.data.split")


@click.command()
@click.argument("data")
@options_of("gossamer.data.split.split", missing_unit={"type": click.Choice(["refuse", "own"])})
def split(data: str, out: Path, **options: Any) -> None:
    """Split DATA into train and test before a run, whole units on either side.

    Members and non-members must differ in nothing but the deal, or `gossamer attack` sees writers and scanners. A hash of each
    unit deals, so whoever joins or leaves moves nobody else. Declare the size of train: (1 - share) of what you would declare.
    """
    result = splitting.split(data, out=out, **options)
    for text in result.notes:
        click.echo(f"Note: {text}", err=True)
    for side, records, people in zip(("train", "test"), result.records, result.units, strict=True):
        click.echo(f"{side}: {records:,} records" + (f" of {people:,} units" if result.spec else ""))
    whose = ""
    if result.spec:
        whose = f" --units {shlex.quote(str(out / result.spec) if result.spec.endswith('.csv') else result.spec)}"
    place = shlex.quote(str(out))
    click.echo(
        f"`gossamer fit` takes --data {place}{whose}, and `gossamer attack` --members {place} --nonmembers {place}{whose}."
    )
    click.echo(
        f"Note: {place} is a new data set to the budget log: runs and limits on {shlex.quote(data)} do not count. Write one "
        "data_set on every card of these people before the first run: then they do.",
        err=True,
    )
