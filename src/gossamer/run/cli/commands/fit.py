"""`gossamer fit`, `gossamer resume` and `gossamer device-check`."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.run.cli.options import (
    BUDGET,
    FIT,
    PATH,
    SOURCE,
    PerMethod,
    as_json,
    options_of,
    public_flags,
    take_source,
)
from gossamer.run.training import torchrun

if TYPE_CHECKING:
    from gossamer.methods.synthesizer import Synthesizer
    from gossamer.privacy import device_check as checking
    from gossamer.run.training import fit as fitting
    from gossamer.run.training import progress
    from gossamer.run.training import resume as resuming
else:
    checking, resuming = Lazy("gossamer.privacy.device_check"), Lazy("gossamer.run.training.resume")
    fitting, progress = Lazy("gossamer.run.training.fit"), Lazy("gossamer.run.training.progress")


PUBLIC = (
    "Public records for pre-training. They are not protected. To choose who is made public, put their records here and take "
    "them out of --data: no unit may be in both."
)


def _fit(
    *, method: str, settings: dict[str, Any], data: str, public: str | None, public_share: float | None, **options: Any
) -> None:
    """Run `fit` and say what came of it."""
    if public_share is not None and public is not None:
        raise RequestError(
            "give --public or --public-share, not both: public records of their own, or a part of --data."
        )
    options |= {"public": take_source(options, public, prefix="public_") or public_share}
    options |= {"data": take_source(options, data)}
    with progress.Terminal() as terminal:
        options["process"] = progress.Process(sink=terminal, tensorboard=options.pop("tensorboard"))
        synthesizer = fitting.fit(method, **options, **settings)
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
            card={"required": True},
            out={"required": True, "help": "Run folder to write. It must be new or empty."},
            public={"help": PUBLIC},
        ),
        public_flags,
        options_of(SOURCE, "images_key", "labels_key", "units", "public_test_data"),
        options_of("gossamer.run.training.progress.Process", "tensorboard"),
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
        synthesizer = resuming.resume(run, accounts=accounts, process=progress.Process(sink=terminal))
    _finished(synthesizer, run)


@click.command()
@click.option(
    "--device", default="cuda", show_default=True, help="Device to check: cuda, or cuda:1 for the second GPU."
)
@as_json
def device_check(device: str, as_json: bool) -> None:
    """Check on this GPU what every guarantee needs: noise, exact sums, clipping. Reads no record.

    `fit` makes these checks before it reads a record, and the ledger says so. Exit status 1 if one fails.
    """
    checks = checking.device_check(device)
    if as_json:
        click.echo(
            json.dumps({"device": checking.name_of(device), "checks": [dataclasses.asdict(each) for each in checks]})
        )
    else:
        click.echo("\n".join([checking.name_of(device), *map(str, checks)]))
    click.get_current_context().exit(int(not all(each.passed for each in checks)))
