"""`gossamer demo`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import PATH

if TYPE_CHECKING:
    from gossamer.run.cli import demo as showing
    from gossamer.run.training import progress
else:
    showing, progress = Lazy("gossamer.run.cli.demo"), Lazy("gossamer.run.training.progress")


@click.command()
@click.option("--out", type=PATH, default=Path("runs/demo"), show_default=True, help="Folder, which is replaced.")
def demo(out: Path) -> None:
    """Try all steps on scikit-learn's digits, with rendered glyphs as public data. Nothing is downloaded."""
    with progress.Terminal() as terminal:
        lines = showing.demo(out, terminal)
    for line in lines:
        click.echo(line)
