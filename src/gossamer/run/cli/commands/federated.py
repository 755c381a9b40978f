"""`gossamer federated simulate | server | client`."""

import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.methods import METHODS
from gossamer.run.cli.options import (
    NearestName,
    accounts,
    checked_seed,
    delta,
    epsilon,
    flags_of,
    images_key,
    labels_key,
    preset,
    public,
    units,
)

if TYPE_CHECKING:
    from gossamer.run.federated import deploy
    from gossamer.run.federated import simulate as simulating
    from gossamer.run.training import progress
else:
    deploy, simulating = Lazy("gossamer.run.federated.deploy"), Lazy("gossamer.run.federated.simulate")
    progress = Lazy("gossamer.run.training.progress")

F = TypeVar("F", bound=Callable[..., Any])
_CONFIG = METHODS["gs-wgan"].config_type
_path = click.Path(path_type=Path)


def _together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator."""

    def decorate(callback: F) -> F:
        for option in reversed(options):
            callback = option(callback)
        return callback

    return decorate


_card = click.option("--card", type=_path, required=True, help="The declared public facts; its unit is the client.")
_out = click.option("--out", type=_path, required=True, help="RUN folder, new or empty.")
_seed = click.option(
    "--seed",
    type=int,
    callback=checked_seed,
    default=0,
    show_default=True,
    help="Fixes initialisation and public draws; never noise or who is drawn.",
)
_resume = click.option(
    "--resume", is_flag=True, help="Go on with the unfinished run in --out; its settings are its own."
)
_identity = _together(
    click.option("--ca", type=_path, required=True, help="PEM certificate of the federation's authority."),
    click.option("--certificate", type=_path, required=True, help="PEM certificate of this process, signed by it."),
    click.option("--key", type=_path, required=True, help="PEM private key of that."),
)
_wait = click.option(
    "--wait", type=float, default=600.0, show_default=True, help="Seconds for which the other side is waited for."
)


@click.group(cls=NearestName, subcommand_metavar="simulate|server|client [FLAGS]...", no_args_is_help=True)
def federated() -> None:
    """GS-WGAN whose records stay with their owners, over Flower (the extra `federated`).

    Each client trains a critic of its own and adds noise before anything leaves it; the server holds the generator.
    """


@federated.command()
@click.option("--data", required=True, help="The records of all clients.")
@_card
@epsilon
@delta
@_out
@images_key
@labels_key
@units
@public
@preset
@_seed
@_resume
@accounts
@flags_of(_CONFIG)
def simulate(**named: Any) -> None:
    """All clients on one machine, one for each unit of DATA, over the messages of a real federation."""
    _need_flower()
    with progress.Terminal() as terminal:
        synthesizer = simulating.simulate(sink=terminal, **_given(named))
    click.echo(synthesizer.certificate.statement)


@federated.command()
@click.option("--address", default="0.0.0.0:9092", show_default=True, help="HOST:PORT to listen on.")
@_identity
@_card
@epsilon
@delta
@_out
@public
@preset
@_seed
@_resume
@click.option("--patience", type=float, default=60.0, show_default=True, help="Seconds that an answer may take.")
@_wait
@accounts
@flags_of(_CONFIG)
def server(**named: Any) -> None:
    """Hold the generator, and train it with the clients that call."""
    _need_flower()
    with progress.Terminal() as terminal:
        synthesizer = deploy.server(sink=terminal, **_given(named))
    click.echo(synthesizer.certificate.statement)


@federated.command()
@click.option("--data", required=True, help="The records of this client: all of one unit.")
@_card
@click.option(
    "--epsilon", type=float, required=True, help="What all answers of this client may cost against the server."
)
@click.option("--delta", type=float, required=True, help="Delta of that.")
@click.option("--server", "address", required=True, help="HOST:PORT of the server.")
@_identity
@_out
@images_key
@labels_key
@_wait
@accounts
def client(**named: Any) -> None:
    """Hold records, and answer the server within a budget of one's own. The same command goes on after a stop."""
    _need_flower()
    with progress.Terminal() as terminal:
        click.echo(deploy.client(sink=terminal, **named))


def _need_flower() -> None:
    """Refuse to run, never to help: help tells what one would install it for."""
    if importlib.util.find_spec("flwr") is None:
        raise RequestError("this needs Flower: pip install 'gossamer[federated]'.")


def _given(named: dict[str, Any]) -> dict[str, Any]:
    """Without the settings that were not given: their defaults are the Config's."""
    settings = {field.name for field in dataclasses.fields(_CONFIG)}
    return {name: value for name, value in named.items() if name not in settings or value is not None}
