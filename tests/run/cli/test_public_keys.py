"""--public-images-key and --public-labels-key: what lies in --public may be called something else than what lies in --data."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Run = Callable[..., Any]
KEYS = ["--public-images-key", "scans", "--public-labels-key", "diagnosis"]


@pytest.fixture
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """40 pictures that are in no other file of these tests, and their labels."""
    images = np.random.default_rng(3).integers(0, 256, (40, 28, 28), np.uint8)
    return images, np.arange(40) % 2


def public_npz(path: Path, drawn: tuple[np.ndarray, np.ndarray]) -> Path:
    """Beside the arrays that are meant, others under the usual keys that cannot be read."""
    images, labels = drawn
    np.savez(path, scans=images, diagnosis=labels, images=np.zeros(3), labels=np.zeros(7))
    return path


def public_parquet(path: Path, drawn: tuple[np.ndarray, np.ndarray]) -> Path:
    import io

    from PIL import Image

    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    images, labels = drawn
    files = []
    for image in images:
        held = io.BytesIO()
        Image.fromarray(image).save(held, format="PNG")
        files.append(held.getvalue())
    table = {"mask": files[::-1], "scans": files, "label": [0.5] * len(files), "diagnosis": labels.tolist()}
    parquet.write_table(pa.table(table), path)
    return path


@pytest.mark.parametrize(("name", "write"), [("p.npz", public_npz), ("p.parquet", public_parquet)])
def test_public_records_are_read_by_keys_of_their_own(
    gossamer: Run, fit_words: list[str], tmp_path: Path, drawn: Any, name: str, write: Any
) -> None:
    """The digest of the public records is that of the arrays that were meant, whatever form they have."""
    file = write(tmp_path / name, drawn)
    answer = gossamer(*fit_words, "--public", file, *KEYS, "--warm-steps", 2)
    assert answer.status == 0, answer.err
    images, labels = drawn
    np.savez(tmp_path / "plain.npz", images=images, labels=labels)
    other = [word if word != str(tmp_path / "run") else str(tmp_path / "plain") for word in fit_words]
    answer = gossamer(*other, "--public", tmp_path / "plain.npz", "--warm-steps", 2)
    assert answer.status == 0, answer.err
    said = [json.loads((tmp_path / run / "config.json").read_text())["public"] for run in ("run", "plain")]
    assert said[0]["sha256"] == said[1]["sha256"]
    assert said[0]["count"] == 40
    assert "diagnosis" not in (tmp_path / "run" / "config.json").read_text()
    again = gossamer("resume", tmp_path / "run")  # a finished one is left as it is; its sources are read back
    assert again.status == 0, again.err


def test_messages_about_public_records_name_their_options(
    gossamer: Run, fit_words: list[str], tmp_path: Path, drawn: Any
) -> None:
    file = public_npz(tmp_path / "p.npz", drawn)
    missing = gossamer(*fit_words, "--public", file, "--public-images-key", "scan")
    assert missing.status == 2
    assert "there is no key train_scan or scan; the keys are: scans, diagnosis" in missing.err
    (tmp_path / "folders" / "0").mkdir(parents=True)
    Image.fromarray(drawn[0][0, 0]).save(tmp_path / "folders" / "0" / "a.png")
    needless = gossamer(*fit_words, "--public", tmp_path / "folders", "--public-labels-key", "diagnosis")
    assert needless.status == 2
    assert "folders: --public-labels-key names an array" in needless.err
    alone = gossamer(*fit_words, *KEYS)
    assert alone.status == 2
    assert "go with --public, which is missing" in alone.err
    assert not (tmp_path / "run").exists()
