"""What a terminal, a pipe and a notebook show of a run."""

import errno
import io
import os
import re
import sys
import types
from typing import Any

import numpy as np
import pytest

import gossamer
from gossamer import notebook
from gossamer.events import Event, note, progress
from gossamer.run.training import progress as showing


class Shown:
    """Stands in for IPython: what `display` has shown, each with its updates."""

    def __init__(self) -> None:
        self.cells: list[list[dict[str, str]]] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        states = [data]
        self.cells.append(states)

        def update(data: dict[str, str], *, raw: bool) -> None:
            assert raw
            states.append(data)

        return types.SimpleNamespace(update=update)

    def words(self, of: int = -1, state: int = -1) -> str:
        return " ".join(re.sub(r"<[^>]*>", " ", self.cells[of][state]["text/html"]).split())


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """A kernel, as far as Gossamer can see."""
    found = Shown()
    ipython, inner = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    ipython.version_info = (9, 0)  # type: ignore[attr-defined]  # matplotlib asks
    inner.display = found.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set by the test."""
    now = [0.0]
    monkeypatch.setattr(showing.time, "monotonic", lambda: now[0])
    return now


def test_a_bar_in_a_notebook_shows_share_time_left_and_epsilon_and_ends_without_a_clock(
    shown: Shown, clock: list[float]
) -> None:
    with showing.Terminal() as terminal:
        assert terminal.has_viewer
        for step in range(1, 101):
            terminal(progress("training", step, 100, f"epsilon used {step / 100:.3f}"))
            if step == 50:
                assert shown.words() == "training 50 of 100 50 s left epsilon used 0.500"
                assert "width:50%" in shown.cells[0][-1]["text/html"]
                assert shown.cells[0][-1]["text/plain"] == "training: 50 of 100, 50 s left, epsilon used 0.500"
            clock[0] += 1
    assert len(shown.cells) == 1
    assert shown.words() == "training 100 of 100 done epsilon used 1.000"
    assert "width:100%" in shown.cells[0][-1]["text/html"]


def test_updates_are_few(shown: Shown, clock: list[float]) -> None:
    with showing.Terminal() as terminal:
        for step in range(1, 10_001):
            clock[0] += 1e-4
            terminal(progress("training", step, 10_000))
    assert len(shown.cells[0]) <= 1 / showing.NOTEBOOK_EVERY + 2


def test_a_run_that_is_stopped_says_so_without_a_clock(shown: Shown, clock: list[float]) -> None:
    with pytest.raises(KeyboardInterrupt), showing.Terminal() as terminal:
        for step in (1, 2):
            terminal(progress("training", step, 10))
            clock[0] += 5
        raise KeyboardInterrupt
    assert shown.words() == "training 2 of 10 stopped"


def test_each_phase_has_a_bar_and_so_has_one_that_begins_again(shown: Shown) -> None:
    with showing.Terminal() as terminal:
        for label, step in (("warm start", 1), ("warm start", 2), ("training", 1), ("training", 2), ("training", 1)):
            terminal(progress(label, step, 2))
    assert [shown.words(at) for at in range(len(shown.cells))] == [
        "warm start 2 of 2 done",
        "training 2 of 2 done",
        "training 1 of 2 stopped",
    ]


def test_markup_in_a_label_is_text(shown: Shown) -> None:
    showing.Terminal()(progress("<script>", 1, 2, "<b>"))
    html = shown.cells[0][0]["text/html"]
    assert "<script>" not in html and "&lt;script&gt;" in html


def test_figures_are_not_shown(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    showing.Terminal()(Event("step", 1, {"loss": 1.0}, "training"))
    assert shown.cells == []
    assert capsys.readouterr() == ("", "")


def test_notes_are_plain_output_in_a_notebook_and_stderr_elsewhere(
    shown: Shown, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    showing.Terminal()(note("remark [bold]"))
    assert capsys.readouterr() == ("remark [bold]\n", "")
    monkeypatch.delitem(sys.modules, "IPython")
    showing.Terminal()(note("remark [bold]"))
    assert capsys.readouterr() == ("", "remark [bold]\n")


@pytest.mark.parametrize("shell", [None, types.SimpleNamespace()])
def test_ipython_in_a_terminal_is_no_notebook(shown: Shown, shell: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    assert notebook.displayer() is None


def test_a_stream_that_is_named_gets_lines_in_a_notebook_too(shown: Shown, clock: list[float]) -> None:
    stream = io.StringIO()
    with showing.Terminal(stream) as terminal:
        for step in range(1, 5):
            terminal(progress("training", step, 4, "epsilon used 1.000"))
            clock[0] += 8
    assert stream.getvalue().splitlines() == [
        "training: 3 of 4 (0.12 per s, 8 s left) epsilon used 1.000",
        "training: 4 of 4 (0.12 per s, 0 s left) epsilon used 1.000",
    ]
    assert shown.cells == []


def test_what_is_counted_in_per_cent_has_no_speed(clock: list[float]) -> None:
    stream = io.StringIO()
    with showing.Terminal(stream) as terminal:
        for share in (0, 50, 100):
            terminal(progress("reading pictures (per cent)", share, 100))
            clock[0] += 20
    assert stream.getvalue().splitlines() == [
        "reading pictures (per cent): 50 of 100 (20 s left)",
        "reading pictures (per cent): 100 of 100 (0 s left)",
    ]


def test_fit_evaluate_and_attack_show_themselves_in_a_notebook(
    shown: Shown, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    images = rng.integers(0, 100, (80, 16, 16), dtype=np.uint8) + labels[:, None, None].astype(np.uint8) * 100
    train, test = (images[:40], labels[:40]), (images[40:], labels[40:])
    card = gossamer.DataCard(shape=(1, 16, 16), classes=2, declared_size=40, data_set="noise")
    run = tmp_path / "run"
    options: dict[str, Any] = {"card": card, "epsilon": 10, "delta": 1e-3, "axes": 4}
    gossamer.fit("moments", data=gossamer.Source(train, public_test_data=True), out=run, **options)
    assert shown.words().startswith("training 1 of 1 done epsilon used ")
    gossamer.evaluate(run, train=train, test=test, count=40, metrics=gossamer.metrics.Measures(protocol="reduced"))
    assert [shown.words(at) for at in (-2, -1)] == [
        "classifier trained on synthetic records 4 of 4 done",
        "classifier trained on real records 4 of 4 done",
    ]
    before = len(shown.cells)
    gossamer.evaluate(
        run,
        train=train,
        test=test,
        count=40,
        metrics=gossamer.metrics.Measures(protocol="reduced"),
        process=gossamer.Process(progress=False),
    )
    assert len(shown.cells) == before
    capsys.readouterr()
    gossamer.attack(run, members=train, nonmembers=test, count=40)
    assert "attacking: " in capsys.readouterr().out


class Gone(io.StringIO):
    """A terminal that was closed, or a full disk."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number, self.open, self.tries = number, True, 0

    def write(self, text: str) -> int:
        if self.open:
            return super().write(text)
        self.tries += 1
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [errno.EIO, errno.EPIPE])
def test_a_terminal_that_was_closed_stops_no_run(number: int) -> None:
    """The run would end without its checkpoint, and the budget of what came after the last one is lost."""
    stream = Gone(number)
    with showing.Terminal(stream) as terminal:
        terminal(progress("training", 1, 9))
        terminal(note("first"))
        stream.open = False
        for step in range(2, 9):
            terminal(note("second"))
            terminal(progress("training", step, 9))
    assert "first" in stream.getvalue() and stream.tries == 1
    full = Gone(errno.ENOSPC)
    full.open = False
    with pytest.raises(OSError, match="No space"):
        showing.Terminal(full)(note("text"))


def test_a_bar_that_is_full_ends_before_a_note_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it is drawn again below the note, which may head the next step."""
    ended: list[str] = []
    monkeypatch.setattr(showing._Lines, "stop", lambda view: ended.append(view.label))
    terminal = showing.Terminal(io.StringIO())
    terminal(progress("reading", 1, 2))
    terminal(note("remark"))
    assert ended == []
    terminal(progress("reading", 2, 2))
    terminal(note("2/4 the next step"))
    assert ended == ["reading"]
