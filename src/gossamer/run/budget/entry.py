"""Runs and the budget log (`privacy/budget_log.py`): how a run is added, goes on and ends.

The certificate counts earlier runs under the data set's *name* only. The log also finds copies of the records by their digest.
That count is for the data owner's terminal and the limit: in a release it would reveal whether one record was added.
"""

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gossamer.data.tables.any_card import card_from
from gossamer.errors import BudgetError, BudgetLogError, RunFolderError
from gossamer.files import LEDGER
from gossamer.methods import method_of
from gossamer.privacy.accounting import federated
from gossamer.privacy.accounting.cost import smallest
from gossamer.privacy.budget_log import BudgetEntry, BudgetLog, Charge, DataSetBudget, OpenBudgetLog
from gossamer.privacy.certificate.statements import role_of
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import ACCOUNTS, PRIVATE, RunFolder, today
from gossamer.run.storage.state_folder import state_folder

Log = Callable[[str], None]


def budget_log_at(accounts: str | Path | None, *, beside: RunFolder | None = None) -> BudgetLog:
    """Return the budget log of a folder, or that of the user's state folder.

    Args:
        accounts: the folder; None: gossamer/ in $XDG_STATE_HOME, or in ~/.local/state.
        beside: a run that must not hold the log, because the log has to outlive it.

    Raises:
        BudgetLogError: if the folder lies in the run, or no folder was named and the user has none.
    """
    if accounts is not None:
        folder = Path(accounts).absolute()
        try:
            resolved = folder.resolve()
        except (RuntimeError, OSError):  # the first up to Python 3.12
            raise BudgetLogError(f"{folder} is a link that leads back to itself. Name another folder.") from None
        inside = beside is not None and beside.path.resolve() in (resolved, *resolved.parents)
        own = beside is not None and resolved == (beside.private / ACCOUNTS).resolve()
        if beside is not None and not own and (inside or _in_a_run(resolved / ACCOUNTS)):
            raise BudgetLogError(f"{folder} lies in a run itself, and the budget log has to outlive it. Name another.")
        return BudgetLog(folder)
    return BudgetLog(state_folder())


def _in_a_run(path: Path) -> bool:
    """Whether a path lies in the private folder of a run."""
    return any(folder.name == PRIVATE and (folder.parent / LEDGER).is_file() for folder in path.parents)


def place_of(sources: DataSources) -> str:
    """Where the records come from, as the log writes it: one name for a source and for its training split."""
    return sources.name.removesuffix(":train")


def charge_of(
    folder: RunFolder,
    ledger: PrivacyLedger,
    config_json: Mapping[str, Any],
    source_json: Mapping[str, Any],
    *,
    reproducible: bool = False,
) -> Charge:
    """What a run costs, as the budget log enters it. Reads no record.

    Args:
        folder: of the run.
        ledger: holds its plan.
        config_json: its public settings.
        source_json: its private sources.
        reproducible: whether its noise has a fixed seed, so that its epsilon is infinity.
    """
    card, method = card_from(config_json["card"]), method_of(config_json["method"], folder=folder.path)
    place = place_of(DataSources.from_json(source_json["sources"]))
    return Charge(
        run=config_json.get("run", ""),
        name=card.data_set or place,
        mark=source_json["mark"],
        date=today(),
        method=method.name,
        folder=str(folder.path.absolute()),
        plan=tuple(ledger.plan),
        relation=ledger.relation,
        unit=ledger.unit,
        delta=ledger.delta,
        infinite=reproducible or bool(method.without_guarantee) or math.isinf(ledger.promise().epsilon),
        given_up=config_json["public"].get("share", 0.0),
        place=place,
        by_client=role_of(config_json) in federated.TRUST,
    )


@dataclass(frozen=True)
class RunEntry:
    """A run in the budget log, for as long as this process trains it.

    Args:
        budget_log: the budget log.
        charge: the cost of the run.
        session: the random word that this process wrote into the run's ledger and into the log.
        log: shows a note on the terminal.
    """

    budget_log: BudgetLog
    charge: Charge
    session: str
    log: Log

    def declassify(self) -> None:
        """Note that a value is to leave the run without a mechanism, before it does.

        Raises:
            BudgetError: if a limit forbids that.
        """
        if self.charge.infinite:
            return
        infinite = replace(self.charge, infinite=True)
        with self.budget_log.opened() as open_log:
            open_log.budget_of_run(infinite).refuse_beyond_limit(infinite)
            if (entry := open_log.resumable_entry([self.session])) is None:  # a copy of this run was resumed meanwhile
                entry = open_log.add_run(self.charge, self.session)
            open_log.declassify(entry)

    def finish(self, ledger: PrivacyLedger) -> None:
        """Close the entry before the run is certified. If a copy of the run was resumed meanwhile, add this run once more.

        Raises:
            BudgetError: if a limit forbids that. The run is not certified then.
        """
        with self.budget_log.opened() as open_log:
            entry = open_log.resumable_entry([self.session], ledger.last_hash, ledger.settled)
            if entry is None:
                open_log.budget_of_run(self.charge).refuse_beyond_limit(self.charge)
                entry = open_log.add_run(self.charge, self.session)
                self.log("A copy of this run was resumed meanwhile. Both count: this one was added again.")
            open_log.finish(entry, ledger.settled, infinite=bool(ledger.reasons))


def add_entry(
    budget_log: BudgetLog, charge: Charge, write: Callable[[dict[str, Any], str], None], *, log: Log
) -> RunEntry:
    """Add a new run, before it trains.

    Args:
        budget_log: the budget log.
        charge: what the run costs.
        write: writes the run's folder and ledger; takes what the settings say of earlier runs, and the session.
        log: shows a note on the terminal.

    Raises:
        BudgetError: if a limit forbids the run; nothing has been written then.
        BudgetLogError: if the log cannot be used.
    """
    session = new_run_id()
    with budget_log.opened() as open_log:
        account = open_log.budget_of_run(charge)
        account.refuse_beyond_limit(charge)
        same_name = open_log.budget_under_name(charge.name)
        log_facts = {
            "earlier_runs": len(same_name.entries),
            "together": smallest(same_name.spent(charge.delta, charge)).to_json(),
        }
        _log_charge(open_log, account, charge, log)
        write(log_facts, session)
        open_log.add_run(charge, session)
    return RunEntry(budget_log, charge, session, log)


def resume_entry(budget_log: BudgetLog, charge: Charge, ledger: PrivacyLedger, *, log: Log) -> RunEntry:
    """Go on with a run. It costs nothing in the folder that the log knows; a copy or an unknown run uses its whole plan.

    Raises:
        BudgetError: if a limit forbids the plan.
        BudgetLogError: if the log cannot be used.
    """
    session = new_run_id()
    with budget_log.opened() as open_log:
        entry = open_log.resumable_entry(ledger.sessions, ledger.last_hash, ledger.settled)
        if entry is None:
            account = open_log.budget_of_run(charge)
            account.refuse_beyond_limit(charge)
            log(_why_charged(charge, open_log.entries))
            _log_charge(open_log, account, charge, log)
        ledger.begin_session(session)
        if entry is None:
            open_log.add_run(charge, session)
        else:
            open_log.resume(entry, session)
            charge = entry.charge
    return RunEntry(budget_log, charge, session, log)


def enter_finished(folder: RunFolder, accounts: str | Path, *, log: Log) -> None:
    """Add a finished run to another budget log. Its own log keeps it too.

    No limit refuses it: its budget is used already, and the sum must include it.

    Args:
        folder: locked by this process.
        accounts: folder of the log.
        log: shows a note on the terminal.

    Raises:
        BudgetLogError: if the log cannot be used.
        RunFolderError: if it is a client of a simulation, which counts once, as a whole.
        LedgerDamaged: if the ledger was changed; nothing has been added then.
    """
    if _in_a_run(folder.path.resolve()):
        raise RunFolderError(
            f"{folder.path} is a part of another run, which counts as a whole: name the run that it lies in."
        )
    ledger, source_json = PrivacyLedger.load(folder.file(LEDGER)), folder.source()
    charge = charge_of(folder, ledger, folder.config(), source_json)
    sessions = ledger.sessions or [f"ended at {ledger.settled}"]  # of a run without a log
    with budget_log_at(accounts, beside=folder).opened() as open_log:
        entry = open_log.resumable_entry(sessions, ledger.last_hash, ledger.settled)
        if entry is None:
            account = open_log.budget_of_run(charge)
            _log_charge(open_log, account, charge, log)
            try:
                account.refuse_beyond_limit(charge)
            except BudgetError:
                log(f"That is more than a limit of {charge.name} allows: no further run will pass.")
            entry = open_log.add_run(charge, sessions[-1])
        if not entry.finished:
            open_log.finish(entry, ledger.settled, infinite=bool(ledger.reasons))
    folder.note_source({**source_json, "accounts": str(Path(accounts).absolute())})


def new_run_id() -> str:
    """Return a random word that no other run has."""
    return secrets.token_hex(16)


def _why_charged(charge: Charge, entries: list[BudgetEntry]) -> str:
    if any(entry.charge.run == charge.run for entry in entries):
        return "This folder is a copy, or an older state, of a run in the budget log. Its whole plan counts once more."
    return "The budget log does not know this run (another machine, or another log): its whole plan is added now."


def _log_charge(open_log: OpenBudgetLog, account: DataSetBudget, charge: Charge, log: Log) -> None:
    """Say what the run costs, what the sum with the earlier runs is, and whether the log is new."""
    in_run = Path(charge.folder) in open_log.where.parents  # the run's own budget log, as the demo's is
    if open_log.new and not in_run:
        log(
            f"{new_log_note(open_log)} If you keep a budget log in another FOLDER, add this run there, "
            "too, once it has ended or stopped: `gossamer.resume(RUN, accounts=FOLDER)`."
        )
    message = f"Budget log: this run uses {charge.cost}, of the budget of {charge.name}. A stop changes nothing."
    if count := len(account.entries):
        sum_ = smallest(account.spent(charge.delta, charge))
        message += f" With the {count} earlier run{'s' if count > 1 else ''} on these records: {sum_}."
    aliases = [name for name in account.names if name not in (charge.name, charge.place)]
    if aliases:
        message += (
            f" The log has the same records as {', '.join(aliases)} too. A certificate counts runs under one name "
            "only: write one data_set on all cards of these records."
        )
    log(message)


def new_log_note(open_log: OpenBudgetLog) -> str:
    """Say that the log is new: its folder may be mistyped, or a disk missing."""
    return f"A new budget log begins in {open_log.where}: it has no earlier run and no limit."
