"""`gossamer card` and `gossamer split`: what is done with records before a run."""

import shlex
from pathlib import Path
from typing import Any

import click

import gossamer
from gossamer.data.card import STORED, check_range
from gossamer.errors import RequestError
from gossamer.events import note, spoken
from gossamer.files import write_private
from gossamer.run.cli.options import force, on_terminal, options_of, reading, refuse_taken, take_sources


@click.command()
@click.argument("data")
@options_of("run.cli.commands.data.card", "out", "check", "given", given={"flags": ["--card"]})
@reading
@options_of("kinds.draft.draft_text", dictionary={"metavar": "FILE.csv"}, shape={"metavar": "HxW"})
@force
def card(*, out: Path | None, check: bool = False, given: Path | None, force: bool, **options: Any) -> None:
    """Draft a data card: the public facts about DATA. The data owner edits and declares them.

    Every line of a card becomes public. Edit the draft, and keep only what everybody may know. Hints about DATA are shown
    on the terminal only.

    \f
    Args:
        out: file for the draft, which only you can read. Default: print it.
        check: tell what the card changes in DATA, in place of a draft. Private.
        given: with --check: the card of the table.
        force: replace the output if it exists.
        options: of `draft_text`, and of the source.
    """
    from gossamer.kinds.draft import draft_text

    check_range(options["pixel_range"] or STORED)
    if out is not None:
        refuse_taken(out, force=force)
    take_sources(options, "data")
    source = options.pop("data")
    if check or given is not None:
        if given is None or not check:
            raise RequestError("`check` and `card` go together: give both, to tell what the card changes in DATA.")
        _write(str(gossamer.check_card(source, given)), out)
        return
    with on_terminal() as terminal:
        text, hints = draft_text(source, sink=terminal, **options)
        for hint in hints:
            terminal(note(f"Note: {hint}"))
    _write(text, out)
    if out is not None:
        click.echo(f"{out} is a draft. Read it before you use it: every line that you keep becomes public.", err=True)


def _write(text: str, out: Path | None) -> None:
    """Print a text that holds measured values, or write it to a file that only the user can read."""
    if out is None:
        click.echo(text, nl=False)
    else:
        write_private(out, text)


@click.command()
@click.argument("data")
@options_of("data.split.split", missing_unit={"type": click.Choice(["refuse", "own"])})
@reading
def split(out: Path, **options: Any) -> None:
    """Split DATA into train and test before a run. All records of a unit are on one side.

    `gossamer attack` needs a random split: it compares train and test, and must see no other difference. A hash of each unit
    picks its side, so a new unit moves no other. In the card of train, declare (1 - share) of the size.
    """
    from gossamer.data.split import UNITS_FILE
    from gossamer.data.tables.linked.read import are_linked

    take_sources(options, "data")
    source = options.pop("data")
    with on_terminal() as terminal:
        result = gossamer.split(source, out=out, sink=terminal, **options)
    for text in result.notes:
        click.echo(f"Note: {spoken(text)}", err=True)
    counted = "units" if are_linked(source) else "records"
    for side, records, people in zip(("train", "test"), result.records, result.units, strict=True):
        click.echo(f"{side}: {records:,} {counted}" + (f" of {people:,} units" if result.spec else ""))
    whose = ""
    if result.spec:
        whose = f" --units {shlex.quote(str(out / result.spec) if result.spec == UNITS_FILE else result.spec)}"
    if source.labels_key == "none" and out.suffix != ".npz":
        whose += " --labels-key none"
    place, whole = shlex.quote(str(out)), shlex.quote(str(source.records))
    attack = f"gossamer attack --members {place} --nonmembers {place}{whose}"
    click.echo(f"Use `gossamer fit --data {place}{whose}` and `{attack}`.")
    click.echo(
        f"Note: {place} is a new data set to the budget log: runs and limits on {whole} do not count. To count "
        "both, write the same data_set on all cards of these people before the first run.",
        err=True,
    )
