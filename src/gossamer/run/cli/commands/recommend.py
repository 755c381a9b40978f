"""`gossamer recommend`."""

import json
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import as_json, card, options_of

if TYPE_CHECKING:
    from gossamer.run.recommend import recommend as advising
else:
    advising = Lazy("gossamer.run.recommend.recommend")


@click.command()
@card
@options_of("gossamer.run.recommend.recommend.recommend")
@as_json
def recommend(as_json: bool, **options: Any) -> None:
    """Rank the methods for a data card, with what to expect of each and the command to copy. Reads no record.

    The expectations come from measured runs, and each names its page. Where no run was measured, it says unknown.
    """
    advice = advising.recommend(**options)
    click.echo(json.dumps(advice.to_json()) if as_json else "\n".join(advice.lines()))
