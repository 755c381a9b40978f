"""`gossamer card`."""

from collections import Counter
from pathlib import Path

import click

from gossamer.data import folders
from gossamer.data.card import draft
from gossamer.data.images import Form
from gossamer.data.readers import listed, read
from gossamer.data.remarks import drafted_size, remarks
from gossamer.run.options import force, labels_key, refuse_taken, units


@click.command()
@click.argument("data")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the draft here; default: print it.")
@labels_key
@units
@force
def card(data: str, out: Path | None, labels_key: str | None, units: str | None, force: bool) -> None:
    """Draft the public facts of DATA, for the curator to declare.

    Every line of a card becomes public knowledge: edit the draft, and keep only what may be known. What DATA show that asks
    for a decision is said on the terminal, and is written nowhere.
    """
    shape, sizes = None, None
    if (pictures := listed(data, split="train")) is not None:  # they may differ in size, and fill the memory
        sizes = folders.sizes(pictures.paths)
        shape = (folders.load(pictures.paths[:1], Form()).shape[1], *drafted_size(sizes))
    records = read(data, split="train", labels_key=labels_key, units=units, missing_unit="own", shape=shape)
    text = draft(records, unit="person" if units else "record")
    for remark in remarks(records, sizes or Counter([records.shape[1:]])):
        click.echo(f"Note: {remark}", err=True)
    if out is None:
        click.echo(text, nl=False)
        return
    refuse_taken(out, force=force)
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: a draft. Every line becomes public when you keep it; read it before you use it.", err=True)
