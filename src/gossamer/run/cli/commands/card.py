"""`gossamer card`."""

from pathlib import Path

import click

from gossamer.data.card import STORED, check_range
from gossamer.data.card_draft import draft_text
from gossamer.run.cli.options import PATH, force, options_of, refuse_taken


@click.command()
@click.argument("data")
@click.option("-o", "--out", type=PATH, help="Write the draft here; default: print it.")
@options_of("gossamer.data.readers.read.read", "images_key", "labels_key", "units", "pixel_range")
@force
def card(
    data: str,
    out: Path | None,
    images_key: str | None,
    labels_key: str | None,
    units: str | None,
    pixel_range: tuple[float, float] | None,
    force: bool,
) -> None:
    """Draft the public facts of DATA, for the curator to declare.

    Every line of a card becomes public knowledge: edit the draft, and keep only what may be known. What DATA show that asks
    for a decision is said on the terminal, and is written nowhere.
    """
    check_range(pixel_range or STORED)
    if out is not None:
        refuse_taken(out, force=force)
    text, hints = draft_text(data, images_key=images_key, labels_key=labels_key, units=units, pixel_range=pixel_range)
    for hint in hints:
        click.echo(f"Note: {hint}", err=True)
    if out is None:
        click.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: a draft. Every line becomes public when you keep it; read it before you use it.", err=True)
