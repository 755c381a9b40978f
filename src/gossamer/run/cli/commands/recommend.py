"""`gossamer recommend`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import as_json

if TYPE_CHECKING:
    from gossamer.run.recommend import recommend as advising
else:
    advising = Lazy("gossamer.run.recommend.recommend")


@click.command()
@click.option("--card", type=click.Path(path_type=Path), required=True, help="The declared public facts.")
@click.option("--epsilon", type=float, required=True, help="The budget.")
@click.option(
    "--delta",
    type=float,
    help="Delta of the guarantee; default: the largest power of ten that is at most 1e-5 and a tenth of 1 / declared size.",
)
@click.option("--minutes", type=float, help="Leave out what takes longer than this.")
@click.option("--public", metavar="DATA", help="Public records that could start a run warm. They are not read.")
@click.option(
    "--pictures",
    metavar="KIND",
    help="What the records show, where that is public: digits, letters, clothes. Runs on others are then left out.",
)
@click.option("--data", default="DATA", help="Where the records are, for the commands. They are not read.")
@as_json
def recommend(as_json: bool, **asked: Any) -> None:
    """Rank the methods for the records of a card, with what to expect of each and the command to copy. Reads no record.

    What is expected comes from the runs that were measured, each with its page; where there is none, it says unknown.
    """
    advice = advising.recommend(**asked)
    click.echo(json.dumps(advice.to_json()) if as_json else "\n".join(advice.lines()))
