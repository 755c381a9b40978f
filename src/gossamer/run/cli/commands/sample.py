"""`gossamer sample`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from gossamer.events import Sink, progress
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.cli.options import PATH, checked_seed, force
from gossamer.run.training.progress import Terminal


@click.command()
@click.argument("run", type=PATH)
@click.option("-n", "count", type=click.IntRange(min=1), required=True, help="Number of samples.")
@click.option(
    "-o",
    "--out",
    type=PATH,
    required=True,
    help="File (.npz, .csv or .parquet), or a folder for .png. Of a table: .csv or .parquet.",
)
@click.option("--seed", type=int, callback=checked_seed, help="Number that fixes the samples. Default: random.")
@click.option(
    "--device", default="cpu", show_default=True, help="Device that makes them: cpu, or cuda if the method can."
)
@force
def sample(run: Path, count: int, out: Path, seed: int | None, device: str, force: bool) -> None:
    """Write synthetic records from RUN, the folder of a finished run or a release. Samples use no epsilon, however many."""
    synthesizer = Synthesizer.load(run).on(device)
    with Terminal() as terminal:
        chunks = _counted(synthesizer.stream(count, seed=seed), terminal, count)
        synthesizer.samples.write(out, chunks, count=count, force=force)
    click.echo(f"{count:,} samples in {out}", err=True)


def _counted(chunks: Iterator[Any], sink: Sink, total: int) -> Iterator[Any]:
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        sink(progress("samples", done, total))
