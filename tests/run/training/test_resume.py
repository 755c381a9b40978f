"""Crash safety: a run that is stopped or killed at any moment finishes with the same guarantee or a more cautious one."""

import copy
import json
import os
import pty
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent

from gossamer.data.card import DataCard
from gossamer.data.synthetic.glyphs import draw
from gossamer.errors import DataError, LedgerDamaged, RunFolderError
from gossamer.files import ANSWERS
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.confined import FIXED_SEED
from gossamer.privacy.ledger import BLOCK, PrivacyLedger
from gossamer.privacy.mechanisms.banded import BandedGaussianSum
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.verify import verify
from gossamer.run.training import checkpoint
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

SETTINGS: dict[str, Any] = {
    "steps": 60,
    "expected_batch_size": 8,
    "width": 4,
    "latent_size": 8,
    "warm_steps": 10,
    "discriminator_steps": 4,
}


def test_a_resume_says_how_many_charges_came_after_the_checkpoint(tmp_path: Path) -> None:
    """They are paid for, and trained nothing that is left: three of five; all five where there is no checkpoint."""
    event = GaussianDpEvent(9.0)
    ledger = PrivacyLedger(budget=10.0, delta=1e-5)
    ledger.reserve([(event, 8)])
    ledger.create(tmp_path / "ledger.jsonl")
    for number in range(5):
        if number == 2:
            checkpoint.save(tmp_path, {"phase": "training", "step": 2}, {}, ledger)
        ledger.charge(event)
    ledger.close()
    read, lost = PrivacyLedger.load(tmp_path / "ledger.jsonl"), []
    found = checkpoint.load(tmp_path, read, lost.append)
    assert found is not None
    (tmp_path / checkpoint.FILE).unlink()
    assert checkpoint.load(tmp_path, read, lost.append) is None
    assert (found[0]["step"], [text.partition(" noisy queries")[0] for text in lost]) == (2, ["3", "5"])


class Stopped(Exception):
    """Stands for a crash: raised from a sink, in the middle of a step."""


def public(folder: Path) -> Path:
    """40 drawn glyphs in a file: quicker than the 20,000 that `glyphs` draws."""
    drawn = draw(40, seed=0)
    np.savez(folder / "public.npz", images=drawn.images, labels=drawn.labels)
    return folder / "public.npz"


def request(data: Path, card: Path, out: Path) -> dict[str, Any]:
    return {
        "data": data,
        "card": card,
        "out": out,
        "noise_multiplier": 4.0,
        "delta": 1e-3,
        "public": public(out.parent),
        **SETTINGS,
    }


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.toml"
    path.write_text("shape = [1, 28, 28]\nclasses = 10\ndeclared_size = 160\n")
    return path


def crash_at(step: int) -> Callable[[Any], None]:
    def sink(event: Any) -> None:
        if event.kind == "step" and event.step == step:
            raise Stopped

    return sink


def test_a_crash_costs_at_most_a_block_and_never_a_promise(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHORTEST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)
    with pytest.raises(Stopped):
        fit("dpgan", **request(data, card, tmp_path / "run"), process=Process(sink=crash_at(21)))
    charged = PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl").charged[0][1]
    assert charged == 2 * BLOCK
    steps: list[int] = []
    resume(
        tmp_path / "run", process=Process(sink=lambda event: steps.append(event.step) if event.kind == "step" else None)
    )
    assert steps == list(range(17, 17 + SETTINGS["steps"] - charged))
    assert verify(tmp_path / "run").ok
    assert not (tmp_path / "run" / ANSWERS).exists(), "answers were lost"
    lines = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == [*range(1, 17), *steps]
    assert [line["step"] for line in lines if line["kind"] == "warm"] == list(range(1, 11))


def test_a_resumed_run_begins_a_cycle_of_banded_noise(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 steps in cycles of 8: 8 charges, two at once. Step 21 is in the third cycle, and the fourth is paid for ahead.

    No checkpoint has past noise. So the resumed run has new groups and fresh noise, in the 4 cycles that are left.
    """
    monkeypatch.setattr(checkpoint, "SHORTEST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)
    past, noised = list[int](), BandedGaussianSum.noised

    def noted(self: BandedGaussianSum, *given: Any) -> torch.Tensor:
        past.append(len(self._cycles[0].noise))
        return noised(self, *given)

    monkeypatch.setattr(BandedGaussianSum, "noised", noted)
    wanted = {**request(data, card, tmp_path / "run"), "bands": 8}
    with pytest.raises(Stopped):
        fit("dpgan", **wanted, process=Process(sink=crash_at(21)))
    ((event, charged),) = PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl").charged
    assert (event, charged) == (poisson_gaussian(sampling_rate=8 * 8 / 160, noise_multiplier=4.0), 4)
    saved = torch.load(tmp_path / "run" / "checkpoint" / checkpoint.FILE, weights_only=True)
    assert saved["state"]["step"] == 16, "where no cycle was paid for ahead"
    assert not list((tmp_path / "run").rglob(f"*{checkpoint.SEALED}*"))
    assert {"noise", "groups"}.isdisjoint(str(saved).replace("'", " ").split())
    resumed = resume(tmp_path / "run")
    assert past == [min(step, 7) for step in (*range(21), *range(32))]
    assert resumed.certificate.config["bands"] == 8
    ledger = PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl")
    assert ledger.charged == ledger.plan == [(event, 8)]
    assert verify(tmp_path / "run").ok


def test_a_run_with_banded_noise_is_replayed(data: Path, card: Path, tmp_path: Path) -> None:
    fit("dpgan", **{**request(data, card, tmp_path / "run"), "steps": 12, "bands": 4})
    answer = verify(tmp_path / "run", replay=True, public=public(tmp_path))
    assert answer.ok and "Replayed" in str(answer)


def test_a_one_shot_release_is_kept_at_once(data: Path, card: Path, tmp_path: Path) -> None:
    """The class moments that a diffusion starts on cannot be had twice: a crash in a later phase finds them again."""

    def crash(event: Any) -> None:
        if event.kind == "step" and event.phase == "training":
            raise Stopped

    few: dict[str, Any] = {
        "steps": 40,
        "expected_batch_size": 8,
        "axes": 8,
        "width": 8,
        "multiplicity": 2,
        "warm_steps": 4,
    }
    few |= {"start": {"method": "moments", "axes": 8}, "start_records": 30}
    with pytest.raises(Stopped):
        fit(
            "dp-diffusion",
            data=data,
            card=card,
            out=tmp_path / "RUN",
            noise_multiplier=4.0,
            delta=1e-3,
            **few,
            process=Process(sink=crash),
        )
    ledger = PrivacyLedger.resume(tmp_path / "RUN" / "ledger.jsonl")
    state, _ = checkpoint.load(tmp_path / "RUN" / "checkpoint", ledger) or ({}, {})
    ledger.close()
    assert (state["phase"], state["step"]) == ("drawing", 0)
    assert float(state["begun"]["state"]["net"]["mixture.means"].abs().sum()) > 0
    resume(tmp_path / "RUN")
    assert verify(tmp_path / "RUN").ok


def test_what_matches_a_release_goes_on_where_nothing_is_left_to_pay(data: Path, card: Path, tmp_path: Path) -> None:
    """A crash in the first step of a phase after the only release: the checkpoint that was made at once is enough."""

    def crash(event: Any) -> None:
        if event.phase == "matching":
            raise Stopped

    few: dict[str, Any] = {
        "axes": 4, "pixel_axes": 4, "features_steps": 2, "features_batch_size": 4, "features_width": 2, "warm_steps": 1,
        "matching_steps": 2, "batch_size": 20, "width": 2, "latent_size": 4, "rounds": 0,
        "public": public(tmp_path),
    }  # fmt: skip
    with pytest.raises(Stopped):
        fit(
            "dp-mepf",
            data=data,
            card=card,
            out=tmp_path / "RUN",
            epsilon=10.0,
            delta=1e-3,
            **few,
            process=Process(sink=crash),
        )
    ledger = PrivacyLedger.resume(tmp_path / "RUN" / "ledger.jsonl")
    state, _ = checkpoint.load(tmp_path / "RUN" / "checkpoint", ledger) or ({}, {})
    assert not any(ledger.unused)
    ledger.close()
    assert (state["phase"], state["step"]) == ("matching", 0)
    resume(tmp_path / "RUN")
    assert verify(tmp_path / "RUN").ok


def test_resume_equals_an_unbroken_run_under_test_seeds(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHORTEST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)
    whole = fit("dpgan", **request(data, card, tmp_path / "whole"), process=Process(rng=Rng(0, noise_seed=1)))
    with pytest.raises(Stopped):
        fit(
            "dpgan",
            **request(data, card, tmp_path / "broken"),
            process=Process(sink=crash_at(33), rng=Rng(0, noise_seed=1)),
        )
    # The crash came in step 33, one into its third block; give the block back as an unused one would be.
    path = tmp_path / "broken" / "ledger.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert FIXED_SEED in "".join(lines)
    path.write_text("".join(lines[: 4 + 2 * BLOCK]))
    resumed = resume(tmp_path / "broken", process=Process(rng=Rng(0, noise_seed=1)))
    for mine, theirs in zip(resumed.net.parameters(), whole.net.parameters(), strict=True):
        assert np.array_equal(mine.detach().numpy(), theirs.detach().numpy())
    assert "No formal guarantee" in resumed.certificate.statement
    assert not (tmp_path / "whole" / ANSWERS).exists(), "no guarantee covers them"


def test_a_cut_ledger_is_refused(data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SHORTEST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)
    with pytest.raises(Stopped):
        fit("dpgan", **request(data, card, tmp_path / "run"), process=Process(sink=crash_at(40)))
    path = tmp_path / "run" / "ledger.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:20]))
    with pytest.raises(LedgerDamaged, match="lines were cut after line"):
        resume(tmp_path / "run")


def test_other_records_are_refused(data: Path, card: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        fit("dpgan", **request(data, card, tmp_path / "run"), process=Process(sink=crash_at(5)))
    arrays = dict(np.load(data))
    np.savez(data, images=arrays["images"][::-1], labels=arrays["labels"])
    with pytest.raises(DataError, match="is not what it was"):
        resume(tmp_path / "run")


def test_records_that_have_gone_are_missed_by_their_place(data: Path, card: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        fit("dpgan", **request(data, card, tmp_path / "run"), process=Process(sink=crash_at(5)))
    data.rename(data.with_name("moved.npz"))
    with pytest.raises(DataError, match=r"the records of this run are gone\. Put them back"):
        resume(tmp_path / "run")
    data.symlink_to(data.with_name("moved.npz"))
    resume(tmp_path / "run")


def test_records_without_a_digest_are_not_taken_for_the_same(data: Path, card: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        fit("dpgan", **request(data, card, tmp_path / "run"), process=Process(sink=crash_at(5)))
    path = tmp_path / "run" / "checkpoint" / "source.json"
    source = json.loads(path.read_text())
    del source["records"]
    path.write_text(json.dumps(source))
    ledger = (tmp_path / "run" / "ledger.jsonl").read_bytes()
    with pytest.raises(DataError, match="not what it was when the run began"):
        resume(tmp_path / "run")
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == ledger


def test_private_state_is_private(data: Path, card: Path, tmp_path: Path) -> None:
    fit("dpgan", **request(data, card, tmp_path / "run"))
    private = tmp_path / "run" / "checkpoint"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert stat.S_IMODE((private / checkpoint.FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE((private / "source.json").stat().st_mode) == 0o600


def test_resume_of_a_finished_run_changes_nothing(data: Path, card: Path, tmp_path: Path) -> None:
    fit("dpgan", **request(data, card, tmp_path / "run"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    resume(tmp_path / "run")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}


def start(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "gossamer", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def words(data: Path, card: Path, out: Path, steps: int) -> list[str]:
    flags = {
        **SETTINGS,
        "steps": steps,
        "data": data,
        "card": card,
        "out": out,
        "epsilon": 10,
        "delta": 1e-3,
        "public": public(out.parent),
    }
    return [
        "fit",
        "dpgan",
        *(str(word) for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)),
    ]


def wait_for(path: Path, lines: int) -> None:
    for _ in range(1200):
        if path.is_file() and path.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not reach {lines} lines")


@pytest.mark.slow
def test_ctrl_c_loses_nothing_and_says_how_to_go_on(data: Path, card: Path, tmp_path: Path) -> None:
    process = start(words(data, card, tmp_path / "run", 400))
    wait_for(tmp_path / "run" / "ledger.jsonl", 40)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert b"gossamer resume" in err.splitlines()[-1]
    charged = PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl").charged[0][1]
    steps: list[int] = []
    resume(
        tmp_path / "run", process=Process(sink=lambda event: steps.append(event.step) if event.kind == "step" else None)
    )
    assert steps[-1] == 400
    assert steps[0] == charged + 1
    assert verify(tmp_path / "run").ok


@pytest.mark.slow
def test_a_closed_terminal_loses_nothing(data: Path, card: Path, tmp_path: Path) -> None:
    terminal, there = pty.openpty()
    own = "import fcntl, runpy, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    begin = f"{own}; runpy.run_module('gossamer', run_name='__main__')"
    process = subprocess.Popen(
        [sys.executable, "-c", begin, *words(data, card, tmp_path / "run", 400)], stdin=there, stdout=there, stderr=there,
        start_new_session=True,
    )  # fmt: skip
    os.close(there)
    while (
        not (tmp_path / "run/ledger.jsonl").is_file() or (tmp_path / "run/ledger.jsonl").read_bytes().count(b"\n") < 40
    ):
        os.read(terminal, 4096)
    os.close(terminal)
    assert process.wait(60) == 1
    charged = PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl").charged[0][1]
    steps: list[int] = []
    resume(
        tmp_path / "run", process=Process(sink=lambda event: steps.append(event.step) if event.kind == "step" else None)
    )
    assert steps[0] == charged + 1 and steps[-1] == 400
    assert verify(tmp_path / "run").ok


@pytest.mark.slow
def test_kill_9_at_ten_random_moments(data: Path, card: Path, tmp_path: Path) -> None:
    """Each time: the resume ends, the run verifies, and no more noise was drawn than was charged."""
    moments = random.Random(0)
    for turn in range(10):
        run = tmp_path / "run"
        shutil.rmtree(run, ignore_errors=True)
        process = start(words(data, card, run, 300))
        wait_for(run / "ledger.jsonl", 2)
        time.sleep(moments.uniform(0, 6))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        events = (run / "events.jsonl").read_text().splitlines() if (run / "events.jsonl").exists() else []
        drawn = max(
            [json.loads(line)["step"] for line in events if '"step", "step"' in line and line.endswith("}")], default=0
        )
        charged = sum('"charge"' in line for line in (run / "ledger.jsonl").read_text().splitlines())
        assert charged >= drawn, turn
        second = start(["resume", str(run)])
        _, err = second.communicate(timeout=300)
        assert second.returncode == 0, err
        assert verify(run).ok
        assert PrivacyLedger.load(run / "ledger.jsonl").charged[0][1] == 300


def test_a_checkpoint_of_another_version_is_named_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoint"
    folder.mkdir(parents=True)
    old = {"state": {"D": {}, "step": 3}, "sealed": {}, "rng": {}, "ledger_lines": 0}
    torch.save(old, folder / checkpoint.FILE)
    with pytest.raises(RunFolderError, match=r"another version of Gossamer.*Finish the run with that version"):
        checkpoint.load(folder, PrivacyLedger(budget=1.0, delta=1e-5))


def test_networks_of_another_version_are_named_as_such(tmp_path: Path) -> None:
    """A network, an optimiser or a field that this version does not have, or has besides."""

    def refused(change: Callable[[dict[str, Any]], object]) -> None:
        card = DataCard(shape=(1, 28, 28), classes=10, declared_size=1000)
        state = Job.of(METHODS["dpgan"], {"noise_multiplier": 1.0}, card).begin(Rng(0)).state
        saved = copy.deepcopy(state.state_dict())
        checkpoint.restore(state, saved, tmp_path)
        change(saved)
        with pytest.raises(RunFolderError, match=r"another version of Gossamer.*Finish the run with that version"):
            checkpoint.restore(state, saved, tmp_path)

    refused(lambda saved: saved["D"]["net"].popitem())
    refused(lambda saved: saved["D"]["optimiser"]["param_groups"].clear())
    refused(lambda saved: saved.pop("D"))


def test_a_sealed_file_that_was_not_opened_yet_stays(tmp_path: Path) -> None:
    """A checkpoint of a state that only just came from one: its critics are still a path."""
    ledger = PrivacyLedger(budget=1.0, delta=1e-5)
    (tmp_path / "critics-0.sealed").write_bytes(b"critics")
    (tmp_path / "old-1.sealed").write_bytes(b"old")
    checkpoint.save(tmp_path, {"critics": tmp_path / "critics-0.sealed", "step": 3}, {}, ledger)
    assert checkpoint.load(tmp_path, ledger) == ({"critics": tmp_path / "critics-0.sealed", "step": 3}, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["critics-0.sealed", "reserve", "state.pt"]
