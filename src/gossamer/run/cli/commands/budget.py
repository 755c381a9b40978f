"""`gossamer budget` and `gossamer discard`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import PATH, as_json, options_of

if TYPE_CHECKING:
    from gossamer.run.budget import budget as spending
else:
    spending = Lazy("gossamer.run.budget.budget")


@click.command()
@click.argument("data")
@options_of("gossamer.run.budget.budget.budget")
@as_json
def budget(data: str, as_json: bool, **options: Any) -> None:
    """Show the total epsilon of all runs on DATA, from the budget log. With --epsilon and --delta, limit it.

    DATA is what you gave to `fit --data`, or the data_set of the card. No record is read.
    """
    spent = spending.budget(data, **options)
    if as_json:
        click.echo(json.dumps(spent.to_json()))
        return
    for line in spent.lines():
        click.echo(line)


@click.command()
@click.argument("run", type=PATH)
@options_of("gossamer.run.budget.budget.discard")
def discard(run: Path, accounts: Path | None) -> None:
    """Delete RUN, the folder of an unfinished run. Its cost stays in the budget log."""
    for line in spending.discard(run, accounts=accounts):
        click.echo(line)
