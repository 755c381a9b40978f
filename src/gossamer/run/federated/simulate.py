"""`gossamer federated simulate`: all clients on one machine, each with a folder, a ledger and a certificate of its own."""

import dataclasses
import random
import resource
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.card import DataCard
from gossamer.data.fingerprint import identify
from gossamer.data.records import Records
from gossamer.data.source import Data
from gossamer.errors import RequestError, RunFolderError
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate.statements import NO_PUBLIC, NO_UNITS
from gossamer.run.federated.centre import ask
from gossamer.run.federated.clients import decide, no_records
from gossamer.run.federated.network import Local
from gossamer.run.federated.site import Site
from gossamer.run.storage.data_sources import DataFacts, DataSources, RawData
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.checkpoint import Clock
from gossamer.run.training.progress import DEFAULT, Process
from gossamer.run.training.signals import stop_on_signal

PLACES = "places"
"""In `source.json` of the private folder: the number of the unit that each client is."""
CLIENTS = "clients"
"""In the private folder: a RUN of each client, critics among them."""
_FILES, _FILES_BESIDES = 2, 256
"""Each client holds its folder's lock and its ledger open; the process has some files besides."""


def simulate(
    *,
    data: Data,
    card: DataCard | str | Path,
    out: str | Path,
    public: Data | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    preset: str | None = None,
    seed: int = 0,
    accounts: str | Path | None = None,
    process: Process = DEFAULT,
    **settings: Any,
) -> Synthesizer:
    """Train with a client for each unit of `data`, in this process, with the questions and answers of a real federation.

    Args:
        data: the records of all clients: a path.
        card: data card. Its unit is the client, and its declared size is the number of clients.
        out: run folder to write: new, or with a simulation of the same settings, which goes on. It has the clients' folders.
        public: public records of the server, for pre-training. They are not protected.
        epsilon: privacy budget against everyone who sees the release. The cost against the server follows from it.
        delta: see `run.training.fit.fit`.
        preset: see `run.training.fit.fit`.
        seed: number that fixes initial weights and public random choices. Noise and the choice of clients stay random.
        accounts: see `run.training.fit.fit`.
        process: what is shown while it trains.
        settings: fields of the method's Config.

    Raises:
        RequestError: if the request is wrong; nothing has been written then.
    """
    card = DataCard.given(card)
    folder, sources = RunFolder(Path(out)), DataSources.of(data, public=public)
    request = decide(card, epsilon=epsilon, delta=delta, preset=preset, **settings)
    raw = sources.read_unconfined(card)
    places = folder.source().get(PLACES, []) if folder.begun else random_unit_order(card.declared_size)
    if sorted(places) != list(range(card.declared_size)):
        raise RunFolderError(
            f"{folder.path} does not say which {card.unit} is which client. Start a new simulation; the cost of this one stays "
            "in the budget log."
        )
    shared = dataclasses.replace(raw, private=no_records(card))
    given: dict[str, Any] = {"out": out, "seed": seed, "accounts": accounts, "process": process}
    with clients_of(folder, raw.private, card, sources, request.delta, places) as network:
        return ask(request, network=network, here=(sources, shared, {PLACES: places}), **given)


def random_unit_order(count: int) -> list[int]:
    """The number of the unit that each client is, in secret random order. Numbers beyond the units are clients without records.

    Clients train in turns by their names. If the names followed the ids of units, replacing a unit could move the turns of
    others. The accounting of the secret draw covers one changed client.
    """
    return random.SystemRandom().sample(range(count), count)


@contextmanager
def clients_of(
    folder: RunFolder, records: Records, card: DataCard, sources: DataSources, delta: float, places: Sequence[int]
) -> Iterator[Local]:
    """A client for each unit that the card declares; those beyond the units of the data have no records.

    Raises:
        RequestError: if there are more units than the card declares.
    """
    if records.population > card.declared_size:
        raise RequestError(
            f"there are more {card.unit}s in the data than the {card.declared_size:,} that the card declares: correct the card."
        )
    _allow_files(_FILES * card.declared_size + _FILES_BESIDES)
    clients, clock = {}, Clock()
    with ExitStack() as stack:
        stop = stack.enter_context(stop_on_signal())
        for number, unit in enumerate(places):
            name, own = f"client-{number + 1:04d}", _of(records, unit)
            facts = DataFacts(public=NO_PUBLIC, units=NO_UNITS, identity=identify(own))
            clients[name] = Site(
                folder=RunFolder(folder.private / CLIENTS / name), sources=sources, raw=RawData(None, facts, own), card=card,
                epsilon=float("inf"), delta=delta, accounts=False, clock=clock, stop=stop,
            )  # fmt: skip
            stack.callback(clients[name].close)
        yield Local({name: client.reply for name, client in clients.items()})


def _allow_files(count: int) -> None:
    """Let this process open so many files at once. Raises RequestError if the machine forbids it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count or soft == resource.RLIM_INFINITY:
        return
    if hard < count and hard != resource.RLIM_INFINITY:
        raise RequestError(
            f"{count:,} files have to be open at once for so many clients, and this machine allows {hard:,}. Raise the limit "
            "(ulimit -n), or take fewer clients."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _of(records: Records, unit: int) -> Records:
    """The records of one unit, none where there is no such unit."""
    selected = (np.arange(len(records)) if records.units is None else records.units) == unit
    return Records(records.images[selected], records.labels[selected], class_names=records.class_names)
