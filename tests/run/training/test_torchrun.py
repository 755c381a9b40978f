"""The command line under torchrun: one run, one voice, one ledger; it stops cleanly and goes on with other ranks."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from several import forks

from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.cli.main import main
from gossamer.run.release.verify import verify
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

SMALL = {
    "steps": 12,
    "expected-batch-size": 8,
    "width": 4,
    "latent-size": 8,
    "discriminator-steps": 4,
    "noise-multiplier": 4,
    "delta": 1e-3,
}
CRITICS: dict[str, float | str] = {
    "steps": 400, "critics": 5, "answers": 2, "batch-size": 3, "critic-steps": 1, "critic-batch-size": 5, "width": 2,
    "latent-size": 8, "warm-steps": 2, "warm-stack": 3, "generator": "dcgan", "epsilon": 10, "delta": 1e-3,
}  # fmt: skip


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.toml"
    path.write_text("shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 160\n")
    return path


def start(count: int, *words: object, **more: str) -> "subprocess.Popen[str]":
    """As docs/ranks.md says: with `-m gossamer` instead, each rank would import from the working folder first."""
    program = Path(sys.executable)
    command = [program.with_name("torchrun"), "--standalone", "--nproc-per-node", str(count), "--no-python"]
    return subprocess.Popen(
        [*command, program.with_name("gossamer"), *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def words(method: str, flags: Mapping[str, float | str], data: Path, card: Path, out: Path) -> list[object]:
    named = [word for name, value in flags.items() for word in (f"--{name}", value)]
    return ["fit", method, "--data", data, "--card", card, "--out", out, *named]


def as_rank(number: int, count: int, port: int, log: str, words: list[str]) -> None:
    """The command line in this process, under the variables that torchrun sets."""
    os.environ |= {
        "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test",
    }  # fmt: skip
    out = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    main(words)


def wait_for(path: Path, lines: int) -> None:
    for _ in range(2400):
        if path.is_file() and path.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not reach {lines} lines")


def by_two_ranks(asked: list[object], folder: Path) -> tuple[str, str]:
    """What both ranks say. In processes that torchrun has not started, because those load PyTorch once more each."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    logs = [folder / f"{number}.log" for number in range(2)]
    ranks = [
        forks().Process(target=as_rank, args=(number, 2, port, str(log), [*map(str, asked)]))
        for number, log in enumerate(logs)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    first, second = (log.read_text() for log in logs)
    assert [rank.exitcode for rank in ranks] == [0, 0], first + second
    return first, second


def test_every_rank_has_the_encoder_that_the_user_names(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_models.py").write_text(
        "def rows(pictures):\n    return pictures.flatten(1)[:, ::16].float()\n\n"
        "rows.side, rows.channels, rows.licence, rows.trained_on = 28, 1, 'MIT', 'nothing'\n"
    )
    pictures = np.random.default_rng(3).integers(0, 256, (60, 28, 28), dtype=np.uint8)
    np.savez("public.npz", images=pictures, labels=np.arange(60) % 2)
    flags = {"encoder": "own_models:rows", "public": "public.npz", "axes": 4, "noise-multiplier": 4, "delta": 1e-3}
    by_two_ranks(words("feature-moments", flags, data, card, tmp_path / "run"), tmp_path)
    assert verify(tmp_path / "run").ok


def test_two_ranks_are_one_run_with_one_voice(data: Path, card: Path, tmp_path: Path) -> None:
    first, second = by_two_ranks(words("dpgan", SMALL, data, card, tmp_path / "run"), tmp_path)
    assert first.count("Differentially private: epsilon") == 1
    assert first.count("Budget log: this run uses") == first.count("report:") == 1
    assert second == ""
    assert verify(tmp_path / "run").ok
    assert PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl").charged[0][1] == 12


@pytest.mark.slow
def test_torchrun_starts_one_run_with_one_voice(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs in the working folder, where records often are, do not run."""
    monkeypatch.chdir(tmp_path)
    for name in ("torch", "numpy", "click", "gossamer"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a program of strangers runs')")
    process = start(2, *words("dpgan", SMALL, data, card, tmp_path / "run"))
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert out.count("Differentially private: epsilon") == 1
    assert err.count("Budget log: this run uses") == err.count("report:") == 1
    assert verify(tmp_path / "run").ok
    assert PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl").charged[0][1] == 12


@pytest.mark.slow
def test_ctrl_c_stops_all_ranks_and_one_process_goes_on(data: Path, card: Path, tmp_path: Path) -> None:
    """Critics are on both ranks: their checkpoint is too, and three ranks, then one, go on from it."""
    run = tmp_path / "run"
    process = start(2, *words("gs-wgan", CRITICS, data, card, run))
    wait_for(run / "ledger.jsonl", 40)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=200)
    assert process.returncode != 0
    assert err.count("gossamer: stopped at step") == 1 and "gossamer resume" in err
    assert len(list((run / "checkpoint").glob("*.sealed*"))) == 2
    charged = PrivacyLedger.load(run / "ledger.jsonl").charged[0][1]
    process = start(3, "resume", run)
    wait_for(run / "ledger.jsonl", 40 + charged)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=200)
    assert len(list((run / "checkpoint").glob("*.sealed*"))) == 3
    steps: list[int] = []
    resume(run, process=Process(sink=lambda event: steps.append(event.step) if event.kind == "step" else None))
    assert steps[-1] == 400
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [each["step"] for each in events if each["kind"] == "step"] == list(range(1, 401)), (
        "nothing is lost or twice"
    )
    assert verify(run).ok


@pytest.mark.slow
def test_a_refusal_is_said_once_and_other_commands_are_one_process(data: Path, card: Path, tmp_path: Path) -> None:
    flags = {**SMALL, "width": 3}
    process = start(2, *words("dpgan", flags, data, card, tmp_path / "run"))
    _, err = process.communicate(timeout=200)
    assert process.returncode != 0
    assert err.count("width must be even") == 1
    assert not (tmp_path / "run").exists()
    slow = "import os, time\nif os.environ.get('RANK') == '0':\n    time.sleep(3)\n"
    (tmp_path / "sitecustomize.py").write_text(slow)  # rank 0, which speaks for all, comes last
    process = start(
        2, "verify", tmp_path / "run", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    )
    _, err = process.communicate(timeout=200)
    assert process.returncode != 0
    assert err.count("verify runs in one process. Leave torchrun out") == 1
