"""The teacher through the whole command line, and as its page shows it in Python."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gossamer as package


def test_a_teacher_is_fitted_verified_sampled_attacked_and_asked(
    gossamer: Callable[..., Any], data: Path, card: Path, tmp_path: Path
) -> None:
    """Two classes of different brightness; the attack on log p(y | x) stands in for one on discriminators."""
    run = tmp_path / "run"
    words = ("--epsilon", 20, "--delta", 1e-3, "--steps", 30)
    fitted = gossamer("fit", "teacher", "--data", data, "--card", card, *words, "--out", run)
    assert fitted.status == 0, fitted.err
    assert gossamer("verify", run).status == 0
    assert gossamer("sample", run, "-n", 30, "-o", tmp_path / "synth.npz").status == 0
    with np.load(tmp_path / "synth.npz") as made:
        assert made["images"].shape[0] == 30
        assert set(made["labels"].tolist()) == {0, 1}
    other = tmp_path / "others.npz"
    draw = np.random.default_rng(1)
    np.savez(other, images=draw.integers(0, 256, (160, 28, 28), np.uint8), labels=np.arange(160) % 2)
    attacked = gossamer(
        "attack", run, "--members", data, "--nonmembers", other, "-n", 100, "--limit", 40, "--json"
    ).json
    assert "white-box" in {entry["attack"] for entry in attacked["attacks"]}

    teacher = package.Synthesizer.load(run)
    images, labels = package.read(str(data), teacher.card.reading).tensors()
    probabilities: Any = teacher.net.probabilities(images)  # type: ignore[operator]
    assert probabilities.shape == (160, 2)
    assert (probabilities.argmax(1) == labels).float().mean() > 0.8
