"""`gossamer fit` and `gossamer resume`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import (
    BUDGET,
    accounts,
    checked_seed,
    delta,
    epsilon,
    images_key,
    labels_key,
    per_method,
    preset,
    public,
    public_images_key,
    public_labels_key,
    public_share,
    units,
)
from gossamer.run.training import torchrun

if TYPE_CHECKING:
    from gossamer.methods.synthesizer import Synthesizer
    from gossamer.run.training import fit as fitting
    from gossamer.run.training import progress
    from gossamer.run.training import resume as resuming
else:
    resuming = Lazy("gossamer.run.training.resume")
    fitting, progress = Lazy("gossamer.run.training.fit"), Lazy("gossamer.run.training.progress")


def _fit(*, method: str, settings: dict[str, Any], **named: Any) -> None:
    """Run `fit` and say what came of it."""
    with progress.Terminal() as terminal:
        synthesizer = fitting.fit(method, sink=terminal, **named, **settings)
    _finished(synthesizer, named["out"])


def _finished(synthesizer: "Synthesizer", out: Path) -> None:
    if torchrun.rank() > 0:
        return
    click.echo(synthesizer.certificate.statement)
    click.echo(f"report: {out / 'report.html'}", err=True)


fit = per_method(
    "fit",
    "Train METHOD on private records under a budget and write a RUN folder.",
    f"gossamer fit METHOD --data DATA --card card.toml {BUDGET} --out RUN",
    _fit,
    [
        click.option("--data", required=True, help="The private records."),
        click.option("--card", type=click.Path(path_type=Path), required=True, help="The declared public facts."),
        epsilon,
        delta,
        click.option("--out", type=click.Path(path_type=Path), required=True, help="RUN folder, new or empty."),
        public,
        public_images_key,
        public_labels_key,
        public_share,
        images_key,
        labels_key,
        units,
        preset,
        click.option(
            "--seed",
            type=int,
            callback=checked_seed,
            default=0,
            show_default=True,
            help="Fixes initialisation and public draws; never noise or sampling.",
        ),
        click.option("--device", default="cpu", show_default=True, help="cpu, or cuda."),
        click.option(
            "--tensorboard",
            "with_tensorboard",
            is_flag=True,
            help="Write TensorBoard files into the run (an extra).",
        ),
        accounts,
    ],
)


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@accounts
def resume(run: Path, accounts: Path | None) -> None:
    """Go on with a run that was stopped or killed; a finished one is left as it is.

    With --accounts, a finished run is entered in a book that does not know it.
    """
    with progress.Terminal() as terminal:
        synthesizer = resuming.resume(run, accounts=accounts, sink=terminal)
    _finished(synthesizer, run)
