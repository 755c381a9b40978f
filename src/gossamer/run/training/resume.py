"""Go on with a run that was stopped or killed."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from gossamer.data.readers.in_memory import own_units
from gossamer.data.source import Data
from gossamer.data.tables.any_card import card_from
from gossamer.errors import DataError, RequestError, RunFolderError
from gossamer.events import Sink, note
from gossamer.methods import method_of
from gossamer.methods.method import BaseConfig, Job, State
from gossamer.methods.registry import changed_plugins, plugins_of
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate.certificate import CONFIG, LEDGER
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.entry import budget_log_at, charge_of, enter_finished, resume_entry
from gossamer.run.storage.data_sources import DataSources, Held
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training import checkpoint, disk_space
from gossamer.run.training.certify import train_and_certify
from gossamer.run.training.distributed import on_every_rank, present
from gossamer.run.training.driver import untrained
from gossamer.run.training.progress import shown
from gossamer.run.training.training_run import TrainingRun
from gossamer.run.validation import checked_arguments


@checked_arguments
@on_every_rank
def resume(
    run: str | Path,
    *,
    data: Data | None = None,
    public: Data | None = None,
    units: Data | None = None,
    accounts: str | Path | None = None,
    progress: bool = True,
    sink: Sink | None = None,
    rng: Rng | None = None,
) -> Synthesizer:
    """Go on with a run that was stopped or killed. A finished one is loaded as it is, and costs nothing in its own log.

    Args:
        run: the RUN folder.
        data: the private records, if they were in memory when the run began. They must be the same.
        public: the same for the public records.
        units: the same for the ids of units.
        accounts: folder of the budget log. Default: the log that the run is in. Another log gets the run too.
        progress: show notes, a bar, time left and epsilon used, if there is a terminal or a notebook.
        sink: takes the events in place of that.
        rng: for tests, as in `fit`.

    Raises:
        RunFolderError: if the folder is no run, another process uses it, or its plan is used up and nothing was trained.
        LedgerDamaged: if the ledger was changed, or is shorter than the checkpoint says.
        DataError: if the records are no longer those the run began with.
        BudgetError: if the folder is a copy, and the data set's limit forbids to count its plan once more.
    """
    folder = RunFolder(Path(run))
    config_json = folder.config()
    if folder.finished:
        with shown(sink, progress=progress) as events:
            return _finished(folder, accounts, events)
    if not folder.begun:
        raise RunFolderError(
            f"{folder.path} was cut off before its ledger was written; no budget is used. Start a new run."
        )
    disk_space.check(folder.path, disk_space.of(folder.private), remedy="then resume again")
    with (
        folder.locked(),
        closing(PrivacyLedger.resume(folder.file(LEDGER), settings=folder.file(CONFIG))) as ledger,
    ):
        if folder.finished:  # by the process that held it a moment ago
            return Synthesizer.load(folder.path)
        if "federated" in config_json:
            raise RequestError(
                f"{folder.path} is a federated run. Continue it with the command that began it, `gossamer federated` or "
                "`flwr run`, and its `resume`."
            )
        held = Held.of(data=data, public=public, units=own_units(data) if units is None else units)
        with shown(sink, progress=progress) as events:
            return _resume(folder, ledger, held, accounts=accounts, sink=events, rng=rng or Rng(config_json["seed"]))


def _refuse_other_plugins(job: Job[BaseConfig, State], begun_with: Sequence[Mapping[str, str]]) -> None:
    """Refuse a plug-in that is not the one with which the run began."""
    if changed := changed_plugins(plugins_of(job), begun_with, "source", "weights"):
        raise RequestError(f"{changed[0]}, or start a new run.")


def _finished(folder: RunFolder, accounts: str | Path | None, sink: Sink) -> Synthesizer:
    """Load a finished run, and enter it in a budget log that was named."""
    synthesizer = Synthesizer.load(folder.path)
    if accounts is not None:
        with folder.locked():
            enter_finished(folder, accounts, log=lambda text: sink(note(text)))
    return synthesizer


def _resume(
    folder: RunFolder, ledger: PrivacyLedger, held: Held, *, accounts: str | Path | None, sink: Sink, rng: Rng
) -> Synthesizer:
    """Load the records and the last checkpoint, find the run's entry in the budget log, and train to the end."""
    config_json, source_json = folder.config(), folder.source()
    card = card_from(config_json["card"])
    job = method_of(config_json["method"], folder=folder.path).job(config_json["config"], card)
    _refuse_other_plugins(job, config_json.get("plugins", []))
    sources = DataSources.from_json(source_json["sources"]).with_held(held)
    sources.refuse_gone()
    data = sources.read(card, ledger, present(), sink=sink)
    data.facts.refuse_others(source_json, sources)
    if data.facts.public != config_json["public"]:
        raise DataError("--public is not what it was when the run began. Restore the records, or start a new run.")
    run = TrainingRun(
        folder=folder, job=job, ledger=ledger, rng=rng, device=config_json["device"], sink=sink,
        with_tensorboard=config_json["tensorboard"], ranks=present(),
    )  # fmt: skip
    if reason := job.method.without_guarantee:
        run.log(f"No formal guarantee: epsilon is infinity, because {reason}.")
    saved = checkpoint.load(folder.private, ledger, lost=lambda count: run.log(
        f"{count:,} noisy queries came after the last checkpoint; their cost stays, and the run is shorter by them."
    ))  # fmt: skip
    if not any(ledger.unused) and (saved is None or not job.paid_for(saved[0])):
        raise untrained(folder)
    source_json |= {"mark": data.facts.identity.mark}
    charge = charge_of(folder, ledger, config_json, source_json, reproducible=rng.reproducible)
    entry = None
    if accounts is not None or source_json.get("counted", True):  # not where fit was told of public test data
        log_folder = budget_log_at(accounts or source_json.get("accounts"), beside=folder)
        entry = resume_entry(log_folder, charge, ledger, log=run.log)
    if accounts is not None:
        folder.note_source({**source_json, "accounts": str(Path(accounts).absolute())})
    return train_and_certify(dataclasses.replace(run, budget_entry=entry), data, saved=saved)
