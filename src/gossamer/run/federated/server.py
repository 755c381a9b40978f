"""A federated run on the server: decide, reserve, train with the clients that answer, certify, give all the generator."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from gossamer.data.card import DataCard
from gossamer.data.fingerprint import NOBODY
from gossamer.data.records import Records
from gossamer.data.source import Data
from gossamer.errors import RequestError, RunFolderError
from gossamer.files import write_atomically
from gossamer.methods.contract import OnReleased, Phases, Run
from gossamer.methods.gs_wgan import Config, GsWgan, loop
from gossamer.methods.gs_wgan.loop import State
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.accounting import federated
from gossamer.privacy.certificate.statements import NO_UNITS
from gossamer.run.federated import METHOD
from gossamer.run.federated.messages import networks, weights_record
from gossamer.run.federated.rounds import Clients, NamedGrid
from gossamer.run.storage.data_sources import DataFacts, DataSources, RawData
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.driver import train_and_certify
from gossamer.run.training.open_run import Accounts, OpenRun
from gossamer.run.training.plan import Request, plan
from gossamer.run.training.progress import DEFAULT, Process

SERVED = "served.json"
"""In the private folder: names of the clients that have the released generator."""


class Federated(GsWgan):
    """The method with clients in place of critics, which begin on the weights of a start on public records."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def phases(self, config: Config, card: DataCard) -> Phases[Config, State]:
        """A start on the server's public records, and training; clients warm their critics up by themselves."""
        public, _, training = super().phases(config, card)

        def play(run: Run[Config], state: State) -> Any:
            if state.own_fakes:
                self._clients.start = networks(state).state_dict()
            return loop.play(run, state, self._clients)

        return [public, OnReleased(name=training.name, steps=training.steps, queries=training.queries, body=play)]


def decide(card: DataCard, *, critics: int | None = None, **request: Any) -> Request:
    """What a federated run will do and cost, against those who see its release. Reads no record.

    Args:
        card: the public facts; its unit is the client, and its declared size the number of clients.
        critics: how many clients must be there at each step; None: all.
        request: epsilon, delta, preset and fields of the method's Config, as `plan` takes them.

    Raises:
        RequestError: if the request is wrong, or the card does not protect clients.
    """
    if card.unit == "record":
        raise RequestError(
            'a federated run protects each client with all its records. Set unit = "client" (or writer, hospital ...) in the '
            "card, and declared_size to the number of clients."
        )
    planned = plan(METHOD, card, critics=critics or card.declared_size, **request)
    config = cast(Config, planned.job.config)
    if config.draw != "secret":
        raise RequestError(f"`draw={config.draw}`: a federated run draws its clients in secret.")
    _answers(config, card)
    return planned


def serve(
    grid: NamedGrid,
    request: Request | None,
    *,
    out: str | Path,
    public: Data | None = None,
    seed: int = 0,
    accounts: Accounts = None,
    process: Process = DEFAULT,
    sources: DataSources | None = None,
    data: RawData | None = None,
    private: Mapping[str, Any] | None = None,
) -> Synthesizer:
    """Train a generator with the clients that a grid brings, and write a RUN folder; or go on with one.

    A finished run uses no more epsilon, and gives its generator to clients that do not have it yet.

    Args:
        grid: carries the messages, and says how long to wait.
        request: what `decide` gave; None: go on with a run whose server was stopped or killed, with its own settings.
        out: run folder to write: new or empty.
        public: public records of the server, for pre-training. They are not protected.
        seed: number that fixes initial weights and public random choices. Noise and the choice of clients stay random.
        accounts: folder of the budget log. False: none is kept.
        process: what is shown, and for tests the noise.
        sources: where all records are, if all clients are in this process; None: they are elsewhere.
        data: the public records then, and the facts of all records.
        private: what the private folder keeps besides.

    Raises:
        RequestError: if the request is wrong; nothing has been written then.
        TooFewClients: if clients stay away; without a request, it goes on.
        RunFolderError: if there is no request, and the folder holds no run of a federated server.
        DataError: if the public records are no longer those that the run began with.
        LedgerDamaged: if the ledger was changed, or is shorter than the checkpoint says.
    """
    folder, given = RunFolder(Path(out)), dict[str, Any](process=process, accounts=accounts)
    if request is None:
        if folder.config().get("federated", {}).get("role") != federated.SERVER or not folder.begun:
            raise RunFolderError(f"{folder.path} holds no run of a federated server.")
        sources = DataSources.from_json(folder.source()["sources"])
        opening = OpenRun.resume(folder, **given)
    else:
        config, card = cast(Config, request.job.config), request.job.card
        sources = sources or DataSources.elsewhere(card.data_set or card.title or "records of clients", public=public)
        role = {"federated": {"role": federated.SERVER, "answers": _answers(config, card)}}
        opening = OpenRun.create(folder, request, seed=seed, public_facts=role, private_facts=private or {}, **given)
    with opening as run:
        if folder.finished:
            return _serve_again(grid, run)
        return _train(grid, run, sources, data or _own(sources, run.job.card))


def _train(grid: NamedGrid, run: OpenRun, sources: DataSources, data: RawData) -> Synthesizer:
    """Train with the clients that answer, certify, and give the generator to all who took part."""
    clients = _clients(grid, run)
    job = Job(Federated(clients), cast(Config, run.job.config), run.job.card)
    loaded = run.read(sources, data)
    synthesizer = train_and_certify(dataclasses.replace(run, job=job).charge(sources, loaded.facts), loaded)
    _give(run.folder, synthesizer, clients)
    return synthesizer


def _serve_again(grid: NamedGrid, run: OpenRun) -> Synthesizer:
    """Give the generator of a finished run to clients that were away at its end and have no certificate yet."""
    folder, card, synthesizer = run.folder, run.job.card, Synthesizer.load(run.folder.path)
    lacking = card.declared_size - len(_served(folder))
    if not lacking:
        run.log(f"{folder.path} is finished, and every {card.unit} has the generator: nothing is left to do.")
        return synthesizer
    run.log(
        f"{folder.path} is finished and uses no more epsilon. {lacking:,} of {card.declared_size:,} clients do not have its "
        f"generator; the server waits {grid.wait:g} s for them."
    )
    _give(folder, synthesizer, _clients(grid, run), awaited=card.declared_size)
    return synthesizer


def _give(folder: RunFolder, synthesizer: Synthesizer, clients: Clients, *, awaited: int = 0) -> None:
    """Give the generator to clients, and write down which have it."""
    content = weights_record(synthesizer.net.state_dict())
    for served in clients.dismiss(content, served=_served(folder), awaited=awaited):
        write_atomically(folder.private / SERVED, json.dumps(sorted(served)), private=True)


def _served(folder: RunFolder) -> set[str]:
    file = folder.private / SERVED
    return set(json.loads(file.read_text())) if file.exists() else set()


def _clients(grid: NamedGrid, run: OpenRun) -> Clients:
    """The clients under the terms of a run."""
    config, card = cast(Config, run.job.config), run.job.card
    answers = _answers(config, card)
    terms = {"config": dataclasses.asdict(config), "card": card.to_dict(), "seed": run.rng.seed, "answers": answers}
    trained = Run(config, card, run.rng, run.device, queries=run.job.queries)
    return Clients(trained, run.ledger, grid, terms, run.log)


def _answers(config: Config, card: DataCard) -> int:
    """How many answers each client has to grant."""
    answers = config.steps * config.answers
    return federated.enough(answers=answers, critics=config.critics, clients=card.declared_size)


def _own(sources: DataSources, card: DataCard) -> RawData:
    """The records of a server: public ones at most."""
    public, stated = sources.read_public(card)
    return RawData(public, DataFacts(public=stated, units=NO_UNITS, identity=NOBODY), no_records(card))


def no_records(card: DataCard) -> Records:
    """The private records of a server: there are none."""
    return Records(np.zeros((0, *card.shape), np.uint8), np.zeros(0, np.int64))
