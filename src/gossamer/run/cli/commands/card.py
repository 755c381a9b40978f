"""`gossamer card`."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from gossamer.data.card import STORED, check_range, draft
from gossamer.data.card_hints import drafted_size, remarks
from gossamer.data.readers.read import LEFT_OUT, read, sizes
from gossamer.run.cli.options import PATH, force, options_of, refuse_taken


@click.command()
@click.argument("data")
@click.option("-o", "--out", type=PATH, help="File for the draft. Default: print it.")
@options_of("gossamer.data.readers.read.read", "images_key", "labels_key", "units", "pixel_range")
@force
def card(
    data: str, out: Path | None, units: str | None, pixel_range: tuple[float, float] | None, force: bool, **keys: Any
) -> None:
    """Draft a data card: the public facts about DATA, for the data owner to edit and declare.

    Every line of a card becomes public. Edit the draft, and keep only what everybody may know. Hints about DATA are shown
    on the terminal only.
    """
    check_range(pixel_range or STORED)
    if out is not None:
        refuse_taken(out, force=force)
    keys["pixel_range"] = pixel_range
    looked = sizes(data, split="train", **keys)
    shape = (looked.channels, *drafted_size(looked.sizes)) if looked.sizes else None
    records = read(data, split="train", units=units, missing_unit="own", missing_label="drop", shape=shape, **keys)
    text = draft(
        records, unit="person" if units else "record", pixel_range=pixel_range,
        missing_label="drop" if LEFT_OUT in records.notes else "refuse",
    )  # fmt: skip
    for hint in (*records.notes, *remarks(records, looked.sizes or Counter([records.shape[1:]]))):
        click.echo(f"Note: {hint}", err=True)
    if out is None:
        click.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out} is a draft. Read it before you use it: every line that you keep becomes public.", err=True)
