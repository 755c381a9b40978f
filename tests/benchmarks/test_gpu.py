"""`benchmarks/gpu.py` is made for a machine that is seldom there: here its lines run on the processor, with small nets."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


def run(out: Path, *only: str) -> dict[str, Any]:
    main = runpy.run_path(str(BENCHMARK))["main"]
    main(["--device", "cpu", "--tiny", "--out", str(out), *(["--only", *only] if only else [])])
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.mark.slow
def test_every_part_runs_and_nothing_fails(tmp_path: Path) -> None:
    found = run(tmp_path / "gpu.json")
    assert set(found) == {"machine", "check", "dpgan", "diffusion", "clipped", "noise", "graphs"}
    assert found["check"].pop("failed") == []
    assert len(found["check"]) == 40 and all(each.startswith("pass: ") for each in found["check"].values())
    assert not any("FAILED" in part for part in found.values())
    for name, steps, goal in (("dpgan", 174_000, 30), ("diffusion", 60 * 60_000 // 16, 20)):
        for each in found[name].values():
            assert each["steps"] == steps and each["goal_minutes"] == goal
            least = each["ms_per_step"] * steps / 60_000
            assert each["projected_minutes"] == pytest.approx(least + each["start_seconds"] / 60)
            assert each["met"] == (each["projected_minutes"] <= goal)
    assert {each["ratio"] > 0 for each in found["clipped"].values()} == {True}


@pytest.mark.slow
def test_what_is_wrong_is_told_and_the_rest_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that is half of what it should be, in one layer."""
    from gossamer.privacy.per_sample_gradients.convolution import Convolution

    real = Convolution.add_weight_gradient_
    monkeypatch.setattr(Convolution, "add_weight_gradient_", lambda self, out, a, b: real(self, out, a, 3 * b))
    monkeypatch.setattr("gossamer.privacy.per_sample_gradients.clipping.KEEP", 0)
    found = run(tmp_path / "gpu.json", "check")["check"]
    assert "sums, unet, fp32" in found["failed"] and "max_norm" in found["sums, unet, fp32"]
    assert found["keystream"].startswith("pass") and found["fit and resume"].startswith("pass")
    assert torch.is_grad_enabled()
