"""`gossamer demo`."""

from pathlib import Path

import click

from gossamer.run.cli.options import on_terminal, options_of


@click.command()
@options_of("run.cli.commands.demo.demo", out={"flags": ["--out"]})
def demo(*, table: bool = False, out: Path | None) -> None:
    """Try all steps on scikit-learn's handwritten digits. Nothing is downloaded.

    \f
    Args:
        table: try a table, scikit-learn's breast cancer data, in place of pictures.
        out: folder, which is replaced. Default: runs/demo, or runs/demo-table with `table`.
    """
    from gossamer.run.cli import demo as demos

    with on_terminal(transient=True) as terminal:
        if table:
            lines = demos.table_demo(out or Path("runs/demo-table"), terminal)
        else:
            lines = demos.demo(out or Path("runs/demo"), terminal)
    click.echo("\n".join(lines))
