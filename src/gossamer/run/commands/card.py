"""`gossamer card`."""

from pathlib import Path

import click

from gossamer.data.card import draft
from gossamer.data.readers import read
from gossamer.run.options import force, labels_key, refuse_taken, units


@click.command()
@click.argument("data")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the draft here; default: print it.")
@labels_key
@units
@force
def card(data: str, out: Path | None, labels_key: str | None, units: str | None, force: bool) -> None:
    """Draft the public facts of DATA, for the curator to declare.

    Every line of a card becomes public knowledge: edit the draft, and keep only what may be known.
    """
    records = read(data, split="train", labels_key=labels_key, units=units, missing_unit="own")
    text = draft(records, unit="person" if units else "record")
    if out is None:
        click.echo(text, nl=False)
        return
    refuse_taken(out, force=force)
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: a draft. Every line becomes public when you keep it; read it before you use it.", err=True)
