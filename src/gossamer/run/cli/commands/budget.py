"""`gossamer budget`, `gossamer discard` and `gossamer account`."""

from pathlib import Path
from typing import Any

import click

import gossamer
from gossamer.run.cli.options import PATH, as_json, options_of, show


@click.command()
@click.argument("data")
@options_of("run.budget.budget.budget")
@as_json
def budget(data: str, as_json: bool, **options: Any) -> None:
    """Show the total epsilon of all runs on DATA, from the budget log. With --epsilon and --delta, limit it.

    DATA is what you gave to `fit --data`, or the data_set of the card. No record is read.
    """
    spent = gossamer.budget(data, **options)
    show(spent.lines(), spent.to_json(), as_json=as_json)


@click.command()
@click.argument("run", type=PATH)
@options_of("run.budget.budget.discard")
def discard(run: Path, accounts: Path | None) -> None:
    """Delete RUN, the folder of an unfinished run. Its cost stays in the budget log."""
    show(gossamer.discard(run, accounts=accounts), None, as_json=False)


@click.command()
@options_of("run.cli.calculator.account", draw={"type": click.Choice(["secret", "round_robin", "paper"])})
@as_json
def account(as_json: bool, **options: Any) -> None:
    """Calculate the privacy cost of a schedule of queries. They are Poisson-sampled Gaussians or, with --draw, the answers of
    gs-wgan's critics.
    """
    from gossamer.run.cli import calculator

    answer = calculator.account(**options)
    show(answer.lines(), answer.to_json(), as_json=as_json)
