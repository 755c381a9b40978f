"""`gossamer card` of pictures of several sizes, whatever holds them: what becomes of them, and the choice."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gossamer.data.card import DataCard
from gossamer.data.sources.pictures.read import read

Run = Callable[..., Any]
SIZES = [(60, 40), (60, 40), (30, 90), (28, 28)]
"""Height and width, in turn."""


def pictures(count: int = 8) -> list[bytes]:
    """PNG files: even ones grey, odd ones in colour."""
    draw, files = np.random.default_rng(0), []
    for number in range(count):
        size = SIZES[number % len(SIZES)]
        pixels = draw.integers(0, 100, size if number % 2 == 0 else (*size, 3), np.uint8)
        held = io.BytesIO()
        Image.fromarray(pixels).save(held, format="PNG")
        files.append(held.getvalue())
    return files


def parquet(at: Path) -> Path:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    files = pictures()
    rows = [{"bytes": file, "path": f"{number}.png"} for number, file in enumerate(files)]
    pq.write_table(pa.table({"image": rows, "label": [number % 2 for number in range(len(files))]}), at / "p.parquet")
    return at / "p.parquet"


def tar(at: Path) -> Path:
    with tarfile.open(at / "p.tar", "w") as archive:
        for number, file in enumerate(pictures()):
            for name, content in ((f"{number}.png", file), (f"{number}.cls", str(number % 2).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return at / "p.tar"


def listed(at: Path) -> Path:
    (at / "listed").mkdir()
    for number, file in enumerate(pictures()):
        (at / "listed" / f"{number}.png").write_bytes(file)
    lines = [f"{number}.png,{number % 2}" for number in range(8)]
    (at / "listed" / "metadata.csv").write_text("\n".join(["file_name,label", *lines, ""]))
    return at / "listed"


def folders(at: Path) -> Path:
    for number, file in enumerate(pictures()):
        (at / "folders" / str(number % 2)).mkdir(parents=True, exist_ok=True)
        (at / "folders" / str(number % 2) / f"{number}.png").write_bytes(file)
    return at / "folders"


@pytest.mark.parametrize("write", [parquet, tar, listed, folders])
def test_a_card_of_several_sizes_is_drafted_and_the_choice_is_said(
    gossamer: Run, tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    data = write(tmp_path)
    answer = gossamer("card", data)
    assert answer.status == 0, answer.err
    assert "The pictures are 40x60 pixels (width x height) and 2 other sizes and become 32x32" in answer.err
    assert '"squash" (as drafted) distorts them, "crop" keeps the middle' in answer.err
    assert 'and "pad" adds black bars.' in answer.err
    assert "4 of 8 pictures are in colour, and the others are grey. The draft keeps colour." in answer.err
    drafted = DataCard.loads(answer.out)
    assert (drafted.shape, drafted.classes, drafted.resize) == ((3, 32, 32), 2, "squash")
    seen = []
    for resize in ("squash", "crop", "pad"):
        text = answer.out.replace('resize = "squash"', f'resize = "{resize}"')
        seen.append(read(str(data), DataCard.loads(text).reading).images)
    assert all(images.shape == (8, 3, 32, 32) for images in seen)
    assert not np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])


@pytest.mark.parametrize("name", ["p.parquet", "p.tar"])
def test_pictures_of_one_usual_size_keep_it(gossamer: Run, tmp_path: Path, name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("test_card_sizes.SIZES", [(28, 28)])
    answer = gossamer("card", parquet(tmp_path) if name == "p.parquet" else tar(tmp_path))
    assert answer.status == 0, answer.err
    assert DataCard.loads(answer.out).shape == (3, 28, 28)
    assert "become" not in answer.err


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_grey_pictures_that_are_stored_in_colour_are_grey(gossamer: Run, tmp_path: Path, mode: str) -> None:
    """As scans are that a program has saved as RGB. One grey file is beside them, and one picture in colour decides."""
    draw = np.random.default_rng(3)
    for number in range(12):
        path = tmp_path / "scans" / "ab"[number % 2] / f"{number}.{'png' if number % 3 else 'webp'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        grey = Image.fromarray(draw.integers(0, 256, (28, 28), dtype=np.uint8))
        (grey.convert(mode) if number else grey).save(path)
    answer = gossamer("card", tmp_path / "scans")
    assert answer.status == 0, answer.err
    card = DataCard.loads(answer.out)
    assert card.shape == (1, 28, 28)
    assert "The pictures are stored in colour, and all are grey. So the draft has 1 as the first number" in answer.err
    assert "three equal colours" not in answer.err and "are in colour, and the others" not in answer.err
    assert DataCard.loads(gossamer("card", tmp_path / "scans", "--shape", "3x28x28").out).shape == (3, 28, 28)
    grey = read(str(tmp_path / "scans"), card.reading).images
    assert grey.shape == (12, 1, 28, 28) and grey.std() > 70
    Image.new("RGB", (28, 28), (200, 180, 180)).save(tmp_path / "scans" / "a" / "red.png")
    assert DataCard.loads(gossamer("card", tmp_path / "scans").out).shape == (3, 28, 28)


def test_a_draft_is_a_private_file(gossamer: Run, tmp_path: Path) -> None:
    """It holds measured values: of a table the smallest and largest of each number, and texts, as comments."""
    (tmp_path / "people.csv").write_text("age,town\n" + "".join(f"{n % 50},Ulm\n{n % 40},Bonn\n" for n in range(60)))
    out = tmp_path / "card.toml"
    assert gossamer("card", tmp_path / "people.csv", "-o", out).status == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert "# measured: bounds = [0, 49]" in out.read_text()
    out.chmod(0o644)
    assert gossamer("card", "digits", "-o", out, "--force").status == 0
    assert out.stat().st_mode & 0o777 == 0o600, "an older file is closed too"
    assert DataCard.load(out).classes == 10


def test_records_without_units_are_said(gossamer: Run, tmp_path: Path) -> None:
    """Folders of units were promised, and there are none, or not for all."""
    data = folders(tmp_path)
    answer = gossamer("card", data, "--units", "folder")
    assert answer.status == 0, answer.err
    assert "No record has a unit, and `fit` refuses them as drafted." in answer.err
    (data / "0" / "writer").mkdir()
    (data / "0" / "0.png").rename(data / "0" / "writer" / "0.png")
    assert "Some records have no unit" in gossamer("card", data, "--units", "folder").err
    assert "no unit" not in gossamer("card", data / "0", "--labels-key", "none").err


def test_a_file_that_is_there_is_refused_before_anything_is_read(gossamer: Run, tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text("mine")
    answer = gossamer("card", tmp_path / "nothing", "-o", tmp_path / "card.toml")
    assert answer.status == 2
    assert "card.toml exists" in answer.err


@pytest.mark.parametrize(("side", "drafted"), [(28, 28), (48, 48), (128, 128), (20, 32), (600, 32)])
def test_pictures_of_one_size_keep_it_up_to_512_pixels(
    gossamer: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: int, drafted: int
) -> None:
    """And what the methods do there is said, where it is not the usual size."""
    monkeypatch.setattr("test_card_sizes.SIZES", [(side, side)])
    answer = gossamer("card", folders(tmp_path))
    assert answer.status == 0, answer.err
    assert DataCard.loads(answer.out).shape == (3, drafted, drafted)
    assert ("become 32x32. For another size, give --shape" in answer.err) == (side != drafted)
    assert (f"Not every method takes {side}x{side} pixels" in answer.err) == (side in (48, 128))
    assert ("only moments was run on pictures above 64 pixels" in answer.err) == (side == 128)


@pytest.mark.parametrize(("text", "shape"), [("64x48", (1, 64, 48)), ("3x64x64", (3, 64, 64))])
def test_a_shape_of_ones_own(gossamer: Run, tmp_path: Path, text: str, shape: tuple[int, ...]) -> None:
    """For files of several sizes, and for an array."""
    np.savez(tmp_path / "array.npz", images=np.zeros((8, 20, 20), np.uint8), labels=np.arange(8) % 2)
    for data in (folders(tmp_path), tmp_path / "array.npz"):
        answer = gossamer("card", data, "--shape", text)
        assert answer.status == 0, answer.err
        drafted = DataCard.loads(answer.out).shape
        assert drafted == shape if data.suffix else drafted[1:] == shape[1:]
        assert data.suffix or f"become {shape[2]}x{shape[1]}" in answer.err


@pytest.mark.parametrize("text", ["64", "2x64x64", "0x64", "ax64", "64x64x64x64"])
def test_a_shape_that_is_none_is_refused(gossamer: Run, tmp_path: Path, text: str) -> None:
    answer = gossamer("card", folders(tmp_path), "--shape", text)
    assert answer.status == 2
    assert "--shape" in answer.err
    assert "such as 64x64" in answer.err or "3x64x64" in answer.err
