"""A run in progress: the only writer of its settings, its sources and its entry in the budget log.

Open a run (`create` or `resume`), `read` its records with its ledger, `charge` the budget log, train, and `finish`. No record
is read before the plan is reserved, and nothing trains before the budget log has the run. A crash at any moment leaves the cost
in the log, or nothing at all.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gossamer import plugins
from gossamer.data.tables.any_card import AnyCard
from gossamer.errors import BudgetLogError, PrivacyError, RequestError, RunFolderError
from gossamer.events import Sink, note, silent
from gossamer.files import ANSWERS, CONFIG, LEDGER, MODEL
from gossamer.kinds import kind_of
from gossamer.kinds.score import SCORE, Facts
from gossamer.methods.contract import BaseConfig, Query, State
from gossamer.methods.job import Job, plugins_of
from gossamer.methods.registry import changed_plugins
from gossamer.methods.synthesizer import Synthesizer, save_model, save_tensors
from gossamer.privacy.certificate.certificate import CONFIG_FORMAT, Certificate, sha256
from gossamer.privacy.certificate.figures import CELLS, purposes, score_weights
from gossamer.privacy.certificate.statements import CHOICES
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.answers import Answers
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.entry import RunEntry, add_entry, budget_log_at, charge_of, new_run_id, resume_entry
from gossamer.run.release.contents import TRAINED_ON, drawn_on
from gossamer.run.storage.data_sources import DataFacts, DataSources, LoadedData, RawData
from gossamer.run.storage.run_folder import RunFolder, today
from gossamer.run.storage.run_plan import LOOK, RunPlan
from gossamer.run.storage.versions import versions
from gossamer.run.training import checkpoint
from gossamer.run.training.plan import Request
from gossamer.run.training.progress import DEFAULT, Process

Accounts: TypeAlias = str | Path | Literal[False] | None
"""Folder of the budget log; None: the log that the run is in, or for a new one the user's state folder; False: no log."""


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A run in progress, in this process: all that training and certification need, except the records.

    Args:
        folder: the run folder, locked by this process.
        job: the method, its settings and the card.
        asks: all that it may ask.
        ledger: open; the plan is reserved in it.
        rng: source of all randomness.
        device: where the networks are.
        sink: receives events, notes and progress.
        ranks: the processes that train together.
        saved: state and public streams of the last checkpoint; None: there is none.
        accounts: the budget log.
        public_facts: further public settings of a new run.
        private_facts: further entries of the private folder of a new run.
        entry: the run's entry in the budget log; None: it has none yet, or no log counts the run.
    """

    folder: RunFolder
    job: Job[BaseConfig, Any]
    asks: RunPlan
    ledger: PrivacyLedger
    rng: Rng
    device: str = "cpu"
    sink: Sink = silent
    ranks: Ranks = ALONE
    saved: checkpoint.Saved | None = None
    accounts: Accounts = None
    public_facts: Mapping[str, Any] = field(default_factory=dict)
    private_facts: Mapping[str, Any] = field(default_factory=dict)
    entry: RunEntry | None = None

    @classmethod
    @contextmanager
    def create(
        cls, folder: RunFolder, request: Request, *, seed: int, process: Process = DEFAULT, **more: Any
    ) -> Iterator["OpenRun"]:
        """Lock a free folder and reserve the plan of a job. Nothing is written before `charge`.

        Args:
            folder: of the new run.
            request: decided and checked.
            seed: of the public random choices.
            process: what it shows and writes besides, and for tests the noise.
            more: further fields.

        Raises:
            BudgetExceeded: if the plan costs more.
            RunFolderError: if the folder is taken.
        """
        folder.check_free()
        job, asks, delta = request.job, request.asks, request.delta
        ledger = PrivacyLedger(budget=request.epsilon, delta=delta, relation=job.relation, unit=job.card.unit)
        ledger.reserve(request.plan)
        rng = process.rng or Rng(seed)
        rng.answers = Answers()
        with process.shown() as sink, folder.locked(), closing(ledger):
            folder.check_free()
            yield cls(folder=folder, job=job, asks=asks, ledger=ledger, rng=rng, sink=sink, **more)

    @classmethod
    @contextmanager
    def resume(cls, folder: RunFolder, *, process: Process = DEFAULT, **more: Any) -> Iterator["OpenRun"]:
        """Lock the folder of a run that has begun, with its ledger, settings and last checkpoint.

        Args:
            folder: of the run, unfinished or finished.
            process: what it shows, and for tests the noise.
            more: further fields.

        Raises:
            RequestError: if a plug-in is not the one with which the run began.
            RunFolderError: if another process uses the folder, or its checkpoint cannot be read.
            LedgerDamaged: if the ledger was changed, or is shorter than the checkpoint says.
        """
        with (
            process.shown() as sink,
            folder.locked(),
            closing(PrivacyLedger.resume(folder.file(LEDGER), settings=folder.file(CONFIG))) as ledger,
        ):
            settings = folder.config()
            asks = RunPlan.of(settings, folder.path)
            job = asks.jobs[ledger.choice]
            if changed := changed_plugins(plugins_of(job), settings.get("plugins", []), "source", "weights"):
                raise RequestError(f"{changed[0]}, or start a new run.")
            saved = None if folder.finished else checkpoint.load(folder.private, ledger, lambda text: sink(note(text)))
            yield cls(
                folder=folder, job=job, ledger=ledger, rng=process.rng or Rng(settings["seed"]), device=settings["device"],
                sink=sink, saved=saved, asks=asks, **more,
            )  # fmt: skip

    def log(self, text: str, *, about: str = "") -> None:
        """Show a note on the terminal. about: see `events.note`."""
        self.sink(note(text, about=about))

    def read(self, sources: DataSources, raw: RawData | None = None, *, card: AnyCard | None = None) -> LoadedData:
        """Return the records, isolated, with the ledger that records the cost of every query to them.

        Args:
            sources: where they are.
            raw: what was read of them already; None: nothing.
            card: what the readers have to know of them; None: what the run knows.

        Raises:
            RequestError: if they cannot be read, contradict the card, or are private and public at once.
            DataError: if they are no longer those that the run began with.
        """
        parts = self.ledger, self.rng, self.ranks
        sources = dataclasses.replace(
            sources, only_counts=self.job.method.ranks_take == "counts" and self.asks.score is None
        )
        loaded = sources.read(card or self.job.card, *parts, sink=self.sink) if raw is None else raw.confine(*parts)
        if self.folder.begun:
            loaded.facts.refuse_others(self.folder.config(), self.folder.source(), name=sources.name)
        return loaded

    def charge(self, sources: DataSources, facts: DataFacts) -> "OpenRun":
        """Enter the run in the budget log, before it trains: a new one with its whole plan, a resumed one as it began.

        Args:
            sources: where the records are.
            facts: what is known of them.

        Returns:
            The run with its entry.

        Raises:
            BudgetError: if a limit forbids the run, or a copy of one; nothing is left of a new run then.
            BudgetLogError: if the budget log cannot be used.
            RunFolderError: if the folder cannot be written.
        """
        entry = self._charge_again(facts) if self.folder.begun else self._charge_first(sources, facts)
        if entry is not None:
            self.ledger.before_declassify = entry.declassify
        return dataclasses.replace(self, entry=entry)

    def _charge_first(self, sources: DataSources, facts: DataFacts) -> RunEntry | None:
        """Write the folder and the ledger of a new run, and its entry."""
        folder, ledger = self.folder, self.ledger
        config_json = {**self._settings(facts), "run": new_run_id(), "accounts": None, **self.public_facts}
        source_json = {
            "sources": sources.to_json(),
            "records": facts.identity.fingerprint,
            "mark": facts.identity.mark,
            "accounts": _absolute(self.accounts),
            **self.private_facts,
        }
        unnamed = {"unnamed": True} if "data" in sources.in_memory and not self.job.card.data_set else {}

        def write(log_facts: dict[str, Any] | None, session: str) -> None:
            log_facts = log_facts and {**log_facts, **unnamed}
            folder.create({**config_json, "accounts": log_facts}, source_json)
            ledger.create(folder.file(LEDGER), settings=sha256(folder.file(CONFIG)), session=session)

        if self.accounts is False:
            write(None, "")
            return None
        charge = charge_of(folder, ledger, config_json, source_json, reproducible=self.rng.reproducible)
        try:
            return add_entry(budget_log_at(self.accounts, beside=folder), charge, write, log=self.log)
        except BaseException as error:
            if not folder.finished and (isinstance(error, (BudgetLogError, OSError)) or not folder.begun):
                ledger.close()  # the disk or the budget log failed before the run was entered
                folder.clear()
            if isinstance(error, OSError):
                raise RunFolderError(
                    f"{folder.path} cannot be written ({error.strerror}). Nothing has been begun; mend that, or name another "
                    "`out`."
                ) from None
            raise

    def _charge_again(self, facts: DataFacts) -> RunEntry | None:
        """Find the run's entry; a copy of a run uses its plan once more."""
        folder, accounts = self.folder, self.accounts
        config_json, source_json = folder.config(), folder.source()
        source_json |= {"mark": facts.identity.mark}
        log_folder = accounts or source_json["accounts"]
        if accounts is False or (log_folder is None and config_json["accounts"] is None):  # public test data
            return None
        charge = charge_of(folder, self.ledger, config_json, source_json, reproducible=self.rng.reproducible)
        entry = resume_entry(budget_log_at(log_folder, beside=folder), charge, self.ledger, log=self.log)
        if accounts is not None:
            folder.note_source({**source_json, "accounts": _absolute(accounts)})
        return entry

    def save(self, state: State) -> float:
        """Write a checkpoint, on every rank. Returns the seconds it took."""
        return checkpoint.save(self.folder.private, state.state_dict(), self.rng.state(), self.ledger, self.ranks)

    def restore(self, state: State) -> None:
        """Load the last checkpoint into a state at its start, and into the public streams."""
        assert self.saved is not None
        checkpoint.restore(state, self.saved[0], self.folder.private)
        self.rng.restore(self.saved[1])

    def looked(self, private: Confined[Any]) -> "OpenRun":
        """Take the look that chooses a job, once, and write the answer to the ledger. Returns the run with this job.

        Args:
            private: the records.
        """
        look, ledger = self.asks.look, self.ledger
        if look is None or ledger.look is not None or not ledger.remaining(look.query.mechanism.event):
            return self
        card = self.job.card
        kind = kind_of(card).look
        asked = Facts(
            kind.facts(card), [1 / math.sqrt(len(kind.FACTS))] * len(kind.FACTS)
        )  # all may be true of a record
        answer = self._aside(private, look.query, asked)
        ledger.note_look(answer, look.choice(answer, card))
        return dataclasses.replace(self, job=self.asks.jobs[ledger.choice])

    def _aside(self, private: Confined[Any], query: Query, asked: Facts) -> list[float]:
        """The answer to a query of the run itself. The ledger has it, and no model follows from it."""
        noted, self.rng.answers = self.rng.answers, None
        answer: list[float] = private.release(query.mechanism, asked).tolist()
        self.rng.answers = noted
        return answer

    def measure(self, state: State, private: Confined[Any]) -> None:
        """Ask for the score of the last state, and write the answer to the ledger. After a crash it may be used up.

        Args:
            state: of a training that is over.
            private: the records.
        """
        ledger, score = self.ledger, self.asks.score
        if score is None or ledger.score is not None:
            return
        if ledger.remaining(score.query.mechanism.event):
            synthesizer = self._certified(state)
            kind, card = kind_of(synthesizer.card), synthesizer.card
            are_true, shares = kind.score(synthesizer, cells=CELLS, sink=self.sink)
            weights = score_weights(score.judge, score.categories, score.numbers)
            asked = Facts(are_true, weights, partial(kind.judged, card))
            ledger.note_score(self._aside(private, score.query, asked), shares.tolist())

    def finish(self, state: State) -> Synthesizer:
        """Certify and save. The certificate is written last; a report draws samples.

        Raises:
            RunFolderError: if the folder is no longer the one in which the run began.
            PrivacyError: if an encoder or a generator has other weights than when the run began.
        """
        folder, settings = self.folder, self.folder.config()
        self.ledger.check_place()
        if changed := changed_plugins(self.job.pretrained, settings.get("plugins", []), "weights"):
            raise PrivacyError(f"{changed[0]}, and start a new run. Its weights must not change while it sees records.")
        save_model(folder.file(MODEL), state.released.cpu().eval())
        synthesizer = self._certified(state, sha256(folder.file(MODEL)))
        # Without a guarantee they would be sums; a replay of the others would need records that only their owners have.
        finite = math.isfinite(float(synthesizer.certificate.guarantee["epsilon"]))
        others = "federated" in settings or settings["public"]["kind"] == "share"
        if self.rng.answers is not None and self.rng.answers.parts and finite and not others:
            save_tensors(folder.file(ANSWERS), self.rng.answers.tensors())
        if self.entry is not None:
            self.entry.finish(self.ledger)
        synthesizer.certificate.save(folder.path)
        for remark in filter(None, (state.remark, synthesizer.remark)):
            self.log(remark)
        return synthesizer

    def _certified(self, state: State, model: str = "") -> Synthesizer:
        """The generator with its certificate. model: SHA-256 of its file; empty: it is not saved."""
        settings, made_by = self.folder.config(), versions() | {TRAINED_ON: drawn_on()}
        certificate = Certificate.build(self.ledger, settings, model_sha256=model, versions=made_by, created=today())
        return Synthesizer(state.released.cpu().eval(), self.job, certificate, self.folder.path.absolute())

    def _settings(self, facts: DataFacts) -> dict[str, Any]:
        """The public settings of a new run."""
        epsilon, named_plugins, asks = self.ledger.budget, plugins_of(self.job), self.asks
        return {
            "format": CONFIG_FORMAT,
            **_of_job(self.job),
            "card": self.job.card.to_dict(),
            "epsilon": "inf" if math.isinf(epsilon) else epsilon,
            "delta": self.ledger.delta,
            "seed": self.rng.seed,
            "device": self.device,
            "public": facts.public,
            "units": facts.units,
            "components": purposes(asks.parts),
            **({} if asks.look is None else {LOOK: asdict(asks.look), CHOICES: [_of_job(job) for job in asks.jobs]}),
            **({} if asks.score is None else {SCORE: asdict(asks.score)}),
            "versions": versions(),
            **({"plugins": [plugins.origin(*named).to_json() for named in named_plugins]} if named_plugins else {}),
        }


def _of_job(job: Job[BaseConfig, Any]) -> dict[str, Any]:
    """What the settings of a run say of its job."""
    return {"method": job.method.name, "config": job.settings, "methods": job.facts}


def _absolute(accounts: Accounts) -> str | None:
    return str(Path(accounts).absolute()) if isinstance(accounts, str | Path) else None
