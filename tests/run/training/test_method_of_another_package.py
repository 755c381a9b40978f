"""The exercise of a method through the whole command line: nothing in `run/` knows it, and everything works."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from class_means import ClassMeans

from gossamer.events import Event
from gossamer.methods import METHODS
from gossamer.run.training.fit import fit
from gossamer.run.training.resume import resume


@pytest.fixture(autouse=True)
def sixth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, ClassMeans.name, ClassMeans())


def test_flags_plan_fit_report_and_attacks_come_by_themselves(
    gossamer: Callable[..., Any], data: Path, card: Path, tmp_path: Path
) -> None:
    assert "Class means (an exercise)" in gossamer("fit", "--help").out
    help_ = gossamer("fit", "class-means", "--help").out
    assert "--latent-size" in help_ and "it shifts the brightness" in " ".join(help_.split())
    budget = ("--epsilon", 3, "--delta", 1e-3)
    planned = gossamer("plan", "class-means", "--card", card, *budget, "--json").json
    assert (planned["steps"], planned["sampling_rate"]) == (50, 1.0)
    assert 2.99 <= min(entry["epsilon"] for entry in planned["guarantees"]) <= 3.0
    run = tmp_path / "run"
    fitted = gossamer("fit", "class-means", "--data", data, "--card", card, *budget, "--out", run)
    assert fitted.status == 0, fitted.err
    assert gossamer("verify", run).status == 0
    assert gossamer("sample", run, "-n", 30, "-o", tmp_path / "synth.npz").status == 0
    with np.load(tmp_path / "synth.npz") as made:
        assert made["images"].shape[0] == 30
    other = tmp_path / "others.npz"
    draw = np.random.default_rng(1)
    np.savez(other, images=draw.integers(0, 256, (160, 28, 28), np.uint8), labels=np.arange(160) % 2)
    attacked = gossamer(
        "attack", run, "--members", data, "--nonmembers", other, "-n", 200, "--limit", 40, "--json"
    ).json
    assert "keeps no discriminator" in attacked["left_out"]["white-box and oracle TVD"]
    assert len(attacked["attacks"]) > 3
    assert gossamer("release", run, "-o", tmp_path / "out").status == 0
    assert gossamer("verify", tmp_path / "out").status == 0
    assert "class-means" in (run / "report.html").read_text()
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["phase"] == "training"][:3] == [1, 2, 3]


def test_it_stops_and_goes_on(data: Path, card: Path, tmp_path: Path) -> None:
    """A crash after its one release: the checkpoint holds what was released, nothing is paid twice."""
    kept: list[int] = []

    def crash(event: Event, /) -> None:
        if event.kind == "step" and event.step == 30:
            raise RuntimeError

    from gossamer.run.training import checkpoint

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint.Clock, "due", lambda _: True)
        with pytest.raises(RuntimeError):
            fit("class-means", data=data, card=card, out=tmp_path / "run", epsilon=3.0, delta=1e-3, sink=crash)
    synthesizer = resume(tmp_path / "run", sink=lambda event: kept.append(event.step) if event.kind == "step" else None)
    assert kept == list(range(30, 51))
    assert synthesizer.certificate.guarantee["epsilon"] <= 3.0
