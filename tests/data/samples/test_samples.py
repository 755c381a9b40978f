"""Samples in a program: unpacked, indexed, as tensors and frames, in files and pictures. Records show no pixel."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from gossamer.data.records import Records
from gossamer.data.samples.samples import Samples
from gossamer.data.sources.pictures.read import read
from gossamer.errors import RequestError, RunFolderError


@pytest.fixture
def samples() -> Samples:
    images = np.arange(6 * 4, dtype=np.uint8).reshape(6, 1, 2, 2)
    return Samples(images, np.array([0, 1, 0, 1, 0, 1]), ("cat", "dog"))


def test_they_are_unpacked_counted_and_indexed(samples: Samples) -> None:
    images, labels = samples
    assert images is samples.images
    assert labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert len(samples) == 6
    image, label = samples[3]
    assert image.tolist() == [[[12, 13], [14, 15]]]
    assert (label, type(label)) == (1, int)
    for which in (slice(1, 3), [1, 2], np.array([1, 2]), np.array([0, 1, 1, 0, 0, 0], bool)):
        some = samples[which]
        assert isinstance(some, Samples)
        assert some.images[:, 0, 0, 0].tolist() == [4, 8]
        assert some.class_names == ("cat", "dog")
    with pytest.raises(IndexError):
        _ = samples[6]


def test_they_are_tensors_and_a_dataset(samples: Samples) -> None:
    images, labels = samples.to_torch()
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert images.shape == (6, 1, 2, 2)
    assert torch.equal(images[5], torch.tensor([[[20.0, 21.0], [22.0, 23.0]]]) / 255)
    images.zero_()
    assert samples.images[5, 0, 0, 0] == 20, "a copy"
    batches = list(DataLoader(samples, batch_size=4))  # type: ignore[arg-type]  # a map-style dataset by what it can do
    assert [len(batch) for _, batch in batches] == [4, 2]
    assert torch.cat([labels for _, labels in batches]).tolist() == samples.labels.tolist()


def test_soft_labels_take_the_place_of_labels() -> None:
    soft = np.array([[0.9, 0.1], [0.25, 0.75]], np.float32)
    samples = Samples(np.zeros((2, 1, 3, 3), np.uint8), np.array([0, 1]), probabilities=soft)
    _, given = samples.to_torch(soft_labels=True)
    assert given.dtype == torch.float32 and given.tolist() == soft.tolist()
    assert samples.to_torch()[1].tolist() == [0, 1]
    with pytest.raises(RequestError, match="have no soft labels"):
        Samples(samples.images, samples.labels).to_torch(soft_labels=True)


def test_they_are_a_frame(samples: Samples) -> None:
    pytest.importorskip("pandas")
    frame = samples.to_pandas()
    assert list(frame.columns) == ["label", "class", "pixel0", "pixel1", "pixel2", "pixel3"]
    assert frame["class"].tolist() == ["cat", "dog"] * 3
    assert frame.loc[2, "pixel1"] == 9
    assert str(frame["pixel0"].dtype) == "uint8"
    assert list(Samples(samples.images, samples.labels).to_pandas().columns)[:2] == ["label", "pixel0"]


def test_without_pandas_it_says_what_to_install(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(RequestError, match="pip install pandas"):
        samples.to_pandas()


@pytest.mark.parametrize("name", ["s.npz", "s.csv", "s.parquet", "folder"])
def test_what_is_saved_is_read_back(samples: Samples, tmp_path: Path, name: str) -> None:
    samples.save(tmp_path / name)
    again = read(str(tmp_path / name), split="train")
    order = np.argsort(samples.labels, kind="stable") if name == "folder" else np.arange(6)
    assert np.array_equal(again.images, samples.images[order])
    assert again.labels.tolist() == samples.labels[order].tolist()
    with pytest.raises(RunFolderError):
        samples.save(tmp_path / name)
    samples.save(tmp_path / name, force=True)


def test_a_plot_has_a_row_for_each_class(samples: Samples) -> None:
    unnamed = Samples(samples.images, samples.labels)
    picture = unnamed.plot(columns=3)
    assert isinstance(picture, Image.Image)
    scale = 640 // 6
    gap = max(2, round(0.2 * scale))
    assert picture.size == (3 * (2 * scale + gap) - gap, 2 * (2 * scale + gap) - gap)
    assert picture.getpixel((0, 0)) == (0, 0, 0, 255)
    assert picture.getpixel((0, 2 * scale + gap)) == (4, 4, 4, 255)
    with pytest.raises(RequestError, match="at least one"):
        samples[:0].plot()


def test_a_notebook_shows_the_plot_and_no_markup_of_a_name(samples: Samples) -> None:
    assert repr(samples) == "Samples(6 images of 1x2x2)"
    shown = samples._repr_html_()
    assert 'src="data:image/png;base64,' in shown
    assert "6 images of 1x2x2" in shown
    assert "<img" not in samples[:0]._repr_html_()


def test_records_show_numbers_and_shape_only() -> None:
    """A log or a notebook that shows records must not show what is in them."""
    images = np.full((3, 1, 2, 2), 77, np.uint8)
    records = Records(images, np.array([5, 5, 5]), np.array([0, 0, 1]), np.array(["Ms X", "Mr Y"]))
    assert repr(records) == str(records) == "Records(3 images of 1x2x2)"
    stream = io.StringIO()
    print(records, [records], {"records": records}, file=stream)
    assert not {"77", "Ms X", "5,"} & set(stream.getvalue().replace("]", " ").replace(")", " ").split())
