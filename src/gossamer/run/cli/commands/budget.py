"""`gossamer budget` and `gossamer discard`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import accounts, as_json

if TYPE_CHECKING:
    from gossamer.run.budget import budget as spending
else:
    spending = Lazy("gossamer.run.budget.budget")


@click.command()
@click.argument("data")
@click.option(
    "--card", type=click.Path(path_type=Path), help="The data's card: its data_set is the name of the account."
)
@click.option("--epsilon", type=float, help="Set the limit of all runs together; 'inf' lifts it, with --force.")
@click.option("--delta", type=float, help="Delta of the limit; 'inf' needs none.")
@click.option(
    "--allow-infinite", is_flag=True, help="Let runs without a guarantee pass the limit, and do not count them."
)
@click.option("--force", is_flag=True, help="Let a looser limit replace a stricter one.")
@accounts
@as_json
def budget(data: str, as_json: bool, **named: Any) -> None:
    """What all runs on DATA have spent together, by the account book; with --epsilon and --delta, set their limit.

    DATA is what `fit --data` was given, or the data_set of the card. Reads no record.
    """
    spent = spending.budget(data, **named)
    if as_json:
        click.echo(json.dumps(spent.to_json()))
        return
    for line in spent.lines():
        click.echo(line)


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@accounts
def discard(run: Path, accounts: Path | None) -> None:
    """Give up an unfinished RUN and delete it. What it was charged stays in the account book."""
    for line in spending.discard(run, accounts=accounts):
        click.echo(line)
