"""`gossamer sample`."""

from pathlib import Path

import click

import gossamer
from gossamer.events import progress
from gossamer.run.cli.options import PATH, checked_seed, force, on_terminal

OUT = "File (.npz, .csv or .parquet), or a folder for .png. Of a table: .csv or .parquet."

WHERE = "Condition on a column of a table, sex=f or age=60..80. Of several on a column, one must hold. Default: none."


@click.command()
@click.argument("run", type=PATH)
@click.option("-n", "count", type=click.IntRange(min=1), required=True, help="Number of samples.")
@click.option("-o", "--out", type=PATH, required=True, help=OUT)
@click.option("--where", multiple=True, metavar="COLUMN=VALUE", help=WHERE)
@click.option("--seed", type=int, callback=checked_seed, help="Number that fixes the samples. Default: random.")
@click.option("--device", default="cpu", show_default=True, help="Device to use: cpu, or cuda if the method can.")
@force
def sample(
    run: Path, count: int, out: Path, where: tuple[str, ...], seed: int | None, device: str, force: bool
) -> None:
    """Write synthetic records from RUN, the folder of a finished run or a release. Samples use no epsilon, however many."""
    made = gossamer.Synthesizer.load(run).on(device)
    asked: dict[str, list[str]] = {}
    for name, _, value in (each.partition("=") for each in where):
        asked.setdefault(name, []).append(value)
    with on_terminal() as terminal:
        chunks = made.stream(
            count, where=asked, seed=seed, made=lambda done: terminal(progress("samples", done, count))
        )
        made.samples.write(out, chunks, count=count, force=force)
    click.echo(f"{count:,} samples in {out}", err=True)
