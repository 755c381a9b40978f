"""`gossamer card`."""

from pathlib import Path

import click

from gossamer.data.card import STORED, check_range, draft
from gossamer.data.readers import read
from gossamer.run.options import force, images_key, labels_key, refuse_taken, units


@click.command()
@click.argument("data")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the draft here; default: print it.")
@images_key
@labels_key
@units
@click.option(
    "--pixel-range",
    type=(float, float),
    metavar="BLACK WHITE",
    help="What is black and what is white where pixels are not of 8 bits, such as 0 65535.",
)
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

    Every line of a card becomes public knowledge: edit the draft, and keep only what may be known.
    """
    check_range(pixel_range or STORED)
    records = read(
        data, split="train", images_key=images_key, labels_key=labels_key, units=units, missing_unit="own",
        missing_label="drop", pixel_range=pixel_range,
    )  # fmt: skip
    for words in records.notes:
        click.echo(words, err=True)
    text = draft(records, unit="person" if units else "record", pixel_range=pixel_range)
    if out is None:
        click.echo(text, nl=False)
        return
    refuse_taken(out, force=force)
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: a draft. Every line becomes public when you keep it; read it before you use it.", err=True)
