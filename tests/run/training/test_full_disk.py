"""A disk that fills up: a run is refused beforehand, and one that is under way keeps what it has paid for."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from slowly import slow_among

from gossamer.errors import DiskFull, RunFolderError, is_full
from gossamer.events import Event
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.verify import verify
from gossamer.run.storage import run_folder
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training import checkpoint, driver
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import JsonLines, Process
from gossamer.run.training.resume import resume

SMALL: dict[str, Any] = {"steps": 60, "expected_batch_size": 8, "width": 4, "latent_size": 8, "discriminator_steps": 4}
Run = Callable[..., Any]


def full_error() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.toml"
    path.write_text("shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 160\n")
    return path


class Disk:
    """Fills up at a chosen sync of a chosen file, and stays full for new files until there is room; a reserve gives some."""

    def __init__(self, patch: pytest.MonkeyPatch, at: str, on: int) -> None:
        self.at, self.left, self.full, self.kept, self.real = at, on, False, False, os.fsync
        patch.setattr(os, "fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink()
        reserve = name.parent / checkpoint.RESERVE
        if not self.full and self.at in name.name:
            self.left -= 1
            self.full = self.left == 0
            self.kept = (name.parent / "checkpoint" / checkpoint.RESERVE).exists() or reserve.exists()
        given = self.kept and name.parent.name == "checkpoint" and not reserve.exists()
        if self.full and not given:
            raise full_error()
        self.real(descriptor)


@pytest.mark.parametrize("at", slow_among(["ledger.jsonl", "state.pt"], {"ledger.jsonl"}))
def test_a_full_disk_loses_nothing_that_was_paid_for(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.setattr(checkpoint, "SHORTEST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)
    run, steps = tmp_path / "run", []
    with pytest.MonkeyPatch.context() as patch:
        Disk(patch, at, on=4)
        with pytest.raises(DiskFull, match=r"is full; everything that was trained is kept.*gossamer\.resume"):
            fit("dpgan", data=data, card=card, out=run, noise_multiplier=4.0, delta=1e-3, **SMALL)
    ledger = PrivacyLedger.load(run / "ledger.jsonl")
    trained = (checkpoint.load(run / "checkpoint", ledger) or ({}, {}))[0]["step"]
    assert ledger.charged[0][1] == trained > 0
    resume(run, process=Process(sink=lambda event: steps.append(event.step) if event.kind == "step" else None))
    assert steps == list(range(trained + 1, 61))
    assert verify(run).ok


def test_a_full_disk_after_the_one_release_of_a_run_loses_it_not(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first checkpoint of such a run is written when all is spent: room for it is kept from the start."""
    with pytest.MonkeyPatch.context() as patch:
        Disk(patch, "state.pt", on=1)
        with pytest.raises(DiskFull, match="everything that was trained is kept"):
            fit("moments", data=data, card=card, out=tmp_path / "run", epsilon=10.0, delta=1e-3, axes=8)
    resume(tmp_path / "run")
    assert verify(tmp_path / "run").ok


def test_where_no_room_can_be_kept_for_the_first_checkpoint_nothing_is_paid(
    data: Path, card: Path, tmp_path: Path
) -> None:
    asked = {"data": data, "card": card, "out": tmp_path / "run", "epsilon": 10.0, "delta": 1e-3, "axes": 8}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "posix_fallocate", lambda *_given: (_ for _ in ()).throw(full_error()))
        with pytest.raises(DiskFull, match="everything that was trained is kept"):
            fit("moments", **asked)
    assert PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl").charged[0][1] == 0
    resume(tmp_path / "run")
    assert verify(tmp_path / "run").ok


def test_what_is_lost_is_not_called_kept(data: Path, card: Path, tmp_path: Path) -> None:
    """The room that was kept is too small, and the disk fills before the first checkpoint."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "reserve_disk", lambda *_given, **_named: None)
        Disk(patch, "state.pt", on=1)
        with pytest.raises(DiskFull, match="there was no checkpoint yet: what was trained is lost"):
            fit("moments", data=data, card=card, out=tmp_path / "run", epsilon=10.0, delta=1e-3, axes=8)
    with pytest.raises(RunFolderError, match="has used its whole plan"):
        resume(tmp_path / "run")


def test_a_full_disk_under_the_events_waits_for_the_end_of_a_block(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = JsonLines.__call__

    def fails(self: JsonLines, event: Event, /) -> None:
        if event.kind == "step" and event.step > 20:
            raise full_error()
        write(self, event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JsonLines, "__call__", fails)
        with pytest.raises(DiskFull, match="everything that was trained is kept"):
            fit("dpgan", data=data, card=card, out=tmp_path / "run", noise_multiplier=4.0, delta=1e-3, **SMALL)
    ledger = PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl")
    trained = (checkpoint.load(tmp_path / "run" / "checkpoint", ledger) or ({}, {}))[0]["step"]
    assert trained == ledger.charged[0][1] == 32
    resume(tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == [*range(1, 21), *range(33, 61)]


def test_a_full_disk_at_the_very_end_is_finished_by_resume(data: Path, card: Path, tmp_path: Path) -> None:
    def fails(*_: object, **__: object) -> None:
        raise full_error()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gossamer.kinds.pictures.Pictures.picture", fails)
        with pytest.raises(DiskFull, match=r"gossamer\.resume"):
            fit("dpgan", data=data, card=card, out=tmp_path / "run", noise_multiplier=4.0, delta=1e-3, **SMALL)
    assert not (tmp_path / "run" / "checkpoint" / checkpoint.RESERVE).exists()
    resume(tmp_path / "run")
    assert verify(tmp_path / "run").ok


def test_a_disk_without_room_is_refused_before_anything_is_written(
    gossamer: Run, fit_words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3_000_000))
    answer = gossamer(*fit_words)
    assert answer.status == 2
    assert "the disk has 3 MB free, and a run needs about" in answer.err
    assert "Free some space, or name another --out; nothing has been written." in answer.err
    assert not (tmp_path / "run").exists()
    monkeypatch.undo()
    assert gossamer(*fit_words).status == 0


@pytest.mark.parametrize(
    "at", slow_among(["config.json", "source.json", "ledger.jsonl"], {"config.json", "source.json"})
)
def test_a_run_that_cannot_be_begun_leaves_an_empty_place(
    gossamer: Run, fit_words: list[str], tmp_path: Path, at: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Disk(patch, at, on=1)
        answer = gossamer(*fit_words)
    assert answer.status == 2
    assert "cannot be written (No space left on device)" in answer.err
    assert not (tmp_path / "run").exists()
    assert gossamer(*fit_words).status == 0


def test_any_command_on_a_full_disk_says_so(
    gossamer: Run, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(made, run)
    monkeypatch.setattr(np, "savez", lambda *_, **__: (_ for _ in ()).throw(full_error()))
    monkeypatch.setattr(
        "gossamer.data.samples.samples.Samples.write", lambda *_, **__: (_ for _ in ()).throw(full_error())
    )
    answer = gossamer("sample", run, "-n", 3, "-o", tmp_path / "s.npz")
    assert answer.status == 1
    assert "the disk is full. Free some space" in answer.err
    assert "report it" not in answer.err


def test_a_sealed_file_that_has_no_room_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_state: object, file: Any) -> None:
        file.write(b"half")
        raise RuntimeError("unexpected pos") from full_error()

    monkeypatch.setattr(torch, "save", fails)
    held = Confined(torch.nn.Linear(2, 2), PrivacyLedger(budget=1.0, delta=1e-5), Rng())
    with pytest.raises(DiskFull):
        held.seal(tmp_path / "critics.sealed")
    assert not any(tmp_path.iterdir())


def test_no_room_is_kept_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = PrivacyLedger(budget=1.0, delta=1e-5)
    checkpoint.save(tmp_path, {"step": 3}, {}, ledger)
    assert (tmp_path / checkpoint.RESERVE).stat().st_size >= (tmp_path / checkpoint.FILE).stat().st_size
    checkpoint.free_reserve(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(full_error()))
    checkpoint.save(tmp_path, {"step": 4}, {}, ledger)
    assert not (tmp_path / checkpoint.RESERVE).exists()


def test_a_full_disk_under_sealed_state_is_told_with_what_is_kept_and_once(tmp_path: Path) -> None:
    """`Confined.seal` raises a DiskFull of its own, which does not say how to go on."""
    kept: list[str] = []

    def save() -> str:
        kept.append("the state")
        return "saved"

    with (
        pytest.raises(DiskFull, match=r"is full; saved\. Free some space"),
        driver._disk_full(RunFolder(tmp_path), save, said=DiskFull),
        driver._disk_full(RunFolder(tmp_path), save),
    ):
        raise DiskFull(f"the disk of {tmp_path} is full.")
    assert kept == ["the state"]


def test_only_a_full_disk_is_full() -> None:
    wrapped = RuntimeError()
    wrapped.__cause__ = full_error()
    assert is_full(wrapped) and is_full(DiskFull()) and is_full(OSError(errno.EDQUOT, ""))
    assert not is_full(OSError(errno.EACCES, "")) and not is_full(RunFolderError()) and not is_full(None)
    assert run_folder.RunFolder(Path("nowhere")).blank


def test_memory_that_there_is_not_is_said(gossamer: Callable[..., Any], card: Path) -> None:
    """Asked for at once, so that no machine has it and none is slowed down."""
    answer = gossamer(
        "plan", "dpgan", "--card", card, "--epsilon", 1, "--delta", 1e-4, "--expected-batch-size", 16, "--width", 10**8
    )
    assert answer.status == 1
    assert answer.err.startswith("gossamer: there is not enough memory. Use a smaller --physical-batch-size")
