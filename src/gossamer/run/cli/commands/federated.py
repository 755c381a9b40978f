"""`gossamer federated ask | answer | serve-records | app | simulate`, and the flags that are run config of the Flower app."""

import shutil
from pathlib import Path
from typing import Any

import click

import gossamer
from gossamer.data.tables.any_card import load_card
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.run import federated as package
from gossamer.run.cli import options as flags
from gossamer.run.cli.options import options_of
from gossamer.run.federated import METHOD

_CONFIG = METHODS[METHOD].config_type


@click.group(
    cls=flags.NearestName, subcommand_metavar="ask|answer|serve-records|app|simulate [FLAGS]...", no_args_is_help=True
)
def federated() -> None:
    """Train with records that stay with their owners, who add noise before anything leaves them.

    Three to twenty sites: `ask` and `answer` with files, or `serve-records` with Flower. Hundreds of clients: GS-WGAN. The
    SuperLink needs the extra `federated`.
    """


def _ask(*, method: str, settings: dict[str, Any], card: Path, **options: Any) -> None:
    """Train METHOD with a few sites that answer its queries, from files. The same command goes on when answers are there."""
    from gossamer.run.federated import centre
    from gossamer.run.training.plan import plan

    request = plan(method, load_card(card), settings, **{name: options.pop(name) for name in _BUDGET})
    with flags.on_terminal() as terminal:
        try:
            synthesizer = centre.ask(request, process=gossamer.Process(sink=terminal), **options)
        except centre.Waiting as waiting:
            click.echo(str(waiting), err=True)
            return
    click.echo(synthesizer.certificate.statement)


def _over_flower(**options: Any) -> None:
    """Train METHOD with the sites of a Flower federation. No command: `run_config` of the Flower app gives the flags."""
    from gossamer.run.federated.flower import train

    grid = click.get_current_context().find_root().obj
    with flags.on_terminal() as terminal:
        synthesizer = train(grid, process=gossamer.Process(sink=terminal), **options)
    click.echo(synthesizer.certificate.statement)


_BUDGET = ("epsilon", "delta", "preset")
_BY_NETWORK: Any = dict.fromkeys(("network", "accounts", "here"), None) | {"sites": {"required": True}}
federated.add_command(
    flags.PerMethod(
        "ask",
        f"gossamer federated ask METHOD --card card.toml --sites A,B,C {flags.BUDGET} --out RUN",
        _ask,
        [
            options_of(flags.FIT, "card", *_BUDGET, card={"required": True}),
            options_of("run.federated.centre.ask", **_BY_NETWORK),
        ],
    )
)
flower_app = flags.PerMethod(
    "flwr run",
    "flwr run",
    _over_flower,
    [options_of("run.federated.flower.train", method=None, settings=None), options_of(flags.FIT, *_BUDGET)],
)


@federated.command()
@click.argument("question", type=flags.PATH)
@options_of("run.federated.site.answer", question=None, out={"help": "File to write: the answer, which may leave."})
@options_of(flags.SOURCE, "images_key", "labels_key", "units")
def answer(**options: Any) -> None:
    """Answer QUESTION, a file of the centre, with noisy sums over the records of this site. It needs no network.

    The cost is in the ledger before a record is read. The same question gets the same answer.
    """
    from gossamer.run.federated import site

    flags.take_sources(options, "data")
    with flags.on_terminal() as terminal:
        site.answer(sink=terminal, **options)


@federated.command()
@options_of("run.federated.simulate.simulate")
@flags.reading
@flags.flags_of(_CONFIG)
def simulate(**options: Any) -> None:
    """Simulate a federation on one machine, with one client for each unit of DATA. The messages are the real ones."""
    from gossamer.run.federated import simulate as simulation

    flags.take_sources(options, "data")
    with flags.on_terminal() as terminal:
        synthesizer = simulation.simulate(process=gossamer.Process(sink=terminal), **options)
    click.echo(synthesizer.certificate.statement)


@federated.command("serve-records")
@options_of("run.federated.service.serve_records")
@options_of(flags.SOURCE, "images_key", "labels_key", "units")
def serve_records(**options: Any) -> None:
    """Answer a federation with the records of this site, within its own budget, through a local socket.

    A SuperNode of Flower on the same machine passes the messages on. SIGTERM stops the service, and the same command continues.
    """
    from gossamer.run.federated import service

    flags.take_sources(options, "data")
    with flags.on_terminal() as terminal:
        service.serve_records(sink=terminal, **options)


@federated.command()
@click.option("-o", "--out", type=flags.PATH, required=True, help="Folder to write: new.")
def app(out: Path) -> None:
    """Write the Flower app into a folder, for `flwr run`. A SuperNode runs its messenger, and a SuperLink its server."""
    if out.exists():
        raise RequestError(f"`out={out}` is there already. Name a new folder.")
    shutil.copytree(Path(package.__file__).parent / "app", out, ignore=shutil.ignore_patterns("__pycache__"))
