"""`gossamer federated simulate | serve-records`, and the flags of the Flower app, whose run config they are."""

import dataclasses
import importlib.util
from typing import Any

import click

import gossamer
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.run.cli.options import SOURCE, NearestName, flags_of, on_terminal, options_of, reading, take_sources
from gossamer.run.federated import METHOD

_CONFIG = METHODS[METHOD].config_type


@click.group(cls=NearestName, subcommand_metavar="simulate|serve-records [FLAGS]...", no_args_is_help=True)
def federated() -> None:
    """Train GS-WGAN with records that stay with their owners, through Flower (the extra `federated`).

    Each client trains its own critic, and adds noise before anything leaves it. The server trains the generator.
    """


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
@options_of(SOURCE, "images_key", "labels_key")
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
