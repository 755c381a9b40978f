"""Runs and the account book: how `fit` enters a run, how `resume` goes on with one, and how it ends.

The book itself is `privacy/budget_log.py`. Nothing that follows from records reaches the run folder: what a certificate says
of earlier runs is what stands under the data set's *name*. That the book also knows copies of the records by their digest is
for the curator's terminal and for the limit; in a released file it would tell whether one record was added.
"""

import datetime
import math
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.data.card import DataCard
from gossamer.errors import BudgetError, BudgetLogError, LedgerDamaged, RunFolderError
from gossamer.methods import METHODS
from gossamer.privacy.accounting.composition import smallest
from gossamer.privacy.budget_log import BudgetEntry, BudgetLog, Charge, DataSetBudget, OpenBudgetLog
from gossamer.privacy.certificate.certificate import LEDGER
from gossamer.privacy.guarantee import Guarantee
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.storage.data_sources import Found, Sources
from gossamer.run.storage.run_folder import ACCOUNTS, PRIVATE, SOURCE, RunFolder

Say = Callable[[str], None]


def book_at(accounts: str | Path | None, *, beside: RunFolder | None = None) -> BudgetLog:
    """The account book in a folder that was named, else in the user's state folder. The one place that reads the environment.

    Args:
        accounts: the folder; None: gossamer/ in $XDG_STATE_HOME, or in ~/.local/state.
        beside: a run that must not hold the book, because the book has to outlive it.

    Raises:
        BudgetLogError: if the folder lies in the run, or no folder was named and the user has none.
    """
    if accounts is not None:
        folder = Path(accounts).absolute()
        try:
            there = folder.resolve()
        except (RuntimeError, OSError):  # the first up to Python 3.12
            raise BudgetLogError(f"{folder} is a link that leads back to itself. Name another folder.") from None
        inside = beside is not None and beside.path.resolve() in (there, *there.parents)
        own = beside is not None and there == (beside.private / ACCOUNTS).resolve()
        if beside is not None and not own and (inside or _in_a_run(there / ACCOUNTS)):
            raise BudgetLogError(
                f"{folder} lies in a run itself, and the account book has to outlive it. Name another."
            )
        return BudgetLog(folder)
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError:
            raise BudgetLogError(
                "there is no home folder to keep the account book in. Name a folder with --accounts, or set XDG_STATE_HOME."
            ) from None
    return BudgetLog(state / "gossamer")


def _in_a_run(path: Path) -> bool:
    """Whether a path lies in the private folder of a run."""
    return any(each.name == PRIVATE and (each.parent / LEDGER).is_file() for each in path.parents)


@contextmanager
def in_hand(folder: RunFolder, accounts: str | Path | None = None) -> Iterator[None]:
    """Hold a RUN folder, and end first what a kill has interrupted there.

    Args:
        folder: of the run.
        accounts: folder of a book to ask where the run's own is not to be found; None: there is no other.

    Raises:
        RunFolderError: if another process holds it.
        BudgetLogError: if the book is needed, and is not to be found or cannot be read; nothing has been changed then.
    """
    with folder.held():
        settle(folder, accounts)
        yield


def settle(folder: RunFolder, accounts: str | Path | None = None) -> None:
    """Of a finished run that was set aside and the new one in its place, keep the new one if and only if the book has it."""
    folder.settle(new_stays=folder.interrupted and _is_entered(folder, accounts))


def _is_entered(folder: RunFolder, accounts: str | Path | None) -> bool:
    """Whether the run in a folder stands in the book that it was to be entered in, which was made before its ledger."""
    if not (folder.begun and (folder.private / SOURCE).is_file()):
        return False  # of no sources a ledger is what is left where the run was being deleted
    try:
        ledger = PrivacyLedger.load(folder.file(LEDGER))
    except LedgerDamaged:
        return False  # cut off before it was whole, and so before the book was asked
    pages = book_at(folder.source()["accounts"], beside=folder).read()
    if pages.missing and accounts is not None:
        pages = book_at(accounts, beside=folder).read()
    if pages.missing:
        raise BudgetLogError(
            f"there is no account book {pages.where}. It says which run belongs in {folder.path}: the finished one that lies "
            "there set aside, or the one that was to replace it. Mount or restore the book. If it is lost for good, name "
            f"another with `gossamer resume {folder.path} --accounts FOLDER`: where that does not know the new run either, "
            "the finished one comes back. Nothing has been changed."
        )
    return pages.resumable_entry(ledger.sessions, ledger.last_hash, ledger.settled) is not None


def data_set(card: DataCard, sources: Sources) -> str:
    """The name by which the book knows a data set: the card's, or else where the records come from."""
    return card.data_set or place_of(sources)


def place_of(sources: Sources) -> str:
    """Where the records come from, as the book writes it: one name for a source and for its training split."""
    return sources.data.removesuffix(":train")


def charge_of(
    ledger: PrivacyLedger,
    *,
    run: str,
    card: DataCard,
    sources: Sources,
    found: Found,
    method: str,
    folder: Path,
    infinite: bool,
    by_client: bool = False,
) -> Charge:
    """What a run costs, as the book enters it. by_client: it is a federated run, simulated or not."""
    known = {"mark": found.identity.mark, "given_up": found.public_facts.get("share", 0.0), "by_client": by_client}
    return _charge(ledger, run, card, sources, method, folder, infinite=infinite, **known)


def charge_from(folder: RunFolder, ledger: PrivacyLedger) -> Charge:
    """The same from a RUN folder alone, whose settings are those that its ledger pins. Its records are not read.

    Runs of earlier versions did not keep their digest, so that it stays unknown there.
    """
    config_json, source_json = folder.config(), folder.source()
    card, sources = DataCard.from_dict(config_json["card"]), Sources.from_json(source_json["sources"])
    run, method, given_up = config_json.get("run", ""), config_json["method"], config_json["public"].get("share", 0.0)
    infinite, mark = bool(METHODS[method].without_guarantee), source_json["mark"]
    return _charge(
        ledger, run, card, sources, method, folder.path, infinite=infinite, mark=mark, given_up=given_up,
        by_client="federated" in config_json,
    )  # fmt: skip


def _charge(
    ledger: PrivacyLedger, run: str, card: DataCard, sources: Sources, method: str, folder: Path, *, infinite: bool, mark: str,
    given_up: float, by_client: bool,
) -> Charge:  # fmt: skip
    return Charge(
        run=run,
        name=data_set(card, sources),
        mark=mark,
        date=today(),
        method=method,
        folder=str(folder.absolute()),
        plan=tuple(ledger.plan),
        relation=ledger.relation,
        unit=ledger.unit,
        delta=ledger.delta,
        infinite=infinite or math.isinf(ledger.promise().epsilon),
        given_up=given_up,
        place=place_of(sources),
        by_client=by_client,
    )


@dataclass(frozen=True)
class Booked:
    """A run that stands in the book, for as long as this process trains it.

    Args:
        book: the book.
        charge: what was charged.
        session: the word that this process wrote into the run's ledger and into the book.
        say: tells the person at the terminal.
    """

    book: BudgetLog
    charge: Charge
    session: str
    say: Say

    def finish(self, ledger: PrivacyLedger) -> None:
        """Close the entry before the run is certified. If a copy of the run was resumed meanwhile, this run is charged anew.

        Raises:
            BudgetError: if it would have to be charged anew, and a limit forbids it. The run is not certified then.
        """
        with self.book.opened() as pages:
            entry = pages.resumable_entry([self.session], ledger.last_hash, ledger.settled)
            if entry is None:
                pages.budget_of_run(self.charge).refuse_beyond_limit(self.charge)
                entry = pages.add_run(self.charge, self.session)
                self.say("A copy of this run was resumed while it trained: both count, and this one was charged anew.")
            pages.finish(entry, ledger.settled, infinite=bool(ledger.reasons))


def begin(book: BudgetLog, charge: Charge, write: Callable[[dict[str, Any], str], None], *, say: Say) -> Booked:
    """Enter a new run, before it trains.

    Args:
        book: the book.
        charge: what the run costs.
        write: writes the run's folder and its ledger; takes what the settings say of the account, and the session.
        say: tells the person at the terminal.

    Raises:
        BudgetError: if a limit forbids the run; nothing has been written then.
        BudgetLogError: if the book cannot be used.
    """
    session = new_word()
    with book.opened() as pages:
        account = pages.budget_of_run(charge)
        account.refuse_beyond_limit(charge)
        named = pages.budget_under_name(charge.name)
        known = {
            "earlier_runs": len(named.entries),
            "together": smallest(named.spent(charge.delta, charge)).to_json(),
        }
        _tell(pages, account, charge, say)
        write(known, session)
        pages.add_run(charge, session)
    return Booked(book, charge, session, say)


def go_on(book: BudgetLog, charge: Charge, ledger: PrivacyLedger, *, say: Say) -> Booked:
    """Go on with a run: free for the folder that the book knows, the whole plan for a copy of it or an unknown one.

    Raises:
        BudgetError: if the plan has to be charged, and a limit forbids it.
        BudgetLogError: if the book cannot be used.
    """
    session = new_word()
    with book.opened() as pages:
        entry = pages.resumable_entry(ledger.sessions, ledger.last_hash, ledger.settled)
        if entry is None:
            account = pages.budget_of_run(charge)
            account.refuse_beyond_limit(charge)
            say(_why_charged(charge, pages.entries))
            _tell(pages, account, charge, say)
        ledger.begin_session(session)
        if entry is None:
            pages.add_run(charge, session)
        else:
            pages.resume(entry, session)
            charge = entry.charge
    return Booked(book, charge, session, say)


def enter_ended(folder: RunFolder, accounts: str | Path, *, say: Say) -> None:
    """Enter a finished run in a book that does not know it: another machine's, or the right one in place of a mistyped one.

    It has been released already, so that no limit keeps it out: the sum says what is spent. Its own book keeps its charge.

    Args:
        folder: held by this process.
        accounts: folder of the book.
        say: tells the person at the terminal.

    Raises:
        BudgetLogError: if the book cannot be used.
        RunFolderError: if it is a client of a simulation, which is charged once, as a whole.
        LedgerDamaged: if the ledger was changed; nothing has been entered then.
    """
    if _in_a_run(folder.path.resolve()):
        raise RunFolderError(
            f"{folder.path} is a part of another run, which is charged as a whole: name the run that it lies in."
        )
    ledger, source_json = PrivacyLedger.load(folder.file(LEDGER)), folder.source()
    charge = charge_from(folder, ledger)
    with suppress(BudgetLogError):  # its own book knows the digest of the records, of a run of an earlier version too
        entries = book_at(source_json["accounts"]).read().entries
        charge = next((each.charge for each in entries if charge.run and each.charge.run == charge.run), charge)
    sessions = ledger.sessions or [f"ended at {ledger.settled}"]  # of a run that no book was kept of
    with book_at(accounts, beside=folder).opened() as pages:
        entry = pages.resumable_entry(sessions, ledger.last_hash, ledger.settled)
        if entry is None:
            account = pages.budget_of_run(charge)
            _tell(pages, account, charge, say)
            try:
                account.refuse_beyond_limit(charge)
            except BudgetError:
                say(f"That is more than a limit of {charge.name} allows: it is spent, and no further run will pass.")
            entry = pages.add_run(charge, sessions[-1])
        if not entry.finished:
            pages.finish(entry, ledger.settled, infinite=bool(ledger.reasons))
    folder.note_source({**source_json, "accounts": str(Path(accounts).absolute())})


def today() -> str:
    """The date, as the book writes it."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def new_word() -> str:
    """A random word that no other run has."""
    return secrets.token_hex(16)


def _why_charged(charge: Charge, entries: list[BudgetEntry]) -> str:
    if any(entry.charge.run == charge.run for entry in entries):
        return (
            "This folder is a copy of a run that went on, ended or was given up elsewhere, or was put back to an older state. "
            "It counts as a run of its own: its whole plan is charged once more."
        )
    return "The account book does not know this run (another machine, or another book): its whole plan is entered now."


def _tell(pages: OpenBudgetLog, account: DataSetBudget, charge: Charge, say: Say) -> None:
    """What is charged, and what it comes to with the earlier runs; and that there are none, because the book is new."""
    if pages.new and Path(charge.folder) not in pages.where.parents:  # there it is the run's own, as the demo's is
        say(
            f"{new_book(pages)} If yours is elsewhere, `gossamer resume RUN --accounts FOLDER` enters this run there, when it "
            "has ended or you have stopped it."
        )
    told = (
        f"account book: {charge.name} is charged with the whole plan, {worth(charge)}; it stays charged whatever comes."
    )
    if count := len(account.entries):
        sum_ = smallest(account.spent(charge.delta, charge))
        told += f" With the {count} earlier run{'s' if count > 1 else ''} on these records: {sum_}."
    others = [name for name in account.names if name not in (charge.name, charge.place)]
    if others:
        told += (
            f" The book knows the same records as {', '.join(others)} too. A certificate counts the runs under one name only: "
            "give the records one with data_set on their cards."
        )
    say(told)


def new_book(pages: OpenBudgetLog) -> str:
    """What to say where a book has just been made: its folder may be mistyped, or a disk not there."""
    return f"A new account book begins in {pages.where}: it knows of no earlier run and of no limit."


def worth(charge: Charge) -> Guarantee:
    """What one run costs by itself."""
    return smallest(DataSetBudget((), (charge.name,), ()).spent(charge.delta, charge))
