"""What `fit` does for a program that passes little: a draft of the card, a temporary run, a note, a near name."""

import json
import signal
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gossamer
from gossamer.data.source import Source
from gossamer.errors import CardError, DataWarning, Interrupted, RequestError
from gossamer.events import NOTE, Event
from gossamer.privacy.budget_log import BudgetLog
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

CARD = gossamer.DataCard(shape=(1, 28, 28), classes=2, declared_size=64)
RUN: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-4, "axes": 4}


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).integers(0, 256, (67, 28, 28), dtype=np.uint8), np.arange(67) % 2


def test_a_card_is_drafted_with_a_rounded_size_and_its_call_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    card = gossamer.draft_card(arrays())
    assert (card.shape, card.classes, card.declared_size) == ((1, 28, 28), 2, 70)
    printed = capsys.readouterr().err
    assert "A draft, measured on the records." in printed
    assert "card = gossamer.DataCard(declared_size=70, shape=(1, 28, 28), classes=2)" in printed
    assert eval(repr(card), {"DataCard": gossamer.DataCard}) == card


def test_what_is_said_about_the_data_reaches_a_script_once(tmp_path: Path) -> None:
    """Without a terminal it was not said at all. A sink or a terminal shows it, and then there is no warning."""
    images, labels = arrays()
    asked: dict[str, Any] = {"data": Source((images // 20, labels), public_test_data=True), "card": CARD, **RUN}
    with pytest.warns(DataWarning, match="Nearly every picture is one shade") as caught:
        fit("moments", out=tmp_path / "a", **asked)
    assert [(warning.filename, len(caught)) for warning in caught] == [(__file__, 1)]
    heard: list[Event] = []
    with warnings.catch_warnings(record=True) as none:
        fit("moments", out=tmp_path / "b", **asked, process=Process(sink=heard.append))
    assert not none
    said = [event for event in heard if event.kind == NOTE and "one shade" in str(event.values["text"])]
    assert len(said) == 1


def test_uneven_classes_are_said_without_a_figure(tmp_path: Path) -> None:
    images, labels = arrays()
    asked: dict[str, Any] = {"data": Source((images, labels * (np.arange(67) < 9)), public_test_data=True), **RUN}
    with pytest.warns(DataWarning, match="A class of `data` has at least 5 times as many records") as caught:
        fit("moments", out=tmp_path / "a", card=CARD, **asked)
    assert "%" not in str(caught[0].message)
    declared = replace(CARD, label_prior=(0.9, 0.1))
    fit("moments", out=tmp_path / "b", card=declared, **asked)


def test_without_a_card_it_says_how_to_draft_one(tmp_path: Path) -> None:
    with pytest.raises(CardError, match=r"card is missing. Draft one with gossamer.draft_card\(data\)"):
        fit("moments", data=arrays(), out=tmp_path / "run", **RUN)


def test_without_a_folder_the_run_is_temporary_and_its_place_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    notes: list[str] = []

    def listen(event: Event) -> None:
        if event.kind == NOTE:
            notes.append(str(event.values["text"]))

    synthesizer = fit(
        "moments", data=arrays(), card=CARD, accounts=tmp_path / "log", **RUN, process=Process(sink=listen)
    )
    (place,) = tmp_path.glob("gossamer-*")
    assert place.stat().st_mode & 0o777 == 0o700
    assert any(text.startswith(f"Run folder: {place / 'run'}.") for text in notes)
    assert verify(place / "run").ok
    assert len(synthesizer.sample(2)) == 2
    with pytest.raises(RequestError):
        fit("moments", data=(arrays()[0][:0], arrays()[1][:0]), card=CARD, accounts=tmp_path / "log", **RUN)
    assert [*tmp_path.glob("gossamer-*")] == [place], "a refusal leaves nothing"


def test_public_test_data_enter_no_budget_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    synthesizer = fit("moments", data=Source(arrays(), public_test_data=True), card=CARD, out=tmp_path / "run", **RUN)
    assert "No budget log counts this run." in synthesizer.certificate.adds_up
    assert verify(tmp_path / "run").ok
    assert not (tmp_path / "state").exists()
    with pytest.raises(RequestError, match="contradict each other"):
        fit("moments", data=Source(arrays(), public_test_data=True), card=CARD, accounts=tmp_path / "log", **RUN)


def test_records_that_the_log_counts_are_no_public_test_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the flag would be a way past the limit of a data set."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fit("moments", data=arrays(), card=CARD, out=tmp_path / "run", **RUN)
    with pytest.raises(RequestError, match="counts or limits these records"):
        fit("moments", data=Source(arrays(), public_test_data=True), card=CARD, out=tmp_path / "other", **RUN)
    assert not (tmp_path / "other").exists()
    images, labels = arrays()
    others = 255 - images, labels
    fit("moments", data=Source(others, public_test_data=True), card=CARD, out=tmp_path / "third", **RUN)


def test_a_resumed_run_of_public_test_data_enters_none_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def stop(event: Event) -> None:
        if event.kind == "step" and event.step == 20:
            signal.raise_signal(signal.SIGINT)

    settings = {"noise_multiplier": 1.0, "delta": 1e-4, "steps": 64, "expected_batch_size": 8, "width": 4}
    with pytest.raises(Interrupted):
        fit(
            "dpgan",
            data=Source(arrays(), public_test_data=True),
            card=CARD,
            out=tmp_path / "run",
            **settings,
            process=Process(sink=stop),
        )
    resume(tmp_path / "run", data=arrays())
    assert verify(tmp_path / "run").ok
    assert not (tmp_path / "state").exists()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["accounts"] is None


def test_a_log_that_was_named_later_counts_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of public test data has no log of its own. Once one is named, every later resume enters it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def stop_at(step: int) -> Process:
        def stop(event: Event) -> None:
            if event.kind == "step" and event.step == step:
                signal.raise_signal(signal.SIGINT)

        return Process(sink=stop)

    settings = {"noise_multiplier": 1.0, "delta": 1e-4, "steps": 64, "expected_batch_size": 8, "width": 4}
    data = Source(arrays(), public_test_data=True)
    with pytest.raises(Interrupted):
        fit("dpgan", data=data, card=CARD, out=tmp_path / "run", **settings, process=stop_at(20))
    with pytest.raises(Interrupted):
        resume(tmp_path / "run", data=data, accounts=tmp_path / "log", process=stop_at(40))
    (entry,) = BudgetLog(tmp_path / "log").read().entries
    assert not entry.finished
    resume(tmp_path / "run", data=data)
    (entry,) = BudgetLog(tmp_path / "log").read().entries
    assert entry.finished


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"eps": 10}, "fit has no argument 'eps'. Did you mean 'epsilon'?"),
        ({"dleta": 1e-4}, "fit has no argument 'dleta'. Did you mean 'delta'?"),
        ({"axis": 4}, "moments has no setting 'axis'. Did you mean 'axes'?"),
    ],
)
def test_a_misspelt_argument_is_named_with_the_near_one(wrong: dict[str, Any], what: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        fit("moments", data=arrays(), card=CARD, out=tmp_path / "run", **{**RUN, **wrong})
    assert what in str(caught.value)
