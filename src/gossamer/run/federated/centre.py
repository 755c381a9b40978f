"""The centre of a federation of few: the method's own loop, whose queries the sites answer. No Flower is loaded here.

Questions and answers are files, in `checkpoint/exchange` of the run folder. By hand, people carry them. With a network, `Send`
does, and the files remain. A question holds the state of the loop, so a run that was stopped goes on from the last of them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from gossamer.data.fingerprint import NOBODY
from gossamer.data.source import Data
from gossamer.errors import GossamerError, TooFewClients
from gossamer.events import progress
from gossamer.files import write_atomically
from gossamer.kinds.run_plan import RunPlan
from gossamer.methods.contract import State
from gossamer.methods.job import Training
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate import sites as few
from gossamer.privacy.certificate.statements import NO_UNITS
from gossamer.privacy.confined import Confined
from gossamer.privacy.per_sample_gradients.rounding import full_precision
from gossamer.privacy.queries import Mechanism
from gossamer.run.federated.questions import Answer, Malformed, Question, Terms, digest, in_words, opened, read, written
from gossamer.run.report.html import write_report
from gossamer.run.storage.data_sources import DataFacts, DataSources, RawData
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training import checkpoint
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.plan import Request
from gossamer.run.training.progress import DEFAULT, Process

Send: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Brings questions to sites, by their names, and gives the answers that came."""
EXCHANGE = "exchange"
"""In the private folder: `question-NUMBER-SITE.json` and `answer-NUMBER-SITE.json`."""


class Waiting(GossamerError):
    """The run waits for answers that people bring. The message says which."""


def ask(
    request: Request,
    *,
    sites: str | Sequence[str],
    out: str | Path,
    public: Data | None = None,
    seed: int = 0,
    without: str | Sequence[str] = "",
    send: Send | None = None,
    process: Process = DEFAULT,
) -> Synthesizer:
    """Train with the noisy answers of a few sites, and write a RUN folder; or go on with the run in `out`.

    Args:
        request: what `plan` gives for one site.
        sites: names of the sites, with commas between them.
        out: run folder to write: new, or with a run of the same settings.
        public: public records of the centre. They are not protected.
        seed: number that fixes initial weights and public random choices. The noise of the sites stays random.
        without: sites that will not answer any more, with commas between them.
        send: brings questions to sites; None: people do, and this raises `Waiting`.
        process: what is shown while it trains.

    Raises:
        RequestError: if the request is wrong; nothing has been written then.
        Waiting: if an answer is missing. The same call goes on.
    """
    folder, facts = RunFolder(Path(out)), request.job.card
    terms = Terms.of(request.job, request.delta, seed, _names(sites))
    request = replace(request, asks=RunPlan(jobs=[terms.job]))
    role = {"role": few.CENTRE, "sites": list(terms.names)}
    with opened(folder, request, terms.to_json(), seed=seed, role=role, process=process, accounts=False) as run:
        centre = Centre(run, terms, send, {*_names(without)})
        if not folder.finished:
            name = facts.data_set or facts.title or "records of sites"
            centre.train(DataSources.elsewhere(name, public=public))
        synthesizer = Synthesizer.load(folder.path)
        centre.end(synthesizer.net)
    return synthesizer


def _names(sites: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, sites.split(",")))) if isinstance(sites, str) else tuple(sites)


@dataclass
class Centre:
    """A run whose queries the sites answer.

    Args:
        run: its folder, and its ledger, which holds the plan of one site.
        terms: of the run.
        send: brings questions to sites; None: people do.
        gone: sites that are not asked any more.
    """

    run: OpenRun
    terms: Terms
    send: Send | None
    gone: set[str]
    _number: int = field(default=0, init=False)
    _training: Training[Any, Any] = field(init=False)

    def train(self, sources: DataSources) -> None:
        """Go through the loop from the last question, add up answers, and certify."""
        public, stated = sources.read_public(self.terms.job.card)
        raw = RawData(public, DataFacts(public=stated, units=NO_UNITS, identity=NOBODY), None)
        run, first = self.run, self.terms.names[0]
        run = run.charge(sources, run.read(sources, raw).facts)
        self._exchange.mkdir(mode=0o700, exist_ok=True)
        self._training = self.terms.pooled.begin(run.rng)
        self._number = max(0, len(self._files("question", first)) - 1)
        if (last := self._file("question", self._number, first)).exists():
            self._training.state.load_state_dict(read(Question, last.read_text()).state)
        with full_precision():
            for result in self._training.drive(self.terms.stand_in(self._asked), public):
                run.sink(progress(result.phase.name, result.step, result.phase.steps))
        self._note_sites()
        run.finish(self._training.state)
        write_report(run.folder.path, internal=True)

    def end(self, net: nn.Module) -> None:
        """Give the sites the released network. Each certifies what it has answered."""
        state = self.terms.pooled.begin(self.run.rng).state
        state.released.load_state_dict(net.state_dict())
        answered = self._collect(self._write(self.terms.count, "the end", state))
        if self.send is None and len(answered) < len(self.terms.names):
            self.run.log(f"{self._exchange} has the end of the run for each site, which certifies what it has answered")

    def _asked(self, mechanism: Mechanism[Any], query: Any, _records: Confined[Any] | None) -> Tensor:
        """The sum of the sites' answers. The plan of this release counts the query once, as each site's own ledger does."""
        own, number = self.terms.own(mechanism), self._number
        if number >= sum(self.run.ledger.used):
            self.run.ledger.charge(own.event)
        questions = self._write(number, in_words(query), self._training.state)
        answers = self._collect(questions, size=query.dimension)
        missing = [name for name in questions if name not in answers and name not in self.gone]
        if missing and self.send is None:
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

    def _write(self, number: int, about: str, state: State) -> dict[str, str]:
        """The question for each site, by its name. One that was written before stays as it is."""
        texts = {}
        for name in self.terms.names:
            file = self._file("question", number, name)
            if not file.exists():
                question = Question(self.terms.to_json(), name, number, about, state.state_dict())
                write_atomically(file, written(question), private=True)
            texts[name] = file.read_text()
        return texts

    def _collect(self, questions: Mapping[str, str], *, size: int | None = None) -> dict[str, Tensor | None]:
        """The answers that are here or come now, by site, checked. size: of each; None: the end, which has no values."""
        number = read(Question, next(iter(questions.values()))).number
        kept = {name: self._file("answer", number, name) for name in questions}
        open_ = {name: text for name, text in questions.items() if not kept[name].exists() and name not in self.gone}
        for name, text in (self.send(open_) if self.send and open_ else {}).items():
            write_atomically(kept[name], text, private=True)
        found: dict[str, Tensor | None] = {}
        for name in [name for name in questions if kept[name].exists() and name not in self.gone]:
            try:
                found[name] = self._checked(name, kept[name].read_text(), questions[name], size)
            except Malformed as error:
                kept[name].rename(kept[name].with_suffix(".refused"))
                self.run.log(f"{name} is shut out: {error}")
                self.gone.add(name)
        return found

    def _checked(self, name: str, text: str, question: str, size: int | None) -> Tensor | None:
        answer = read(Answer, text)
        if (answer.site, answer.question) != (name, digest(question)):
            raise Malformed("the answer is of another site, or to another question")
        values = answer.values
        if problem := few.problem_of(name, answer.ledger, self.run.ledger):
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
                ledger = few.read_ledger(shown[name])
                self.run.ledger.note_site(name, answers=len(files), lines=ledger.lines, last_hash=ledger.last_hash)
        write_atomically(self.run.folder.file(few.SITES), json.dumps(shown))

    @property
    def _exchange(self) -> Path:
        return self.run.folder.private / EXCHANGE

    def _files(self, kind: str, name: str) -> list[Path]:
        files = [self._file(kind, number, name) for number in range(self.terms.count)]
        return [file for file in files if file.exists()]

    def _file(self, kind: str, number: int, name: str) -> Path:
        return self._exchange / f"{kind}-{number}-{name}.json"
