"""A site of a federation: it answers the questions of one run, within its own budget. No Flower is loaded here.

Few sites: each question opens the site's run, and closes it again. So a service that is killed goes on, and so does a command
by hand. The answer to a question is kept: the same question gets the same answer, and never fresh noise.

Many clients of GS-WGAN: the site runs the central method with one critic, which all its records train and which gives every
answer. It stays open between questions. Its ledger records an unamplified Gaussian for each answer before the records are read,
and refuses what it has not reserved.

The file is long because both share all that guards a site: terms, budget, folder, refusals.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.source import Data
from gossamer.data.tables.any_card import load_card
from gossamer.errors import GossamerError, Interrupted, RequestError, RunFolderError, UnplannedRelease, withheld
from gossamer.events import Sink, note, progress, silent
from gossamer.files import LEDGER, write_atomically
from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.contract import Run
from gossamer.methods.gs_wgan import Config, GsWgan
from gossamer.methods.gs_wgan.loop import CriticPool, State, generator
from gossamer.methods.gs_wgan.nets import ProjectionCritic
from gossamer.methods.job import Job, Training
from gossamer.privacy.accounting import federated
from gossamer.privacy.accounting.events import is_noisy
from gossamer.privacy.certificate import sites
from gossamer.privacy.confined import Confined
from gossamer.privacy.per_sample_gradients.rounding import full_precision
from gossamer.privacy.queries import Mechanism
from gossamer.privacy.random.noise import Rng
from gossamer.run.federated import questions
from gossamer.run.federated.questions import Answer, Malformed, Question, Terms, digest, in_words, read, written
from gossamer.run.report.html import write_report
from gossamer.run.storage.data_sources import DataSources, RawData
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.storage.run_plan import RunPlan
from gossamer.run.training import checkpoint
from gossamer.run.training.open_run import Accounts, OpenRun
from gossamer.run.training.plan import Request, checked, checked_delta
from gossamer.run.training.progress import Process

REFUSED = "the reason is in this site's own log"
"""All that a refusal says, unless the question is malformed. The kind of error could depend on records or on the budget."""
_VISIT, _WARM_START = 64, 4096
"""How many of the largest batches a visit to the critic, and its warm start, may take in its layers. One may take `LARGEST`."""


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
    """Answer one question of a federation, from a file to a file.

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
    with closing(Site(RunFolder(run), sources, load_card(card), epsilon, delta, accounts=accounts, sink=sink)) as site:
        write_atomically(out, site.answer(text))


class _Answered(GossamerError):
    """Ends a loop at its next query, which has been answered."""


@dataclass(repr=False)
class Site:
    """One owner of records in a federation. For GS-WGAN, all its records belong to one unit.

    Args:
        folder: its RUN, new, unfinished or finished.
        sources: where its records are.
        card: the public facts, which all sites and the centre have beforehand.
        epsilon: what all its answers may cost together.
        delta: of that.
        accounts: folder of its budget log; None: the user's state folder; False: none, in a simulation.
        sink: takes notes and progress.
        rng: from the seed of the run to all its randomness.
        raw: its records, where they have been read already (a simulation).
        clock: says when a checkpoint is due; the clients of a simulation share one.
        stop: signals that ask this process to stop.
    """

    folder: RunFolder
    sources: DataSources
    card: Any
    epsilon: float
    delta: float
    accounts: Accounts = None
    sink: Sink = silent
    rng: Callable[[int], Rng] = Rng
    raw: RawData | None = None
    clock: checkpoint.Clock = field(default_factory=checkpoint.Clock)
    stop: Sequence[int] = ()
    _open: ExitStack = field(default_factory=ExitStack, init=False)
    _agreed: dict[str, Any] | None = field(default=None, init=False)
    _run: OpenRun = field(init=False)
    _training: Training[Config, State] = field(init=False)
    _critics: CriticPool = field(init=False)

    def __post_init__(self) -> None:
        checked_delta(self.delta, self.epsilon, self.card)

    def reply(self, text: str) -> str:
        """The answer to a question, or a refusal. It says what is malformed in the question, or `REFUSED`.

        Raises:
            Interrupted: if this process has to stop.
        """
        try:
            return self.answer(text)
        except Interrupted:
            raise
        except Malformed as error:
            return questions.refusal(f"the question is malformed: {error}")
        except Exception as error:  # all others alike: an error that ended the process would be seen too
            reason = str(error) if isinstance(error, GossamerError) else withheld(error)
            self.sink(note(f"a question is refused: {reason}"))
            return questions.refusal(REFUSED)

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
        if self._agreed not in (None, agreed := {**question.terms, "site": question.site}):
            raise Malformed("these are not the terms that this site takes part under")
        if terms.many:
            return written(Answer(question.site, digest(text), self._of_many(terms, question, agreed), ""))
        return self._of_few(terms, question, agreed, text)

    @contextmanager
    def _opened(
        self, job: Job[Any, Any], agreed: dict[str, Any], role: dict[str, Any], rng: Rng, card: Any = None
    ) -> Iterator[tuple[OpenRun, Confined[Any]]]:
        """The run of this site. A new one is reserved in full, and in the budget log, before anything is answered."""
        request = Request(asks=RunPlan(jobs=[job]), epsilon=self.epsilon, delta=self.delta)
        process = Process(sink=self.sink, rng=rng)
        with questions.opened(
            self.folder, request, agreed, role=role, process=process, accounts=self.accounts
        ) as begun:
            data = begun.read(self.sources, self.raw, card=card)
            run = begun.charge(self.sources, data.facts)
            if run.entry is None and self.accounts is not False:
                raise RunFolderError(
                    f"{self.folder.path} is a client of a simulation, which counts as a whole. Choose another folder."
                )
            yield run, data.private

    # ------------------------------------------------------------------ few sites: the queries of a plan

    def _of_few(self, terms: Terms, question: Question, agreed: dict[str, Any], text: str) -> str:
        """The answer to a query of the plan, or to the end of the run."""
        if question.site not in terms.names or not 0 <= question.number <= terms.count:
            raise Malformed("the plan of the terms has no such query, or no such site")
        given = self._kept(question.number)
        if given.exists():
            if read(Answer, given.read_text()).question != digest(text):
                raise Malformed("this site has answered another question of this number")
            return given.read_text()
        role = {"role": sites.SITE, "site": question.site, "sites": [*terms.names]}
        with self._opened(terms.job, agreed, role, self.rng(terms.seed)) as (run, private):
            if question.number < sum(run.ledger.used):
                raise UnplannedRelease("this query or a later one was asked before, and a crash lost its answer")
            values = self._goes_on(run, private, terms, question)
            answer = written(Answer(question.site, digest(text), values, self.folder.file(LEDGER).read_text()))
            write_atomically(given, answer, private=True)
        return answer

    def _kept(self, number: int) -> Path:
        return self.folder.private / f"answer-{number}.json"

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
            self._certify(run, training.state)
            return None
        if (first := self._kept(0)).exists() and (own := read(Answer, first.read_text()).values) is not None:
            noise = terms.job.queries[0].mechanism.noise_multiplier
            training.run = dataclasses.replace(training.run, answered=(own, noise))
        answers: list[Tensor] = []

        def ask(mechanism: Mechanism[Any], query: Any, records: Confined[Any] | None) -> Tensor:
            if records is None or in_words(query) != question.about or 8 * query.dimension > questions.LARGEST:
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

    def _certify(self, run: OpenRun, state: Any) -> None:
        """Certify what this site has sent."""
        run.finish(state)
        write_report(self.folder.path, internal=True)
        self.sink(note(f"the run is finished, and {self.folder.path} has its certificate"))

    # ------------------------------------------------------------------ many clients: terms, rounds and the end of GS-WGAN

    def go_on(self) -> None:
        """Continue an unfinished run of GS-WGAN before the server asks, which does not know that this process is new.

        A run that was killed before its first checkpoint gets its terms again: its server has no answer to them.

        Raises:
            GossamerError: if the folder holds another run, is in use, or the records are not those of the run.
        """
        if self.folder.begun and not self.folder.finished and checkpoint.saved_position(self.folder.private):
            agreed = self.folder.source()["terms"]
            self._begin(Terms.from_json({name: each for name, each in agreed.items() if name != "site"}), agreed, {})

    def close(self) -> None:
        """Save an unfinished run of GS-WGAN, and close its ledger and folder."""
        try:
            if self._agreed is not None and not self.folder.finished:
                self._save()
        finally:
            self._open.close()

    def _of_many(self, terms: Terms, question: Question, agreed: dict[str, Any]) -> Tensor | None:
        """Agree to the terms, train and answer, or take the released generator and certify."""
        finished = self.folder.finished and self.folder.source().get("terms") == agreed
        if self._agreed is None and not finished and question.about == questions.TERMS:
            self._begin(terms, agreed, question.state)
        elif self._agreed is None and not finished:
            self.go_on()
        if self._agreed != agreed and not finished:
            raise Malformed("the run has not sent its terms yet")
        if question.about == questions.ROUND:
            return self._round(terms, question.state)
        if question.about == questions.END and not finished:
            load(self._training.state.released, question.state)
            checkpoint.free_reserve(self.folder.private)
            self._certify(self._run, self._training.state)
            self.close()
        return None

    def _begin(self, terms: Terms, agreed: dict[str, Any], start: dict[str, Any]) -> None:
        """Open the run of this client, with the charges that its ledger has. A new one is reserved before a record is read."""
        job = self._own_job(terms)
        run = Run(job.config, self.card, self.rng(terms.seed), queries=job.queries)
        self._training = Training(job, run)
        state = self._training.state
        if (
            start
        ):  # before records and budget. The values need no check: their effect leaves through the mechanism alone
            load(networks(state), start)
            state.own_fakes = True
        # for the readers: all records here are one unit, so none of them names it
        card = dataclasses.replace(self.card, unit="record", missing_unit="refuse")
        role = {"role": federated.CLIENT, "answers": job.config.steps}
        with ExitStack() as stack:
            self._run, private = stack.enter_context(self._opened(job, agreed, role, run.rng, card))
            if self._run.saved is not None:
                self._run.restore(state)
            self._warm_up(private)
            self._critics = CriticPool(run, state.confine(run, private))
            self._save()
            self._open = stack.pop_all()
        self._agreed = agreed

    def _own_job(self, terms: Terms) -> Job[Config, State]:
        """The method with the one critic of this client, which grants as many answers as the run may ask of it."""
        alone = {"critics": 1, "draw": "round_robin", "answers": 1, "visits": 1, "start": ""}
        try:
            job = Job.of(GsWgan(), {**terms.job.settings, **alone, "steps": terms.granted}, self.card)
            checked(job)
        except RequestError:
            raise Malformed("the settings of the run are none of this method") from None
        if self.accounts is not False and not is_noisy(job.plan):
            raise Malformed("the settings of the run have no noise")
        _check_size(job.config, self.card, at_once=terms.job.settings["answers"])
        return job

    def _warm_up(self, private: Confined[Any]) -> None:
        """The critic's warm start: nothing leaves the client, and nothing comes in."""
        state = self._training.state
        if state.phase == "training":
            return
        for result in self._training.drive(private):
            if result.logs is None:
                break
            self.sink(progress(result.phase.name, result.step, result.phase.steps))
            if self.stop:
                self._save()
                raise Interrupted(f"{self.folder.path} was stopped in its warm start, and goes on from there.")

    def _round(self, terms: Terms, asked: dict[str, Any]) -> Tensor | None:
        """Train, then answer, as asked. Every answer is recorded in the ledger before the records are read."""
        config = self._training.job.config
        trained = max(config.critic_batch_size, config.batch_size * terms.job.settings["answers"])
        train = _batches(asked.get("train"), self.card, size=trained)
        to_answer = _batches(asked.get("asked"), self.card, size=config.batch_size)
        if len(train) > 1 or not (train or to_answer) or not asked.keys() <= {"train", "asked"}:
            raise Malformed("a round holds fakes to train on once, or to answer for")
        self._run.ledger.check_place()
        if len(to_answer) > self._critics.left:
            raise UnplannedRelease(
                f"this client has granted {config.steps:,} answers, {self._critics.left:,} are left, and "
                f"{len(to_answer):,} were asked for at once"
            )
        for fakes in train:
            self._critics.train(fakes)
        rows = [self._critics.release(fakes) for fakes in to_answer]
        self._training.state.step += 1
        if self.clock.due():
            self._save()
        self.sink(progress("answers", config.steps - self._critics.left, config.steps))
        return torch.cat(rows) if rows else None

    def _save(self) -> None:
        self.clock.written(self._run.save(self._training.state))


def networks(state: State) -> nn.ModuleDict:
    """The networks whose weights a start holds: the critic that all critics begin as, and the generator."""
    return nn.ModuleDict({"critic": state.critic, "generator": state.G.net})


def load(net: nn.Module, weights: dict[str, Any]) -> None:
    """Put the weights of a question into a network. Raises Malformed: they are of other names or shapes."""
    try:
        net.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError):
        raise Malformed("the weights are not those of the networks of the terms") from None


def _batches(held: Any, card: DataCard, *, size: int) -> list[Fakes]:
    """Fakes of a question, a pair of images and labels, in batches of this size. Raises Malformed."""
    if held is None:
        return []
    match held:
        case (Tensor() as images, Tensor() as labels) if (images.dtype, labels.dtype) == (torch.float32, torch.int64):
            count = labels.numel()
            if labels.shape != (count,) or images.shape != (count, *card.shape) or count == 0 or count % size:
                raise Malformed("fakes have another number or shape than the terms say")
            if not images.isfinite().all() or (labels < 0).any() or (labels >= card.classes).any():
                raise Malformed("fakes hold a value that is not finite, or a label outside the classes")
            return [Fakes(*pair) for pair in zip(images.split(size), labels.split(size), strict=True)]
    raise Malformed("fakes are no pair of images and labels")


def _check_size(config: Config, card: DataCard, *, at_once: int) -> None:
    """Refuse terms that ask a site for too much memory or time, before a network is built. at_once: answers in a round.

    Raises Malformed.
    """
    pixels, side = math.prod(card.shape), math.prod(card.shape[1:])
    batch = 2 * config.width * side * max(config.batch_size, config.critic_batch_size)  # its layers in a critic
    visit = batch * config.critic_steps
    asked = {
        "the pictures of a round": 4 * pixels * max(config.batch_size * at_once, config.critic_batch_size),
        "a batch in the critic": batch,
        "a visit to the critic": visit / _VISIT,
        "the warm start": visit * config.warm_steps / _WARM_START,
    }
    if not (large := [name for name, size in asked.items() if size > questions.LARGEST]):
        with torch.device("meta"):  # without memory
            nets = generator(config, card), ProjectionCritic(card.shape, card.classes, width=config.width)
        if sum(4 * value.numel() for net in nets for value in net.state_dict().values()) > questions.LARGEST:
            large = ["the networks"]
    if large:
        raise Malformed(f"the settings of the run ask a site for too much: {', '.join(large)}")
