"""A training that leaves the numbers stops, and what was good is kept. Polite kills are heard like Ctrl-C."""

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from gossamer.errors import Diverged, Interrupted
from gossamer.events import Event
from gossamer.methods.job import Training
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.verify import verify
from gossamer.run.training import checkpoint
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume
from gossamer.run.training.signals import HEARD

SMALL: dict[str, Any] = {
    "noise_multiplier": 4.0, "delta": 1e-3, "steps": 96, "expected_batch_size": 8, "width": 4, "latent_size": 8,
    "discriminator_steps": 4,
}  # fmt: skip


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.toml"
    path.write_text("shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 160\n")
    return path


def test_a_training_that_diverges_stops_and_resumes_from_its_last_good_checkpoint(
    data: Path, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHORTEST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)
    trainings: list[Training[Any, Any]] = []
    begin = Training.__init__

    def remembered(self: Any, *rest: Any) -> None:
        begin(self, *rest)
        trainings.append(self)

    def poison(event: Event) -> None:
        if event.kind == "step" and event.step == 40:
            with torch.no_grad():
                trainings[-1].state.D.vector[3] = math.inf

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "__init__", remembered)
        with pytest.raises(
            Diverged, match=r"at step 48 of the training .* The checkpoint of step 32 of the training is kept"
        ):
            fit("dpgan", data=data, card=card, out=tmp_path / "run", **SMALL, process=Process(sink=poison))
    assert PrivacyLedger.load(tmp_path / "run" / "ledger.jsonl").charged[0][1] == 48, "the rest of the plan"
    steps: list[int] = []
    resume(
        tmp_path / "run", process=Process(sink=lambda event: steps.append(event.step) if event.kind == "step" else None)
    )
    assert steps == list(range(33, 81)), "shorter by the 16 that were lost"
    assert verify(tmp_path / "run").ok


def test_nothing_that_is_confined_is_looked_at() -> None:
    """Whether critics are finite is a fact about records."""
    ledger = PrivacyLedger(budget=1.0, delta=1e-5)
    state = {"critics": Confined(torch.tensor([math.nan]), ledger, Rng()), "net": {"weight": torch.ones(2)}, "step": 3}
    assert checkpoint.finite(state)
    for bad in (math.nan, math.inf):
        assert not checkpoint.finite({**state, "moments": [{"square": torch.tensor([0.0, bad])}]})
        assert not checkpoint.finite({**state, "loss": bad})
    assert checkpoint.finite({"labels": torch.tensor([1, 2]), "name": "x", "none": None})
    long = torch.zeros(1_100, 1_000)
    assert checkpoint.finite(long)
    long[-1, -1] = torch.nan
    assert not checkpoint.finite(long)


@pytest.mark.parametrize("what", HEARD)
def test_a_polite_kill_is_heard_like_ctrl_c(data: Path, card: Path, tmp_path: Path, what: signal.Signals) -> None:
    def ask(event: Event) -> None:
        if event.kind == "step" and event.step == 20:
            os.kill(os.getpid(), what)

    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
    with pytest.raises(Interrupted, match="nothing is lost"):
        fit("dpgan", data=data, card=card, out=tmp_path / "run", **{**SMALL, "steps": 40}, process=Process(sink=ask))
    signal.signal(signal.SIGHUP, before)
    steps: list[int] = []
    resume(
        tmp_path / "run", process=Process(sink=lambda event: steps.append(event.step) if event.kind == "step" else None)
    )
    assert steps[0] == 33 and steps[-1] == 40
