"""Go on with a run that was stopped or killed."""

from pathlib import Path

from gossamer.data.source import Data
from gossamer.errors import RequestError, RunFolderError
from gossamer.events import note
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.budget.entry import enter_finished
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.distributed import on_every_rank, present
from gossamer.run.training.driver import train_and_certify, untrained
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.progress import DEFAULT, Process
from gossamer.run.validation import checked_arguments


@checked_arguments
@on_every_rank
def resume(
    run: str | Path,
    *,
    data: Data | None = None,
    public: Data | None = None,
    accounts: str | Path | None = None,
    process: Process = DEFAULT,
) -> Synthesizer:
    """Go on with a run that was stopped or killed. A finished one is loaded as it is, and costs nothing in its own log.

    Args:
        run: the RUN folder.
        data: the private records, or a `Source` with the ids of units, if they were in memory when the run began. They must
            be the same.
        public: the same for the public records.
        accounts: folder of the budget log. Default: the log that the run is in. Another log gets the run too.
        process: what is shown while it trains, and for tests the noise, as in `fit`.

    Raises:
        RunFolderError: if the folder is no run, another process uses it, or its plan is used up and nothing was trained.
        LedgerDamaged: if the ledger was changed, or is shorter than the checkpoint says.
        DataError: if the records are no longer those the run began with.
        BudgetError: if the folder is a copy, and the data set's limit forbids to count its plan once more.
    """
    folder = RunFolder(Path(run))
    if folder.private.is_dir() and not folder.begun and not folder.finished:
        raise RunFolderError(
            f"{folder.path} was cut off before its ledger was written; no budget is used. Start a new run."
        )
    settings = folder.config()
    if folder.finished:
        synthesizer = Synthesizer.load(folder.path)
        if accounts is not None:
            with process.shown() as events, folder.locked():
                enter_finished(folder, accounts, log=lambda text: events(note(text)))
        return synthesizer
    with OpenRun.resume(folder, process=process, ranks=present(), accounts=accounts) as opened:
        if folder.finished:  # by the process that held it a moment ago
            return Synthesizer.load(folder.path)
        if "federated" in settings:
            raise RequestError(
                f"{folder.path} is a federated run. Continue it with the command that began it, `gossamer federated` or "
                "`flwr run`."
            )
        job, saved = opened.job, opened.saved
        sources = DataSources.from_json(folder.source()["sources"]).with_memory(data, public)
        sources.refuse_gone()
        if reason := job.method.without_guarantee:
            opened.log(f"No formal guarantee: epsilon is infinity, because {reason}.")
        loaded = opened.read(sources)
        if not any(opened.ledger.unused) and (saved is None or not job.paid_for(saved[0])):
            raise untrained(folder)
        return train_and_certify(opened.charge(sources, loaded.facts), loaded)
