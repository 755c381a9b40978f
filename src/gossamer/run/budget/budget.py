"""`gossamer budget` and `gossamer discard`: what all runs on a data set have used, and how to delete an unfinished one."""

import dataclasses
import json
import math
from contextlib import closing
from pathlib import Path
from typing import Any

from gossamer.data.source import Source
from gossamer.data.sources.pictures.read import EMBEDDED
from gossamer.data.tables.any_card import AnyCard, load_card
from gossamer.errors import GossamerError, LedgerDamaged, RequestError, RunFolderError, did_you_mean
from gossamer.files import CONFIG, LEDGER
from gossamer.kinds import kind_of
from gossamer.privacy.accounting.cost import Bound, smallest
from gossamer.privacy.budget_log import BudgetEntry, BudgetLimit, DataSetBudget, OpenBudgetLog
from gossamer.privacy.certificate.certificate import sha256
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.budget.entry import budget_log_at, charge_of, new_log_note, place_of
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import RunFolder, today
from gossamer.run.validation import checked_arguments

_LIFTED_DELTA = 1e-5
"""The delta of a limit that is lifted; it has no effect."""


@dataclasses.dataclass(frozen=True)
class BudgetReport:
    """What `gossamer budget` reports on a data set.

    Args:
        account: its runs, names and limits.
        bounds: what the runs have used together; empty if there are none.
        is_place: whether there is something at the place that its name may be.
        new: a note on a log that has just been made; empty otherwise.
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
                    **entry.charge.cost.to_json(),
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
            share = f", {charge.given_up:.3g} made public" if charge.given_up else ""
            sentences.append(f"{charge.date}  {charge.method}  {charge.cost}{share}  {entry.status}  {charge.folder}")
        count = len(self.account.entries)
        if not count:
            sentences.append("no run yet")
        else:
            sentences += [f"{bound.accountant}: {bound.guarantee}" for bound in self.bounds if len(self.bounds) > 1]
            sentences.append(f"together, {count} run{'s' if count > 1 else ''}: {smallest(self.bounds)}")
        if any(entry.charge.given_up for entry in self.account.entries):
            sentences.append("The sum protects those who were made public in none of these runs.")
        for limit in self.account.limits:
            if math.isinf(limit.epsilon):
                sentences.append(f"{limit.name} has no limit any more: it was lifted on {limit.date}")
                continue
            passing = ", not counting runs without a guarantee" if limit.allow_infinite else ""
            sentences.append(f"limit of {limit.name}: epsilon {limit.epsilon:g} at delta {limit.delta:g}{passing}")
            if self.bounds and not limit.allow_infinite and smallest(self.bounds).epsilon > limit.epsilon:
                sentences.append("More than that is used: no further run will pass.")
        if not count and not self.is_place:
            sentences.append(
                f"There is nothing at {name}: a limit binds runs whose card has data_set = {json.dumps(name)}."
            )
        return sentences


@checked_arguments
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
    """Report what the runs on a data set have used together; with epsilon and delta, set its limit first. Reads no record.

    The sum is at the limit's delta, or else at the largest delta of the runs.

    Args:
        data: where the records are, or the name of their data set.
        card: data card of the records. Its data_set, if it has one, is the name in the budget log.
        epsilon: limit of the total epsilon of all runs. 'inf' removes the limit, with `force`. Default: keep the limit,
            show what is used.
        delta: chance that the limit's epsilon bound fails, for example 1e-5. Not needed with 'inf'.
        allow_infinite: allow runs without a guarantee. They do not count towards the limit.
        force: replace a limit by a larger one.
        accounts: see `run.training.fit.fit`.

    Raises:
        BudgetError: if a limit makes no sense, or is looser than the one that is set.
        BudgetLogError: if the log cannot be used.
    """
    if epsilon == math.inf and delta is None:
        delta = _LIFTED_DELTA
    if (epsilon is None) != (delta is None) or (allow_infinite and epsilon is None):
        raise RequestError("a limit is `epsilon` and `delta` together, for example `epsilon=10` and `delta=1e-5`.")
    card_name = load_card(card).data_set if card is not None else ""
    place = place_of(DataSources.of(data))
    budget_log = budget_log_at(accounts)
    log = budget_log.read()
    names = {
        *log.limits,
        *(identifier for entry in log.entries for identifier in (entry.charge.name, entry.charge.place) if identifier),
    }
    base = place.removesuffix(":test")
    exists = base in EMBEDDED or Path(base).exists()
    is_place = data not in names and (place in names or exists)
    name = card_name or (place if is_place else data)
    if epsilon is not None and delta is not None:
        limit = BudgetLimit(name=name, epsilon=epsilon, delta=delta, allow_infinite=allow_infinite, date=today())
        with budget_log.opened() as log:
            log.set_limit(limit, force=force)
    elif name not in names:
        raise RequestError(
            f"the budget log {log.where} has no data set {name!r}.{did_you_mean(name, names)} Known: "
            f"{', '.join(sorted(names)) or 'none'}. If your card names a data_set, give `card`."
        )
    account = log.budget_of_names(name)
    return BudgetReport(account, _sum(account), bool(card_name) or exists, new_log_note(log) if log.new else "")


def budget_of_records(data: Source, card: AnyCard, *, look: bool = True) -> BudgetReport:
    """Report what the runs on these very records have used together, also under other names.

    The report is for the owner alone: what it says depends on the records.

    Args:
        data: the records. All of them are read if the log has runs under other names.
        card: their card.
        look: False reads no record, and reports the runs under this name and from this place.

    Raises:
        GossamerError: if the records or the log cannot be read.
    """
    place, kind, log = place_of(DataSources.of(data)), kind_of(card), budget_log_at(None).read()
    account = log.budget_of_names(card.data_set or place, place)
    if look and len(account.entries) < len(log.entries):
        mark = kind.identify(kind.read(data, card)).mark
        account = log.budget_of_names(card.data_set or place, place, mark=mark)
    return BudgetReport(account, _sum(account))


def _sum(account: DataSetBudget) -> tuple[Bound, ...]:
    """What the runs of an account have used together, at the largest delta of its limits, or else of its runs."""
    deltas = [limit.delta for limit in account.limits if not math.isinf(limit.epsilon)] or [
        entry.charge.delta for entry in account.entries
    ]
    return account.spent(max(deltas)) if deltas else ()


@checked_arguments
def discard(run: str | Path, *, accounts: str | Path | None = None) -> list[str]:
    """Delete the folder of an unfinished run. Its cost stays in the budget log.

    Args:
        run: the RUN folder itself, no link to it.
        accounts: folder of the budget log. Default: the log that the run is in.

    Returns:
        What is lost, in sentences.

    Raises:
        RunFolderError: if the folder holds no unfinished run, or another process uses it.
        BudgetLogError: if the log cannot be used; nothing has been deleted then.
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
            sentences = _discard(folder, log)
        folder.remove()
    return sentences


def _is_intact(folder: RunFolder) -> bool:
    """Whether settings and sources can be read, and the ledger does not show that they were changed."""
    try:
        folder.config()
        DataSources.from_json(folder.source()["sources"])
        return PrivacyLedger.load(folder.file(LEDGER)).settings == sha256(folder.file(CONFIG))
    except LedgerDamaged:
        return True  # unknown
    except RunFolderError:
        return False


def _discard(folder: RunFolder, log: OpenBudgetLog) -> list[str]:
    """Mark a run as deleted in the log, and say what is lost.

    Settings or sources may be gone or changed, also because a kill came while the run was deleted. Its log must know it then.
    """
    where, intact = str(folder.path.absolute()), _is_intact(folder)
    run = folder.config().get("run", "") if intact else ""
    remains = f"{folder.path}: what was left of a run is deleted. Its cost stays in the budget log."
    try:
        ledger = PrivacyLedger.resume(folder.file(LEDGER))
    except LedgerDamaged:
        if not intact and any(entry.discarded and entry.charge.folder == where for entry in log.entries):
            return [remains]
        own_entries = [entry for entry in log.entries if run and entry.charge.run == run]
        if not own_entries:
            raise _unknown_run(folder, log, "its ledger cannot be read") from None
        for own_entry in own_entries:
            if own_entry.charge.folder == where:
                log.discard(own_entry, today())
        return [f"{folder.path}: deleted; its ledger could not be read. Its cost stays in the budget log."]
    with closing(ledger):
        entry, sentences = _find_entry(ledger, log), [remains]
        if entry is not None and _is_elsewhere(entry.charge.run, entry.charge.folder, folder):
            original = entry.charge.folder
            return [f"{folder.path}: a copy of the run in {original}, deleted. That run and its cost stay as they are."]
        if intact:
            charge = charge_of(folder, ledger, folder.config(), folder.source())
            paid, reserved = (sum(count for _, count in plan) for plan in (ledger.charged, ledger.plan))
            sentences = [
                f"{folder.path}: deleted after {paid:,} of {reserved:,} noisy queries, {ledger.spent()}.",
                f"The budget log keeps its whole plan under {charge.name}: {charge.cost}.",
            ]
            if entry is None and not _is_counted(run, ledger, folder, log):
                entry = log.add_run(charge, _discard_token(ledger))  # no other folder records its queries
                sentences.append(
                    f"The budget log {log.where} did not know the queries of this folder: its whole plan was added now."
                )
        elif entry is None and not _is_discarded(ledger, log):
            raise _unknown_run(folder, log, "its settings or its sources are gone or changed")
        if entry is not None:
            log.discard(entry, today())
        return sentences


def _find_entry(ledger: PrivacyLedger, log: OpenBudgetLog) -> BudgetEntry | None:
    """Return the entry of this ledger's folder. After a kill it may be one that `_discard` has added."""
    return log.resumable_entry([*ledger.sessions, _discard_token(ledger)], ledger.last_hash, ledger.settled)


def _discard_token(ledger: PrivacyLedger) -> str:
    """Return a session for a run that is added and deleted at once. No ledger has it, so no folder can resume it."""
    return f"given up at {ledger.settled}"


def _unknown_run(folder: RunFolder, log: OpenBudgetLog, why: str) -> RunFolderError:
    return RunFolderError(
        f"{folder.path}: {why}, and the budget log {log.where} does not know the run. Name its log with `accounts`, or restore "
        "the folder from a copy. If you delete it yourself, count its whole plan as used."
    )


def _is_discarded(ledger: PrivacyLedger, log: OpenBudgetLog) -> bool:
    """Whether the run of this very ledger is marked as deleted in the log: a kill came before its folder was."""
    return any(
        entry.discarded and entry.session in (*ledger.sessions[-1:], _discard_token(ledger)) for entry in log.entries
    )


def _is_counted(run: str, ledger: PrivacyLedger, folder: RunFolder, log: OpenBudgetLog) -> bool:
    """Whether the log counts all queries of this ledger: the run was discarded, or this is a copy of its beginning.

    It is a copy where the ledger in the run's own folder holds the last line of this one that is no session. Hashes are
    chained, so that ledger holds all lines before, too. A folder that went on after it was copied has lines of its own.
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
    """Whether the folder in the log still holds the run, and is not this one under another name."""
    original = RunFolder(Path(place))
    try:
        return original.begun and original.config().get("run") == run and not original.path.samefile(folder.path)
    except (GossamerError, OSError):
        return False


def _check_unfinished(folder: RunFolder) -> None:
    if folder.path.is_symlink():
        raise RunFolderError(f"{folder.path} is a link. Name the run's folder itself.")
    if not folder.begun:
        raise RunFolderError(f"{folder.path} holds no run that has begun: there is nothing to discard.")
    if folder.finished:
        raise RunFolderError(
            f"{folder.path} holds a finished run. To remove it, delete the folder; the budget log keeps its cost."
        )
