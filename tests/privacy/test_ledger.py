import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent

from gossamer.errors import BudgetExceeded, LedgerDamaged, RunFolderError, UnplannedRelease
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.ledger import BLOCK, START, PrivacyLedger, chain

EVENT = poisson_gaussian(sampling_rate=0.01, noise_multiplier=1.0)
OTHER = poisson_gaussian(sampling_rate=0.02, noise_multiplier=1.0)


def on_disk(path: Path, count: int = 40, budget: float = 10.0) -> PrivacyLedger:
    ledger = PrivacyLedger(budget=budget, delta=1e-5)
    ledger.reserve([(EVENT, count)])
    ledger.create(path)
    return ledger


def charges_in(path: Path) -> int:
    return sum('"charge"' in line for line in path.read_text().splitlines())


def test_reserving_beyond_the_budget_raises_and_reserves_nothing() -> None:
    ledger = PrivacyLedger(budget=0.5, delta=1e-5)
    with pytest.raises(BudgetExceeded, match=r"more than the budget of epsilon 0\.5"):
        ledger.reserve([(EVENT, 10_000)])
    assert ledger.plan == []
    with pytest.raises(UnplannedRelease):
        ledger.charge(EVENT)


def test_a_plan_that_costs_the_budget_fits_and_one_that_costs_a_little_more_does_not() -> None:
    free = PrivacyLedger(budget=math.inf, delta=1e-5)
    free.reserve([(EVENT, 1_000)])
    cost = free.promise().epsilon
    PrivacyLedger(budget=cost, delta=1e-5).reserve([(EVENT, 1_000)])
    short = PrivacyLedger(budget=cost * (1 - 1e-9), delta=1e-5)
    with pytest.raises(BudgetExceeded):
        short.reserve([(EVENT, 1_000)])
    assert short.plan == []


def test_two_plans_together_must_fit_the_budget() -> None:
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(EVENT, 1_000)])
    half = ledger.promise().epsilon
    ledger = PrivacyLedger(budget=1.01 * half, delta=1e-5)
    ledger.reserve([(EVENT, 1_000)])
    with pytest.raises(BudgetExceeded):
        ledger.reserve([(EVENT, 1_000)])


def test_what_is_reserved_twice_adds_up() -> None:
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    for count in (5, 2):
        ledger.reserve([(EVENT, count)])
    assert ledger.plan == [(EVENT, 7)]
    assert ledger.promise().epsilon == in_memory(7).promise().epsilon


def in_memory(count: int) -> PrivacyLedger:
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(EVENT, count)])
    return ledger


def test_a_rank_that_follows_goes_on_from_what_was_used() -> None:
    ledger = in_memory(7)
    ledger.catch_up([5])
    assert (ledger.used, ledger.remaining(EVENT)) == ([5], 2)
    for _ in range(2):
        ledger.charge(EVENT)
    with pytest.raises(UnplannedRelease):
        ledger.charge(EVENT)
    with pytest.raises(ValueError, match="on disk, or in use"):
        ledger.catch_up([5])


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_charge_beyond_the_plan_is_refused_under_a_good_chain(tmp_path: Path, number: int) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = on_disk(path, count=3)
    for _ in range(3):
        ledger.charge(EVENT)
    ledger.close()
    assert PrivacyLedger.load(path).used == [3]
    body = {"charge": number}
    line = json.dumps({**body, "hash": chain(ledger.last_hash, body)})
    path.write_text(path.read_text() + line + "\n")
    for read in (PrivacyLedger.load, PrivacyLedger.resume):
        with pytest.raises(LedgerDamaged, match="line 6: not a line of a ledger"):
            read(path)


def test_charges_up_to_the_plan_and_no_further() -> None:
    ledger = PrivacyLedger(budget=10.0, delta=1e-5)
    ledger.reserve([(EVENT, 3)])
    assert ledger.remaining(EVENT) == 3
    for _ in range(3):
        ledger.charge(EVENT)
    assert ledger.remaining(EVENT) == 0
    with pytest.raises(UnplannedRelease, match="all 3 reserved"):
        ledger.charge(EVENT)


def test_an_event_that_was_not_reserved_is_refused() -> None:
    ledger = PrivacyLedger(budget=10.0, delta=1e-5)
    ledger.reserve([(EVENT, 3)])
    with pytest.raises(UnplannedRelease, match="no plan has reserved"):
        ledger.charge(OTHER)


def test_spent_counts_uses_and_promise_counts_the_plan() -> None:
    ledger = PrivacyLedger(budget=10.0, delta=1e-5)
    ledger.reserve([(EVENT, 1_000)])
    assert ledger.spent().epsilon == 0
    for _ in range(100):
        ledger.charge(EVENT)
    assert 0 < ledger.spent().epsilon < ledger.promise().epsilon


def test_declassify_turns_every_statement_to_infinity_and_keeps_the_reason(tmp_path: Path) -> None:
    ledger = on_disk(tmp_path / "ledger.jsonl")
    ledger.declassify("a test")
    assert math.isinf(ledger.spent().epsilon)
    assert math.isinf(ledger.promise().epsilon)
    ledger.close()
    again = PrivacyLedger.load(tmp_path / "ledger.jsonl")
    assert again.reasons == ["a test"]
    assert math.isinf(again.promise().epsilon)


def test_a_reason_is_said_once(tmp_path: Path) -> None:
    """Every phase of a run without a guarantee goes through the door, and so does every resume."""
    path = tmp_path / "ledger.jsonl"
    ledger = on_disk(path)
    for reason in ("a test", "a test", "another", "a test"):
        ledger.declassify(reason)
    ledger.close()
    again = PrivacyLedger.resume(path)
    again.declassify("a test")
    again.close()
    found = PrivacyLedger.load(path)
    assert found.reasons == ledger.reasons == again.reasons == ["a test", "another"]
    assert path.read_text().count("declassify") == 2
    assert math.isinf(found.promise().epsilon)


def test_a_charge_is_on_disk_before_it_returns(tmp_path: Path) -> None:
    ledger = on_disk(tmp_path / "ledger.jsonl")
    used = 0
    while ledger.remaining(EVENT):
        ledger.charge(EVENT)
        used += 1
        assert used <= charges_in(tmp_path / "ledger.jsonl") <= used + BLOCK - 1
    assert charges_in(tmp_path / "ledger.jsonl") == used == 40
    ledger.close()


def test_a_charge_is_synced_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushed is not durable: the machine may lose its power. At each sync of the ledger's file we look at what it holds."""
    path = tmp_path / "ledger.jsonl"
    synced: list[int] = []

    def fsync(descriptor: int, real: Callable[[int], None] = os.fsync) -> None:
        real(descriptor)
        if os.path.sameopenfile(descriptor, looking.fileno()):
            synced.append(charges_in(path))

    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    dear = GaussianDpEvent(3.0)
    ledger.reserve([(EVENT, 40), (dear, 2)])
    ledger.create(path)
    with path.open() as looking:
        monkeypatch.setattr(os, "fsync", fsync)
        for used in range(1, 41):
            ledger.charge(EVENT)
            assert synced[-1] >= used
        assert synced == [16, 32, 40]
        ledger.charge(dear)
        ledger.charge(dear)
        assert synced == [16, 32, 40, 41, 42]
        ledger.declassify("a test")
        assert len(synced) == 6
    ledger.close()


def test_what_a_resume_charges_for_a_torn_line_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.jsonl"
    on_disk(path).close()
    path.write_bytes(path.read_bytes() + b'{"char')
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(charges_in(path)))
    PrivacyLedger.resume(path).close()
    assert synced[-1] == BLOCK


@pytest.mark.parametrize(
    ("name", "number"), [("format", 2), ("format", 4), ("format", True), ("noise", 1), ("noise", 3)]
)
def test_a_ledger_of_another_format_or_noise_is_refused(tmp_path: Path, name: str, number: int) -> None:
    """Although every hash fits."""
    path = tmp_path / "ledger.jsonl"
    on_disk(path).close()
    last, lines = START, []
    for text in path.read_text().splitlines():
        body = json.loads(text)
        del body["hash"]
        if "open" in body:
            body["open"][name] = number
        last = chain(last, body)
        lines.append(json.dumps({**body, "hash": last}))
    path.write_text("\n".join(lines) + "\n")
    for read in (PrivacyLedger.load, PrivacyLedger.resume):
        with pytest.raises(
            LedgerDamaged, match=f"line 1: its {name} is {number}, and .* Use the version that wrote it"
        ):
            read(path)


def test_load_gives_back_what_was_written(tmp_path: Path) -> None:
    ledger = on_disk(tmp_path / "ledger.jsonl")
    for _ in range(20):
        ledger.charge(EVENT)
    ledger.close()
    again = PrivacyLedger.load(tmp_path / "ledger.jsonl")
    assert again.plan == ledger.plan
    assert again.charged == [(EVENT, 32)]
    assert (again.lines, again.last_hash) == (ledger.lines, ledger.last_hash)
    assert again.budget == 10.0


def test_resume_loses_at_most_a_block_and_never_gains(tmp_path: Path) -> None:
    ledger = on_disk(tmp_path / "ledger.jsonl")
    for _ in range(20):
        ledger.charge(EVENT)
    ledger.close()
    again = PrivacyLedger.resume(tmp_path / "ledger.jsonl")
    assert again.remaining(EVENT) == 40 - 32
    for _ in range(8):
        again.charge(EVENT)
    with pytest.raises(UnplannedRelease):
        again.charge(EVENT)
    again.close()
    assert PrivacyLedger.load(tmp_path / "ledger.jsonl").charged == [(EVENT, 40)]


def test_a_torn_last_line_counts_as_a_full_block(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = on_disk(path, count=100)
    ledger.charge(EVENT)
    ledger.close()
    path.write_bytes(path.read_bytes() + b'{"charge": 0, "ha')
    with pytest.raises(LedgerDamaged, match="line 19: the line is torn"):
        PrivacyLedger.load(path)
    again = PrivacyLedger.resume(path)
    assert again.remaining(EVENT) == 100 - 2 * BLOCK
    again.close()
    assert PrivacyLedger.load(path).charged == [(EVENT, 2 * BLOCK)]


def test_a_torn_last_line_costs_a_block_of_every_event(tmp_path: Path) -> None:
    """The torn line may have been the first of a block of any event: nothing that remains of it says which."""
    path = tmp_path / "ledger.jsonl"
    dear, rare = GaussianDpEvent(3.0), poisson_gaussian(sampling_rate=0.03, noise_multiplier=1.0)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(EVENT, 100), (OTHER, 50), (dear, 5), (rare, 3)])
    ledger.create(path)
    ledger.charge(OTHER)
    ledger.close()
    path.write_bytes(path.read_bytes() + b'{"charge": 1')
    again = PrivacyLedger.resume(path)
    assert [again.remaining(event) for event in (EVENT, OTHER, dear, rare)] == [100 - BLOCK, 50 - 2, 4, 2]
    again.close()
    assert PrivacyLedger.load(path).charged == [(EVENT, BLOCK), (OTHER, 2), (dear, 1), (rare, 1)]


def test_a_seldom_event_is_never_paid_ahead(tmp_path: Path) -> None:
    """So that a training that asks one question in 20 steps may keep a checkpoint after every block of its steps."""
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve([(EVENT, 400), (OTHER, 20)])
    ledger.create(tmp_path / "ledger.jsonl")
    safe = []
    for step in range(400):
        if step % 20 == 0:
            ledger.charge(OTHER)
        ledger.charge(EVENT)
        if ledger.prepaid == 0:
            safe.append(step + 1)
    ledger.close()
    assert safe == list(range(BLOCK, 401, BLOCK))


@pytest.mark.parametrize("line", [1, 2, 3, 10, 18])
def test_a_changed_line_is_named(tmp_path: Path, line: int) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = on_disk(path)
    ledger.charge(EVENT)
    ledger.close()
    lines = path.read_text().splitlines()
    body = json.loads(lines[line - 1])
    key = next(iter(body))
    body[key] = 1 if key == "charge" else [] if key == "reserve" else {**body[key], "delta": 1e-6}
    lines[line - 1] = json.dumps(body)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(LedgerDamaged, match=f"line {line}:"):
        PrivacyLedger.load(path)


def test_a_line_cut_from_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = on_disk(path)
    ledger.charge(EVENT)
    ledger.close()
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:7] + lines[8:]))
    with pytest.raises(LedgerDamaged, match="line 8:"):
        PrivacyLedger.load(path)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    ledger = on_disk(tmp_path / "ledger.jsonl")
    with pytest.raises(RunFolderError, match="another process"):
        PrivacyLedger.resume(tmp_path / "ledger.jsonl")
    ledger.close()
    PrivacyLedger.resume(tmp_path / "ledger.jsonl").close()


def test_create_never_overwrites(tmp_path: Path) -> None:
    on_disk(tmp_path / "ledger.jsonl").close()
    with pytest.raises(FileExistsError):
        on_disk(tmp_path / "ledger.jsonl")


USES = """
import os, sys
from pathlib import Path
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.ledger import PrivacyLedger
event = poisson_gaussian(sampling_rate=0.01, noise_multiplier=1.0)
ledger = PrivacyLedger(budget=float('inf'), delta=1e-5)
ledger.reserve([(event, 100_000)])
ledger.create(Path(sys.argv[1]))
while True:
    ledger.charge(event)
    os.write(1, b"u")  # stands for a noise draw
"""


def test_after_kill_9_the_disk_holds_no_fewer_charges_than_were_used(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    process = subprocess.Popen([sys.executable, "-c", USES, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    used = len(os.read(process.stdout.fileno(), 1)) + len(process.stdout.read(200))
    process.send_signal(signal.SIGKILL)
    used += len(process.stdout.read())
    process.wait()
    process.stdout.close()
    ledger = PrivacyLedger.resume(path)
    assert ledger.charged[0][1] >= used >= 201
    ledger.close()


@pytest.mark.parametrize("written", [0, 70])
def test_what_a_full_disk_does_not_take_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """A block of which only a part fits is no charge, and the next one goes where it would have stood."""
    ledger = on_disk(tmp_path / "ledger.jsonl")
    ledger.charge(EVENT)
    for _ in range(BLOCK - 1):
        ledger.charge(EVENT)
    before, lines, last = (tmp_path / "ledger.jsonl").read_bytes(), ledger.lines, ledger.last_hash
    file = ledger._file
    assert file is not None

    class Filling:
        def __getattr__(self, name: str) -> Any:
            return getattr(file, name)

        def write(self, text: bytes) -> int:
            return int(file.write(text[:written]))

    ledger._file = Filling()  # type: ignore[assignment]  # it stands for a file on a disk that fills up
    with pytest.raises(OSError, match="No space left"):
        ledger.charge(EVENT)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    assert (ledger.lines, ledger.last_hash, ledger.prepaid) == (lines, last, 0)
    ledger._file = file
    ledger.charge(EVENT)
    ledger.close()
    assert PrivacyLedger.load(tmp_path / "ledger.jsonl").charged[0][1] == 2 * BLOCK
