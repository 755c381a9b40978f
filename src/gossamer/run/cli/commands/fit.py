"""`gossamer fit`, `gossamer resume` and `gossamer device-check`."""

import dataclasses
from pathlib import Path
from typing import Any

import click

import gossamer
from gossamer.errors import RequestError
from gossamer.run.cli import options as flags
from gossamer.run.cli.options import options_of
from gossamer.run.training import torchrun

PUBLIC = (
    "Public records for pre-training. They are not protected. To choose who is made public, put their records here and take "
    "them out of --data: no unit may be in both."
)


def _fit(*, method: str, settings: dict[str, Any], public_share: float | None, **options: Any) -> None:
    """Train METHOD under a privacy budget, and write a run folder. `gossamer recommend` helps to choose a METHOD.

    \f
    Args:
        method: its name.
        settings: the fields of its Config.
        public_share: share of --data to make public in place of --public, such as 0.02. A hash picks the units, always the
            same. They are not protected, and the certificate says so.
        options: of `fit`.
    """
    if public_share is not None and options["public"] is not None:
        raise RequestError(
            "give --public or --public-share, not both: public records of their own, or a part of --data."
        )
    flags.take_sources(options, "public", prefix="public_")
    flags.take_sources(options, "data")
    options["public"] = options["public"] or public_share
    with flags.on_terminal() as terminal:
        synthesizer = gossamer.fit(method, process=gossamer.Process(sink=terminal), **options, **settings)
    _finished(synthesizer, options["out"])


def _finished(synthesizer: "gossamer.Synthesizer", out: Path) -> None:
    if torchrun.rank() > 0:
        return
    click.echo(synthesizer.certificate.statement)
    for name in ("look", "score"):
        if figure := synthesizer.certificate.figures.get(name):
            click.echo(figure["statement"])
    click.echo(f"report: {out / 'report.html'}", err=True)


fit = flags.PerMethod(
    "fit",
    f"gossamer fit METHOD --data DATA --card card.toml {flags.BUDGET} --out RUN",
    _fit,
    [
        options_of(
            flags.FIT,
            card={"required": True},
            out={"required": True, "help": "Run folder to write. It must be new or empty."},
            public={"help": PUBLIC},
        ),
        flags.public_flags,
        options_of(flags.SOURCE, "images_key", "labels_key", "units", "public_test_data"),
    ],
    auto=True,
)


@click.command()
@click.argument("run", type=flags.PATH)
@options_of("run.training.resume.resume", "accounts")
def resume(run: Path, accounts: Path | None) -> None:
    """Continue RUN, the folder of a run that was stopped or killed. A finished run stays as it is.

    With --accounts, a finished run is added to another budget log.
    """
    with flags.on_terminal() as terminal:
        synthesizer = gossamer.resume(run, accounts=accounts, process=gossamer.Process(sink=terminal))
    _finished(synthesizer, run)


@click.command()
@options_of("run.cli.commands.fit.device_check", "device")
@flags.as_json
def device_check(*, device: str = "cuda", as_json: bool) -> None:
    """Check on this GPU what every guarantee needs: noise, exact sums, clipping. Reads no record.

    `fit` makes these checks before it reads a record, and the ledger says so. Exit status 1 if one fails.

    \f
    Args:
        device: device to check: cuda, or cuda:1 for the second GPU.
        as_json: print one JSON object.
    """
    from gossamer.privacy import device_check as checking

    checks, name = checking.device_check(device), checking.name_of(device)
    answer = {"device": name, "checks": [dataclasses.asdict(each) for each in checks]}
    flags.show([name, *map(str, checks)], answer, as_json=as_json)
    click.get_current_context().exit(int(not all(each.passed for each in checks)))
