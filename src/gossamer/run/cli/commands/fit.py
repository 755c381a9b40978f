"""`gossamer fit` and `gossamer resume`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import BUDGET, FIT, PATH, PerMethod, options_of
from gossamer.run.training import torchrun

if TYPE_CHECKING:
    from gossamer.methods.synthesizer import Synthesizer
    from gossamer.run.training import fit as fitting
    from gossamer.run.training import progress
    from gossamer.run.training import resume as resuming
else:
    resuming = Lazy("gossamer.run.training.resume")
    fitting, progress = Lazy("gossamer.run.training.fit"), Lazy("gossamer.run.training.progress")


def _fit(*, method: str, settings: dict[str, Any], **options: Any) -> None:
    """Run `fit` and say what came of it."""
    with progress.Terminal() as terminal:
        synthesizer = fitting.fit(method, sink=terminal, **options, **settings)
    _finished(synthesizer, options["out"])


def _finished(synthesizer: "Synthesizer", out: Path) -> None:
    if torchrun.rank() > 0:
        return
    click.echo(synthesizer.certificate.statement)
    click.echo(f"report: {out / 'report.html'}", err=True)


fit = PerMethod(
    "fit",
    "Train METHOD on private records under a privacy budget, and write a run folder. `gossamer recommend` helps to choose.",
    f"gossamer fit METHOD --data DATA --card card.toml {BUDGET} --out RUN",
    _fit,
    [
        options_of(
            FIT,
            with_tensorboard={"flags": ["--tensorboard"]},
            card={"required": True},
            out={"required": True, "help": "Run folder to write. It must be new or empty."},
        )
    ],
)


@click.command()
@click.argument("run", type=PATH)
@options_of("gossamer.run.training.resume.resume", "accounts")
def resume(run: Path, accounts: Path | None) -> None:
    """Continue RUN, the folder of a run that was stopped or killed. A finished run stays as it is.

    With --accounts, a finished run is added to another budget log.
    """
    with progress.Terminal() as terminal:
        synthesizer = resuming.resume(run, accounts=accounts, sink=terminal)
    _finished(synthesizer, run)
