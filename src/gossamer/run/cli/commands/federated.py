"""`gossamer federated ask | answer | serve-records | simulate`, and the flags of the Flower app, whose run config they are."""

import dataclasses
import functools
import importlib.util
from typing import Any

import click

import gossamer
from gossamer.data.tables.any_card import load_card
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.run.cli.options import (
    BUDGET,
    FIT,
    PATH,
    SOURCE,
    NearestName,
    PerMethod,
    flags_of,
    on_terminal,
    options_of,
    reading,
    take_sources,
)
from gossamer.run.federated import METHOD

_CONFIG = METHODS[METHOD].config_type


@click.group(cls=NearestName, subcommand_metavar="ask|answer|serve-records|simulate [FLAGS]...", no_args_is_help=True)
def federated() -> None:
    """Train with records that stay with their owners, who add noise before anything leaves them.

    Three to twenty sites: `ask` and `answer` with files, or `serve-records` with Flower. Hundreds of clients: GS-WGAN. Flower
    is the extra `federated`.
    """


_DECIDED = ("card", "epsilon", "delta", "preset")


def _ask(*, method: str, settings: dict[str, Any], **options: Any) -> None:
    """Ask sites by files, or those of the grid that a Flower app has given."""
    from gossamer.run.federated import centre
    from gossamer.run.training.plan import plan

    card, *budget = (options.pop(name) for name in _DECIDED)
    request = plan(method, load_card(card), settings, **dict(zip(_DECIDED[1:], budget, strict=True)))
    ask: Any = centre.ask
    if (grid := click.get_current_context().find_root().obj) is not None:
        from gossamer.run.federated import flower

        ask = functools.partial(flower.ask, grid)
    with on_terminal() as terminal:
        try:
            synthesizer = ask(request, process=gossamer.Process(sink=terminal), **options)
        except centre.Waiting as waiting:
            click.echo(str(waiting), err=True)
            return
    click.echo(synthesizer.certificate.statement)


_SHARED = [
    options_of(FIT, *_DECIDED, card={"required": True}),
    options_of("run.federated.centre.ask", "out", "public", "seed"),
]
federated.add_command(
    PerMethod(
        "ask",
        "Train METHOD with a few sites that answer its queries, from files. The same command goes on when answers are there.",
        f"gossamer federated ask METHOD --card card.toml --sites A,B,C {BUDGET} --out RUN",
        _ask,
        [*_SHARED, options_of("run.federated.centre.ask", "sites", "without")],
    )
)
_GRID = options_of("run.federated.flower.ask", "sites", "reply_timeout", "wait")
flower_ask = PerMethod(
    "flwr run", "Train METHOD with the sites of a federation: see `run_config`.", "flwr run", _ask, [*_SHARED, _GRID]
)


@federated.command()
@click.argument("question", type=PATH)
@options_of("run.federated.site.answer", question=None, out={"help": "File to write: the answer, which may leave."})
@options_of(SOURCE, "images_key", "labels_key", "units")
def answer(**options: Any) -> None:
    """Answer QUESTION, a file of the centre, with noisy sums over the records of this site. It needs no network.

    The cost is in the ledger before a record is read. The same question gets the same answer.
    """
    from gossamer.run.federated import site

    take_sources(options, "data")
    with on_terminal() as terminal:
        site.answer(sink=terminal, **options)


@federated.command()
@options_of("run.federated.simulate.simulate")
@reading
@flags_of(_CONFIG)
def simulate(**options: Any) -> None:
    """Simulate a federation on one machine, with one client for each unit of DATA. The messages are the real ones."""
    _need_flower()
    from gossamer.run.federated import simulate as simulation

    take_sources(options, "data")
    with on_terminal() as terminal:
        synthesizer = simulation.simulate(process=gossamer.Process(sink=terminal), **_given_options(options))
    click.echo(synthesizer.certificate.statement)


@federated.command("serve-records")
@options_of("run.federated.service.serve_records")
@options_of(SOURCE, "images_key", "labels_key", "units")
def serve_records(**options: Any) -> None:
    """Answer a federation with the records of this site, within its own budget, through a local socket.

    A SuperNode of Flower on the same machine passes the messages on. SIGTERM stops the service, and the same command continues.
    """
    _need_flower()
    from gossamer.run.federated import service

    take_sources(options, "data")
    with on_terminal() as terminal:
        service.serve_records(sink=terminal, **options)


@click.command("flwr run")
@options_of("run.federated.flower.train")
@options_of("run.federated.simulate.simulate", "epsilon", "delta", "preset")
@flags_of(_CONFIG)
@click.pass_obj
def flower_app(grid: Any, /, **options: Any) -> None:
    """Train the generator with the sites of a Flower federation. No command: `run_config` of the Flower app gives the flags."""
    from gossamer.run.federated.flower import train

    with on_terminal() as terminal:
        synthesizer = train(grid, process=gossamer.Process(sink=terminal), **_given_options(options))
    click.echo(synthesizer.certificate.statement)


def _need_flower() -> None:
    """Refuse to run without Flower. Help is shown without it."""
    if importlib.util.find_spec("flwr") is None:
        raise RequestError("federated needs Flower, which is not installed: pip install 'gossamer[federated]'.")


def _given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Without the settings that were not given: their defaults are the Config's."""
    settings = {field.name for field in dataclasses.fields(_CONFIG)}
    return {name: value for name, value in options.items() if name not in settings or value is not None}
