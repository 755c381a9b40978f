"""The account book: what all runs on one data set have spent together, and the limit that they must not pass.

One private file (mode 0600, in a folder of mode 0700). JSON lines, chained by hashes and only ever added to, like a ledger:

    {"open": {"format": 1}, "hash": "..."}
    {"limit": {"name": "clinic-2026", "epsilon": 10.0, "delta": 1e-05, "allow_infinite": false, "date": "..."}, "hash": "..."}
    {"charge": {"run": "6b...", "name": "clinic-2026", "mark": "9a...", "plan": [...], ...}, "session": "c1...", "hash": "..."}
    {"session": "77...", "entry": 0, "hash": "..."}
    {"finished": "<last hash of the run's ledger, sessions at its end aside>", "entry": 0, "infinite": false, "hash": "..."}
    {"discarded": "2026-11-23", "entry": 0, "hash": "..."}

**What is charged.** The whole reserved plan, before the run begins. No line takes a charge back.

**Which runs add up.** Those under one name, and those under one mark: the digest of the records, so that a copy of them under
another name is the same data set, and a name keeps its history when its records change. Both links are followed to the end.

**Who may go on with a run.** Every `fit` and `resume` writes a random word, the session, into the run's ledger and then here,
and trains only after that. An entry can be continued by the folder whose ledger holds the entry's newest session, and by no
other: the first of two copies that goes on takes the word with it, the other is a run of its own and charged as one. The end of
a run takes its word too, so that a copy made while it trained cannot go on for free. After a crash between the two writes the
ledger holds a word too many, which nobody knows, and the one before it still counts.

It is over 400 lines because who writes a line, who reads it back and who adds lines up must agree on what each means.

Processes wait for one another. A line that was torn by a crash was never answered for: what it was to charge had not begun.
"""

import errno
import json
import math
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from gossamer.errors import AccountsError, BudgetError, LedgerDamaged
from gossamer.files import hold, sync_folder
from gossamer.privacy.accounting.composition import RECORD, Spending, smallest, together
from gossamer.privacy.accounting.cost import Bound
from gossamer.privacy.guarantee import RELATION_NAMES, RELATIONS, REPLACE_ONE, NeighboringRelation, Plan
from gossamer.privacy.ledger import START, chain, plan_from_json, plan_to_json, read_line

FILE = "accounts.jsonl"


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A run as the book enters it.

    Args:
        run: the random word in the run's settings.
        name: of the data set: from the card, or where the records come from.
        mark: digest of the records; empty where it is not known.
        date: on which it was entered.
        method: of the run.
        folder: of the run.
        plan: the whole reserved plan.
        relation: of the run's statement.
        unit: of the run's statement.
        delta: of the run's statement.
        infinite: the run has no guarantee, whatever its plan says.
        given_up: share of the units that the run gave up as public; the sum says nothing about them.
        place: where the records come from; empty in an older book.
        by_client: its answers were drawn among clients; see `composition.Spending`. An older book does not say it: there, all
            that may have been counts as drawn among clients.
    """

    run: str
    name: str
    mark: str
    date: str
    method: str
    folder: str
    plan: Plan
    relation: NeighboringRelation
    unit: str
    delta: float
    infinite: bool = False
    given_up: float = 0.0
    place: str = ""
    by_client: bool = False

    @property
    def spending(self) -> Spending:
        """For adding up."""
        return Spending(
            plan=self.plan, relation=self.relation, unit=self.unit, infinite=self.infinite, by_client=self.by_client
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """As the book writes it."""
        return {**vars(self), "plan": plan_to_json(self.plan), "relation": RELATION_NAMES[self.relation]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Charge":
        """The inverse of `to_json`."""
        by_client = {"by_client": data["relation"] == RELATION_NAMES[REPLACE_ONE] and data["unit"] != RECORD, **data}
        return cls(
            **{**by_client, "plan": tuple(plan_from_json(data["plan"])), "relation": RELATIONS[data["relation"]]}
        )  # fmt: skip


@dataclass(eq=False)
class Entry:
    """A charge, and how far its run has come.

    Args:
        charge: what was charged.
        session: the newest word that the book shares with the run's ledger.
        finished: the last hash of the ledger with which the run ended; empty while it has not.
        discarded: it was given up.
    """

    charge: Charge
    session: str
    finished: str = ""
    discarded: bool = False

    @property
    def status(self) -> str:
        """In one word or two."""
        return "given up" if self.discarded else "finished" if self.finished else "unfinished"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What the runs on a data set may spend together.

    Args:
        name: of the data set.
        epsilon: at most this; infinity for no limit.
        delta: of the statement about all runs.
        allow_infinite: runs without a guarantee are let pass and not held against the limit.
        date: on which it was set.
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
            raise BudgetError(
                f"the limit's delta must lie between 0 and 1, not {self.delta:g}. A usual choice is 1e-5."
            )

    def within(self, other: "Limit") -> bool:
        """Whether it allows nothing that the other one forbids."""
        stricter = self.epsilon <= other.epsilon and self.delta <= other.delta
        return stricter and self.allow_infinite <= other.allow_infinite

    def to_json(self) -> dict[str, Any]:
        """As the book writes it; JSON has no infinity."""
        return {**vars(self), "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon}


@dataclass(frozen=True)
class Account:
    """All that belongs to one data set.

    Args:
        entries: its runs, in the order in which they were entered.
        names: all names under which it is known, the one asked for first.
        limits: those that were set, for any of the names.
    """

    entries: tuple[Entry, ...]
    names: tuple[str, ...]
    limits: tuple[Limit, ...]

    def spent(self, delta: float, *more: Charge) -> tuple[Bound, ...]:
        """What its runs cost together, and with more of them; empty if there are none."""
        runs = [charge.spending for charge in (*(entry.charge for entry in self.entries), *more)]
        return together(runs, delta=delta) if runs else ()

    def refuse_beyond_limit(self, charge: Charge) -> None:
        """Refuse a run that would carry the data set over one of its limits.

        Raises:
            BudgetError: names the limit and what would be spent.
        """
        for limit in self.limits:
            if math.isinf(limit.epsilon) or (limit.allow_infinite and charge.infinite):
                continue
            runs = [
                entry.charge.spending for entry in self.entries if not (limit.allow_infinite and entry.charge.infinite)
            ]
            total = smallest(together([*runs, charge.spending], delta=limit.delta))
            if total.epsilon > limit.epsilon:
                known = [entry.charge.name for entry in self.entries]  # no run may stand under the name of the limit
                there = charge.name if charge.name in known else next(iter(known), limit.name)
                raise BudgetError(
                    f"{limit.name} may spend epsilon {limit.epsilon:g} at delta {limit.delta:g} in all, and this run and the "
                    f"{len(runs)} before it would spend {total}. Nothing has been begun. Ask for less, or see "
                    f"`gossamer budget {shlex.quote(there)}`; the curator may raise the limit with "
                    f"`gossamer budget {shlex.quote(limit.name)} --epsilon E --delta D --force`."
                )


def _whole(place: str) -> str:
    """The place of which this one is all that a run trains on: a folder, of its subfolder train."""
    return place.removesuffix("/train") or place


@dataclass
class Pages:
    """The book as it was read, and the pen. Made by `AccountBook.opened` and `AccountBook.read`."""

    where: Path
    entries: list[Entry] = field(default_factory=list)
    limits: dict[str, Limit] = field(default_factory=dict)
    new: bool = False
    """There was no book: this one has just been begun."""
    _file: IO[bytes] | None = None
    _end: int = 0
    _last_hash: str = START

    # ------------------------------------------------------------------ looking

    def account(self, *names: str, mark: str = "") -> Account:
        """All that belongs to the data set of these names or places, and of this mark. Links are followed to the end.

        A place with a limit is such a link: what was read there adds up, whatever it was called and whatever lay there.
        """
        known, marks, places = dict.fromkeys(names), {mark} - {""}, {_whole(each) for each in names if each}
        limited = {_whole(name) for name, limit in self.limits.items() if not math.isinf(limit.epsilon)}
        entries: list[Entry] = []
        while True:
            found = [
                entry
                for entry in self.entries
                if entry.charge.name in known or entry.charge.mark in marks or _whole(entry.charge.place) in places
            ]
            if len(found) == len(entries):
                bound = {*known, *(_whole(entry.charge.place) for entry in entries)}
                limits = tuple(limit for name, limit in self.limits.items() if name in known or _whole(name) in bound)
                return Account(tuple(entries), tuple(known), limits)
            entries = found
            known |= dict.fromkeys(entry.charge.name for entry in entries)
            marks |= {entry.charge.mark for entry in entries} - {""}
            places |= {_whole(entry.charge.place) for entry in entries} & limited

    def account_of(self, charge: Charge) -> Account:
        """Everything that a charge adds up with. A limit of its place binds it, whatever its card calls the data set.

        So does a limit of any place from which the same records were read before.
        """
        places = [name for name in self.limits if charge.place and _whole(name) == _whole(charge.place)]
        return self.account(charge.name, *places, mark=charge.mark)

    def under(self, name: str) -> Account:
        """What was entered under this very name. No record decides what is found, so that a certificate may state it."""
        return Account(tuple(entry for entry in self.entries if entry.charge.name == name), (name,), ())

    def holder(self, sessions: Sequence[str], *hashes: str) -> Entry | None:
        """The entry that the folder of this ledger may go on with; None: the run went on, or ended, elsewhere, or is unknown.

        Args:
            sessions: all words of the run's ledger.
            hashes: of the run's ledger, with the sessions at its end and without: an ended run may be certified again, as it
                ended, also where a crash came between the ledger's new word and the book's.
        """
        for session in reversed(sessions):
            for entry in self.entries:
                if entry.session == session and not entry.discarded and entry.finished in ("", *hashes):
                    return entry
        return None

    # ------------------------------------------------------------------ writing

    def enter(self, charge: Charge, session: str) -> Entry:
        """Charge a run. From here on the charge is on disk, whatever becomes of the run."""
        self._append({"charge": charge.to_json(), "session": session})
        return self.entries[-1]

    def go_on(self, entry: Entry, session: str) -> None:
        """Hand the entry to the folder whose ledger holds this new word; the old word is worth nothing from here on."""
        self._append({"session": session, "entry": self.entries.index(entry)})

    def finish(self, entry: Entry, last_hash: str, *, infinite: bool) -> None:
        """Close the entry: nobody may go on with it, but for the same ledger as it stands.

        Args:
            entry: of the run.
            last_hash: of its ledger.
            infinite: something left the run without a mechanism.
        """
        self._append({"finished": last_hash, "entry": self.entries.index(entry), "infinite": infinite})

    def discard(self, entry: Entry, date: str) -> None:
        """Note that the run was given up. Its charge stays."""
        self._append({"discarded": date, "entry": self.entries.index(entry)})

    def set_limit(self, limit: Limit, *, force: bool) -> None:
        """Set a data set's limit; a looser one than it has needs force.

        Raises:
            BudgetError: if it is looser.
        """
        old = self.limits.get(limit.name)
        if old is not None and not limit.within(old) and not force:
            raise BudgetError(
                f"{limit.name} has a limit of epsilon {old.epsilon:g} at delta {old.delta:g} already"
                f"{', runs without a guarantee let pass' if old.allow_infinite else ''}. A stricter one replaces it; a looser "
                "one needs --force."
            )
        self._append({"limit": limit.to_json()})

    def _append(self, body: dict[str, Any]) -> None:
        """Write a line and sync it, over what a crash has left of a torn one."""
        if self._file is None:
            raise ValueError("these pages were opened for looking only")
        last_hash = chain(self._last_hash, body)
        line = json.dumps({**body, "hash": last_hash}).encode() + b"\n"
        try:
            self._file.seek(self._end)
            self._file.truncate()
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise AccountsError(
                f"the account book {self.where} cannot be written ({error.strerror}). Make room, or name another folder with "
                "--accounts; a run that is not entered is not started."
            ) from None
        self._end += len(line)
        self._last_hash = last_hash
        self._apply(body)

    # ------------------------------------------------------------------ reading

    def _replay(self, content: bytes) -> None:
        for number, raw in enumerate(content.split(b"\n")[:-1], start=1):
            try:
                body, self._last_hash = read_line(raw, self._last_hash, f"line {number}")
                if (number == 1) != ("open" in body):
                    raise ValueError("the head is somewhere else")
                self._apply(body)
            except (LedgerDamaged, BudgetError, KeyError, IndexError, TypeError, ValueError):
                raise AccountsError(
                    f"the account book {self.where} is damaged: line {number}, or one before it, was changed or cut. Restore "
                    "it from a copy; without it nobody knows what has been spent, so that nothing is started."
                ) from None
            self._end += len(raw) + 1

    def _apply(self, body: dict[str, Any]) -> None:
        match body:
            case {"open": {"format": 1}}:
                pass
            case {"charge": dict(charge), "session": str(session)}:
                self.entries.append(Entry(Charge.from_json(charge), session))
            case {"session": str(session), "entry": int(number)}:
                entry = self.entries[number]
                entry.session, entry.finished = session, ""
            case {"finished": str(last_hash), "entry": int(number), "infinite": bool(infinite)}:
                entry = self.entries[number]
                entry.finished = last_hash
                if infinite:
                    entry.charge = Charge(**{**vars(entry.charge), "infinite": True})
            case {"discarded": str(), "entry": int(number)}:
                self.entries[number].discarded = True
            case {"limit": dict(limit)}:
                self.limits[limit["name"]] = Limit(**{**limit, "epsilon": float(limit["epsilon"])})
            case _:
                raise ValueError("not a line of an account book")


class AccountBook:
    """The file. `opened` is for writing, by one process at a time; `read` for looking."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE

    @contextmanager
    def opened(self) -> Iterator[Pages]:
        """Hold the book, and read it; made where it is missing. Nobody else reads or writes it meanwhile.

        Raises:
            AccountsError: if it cannot be opened or written, or is damaged.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = hold(self._path, wait=True)
        except OSError as error:
            raise AccountsError(
                f"the account book {self._path} cannot be opened ({error.strerror}). Mend that, or name another folder with "
                "--accounts; a run that is not entered is not started."
            ) from None
        with file:
            pages = Pages(self._path, _file=file)
            pages._replay(file.read())
            if pages._end == 0:
                pages._append({"open": {"format": 1}})
                pages.new = True
                sync_folder(self._folder)
            yield pages

    def read(self) -> Pages:
        """What stands in it; nothing where there is no book. Makes nothing.

        Raises:
            AccountsError: if it cannot be read, or is damaged.
        """
        pages = Pages(self._path)
        if not self._path.exists():
            return pages
        try:
            content = self._path.read_bytes()
        except OSError as error:
            raise AccountsError(f"the account book {self._path} cannot be read ({error.strerror}).") from None
        pages._replay(content)
        return pages
