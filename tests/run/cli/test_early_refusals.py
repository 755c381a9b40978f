"""What cannot work is refused before it costs anything, and nothing of what was there is changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Run = Callable[..., Any]


@pytest.mark.parametrize("place", ["nowhere/m.json", "."])
def test_figures_that_could_not_be_written_are_not_computed(
    gossamer: Run, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The records are not even looked for: there are none."""
    monkeypatch.chdir(tmp_path)
    for words in (
        ["evaluate", made, "--train", "A", "--test", "A"],
        ["attack", made, "--members", "A", "--nonmembers", "B"],
    ):
        answer = gossamer(*words, "-o", place)
        assert answer.status == 2
        assert f"{place} cannot be written: give a file in a folder that is there." in answer.err


def test_training_records_of_other_classes_than_the_runs_are_refused(
    gossamer: Run, made: Path, data: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "nine.npz", images=np.zeros((60, 28, 28), np.uint8), labels=np.arange(60) % 9)
    for train, test in ((tmp_path / "nine.npz", data), (data, tmp_path / "nine.npz")):
        answer = gossamer("evaluate", made, "--train", train, "--test", test)
        assert answer.status == 2
        assert f"{tmp_path / 'nine.npz'} has labels beyond the 2 declared classes" in answer.err


@pytest.mark.parametrize("out", ["dealt", "benign/dealt", "train/dealt"])
def test_a_split_does_not_go_into_what_it_splits(gossamer: Run, tmp_path: Path, out: str) -> None:
    """Its folders would be read as classes from then on."""
    for name in ("benign", "malignant"):
        (tmp_path / "scans" / name).mkdir(parents=True)
        for number in range(8):
            pixels = np.random.default_rng(number).integers(0, 255, (28, 28), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "scans" / name / f"{number}.png")
    before = sorted((tmp_path / "scans").rglob("*"))
    answer = gossamer("split", tmp_path / "scans", "-o", tmp_path / "scans" / out, "--share", 0.5)
    assert answer.status == 2
    assert "whose folders are classes or splits. Choose a place beside it." in answer.err
    assert sorted((tmp_path / "scans").rglob("*")) == before
    assert gossamer("split", tmp_path / "scans", "-o", tmp_path / "dealt", "--share", 0.5).status == 0
    assert (tmp_path / "dealt").stat().st_mode & 0o777 == 0o700, "for nobody else"
