"""The budget log: the cumulative cost of all runs on one data set, and the limit of that cost.

It is one private file (mode 0600, in a folder of mode 0700) of JSON lines. Hashes chain the lines, and lines are only appended:

    {"open": {"format": 1}, "hash": "..."}
    {"limit": {"name": "clinic-2026", "epsilon": 10.0, "delta": 1e-05, "allow_infinite": false, "date": "..."}, "hash": "..."}
    {"charge": {"run": "6b...", "name": "clinic-2026", "mark": "9a...", "plan": [...], ...}, "session": "c1...", "hash": "..."}
    {"session": "77...", "entry": 0, "hash": "..."}
    {"finished": "<last hash of the run's ledger, sessions at its end aside>", "entry": 0, "infinite": false, "hash": "..."}
    {"infinite": true, "entry": 0, "hash": "..."}
    {"discarded": "2026-11-23", "entry": 0, "hash": "..."}

**What a run costs.** A run costs its whole reserved plan, from before it begins. No line takes a cost back.

**Which runs add up.** Runs with the same name add up, and so do runs with the same mark. The mark is the digest of the records:
a copy of the records under another name is the same data set. Both links are followed to the end.

**Which folder may resume a run.** `fit` and `resume` write a random token, the session, into the run's ledger and then here.
Training begins after that. Only the folder whose ledger holds the newest session of an entry may resume it. If a run folder was
copied, the first copy to resume takes the entry, and the other copy becomes a run with its own cost. The end of a run takes its
session too, so a copy made during training cannot resume for free. After a crash between the two writes the ledger has a
session that this log lacks. Then the session before it counts.

Processes wait for one another. A crash may leave an incomplete last line. Its run had not begun, so the line is overwritten.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any

from gossamer.errors import BudgetError, BudgetLogError, LedgerDamaged
from gossamer.files import hold, sync_folder
from gossamer.privacy.accounting.composition import RunCost, together
from gossamer.privacy.accounting.cost import Bound, smallest
from gossamer.privacy.guarantee import RELATION_NAMES, RELATIONS, Guarantee, as_json, rounded_up
from gossamer.privacy.ledger import START, chained, plan_from_json, plan_to_json, read_line, write_synced

FILE = "accounts.jsonl"
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Charge(RunCost):
    """The cost of one run, its whole reserved plan, and the facts that identify the run.

    Args:
        run: the random word in the run's settings.
        name: of the data set: from the card, or where the records come from.
        mark: digest of the records.
        given_up: share of the units that the user made public; the total cost does not cover them.
        place: path of the records.
    """

    run: str
    name: str
    mark: str
    date: str
    method: str
    folder: str
    delta: float
    given_up: float = 0.0
    place: str = ""

    @property
    def cost(self) -> Guarantee:
        """What the run costs by itself."""
        return smallest(together([self], delta=self.delta))

    def to_json(self) -> dict[str, Any]:
        """Return the object of a line."""
        return {**vars(self), "plan": plan_to_json(self.plan), "relation": RELATION_NAMES[self.relation]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Charge":
        """The inverse of `to_json`."""
        if data.keys() != {each.name for each in fields(cls)}:
            raise ValueError("not the cost of a run")
        return cls(**{**data, "plan": tuple(plan_from_json(data["plan"])), "relation": RELATIONS[data["relation"]]})


@dataclass(eq=False)
class BudgetEntry:
    """The cost of a run, and its status.

    Args:
        session: the newest session token, also in the run's ledger.
        finished: the last hash of the ledger at the end of the run; empty before the end.
        discarded: the user deleted the unfinished run.
    """

    charge: Charge
    session: str
    finished: str = ""
    discarded: bool = False

    @property
    def status(self) -> str:
        """A word or two for the status."""
        return "given up" if self.discarded else "finished" if self.finished else "unfinished"


@dataclass(frozen=True, kw_only=True)
class BudgetLimit:
    """The budget limit: the most that all runs on a data set may use together.

    Args:
        epsilon: the limit; infinity for none.
        delta: of the statement about all runs.
        allow_infinite: runs without a guarantee may start, and do not count.
    """

    name: str
    epsilon: float
    delta: float
    allow_infinite: bool = False
    date: str = ""

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise BudgetError(f"the limit's epsilon must be above 0, not {self.epsilon:g}.")
        if not 0 < self.delta < 1:
            raise BudgetError(f"the limit's delta must lie between 0 and 1, not {self.delta:g}; 1e-5 is usual.")

    def within(self, other: "BudgetLimit") -> bool:
        """Whether it is at least as strict as the other limit."""
        stricter = self.epsilon <= other.epsilon and self.delta <= other.delta
        return stricter and self.allow_infinite <= other.allow_infinite

    def to_json(self) -> dict[str, Any]:
        """Return the object of a line."""
        return {**vars(self), "epsilon": as_json(self.epsilon)}


@dataclass(frozen=True)
class DataSetBudget:
    """The runs of one data set, oldest first, all its names, the requested name first, and the limits of these names."""

    entries: tuple[BudgetEntry, ...]
    names: tuple[str, ...]
    limits: tuple[BudgetLimit, ...]

    def spent(self, delta: float, *more: Charge) -> tuple[Bound, ...]:
        """Return bounds on the cost of its runs and `more` runs together; empty without runs."""
        runs = [*(entry.charge for entry in self.entries), *more]
        return together(runs, delta=delta) if runs else ()

    def refuse_beyond_limit(self, charge: Charge) -> None:
        """Refuse a run that would exceed a limit of the data set.

        Raises:
            BudgetError: names the limit and the total cost.
        """
        for limit in self.limits:
            if math.isinf(limit.epsilon) or (limit.allow_infinite and charge.infinite):
                continue
            charges = [entry.charge for entry in self.entries]
            runs = [each for each in charges if not (limit.allow_infinite and each.infinite)]
            total = smallest(together([*runs, charge], delta=limit.delta))
            if total.epsilon > limit.epsilon:
                names = [each.name for each in charges]  # no run may have the name of the limit
                there = charge.name if charge.name in names else next(iter(names), limit.name)
                raise BudgetError(
                    f"{limit.name} may use epsilon {limit.epsilon:g} at delta {limit.delta:g} in all (see `gossamer.budget("
                    f"{there!r})`). This run and {len(runs)} before it would use epsilon {rounded_up(total.epsilon)}. Ask for "
                    f"less, or raise the limit: `gossamer.budget({limit.name!r}, epsilon=E, delta=D, force=True)`."
                )


def _whole(place: str) -> str:
    """Return the folder of a subfolder `train`, else the path itself: a run on either trains on the same records."""
    return place.removesuffix("/train") or place


@dataclass
class OpenBudgetLog:
    """The content of a budget log, and methods that append lines. Made by `BudgetLog.opened` and `BudgetLog.read`."""

    where: Path
    entries: list[BudgetEntry] = field(default_factory=list)
    limits: dict[str, BudgetLimit] = field(default_factory=dict)
    new: bool = False
    """The log was created just now."""
    _file: IO[bytes] | None = None
    _end: int = 0
    _last_hash: str = START

    def budget_of_names(self, *names: str, mark: str = "") -> DataSetBudget:
        """Return the runs and limits of the data set with these names or paths, or this mark. Links are followed to the end.

        A path with a limit is a link too: all runs that read from it add up, under any name and with any records.
        """
        linked, marks, places = dict.fromkeys(names), {mark} - {""}, {_whole(name) for name in names if name}
        limited = {_whole(name) for name, limit in self.limits.items() if not math.isinf(limit.epsilon)}
        entries: list[BudgetEntry] = []
        while True:
            matching = [
                entry
                for entry in self.entries
                if entry.charge.name in linked or entry.charge.mark in marks or _whole(entry.charge.place) in places
            ]
            if len(matching) == len(entries):
                bound = {*linked, *(_whole(entry.charge.place) for entry in entries)}
                limits = tuple(limit for name, limit in self.limits.items() if name in linked or _whole(name) in bound)
                return DataSetBudget(tuple(entries), tuple(linked), limits)
            entries = matching
            linked |= dict.fromkeys(entry.charge.name for entry in entries)
            marks |= {entry.charge.mark for entry in entries} - {""}
            places |= {_whole(entry.charge.place) for entry in entries} & limited

    def budget_of_run(self, charge: Charge) -> DataSetBudget:
        """Return the runs and limits that a run adds up with.

        A limit of its path applies under any name. So does a limit of any path from which the same records were read before.
        """
        places = [name for name in self.limits if charge.place and _whole(name) == _whole(charge.place)]
        return self.budget_of_names(charge.name, *places, mark=charge.mark)

    def budget_under_name(self, name: str) -> DataSetBudget:
        """Return the runs with exactly this name. The result depends on no record, so a certificate may state it."""
        return DataSetBudget(tuple(entry for entry in self.entries if entry.charge.name == name), (name,), ())

    def resumable_entry(self, sessions: Sequence[str], *hashes: str) -> BudgetEntry | None:
        """Return the entry that the folder of this ledger may resume; None: another folder has it, or no entry matches.

        A finished run may be certified again, also after a crash between the new session in the ledger and in this log.

        Args:
            sessions: all those of the run's ledger.
            hashes: last hashes of the ledger, with and without the sessions at its end.
        """
        for session in reversed(sessions):
            for entry in self.entries:
                if entry.session == session and not entry.discarded and entry.finished in ("", *hashes):
                    return entry
        return None

    def add_run(self, charge: Charge, session: str) -> BudgetEntry:
        """Add a run. Its cost is on disk when this returns, and stays."""
        self._append({"charge": charge.to_json(), "session": session})
        return self.entries[-1]

    def resume(self, entry: BudgetEntry, session: str) -> None:
        """Give the entry to the folder whose ledger holds this new session. The old session is void."""
        self._append({"session": session, "entry": self.entries.index(entry)})

    def finish(self, entry: BudgetEntry, last_hash: str, *, infinite: bool) -> None:
        """Close the entry of a finished run. Only the ledger with this last hash may open it again.

        infinite: a value left the run without a mechanism.
        """
        self._append({"finished": last_hash, "entry": self.entries.index(entry), "infinite": infinite})

    def declassify(self, entry: BudgetEntry) -> None:
        """Note that a value leaves the run without a mechanism: it has no guarantee from here on, also where it never ends."""
        self._append({"infinite": True, "entry": self.entries.index(entry)})

    def discard(self, entry: BudgetEntry, date: str) -> None:
        """Note that the user deleted the run. Its cost stays."""
        self._append({"discarded": date, "entry": self.entries.index(entry)})

    def set_limit(self, limit: BudgetLimit, *, force: bool) -> None:
        """Set the limit of a data set.

        Raises:
            BudgetError: the limit is looser than the present limit, and `force` is false.
        """
        old = self.limits.get(limit.name)
        if old is not None and not limit.within(old) and not force:
            passing = ", runs without a guarantee let pass" if old.allow_infinite else ""
            raise BudgetError(
                f"{limit.name} has a limit of epsilon {old.epsilon:g} at delta {old.delta:g} already{passing}. A stricter "
                "limit replaces it; a looser one needs `force=True`."
            )
        self._append({"limit": limit.to_json()})

    def _append(self, body: dict[str, Any]) -> None:
        """Append a line and sync it. An incomplete last line, left by a crash, is overwritten."""
        if self._file is None:
            raise ValueError("this budget log was opened for reading only")
        line, last_hash = chained([body], self._last_hash)
        try:
            self._file.seek(self._end)
            self._file.truncate()
            write_synced(self._file, line)
        except OSError as error:
            raise _unusable(self.where, "written", error) from None
        self._end += len(line)
        self._last_hash = last_hash
        self._apply(body)

    def _replay(self, content: bytes) -> None:
        for number, raw in enumerate(content.split(b"\n")[:-1], start=1):
            try:
                body, self._last_hash = read_line(raw, self._last_hash, f"line {number}")
                if (number == 1) != ("open" in body):
                    raise ValueError("the head is somewhere else")
                if number == 1 and body["open"] != {"format": _FORMAT}:
                    raise BudgetLogError(
                        f"the budget log {self.where} is of format {str(body['open']['format'])[:20]}, and this version of "
                        f"Gossamer supports {_FORMAT} only. Use the version that wrote it; nothing is started without it."
                    )
                self._apply(body)
            except (LedgerDamaged, BudgetError, KeyError, IndexError, TypeError, ValueError):
                raise BudgetLogError(
                    f"the budget log {self.where} is damaged: line {number}, or one before it, was changed or cut. Restore it "
                    "from a copy; nothing is started without it."
                ) from None
            self._end += len(raw) + 1

    def _apply(self, body: dict[str, Any]) -> None:
        match body:
            case {"open": _}:
                pass
            case {"charge": dict(charge), "session": str(session)}:
                self.entries.append(BudgetEntry(Charge.from_json(charge), session))
            case {"session": str(session), "entry": int(number)}:
                entry = self.entries[number]
                entry.session, entry.finished = session, ""
            case {"finished": str(last_hash), "entry": int(number), "infinite": bool(infinite)}:
                entry = self.entries[number]
                entry.finished = last_hash
                if infinite:
                    entry.charge = replace(entry.charge, infinite=True)
            case {"infinite": True, "entry": int(number)}:
                self.entries[number].charge = replace(self.entries[number].charge, infinite=True)
            case {"discarded": str(), "entry": int(number)}:
                self.entries[number].discarded = True
            case {"limit": dict(limit)}:
                self.limits[limit["name"]] = BudgetLimit(**{**limit, "epsilon": float(limit["epsilon"])})
            case _:
                raise ValueError("not a line of a budget log")


def _unusable(path: Path, done: str, error: OSError) -> BudgetLogError:
    return BudgetLogError(
        f"the budget log {path} cannot be {done} ({error.strerror}), and no run is started without it. Mend that, or name "
        "another folder with `accounts`."
    )


class BudgetLog:
    """The file of the budget log. `opened` is for writing, by one process at a time; `read` does not write."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    @contextmanager
    def opened(self) -> Iterator[OpenBudgetLog]:
        """Lock the log and read it; create it if it is missing. No other process opens it meanwhile.

        Raises:
            BudgetLogError: if it cannot be opened or written, or is damaged.
        """
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = hold(self._path, wait=True)
        except OSError as error:
            raise _unusable(self._path, "opened", error) from None
        with file:
            log = OpenBudgetLog(self._path, _file=file)
            log._replay(file.read())
            if log._end == 0:
                log._append({"open": {"format": _FORMAT}})
                log.new = True
                sync_folder(self._path.parent)
            yield log

    def read(self) -> OpenBudgetLog:
        """Return the content; empty if there is no log. Creates nothing.

        Raises:
            BudgetLogError: if it cannot be read, or is damaged.
        """
        log = OpenBudgetLog(self._path)
        if not self._path.exists():
            return log
        try:
            content = self._path.read_bytes()
        except OSError as error:
            raise _unusable(self._path, "read", error) from None
        log._replay(content)
        return log
