"""Where the card has names of classes, people read names: in a release's samples, on the terminal, in messages."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gossamer.metrics.features import ClassifierFeatures
from gossamer.run.evaluation.evaluate import lines

Run = Callable[..., Any]
NAMES = ("benign", "malignant")


@pytest.fixture
def named_run(gossamer: Run, fit_words: list[str], card: Path, tmp_path: Path) -> Path:
    """A small run whose card names its classes."""
    card.write_text(f'{card.read_text()}class_names = ["{NAMES[0]}", "{NAMES[1]}"]\n')
    answer = gossamer(*fit_words)
    assert answer.status == 0, answer.err
    return tmp_path / "run"


def test_the_samples_of_a_release_carry_the_names_and_its_readme_says_so(
    gossamer: Run, named_run: Path, tmp_path: Path
) -> None:
    answer = gossamer("release", named_run, "-o", tmp_path / "out", "--samples", 30)
    assert answer.status == 0, answer.err
    with np.load(tmp_path / "out" / "samples.npz") as held:
        assert sorted(held.files) == ["class_names", "images", "labels"]
        assert held["class_names"].tolist() == [*NAMES]
        assert len(held["labels"]) == 30
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "`labels` int64 [30], and `class_names` text [2], from label 0 on." in readme
    assert "The labels: 0 benign, 1 malignant." in readme


@pytest.mark.parametrize("source", ["run", "samples.npz"])
def test_the_lines_of_evaluate_call_classes_by_their_names(
    gossamer: Run, named_run: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """On the terminal. metrics.json and --json keep the numbers, which are keys."""
    train = functools.partial(ClassifierFeatures.train, width=16, epochs=1)
    monkeypatch.setattr(ClassifierFeatures, "train", train)
    synth = named_run
    if source != "run":
        synth = tmp_path / source
        assert gossamer("sample", named_run, "-n", 80, "-o", synth).status == 0
    words = ["evaluate", synth, "--train", data, "--test", data, "-n", 80, "--metrics", "per-class"]
    answer = gossamer(*words)
    assert answer.status == 0, answer.err
    for name in NAMES:
        assert f"\nsamples of class {name} that look like it  " in answer.out
    assert "class 0" not in answer.out
    keys = {entry["metric"] for entry in gossamer(*words, "--json").json["metrics"]}
    assert "samples of class 0 that look like it" in keys


def test_a_class_beyond_the_names_keeps_its_number() -> None:
    entry = {"value": 0.5, "low": 0.4, "high": 0.6, "computed_on": "test"}
    told = lines([{**entry, "metric": f"samples of class {at} that look like it"} for at in (1, 2)], NAMES)
    assert [line.split(" that")[0] for line in told] == ["samples of class malignant", "samples of class 2"]
    assert lines([{**entry, "metric": "samples of class 1 that look like it"}])[0].startswith("samples of class 1 ")


def test_privgan_names_the_class_that_has_too_few_records(
    gossamer: Run, data: Path, card: Path, tmp_path: Path
) -> None:
    card.write_text(f'{card.read_text()}class_names = ["{NAMES[0]}", "{NAMES[1]}"]\n')
    with np.load(data) as held:
        labels = np.zeros(160, np.int64)
        np.savez(tmp_path / "few.npz", images=held["images"], labels=labels)
    words = ["fit", "privgan", "--data", tmp_path / "few.npz", "--card", card, "--out", tmp_path / "no"]
    answer = gossamer(*words, "--labels", "per-class", "--epochs", 1, "--batch-size", 16)
    assert answer.status != 0
    assert "too few records of class malignant" in answer.err
