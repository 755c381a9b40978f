"""`gossamer federated server` and `client`: separate processes that find each other by address and certificate."""

from pathlib import Path
from typing import Any

from gossamer.data.card import DataCard
from gossamer.events import Sink, note, silent
from gossamer.methods.gs_wgan import Config
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.run.federated.client import Client
from gossamer.run.federated.link import Identity, Link, attend
from gossamer.run.federated.server import decide, go_on_serving, serve
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import RunFolder

_BESIDES = 1 << 16  # bytes of a message beyond its rows


def server(
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
    """Listen, and train with the clients that call; see `server.serve`.

    Args:
        address: HOST:PORT to listen on.
        ca: certificate of the federation's authority.
        certificate: of this server, signed by it.
        key: of that.
        card: the public facts.
        out: the RUN folder.
        epsilon: the budget against those who see the release.
        delta: of it.
        public: public records that the server has; generator and critics begin on them, and they are not protected.
        preset: named settings, or None.
        seed: fixes initialisation and the public draws.
        resume: go on with the unfinished run in `out`.
        patience: seconds that a reply may take.
        wait: seconds for which too few clients are waited for.
        accounts: folder of the account book.
        sink: takes the events, with notes and progress.
        settings: fields of the method's Config.
    """
    card = card if isinstance(card, DataCard) else DataCard.load(card)
    config: Any = None
    if not resume:
        config = decide(card, settings, epsilon=epsilon, delta=delta, preset=preset).job.config
    largest = _largest(Config(**RunFolder(Path(out)).config()["config"]) if config is None else config, card)
    with Link(address, Identity(ca, certificate, key), clients=card.declared_size, largest=largest) as link:
        sink(note(f"listening on port {link.port}"))
        if resume:
            return go_on_serving(link, out, accounts=accounts, patience=patience, wait=wait, sink=sink)
        return serve(
            link, card=card, out=out, epsilon=epsilon, delta=delta, public=public, preset=preset, seed=seed,
            accounts=accounts, patience=patience, wait=wait, sink=sink, **settings,
        )  # fmt: skip


def client(
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
        data: its records, all of one unit.
        card: the public facts that all parties were given.
        epsilon: what all its answers may cost against the server.
        delta: of that.
        address: HOST:PORT of the server.
        ca: certificate of the federation's authority.
        certificate: of this client, signed by it; its common name is the client's name.
        key: of that.
        out: the RUN folder of this client: new, or unfinished.
        images_key: key of the images.
        labels_key: key of the labels.
        wait: seconds for which the server is called.
        accounts: folder of this client's account book.
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
                one.app, address, Identity(ca, certificate, key), until=lambda: one.finished, wait=wait,
                say=lambda text: sink(note(text)),
            )  # fmt: skip
        finally:
            one.close()
    return Certificate.load(folder.path).statement


def _largest(config: Config, card: DataCard) -> int:
    """Bytes of the largest reply: one client may be drawn for all answers of a step."""
    channels, height, width = card.shape
    return config.answers * config.batch_size * channels * height * width * 4 + _BESIDES
