"""The centre of a federation: one call for few sites and for many clients (`clients.py`). No Flower is loaded here.

Few sites: the method's own loop, whose queries the sites answer. Questions and answers are files, in `checkpoint/exchange` of
the run folder. By hand, people carry them. With a network, `Network.ask` does, and the files remain. A question holds the state
of the loop, so a run that was stopped goes on from the last of them.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gossamer.data.source import Data
from gossamer.errors import GossamerError, RequestError, TooFewClients
from gossamer.events import progress
from gossamer.files import SITES, write_atomically
from gossamer.methods.contract import State
from gossamer.methods.job import Training
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate import sites as ledgers
from gossamer.privacy.confined import Confined
from gossamer.privacy.per_sample_gradients.rounding import full_precision
from gossamer.privacy.queries import Mechanism
from gossamer.run.federated import questions
from gossamer.run.federated.clients import Clients, nobodys
from gossamer.run.federated.network import Network
from gossamer.run.federated.questions import Answer, Malformed, Question, Refused, Terms, answer_to, read, written
from gossamer.run.report.html import write_report
from gossamer.run.storage.data_sources import DataSources, RawData
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.storage.run_plan import RunPlan
from gossamer.run.training import checkpoint
from gossamer.run.training.open_run import Accounts, OpenRun
from gossamer.run.training.plan import Request
from gossamer.run.training.progress import DEFAULT, Process

EXCHANGE = "exchange"
"""In the private folder: `question-NUMBER-SITE.json` and `answer-NUMBER-SITE.json`."""


class Waiting(GossamerError):
    """The run waits for answers that people bring. The message says which."""


def ask(
    request: Request,
    *,
    sites: str | Sequence[str] = (),
    out: str | Path,
    public: Data | None = None,
    seed: int = 0,
    without: str = "",
    network: Network | None = None,
    accounts: Accounts = None,
    process: Process = DEFAULT,
    here: tuple[DataSources, RawData, dict[str, Any]] | None = None,
) -> Synthesizer:
    """Train with the noisy answers of sites, and write a RUN folder; or go on with the run in `out`.

    Args:
        request: what `plan` gives for one site, or `decide` for many clients.
        sites: names of the sites, with commas between them. Many clients are not listed.
        out: run folder to write: new, or with a run of the same settings.
        public: public records of the centre. They are not protected.
        seed: number that fixes initial weights and public random choices. Noise and the choice of clients stay random.
        without: sites that will not answer any more, with commas between them.
        network: brings questions to sites; None: people do, and this raises `Waiting`.
        accounts: folder of the budget log of many clients. Few sites have logs of their own.
        process: what is shown while it trains.
        here: where the records of a simulation are, its public records, and what its private folder keeps besides.

    Raises:
        RequestError: if the request is wrong; nothing has been written then.
        Waiting: if an answer is missing. The same call goes on.
        TooFewClients: if clients stay away. The same call goes on.
    """
    folder, card = RunFolder(Path(out)), request.job.card
    terms = Terms.of(request.job, request.delta, seed, _names(sites))
    request = dataclasses.replace(request, asks=RunPlan(jobs=[terms.job]))
    if terms.many and network is None:
        raise RequestError(
            f"{terms.job.method.name} needs a network. `gossamer federated app` writes an app for `flwr run`."
        )
    elsewhere = DataSources.elsewhere(card.data_set or card.title or "records of clients", public=public)
    sources, data, private = here or (elsewhere, None, {})
    given: dict[str, Any] = {"private": private, "process": process, "accounts": accounts if terms.many else False}
    with questions.opened(folder, request, terms.to_json(), role=terms.role, **given) as run:
        few = Centre(run, terms, network, {*_names(without)})
        centre = few if network is None or not terms.many else Clients(run, terms, network)
        if finished := folder.finished:
            run.log(f"{folder.path} is finished and uses no more epsilon. Sites that have not got its end can have it.")
        else:
            centre.go_through(sources, data)
        synthesizer = Synthesizer.load(folder.path)
        centre.end(synthesizer.net, finished=finished)
    return synthesizer


def _names(sites: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, sites.split(",")))) if isinstance(sites, str) else tuple(sites)


@dataclass
class Centre:
    """A run whose queries a few sites answer.

    Args:
        run: its folder, and its ledger, which holds the plan of one site.
        terms: of the run.
        network: brings questions to sites; None: people do.
        gone: sites that are not asked any more.
    """

    run: OpenRun
    terms: Terms
    network: Network | None
    gone: set[str]
    _number: int = field(default=0, init=False)
    _training: Training[Any, Any] = field(init=False)

    def go_through(self, sources: DataSources, data: RawData | None = None) -> None:
        """Go through the loop from the last question, add up answers, and certify. data: None: nobody's records are here."""
        raw = data or nobodys(sources, self.terms.job.card)
        run, first = self.run, self.terms.names[0]
        run = run.charge(sources, run.read(sources, raw).facts)
        self._exchange.mkdir(mode=0o700, exist_ok=True)
        self._training = self.terms.pooled.begin(run.rng)
        self._number = max(0, len(self._files("question", first)) - 1)
        if (last := self._file("question", self._number, first)).exists():
            self._training.state.load_state_dict(read(Question, last.read_text()).state)
        with full_precision():
            for result in self._training.drive(self.terms.stand_in(self._asked), raw.public):
                run.sink(progress(result.phase.name, result.step, result.phase.steps))
        self._note_sites()
        run.finish(self._training.state)
        write_report(run.folder.path, internal=True)

    def end(self, net: nn.Module, *, finished: bool) -> None:
        """Give the sites the released network. Each certifies what it has answered. finished: before this call."""
        del finished  # each site gets its answer once
        state = self.terms.pooled.begin(self.run.rng).state
        state.released.load_state_dict(net.state_dict())
        answered = self._ask(self.terms.count, questions.END, state)
        if self.network is None and len(answered) < len(self.terms.names):
            self.run.log(f"{self._exchange} has the end of the run for each site, which certifies what it has answered")

    def _asked(self, mechanism: Mechanism[Any], query: Any, _records: Confined[Any] | None) -> Tensor:
        """The sum of the sites' answers. The plan of this release counts the query once, as each site's own ledger does."""
        own, number = self.terms.own(mechanism), self._number
        if number >= sum(self.run.ledger.used):
            self.run.ledger.charge(own.event)
        answers = self._ask(number, questions.in_words(query), self._training.state, size=query.dimension)
        missing = [name for name in self.terms.names if name not in answers and name not in self.gone]
        if missing and self.network is None:
            raise Waiting(
                f"query {number + 1} of {self.terms.count} waits for {', '.join(missing)}. Bring each site its question, and "
                f"its answer back, both in {self._exchange}. Then give the same command."
            )
        for name in missing:
            self.run.log(f"{name} is left out: it has not answered query {number + 1}")
        self.gone |= {*missing}
        if not answers:
            raise TooFewClients("no site has answered. Nothing is lost: bring them back, and give the same command.")
        self._number += 1
        given = {name: values for name, values in answers.items() if values is not None}
        return torch.stack([*given.values()]).sum(0) * self._weight(query, given)

    def _weight(self, query: Any, given: dict[str, Tensor]) -> float:
        """What the sum is multiplied by, so that it stands for all sites: by the last totals that they have released."""
        file = self._exchange / "totals.json"
        totals = json.loads(file.read_text()) if file.exists() else {}
        if hasattr(query, "total"):
            totals |= {name: max(1.0, query.total(values)) for name, values in given.items()}
            write_atomically(file, json.dumps(totals), private=True)
        if totals.keys() < {*self.terms.names}:
            return len(self.terms.names) / len(given)
        return float(sum(totals.values()) / sum(totals[name] for name in given))

    def _ask(self, number: int, about: str, state: State, *, size: int | None = None) -> dict[str, Tensor | None]:
        """The answers that are here or come now, by site, checked. A question that was written before stays as it is.

        size: of each answer; None: the end, which has no values.
        """
        texts: dict[str, str] = {}
        for name in self.terms.names:
            if not (file := self._file("question", number, name)).exists():
                question = Question(self.terms.to_json(), name, number, about, state.state_dict())
                write_atomically(file, written(question), private=True)
            texts[name] = file.read_text()
        kept = {name: self._file("answer", number, name) for name in texts if name not in self.gone}
        open_ = {name: texts[name] for name, file in kept.items() if not file.exists()}
        for name, text in (self.network.ask(open_) if self.network else {}).items():
            write_atomically(kept[name], text, private=True)
        found: dict[str, Tensor | None] = {}
        for name, file in kept.items():
            try:
                if file.exists():
                    found[name] = self._checked(name, file.read_text(), texts[name], size)
            except (Refused, Malformed) as error:
                file.rename(file.with_suffix(".refused"))
                self.run.log(f"{name} is shut out: {error}")
                self.gone.add(name)
        return found

    def _checked(self, name: str, text: str, question: str, size: int | None) -> Tensor | None:
        answer = answer_to(question, name, text)
        values = answer.values
        if problem := ledgers.problem_of(name, answer.ledger, self.run.ledger):
            raise Malformed(problem)
        right = values is None if size is None else values is not None and values.shape == (size,)
        if not right or not checkpoint.finite(values) or (values is not None and values.dtype != torch.float64):
            raise Malformed("the answer holds other numbers than were asked for")
        return values

    def _note_sites(self) -> None:
        """Keep the last ledger that each site has shown, and note it in the ledger of this run."""
        shown = {}
        for name in self.terms.names:
            if files := self._files("answer", name):
                shown[name] = read(Answer, files[-1].read_text()).ledger
                ledger = ledgers.read_ledger(shown[name])
                self.run.ledger.note_site(name, answers=len(files), lines=ledger.lines, last_hash=ledger.last_hash)
        write_atomically(self.run.folder.file(SITES), json.dumps(shown))

    @property
    def _exchange(self) -> Path:
        return self.run.folder.private / EXCHANGE

    def _files(self, kind: str, name: str) -> list[Path]:
        files = [self._file(kind, number, name) for number in range(self.terms.count)]
        return [file for file in files if file.exists()]

    def _file(self, kind: str, number: int, name: str) -> Path:
        return self._exchange / f"{kind}-{number}-{name}.json"
