"""`gossamer sample`."""

from collections.abc import Sequence
from pathlib import Path

import click

import gossamer
from gossamer.events import progress
from gossamer.run.cli.options import PATH, force, on_terminal, options_of


@click.command()
@click.argument("run", type=PATH)
@options_of("run.cli.commands.sample.sample", count={"type": click.IntRange(min=1)}, force=None)
@force
def sample(
    run: Path, *, count: int, out: Path, where: Sequence[str], seed: int | None, device: str = "cpu", force: bool
) -> None:
    """Write synthetic records from RUN, the folder of a finished run or a release. Samples use no epsilon, however many.

    \f
    Args:
        count: number of samples.
        out: file (.npz, .csv or .parquet), or a folder for .png. Of a table: .csv or .parquet.
        where: condition on a column of a table, sex=f or age=60..80. Of several on a column, one must hold. Default: none.
        seed: number that fixes the samples. Default: random.
        device: device to use: cpu, or cuda if the method can.
        force: replace the output if it exists.
    """
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
