"""Writers: what is written reads back, and nothing half-written stays behind."""

import csv
import shutil
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from gossamer.data.samples.samples import Samples
from gossamer.data.sources.pictures.read import read
from gossamer.errors import RequestError, RunFolderError

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (7, 1, 28, 28), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (7, 3, 32, 32), dtype=np.uint8)
LABELS = np.array([3, 0, 10, 2, 2, 0, 3])
FORMS = ["s.npz", "s.csv", "s.parquet", "s"]


def chunks(images=GREY, labels=LABELS, size=3):
    for start in range(0, len(images), size):
        yield Samples(images[start : start + size], labels[start : start + size])


@pytest.mark.parametrize("images", [GREY, COLOUR])
def test_npz(tmp_path, images):
    Samples.write(tmp_path / "s.npz", chunks(images), count=7)
    records = read(str(tmp_path / "s.npz"), split="train")
    np.testing.assert_array_equal(records.images, images)
    np.testing.assert_array_equal(records.labels, LABELS)
    with np.load(tmp_path / "s.npz") as arrays:
        assert sorted(arrays) == ["images", "labels"]
        np.testing.assert_array_equal(arrays["images"], images)
    Samples.write(tmp_path / "again.npz", [Samples(images, LABELS)], count=7)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "s.npz").read_bytes(), "the chunking leaves no trace"


@pytest.mark.parametrize("images", [GREY, COLOUR])
def test_pictures(tmp_path, images):
    Samples.write(tmp_path / "s", chunks(images), count=7)
    records = read(str(tmp_path / "s"), split="train")
    order = np.argsort(LABELS, kind="stable")
    np.testing.assert_array_equal(records.images, images[order])
    np.testing.assert_array_equal(records.labels, LABELS[order])
    assert len(list((tmp_path / "s").iterdir())) == 11, "labels without samples keep their folder"


def test_csv(tmp_path):
    Samples.write(tmp_path / "s.csv", chunks(COLOUR), count=7)
    with (tmp_path / "s.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[:2] == ["label", "pixel0"]
    assert header[-1] == "pixel3071"
    values = np.array(rows, dtype=np.int64)
    np.testing.assert_array_equal(values[:, 0], LABELS)
    np.testing.assert_array_equal(values[:, 1:], COLOUR.reshape(7, -1))


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    Samples.write(tmp_path / "s.parquet", chunks(COLOUR), count=7)
    table = parquet.read_table(tmp_path / "s.parquet")
    assert table["label"].to_pylist() == LABELS.tolist()
    np.testing.assert_array_equal(np.array(table["pixels"].to_pylist()), COLOUR.reshape(7, -1))
    assert table.schema.metadata[b"shape"] == b"3,32,32"


@pytest.mark.parametrize("name", FORMS)
def test_what_is_there_stays_unless_forced(tmp_path, name):
    path = tmp_path / name
    Samples.write(path, chunks(), count=7)
    with pytest.raises(RunFolderError, match="force=True"):
        Samples.write(path, chunks(GREY[:2], LABELS[:2]), count=2)
    Samples.write(path, chunks(GREY[:2], LABELS[:2]), count=2, force=True)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    if name in ("s", "s.npz"):
        assert len(read(str(path), split="train")) == 2


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("there", [False, True])
def test_a_failure_leaves_nothing_half_written(tmp_path, name, there):
    path = tmp_path / name
    if there:
        Samples.write(path, chunks(), count=7)
    before = {entry: entry.is_file() and entry.read_bytes() for entry in tmp_path.rglob("*")}

    def broken():
        yield Samples(GREY[:3], LABELS[:3])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Samples.write(path, broken(), count=7, force=True)
    assert {entry: entry.is_file() and entry.read_bytes() for entry in tmp_path.rglob("*")} == before


def test_force_does_not_delete_other_peoples_folders(tmp_path):
    (tmp_path / "home" / "0").mkdir(parents=True)
    (tmp_path / "home" / "0" / "thesis.tex").write_text("years of work")
    with pytest.raises(RunFolderError, match="more than samples"):
        Samples.write(tmp_path / "home", chunks(), count=7, force=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunFolderError, match="do not replace each other"):
        Samples.write(tmp_path / "file", chunks(), count=7, force=True)
    (tmp_path / "empty").mkdir()
    Samples.write(tmp_path / "empty", chunks(), count=7)
    assert len(read(str(tmp_path / "empty"), split="train")) == 7


def test_bad_requests(tmp_path):
    with pytest.raises(RequestError, match=r"written as \.npz, \.csv"):
        Samples.write(tmp_path / "s.zip", chunks(), count=7)
    with pytest.raises(RequestError, match="nothing to write"):
        Samples.write(tmp_path / "s.npz", [], count=0)
    with pytest.raises(RunFolderError, match="make it first"):
        Samples.write(tmp_path / "no" / "s.npz", chunks(), count=7)
    assert list(tmp_path.iterdir()) == []


def test_memory_stays_bounded(tmp_path):
    """A generator of 40 chunks: never more than two are alive at once."""
    alive = weakref.WeakValueDictionary()

    class Tracked(np.ndarray):
        pass

    def stream():
        for number in range(40):
            images = np.zeros((50, 1, 28, 28), np.uint8).view(Tracked)
            alive[number] = images
            assert len(alive) <= 2
            yield Samples(images, np.zeros(50, np.int64))

    Samples.write(tmp_path / "s.npz", stream(), count=2000)
    assert read(str(tmp_path / "s.npz"), split="train").images.shape == (2000, 1, 28, 28)


@pytest.mark.parametrize(("name", "fits"), [("s.npz", 123), ("s.csv", 67), ("folder", 153), ("s.parquet", 10**6)])
def test_more_than_the_disk_holds_is_refused_at_the_first_chunk(tmp_path, monkeypatch, name, fits):
    """9,850 bytes are left. A sample of 9 x 8 pixels and a label of 8 bytes takes 80 of them as .npz, for example."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=9_850))
    asked = 0

    def chunks():
        nonlocal asked
        asked += 1
        yield Samples(np.zeros((1, 1, 9, 8), np.uint8), np.zeros(1, np.int64))
        asked += 1

    Samples.write(tmp_path / f"fits_{name}", chunks(), count=fits)
    assert asked == 2
    if fits < 10**6:
        with pytest.raises(RunFolderError, match=r"samples need .* GB, and there are .* GB left: ask for fewer"):
            Samples.write(tmp_path / name, chunks(), count=fits + 1)
        assert asked == 3, "nothing more was drawn"
    assert [entry.name for entry in tmp_path.iterdir()] == [f"fits_{name}"]
