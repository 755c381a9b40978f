"""A site of a federation of few: it answers the queries of one plan, within its own budget. No Flower is loaded here.

Each question opens the site's run, and closes it again. So a service that is killed goes on, and so does a command by hand.
The answer to a question is kept: the same question gets the same answer, and never fresh noise.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from gossamer.data.source import Data
from gossamer.data.tables.any_card import load_card
from gossamer.errors import GossamerError, RequestError, UnplannedRelease
from gossamer.events import Sink, note, silent
from gossamer.files import write_atomically
from gossamer.kinds.run_plan import RunPlan
from gossamer.privacy.certificate import sites
from gossamer.privacy.certificate.certificate import LEDGER
from gossamer.privacy.confined import Confined
from gossamer.privacy.per_sample_gradients.rounding import full_precision
from gossamer.privacy.queries import Mechanism
from gossamer.privacy.random.noise import Rng
from gossamer.run.federated.questions import (
    LARGEST,
    Answer,
    Malformed,
    Question,
    Terms,
    digest,
    in_words,
    opened,
    read,
    written,
)
from gossamer.run.report.html import write_report
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training import checkpoint
from gossamer.run.training.open_run import Accounts, OpenRun
from gossamer.run.training.plan import Request, checked_delta
from gossamer.run.training.progress import Process


def answer(
    *,
    question: Path,
    out: Path,
    run: Path,
    data: Data,
    card: Path,
    epsilon: float,
    delta: float,
    accounts: Path | None = None,
    sink: Sink = silent,
) -> None:
    """Answer one question of a federation of few, from a file to a file.

    Args:
        question: file that the centre wrote for this site.
        out: file to write: the answer, which may leave.
        run: run folder of this site. The first question makes it.
        data: the records of this site.
        card: data card, which all sites have.
        epsilon: limit of what all answers of this run may cost together.
        delta: see `run.training.fit.fit`.
        accounts: see `run.training.fit.fit`.
        sink: takes notes.

    Raises:
        GossamerError: if the site refuses; the message says why. Nothing is written then.
    """
    try:
        text = question.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise RequestError(f"`question={question}` cannot be read.") from None
    sources = DataSources.of(data)
    site = Site(RunFolder(run), sources, load_card(card), epsilon, delta, accounts=accounts, sink=sink)
    write_atomically(out, site.answer(text))


class _Answered(GossamerError):
    """Ends a loop at its next query, which has been answered."""


@dataclass
class Site:
    """One owner of records in a federation of few.

    Args:
        folder: its RUN, new, unfinished or finished.
        sources: where its records are.
        card: the public facts, which all sites and the centre have beforehand.
        epsilon: what all its answers may cost together.
        delta: of that.
        accounts: folder of its budget log; None: the user's state folder.
        sink: takes notes.
        rng: from the seed of the run to all its randomness.
    """

    folder: RunFolder
    sources: DataSources
    card: Any
    epsilon: float
    delta: float
    accounts: Accounts = None
    sink: Sink = silent
    rng: Callable[[int], Rng] = Rng

    def __post_init__(self) -> None:
        checked_delta(self.delta, self.epsilon, self.card)

    def answer(self, text: str) -> str:
        """The answer to a question. The cost of a query is in the ledger before a record is read.

        Raises:
            Malformed: the question is none, is out of the plan, or comes under other terms.
            GossamerError: what keeps the site from answering. Only its own people may read it.
        """
        question = read(Question, text)
        terms = Terms.from_json(question.terms)
        if terms.job.card != self.card or terms.delta != self.delta:
            raise Malformed("the card or the delta of the run is not the one that this site was given")
        if question.site not in terms.names or not 0 <= question.number <= terms.count:
            raise Malformed("the plan of the terms has no such query, or no such site")
        given = self._kept(question.number)
        if given.exists():
            if read(Answer, given.read_text()).question != digest(text):
                raise Malformed("this site has answered another question of this number")
            return given.read_text()
        with self._opened(terms, question.site) as (run, private):
            asked = [number for number in range(terms.count + 1) if self._asked(number).exists()]
            if any(number >= question.number for number in asked):
                raise UnplannedRelease("this query or a later one was asked before, and a crash lost its answer")
            write_atomically(self._asked(question.number), digest(text), private=True)
            values = self._goes_on(run, private, terms, question)
            answer = written(Answer(question.site, digest(text), values, self.folder.file(LEDGER).read_text()))
            write_atomically(given, answer, private=True)
        return answer

    def _kept(self, number: int) -> Path:
        return self.folder.private / f"answer-{number}.json"

    def _asked(self, number: int) -> Path:
        return self.folder.private / f"asked-{number}"

    @contextmanager
    def _opened(self, terms: Terms, name: str) -> Iterator[tuple[OpenRun, Confined[Any]]]:
        """The run of this site. A new one is reserved in full, and in the budget log, before anything is answered."""
        process = Process(sink=self.sink, rng=self.rng(terms.seed))
        request = Request(asks=RunPlan(jobs=[terms.job]), epsilon=self.epsilon, delta=self.delta)
        role, agreed = {"role": sites.SITE, "site": name, "sites": [*terms.names]}, {**terms.to_json(), "site": name}
        given: dict[str, Any] = {"process": process, "accounts": self.accounts}
        with opened(self.folder, request, agreed, seed=terms.seed, role=role, **given) as run:
            data = run.read(self.sources)
            yield run.charge(self.sources, data.facts), data.private

    def _goes_on(self, run: OpenRun, private: Confined[Any], terms: Terms, question: Question) -> Tensor | None:
        """Go on with the centre's loop up to its next query, and answer it; at the end, certify."""
        training = terms.pooled.begin(run.rng)
        try:
            training.state.load_state_dict(question.state)
            training.state.check_sent()
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError):
            raise Malformed("the state of the run is none of this method, or a value is out of its range") from None
        if not checkpoint.finite(question.state):
            raise Malformed("the state of the run holds a value that is not finite")
        if question.number == terms.count:
            run.finish(training.state)
            write_report(self.folder.path, internal=True)
            self.sink(note(f"the run is finished, and {self.folder.path} has its certificate"))
            return None
        if (first := self._kept(0)).exists() and (own := read(Answer, first.read_text()).values) is not None:
            noise = terms.job.queries[0].mechanism.noise_multiplier
            training.run = dataclasses.replace(training.run, answered=(own, noise))
        answers: list[Tensor] = []

        def ask(mechanism: Mechanism[Any], query: Any, records: Confined[Any] | None) -> Tensor:
            if records is None or in_words(query) != question.about or 8 * query.dimension > LARGEST:
                raise Malformed("the run comes to another query here than the one that was asked")
            self.sink(note(f"query {question.number + 1} of {terms.count}: {question.about}"))
            answers.append(records.release(terms.own(mechanism), query))
            raise _Answered

        try:
            with full_precision():
                for _ in training.drive(terms.stand_in(ask, private)):
                    pass
        except _Answered:
            return answers[0].detach().double().cpu()
        raise Malformed("the run has no further query")
