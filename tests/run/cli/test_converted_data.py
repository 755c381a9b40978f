"""Data that the readers convert, through the whole command line: it is said at the terminal, and no file keeps it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from forms import encoded
from PIL import Image
from pyarrow import parquet

from gossamer.data.card import DataCard
from gossamer.data.pixels import to_uint8
from gossamer.data.samples.samples import Samples
from gossamer.data.sources.pictures import image_files
from gossamer.data.sources.pictures.read import read

Run = Callable[..., Any]


def deep_scans(folder: Path, count: int = 160) -> Path:
    """16-bit grey TIFF in class folders; some lie in colour, on a transparent ground."""
    draw = np.random.default_rng(0)
    for number in range(count):
        path = folder / str(number % 2) / f"{number}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number % 16 == 0:
            Image.fromarray(draw.integers(0, 256, (28, 28, 4), np.uint8)).save(path)
        else:
            Image.fromarray(draw.integers(0, 4096, (28, 28), np.uint16)).save(path)
    return folder


def test_scans_of_16_bits(gossamer: Run, fit_words: list[str], tmp_path: Path) -> None:
    scans, run = deep_scans(tmp_path / "scans"), tmp_path / "run"
    words = [*fit_words]
    words[words.index("--data") + 1] = str(scans)
    refused = gossamer(*words)
    assert (
        refused.status == 2
        and "all 16 bits; where 12 are used, take 0 4095" in " ".join(refused.err.split())
        and not run.exists()
    )
    card = Path(words[words.index("--card") + 1])
    DataCard(shape=(1, 28, 28), classes=2, declared_size=160, pixel_range=(0, 4095)).save(card)
    fitted = gossamer(*words)
    assert fitted.status == 0, fitted.err
    said = (to_uint8.SCALED, to_uint8.MADE_GREY, image_files.ON_WHITE)
    for note in said:
        assert note in " ".join(fitted.err.split())
    for file in run.rglob("*"):
        if file.is_file():
            held = file.read_bytes()
            assert not any(note.encode() in held for note in said), file
    assert '"pixel_range"' in (run / "certificate.json").read_text()
    assert gossamer("verify", run).status == 0
    other = deep_scans(tmp_path / "others", 200)
    evaluated = gossamer("evaluate", run, "--train", scans, "--test", other, "-n", 200, "--metrics", "mmd")
    assert evaluated.status == 0, evaluated.err
    assert to_uint8.SCALED in " ".join(evaluated.err.split())
    assert gossamer("resume", run).status == 0


def test_deep_scans_that_a_wide_range_makes_black_are_refused_before_any_budget_is_used(
    gossamer: Run, fit_words: list[str], tmp_path: Path
) -> None:
    """12 bits between 0 and 65535: every picture was black, and the run used its epsilon without a word."""
    scans, run, books = deep_scans(tmp_path / "scans"), tmp_path / "run", tmp_path / "books"
    words = [*fit_words, "--accounts", str(books)]
    words[words.index("--data") + 1] = str(scans)
    card = Path(words[words.index("--card") + 1])
    facts = DataCard(shape=(1, 28, 28), classes=2, declared_size=160, pixel_range=(0, 65535))
    facts.save(card)
    refused = gossamer(*words)
    assert refused.status == 2
    assert "one shade by pixel_range = [0, 65535] of the card" in " ".join(refused.err.split())
    assert "the run has not begun" in " ".join(refused.err.split())
    assert not run.exists()
    assert not list(books.glob("*.jsonl"))
    drafted = gossamer("card", scans, "--pixel-range", 0, 65535)
    assert "quarter of pixel_range. Look at some of them, and declare a range" in " ".join(drafted.err.split())
    replace(facts, pixel_range=(0, 4095)).save(card)
    fitted = gossamer(*words)
    assert fitted.status == 0, fitted.err
    assert "one shade" not in fitted.err


def test_dark_pictures_of_8_bits_are_trained_on_and_it_is_said_before_any_budget_is_used(
    gossamer: Run, fit_words: list[str], data: Path, tmp_path: Path
) -> None:
    """They may be what they show: a warning, which no file keeps."""
    np.savez(data, images=np.random.default_rng(0).integers(0, 16, (160, 28, 28), np.uint8), labels=np.arange(160) % 2)
    fitted = gossamer(*fit_words)
    assert fitted.status == 0, fitted.err
    said = " ".join(fitted.err.split())
    assert said.index("Nearly every picture is one shade") < said.index("Budget log: this run uses")
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"one shade" not in file.read_bytes(), file


def test_keys_and_missing_labels(gossamer: Run, fit_words: list[str], data: Path, tmp_path: Path) -> None:
    with np.load(data) as stored:
        pixels, labels = stored["images"], stored["labels"]
    gender = np.where(np.arange(160) % 10 == 0, -1, labels)
    np.savez(data, faces=pixels, gender=gender)
    keys = ["--images-key", "faces", "--labels-key", "gender"]
    drafted = gossamer("card", data, *keys)
    assert drafted.status == 0 and DataCard.loads(drafted.out).classes == 2
    assert DataCard.loads(drafted.out).missing_label == "drop", "as it says"
    refused = gossamer(*fit_words, *keys)
    assert refused.status == 2 and 'missing_label = "drop"' in refused.err
    card = Path(fit_words[fit_words.index("--card") + 1])
    DataCard(shape=(1, 28, 28), classes=2, declared_size=144, missing_label="drop").save(card)
    fitted = gossamer(*fit_words, *keys)
    assert fitted.status == 0, fitted.err
    assert "Records without a label were left out, as the card says." in " ".join(fitted.err.split())
    np.savez(data, faces=pixels[gender >= 0], gender=gender[gender >= 0])
    resumed = gossamer("resume", tmp_path / "run")
    assert resumed.status == 0


def test_deep_scans_and_pictures_in_a_table_are_dealt(gossamer: Run, tmp_path: Path) -> None:
    scans = deep_scans(tmp_path / "scans")
    words = ["split", scans, "--share", 0.5, "-o", tmp_path / "dealt"]
    refused = gossamer(*words)
    assert refused.status == 2 and "--pixel-range" in refused.err and not (tmp_path / "dealt").exists()
    dealt = gossamer(*words, "--pixel-range", 0, 4095)
    assert dealt.status == 0, dealt.err
    for path in (tmp_path / "dealt").rglob("*.tif"):
        assert path.read_bytes() == (scans / path.parent.name / path.name).read_bytes(), "pictures are left as they are"
    files = [encoded(each, "PNG") for each in np.random.default_rng(0).integers(0, 256, (40, 4, 9, 9), np.uint8)]
    parquet.write_table(pa.table({"scan": files, "eye": ["left", "right"] * 20}), tmp_path / "a.parquet")
    words = ["split", tmp_path / "a.parquet", "--share", 0.5, "-o", tmp_path / "dealt.npz", "--labels-key", "eye"]
    dealt = gossamer(*words, "--images-key", "scan")
    assert dealt.status == 0, dealt.err
    assert image_files.ON_WHITE in " ".join(dealt.err.split())
    sides = [read(f"{tmp_path / 'dealt.npz'}:{side}", split="train") for side in ("train", "test")]
    assert sum(map(len, sides)) == 40
    assert all(side.class_names == ("left", "right") and side.shape == (3, 9, 9) for side in sides)


@pytest.mark.parametrize("name", ["s", "s.csv", "s.npz"])
def test_samples_are_measured_in_the_order_of_the_card(gossamer: Run, tmp_path: Path, name: str) -> None:
    """Folders are read in the order of their names, which this card's is not: else "b" would be held against "a"."""
    draw = np.random.default_rng(0)
    labels = np.arange(120) % 2
    images = draw.integers(0, 60, (120, 1, 12, 10), np.uint8)
    images[labels == 1, :, :6] += 180
    np.savez(tmp_path / "real.npz", images=images, labels=labels, class_names=["b", "a"])
    Samples.write(tmp_path / name, [Samples(images[::-1], labels[::-1], ("b", "a"))], count=120)
    DataCard(shape=(1, 12, 10), classes=2, class_names=("b", "a"), declared_size=120).save(tmp_path / "card.toml")
    real = tmp_path / "real.npz"
    asked = ["evaluate", tmp_path / name, "--train", real, "--test", real, "--card", tmp_path / "card.toml"]
    found = gossamer(*asked, "--metrics", "accuracy", "--json")
    assert found.status == 0, found.err
    trained = [entry["value"] for entry in found.json["metrics"] if entry["metric"] != "accuracy of guessing"]
    assert trained and min(trained) > 0.9
