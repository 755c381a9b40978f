"""A run by a method that is not installed here: every command says so in one sentence, and none takes it for a forgery."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gossamer.errors import RunFolderError
from gossamer.methods import METHODS
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training import checkpoint
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process

Run = Callable[..., Any]
SAYS = "was made by the method 'dpgan', which is not installed here"
REMEDY = "`gossamer --plugin module:object COMMAND`, or gossamer.plugins.allow in Python."


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def without_dpgan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METHODS, "_own", {name: method for name, method in METHODS.items() if name != "dpgan"})


def refused(answer: Any, folder: Path) -> None:
    assert answer.status == 2, answer.err
    assert answer.out == ""
    assert answer.err.startswith(f"gossamer: {folder} {SAYS}")
    assert answer.err.strip().endswith(REMEDY)
    assert "KeyError" not in answer.err


def test_every_command_says_so(gossamer: Run, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = release(run, tmp_path / "out")
    without_dpgan(monkeypatch)
    for folder in (run, out):
        refused(gossamer("verify", folder), folder)
        refused(gossamer("verify", folder, "--json"), folder)
        refused(gossamer("sample", folder, "-n", 3, "-o", tmp_path / "s.npz"), folder)
        refused(gossamer("release", folder, "-o", tmp_path / "again"), folder)
        with pytest.raises(RunFolderError, match=SAYS):
            Synthesizer.load(folder)
    for words in (["resume", run], ["audit", "--run", run]):
        refused(gossamer(*words), run)
    assert sorted(path.name for path in tmp_path.iterdir() if "state" not in path.name) == ["out", "run"]


def test_an_unfinished_run_is_neither_resumed_nor_discarded(
    gossamer: Run, data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(event: Any, /) -> None:
        if event.kind == "step" and event.step == 3:
            raise RuntimeError

    monkeypatch.setattr(checkpoint.Clock, "due", lambda _: True)
    with pytest.raises(RuntimeError):
        fit(
            "dpgan",
            data=data,
            card=card,
            out=tmp_path / "run",
            noise_multiplier=4.0,
            delta=1e-3,
            steps=20,
            expected_batch_size=16,
            width=4,
            latent_size=8,
            process=Process(sink=crash),
        )
    without_dpgan(monkeypatch)
    for command in ("resume", "discard"):
        refused(gossamer(command, tmp_path / "run"), tmp_path / "run")
    assert (tmp_path / "run" / "ledger.jsonl").exists()


def test_what_is_wrong_besides_is_still_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = run / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"\1")
    without_dpgan(monkeypatch)
    verdict = verify(run)
    assert verdict.problems
    assert not any(SAYS in problem for problem in verdict.problems)


def test_settings_that_name_no_method_are_damaged_and_not_of_another_package(run: Path) -> None:
    path = run / "config.json"
    path.write_text(path.read_text().replace('"method": "dpgan"', '"method": ["dpgan"]'))
    assert not verify(run).ok
