"""`gossamer presets`."""

import json

import click

from gossamer.run import presets as named
from gossamer.run.options import as_json


@click.command()
@as_json
def presets(as_json: bool) -> None:
    """List the named settings."""
    known = named.all_presets()
    if as_json:
        click.echo(json.dumps({"presets": known}))
        return
    for method, entries in known.items():
        for name, entry in entries.items():
            flags = " ".join(f"{key}={value}" for key, value in entry.items() if key != "about")
            click.echo(f"{method} {name}: {entry['about']}\n    {flags}")
