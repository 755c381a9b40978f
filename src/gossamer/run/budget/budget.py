"""`gossamer budget` and `gossamer discard`: what the runs on a data set have spent together, and giving one up."""

import dataclasses
import json
import math
from contextlib import closing
from pathlib import Path
from typing import Any

from gossamer.data.card import DataCard
from gossamer.data.readers.read import EMBEDDED
from gossamer.errors import GossamerError, LedgerDamaged, RequestError, RunFolderError, did_you_mean
from gossamer.privacy.accounting.composition import smallest
from gossamer.privacy.accounting.cost import Bound
from gossamer.privacy.budget_log import BudgetEntry, BudgetLimit, Charge, DataSetBudget, OpenBudgetLog
from gossamer.privacy.certificate.certificate import CONFIG, LEDGER, sha256
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.budget.entry import budget_log_at, charge_of, cost_of, new_log_note, place_of, today
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import RunFolder

_LIFTED_DELTA = 1e-5
"""The delta of a limit that is lifted: it stands nowhere else."""


@dataclasses.dataclass(frozen=True)
class BudgetReport:
    """What `gossamer budget` says of a data set.

    Args:
        account: its runs, names and limits.
        bounds: what the runs have spent together; empty if there are none.
        is_place: whether there is something at the place that its name may be.
        new: what to say of a book that has just been made; empty otherwise.
    """

    account: DataSetBudget
    bounds: tuple[Bound, ...]
    is_place: bool = True
    new: str = ""

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "data_set": list(self.account.names),
            "runs": [
                {
                    "date": entry.charge.date,
                    "method": entry.charge.method,
                    "folder": entry.charge.folder,
                    "status": entry.status,
                    "public_share": entry.charge.given_up,
                    **cost_of(entry.charge).to_json(),
                }
                for entry in self.account.entries
            ],
            "guarantees": [{"accountant": bound.accountant, **bound.guarantee.to_json()} for bound in self.bounds],
            "limits": [limit.to_json() for limit in self.account.limits],
        }

    def lines(self) -> list[str]:
        """In words, one line for each run, then the sum and the limits."""
        name, *aliases = self.account.names
        sentences = [self.new] if self.new else []
        sentences.append(f"{name}, the same records as {', '.join(aliases)}" if aliases else name)
        for entry in self.account.entries:
            charge = entry.charge
            share = f", {charge.given_up:.3g} given up as public" if charge.given_up else ""
            sentences.append(
                f"{charge.date}  {charge.method}  {cost_of(charge)}{share}  {entry.status}  {charge.folder}"
            )
        count = len(self.account.entries)
        if not count:
            sentences.append("no run has been entered")
        else:
            sentences += [f"{bound.accountant}: {bound.guarantee}" for bound in self.bounds if len(self.bounds) > 1]
            sentences.append(f"together, {count} run{'s' if count > 1 else ''}: {smallest(self.bounds)}")
        if any(entry.charge.given_up for entry in self.account.entries):
            sentences.append("The sum protects those who were given up as public in none of these runs.")
        for limit in self.account.limits:
            if math.isinf(limit.epsilon):
                sentences.append(f"{limit.name} has no limit any more: it was lifted on {limit.date}")
                continue
            passing = ", not counting runs without a guarantee" if limit.allow_infinite else ""
            sentences.append(f"limit of {limit.name}: epsilon {limit.epsilon:g} at delta {limit.delta:g}{passing}")
            if self.bounds and not limit.allow_infinite and smallest(self.bounds).epsilon > limit.epsilon:
                sentences.append("More than that has been spent: no further run will pass.")
        if not count and not self.is_place:
            sentences.append(
                f"There is nothing at {name}: a limit binds runs whose card has data_set = {json.dumps(name)}."
            )
        return sentences


def budget(
    data: str,
    *,
    card: str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    allow_infinite: bool = False,
    force: bool = False,
    accounts: str | Path | None = None,
) -> BudgetReport:
    """What the runs on a data set have spent together; with epsilon and delta, its limit is set first. Reads no record.

    The sum stands at the limit's delta, or else at the largest delta of the runs.

    Args:
        data: where the records are, or the name of their data set.
        card: the data's card: its data_set is the name in the budget log.
        epsilon: limit of all runs together; 'inf' lifts it, with `force`. Default: the limit stays, and the use is
            shown.
        delta: delta of the limit; 'inf' needs none.
        allow_infinite: let runs without a guarantee pass the limit, and do not count them.
        force: let a looser limit replace a stricter one.
        accounts: see `run.training.fit.fit`.

    Raises:
        BudgetError: a limit that makes no sense, or is looser than the one that stands.
        BudgetLogError: if the book cannot be used.
    """
    if epsilon == math.inf and delta is None:
        delta = _LIFTED_DELTA
    if (epsilon is None) != (delta is None) or (allow_infinite and epsilon is None):
        raise RequestError("a limit is --epsilon and --delta together, for example --epsilon 10 --delta 1e-5.")
    card_name = DataCard.load(card).data_set if card is not None else ""
    place = place_of(DataSources.of(data, public=None, labels_key=None, units=None))
    budget_log = budget_log_at(accounts)
    log = budget_log.read()
    names = {
        *log.limits,
        *(identifier for entry in log.entries for identifier in (entry.charge.name, entry.charge.place) if identifier),
    }
    base = place.removesuffix(":test")
    is_place = data not in names and (place in names or base in EMBEDDED or Path(base).exists())
    name = card_name or (place if is_place else data)
    if epsilon is not None and delta is not None:
        limit = BudgetLimit(name=name, epsilon=epsilon, delta=delta, allow_infinite=allow_infinite, date=today())
        with budget_log.opened() as log:
            log.set_limit(limit, force=force)
    elif name not in names:
        raise RequestError(
            f"the account book {log.where} knows no data set {name!r}.{did_you_mean(name, names)} Known: "
            f"{', '.join(sorted(names)) or 'none'}. Runs whose card has a data_set stand under that name; --card finds it."
        )
    account, exists = log.budget_of_names(name), bool(card_name) or base in EMBEDDED or Path(base).exists()
    deltas = [limit.delta for limit in account.limits if not math.isinf(limit.epsilon)] or [
        entry.charge.delta for entry in account.entries
    ]
    return BudgetReport(
        account, account.spent(max(deltas)) if deltas else (), exists, new_log_note(log) if log.new else ""
    )


def discard(run: str | Path, *, accounts: str | Path | None = None) -> list[str]:
    """Give up an unfinished run: delete its folder. What it was charged stays in the account book.

    Args:
        run: the RUN folder itself, no link to it.
        accounts: folder of the budget log; default: the one that the run was added to.

    Returns:
        What is lost, in sentences.

    Raises:
        RunFolderError: if the folder holds no unfinished run, or another process has it in its hands.
        BudgetLogError: if the book cannot be used; nothing has been deleted then.
    """
    folder = RunFolder(Path(run))
    _check_unfinished(folder)
    with folder.locked():
        _check_unfinished(folder)
        try:
            log_folder = folder.source()["accounts"]
        except RunFolderError:
            log_folder = None
        with budget_log_at(accounts or log_folder, beside=folder).opened() as log:
            sentences = _discard_entry(folder, log) if _is_intact(folder) else _discard_remains(folder, log)
        folder.remove()
    return sentences


def _is_intact(folder: RunFolder) -> bool:
    """Whether settings and sources can be read, and are those that the run began with, as far as its ledger can tell."""
    try:
        folder.config()
        DataSources.from_json(folder.source()["sources"])
        return PrivacyLedger.load(folder.file(LEDGER)).settings == sha256(folder.file(CONFIG))
    except LedgerDamaged:
        return True  # nothing can tell
    except RunFolderError:
        return False


def _discard_entry(folder: RunFolder, log: OpenBudgetLog) -> list[str]:
    """Note in the book that a run is given up; says what is lost."""
    run, where = folder.config().get("run", ""), str(folder.path.absolute())
    try:
        ledger = PrivacyLedger.resume(folder.file(LEDGER))
    except LedgerDamaged:
        own_entries = [own_entry for own_entry in log.entries if run and own_entry.charge.run == run]
        if not own_entries:
            raise _unknown_run(folder, log, "its ledger cannot be read") from None
        for own_entry in own_entries:
            if own_entry.charge.folder == where:
                log.discard(own_entry, today())
        return [
            f"{folder.path}: given up and deleted; its ledger could not be read. Its charge stays in the account book."
        ]
    with closing(ledger):
        charge, new = charge_of(folder, ledger, folder.config(), folder.source()), []
        entry = _find_entry(ledger, log)
        if entry is not None and _is_elsewhere(run, entry.charge.folder, folder):
            return [_copy_note(folder, entry)]
        if entry is None and not _is_counted(run, ledger, folder, log):
            entry = log.add_run(charge, _discard_token(ledger))  # what it has released is known here alone
            new = [
                f"The account book {log.where} did not have what this folder has released (a copy that went on by itself, a "
                "run whose folder was moved, or another book's): its plan was entered now."
            ]
        if entry is not None:
            log.discard(entry, today())
        return [*_discard_summary(folder, ledger, charge), *new]


def _discard_remains(folder: RunFolder, log: OpenBudgetLog) -> list[str]:
    """The same for what a kill has left of a run that was given up, or of one whose settings or sources are gone or changed."""
    sentence = f"{folder.path}: what was left of a run is deleted. Its charge stays in the account book."
    try:
        ledger = PrivacyLedger.resume(folder.file(LEDGER))
    except LedgerDamaged:
        if any(entry.discarded and entry.charge.folder == str(folder.path.absolute()) for entry in log.entries):
            return [sentence]  # given up before, and a kill came while it was deleted
        raise _unknown_run(
            folder, log, "its ledger cannot be read, and its settings or its sources are gone or changed"
        ) from None
    with closing(ledger):
        entry = _find_entry(ledger, log)
        if entry is None and not _is_discarded(ledger, log):
            raise _unknown_run(folder, log, "its settings or its sources are gone or changed")
        if entry is not None and _is_elsewhere(entry.charge.run, entry.charge.folder, folder):
            return [_copy_note(folder, entry)]
        if entry is not None:
            log.discard(entry, today())
    return [sentence]


def _find_entry(ledger: PrivacyLedger, log: OpenBudgetLog) -> BudgetEntry | None:
    """The entry that the folder of this ledger holds; also one that was made to give it up, where a kill came before that."""
    return log.resumable_entry([*ledger.sessions, _discard_token(ledger)], ledger.last_hash, ledger.settled)


def _discard_token(ledger: PrivacyLedger) -> str:
    """In place of a session, for what is entered and given up at once: no ledger has it, so that nobody goes on with it."""
    return f"given up at {ledger.settled}"


def _copy_note(folder: RunFolder, entry: BudgetEntry) -> str:
    original = entry.charge.folder
    return f"{folder.path}: a copy of the run in {original}, deleted. That one stays as it is, and so does its charge."


def _unknown_run(folder: RunFolder, log: OpenBudgetLog, why: str) -> RunFolderError:
    return RunFolderError(
        f"{folder.path}: {why}, and the account book {log.where} does not know the run, so that nobody can enter what it has "
        "spent. Name its book with --accounts. If there is none, restore the folder from a copy; or delete it yourself, and "
        "count its whole plan as spent."
    )


def _is_discarded(ledger: PrivacyLedger, log: OpenBudgetLog) -> bool:
    """Whether the book says that the run of this very ledger was given up: a kill came before its folder was deleted."""
    return any(
        entry.discarded and entry.session in (*ledger.sessions[-1:], _discard_token(ledger)) for entry in log.entries
    )


def _is_counted(run: str, ledger: PrivacyLedger, folder: RunFolder, log: OpenBudgetLog) -> bool:
    """Whether all that this ledger has paid for is in the book: the run was given up, or this is a copy of its beginning.

    The last is so where the ledger in the run's own folder holds the last line of this one that is no session: hashes are
    chained, so that it holds all lines before. A folder that went on by itself after it was copied has lines of its own.
    """
    if _is_discarded(ledger, log):
        return True
    last = f'"hash": "{ledger.settled}"'.encode()
    return any(
        entry.charge.run == run
        and _is_elsewhere(run, entry.charge.folder, folder)
        and last in (Path(entry.charge.folder) / LEDGER).read_bytes()
        for entry in log.entries
    )


def _is_elsewhere(run: str, place: str, folder: RunFolder) -> bool:
    """Whether the folder in which a run was entered still holds it, and is not this one under another name."""
    original = RunFolder(Path(place))
    try:
        return original.begun and original.config().get("run") == run and not original.path.samefile(folder.path)
    except (GossamerError, OSError):
        return False


def _check_unfinished(folder: RunFolder) -> None:
    if folder.path.is_symlink():
        raise RunFolderError(f"{folder.path} is a link. Name the run's folder itself.")
    if not folder.begun:
        raise RunFolderError(f"{folder.path} holds no run that has begun: there is nothing to give up.")
    if folder.finished:
        raise RunFolderError(
            f"{folder.path} holds a finished run: its certificate may be in use. To remove it, delete the folder; the budget "
            "log keeps its cost."
        )


def _discard_summary(folder: RunFolder, ledger: PrivacyLedger, charge: Charge) -> list[str]:
    paid, reserved = sum(count for _, count in ledger.charged), sum(count for _, count in ledger.plan)
    return [
        f"{folder.path}: given up and deleted, with {paid:,} of {reserved:,} releases charged, {ledger.spent()}.",
        f"The account book keeps its whole plan under {charge.name}: {cost_of(charge)}.",
    ]
