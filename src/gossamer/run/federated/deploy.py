"""`gossamer federated server` and `client`: separate processes that find each other by address and certificate."""

import math
from pathlib import Path
from typing import Any

from gossamer.data.card import DataCard
from gossamer.events import Sink, note, silent
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.run.federated.client import Client
from gossamer.run.federated.link import Identity, Link, attend
from gossamer.run.federated.server import decide, go_on_serving, serve
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import RunFolder

_BESIDES = 1 << 16
"""Bytes of a reply beyond its rows. One client may be sampled for all answers of a step."""


def server(  # noqa: PLR0913 (its arguments are the options of a command)
    *,
    address: str,
    ca: Path,
    certificate: Path,
    key: Path,
    card: DataCard | str | Path,
    out: str | Path,
    epsilon: float | None = None,
    delta: float | None = None,
    public: str | Path | None = None,
    preset: str | None = None,
    seed: int = 0,
    resume: bool = False,
    patience: float = 60.0,
    wait: float = 600.0,
    accounts: str | Path | None = None,
    sink: Sink = silent,
    **settings: Any,
) -> Synthesizer:
    """Listen, and train with the clients that call.

    Args:
        address: address to listen on, HOST:PORT.
        ca: PEM certificate of the authority that signs for the federation.
        certificate: PEM certificate of this process, signed by the authority.
        key: PEM private key of this process.
        card: data card. Its unit is the client.
        out: run folder to write. It must be new or empty.
        epsilon: see `run.federated.simulate.simulate`.
        delta: see `run.training.fit.fit`.
        public: see `run.federated.simulate.simulate`.
        preset: see `run.training.fit.fit`.
        seed: see `run.federated.simulate.simulate`.
        resume: continue the unfinished run in `out`, with its own settings.
        patience: seconds to wait for an answer of a client.
        wait: seconds to wait for enough clients.
        accounts: see `run.training.fit.fit`.
        sink: takes the events, with notes and progress.
        settings: fields of the method's Config.
    """
    card = card if isinstance(card, DataCard) else DataCard.load(card)
    if resume:
        config = RunFolder(Path(out)).config()["config"]
    else:
        config = decide(card, settings, epsilon=epsilon, delta=delta, preset=preset).job.settings
    largest = _BESIDES + 4 * config["answers"] * config["batch_size"] * math.prod(card.shape)
    with Link(address, Identity(ca, certificate, key), clients=card.declared_size, largest=largest) as link:
        sink(note(f"listening on port {link.port}"))
        if resume:
            return go_on_serving(link, out, accounts=accounts, patience=patience, wait=wait, sink=sink)
        return serve(
            link, card=card, out=out, epsilon=epsilon, delta=delta, public=public, preset=preset, seed=seed,
            accounts=accounts, patience=patience, wait=wait, sink=sink, **settings,
        )  # fmt: skip


def client(  # noqa: PLR0913 (its arguments are the options of a command)
    *,
    data: str | Path,
    card: DataCard | str | Path,
    epsilon: float,
    delta: float,
    address: str,
    ca: Path,
    certificate: Path,
    key: Path,
    out: str | Path,
    images_key: str | None = None,
    labels_key: str | None = None,
    wait: float = 600.0,
    accounts: str | Path | None = None,
    sink: Sink = silent,
) -> str:
    """Answer a server until the run is over; gives the statement of this client's certificate.

    Args:
        data: the records of this client. All belong to one unit.
        card: see `run.federated.deploy.server`.
        epsilon: limit of this client's total epsilon against the server.
        delta: see `run.training.fit.fit`.
        address: address of the server, HOST:PORT.
        ca: see `run.federated.deploy.server`.
        certificate: PEM certificate of this client, signed by the authority. Its common name is the client's name.
        key: see `run.federated.deploy.server`.
        out: run folder of this client: new, or unfinished.
        images_key: see `data.readers.read.read`.
        labels_key: see `data.readers.read.read`.
        wait: seconds to try to reach the server.
        accounts: see `run.training.fit.fit`.
        sink: takes notes and progress.

    Raises:
        RequestError: if the request is wrong, or the server cannot be reached.
    """
    card = card if isinstance(card, DataCard) else DataCard.load(card)
    folder = RunFolder(Path(out))
    sources = DataSources.of(data, public=None, images_key=images_key, labels_key=labels_key, units=None)
    if not folder.finished:
        one = Client(
            folder=folder, sources=sources, records=sources.read, card=card, epsilon=epsilon, delta=delta,
            accounts=accounts, sink=sink,
        )  # fmt: skip
        try:
            attend(
                one.app, address, Identity(ca, certificate, key), until=lambda: folder.finished, wait=wait,
                log=lambda text: sink(note(text)),
            )  # fmt: skip
        finally:
            one.close()
    return Certificate.load(folder.path).statement
