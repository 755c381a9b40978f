"""`gossamer presets`."""

import json
from pathlib import Path

import click

from gossamer.data import card as cards
from gossamer.errors import RequestError, did_you_mean
from gossamer.methods import METHODS
from gossamer.run.cli.options import as_json
from gossamer.run.training import presets as named


@click.command()
@click.argument("method", required=False)
@click.option(
    "--card",
    type=click.Path(path_type=Path),
    help="Show which of them can be had for these records, scaled to their declared size.",
)
@as_json
def presets(method: str | None, card: Path | None, as_json: bool) -> None:
    """List the named settings, of METHOD or of all."""
    if method is not None and method not in METHODS:
        raise RequestError(
            f"there is no METHOD {method!r}.{did_you_mean(method, METHODS)} Known: {', '.join(METHODS)}."
        )
    if card is not None:
        _for_card(named.for_card(cards.DataCard.load(card), method=method), as_json=as_json)
        return
    known = {name: entries for name, entries in named.all_presets().items() if method in (None, name)}
    if as_json:
        click.echo(json.dumps({"presets": known}))
        return
    for name, entries in known.items():
        for preset, entry in entries.items():
            chosen = " ".join(f"{key}={value}" for key, value in entry.items() if key not in named.ABOUT)
            made_for = f"; made for {entry['records']:,} records" if "records" in entry else ""
            click.echo(f"{name} {preset}: {entry['about']}{made_for}\n    {chosen}")


def _for_card(found: list[named.Scaled], *, as_json: bool) -> None:
    if as_json:
        entries = [
            {"method": each.method, "preset": each.name, "changed": dict(each.changed), "refused": each.refused}
            for each in found
        ]
        click.echo(json.dumps({"presets": entries}))
        return
    for each in found:
        click.echo(f"{each.method} {each.name}: {each.about}")
        click.echo(f"    not for this card: {each.refused}" if each.refused else f"    {each.flags}")
