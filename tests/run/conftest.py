import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gossamer.data.card import DataCard
from gossamer.run.cli import main
from gossamer.run.fit import fit

SMALL = ["--steps", "20", "--expected-batch-size", "16", "--width", "4", "--latent-size", "8"]


class Answer:
    """What a command said, and how it ended."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished run, for tests that copy it before they change it."""
    folder = tmp_path_factory.mktemp("made")
    draw = np.random.default_rng(0)
    np.savez(folder / "data.npz", images=draw.integers(0, 256, (160, 28, 28), np.uint8), labels=np.arange(160) % 2)
    fit(
        "dpgan", data=folder / "data.npz", card=DataCard(shape=(1, 28, 28), classes=2, declared_size=160),
        out=folder / "run", noise_multiplier=4.0, delta=1e-3, steps=20, expected_batch_size=16, width=4, latent_size=8,
    )  # fmt: skip
    return folder / "run"


@pytest.fixture
def gossamer(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs the command line in this process."""

    def run(*words: object) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Answer(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """160 small records in an .npz, two classes."""
    draw = np.random.default_rng(0)
    labels = draw.integers(2, size=160)
    images = (draw.integers(0, 56, size=(160, 28, 28)) + 100 * labels[:, None, None]).astype(np.uint8)
    np.savez(tmp_path / "patients.npz", images=images, labels=labels)
    return tmp_path / "patients.npz"


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.toml"
    path.write_text("shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 160\n")
    return path


@pytest.fixture
def fit_words(data: Path, card: Path, tmp_path: Path) -> list[str]:
    """The words of a small fit into tmp_path/run."""
    words = [
        "fit",
        "dpgan",
        "--data",
        data,
        "--card",
        card,
        "--epsilon",
        10,
        "--delta",
        1e-3,
        "--out",
        tmp_path / "run",
    ]
    return [*map(str, words), *SMALL]
