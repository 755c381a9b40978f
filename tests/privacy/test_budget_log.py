"""The book itself: what it keeps, what adds up, who may go on, and what it does with damage."""

import json
import math
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gossamer.errors import BudgetError, BudgetLogError
from gossamer.privacy.accounting import cost
from gossamer.privacy.accounting.cost import smallest
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.budget_log import FILE, BudgetLimit, BudgetLog, Charge
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE
from gossamer.privacy.ledger import START, chain

EVENT = poisson_gaussian(sampling_rate=0.01, noise_multiplier=1.0)
DELTA = 1e-5


def charge(name: str = "clinic", mark: str = "m1", count: int = 100, **changed: Any) -> Charge:
    fields: dict[str, Any] = {
        "run": "r1", "name": name, "mark": mark, "date": "2026-01-01", "method": "dpgan", "folder": "runs/a",
        "plan": ((EVENT, count),), "relation": ADD_OR_REMOVE_ONE, "unit": "record", "delta": DELTA,
    }  # fmt: skip
    return Charge(**{**fields, **changed})


@pytest.fixture
def book(tmp_path: Path) -> BudgetLog:
    return BudgetLog(tmp_path / "book")


def enter(book: BudgetLog, *charges: Charge) -> None:
    with book.opened() as pages:
        for number, each in enumerate(charges):
            pages.add_run(each, f"s{number}")


def text(book: BudgetLog) -> list[str]:
    return (book._path).read_text().splitlines(keepends=True)


def test_what_was_entered_is_read_again(book: BudgetLog) -> None:
    enter(book, charge(), charge(count=7, infinite=True, given_up=0.1))
    entries = book.read().entries
    assert [entry.charge for entry in entries] == [charge(), charge(count=7, infinite=True, given_up=0.1)]
    assert [(entry.session, entry.status) for entry in entries] == [("s0", "unfinished"), ("s1", "unfinished")]


def test_nobody_else_can_read_it(book: BudgetLog) -> None:
    before = os.umask(0)
    try:
        enter(book, charge())
    finally:
        os.umask(before)
    assert stat.S_IMODE(book._path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(book._path.stat().st_mode) == 0o600
    book._path.chmod(0o644)
    enter(book, charge())
    assert stat.S_IMODE(book._path.stat().st_mode) == 0o600


def test_looking_makes_nothing(book: BudgetLog, tmp_path: Path) -> None:
    assert book.read().entries == []
    assert list(tmp_path.iterdir()) == []


def test_a_charge_is_on_disk_before_it_returns(book: BudgetLog, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    with book.opened() as pages:
        pages.add_run(charge(), "s0")
        assert synced[-1] == book._path.stat().st_size
        assert "charge" in text(book)[-1]


def test_runs_under_one_name_add_up_and_others_do_not(book: BudgetLog) -> None:
    enter(book, charge(mark="m1"), charge(mark="m2"), charge(name="school", mark="m3"))
    total = smallest(book.read().budget_of_names("clinic").spent(DELTA))
    assert total == cost.guarantee([(EVENT, 200)], delta=DELTA)
    assert len(book.read().budget_of_names("school").entries) == 1
    assert book.read().budget_of_names("nowhere").spent(DELTA) == ()


def test_the_same_records_under_another_name_share_the_account_and_a_name_keeps_its_history(book: BudgetLog) -> None:
    """clinic had records m1, then m2; a copy of m2 lies elsewhere: whoever asks for any of the three finds all runs."""
    enter(book, charge(mark="m1"), charge(mark="m2"), charge(name="copy", mark="m2"), charge(name="school", mark="m9"))
    for account in (
        book.read().budget_of_names("clinic"),
        book.read().budget_of_names("copy"),
        book.read().budget_of_names("new", mark="m1"),
        book.read().budget_of_names("new", mark="m2"),
    ):
        assert len(account.entries) == 3
        assert {"clinic", "copy"} <= set(account.names)
    assert len(book.read().budget_under_name("clinic").entries) == 2, (
        "what a certificate may say follows from the name alone"
    )


def test_a_place_with_a_limit_links_all_that_was_read_there(book: BudgetLog) -> None:
    """Under one name, then under another with other records; and now the first records, a copy, under a third."""
    enter(
        book,
        charge("A", "m1", place="/P/d.npz"),
        charge("B", "m2", place="/P/d.npz/train"),
        charge("D", "m4", place="/R"),
    )
    third = charge("C", "m1", place="/Q/d.npz")
    assert len(book.read().budget_of_run(third).entries) == 1
    with book.opened() as pages:
        pages.set_limit(BudgetLimit(name="/P/d.npz", epsilon=1.0, delta=DELTA), force=False)
    account = book.read().budget_of_run(third)
    assert [entry.charge.name for entry in account.entries] == ["A", "B"]
    assert set(account.names) == {"A", "B", "C"}, account.names
    (limit,) = account.limits
    assert limit.name == "/P/d.npz"
    at_the_place = book.read().budget_of_names("/P/d.npz").entries
    assert [entry.charge for entry in account.entries] == [entry.charge for entry in at_the_place]
    with book.opened() as pages:
        pages.set_limit(BudgetLimit(name="/P/d.npz", epsilon=math.inf, delta=DELTA), force=True)
    assert len(book.read().budget_of_run(third).entries) == 1, "a limit that was lifted links nothing"


def test_unknown_records_link_nothing(book: BudgetLog) -> None:
    enter(book, charge(mark=""), charge(name="school", mark=""))
    assert len(book.read().budget_of_names("clinic").entries) == 1


def test_a_limit_refuses_what_would_pass_it_and_nothing_else(book: BudgetLog) -> None:
    two = cost.guarantee([(EVENT, 200)], delta=DELTA).epsilon
    with book.opened() as pages:
        pages.set_limit(BudgetLimit(name="clinic", epsilon=two, delta=DELTA), force=False)
        pages.add_run(charge(), "s0")
        pages.budget_of_names("clinic", mark="m1").refuse_beyond_limit(charge())
        pages.add_run(charge(), "s1")
        with pytest.raises(BudgetError, match=r"clinic may use .* This run and 2 before it would use epsilon"):
            pages.budget_of_names("clinic", mark="m1").refuse_beyond_limit(charge(count=1))
        with pytest.raises(BudgetError, match="clinic may use"):  # a copy of the records elsewhere
            pages.budget_of_names("copy", mark="m1").refuse_beyond_limit(charge(name="copy", count=1))
        pages.budget_of_names("school", mark="m9").refuse_beyond_limit(charge(name="school", mark="m9"))


def test_a_limit_forbids_runs_without_a_guarantee_unless_it_lets_them_pass(book: BudgetLog) -> None:
    with book.opened() as pages:
        pages.set_limit(BudgetLimit(name="clinic", epsilon=10, delta=DELTA), force=False)
        with pytest.raises(BudgetError, match="infinity"):
            pages.budget_of_names("clinic").refuse_beyond_limit(charge(infinite=True))
        pages.set_limit(BudgetLimit(name="clinic", epsilon=10, delta=DELTA, allow_infinite=True), force=True)
        pages.budget_of_names("clinic").refuse_beyond_limit(charge(infinite=True))
        pages.add_run(charge(infinite=True), "s0")
        pages.budget_of_names("clinic").refuse_beyond_limit(charge())
        with pytest.raises(BudgetError):
            pages.budget_of_names("clinic").refuse_beyond_limit(charge(count=10**6))
        assert math.isinf(smallest(pages.budget_of_names("clinic").spent(DELTA)).epsilon), (
            "the sum says it all the same"
        )


@pytest.mark.parametrize(
    ("limit", "looser"),
    [
        ({"epsilon": 5.0}, False),
        ({"epsilon": 10.5}, True),
        ({"epsilon": 9.0, "delta": 2e-5}, True),
        ({"epsilon": math.inf}, True),
        ({"allow_infinite": True}, True),
    ],
)
def test_a_looser_limit_needs_force(book: BudgetLog, limit: dict[str, Any], looser: bool) -> None:
    first = {"name": "clinic", "epsilon": 10.0, "delta": DELTA}
    with book.opened() as pages:
        pages.set_limit(BudgetLimit(**first), force=False)
        new = BudgetLimit(**{**first, **limit})
        if looser:
            with pytest.raises(BudgetError, match="force=True"):
                pages.set_limit(new, force=False)
            assert pages.limits["clinic"] == BudgetLimit(**first)
        pages.set_limit(new, force=looser)
    assert book.read().limits["clinic"] == new


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0.0}, {"epsilon": -1.0}, {"delta": 0.0}, {"delta": 1.0}, {"epsilon": math.nan}]
)
def test_a_limit_that_makes_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(BudgetError, match="limit"):
        BudgetLimit(**{"name": "clinic", "epsilon": 1.0, "delta": DELTA, **wrong})


def test_only_the_newest_word_goes_on_and_only_once(book: BudgetLog) -> None:
    """Two folders hold the ledger [s0]. The first that goes on takes the entry with it."""
    enter(book, charge())
    with book.opened() as pages:
        entry = pages.resumable_entry(["s0"], "h")
        assert entry is not None
        pages.resume(entry, "a1")
    with book.opened() as pages:
        assert pages.resumable_entry(["s0"], "h") is None, "the copy"
        assert pages.resumable_entry(["s0", "a1"], "h") is pages.entries[0]
        assert pages.resumable_entry([], "h") is None


def test_a_crash_between_the_two_writes_charges_nothing_twice(book: BudgetLog) -> None:
    """The ledger has a word that never reached the book; a copy made before may then go on, but never both."""
    enter(book, charge())
    with book.opened() as pages:
        entry = pages.resumable_entry(["s0", "lost", "lost too"], "h")
        assert entry is pages.entries[0]
        pages.resume(entry, "a1")
        assert pages.resumable_entry(["s0"], "h") is None
        assert pages.resumable_entry(["s0", "lost"], "h") is None


def test_a_copy_that_was_charged_goes_on_with_its_own_entry(book: BudgetLog) -> None:
    enter(book, charge())
    with book.opened() as pages:
        pages.add_run(charge(), "b1")  # the copy, charged
        assert pages.resumable_entry(["s0", "b1"], "h") is pages.entries[1], "the newest of its words"
        assert pages.resumable_entry(["s0"], "h") is pages.entries[0], "the first folder keeps its own"


def test_an_ended_run_goes_on_for_nobody_but_as_it_ended(book: BudgetLog) -> None:
    enter(book, charge())
    with book.opened() as pages:
        pages.finish(pages.entries[0], "h9", infinite=False)
        assert pages.entries[0].status == "finished"
        assert pages.resumable_entry(["s0"], "h3") is None, "a copy made while it trained"
        assert pages.resumable_entry(["s0"], "h9") is pages.entries[0], "killed before its certificate was written"


def test_a_run_that_was_given_up_goes_on_for_nobody_and_stays_charged(book: BudgetLog) -> None:
    enter(book, charge())
    with book.opened() as pages:
        pages.discard(pages.entries[0], "2026-01-02")
        assert pages.resumable_entry(["s0"], "h") is None
    (entry,) = book.read().budget_of_names("clinic").entries
    assert (entry.status, entry.charge) == ("given up", charge())


def test_what_a_run_let_out_without_a_mechanism_makes_it_infinite(book: BudgetLog) -> None:
    enter(book, charge())
    with book.opened() as pages:
        pages.finish(pages.entries[0], "h", infinite=True)
    assert math.isinf(smallest(book.read().budget_of_names("clinic").spent(DELTA)).epsilon)


def test_a_torn_last_line_was_never_answered_for_and_is_written_over(book: BudgetLog) -> None:
    enter(book, charge(), charge())
    whole = book._path.read_bytes()
    for cut in (1, 40, len(text(book)[-1]) - 1):
        book._path.write_bytes(whole[:-cut])
        assert len(book.read().entries) == 1
        with book.opened() as pages:
            pages.add_run(charge(count=3), "s9")
        assert [entry.charge.plan[0][1] for entry in book.read().entries] == [100, 3]


def changed_line(lines: list[str]) -> None:
    lines[1] = lines[1].replace('"count": 100', '"count": 1')


def cut_line(lines: list[str]) -> None:
    del lines[1]


def garbage(lines: list[str]) -> None:
    lines[2] = "what is this\n"


def second_head(lines: list[str]) -> None:
    lines[2] = lines[0]


@pytest.mark.parametrize(("damage", "line"), [(changed_line, 2), (cut_line, 2), (garbage, 3), (second_head, 3)])
def test_a_damaged_book_is_refused_and_left_as_it_is(book: BudgetLog, damage: Any, line: int) -> None:
    enter(book, charge(), charge())
    lines = text(book)
    damage(lines)
    book._path.write_text("".join(lines))
    with pytest.raises(BudgetLogError, match=rf"damaged: line {line},"):
        book.read()
    with pytest.raises(BudgetLogError, match="Restore it from a copy"), book.opened():
        pass
    assert text(book) == lines


@pytest.mark.parametrize("body", [{"open": {"format": 1}}, {"paid": 5}, {"entry": 0}, {"infinite": False, "entry": 0}])
def test_a_second_head_and_an_unknown_line_are_damage_under_a_good_chain(book: BudgetLog, body: dict[str, Any]) -> None:
    enter(book, charge())
    lines = text(book)
    lines.append(json.dumps({**body, "hash": chain(json.loads(lines[-1])["hash"], body)}) + "\n")
    book._path.write_text("".join(lines))
    with pytest.raises(BudgetLogError, match="damaged: line 3,"):
        book.read()


def test_a_run_that_declassified_has_no_guarantee_from_there_on(book: BudgetLog) -> None:
    """Also where it never ends, and also for a process that reads the log again."""
    with book.opened() as pages:
        entry = pages.add_run(charge(), "s0")
        pages.add_run(charge(), "s1")
        pages.declassify(entry)
        assert [each.charge.infinite for each in pages.entries] == [True, False]
    assert [each.charge for each in book.read().entries] == [charge(infinite=True), charge()]
    assert [each.status for each in book.read().entries] == ["unfinished", "unfinished"]
    assert math.isinf(smallest(book.read().budget_of_names("clinic").spent(DELTA)).epsilon)


def test_a_book_that_cannot_be_read_is_refused(book: BudgetLog) -> None:
    book._path.mkdir(parents=True)
    with pytest.raises(BudgetLogError, match=r"cannot be read \(Is a directory\), and no run is started"):
        book.read()


def test_a_cost_with_an_entry_too_few_or_too_many_is_damage(book: BudgetLog) -> None:
    """A default in its place could say that the run was finite."""
    enter(book, charge())
    stated = charge().to_json()
    fewer = {name: value for name, value in stated.items() if name != "infinite"}
    for wrong in (fewer, {**stated, "more": 1}):
        lines = text(book)[:1]
        body = {"charge": wrong, "session": "s0"}
        lines.append(json.dumps({**body, "hash": chain(json.loads(lines[0])["hash"], body)}) + "\n")
        book._path.write_text("".join(lines))
        with pytest.raises(BudgetLogError, match="damaged: line 2,"):
            book.read()


@pytest.mark.parametrize("head", [{"format": 2}, {"format": 0}, {"format": 1, "more": 1}])
def test_a_book_of_another_format_is_refused_and_left_as_it_is(book: BudgetLog, head: dict[str, int]) -> None:
    enter(book, charge())
    line = json.dumps({"open": head, "hash": chain(START, {"open": head})}) + "\n"
    book._path.write_text(line)
    with pytest.raises(BudgetLogError, match=f"is of format {head['format']}, and .* supports 1 only. Use the version"):
        book.read()
    with pytest.raises(BudgetLogError, match="supports 1 only"), book.opened():
        pass
    assert text(book) == [line]


def test_a_book_that_cannot_be_opened_or_written_is_refused(
    book: BudgetLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BudgetLogError, match="cannot be opened"), BudgetLog(tmp_path / "file").opened():
        pass
    enter(book, charge())
    before = book._path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with book.opened() as pages, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(BudgetLogError, match="cannot be written"):
            pages.add_run(charge(), "s1")
    with book.opened() as pages:  # what was not answered for may stand or not, but the book is whole
        pages.add_run(charge(count=2), "s2")
    assert book._path.read_bytes().startswith(before)


def test_pages_for_looking_cannot_be_written(book: BudgetLog) -> None:
    enter(book, charge())
    with pytest.raises(ValueError, match="reading only"):
        book.read().add_run(charge(), "s1")


def test_writers_wait_for_one_another(tmp_path: Path) -> None:
    def enter_ten(writer: int) -> None:
        for number in range(10):
            with BudgetLog(tmp_path).opened() as pages:
                pages.add_run(charge(), f"{writer} {number}")

    with ThreadPoolExecutor(3) as pool:  # the lock belongs to an opened file, so that threads stand for processes
        list(pool.map(enter_ten, range(3)))
    assert len(BudgetLog(tmp_path).read().entries) == 30
    assert len((tmp_path / FILE).read_text().splitlines()) == 31


def test_every_line_is_plain_json(book: BudgetLog) -> None:
    with book.opened() as pages:
        pages.set_limit(BudgetLimit(name="clinic", epsilon=math.inf, delta=DELTA), force=False)
        pages.add_run(charge(), "s0")
    kinds = [next(iter(json.loads(line))) for line in text(book)]
    assert kinds == ["open", "limit", "charge"]
    assert "Infinity" not in "".join(text(book))
    assert math.isinf(book.read().limits["clinic"].epsilon)
