"""`gossamer demo`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import PATH

if TYPE_CHECKING:
    from gossamer.run.cli import demo as showing
    from gossamer.run.cli import table_demo
    from gossamer.run.training import progress
else:
    showing, progress = Lazy("gossamer.run.cli.demo"), Lazy("gossamer.run.training.progress")
    table_demo = Lazy("gossamer.run.cli.table_demo")


@click.command()
@click.option("--table", is_flag=True, help="Try a table, scikit-learn's breast cancer data, in place of pictures.")
@click.option(
    "--out", type=PATH, help="Folder, which is replaced. Default: runs/demo, or runs/demo-table with --table."
)
def demo(table: bool, out: Path | None) -> None:
    """Try all steps on scikit-learn's digits, with rendered glyphs as public data. Nothing is downloaded."""
    with progress.Terminal() as terminal:
        if table:
            lines = table_demo.demo(out or Path("runs/demo-table"), terminal)
        else:
            lines = showing.demo(out or Path("runs/demo"), terminal)
    for line in lines:
        click.echo(line)
