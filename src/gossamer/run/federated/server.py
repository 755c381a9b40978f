"""A federated run on the server: decide, reserve, train with the clients that answer, certify, give all the generator."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from gossamer.data.card import DataCard
from gossamer.data.fingerprint import NOBODY
from gossamer.data.records import Records
from gossamer.data.source import Data
from gossamer.errors import RequestError, RunFolderError
from gossamer.files import write_atomically
from gossamer.methods.contract import BaseConfig, OnReleased, Phases, Run
from gossamer.methods.gs_wgan import Config, GsWgan, loop
from gossamer.methods.gs_wgan.loop import State
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.accounting import federated
from gossamer.privacy.certificate.statements import NO_UNITS
from gossamer.privacy.random.noise import Rng
from gossamer.run.federated import METHOD
from gossamer.run.federated.clients import Clients
from gossamer.run.federated.grid import NamedGrid
from gossamer.run.federated.messages import networks, weights_record
from gossamer.run.storage.data_sources import DataFacts, DataSources, RawData
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.driver import train_and_certify
from gossamer.run.training.open_run import Accounts, OpenRun
from gossamer.run.training.plan import Request, plan
from gossamer.run.training.progress import DEFAULT, Process

SERVED = "served.json"
"""In the private folder: names of the clients that have the released generator."""


class Federated(GsWgan):
    """The method with clients in place of critics. clients: makes them, once, when training begins."""

    def __init__(self, clients: Callable[[Run[Config], State], Clients]) -> None:
        self._begin = clients
        self.clients: Clients | None = None

    def phases(self, config: Config, card: DataCard) -> Phases[Config, State]:
        """A start on the server's public records, and training; clients warm their critics up by themselves."""
        public, _, training = super().phases(config, card)
        return [public, OnReleased(name=training.name, steps=training.steps, queries=training.queries, body=self._play)]

    def _play(self, run: Run[Config], state: State) -> Any:
        self.clients = self._begin(run, state)
        return loop.play(run, state, self.clients)


def decide(
    card: DataCard,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    preset: str | None = None,
    **settings: Any,
) -> Request:
    """What a federated run will do and cost, against those who see its release. Reads no record.

    Args:
        card: the public facts; its unit is the client, and its declared size the number of clients.
        epsilon: the budget, or None.
        delta: of it.
        preset: named settings, or None.
        settings: fields of the method's Config; `critics` is how many clients must be there at each step (default: all).

    Raises:
        RequestError: if the request is wrong, or the card does not protect clients.
    """
    if card.unit == "record":
        raise RequestError(
            'a federated run protects each client with all its records. Set unit = "client" (or writer, hospital ...) in the '
            "card, and declared_size to the number of clients."
        )
    merged = {**settings, "critics": settings.get("critics") or card.declared_size}
    request = plan(METHOD, card, merged, epsilon=epsilon, delta=delta, preset=preset)
    config = cast(Config, request.job.config)
    if config.draw != "secret":
        raise RequestError(f"`draw={config.draw}`: a federated run draws its clients in secret.")
    _answers(config, card)
    return request


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What a server is given where all clients are in its process.

    Args:
        sources: where all records are.
        data: the public records, and the facts of all records.
        private: what the private folder keeps besides.
    """

    sources: DataSources
    data: RawData
    private: Mapping[str, Any]


def serve(
    grid: NamedGrid,
    request: Request,
    *,
    out: str | Path,
    public: Data | None = None,
    seed: int = 0,
    accounts: Accounts = None,
    process: Process = DEFAULT,
    simulation: Simulation | None = None,
) -> Synthesizer:
    """Train a generator with the clients that a grid brings, and write a RUN folder.

    Args:
        grid: carries the messages, and says how long to wait.
        request: what `decide` gave.
        out: run folder to write: new or empty.
        public: public records of the server, for pre-training. They are not protected.
        seed: number that fixes initial weights and public random choices. Noise and the choice of clients stay random.
        accounts: folder of the budget log. False: none is kept.
        process: what is shown, and for tests the noise.
        simulation: of all clients in this process; None: they are elsewhere.

    Raises:
        RequestError: if the request is wrong; nothing has been written then.
        TooFewClients: if clients stay away; `go_on_serving` goes on.
    """
    config, card = cast(Config, request.job.config), cast(DataCard, request.job.card)
    name = card.data_set or card.title or "records of clients"
    sources = DataSources.elsewhere(name, public=public) if simulation is None else simulation.sources
    role = {"federated": {"role": federated.SERVER, "answers": _answers(config, card)}}
    with (
        process.shown() as sink,
        OpenRun.create(
            RunFolder(Path(out)), request.job, epsilon=request.epsilon, delta=request.delta, rng=process.rng or Rng(seed),
            sink=sink,
        ) as run,
    ):  # fmt: skip
        data = _own(sources, card) if simulation is None else simulation.data
        private = {} if simulation is None else simulation.private
        return _train(grid, run, sources, data, accounts=accounts, config=role, private=private)


def go_on_serving(
    grid: NamedGrid,
    run: str | Path,
    *,
    accounts: str | Path | None = None,
    process: Process = DEFAULT,
    data: RawData | None = None,
) -> Synthesizer:
    """Go on with a federated run whose server was stopped or killed; arguments as in `serve`. data: of a simulation.

    A finished run uses no more epsilon, and gives its generator to clients that do not have it yet.

    Raises:
        RunFolderError: if the folder holds no run of a federated server.
        DataError: if the public records are no longer those that the run began with.
        LedgerDamaged: if the ledger was changed, or is shorter than the checkpoint says.
    """
    folder = RunFolder(Path(run))
    if folder.config().get("federated", {}).get("role") != federated.SERVER or not folder.begun:
        raise RunFolderError(f"{folder.path} holds no run of a federated server.")
    with process.shown() as sink, OpenRun.resume(folder, rng=process.rng, sink=sink) as opened:
        if folder.finished:
            return _serve_again(grid, opened)
        sources = DataSources.from_json(folder.source()["sources"])
        data = data or _own(sources, cast(DataCard, opened.job.card))
        return _train(grid, opened, sources, data, accounts=accounts)


def _train(grid: NamedGrid, run: OpenRun, sources: DataSources, data: RawData, **charge: Any) -> Synthesizer:
    """Train with the clients that answer, certify, and give the generator to all who took part."""
    method = Federated(lambda trained, state: _clients(grid, run, trained, state))
    job = Job(method, cast(Config, run.job.config), cast(DataCard, run.job.card))
    federated_run = dataclasses.replace(run, job=cast("Job[BaseConfig, Any]", job))
    synthesizer = train_and_certify(
        federated_run.charge(sources, data.facts, **charge), data.confine(run.ledger, run.rng)
    )
    assert method.clients is not None
    _give(run.folder, synthesizer, method.clients)
    return synthesizer


def _serve_again(grid: NamedGrid, run: OpenRun) -> Synthesizer:
    """Give the generator of a finished run to clients that were away at its end and have no certificate yet."""
    folder, card, synthesizer = run.folder, cast(DataCard, run.job.card), Synthesizer.load(run.folder.path)
    lacking = card.declared_size - len(_served(folder))
    if not lacking:
        run.log(f"{folder.path} is finished, and every {card.unit} has the generator: nothing is left to do.")
        return synthesizer
    run.log(
        f"{folder.path} is finished and uses no more epsilon. {lacking:,} of {card.declared_size:,} clients do not have its "
        f"generator; the server waits {grid.wait:g} s for them."
    )
    clients = _clients(grid, run, Run(cast(Config, run.job.config), card, run.rng))
    _give(folder, synthesizer, clients, awaited=card.declared_size)
    return synthesizer


def _give(folder: RunFolder, synthesizer: Synthesizer, clients: Clients, *, awaited: int = 0) -> None:
    """Give the generator to clients, and write down which have it."""

    def keep(served: set[str]) -> None:
        write_atomically(folder.private / SERVED, json.dumps(sorted(served)), private=True)

    content = weights_record(synthesizer.net.state_dict())
    clients.dismiss(content, served=_served(folder), keep=keep, awaited=awaited)


def _served(folder: RunFolder) -> set[str]:
    file = folder.private / SERVED
    return set(json.loads(file.read_text())) if file.exists() else set()


def _clients(grid: NamedGrid, run: OpenRun, trained: Run[Config], state: State | None = None) -> Clients:
    """The clients under the terms of a run. state: of the server, whose weights from public records clients begin with."""
    config, card = trained.config, trained.card
    answers = _answers(config, card)
    terms = {"config": dataclasses.asdict(config), "card": card.to_dict(), "seed": run.rng.seed, "answers": answers}
    start = networks(state).state_dict() if state is not None and state.own_fakes else None
    return Clients(trained, run.ledger, grid, terms, run.log, start)


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
