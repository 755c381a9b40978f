"""A federated run on the server: decide, reserve, train with the clients that answer, certify, give all the generator."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from gossamer.data.card import DataCard
from gossamer.data.fingerprint import NOBODY
from gossamer.data.records import Records
from gossamer.errors import DataError, RequestError, RunFolderError
from gossamer.events import Sink, note, silent
from gossamer.files import write_atomically
from gossamer.methods import METHODS
from gossamer.methods.contract import BaseConfig, OnReleased, Phases, Run
from gossamer.methods.gs_wgan import Config, GsWgan, loop
from gossamer.methods.gs_wgan.loop import State
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.accounting import federated
from gossamer.privacy.certificate.certificate import CONFIG, LEDGER
from gossamer.privacy.certificate.statements import NO_UNITS
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.entry import budget_log_at, charge_of, resume_entry
from gossamer.run.federated import METHOD
from gossamer.run.federated.grid import NamedGrid
from gossamer.run.federated.messages import networks, weights_record
from gossamer.run.federated.panel import Clients
from gossamer.run.storage.data_sources import DataFacts, DataSources, PublicData, RawData
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training import checkpoint
from gossamer.run.training.certify import train_and_certify
from gossamer.run.training.plan import Request, plan
from gossamer.run.training.reserve import reserve
from gossamer.run.training.training_run import TrainingRun

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
    card: DataCard, settings: dict[str, Any], *, epsilon: float | None, delta: float | None, preset: str | None
) -> Request:
    """What a federated run will do and cost, against those who see its release. Reads no record.

    Args:
        card: the public facts; its unit is the client, and its declared size the number of clients.
        settings: fields of the method's Config; `critics` is how many clients must be there at each step (default: all).
        epsilon: the budget, or None.
        delta: of it.
        preset: named settings, or None.

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
        raise RequestError(f"--draw {config.draw}: a federated run draws its clients in secret.")
    _answers(config, card)
    return request


def serve(  # noqa: PLR0913 (its arguments are the options of a command)
    grid: NamedGrid,
    *,
    card: DataCard,
    out: str | Path,
    epsilon: float | None = None,
    delta: float | None = None,
    public: str | Path | None = None,
    preset: str | None = None,
    seed: int = 0,
    accounts: str | Path | Literal[False] | None = None,
    patience: float = 60.0,
    wait: float = 600.0,
    sink: Sink = silent,
    rng: Rng | None = None,
    sources: DataSources | None = None,
    public_data: PublicData | None = None,
    private_entries: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Synthesizer:
    """Train a generator with the clients that a grid brings, and write a RUN folder.

    Args, besides those of `simulate`:
        grid: carries the messages.
        accounts: False: no budget log is kept.
        patience: seconds that a reply may take.
        wait: seconds for which too few clients are waited for.
        rng: for tests: a generator with a fixed noise seed.
        sources: where all records are, in a simulation; None: elsewhere.
        public_data: the public records and the facts of all records, in a simulation; None: what the server has.
        private_entries: what the private folder keeps besides, in a simulation.

    Raises:
        RequestError: if the request is wrong; nothing has been written then.
        TooFewClients: if clients stay away; `go_on_serving` goes on.
    """
    request = decide(card, settings, epsilon=epsilon, delta=delta, preset=preset)
    config = cast(Config, request.job.config)
    folder = RunFolder(Path(out))
    folder.check_free()
    ledger = PrivacyLedger(
        budget=request.epsilon, delta=request.delta, relation=request.job.relation, unit=card.unit
    )  # fmt: skip
    ledger.reserve(request.plan)
    rng = rng or Rng(seed)
    sources = sources or DataSources.elsewhere(card.data_set or card.title or "records of clients", public=public)
    public_data = public_data or _own(sources, card)
    with folder.locked(), closing(ledger):
        folder.check_free()
        serving = Serving(grid, patience, wait, sink)
        role = {"federated": {"role": federated.SERVER, "answers": _answers(config, card)}}
        return _train(
            serving, folder, ledger, config, card, public_data, rng,
            enter=lambda run: reserve(
                run, sources, public_data.facts, accounts=accounts, config=role, private=private_entries
            ),
        )  # fmt: skip


def go_on_serving(
    grid: NamedGrid,
    run: str | Path,
    *,
    accounts: str | Path | None = None,
    patience: float = 60.0,
    wait: float = 600.0,
    sink: Sink = silent,
    rng: Rng | None = None,
    public_data: PublicData | None = None,
) -> Synthesizer:
    """Go on with a federated run whose server was stopped or killed; arguments as in `serve`.

    A finished run uses no more epsilon, and gives its generator to clients that do not have it yet.

    Raises:
        RunFolderError: if the folder holds no run of a federated server.
        DataError: if the public records are no longer those that the run began with.
        LedgerDamaged: if the ledger was changed, or is shorter than the checkpoint says.
    """
    folder = RunFolder(Path(run))
    config_json = folder.config()
    if config_json.get("federated", {}).get("role") != federated.SERVER or not folder.begun:
        raise RunFolderError(f"{folder.path} holds no run of a federated server.")
    card = DataCard.from_dict(config_json["card"])
    config = cast(Config, Job.of(METHODS[METHOD], config_json["config"], card).config)
    with folder.locked(), closing(PrivacyLedger.resume(folder.file(LEDGER), settings=folder.file(CONFIG))) as ledger:
        serving = Serving(grid, patience, wait, sink)
        if folder.finished:
            return _serve_again(serving, folder, ledger, config, card, config_json["seed"])
        source_json = folder.source()
        sources = DataSources.from_json(source_json["sources"])
        public_data = public_data or _own(sources, card)
        if public_data.facts.public != config_json["public"]:
            raise DataError("--public is not what it was when the run began. Restore the records, or start a new run.")
        rng, entry = rng or Rng(config_json["seed"]), None
        if config_json["accounts"] is not None:
            source_json |= {"mark": public_data.facts.identity.mark}
            charge = charge_of(folder, ledger, config_json, source_json, reproducible=rng.reproducible)
            log_folder = budget_log_at(accounts or source_json["accounts"], beside=folder)
            entry = resume_entry(log_folder, charge, ledger, log=_logger(sink))
            if accounts is not None:
                folder.note_source({**source_json, "accounts": str(Path(accounts).absolute())})
        saved = checkpoint.load(folder.private, ledger, lost=lambda count: _logger(sink)(
            f"{count:,} paid draws came after the last checkpoint; they stay paid, and the run is shorter by them."
        ))  # fmt: skip
        return _train(
            serving, folder, ledger, config, card, public_data, rng, saved=saved,
            enter=lambda run: dataclasses.replace(run, budget_entry=entry),
        )  # fmt: skip


@dataclass(frozen=True)
class Serving:
    """The arguments of `serve` that are no part of the run."""

    grid: NamedGrid
    patience: float
    wait: float
    sink: Sink


def _train(
    serving: Serving,
    folder: RunFolder,
    ledger: PrivacyLedger,
    config: Config,
    card: DataCard,
    public_data: PublicData,
    rng: Rng,
    *,
    enter: Callable[[TrainingRun], TrainingRun],
    saved: checkpoint.Saved | None = None,
) -> Synthesizer:
    """Train with the clients that answer, certify, and give the generator to all who took part."""
    method = Federated(lambda run, state: _clients(serving, run, ledger, card, state))
    run = TrainingRun(
        folder=folder, job=cast("Job[BaseConfig, Any]", Job(method, config, card)), ledger=ledger,
        rng=rng, device="cpu", sink=serving.sink,
    )  # fmt: skip
    no_records = Records(np.zeros((0, *card.shape), np.uint8), np.zeros(0, np.int64))
    data = RawData(public_data.public, public_data.facts, no_records).confine(ledger, rng)
    synthesizer = train_and_certify(enter(run), data, saved=saved)
    assert method.clients is not None
    _give(folder, synthesizer, method.clients)
    return synthesizer


def _serve_again(
    serving: Serving, folder: RunFolder, ledger: PrivacyLedger, config: Config, card: DataCard, seed: int
) -> Synthesizer:
    """Give the generator of a finished run to clients that were away at its end and have no certificate yet."""
    synthesizer, log = Synthesizer.load(folder.path), _logger(serving.sink)
    lacking = card.declared_size - len(_served(folder))
    if not lacking:
        log(f"{folder.path} is finished, and every {card.unit} has the generator: nothing is left to do.")
        return synthesizer
    log(
        f"{folder.path} is finished and uses no more epsilon. {lacking:,} of {card.declared_size:,} clients do not have its "
        f"generator; the server waits {serving.wait:g} s for them."
    )
    clients = _clients(serving, Run(config, card, Rng(seed)), ledger, card)
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


def _clients(
    serving: Serving, run: Run[Config], ledger: PrivacyLedger, card: DataCard, state: State | None = None
) -> Clients:
    """The clients under the terms of a run. state: of the server, whose weights from public records clients begin with."""
    config, answers = run.config, _answers(run.config, card)
    terms = {"config": dataclasses.asdict(config), "card": card.to_dict(), "seed": run.rng.seed, "answers": answers}
    start = networks(state).state_dict() if state is not None and state.own_fakes else None
    return Clients(run, ledger, serving.grid, terms, serving.patience, serving.wait, _logger(serving.sink), start)


def _answers(config: Config, card: DataCard) -> int:
    """How many answers each client has to grant."""
    answers = config.steps * config.answers
    return federated.enough(answers=answers, critics=config.critics, clients=card.declared_size)


def _own(sources: DataSources, card: DataCard) -> PublicData:
    """The records of a server: public ones at most."""
    public, stated = sources.read_public(card)
    return PublicData(public, DataFacts(public=stated, units=NO_UNITS, identity=NOBODY))


def _logger(sink: Sink) -> Callable[[str], None]:
    return lambda text: sink(note(text))
