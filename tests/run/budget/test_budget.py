"""Runs and the account book: what is charged and when, who may go on, who may delete, and what is said of it."""

import contextlib
import dataclasses
import errno
import io
import json
import math
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from slowly import slow_among

from gossamer.errors import (
    BudgetError,
    BudgetLogError,
    GossamerError,
    Interrupted,
    LedgerDamaged,
    RequestError,
    RunFolderError,
)
from gossamer.events import Event, Sink, silent
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics.registry import METRICS
from gossamer.privacy import ledger
from gossamer.privacy.accounting import cost
from gossamer.privacy.accounting.cost import smallest
from gossamer.privacy.budget_log import FILE, BudgetLog, Charge, DataSetBudget, OpenBudgetLog
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.confined import Confined
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.auditing.audit import audit_run
from gossamer.run.budget.budget import budget, discard
from gossamer.run.budget.entry import budget_log_at, enter_finished, place_of
from gossamer.run.cli import demo
from gossamer.run.evaluation.attack import attack
from gossamer.run.evaluation.evaluate import evaluate
from gossamer.run.release.verify import verify
from gossamer.run.report import plots
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import ACCOUNTS, LOCK, PRIVATE, RunFolder
from gossamer.run.training import checkpoint
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process, Terminal, to_all
from gossamer.run.training.resume import resume

Run = Callable[..., Any]
DELTA = 1e-3
BLOCK = 4
"""Queries that are charged together, in place of 16: the runs are as many blocks long, and four times as quick."""
SMALL: dict[str, Any] = {
    "noise_multiplier": 4.0, "steps": 2 * BLOCK, "expected_batch_size": 8, "width": 4, "latent_size": 8,
}  # fmt: skip

PRIVGAN: dict[str, Any] = {"epochs": 1, "batch_size": 40, "width": 4, "adversary_warm_epochs": 0}


class Stopped(Exception):
    """Stands for a crash: raised in the middle of a step."""


class Place:
    """A data set with its card, and short words for what is done with it."""

    def __init__(self, data: Path, card: Path, folder: Path) -> None:
        self.data, self.card, self.folder, self.said = data, card, folder, io.StringIO()
        self.run = folder / "run"

    def fit(self, out: Path | None = None, **changed: Any) -> Synthesizer:
        request = {"data": self.data, "card": self.card, "out": out or self.run, "delta": DELTA, **SMALL, **changed}
        sink = to_all([Terminal(self.said), request.pop("sink", silent)])
        process = Process(sink=sink, rng=request.pop("rng", None))
        return fit(request.pop("method", "dpgan"), **request, process=process)

    def resume(self, run: Path | None = None, **named: Any) -> Synthesizer:
        return resume(run or self.run, **named, process=Process(sink=Terminal(self.said)))

    def crash(self, step: int, out: Path | None = None, **changed: Any) -> None:
        with pytest.raises(Stopped):
            self.fit(out, sink=crash_at(step), **changed)

    @property
    def account(self) -> DataSetBudget:
        return budget_log_at(None).read().budget_of_names(str(self.data))

    @property
    def words(self) -> str:
        return " ".join(self.said.getvalue().split())


@pytest.fixture
def place(data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(plots, "curve", lambda *_, **__: "")  # drawing curves takes longer than these runs
    monkeypatch.setattr(ledger, "BLOCK", BLOCK)
    return Place(data, card, tmp_path)


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint wherever one may be written."""
    monkeypatch.setattr(checkpoint, "SHORTEST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)


def crash_at(step: int) -> Sink:
    def sink(event: Event, /) -> None:
        if event.kind == "step" and event.step == step:
            raise Stopped

    return sink


def raising(error: Exception) -> Callable[..., None]:
    def fails(*_given: Any, **_named: Any) -> None:
        raise error

    return fails


def failing_once(after: int, does: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    calls = iter(range(after + 1))

    def done(*given: Any) -> Any:
        if next(calls, None) == after:
            raise error
        return does(*given)

    return done


def held_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ------------------------------------------------------------------ what is charged, and when


def test_the_whole_plan_is_charged_before_the_first_step(place: Place, state_home: Path) -> None:
    place.crash(1)
    assert (state_home / "gossamer" / FILE).is_file()
    (entry,) = place.account.entries
    ledger = PrivacyLedger.load(place.run / "ledger.jsonl")
    assert [*entry.charge.plan] == ledger.plan
    assert ledger.plan[0][1] == SMALL["steps"]
    assert (entry.charge.delta, entry.charge.unit, entry.charge.method) == (DELTA, "record", "dpgan")
    assert entry.session == ledger.sessions[0]
    assert entry.status == "unfinished"
    assert "Budget log: this run uses" in place.words


def test_the_certificate_says_what_the_book_knew_and_verifies(place: Place, tmp_path: Path) -> None:
    first = place.fit()
    assert "adds to this figure" in first.certificate.adds_up
    assert "no earlier run under this name." in first.certificate.adds_up
    second = place.fit(tmp_path / "second")
    both = cost.guarantee([(PrivacyLedger.load(place.run / "ledger.jsonl").plan[0][0], 4 * BLOCK)], delta=DELTA)
    assert f"one earlier run under this name. Together with this run: {both}." in second.certificate.adds_up
    assert verify(tmp_path / "second").ok
    assert "one earlier run under this name" in (tmp_path / "second" / "report.html").read_text()
    config = json.loads((tmp_path / "second" / "config.json").read_text())
    config["accounts"]["earlier_runs"] = 0
    (tmp_path / "second" / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    assert not verify(tmp_path / "second").ok


def test_the_released_settings_follow_from_the_name_and_never_from_the_records(place: Place, tmp_path: Path) -> None:
    """The same records elsewhere are one account in the book. A certificate that said so would tell of any record changed."""
    place.fit()
    copy = tmp_path / "elsewhere.npz"
    shutil.copy(place.data, copy)
    second = place.fit(tmp_path / "second", data=copy)
    assert "no earlier run under this name." in second.certificate.adds_up
    assert len(place.account.entries) == 2
    assert "The log has the same records as" in place.words
    settings = (tmp_path / "second" / "config.json").read_text()
    assert place.account.entries[0].charge.mark not in settings
    assert str(tmp_path) not in settings


def test_records_that_change_keep_their_history_and_their_limit(place: Place, tmp_path: Path) -> None:
    place.fit()
    arrays = dict(np.load(place.data))
    arrays["images"][0, 0, 0] ^= 1
    np.savez(place.data, **arrays)
    budget(str(place.data), epsilon=smallest(place.account.spent(DELTA)).epsilon, delta=DELTA)
    with pytest.raises(BudgetError, match="may use"):
        place.fit(tmp_path / "second")


def test_the_mark_knows_records_in_any_order_split_or_not(place: Place, tmp_path: Path) -> None:
    arrays = dict(np.load(place.data))
    other = tmp_path / "shuffled.npz"
    order = np.random.default_rng(1).permutation(160)
    np.savez(other, images=arrays["images"][order], labels=1 - arrays["labels"][order])
    place.crash(1)
    place.crash(1, tmp_path / "second", data=other, public=0.25, warm_steps=2)
    marks = {entry.charge.mark for entry in place.account.entries}
    assert len(place.account.entries) == 2
    assert len(marks) == 1
    assert place.account.entries[1].charge.given_up == pytest.approx(0.25, abs=0.01)


def test_a_name_on_the_card_is_the_account(place: Place, gossamer: Run) -> None:
    place.card.write_text(place.card.read_text() + 'data_set = "clinic-2026"\n')
    place.crash(1)
    assert len(budget_log_at(None).read().budget_of_names("clinic-2026").entries) == 1
    assert gossamer("budget", "clinic-2026").out.startswith("clinic-2026\n")
    assert gossamer("budget", place.data, "--card", place.card).out.startswith("clinic-2026\n")
    assert gossamer("budget", place.data).out.startswith(f"{place.data}, the same records as clinic-2026\n")


def test_a_limit_of_the_place_binds_a_run_whose_card_calls_the_data_set_something_else(
    place: Place, gossamer: Run, checkpoints: None
) -> None:
    """Set as the page says, without a card, before there is a run; then the card gets its data_set."""
    assert gossamer("budget", place.data, "--epsilon", 3, "--delta", DELTA).status == 0
    place.card.write_text(place.card.read_text() + 'data_set = "clinic-2026"\n')
    with pytest.raises(BudgetError, match=r"may use epsilon 3 at delta 0\.001 in all"):
        place.fit(noise_multiplier=0.5)
    assert not place.run.exists()
    place.crash(1)
    told = gossamer("budget", place.data).out
    assert "dpgan" in told
    assert "limit of" in told
    one = smallest(budget_log_at(None).read().budget_of_names("clinic-2026").spent(DELTA)).epsilon
    assert gossamer("budget", place.data, "--epsilon", 1.01 * one, "--delta", DELTA).status == 0
    with pytest.raises(BudgetError, match="This run and 1 before it"):
        place.fit(place.folder / "another")
    assert "too. A certificate counts" not in place.said.getvalue()


@pytest.mark.parametrize("elsewhere", ["copy", "train"])
def test_a_limit_of_a_place_binds_the_same_records_elsewhere(place: Place, tmp_path: Path, elsewhere: str) -> None:
    """A copy that the book has met under a name; or the limit is of a folder, and the run reads its subfolder train."""
    place.card.write_text(place.card.read_text() + 'data_set = "clinic-2026"\n')
    other = tmp_path / "other.npz"
    shutil.copy(place.data, other)
    if elsewhere == "copy":
        place.fit(noise_multiplier=1.0)
        limited = str(place.data)
    else:
        (tmp_path / "D").mkdir()
        other = shutil.move(other, tmp_path / "D" / "train")
        limited = str(tmp_path / "D")
    budget(limited, epsilon=0.5, delta=DELTA)
    charge = dataclasses.replace(entered(place, other), plan=((GaussianDpEvent(1.0), 1),))
    with pytest.raises(BudgetError, match=r"may use epsilon 0\.5"):
        budget_log_at(None).read().budget_of_run(charge).refuse_beyond_limit(charge)


def entered(place: Place, data: Path) -> Charge:
    """What a run on these records would be entered as."""
    sources = DataSources.of(str(data))
    known = budget_log_at(None).read().entries
    return Charge(
        run="r", name="clinic-2026" if known else "another", mark=known[0].charge.mark if known else "m", date="2026-11-24",
        method="moments", folder=str(place.folder), plan=(), relation=ADD_OR_REMOVE_ONE, unit="record", delta=DELTA,
        infinite=False, given_up=0.0, place=place_of(sources),
    )  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"noise_multiplier": None, "delta": None, "epsilon": math.inf},
        {"rng": Rng(0, noise_seed=1)},
        {"method": "privgan"},
    ],
)
def test_runs_without_a_guarantee_make_the_sum_infinite_from_then_on(place: Place, changed: dict[str, Any]) -> None:
    if changed.get("method"):
        with pytest.raises(Stopped):
            fit(
                "privgan", data=place.data, card=place.card, out=place.run, **PRIVGAN, process=Process(sink=crash_at(1))
            )
    else:
        place.crash(1, **changed)
    assert math.isinf(smallest(place.account.spent(DELTA)).epsilon)
    budget(str(place.data), epsilon=100.0, delta=DELTA)
    with pytest.raises(BudgetError, match=r"would use epsilon infinity"):
        place.fit(place.folder / "second")
    budget(str(place.data), epsilon=100.0, delta=DELTA, allow_infinite=True, force=True)
    place.crash(1, place.folder / "second")


def test_a_fixed_noise_seed_is_in_the_log_before_the_first_query(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Confined, "release", raising(Stopped()))
    with pytest.raises(Stopped):
        place.fit(rng=Rng(0, noise_seed=1))
    assert math.isinf(smallest(place.account.spent(DELTA)).epsilon)


def test_a_limit_says_what_it_binds_and_when_it_comes_too_late(place: Place, gossamer: Run) -> None:
    limit = ["--epsilon", 0.01, "--delta", DELTA]
    told = gossamer("budget", "nowhere", *limit)
    assert told.status == 0
    assert 'There is nothing at nowhere: a limit binds runs whose card has data_set = "nowhere".' in told.out
    place.fit()
    told = gossamer("budget", place.data, *limit)
    assert "More than that is used: no further run will pass." in told.out
    assert "There is nothing" not in told.out
    assert gossamer("budget", place.data, "--epsilon", "inf").status == 2
    told = gossamer("budget", place.data, "--epsilon", "inf", "--force")
    assert f"{place.data} has no limit any more" in told.out
    assert "limit of" not in told.out
    assert told.out.splitlines()[-2].endswith(f"at delta {DELTA:g}, add-or-remove-one record"), "at that of the runs"
    place.fit(place.folder / "second")


def test_a_refusal_names_the_account_in_which_the_runs_stand(place: Place, gossamer: Run, tmp_path: Path) -> None:
    """The limit is of a copy, and under its name there is no run; names may hold blanks."""
    place.card.write_text(place.card.read_text() + 'data_set = "clinic 2026"\n')
    place.fit()
    copy = tmp_path / "copy of it.npz"
    shutil.copy(place.data, copy)
    budget(str(copy), epsilon=0.01, delta=DELTA)
    place.card.write_text(place.card.read_text().replace("clinic 2026", "another"))
    with pytest.raises(BudgetError) as caught:
        place.fit(tmp_path / "second", data=copy)
    assert "This run and 1 before it" in str(caught.value)
    assert "see `gossamer.budget('clinic 2026')`" in str(caught.value)
    assert f"`gossamer.budget('{copy}', epsilon=E, delta=D, force=True)`" in str(caught.value)
    assert gossamer("budget", "clinic 2026").out.count("dpgan") == 1


def test_beyond_the_limit_nothing_is_begun(place: Place, gossamer: Run, tmp_path: Path) -> None:
    assert gossamer("budget", place.data, "--epsilon", 0.01, "--delta", DELTA).status == 0
    before = sorted(path.name for path in tmp_path.iterdir())
    flags = {"data": place.data, "card": place.card, "out": place.run, "delta": DELTA, **SMALL}
    words = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
    answer = gossamer("fit", "dpgan", *words)
    assert answer.status == 2
    assert (
        answer.err.strip()
        .split("\n")[-1]
        .startswith(f"gossamer: {place.data} may use epsilon 0.01 at delta 0.001 in all")
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert place.account.entries == ()


def test_a_book_that_cannot_be_used_stops_a_run_before_it_begins(place: Place, state_home: Path) -> None:
    folder = state_home / "gossamer"
    folder.mkdir()
    (folder / FILE).write_text("{}\n")
    with pytest.raises(BudgetLogError, match="damaged"):
        place.fit()
    assert not place.run.exists()


def test_a_book_that_fails_at_the_last_moment_leaves_no_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise BudgetLogError("no space left")

    monkeypatch.setattr(OpenBudgetLog, "add_run", full)
    with pytest.raises(BudgetLogError):
        place.fit()
    assert not place.run.exists() or RunFolder(place.run).blank


def test_a_book_of_its_own(place: Place, tmp_path: Path, state_home: Path) -> None:
    place.crash(1, accounts=tmp_path / "book")
    assert len(BudgetLog(tmp_path / "book").read().entries) == 1
    place.resume()
    assert [entry.status for entry in BudgetLog(tmp_path / "book").read().entries] == ["finished"]
    assert list(state_home.iterdir()) == []
    with pytest.raises(BudgetLogError, match="lies in a run itself"):
        place.fit(tmp_path / "second", accounts=tmp_path / "second" / "book")


def test_settings_of_which_no_network_can_be_made_are_refused_before_they_cost_anything(place: Place) -> None:
    place.card.write_text("shape = [1, 30, 30]\nclasses = 2\ndeclared_size = 160\n")
    with pytest.raises(RequestError):
        place.fit()
    assert not place.run.exists()
    assert place.account.entries == ()


def test_a_failed_run_stays_charged(place: Place, tmp_path: Path) -> None:
    place.crash(1)
    place.crash(1, tmp_path / "second")
    assert len(place.account.entries) == 2


# ------------------------------------------------------------------ who may go on


def test_resume_of_the_same_folder_is_free(place: Place, checkpoints: None) -> None:
    place.crash(BLOCK + 1)
    place.resume()
    (entry,) = place.account.entries
    assert entry.status == "finished"
    ledger = PrivacyLedger.load(place.run / "ledger.jsonl")
    assert len(ledger.sessions) == 2
    assert entry.session == ledger.sessions[1]
    before = (budget_log_at(None)._path).read_bytes()
    place.resume()
    assert (budget_log_at(None)._path).read_bytes() == before, "a finished run charges nothing"


def test_of_two_copies_one_goes_on_and_the_other_is_a_run_of_its_own(
    place: Place, tmp_path: Path, checkpoints: None
) -> None:
    place.crash(BLOCK + 1)
    shutil.copytree(place.run, tmp_path / "copy")
    shutil.copytree(place.run, tmp_path / "third")
    place.resume()
    assert len(place.account.entries) == 1
    place.resume(tmp_path / "copy")
    assert len(place.account.entries) == 2
    assert "or an older state, of a run in the budget log" in place.words
    spent = smallest(place.account.spent(DELTA)).epsilon
    assert spent > 1.2 * smallest(DataSetBudget(place.account.entries[:1], ("",), ()).spent(DELTA)).epsilon
    budget(str(place.data), epsilon=spent, delta=DELTA)
    lines = (tmp_path / "third" / "ledger.jsonl").read_bytes()
    with pytest.raises(BudgetError, match="may use"):
        place.resume(tmp_path / "third")
    assert (tmp_path / "third" / "ledger.jsonl").read_bytes() == lines
    assert not (tmp_path / "third" / "certificate.json").exists()


def test_a_copy_made_while_the_run_trained_does_not_go_on_for_free(
    place: Place, tmp_path: Path, checkpoints: None
) -> None:
    def copy(event: Event, /) -> None:
        if event.kind == "step" and event.step == 3:
            shutil.copytree(place.run, tmp_path / "copy")

    place.fit(sink=copy)
    place.resume(tmp_path / "copy")
    assert [entry.status for entry in place.account.entries] == ["finished", "finished"]


def test_a_copy_resumed_while_the_run_trains_makes_the_run_pay_again(
    place: Place, tmp_path: Path, checkpoints: None
) -> None:
    def copy(event: Event, /) -> None:
        if event.kind == "step" and event.step == BLOCK + 1:
            shutil.copytree(place.run, tmp_path / "copy")
            resume(tmp_path / "copy")

    place.fit(sink=copy)
    assert [entry.status for entry in place.account.entries] == ["finished", "finished"]
    assert "Both count" in place.words


def test_an_older_state_of_the_folder_counts_as_another_run(place: Place, tmp_path: Path, checkpoints: None) -> None:
    place.crash(3)
    shutil.copytree(place.run, tmp_path / "backup")
    with pytest.raises(Stopped):
        resume(place.run, process=Process(sink=crash_at(2)))
    shutil.rmtree(place.run)
    shutil.copytree(tmp_path / "backup", place.run)
    place.resume()
    assert len(place.account.entries) == 2


@pytest.mark.parametrize("lost", ["go_on", "begin_session"])
def test_a_crash_between_ledger_and_book_charges_nothing_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, checkpoints: None, lost: str
) -> None:
    def killed(*_: object) -> None:
        raise Stopped

    place.crash(BLOCK + 1)
    for _ in range(2):
        with monkeypatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(
                *((OpenBudgetLog, "resume", killed) if lost == "go_on" else (PrivacyLedger, "begin_session", killed))
            )
            place.resume()
    place.resume()
    assert [entry.status for entry in place.account.entries] == ["finished"]


def test_a_fit_killed_before_it_was_entered_is_entered_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(OpenBudgetLog, "add_run", killed)
        place.fit()
    assert place.account.entries == ()
    place.resume()
    assert [entry.status for entry in place.account.entries] == ["finished"]


def test_a_run_killed_before_its_certificate_is_certified_for_free(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Certificate, "save", killed)
        place.fit()
    place.resume()
    assert [entry.status for entry in place.account.entries] == ["finished"]
    assert verify(place.run).ok


def test_an_ended_run_survives_a_crash_between_ledger_and_book(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the certificate, then at the book's line, after the ledger's."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    for where in ((Certificate, "save"), (OpenBudgetLog, "resume"), (Certificate, "save"), (OpenBudgetLog, "resume")):
        with monkeypatch.context() as patch, contextlib.suppress(OSError, GossamerError):
            patch.setattr(*where, full)
            place.fit() if not place.run.exists() else place.resume()
    place.resume()
    assert [entry.status for entry in place.account.entries] == ["finished"]
    assert verify(place.run).ok


def test_a_run_does_not_go_on_with_other_settings(place: Place, checkpoints: None) -> None:
    place.crash(BLOCK + 1)
    config, before = place.run / "config.json", held_bytes(place.run)
    text = config.read_text()
    config.write_text(text.replace('"max_norm": 1.0', '"max_norm": 2.0'))
    assert config.read_text() != text
    with pytest.raises(LedgerDamaged, match=r"config\.json is not the one .* Nothing has been charged"):
        place.resume()
    config.write_text(text)
    assert held_bytes(place.run) == before
    place.resume()
    assert [entry.status for entry in place.account.entries] == ["finished"]


def test_a_run_that_the_book_does_not_know_is_entered_and_said(
    place: Place, state_home: Path, checkpoints: None
) -> None:
    place.crash(2, steps=3 * BLOCK)
    shutil.rmtree(state_home / "gossamer")
    with pytest.raises(Stopped):
        resume(place.run, process=Process(sink=crash_at(BLOCK + 1)))
    assert len(place.account.entries) == 1, "before it trains"
    shutil.rmtree(state_home / "gossamer")
    place.resume()
    assert len(place.account.entries) == 1
    assert "does not know this run" in place.words


# ------------------------------------------------------------------ whose folder it is


def test_a_checkpoint_of_another_run_is_refused(place: Place, tmp_path: Path, checkpoints: None) -> None:
    """Its networks were paid for by another ledger, or by none."""
    place.crash(BLOCK + 2, steps=3 * BLOCK)
    place.crash(BLOCK + 2, tmp_path / "other", steps=3 * BLOCK)
    mine = place.run / PRIVATE / checkpoint.FILE
    kept = mine.read_bytes()
    mine.write_bytes((tmp_path / "other" / PRIVATE / checkpoint.FILE).read_bytes())
    with pytest.raises(LedgerDamaged, match="the checkpoint of another run"):
        place.resume()
    mine.write_bytes(kept)
    place.resume()
    assert verify(place.run).ok


def test_a_checkpoint_of_a_copy_that_went_on_is_refused(place: Place, tmp_path: Path, checkpoints: None) -> None:
    place.crash(2, steps=3 * BLOCK)
    shutil.copytree(place.run, tmp_path / "copy")
    for run in (place.run, tmp_path / "copy"):
        with pytest.raises(Stopped):
            resume(run, process=Process(sink=crash_at(2 * BLOCK)))
    state = Path(PRIVATE) / checkpoint.FILE
    shutil.copy(tmp_path / "copy" / state, place.run / state)
    with pytest.raises(LedgerDamaged, match="or of a copy of this one"):
        place.resume()


@pytest.mark.parametrize("then", slow_among(["another run", "nothing"], {"another run"}))
def test_a_process_whose_folder_was_moved_away_writes_nothing_more(
    place: Place, tmp_path: Path, checkpoints: None, then: str
) -> None:
    place.fit(tmp_path / "other")

    def moved(event: Event, /) -> None:
        if event.kind == "step" and event.step == BLOCK:
            place.run.rename(tmp_path / "moved")
            if then == "another run":
                shutil.copytree(tmp_path / "other", place.run)

    with pytest.raises(RunFolderError, match="was moved, deleted or replaced"):
        place.fit(steps=3 * BLOCK, sink=moved)
    if then == "another run":
        assert held_bytes(place.run) == held_bytes(tmp_path / "other")
    else:
        assert not place.run.exists()
    place.resume(tmp_path / "moved")
    assert verify(tmp_path / "moved").ok


def test_a_ledger_with_a_second_name_is_not_gone_on_with(place: Place, tmp_path: Path) -> None:
    """A snapshot of hard links: what one run writes would stand in the other's ledger too."""
    place.crash(2, steps=3 * BLOCK)
    (tmp_path / "snapshot").hardlink_to(place.run / "ledger.jsonl")
    before = held_bytes(place.run)
    with pytest.raises(RunFolderError, match="has a second name on this disk"):
        place.resume()
    assert held_bytes(place.run) == before
    (tmp_path / "snapshot").unlink()
    place.resume()
    assert verify(place.run).ok


def test_a_run_that_went_to_another_book_stays_there(place: Place, tmp_path: Path, checkpoints: None) -> None:
    book = tmp_path / "book"
    place.crash(2, steps=3 * BLOCK)
    with pytest.raises(Stopped):
        resume(place.run, accounts=book, process=Process(sink=crash_at(2 * BLOCK)))
    shutil.copytree(place.run, tmp_path / "copy")
    place.resume()

    def statuses() -> list[str]:
        return [entry.status for entry in budget_log_at(book).read().budget_of_names(str(place.data)).entries]

    assert statuses() == ["finished"]
    place.resume(tmp_path / "copy")
    assert statuses() == ["finished", "finished"]


@pytest.mark.parametrize("asked", ["evaluate", "attack", "audit"])
def test_figures_of_a_run_that_was_replaced_are_written_nowhere(
    place: Place, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    place.fit(steps=8)
    replaced: list[dict[str, bytes]] = []

    def replace(*_given: Any, **_named: Any) -> Any:
        shutil.rmtree(place.run)
        place.fit(steps=8)
        replaced.append(held_bytes(place.run))
        return SimpleNamespace(to_json=dict)

    data = str(place.data)
    with pytest.raises(RunFolderError, match="was replaced by another run"):
        if asked == "evaluate":
            monkeypatch.setattr(METRICS, "measured", lambda *_given: iter([("x", {}, str(replace()))]))
            evaluate(place.run, train=data, test=data, count=20)
        elif asked == "attack":
            monkeypatch.setattr("gossamer.run.evaluation.attack.separability", replace)
            monkeypatch.setattr("gossamer.run.evaluation.attack.attack_verdict.verdict", lambda *_given, **_named: [])
            asdict = dataclasses.asdict  # the second run is written by the real one
            monkeypatch.setattr(
                "gossamer.run.evaluation.attack.dataclasses.asdict",
                lambda value: {} if isinstance(value, SimpleNamespace) else asdict(value),
            )
            kind = SimpleNamespace(
                sets=lambda *_given, **_named: (Records(), Records()),
                attacks=lambda _target: [],
                array=lambda *_given: None,
                limits=lambda _card: (),
                drawn=lambda *_given, **_named: None,
                has_discriminators=lambda *_given: False,
            )
            monkeypatch.setattr("gossamer.run.evaluation.attack.kind_of", lambda _card: kind)
            monkeypatch.setattr("gossamer.run.evaluation.attack._told_apart", lambda *_given, **_named: (Records(), ""))
            monkeypatch.setattr("gossamer.run.evaluation.attack._drawn", lambda *_given: {})
            monkeypatch.setattr("gossamer.run.evaluation.attack.Target", lambda **_given: Target())
            attack(place.run, members=data, nonmembers=data)
        else:
            monkeypatch.setattr("gossamer.run.auditing.audit.audit", replace)
            audit_run(place.run)
    assert held_bytes(place.run) == replaced[0]


class Records:
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return 0


class Drawn(list[int]):
    images: tuple[()] = ()


class Target:
    members = nonmembers = held_out = Drawn()


# ------------------------------------------------------------------ who may delete


def test_a_finished_run_is_not_replaced_and_keeps_its_cost_when_its_folder_is_deleted(place: Place) -> None:
    place.fit()
    before = held_bytes(place.run)
    with pytest.raises(RunFolderError, match="delete the folder: the budget log keeps its cost"):
        place.fit()
    assert held_bytes(place.run) == before
    shutil.rmtree(place.run)
    place.fit()
    assert verify(place.run).ok
    assert len(place.account.entries) == 2


def test_an_unfinished_run_is_not_replaced(place: Place) -> None:
    place.crash(BLOCK + 1)
    before = held_bytes(place.run)
    with pytest.raises(RunFolderError, match=r"gossamer\.discard"):
        place.fit()
    assert held_bytes(place.run) == before


def test_a_run_that_another_process_has_is_not_deleted(place: Place) -> None:
    """A process that trains holds the folder, and its ledger."""
    place.crash(BLOCK + 1)
    before = held_bytes(place.run)
    with RunFolder(place.run).locked(), pytest.raises(RunFolderError, match="another process"):
        discard(place.run)
    (place.run / PRIVATE / LOCK).touch()
    ledger = PrivacyLedger.resume(place.run / "ledger.jsonl")
    with pytest.raises(RunFolderError, match="another process"):
        discard(place.run)
    ledger.close()
    assert held_bytes(place.run) == before


def test_what_is_no_part_of_a_run_is_never_deleted(place: Place, tmp_path: Path) -> None:
    """Another run below it, live or not, an account book, the records themselves."""
    place.fit(tmp_path / "runs")
    place.crash(BLOCK + 1, tmp_path / "runs" / "second")
    place.fit(tmp_path / "third", accounts=tmp_path / "runs" / "book")
    (tmp_path / "runs" / "mine.npz").write_bytes(place.data.read_bytes())
    mine = ("second", "book", "mine.npz")
    before = {name: value for name, value in held_bytes(tmp_path / "runs").items() if name.startswith(mine)}
    assert len(before) >= 8
    place.crash(BLOCK + 1, tmp_path / "given up")
    (tmp_path / "given up" / "notes.txt").write_text("mine")
    (tmp_path / "given up" / ".config.json.swp").write_text("mine, in an editor")
    (tmp_path / "given up" / ".config.json.k3_9dw2x").write_text("what a kill left")
    (tmp_path / "given up" / "tensorboard").mkdir()
    discard(tmp_path / "given up")
    left = sorted(path.name for path in (tmp_path / "given up").iterdir())
    assert left == [".config.json.swp", "notes.txt", "tensorboard"]
    after = {name: value for name, value in held_bytes(tmp_path / "runs").items() if name.startswith(mine)}
    assert after == before
    with pytest.raises(BudgetLogError, match="lies in a run"):
        place.fit(tmp_path / "fourth", accounts=tmp_path / "runs" / PRIVATE / "book")


def test_of_two_that_begin_at_once_one_wins(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second asks for the folder while the first reads its records, before there is a ledger."""
    refused: list[str] = []
    read = DataSources.read

    def reading(sources: DataSources, *given: Any, **named: Any) -> Any:
        if not refused:
            refused.append("asked")
            with pytest.raises(RunFolderError, match="in use by another process") as caught:
                place.fit()
            refused.append(str(caught.value))
        return read(sources, *given, **named)

    monkeypatch.setattr(DataSources, "read", reading)
    place.fit()
    assert len(refused) == 2
    assert [entry.status for entry in place.account.entries] == ["finished"]
    assert verify(place.run).ok


def test_what_a_killed_fit_left_before_its_ledger_is_taken_over(place: Place) -> None:
    (place.run / PRIVATE).mkdir(parents=True)
    (place.run / PRIVATE / LOCK).touch()
    (place.run / PRIVATE / "source.json").write_text("{}")
    (place.run / "config.json").write_text("{}")
    place.fit()
    assert verify(place.run).ok


def test_a_folder_of_someone_else_is_no_leftover(place: Place) -> None:
    place.run.mkdir()
    (place.run / "config.json").write_text("mine")
    with pytest.raises(RunFolderError, match="holds no run"):
        place.fit()
    assert (place.run / "config.json").read_text() == "mine"


def test_discard_says_what_is_lost_and_keeps_the_charge(place: Place, gossamer: Run, checkpoints: None) -> None:
    place.crash(BLOCK + 1)
    answer = gossamer("discard", place.run)
    assert answer.status == 0, answer.err
    assert f"deleted after {2 * BLOCK} of {2 * BLOCK} noisy queries, epsilon" in answer.out
    assert "keeps its whole plan" in answer.out
    assert not place.run.exists()
    assert [entry.status for entry in place.account.entries] == ["given up"]
    place.fit()
    assert [entry.status for entry in place.account.entries] == ["given up", "finished"]


def test_a_copy_of_a_run_that_was_given_up_is_a_run_of_its_own(place: Place, tmp_path: Path, checkpoints: None) -> None:
    place.crash(BLOCK + 1)
    shutil.copytree(place.run, tmp_path / "copy")
    discard(place.run)
    place.resume(tmp_path / "copy")
    assert [entry.status for entry in place.account.entries] == ["given up", "finished"]


def test_a_copy_that_is_given_up_costs_nothing(place: Place, tmp_path: Path, checkpoints: None) -> None:
    place.crash(BLOCK + 1)
    shutil.copytree(place.run, tmp_path / "copy")
    place.resume()
    discard(tmp_path / "copy")
    assert [entry.status for entry in place.account.entries] == ["finished"]


def test_a_copy_that_is_given_up_leaves_the_run_its_charge(place: Place, tmp_path: Path, checkpoints: None) -> None:
    """Also where the copy could still go on, as the folder that the book knows could."""
    place.crash(BLOCK + 1)
    shutil.copytree(place.run, tmp_path / "copy")
    told = discard(tmp_path / "copy")
    assert f"a copy of the run in {place.run}" in told[0]
    assert not (tmp_path / "copy").exists()
    place.resume()
    assert [entry.status for entry in place.account.entries] == ["finished"]
    shutil.copytree(place.run, tmp_path / "of the end")  # the original is finished, and holds the run all the same
    (tmp_path / "of the end" / "certificate.json").unlink()
    discard(tmp_path / "of the end")
    assert [entry.status for entry in place.account.entries] == ["finished"]
    moved = tmp_path / "second"
    place.crash(BLOCK + 1, tmp_path / "first")
    (tmp_path / "first").rename(moved)
    discard(moved)
    assert [entry.status for entry in place.account.entries] == ["finished", "given up"]
    place.crash(BLOCK + 1, tmp_path / "third")
    (tmp_path / "other name").symlink_to(tmp_path, target_is_directory=True)
    told = discard(tmp_path / "other name" / "third")
    assert "third: deleted after" in told[0]
    assert [entry.status for entry in place.account.entries] == ["finished", "given up", "given up"]
    place.crash(BLOCK + 1, tmp_path / "fourth")
    shutil.copytree(tmp_path / "fourth", tmp_path / "without its sources")
    (tmp_path / "without its sources" / PRIVATE / "source.json").unlink()
    told = discard(tmp_path / "without its sources")
    assert "That run and its cost stay as they are" in told[0]
    place.resume(tmp_path / "fourth")
    assert [entry.status for entry in place.account.entries] == ["finished", "given up", "given up", "finished"]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_run_that_went_on_after_it_was_copied_is_counted_when_it_is_given_up(
    place: Place, tmp_path: Path, checkpoints: None, swapped: bool
) -> None:
    """The copy took the entry with it, so that all that the run released since stands nowhere else."""
    run, copy = place.run, tmp_path / "copy"

    def copied(event: Event, /) -> None:
        if event.kind == "step" and event.step == BLOCK + 2:
            shutil.copytree(place.run, copy)
            shutil.copytree(place.run, tmp_path / "beginning")
        if event.kind == "step" and event.step == 2 * BLOCK + 2:
            raise Stopped

    with pytest.raises(Stopped):
        place.fit(steps=3 * BLOCK, sink=copied)
    if swapped:  # the copy is where the run was entered, and the run somewhere else
        run = run.rename(tmp_path / "moved")
        copy = copy.rename(place.run)
    place.resume(copy)
    assert [entry.status for entry in place.account.entries] == ["finished"]
    discard(tmp_path / "beginning")
    assert [entry.status for entry in place.account.entries] == ["finished"], "all that it released, the run released"
    discard(run)
    assert [entry.status for entry in place.account.entries] == ["finished", "given up"]


def test_giving_up_goes_on_after_a_kill(place: Place, monkeypatch: pytest.MonkeyPatch, state_home: Path) -> None:
    for left in (["ledger.jsonl"], ["ledger.jsonl", "config.json"], ["ledger.jsonl", "config.json", "source.json"]):
        place.crash(BLOCK + 1)
        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "remove", raising(Stopped()))
            with pytest.raises(Stopped):
                discard(place.run)
        for path in place.run.rglob("*"):
            if path.is_file() and path.name not in left:
                path.unlink()
        before = len(place.account.entries)
        discard(place.run)
        assert not place.run.exists()
        assert {entry.status for entry in place.account.entries} == {"given up"}
        assert len(place.account.entries) == before
    place.crash(BLOCK + 1)
    (place.run / PRIVATE / "source.json").unlink()
    shutil.rmtree(state_home / "gossamer")
    with pytest.raises(RunFolderError, match="does not know the run"):
        discard(place.run)
    assert (place.run / "ledger.jsonl").is_file()
    (place.run / "ledger.jsonl").write_text("what is this\n")
    with pytest.raises(RunFolderError, match="its ledger cannot be read, and the budget log"):
        discard(place.run)


@pytest.mark.parametrize("killed_at", ["discard", "remove"])
@pytest.mark.parametrize("sources", [True, False])
def test_giving_up_what_no_book_knew_goes_on_after_a_kill(
    place: Place, monkeypatch: pytest.MonkeyPatch, state_home: Path, killed_at: str, sources: bool
) -> None:
    """It is entered and given up in two lines, and its folder goes after that."""
    place.crash(BLOCK + 1)
    shutil.rmtree(state_home / "gossamer")
    with monkeypatch.context() as patch:
        patch.setattr(
            *((OpenBudgetLog, "discard") if killed_at == "discard" else (RunFolder, "remove")), raising(Stopped())
        )
        with pytest.raises(Stopped):
            discard(place.run)
    if not sources:
        (place.run / PRIVATE / "source.json").unlink()
    discard(place.run)
    assert not place.run.exists()
    assert [entry.status for entry in place.account.entries] == ["given up"]


def test_giving_up_what_cannot_be_read_goes_on_after_a_kill(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.crash(BLOCK + 1)
    (place.run / "ledger.jsonl").write_text("what is this\n")
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "remove", raising(Stopped()))
        with pytest.raises(Stopped):
            discard(place.run)
    (place.run / PRIVATE / "source.json").unlink()
    discard(place.run)
    assert not place.run.exists()
    assert [entry.status for entry in place.account.entries] == ["given up"]


def test_a_backup_of_a_run_that_was_moved_is_charged_when_it_is_given_up_and_that_is_said(
    place: Place, tmp_path: Path, checkpoints: None
) -> None:
    place.crash(BLOCK + 1)
    shutil.copytree(place.run, tmp_path / "backup")
    place.run.rename(tmp_path / "moved")
    place.resume(tmp_path / "moved")
    told = discard(tmp_path / "backup")
    assert "its whole plan was added now" in told[-1]
    assert [entry.status for entry in place.account.entries] == ["finished", "given up"]
    place.crash(BLOCK + 1)
    assert not any("added now" in each for each in discard(place.run))


def test_a_damaged_run_that_no_book_knows_is_not_given_up_for_nothing(place: Place, state_home: Path) -> None:
    place.crash(BLOCK + 1)
    ledger = place.run / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"charge": 0', b'"charge": 1', 1))
    shutil.rmtree(state_home / "gossamer")
    with pytest.raises(RunFolderError, match="Name its log with `accounts`"):
        discard(place.run)
    assert ledger.is_file()


@pytest.mark.parametrize("name", ["config.json", f"{PRIVATE}/source.json"])
@pytest.mark.parametrize("text", ["{", "[1, 2]", "{}", '{"sources": {"data": 5}, "card": 1}', None])
def test_a_run_whose_settings_or_sources_were_changed_can_be_given_up_under_its_own_name(
    place: Place, gossamer: Run, state_home: Path, name: str, text: str | None
) -> None:
    """It stands in the book as it began, whatever lies there now; where no book knows it, nobody can say under which name."""
    place.crash(BLOCK + 1)
    path = place.run / name
    if text is None:
        path.write_text(path.read_text().replace(str(place.data), "elsewhere").replace('"method": "', '"method": "x'))
    else:
        path.write_text(text)
    known = name != "config.json" and text is None  # what no ledger pins, and can be read
    answer = gossamer("resume", place.run)
    assert answer.status in (1, 2), answer.err
    assert "unexpected" not in answer.err
    (state_home / "gossamer").rename(state_home / "aside")
    answer = gossamer("discard", place.run)
    assert answer.status == (0 if known else 2), answer.err
    if known:
        return
    assert "does not know the run" in answer.err
    shutil.rmtree(state_home / "gossamer")
    (state_home / "aside").rename(state_home / "gossamer")
    answer = gossamer("discard", place.run)
    assert answer.status == 0, answer.err
    assert not place.run.exists()
    assert [entry.status for entry in place.account.entries] == ["given up"]


def test_a_run_whose_ledger_is_damaged_can_be_given_up(place: Place) -> None:
    place.crash(BLOCK + 1)
    (place.run / "ledger.jsonl").write_text("what is this\n")
    (told,) = discard(place.run)
    assert "could not be read" in told
    assert not place.run.exists()
    assert [entry.status for entry in place.account.entries] == ["given up"]


def test_giving_up_a_run_of_another_book_enters_it(place: Place, state_home: Path) -> None:
    place.crash(BLOCK + 1)
    shutil.rmtree(state_home / "gossamer")
    discard(place.run)
    (entry,) = place.account.entries
    assert (entry.status, entry.charge.plan[0][1]) == ("given up", 2 * BLOCK)


def test_discard_refuses_what_is_not_an_unfinished_run_of_ones_own(
    place: Place, gossamer: Run, tmp_path: Path, checkpoints: None
) -> None:
    def refused(run: Path, says: str) -> None:
        answer = gossamer("discard", run)
        assert (answer.status, answer.out) == (2, "")
        assert says in answer.err

    refused(tmp_path / "nothing", "holds no run")
    assert not (tmp_path / "nothing").exists()
    place.crash(BLOCK + 1)
    before = held_bytes(place.run)
    (tmp_path / "link").symlink_to(place.run)
    refused(tmp_path / "link", "is a link")
    with RunFolder(place.run).locked():
        refused(place.run, "another process")
    ledger = PrivacyLedger.resume(place.run / "ledger.jsonl")
    refused(place.run, "another process")
    ledger.close()
    assert held_bytes(place.run) == before
    place.resume()
    refused(place.run, "holds a finished run")
    assert verify(place.run).ok


# ------------------------------------------------------------------ what a crash has cost


@pytest.mark.parametrize("noiseless", [False, True])
def test_an_untrained_network_is_not_certified(place: Place, noiseless: bool) -> None:
    """All charges are written ahead in one block, the crash comes in its third step, and there is no checkpoint."""
    changed = {"noise_multiplier": None, "delta": None, "epsilon": math.inf} if noiseless else {}
    place.crash(3, steps=BLOCK, **changed)
    assert PrivacyLedger.load(place.run / "ledger.jsonl").charged[0][1] == BLOCK
    before = held_bytes(place.run)
    book = budget_log_at(None)._path.read_bytes()
    with pytest.raises(RunFolderError, match=r"has used its whole plan.*gossamer\.discard"):
        place.resume()
    assert held_bytes(place.run) == before
    assert budget_log_at(None)._path.read_bytes() == book
    discard(place.run)


def test_after_a_warm_start_alone_nothing_is_certified_either(place: Place, checkpoints: None) -> None:
    place.crash(3, steps=BLOCK, public=0.25, warm_steps=2)
    assert (place.run / PRIVATE / checkpoint.FILE).is_file()
    with pytest.raises(RunFolderError, match="has used its whole plan"):
        place.resume()


def test_a_checkpoint_that_lags_behind_is_finished_and_said(place: Place, checkpoints: None) -> None:
    place.crash(BLOCK + 2)
    assert PrivacyLedger.load(place.run / "ledger.jsonl").charged[0][1] == 2 * BLOCK
    place.resume()
    assert f"{BLOCK} noisy queries came after the last checkpoint" in place.words
    assert verify(place.run).ok


def test_nothing_is_said_where_nothing_was_lost(place: Place, checkpoints: None) -> None:
    def stop(event: Event, /) -> None:
        if event.kind == "step" and event.step == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        place.fit(sink=stop)
    place.resume()
    assert "came after the last checkpoint" not in place.words


def test_a_method_that_counts_for_itself_begins_again(place: Place) -> None:
    with pytest.raises(Stopped):
        fit("privgan", data=place.data, card=place.card, out=place.run, **PRIVGAN, process=Process(sink=crash_at(1)))
    place.resume()
    assert verify(place.run).ok


# ------------------------------------------------------------------ the command


def test_budget_lists_the_runs_and_their_sum(place: Place, gossamer: Run, tmp_path: Path) -> None:
    place.crash(1)
    place.crash(1, tmp_path / "second", steps=BLOCK, public=0.25, warm_steps=2)
    lines = gossamer("budget", place.data).out.splitlines()
    assert lines[0] == str(place.data)
    assert "dpgan  epsilon" in lines[1]
    assert lines[1].endswith(f"unfinished  {place.run}")
    assert "0.25 made public" in lines[2]
    together = smallest(place.account.spent(DELTA))
    assert f"together, 2 runs: {together}" in lines
    assert gossamer("budget", place.data, "--epsilon", 50, "--delta", 1e-4).out.splitlines()[-1] == (
        f"limit of {place.data}: epsilon 50 at delta 0.0001"
    )
    told = gossamer("budget", place.data, "--json").json
    assert [run["status"] for run in told["runs"]] == ["unfinished", "unfinished"]
    assert told["limits"][0]["epsilon"] == 50
    assert {entry["accountant"] for entry in told["guarantees"]} == {"RDP", "PLD"}
    assert all(entry["delta"] == 1e-4 for entry in told["guarantees"]), "at the limit's delta"
    assert gossamer("budget", place.data, "--epsilon", 60, "--delta", 1e-4).status == 2
    assert gossamer("budget", place.data, "--epsilon", "inf", "--delta", 1e-4, "--force").status == 0
    assert gossamer("budget", place.data, "--json").json["limits"][0]["epsilon"] == "inf"


def test_budget_refuses_what_it_cannot_mean(gossamer: Run, data: Path, card: Path, state_home: Path) -> None:
    for words, says in (
        ([data], "has no data set"),
        ([data, "--epsilon", 1], "--epsilon and --delta together"),
        ([data, "--delta", 1e-5], "--epsilon and --delta together"),
        ([data, "--allow-infinite"], "--epsilon and --delta together"),
        ([data, "--epsilon", 0, "--delta", 1e-5], "must be above 0"),
        ([data, "--epsilon", 1, "--delta", 1], "between 0 and 1"),
    ):
        answer = gossamer("budget", *words)
        assert answer.status == 2
        assert says in answer.err
    assert list(state_home.iterdir()) == []
    begun = f"A new budget log begins in {state_home}/gossamer/accounts.jsonl: it has no earlier run and no limit."
    for first in ([begun], []):
        told = gossamer("budget", "clinic", "--epsilon", 1, "--delta", 1e-5).out.splitlines()
        assert told[:-2] == [*first, "clinic", "no run yet"]
    assert "Did you mean 'clinic'" in gossamer("budget", "clinc").err


def test_a_book_that_begins_is_said_and_where(place: Place, tmp_path: Path) -> None:
    """A mistyped --accounts would forget every limit."""
    for number, folder in enumerate(["book", "book", "bok"]):
        place.said.truncate(0)
        place.fit(tmp_path / f"run{number}", accounts=tmp_path / folder)
        begins = f"A new budget log begins in {tmp_path}/{folder}/accounts.jsonl: it has no earlier run"
        assert (begins in place.words) == (number != 1)
    place.crash(BLOCK + 1, tmp_path / "its own", accounts=tmp_path / "its own" / PRIVATE / ACCOUNTS)
    assert str(tmp_path / "its own" / PRIVATE) not in place.words


def test_a_finished_run_is_entered_in_the_book_that_did_not_know_it(place: Place, tmp_path: Path) -> None:
    """A mistyped --accounts, another machine, a book that was lost: the release is out, and the right book has to know."""
    budget(str(place.data), epsilon=0.01, delta=DELTA)
    place.fit(accounts=tmp_path / "mistyped")
    other = BudgetLog(tmp_path / "mistyped")
    before = held_bytes(tmp_path / "mistyped")
    place.resume()
    assert place.account.entries == (), "nobody asked"
    for _ in range(2):
        place.resume(accounts=budget_log_at(None)._path.parent)
    (entry,) = place.account.entries
    assert entry.status == "finished"
    assert RunFolder(place.run).source()["accounts"] == str(budget_log_at(None)._path.parent)
    assert entry.charge == other.read().entries[0].charge
    assert entry.charge.mark
    assert "more than a limit" in place.words
    assert held_bytes(tmp_path / "mistyped") == before
    assert verify(place.run).ok
    with pytest.raises(BudgetError):
        place.fit(tmp_path / "next")
    shutil.copytree(place.run, tmp_path / "copy")
    (tmp_path / "copy" / "certificate.json").unlink()
    place.resume(tmp_path / "copy")  # certified again, as it ended, and free
    assert len(place.account.entries) == 1


def test_a_finished_run_whose_book_was_lost_is_entered_anew(place: Place, state_home: Path) -> None:
    place.fit()
    mark = place.account.entries[0].charge.mark
    shutil.rmtree(state_home / "gossamer")
    ledger = (place.run / "ledger.jsonl").read_bytes()
    (place.run / "ledger.jsonl").write_bytes(ledger.replace(b'"charge": 0', b'"charge": 1', 1))
    with pytest.raises(GossamerError):
        place.resume(accounts=state_home / "gossamer")
    assert place.account.entries == ()
    (place.run / "ledger.jsonl").write_bytes(ledger)
    place.resume(accounts=state_home / "gossamer")
    (entry,) = place.account.entries
    assert (entry.status, entry.charge.plan[0][1]) == ("finished", 2 * BLOCK)
    assert entry.charge.mark == mark != "", "the same records under another name are known again"


def test_an_ended_run_without_a_session_is_entered_once(place: Place, tmp_path: Path) -> None:
    """One of which no book was kept; and one that is a part of another is charged as a whole."""
    place.fit()
    ledger = place.run / "ledger.jsonl"
    folder, book = RunFolder(place.run), BudgetLog(tmp_path / "book")
    assert len(PrivacyLedger.load(ledger).sessions) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivacyLedger, "load", classmethod(lambda _cls, path: without_sessions(path)))
        for _ in range(2):
            enter_finished(folder, book._path.parent, log=lambda _text: None)
    assert [entry.status for entry in book.read().entries] == ["finished"]
    inner = place.run / PRIVATE / "clients" / "client-0001"
    shutil.copytree(place.run, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", inner)
    with pytest.raises(RunFolderError, match="is a part of another run"):
        place.resume(inner, accounts=tmp_path / "book")


def without_sessions(path: Path) -> PrivacyLedger:
    ledger, _torn = PrivacyLedger._replay(path)
    ledger.sessions.clear()
    return ledger


def test_an_embedded_name_and_its_split_are_one_data_set(gossamer: Run) -> None:
    gossamer("budget", "digits", "--epsilon", 1, "--delta", 1e-5)
    assert gossamer("budget", "digits:train").out.startswith("digits\n")
    assert gossamer("budget", "digits:test").status == 2


# ------------------------------------------------------------------ the demo


def test_the_demo_has_a_book_of_its_own_and_takes_no_other_run(
    place: Place, monkeypatch: pytest.MonkeyPatch, state_home: Path
) -> None:
    def small(_method: str, **named: Any) -> None:
        fit(
            "dpgan",
            **{
                **named,
                "data": place.data,
                "public": None,
                "epsilon": None,
                **SMALL,
                "process": Process(sink=crash_at(1)),
            },
        )

    monkeypatch.setattr(demo, "CARD", demo.CARD.from_dict({**demo.CARD.to_dict(), "declared_size": 160}))
    monkeypatch.setattr(demo, "fit", small)
    for _ in range(2):  # it replaces its own run, unfinished as it is
        with pytest.raises(Stopped):
            demo.demo(place.run, Terminal(place.said))
        assert len(BudgetLog(place.run / demo.RUN / PRIVATE / ACCOUNTS).read().entries) == 1
    assert list(state_home.iterdir()) == []
    (place.run / "notes.txt").write_text("mine")  # what it could not put a new run beside
    before = held_bytes(place.run)
    with pytest.raises(RequestError, match="other than a run of this demo"):
        demo.demo(place.run, Terminal(place.said))
    assert held_bytes(place.run) == before
    (place.run / "notes.txt").unlink()
    (place.run / demo.RUN / "SHA256SUMS").touch()  # a release of the demo is nobody's to replace
    with pytest.raises(RequestError, match="other than a run of this demo"):
        demo.demo(place.run, Terminal(place.said))
    place.crash(1, place.folder / "mine")
    before = held_bytes(place.folder / "mine")
    with pytest.raises(Exception, match="other than a run of this demo"):
        demo.demo(place.folder / "mine", Terminal(place.said))
    assert held_bytes(place.folder / "mine") == before
