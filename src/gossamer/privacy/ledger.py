"""The ledger: what a run may release, what it has released, and the proof of both on disk.

A plan is reserved before any record is read. The cost of each release is recorded before its records are read and its noise is
drawn. On disk the ledger only grows, one JSON object a line. Every line has the hash of all lines before it:

    {"open": {"format": 3, "budget": 10.0, "delta": 1e-05, "relation": "add-or-remove-one", "unit": "record",
              "settings": "<SHA-256 of config.json>", "noise": 2}, "hash": "..."}
    {"reserve": [{"event": {...}, "count": 4000}], "hash": "..."}
    {"session": "5e1f...", "hash": "..."}
    {"device": "NVIDIA H200, torch 2.11.0, fp32: 5 checks passed", "hash": "..."}
    {"charge": 0, "hash": "..."}
    {"site": {"name": "hospital-a", "answers": 7, "lines": 24, "last_hash": "..."}, "hash": "..."}
    {"look": {"answer": [2180.4, 12.7], "choice": 1}, "hash": "..."}
    {"score": {"answer": [3584.21, 417.9], "samples": []}, "hash": "..."}

A session is a random token that is also in the budget log. It distinguishes a copied folder from the run that went on
(`budget_log.py`). A charge names a reserved event by its number. Charges are written ahead in blocks and synced before
the first of a block is used. So after a crash the file may hold more charges than were used, never fewer. The first
line pins the settings of the run. It also names the version of the noise (`noise.py`), which is one for the whole run. A run
on a GPU says so before its first charge, and what checks the GPU passed (`device_check.py`). The look is the noisy
answer to the first query of a run, and which of its jobs follows from it. The score is the answer to the last one, from which
the certificate has its accuracy; of a table, with the shares of samples in the cells that are counted.

The file has over 400 lines, because writing and reading a line must agree.
"""

import bisect
import errno
import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, NoOpDpEvent

from gossamer.errors import BudgetExceeded, LedgerDamaged, RunFolderError, UnplannedRelease
from gossamer.files import lock, refuse_without_locks, sync, sync_folder
from gossamer.privacy.accounting import cost, event_json
from gossamer.privacy.guarantee import (
    ADD_OR_REMOVE_ONE,
    RELATION_NAMES,
    RELATIONS,
    Guarantee,
    NeighboringRelation,
    Plan,
    as_json,
)

BLOCK = 16
"""Charges of the most frequent event that are written ahead and synced together. All others, and plain Gaussians (few,
costly), are written one by one. So after each block nothing is ahead, and a checkpoint may be written."""

NOISE_VERSION = 2
"""Of `noise.py`. A run that began with another version is not read."""

_FORMAT = 3
_LONGEST_LINE = 2**20  # bytes; a longer one is no line of a ledger, and must not fill the memory
_HASH_LENGTH = 32
START = "0" * _HASH_LENGTH
"""The hash before the first line."""


@dataclass(kw_only=True)
class PrivacyLedger:
    """Reserves a plan and records the cost of releases.

    Args:
        budget: the epsilon that no plan may exceed; infinity for the non-private run.
        delta: of every statement of this ledger.
        relation: the neighbouring relation of every statement.
        unit: whose contribution is protected.
    """

    budget: float
    delta: float
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE
    unit: str = "record"
    settings: str = field(default="", init=False)
    reasons: list[str] = field(default_factory=list, init=False)
    sessions: list[str] = field(default_factory=list, init=False)
    devices: list[str] = field(default_factory=list, init=False)
    """GPUs that it ran on, and the checks that they passed."""
    sites: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    """At the centre of a federation of few: the ledger of each site, by its lines and last hash, and its answers that count."""
    look: tuple[list[float], int] | None = field(default=None, init=False)
    """The noisy answer that chose a job, and the place of the job; see `run/storage/run_plan.py`. None: as `score`."""
    score: tuple[list[float], list[float]] | None = field(default=None, init=False)
    """The noisy sums of `kinds/score.py`, and the shares of samples. None: the run has none, or not yet."""
    lines: int = field(default=0, init=False)
    last_hash: str = field(default=START, init=False)
    settled: str = field(default=START, init=False)
    """The hash before the sessions at the end. A crash before the budget log has the last session does not change it."""
    before_declassify: Callable[[], None] | None = field(default=None, init=False, repr=False, compare=False)
    """Called before a value leaves without a mechanism: it enters that in the budget log, or a limit refuses it."""
    _events: list[DpEvent] = field(default_factory=list, init=False, repr=False)
    _numbers: dict[DpEvent, int] = field(default_factory=dict, init=False, repr=False)
    _reserved: list[int] = field(default_factory=list, init=False, repr=False)
    _charged: list[int] = field(default_factory=list, init=False, repr=False)
    _prepaid: list[int] = field(default_factory=list, init=False, repr=False)
    _charge_lines: list[int] = field(default_factory=list, init=False, repr=False)
    _file: IO[bytes] | None = field(default=None, init=False, repr=False)
    _path: Path | None = field(default=None, init=False, repr=False)

    def reserve(self, plan: Plan) -> None:
        """Reserve the releases of `plan`, before any record is read.

        Raises:
            BudgetExceeded: if all that is reserved would cost more than the budget.
        """
        total = merge([*self.plan, *plan])
        if not math.isinf(self.budget):
            needed = cost.guarantee(total, delta=self.delta, relation=self.relation, unit=self.unit)
            if needed.epsilon > self.budget:
                raise BudgetExceeded(
                    f"the plan costs {needed}, more than the budget of epsilon {self.budget:g}. No record has been read. Take "
                    "fewer steps, a smaller expected batch or a larger noise multiplier."
                )
        self._append([{"reserve": plan_to_json(plan)}])

    def charge(self, event: DpEvent, answers: int = 1) -> None:
        """Record the cost of one release. Returns only when it is on disk (where the ledger has a file).

        answers: how many answers it covers. Charges for `BLOCK` answers are written ahead.

        `NoOpDpEvent` is free: the mechanism says which earlier charge covers it. A composed event is recorded in parts.

        Raises:
            UnplannedRelease: unless a reserved release of this very event is left.
        """
        if isinstance(event, NoOpDpEvent):
            return
        if isinstance(event, ComposedDpEvent):
            for part in event.events:
                self.charge(part)
            return
        number = self._numbers.get(event)
        if number is None:
            raise UnplannedRelease(f"no plan has reserved a release of {event}; plan() and the training loop disagree.")
        if self._prepaid[number] == 0:
            block = min(self._block(number), max(1, BLOCK // answers))
            if block <= 0:
                raise UnplannedRelease(f"all {self._reserved[number]:,} reserved releases of {event} are used up.")
            self._append([{"charge": number}] * block)
            self._prepaid[number] = block
        self._prepaid[number] -= 1

    def catch_up(self, used: Sequence[int]) -> None:
        """Count releases as used whose cost another ledger has: on a rank above 0.

        Args:
            used: for each event of `plan`.
        """
        if self._file is not None or any(self._charged):
            raise ValueError("a ledger on disk, or in use, has charges of its own")
        self._charged = list(used)

    def spent(self) -> Guarantee:
        """Return the cost of the releases so far. For display only: the promise of a run is its reserved plan."""
        return self._cost([(event, count) for event, count in zip(self._events, self.used, strict=True) if count])

    def promise(self) -> Guarantee:
        """What the whole reserved plan costs: the figure of the certificate. Infinity after a declassify."""
        return self._cost(self.plan)

    def declassify(self, reason: str) -> None:
        """Record that a value left without a mechanism: epsilon is infinity from then on. A reason is recorded once.

        Raises:
            BudgetError: if a limit of the records forbids it. Nothing has left then.
        """
        if not reason.strip():
            raise ValueError("declassify needs a reason: it is printed in every report")
        if reason not in self.reasons:
            if self.before_declassify is not None:
                self.before_declassify()
            self._append([{"declassify": reason}])

    def note_device(self, text: str) -> None:
        """Record a GPU and the checks that it passed, once."""
        if text not in self.devices:
            self._append([{"device": text}])

    def note_site(self, name: str, *, answers: int, lines: int, last_hash: str) -> None:
        """Record which ledger a site has shown, and how many of its answers count."""
        self._append([{"site": {"name": name, "answers": answers, "lines": lines, "last_hash": last_hash}}])

    def note_look(self, answer: Sequence[float], choice: int) -> None:
        """Record the noisy answer that chooses a job, and its place, once."""
        self._append([{"look": {"answer": list(answer), "choice": choice}}])

    @property
    def choice(self) -> int:
        """The place of the job that is trained. The first one, where a crash lost the answer of a look."""
        return 0 if self.look is None else self.look[1]

    def note_score(self, answer: Sequence[float], samples: Sequence[float]) -> None:
        """Record the noisy answer that scores the run, and the shares of samples beside it, once."""
        self._append([{"score": {"answer": list(answer), "samples": list(samples)}}])

    @property
    def plan(self) -> list[tuple[DpEvent, int]]:
        """All that is reserved."""
        return list(zip(self._events, self._reserved, strict=True))

    @property
    def charged(self) -> list[tuple[DpEvent, int]]:
        """All charges, used or written ahead."""
        return list(zip(self._events, self._charged, strict=True))

    @property
    def prepaid(self) -> int:
        """Charges on disk that no release has used yet. Zero is a good moment for a checkpoint: a resume loses nothing."""
        return sum(self._prepaid)

    @property
    def used(self) -> list[int]:
        """For each event of `plan`, how many releases have been made."""
        return [charged - prepaid for charged, prepaid in zip(self._charged, self._prepaid, strict=True)]

    @property
    def unused(self) -> list[int]:
        """For each event of `plan`, how many releases are left."""
        return [reserved - used for reserved, used in zip(self._reserved, self.used, strict=True)]

    def remaining(self, event: DpEvent) -> int:
        """How many more releases of this event the plan holds. Of one that is free, at least one."""
        if isinstance(event, NoOpDpEvent):
            return 1
        number = self._numbers.get(event)
        return 0 if number is None else self.unused[number]

    def _cost(self, plan: Plan) -> Guarantee:
        if self.reasons:
            return Guarantee(epsilon=math.inf, delta=self.delta, relation=self.relation, unit=self.unit)
        return cost.guarantee(plan, delta=self.delta, relation=self.relation, unit=self.unit)

    def create(self, path: Path, *, settings: str = "", session: str = "") -> None:
        """Put the ledger on disk, with all that is reserved so far; from here on every charge is durable.

        Args:
            path: a file that does not exist yet.
            settings: SHA-256 of the run's config.json, in hexadecimal. A ledger without it certifies nothing.
            session: the first token that the ledger shares with the budget log; empty without a log.
        """
        if any(self._charged) or self.reasons:
            raise ValueError("a ledger goes to disk before its first charge")
        self._file, self._path = locked(path, "xb"), path.absolute()
        path.chmod(0o644)
        self.lines, self.last_hash, self.settled, self.settings = 0, START, START, settings
        head = {
            "format": _FORMAT,
            "budget": as_json(self.budget),
            "delta": self.delta,
            "relation": RELATION_NAMES[self.relation],
            "unit": self.unit,
            "settings": settings,
            "noise": NOISE_VERSION,
        }
        self._write([{"open": head}, {"reserve": plan_to_json(self.plan)}])
        if session:
            self.begin_session(session)
        sync_folder(path.parent)

    @classmethod
    def load(cls, path: Path) -> "PrivacyLedger":
        """Read a ledger from disk, without writing to it.

        Raises:
            LedgerDamaged: if a line was changed, cut or torn; the message names it.
        """
        ledger, torn = cls._replay(path)
        if torn:
            raise LedgerDamaged(
                f"{path.name}, line {ledger.lines + 1}: the line is torn (by a crash, and not resumed)."
            )
        return ledger

    @classmethod
    def resume(cls, path: Path, *, settings: Path | None = None) -> "PrivacyLedger":
        """Read a ledger from disk and go on writing it. A torn last line counts as a full block of each event.

        Args:
            path: of the ledger.
            settings: the config.json by which the run goes on; None: it does not go on.

        Raises:
            LedgerDamaged: if a line was changed or cut, or it pins other settings: nothing has been charged then.
            RunFolderError: if another process is writing it, or it is a hard link.
        """
        file = locked(path, "r+b")
        try:
            if os.fstat(file.fileno()).st_nlink > 1:
                raise RunFolderError(
                    f"{path} has a second name on this disk (a hard link), so writing it would change that file too. Copy it, "
                    "move the copy to its name, then go on."
                )
            ledger, torn = cls._replay(path)
            if settings is not None and hashlib.sha256(settings.read_bytes()).hexdigest() != ledger.settings:
                raise LedgerDamaged(
                    f"{settings.name} is not the one that line 1 of {path.name} pins (its SHA-256 differs), so the run cannot "
                    "be certified. Nothing has been charged. Put it back as it was, or delete the run with `gossamer.discard`."
                )
        except BaseException:
            file.close()
            raise
        file.truncate(len(path.read_bytes()) - torn)
        file.seek(0, os.SEEK_END)
        ledger._file = file
        for number in range(len(ledger._events)) if torn else ():
            ledger._append([{"charge": number}] * ledger._block(number))
        return ledger

    def begin_session(self, session: str) -> None:
        """Write the session token. The budget log gets the same token after this."""
        self._append([{"session": session}])

    def charges_after(self, line: int) -> int:
        """How many charges the file holds beyond a line: when it was just read, they were lost to a crash."""
        return len(self._charge_lines) - bisect.bisect_right(self._charge_lines, line)

    def hash_at(self, line: int) -> str:
        """The hash of a line, checked when the file was read."""
        if line == self.lines:
            return self.last_hash
        assert self._path is not None
        with self._path.open("rb") as file:
            raw = next(itertools.islice(file, line - 1, line), b"{}")
        return str(json.loads(raw).get("hash"))

    def check_place(self) -> None:
        """Refuse to go on where the folder was moved, deleted or replaced: another run may be in its place by now.

        Raises:
            RunFolderError: nothing is to be written there then.
        """
        if self._file is None or self._path is None:
            return
        try:
            same = os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except OSError:
            same = False
        if not same:
            raise RunFolderError(
                f"{self._path.parent} was moved, deleted or replaced during the run, so the run stops and writes nothing more. "
                "Its cost stays in its ledger and in the budget log. If it was moved, `gossamer.resume` goes on from its last "
                "checkpoint; a federated run goes on by the command that began it."
            )

    def close(self) -> None:
        """Release the file and its lock."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _block(self, number: int) -> int:
        """How many charges of an event are written at once: as many as are left, at most."""
        often = self._reserved[number] == max(self._reserved) and not isinstance(self._events[number], GaussianDpEvent)
        most = BLOCK if often else 1
        return min(most, self._reserved[number] - self._charged[number])

    def _append(self, bodies: Sequence[dict[str, Any]]) -> None:
        """Write lines, then do what they say. Raises OSError: they cannot be written, and nothing has been charged."""
        first = self.lines + 1
        self._write(bodies)
        for line, body in enumerate(bodies, start=first):
            self._apply(body, line)

    def _write(self, bodies: Sequence[dict[str, Any]]) -> None:
        """Write lines, of which a session is written alone, and sync them: after this they survive a crash."""
        text, last_hash = chained(bodies, self.last_hash)
        if self._file is not None:
            write_synced(self._file, text)
        self.last_hash, self.lines = last_hash, self.lines + len(bodies)
        self.settled = last_hash if bodies and "session" not in bodies[0] else self.settled

    def _note_reserve(self, plan: Plan) -> None:
        for event, count in plan:
            if event not in self._numbers:
                self._numbers[event] = len(self._events)
                self._events.append(event)
                self._reserved.append(0)
                self._charged.append(0)
                self._prepaid.append(0)
            self._reserved[self._numbers[event]] += count

    @classmethod
    def _replay(cls, path: Path) -> tuple["PrivacyLedger", int]:
        """The ledger in the file, and the length in bytes of a torn last line (0: none)."""
        ledger: PrivacyLedger | None = None
        last_hash, index, tail = START, 0, b""
        with path.open("rb") as file:
            while raw := file.readline(_LONGEST_LINE):
                if not raw.endswith(b"\n") and len(raw) < _LONGEST_LINE:
                    tail = raw
                    break
                index += 1
                where = f"{path.name}, line {index}"
                body, last_hash = read_line(raw, last_hash, where)
                try:
                    ledger = cls._from_head(body["open"], where) if ledger is None else ledger
                    ledger._apply(body, index)
                except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError) as error:
                    raise LedgerDamaged(f"{where}: not a line of a ledger.") from error
                ledger.lines, ledger.last_hash = index, last_hash
                ledger.settled = ledger.settled if "session" in body else last_hash
        if ledger is None or not ledger._events:
            raise LedgerDamaged(
                f"{path.name}, line {index + 1}: the ledger ends before its plan. Either the run never began and can be "
                "started again, or the file was cut, and only a copy shows what was released."
            )
        ledger._path = path.absolute()
        return ledger, len(tail)

    @classmethod
    def _from_head(cls, head: dict[str, Any], where: str) -> "PrivacyLedger":
        texts = isinstance(head["unit"], str) and isinstance(head["settings"], str)
        if not texts or not isinstance(head["delta"], float):
            raise ValueError("not an opening")
        for name, number in (("format", _FORMAT), ("noise", NOISE_VERSION)):
            if type(head[name]) is not int or head[name] != number:
                raise LedgerDamaged(
                    f"{where}: its {name} is {str(head[name])[:20]}, and this version of Gossamer supports {number} only. Use "
                    "the version that wrote it."
                )
        ledger = cls(
            budget=float(head["budget"]),
            delta=float(head["delta"]),
            relation=RELATIONS[head["relation"]],
            unit=head["unit"],
        )
        ledger.settings = head["settings"]
        return ledger

    def _apply(self, body: dict[str, Any], line: int) -> None:
        """Do what a line says, when it is written and when it is read."""
        if len(body) != 1:
            raise ValueError("a line says one thing")
        if "reserve" in body:
            self._note_reserve(plan_from_json(body["reserve"]))
        elif "charge" in body:
            number = body["charge"]
            known = not isinstance(number, bool) and 0 <= number < len(self._events)
            if not known or self._charged[number] >= self._reserved[number]:
                raise ValueError("a charge beyond the plan")
            self._charged[number] += 1
            self._charge_lines.append(line)
        elif "session" in body:
            self.sessions.append(str(body["session"]))
        elif "device" in body:
            self.devices.append(str(body["device"]))
        elif "site" in body:
            self.sites[str(body["site"]["name"])] = body["site"]
        elif "look" in body:
            answer, choice = body["look"]["answer"], body["look"]["choice"]
            if self.look is not None or sum(self._charged) != 1 or type(choice) is not int or choice < 0:
                raise ValueError("a second look, or one that is not after the first query")
            self.look = [float(number) for number in answer], choice
        elif "score" in body:
            if self.score is not None or not any(self._charged):
                raise ValueError("a second score, or one before any query")
            answer, samples = body["score"]["answer"], body["score"]["samples"]
            self.score = [*map(float, answer)], [*map(float, samples)]
        elif "declassify" in body:
            self.reasons.append(str(body["declassify"]))
        elif line > 1:
            raise ValueError("an unknown line, or a second opening")


def merge(plan: Plan) -> list[tuple[DpEvent, int]]:
    """The same plan with each event once."""
    counts: dict[DpEvent, int] = {}
    for event, count in plan:
        counts[event] = counts.get(event, 0) + count
    return list(counts.items())


def plan_to_json(plan: Plan) -> list[dict[str, Any]]:
    """A plan as JSON: a list of {"event", "count"}."""
    return [{"event": event_json.event_to_json(event), "count": count} for event, count in plan]


def plan_from_json(data: list[dict[str, Any]]) -> list[tuple[DpEvent, int]]:
    """The inverse of `plan_to_json`.

    Raises:
        ValueError: a count that is no whole number, or below zero: it would take back what was reserved.
    """
    counts = [entry["count"] for entry in data]
    if not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError("a count is a whole number, zero or more")
    return [(event_json.event_from_json(entry["event"]), count) for entry, count in zip(data, counts, strict=True)]


def chain(last_hash: str, body: dict[str, Any]) -> str:
    """The hash of a line, which covers all lines before it."""
    return hashlib.sha256((last_hash + json.dumps(body, sort_keys=True)).encode()).hexdigest()[:_HASH_LENGTH]


def chained(bodies: Iterable[dict[str, Any]], last_hash: str) -> tuple[bytes, str]:
    """The text of lines after the line with this hash, and the hash of the last of them."""
    text = b""
    for body in bodies:
        last_hash = chain(last_hash, body)
        text += json.dumps({**body, "hash": last_hash}).encode() + b"\n"
    return text, last_hash


def write_synced(file: IO[bytes], text: bytes) -> None:
    """Write at the place of an unbuffered file, and sync it. A failed write leaves no trace: a full disk takes a part of it.

    Raises:
        OSError: if it cannot be written.
    """
    start = file.tell()
    try:
        if file.write(text) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(file.fileno())
    except OSError:
        file.seek(start)
        file.truncate()
        raise


def read_line(raw: bytes, last_hash: str, where: str) -> tuple[dict[str, Any], str]:
    """A chained line without its hash, and the hash. Raises LedgerDamaged: the line, or one before it, was changed."""
    try:
        body = json.loads(raw)
        stated = body.pop("hash")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise LedgerDamaged(f"{where}: not a line of a ledger.") from error
    expected = chain(last_hash, body)
    if stated != expected:
        raise LedgerDamaged(f"{where}: the hash does not fit; this line, or one cut out before it, was changed.")
    if raw.rstrip(b"\n") != json.dumps({**body, "hash": stated}).encode():  # a key given twice, for one
        raise LedgerDamaged(f"{where}: this line is not in the form in which a ledger is written.")
    return body, expected


def locked(path: Path, mode: str) -> IO[bytes]:
    """Open a ledger and keep other processes from writing it until the file is closed.

    Raises:
        RunFolderError: if another process is writing it.
    """
    refuse_without_locks()
    file: IO[bytes] = path.open(mode, buffering=0)
    try:
        lock(file, wait=False)
    except BlockingIOError:
        file.close()
        raise RunFolderError(f"{path} is being written by another process; let it finish or stop it first.") from None
    return file
