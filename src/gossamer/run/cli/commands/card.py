"""`gossamer card`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.data.card import STORED, check_range
from gossamer.events import note
from gossamer.files import write_private
from gossamer.lazy import Lazy
from gossamer.run.cli.options import PATH, SOURCE, force, options_of, refuse_taken, take_source

if TYPE_CHECKING:
    from gossamer.data import card_draft
    from gossamer.run.training import progress
else:
    card_draft, progress = Lazy("gossamer.data.card_draft"), Lazy("gossamer.run.training.progress")


@click.command()
@click.argument("data")
@click.option("-o", "--out", type=PATH, help="File for the draft, which only you can read. Default: print it.")
@options_of(SOURCE, "images_key", "labels_key", "units")
@options_of(
    "gossamer.data.card_draft.draft_text",
    "pixel_range",
    "window",
    "shape",
    "dictionary",
    "header",
    dictionary={"type": PATH, "metavar": "FILE.csv"},
    shape={"metavar": "HxW"},
)
@force
def card(data: str, out: Path | None, pixel_range: tuple[float, float] | None, force: bool, **options: Any) -> None:
    """Draft a data card: the public facts about DATA, for the data owner to edit and declare.

    Every line of a card becomes public. Edit the draft, and keep only what everybody may know. Hints about DATA are shown
    on the terminal only.
    """
    check_range(pixel_range or STORED)
    if out is not None:
        refuse_taken(out, force=force)
    with progress.Terminal() as terminal:
        source = take_source(options, data)
        text, hints = card_draft.draft_text(source, pixel_range=pixel_range, sink=terminal, **options)
        for hint in hints:
            terminal(note(f"Note: {hint}"))
    if out is None:
        click.echo(text, nl=False)
        return
    write_private(out, text)
    click.echo(f"{out} is a draft. Read it before you use it: every line that you keep becomes public.", err=True)
