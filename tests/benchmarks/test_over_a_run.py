"""Figures over a run: each stop is judged once, also where a method takes no delta."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import over_a_run
from gossamer.data.card import DataCard


@pytest.mark.parametrize(
    ("method", "words", "last"),
    [
        ("privgan", "--pairs 1 --epochs 4 --adversary_warm_epochs 0 --batch_size 500", 8),
        ("privae", "--epsilon 5 --steps 8 --expected_batch_size 8 --latent_size 2", 8),
    ],
)
def test_each_stop_is_judged_once(
    method: str,
    words: str,
    last: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def judged(generator: Any, train: Any, test: Any, features: Any, pictures: Path) -> dict[str, Any]:
        del train, test, features, pictures
        return {"accuracy": {"value": float(generator.sample(3, seed=0).images.mean())}}

    monkeypatch.setattr(over_a_run.ClassifierFeatures, "train", lambda *_, **__: None)
    monkeypatch.setattr(over_a_run, "judged", judged)
    DataCard(shape=(1, 8, 8), classes=10, declared_size=1_437).save(tmp_path / "card.toml")
    asked = ["--data", "digits", "--card", tmp_path / "card.toml", "--out", tmp_path / "out", "--steps", 3]
    monkeypatch.setattr(sys, "argv", ["", method, *map(str, asked), "--", *words.split(), "--width", "4"])
    over_a_run.main()
    file = tmp_path / "out" / "figures.jsonl"
    steps = [json.loads(line)["step"] for line in file.read_text().splitlines()]
    assert steps == sorted({*steps}) and steps[-1] == last and (tmp_path / "out" / "figures.svg").exists()
    over_a_run.main()
    assert len(file.read_text().splitlines()) == capsys.readouterr().out.count("step ") == len(steps), "none twice"
