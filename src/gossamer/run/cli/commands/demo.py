"""`gossamer demo`."""

from pathlib import Path

import click

from gossamer.run.cli.options import PATH, on_terminal


@click.command()
@click.option("--table", is_flag=True, help="Try a table, scikit-learn's breast cancer data, in place of pictures.")
@click.option(
    "--out", type=PATH, help="Folder, which is replaced. Default: runs/demo, or runs/demo-table with --table."
)
def demo(table: bool, out: Path | None) -> None:
    """Try all steps on scikit-learn's handwritten digits. Nothing is downloaded."""
    from gossamer.run.cli import demo as demos

    with on_terminal(transient=True) as terminal:
        if table:
            lines = demos.table_demo(out or Path("runs/demo-table"), terminal)
        else:
            lines = demos.demo(out or Path("runs/demo"), terminal)
    click.echo("\n".join(lines))
