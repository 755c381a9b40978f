"""The precision of a run: single unless it is asked for, in the run's record, and the same after `resume`."""

import json
import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gossamer.data.card import DataCard
from gossamer.errors import Interrupted
from gossamer.events import Event
from gossamer.privacy.per_sample_gradients import gradients
from gossamer.privacy.per_sample_gradients.rounding import Precision
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

PLACES = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)


@pytest.fixture
def asked(tmp_path: Path) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (60, 28, 28)).astype(np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=draw.integers(0, 2, 60))
    card = DataCard(shape=(1, 28, 28), classes=2, declared_size=60, data_set="noise")
    return {
        "data": tmp_path / "data.npz", "card": card, "out": tmp_path / "run", "accounts": tmp_path / "accounts", "delta": 1e-3,
        "noise_multiplier": 1.0, "steps": 40, "expected_batch_size": 10, "width": 2, "physical_batch_size": 16,
    }  # fmt: skip


def test_a_stopped_run_goes_on_in_its_precision(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    lowered = gradients.lowered

    def noted(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
        seen.append(precision)
        return lowered(precision, device)

    def stop(event: Event) -> None:
        if event.kind == "step" and event.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(gradients, "lowered", noted)
    with pytest.raises(Interrupted):
        fit("dpgan", precision="bf16", **asked, process=Process(sink=stop))
    assert json.loads((asked["out"] / "config.json").read_text())["config"]["precision"] == "bf16"
    before = len(seen)
    resume(asked["out"])
    assert len(seen) > before > 0 and set(seen) == {"bf16"}


@pytest.mark.skipif(not hasattr(PLACES[0], "fp32_precision"), reason="torch keeps its precision elsewhere before 2.9")
def test_a_run_takes_no_tf32_that_was_not_asked_for(asked: dict[str, Any]) -> None:
    """PyTorch allows it in convolutions. Within the run it is off, and afterwards as it was."""
    before = [place.fp32_precision for place in PLACES]
    seen: set[str] = set()

    def look(event: Event) -> None:
        if event.kind == "step":
            seen.update(place.fp32_precision for place in PLACES)

    fit("dpgan", **asked, process=Process(sink=look))
    assert seen == {"ieee"} and [place.fp32_precision for place in PLACES] == before
