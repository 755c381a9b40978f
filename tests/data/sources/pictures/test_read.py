"""Readers: every form gives the same records back, and bad input gets one clear paragraph.

One long file, because the good and the bad input of all forms are made by the same few functions.
"""

import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from shared_data import SHARED, needs

from gossamer.data.records import Records
from gossamer.data.source import Reading, Source
from gossamer.data.sources.pictures import npz
from gossamer.data.sources.pictures.read import read
from gossamer.data.synthetic import glyphs
from gossamer.errors import DataError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 1, 28, 28), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 2, 1, 0])
COLOUR = RNG.integers(0, 256, (6, 3, 32, 32), dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, split: str = "train", *, gz: bool = False, images=IMAGES, labels=LABELS) -> Path:
    folder.mkdir(exist_ok=True)
    prefix = {"train": "train", "test": "t10k"}[split]
    for name, array in (("images-idx3", images[:, 0]), ("labels-idx1", labels)):
        path = folder / f"{prefix}-{name}-ubyte{'.gz' if gz else ''}"
        path.write_bytes(gzip.compress(idx(array), mtime=0) if gz else idx(array))
    return folder


def save(path: Path, **arrays: np.ndarray) -> str:
    np.savez(path, **arrays)
    return str(path)


def same(records: Records, images: np.ndarray = IMAGES, labels: np.ndarray = LABELS) -> None:
    assert records.images.dtype == np.uint8
    assert records.labels.dtype == np.int64
    np.testing.assert_array_equal(records.images, images)
    np.testing.assert_array_equal(records.labels, labels)
    assert records.units is None


# Forms


@pytest.mark.parametrize("gz", [False, True])
def test_idx(tmp_path, gz):
    write_idx(tmp_path / "mnist", gz=gz)
    write_idx(tmp_path / "mnist", "test", gz=gz, images=IMAGES[:2], labels=LABELS[:2])
    source = str(tmp_path / "mnist")
    same(read(source, split="train"))
    same(read(source, split="test"), IMAGES[:2], LABELS[:2])
    same(read(source + ":test", split="train"), IMAGES[:2], LABELS[:2])
    same(read(source + ":train", split="test"))
    assert isinstance(read(source, split="train").images, np.memmap) != gz, "plain files are mapped"
    pixels, labels = read(source, split="train").tensors()
    np.testing.assert_allclose(pixels.numpy() * 255, IMAGES, atol=1e-4)
    assert labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (IMAGES, IMAGES),
        (IMAGES[:, 0], IMAGES),
        (IMAGES.transpose(0, 2, 3, 1), IMAGES),
        (COLOUR, COLOUR),
        (COLOUR.transpose(0, 2, 3, 1), COLOUR),
        (np.asfortranarray(COLOUR), COLOUR),
        (IMAGES.astype(">i2"), IMAGES),
        (IMAGES.astype(np.float32), IMAGES),
        (IMAGES.astype(np.float64) / 255, IMAGES),
        (np.zeros((6, 4, 4)), np.zeros((6, 1, 4, 4))),
    ],
)
def test_layouts_and_ranges(tmp_path, stored, expected):
    same(read(save(tmp_path / "a.npz", images=stored, labels=LABELS), split="train"), expected)


def test_floats_are_rounded_to_the_nearest(tmp_path):
    halves = np.array([0, 0.1, 0.5, 0.9999, 1]).reshape(1, 1, 5)
    found = read(save(tmp_path / "a.npz", images=halves, labels=LABELS[:1]), split="train").images
    assert found.ravel().tolist() == [0, 26, 128, 255, 255]  # 255 x 0.1 = 25.5 and 127.5 round to even


def test_one_image_never_changes_how_others_are_read(tmp_path):
    """One bright image more, and a rule on the maximum of the file would turn all others black."""
    dim = np.full((2, 4, 4), 0.5)
    dark = np.zeros((1, 4, 4))
    alone = read(save(tmp_path / "a.npz", images=dim, labels=LABELS[:2]), split="train")
    with_dark = read(save(tmp_path / "b.npz", images=np.concatenate([dark, dim]), labels=LABELS[:3]), split="train")
    np.testing.assert_array_equal(alone.images, with_dark.images[1:])
    mixed = save(tmp_path / "c.npz", images=np.concatenate([dim, dim * 400]), labels=LABELS[:4])
    with pytest.raises(DataError, match=r"image 2 .*different ranges"):
        read(mixed, split="train")


def test_npz_splits_and_keys(tmp_path):
    both = save(
        tmp_path / "both.npz",
        train_images=IMAGES,
        train_labels=LABELS,
        test_images=IMAGES[:2],
        test_labels=LABELS[:2],
        train_mood=LABELS[::-1],
    )
    same(read(both, split="train"))
    same(read(both, split="test"), IMAGES[:2], LABELS[:2])
    same(read(Source(both, labels_key="mood"), split="train"), IMAGES, LABELS[::-1])
    same(read(Source(both, labels_key="train_mood"), split="train"), IMAGES, LABELS[::-1])
    one = save(tmp_path / "one.npz", images=IMAGES, labels=LABELS, gender=LABELS[::-1])
    same(read(one, split="test"))
    same(read(Source(one, labels_key="gender"), split="train"), IMAGES, LABELS[::-1])
    with pytest.raises(DataError, match=r"no key test_images; the keys are: images, labels, gender"):
        read(one + ":test", split="train")
    with pytest.raises(DataError, match=r"no key age"):
        read(Source(one, labels_key="age"), split="train")


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_stored_arrays_are_mapped(tmp_path, monkeypatch, order):
    path = Path(save(tmp_path / "a.npz", labels=LABELS, images=np.asarray(COLOUR, order=order)))
    assert not isinstance(npz.member(path, "images"), np.memmap)
    monkeypatch.setattr(npz, "MAP_FROM", 1)
    mapped = npz.member(path, "images")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, COLOUR)
    np.savez_compressed(path, images=COLOUR)
    squeezed = npz.member(path, "images")
    assert not isinstance(squeezed, np.memmap)
    np.testing.assert_array_equal(squeezed, COLOUR)


@pytest.mark.parametrize("map_from", [1, npz.MAP_FROM])
@pytest.mark.parametrize("length", [5, 7])
def test_a_header_that_contradicts_the_bytes(tmp_path, monkeypatch, map_from, length):
    monkeypatch.setattr(npz, "MAP_FROM", map_from)
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("images.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (length,)})
        file.write(bytes(6))
    with pytest.raises(DataError, match="is cut, or its header is damaged"):
        npz.member(path, "images")


def pictures(folder: Path, images=IMAGES, labels=LABELS, suffix=".png") -> Path:
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))
        picture.save(folder / str(label) / f"{number}{suffix}", quality=95)
    return folder


def test_class_folders(tmp_path):
    order = np.argsort(LABELS, kind="stable")
    (pictures(tmp_path / "grey") / "README").write_text("passed over")
    for name in (".hidden", "Thumbs.db", "desktop.ini"):
        (tmp_path / "grey" / "0" / name).write_text("passed over")
    same(read(str(tmp_path / "grey"), split="test"), IMAGES[order], LABELS[order])
    same(read(str(pictures(tmp_path / "rgb", COLOUR)), split="train"), COLOUR[order], LABELS[order])
    flat = np.full_like(COLOUR, 77)
    same(read(str(pictures(tmp_path / "jpeg", flat, suffix=".JPG")), split="train"), flat, LABELS[order])


def test_class_folders_with_splits_share_their_classes(tmp_path):
    pictures(tmp_path / "train")
    pictures(tmp_path / "test", IMAGES[3:5], LABELS[3:5])  # no record of class 0: its number must not shift
    same(read(str(tmp_path), split="test"), IMAGES[[4, 3]], LABELS[[4, 3]])
    same(read(f"{tmp_path}:test", split="train"), IMAGES[[4, 3]], LABELS[[4, 3]])
    with pytest.raises(DataError, match="no subfolder test"):
        read(f"{tmp_path / 'train'}:test", split="train")


def write_class_folders(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        Image.fromarray(IMAGES[0, 0]).save(folder / name / "picture.png")
    return folder


def test_folders_called_like_splits_are_no_classes(tmp_path):
    data = write_class_folders(tmp_path / "data", "train/cat", "train/dog", "val/cat", "val/dog")
    with pytest.raises(
        DataError, match="splits are called train and test, in small letters, and here is val: rename it"
    ):
        read(str(data), split="train")
    with pytest.raises(DataError, match="and here is Test: rename it"):
        read(str(write_class_folders(tmp_path / "large", "train/cat", "Test/cat")), split="train")
    assert read(str(write_class_folders(tmp_path / "two", "val", "else")), split="train").class_names == ("else", "val")


@pytest.mark.parametrize("place", ["", "test"])
def test_a_picture_beside_the_class_folders_is_refused(tmp_path, place):
    """It was left out without a word: of no class, in no run, and counted by nobody."""
    split = f"{place}/" if place else ""
    data = write_class_folders(tmp_path / "data", f"{split}cat", f"{split}dog", *(["train/cat"] if place else []))
    (data / place / ".hidden.png").write_bytes(b"")
    assert len(read(str(data), split="test")) == 2
    Image.fromarray(IMAGES[0, 0]).save(data / place / "loose.PNG")
    with pytest.raises(DataError, match=r"loose\.PNG: this picture lies beside the class folders and is of no class"):
        read(str(data), split="train")


def test_a_folder_around_one_file_names_the_file(tmp_path):
    save(tmp_path / "records.npz", images=IMAGES, labels=LABELS)
    with pytest.raises(DataError, match=r"no class folders.*or name the file that is meant, .*records\.npz"):
        read(str(tmp_path), split="train")


def test_numbered_class_folders_are_sorted_as_numbers(tmp_path):
    labels = np.array([2, 10, 9, 10, 2, 9])
    records = read(str(pictures(tmp_path / "many", labels=labels)), split="train")
    assert records.labels.tolist() == [0, 0, 1, 1, 2, 2]
    np.testing.assert_array_equal(records.images[2], IMAGES[2])


def test_the_place_of_a_class_does_not_depend_on_other_classes(tmp_path):
    """One picture in a folder `other` must not put all the others in another order: public ones among them are trained on."""
    labels = np.array([2, 10, 9, 10, 2, 9])
    before = read(str(pictures(tmp_path, labels=labels)), split="train")
    after = read(str(write_class_folders(tmp_path, "other")), split="train")
    assert before.class_names == ("2", "9", "10")
    assert after.class_names == ("2", "9", "10", "other")
    np.testing.assert_array_equal(after.images[:-1], before.images)
    assert read(str(write_class_folders(tmp_path / "twice", "1", "01", "a")), split="train").class_names == (
        "01",
        "1",
        "a",
    )


def test_resize(tmp_path):
    half = np.zeros((1, 1, 56, 56), np.uint8)
    half[:, :, :, 28:] = 200
    source = save(tmp_path / "a.npz", images=half, labels=LABELS[:1])
    image = read(source, Reading(shape=(1, 28, 28)), split="train").images[0, 0]
    assert image.shape == (28, 28)
    assert (image[:, :13] == 0).all()
    assert (image[:, 15:] == 200).all()
    flat = save(tmp_path / "b.npz", images=np.full((2, 40, 50, 3), 9, np.uint8), labels=LABELS[:2])
    resized = read(flat, Reading(shape=(3, 32, 32)), split="train")
    assert resized.shape == (3, 32, 32)
    assert (resized.images == 9).all()
    sizes = pictures(pictures(tmp_path / "sizes"), RNG.integers(0, 9, (1, 1, 40, 30), dtype=np.uint8), LABELS[:1])
    assert read(str(sizes), Reading(shape=(1, 32, 32)), split="train").shape == (1, 32, 32)
    pictures(sizes, np.zeros((7, 1, 30, 40), np.uint8), np.zeros(7, int))
    pictures(sizes, IMAGES)
    with pytest.raises(
        DataError, match=r"5 problems with the data:\n  .*1\.png, .*6\.png: the picture differs from .*0\.png in size"
    ):
        read(str(sizes), split="train")


@pytest.mark.parametrize(
    ("name", "few"), [("digits", 1), ("glyphs", 20), pytest.param("glyphs", 1, marks=pytest.mark.slow)]
)
def test_embedded_sources(monkeypatch, name, few):
    """few: a part of the glyphs is drawn, one of so many."""
    draw = glyphs.draw
    monkeypatch.setattr(glyphs, "draw", lambda n, seed: draw(n // few, seed=seed))
    train, test = read(name, split="train"), read(f"{name}:test", split="train")
    assert (len(train), len(test)) == {"digits": (1437, 360), "glyphs": (20_000 // few, 2_000 // few)}[name]
    for records in (train, test):
        assert records.shape == (1, 28, 28)
        assert set(records.labels.tolist()) == set(range(10))
        corners = records.images[:, 0][:, [0, 0, -1, -1], [0, -1, 0, -1]]
        assert (corners == 0).mean() > 0.999, "white ink on black"
        assert records.images.max() == 255
    seen = {image.tobytes() for image in train.images}
    assert sum(image.tobytes() in seen for image in test.images) == 0, "the splits share no image"
    same(read(f"{name}:test", split="train"), test.images, test.labels)


def test_digits_are_centred():
    images = read("digits", split="train").images[:, 0].astype(float)
    places = np.arange(28) - 13.5
    mass = images.sum((1, 2))
    for off in (images.sum(1) @ places / mass, images.sum(2) @ places / mass):
        assert np.abs(off).max() < 0.51


# Bad input


def test_missing_and_unknown_sources(tmp_path):
    with pytest.raises(DataError, match=r"none: there is no such file or folder\. Give a table"):
        read(str(tmp_path / "none"), split="train")
    (tmp_path / "a.pkl").write_text("x")
    with pytest.raises(DataError, match="this kind of file is not read"):
        read(str(tmp_path / "a.pkl"), split="train")
    single = write_idx(tmp_path / "mnist") / "train-images-idx3-ubyte"
    with pytest.raises(DataError, match="single idx file: give the folder"):
        read(str(single), split="train")
    with pytest.raises(DataError, match=r"test split needs the file t10k-images-idx3-ubyte or"):
        read(str(tmp_path / "mnist"), split="test")
    with pytest.raises(DataError, match="labels_key"):
        read(Source("digits", labels_key="gender"), split="train")
    with pytest.raises(DataError, match="cannot be read"):
        read("x" * 5000, split="train")


def test_empty_folders(tmp_path):
    with pytest.raises(DataError, match="no class folders"):
        read(str(tmp_path), split="train")
    (tmp_path / "train" / "0").mkdir(parents=True)
    with pytest.raises(DataError, match="no subfolder test"):
        read(str(tmp_path), split="test")
    with pytest.raises(DataError, match=r"hold no \.png"):
        read(str(tmp_path), split="train")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: raw[:-20], "compressed file is cut"),
        (lambda raw: b"\x00" + raw[1:], "compressed file is cut or damaged"),
        (lambda raw: b"", "its header is not that of an idx file"),
        (lambda raw: gzip.compress(b"\x01" + gzip.decompress(raw)[1:]), "its header is not that of an idx file"),
        (
            lambda raw: gzip.compress(b"\x00\x00\x0d" + gzip.decompress(raw)[3:]),
            "its header is not that of an idx file",
        ),
        (
            lambda raw: gzip.compress(b"\x00\x00\x08\x01" + gzip.decompress(raw)[4:]),
            "of unsigned bytes in 3 dimensions",
        ),
        (lambda raw: gzip.compress(gzip.decompress(raw)[:-1]), "fewer values"),
        (lambda raw: gzip.compress(gzip.decompress(raw) + b"\x00"), "more values"),
        (lambda raw: gzip.compress(gzip.decompress(raw)[:4] + b"\xff" * 12), "fewer values"),
        (lambda raw: gzip.compress(gzip.decompress(raw)[:4] + bytes(12)), "empty"),
    ],
)
def test_damaged_idx(tmp_path, damage, words):
    path = write_idx(tmp_path / "mnist", gz=True) / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=words) as caught:
        read(str(tmp_path / "mnist"), split="train")
    assert str(caught.value).startswith(str(path))


def test_damaged_plain_idx(tmp_path):
    path = write_idx(tmp_path / "mnist") / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="fewer values"):
        read(str(tmp_path / "mnist"), split="train")


def test_lengths_that_differ(tmp_path):
    write_idx(tmp_path / "mnist", labels=LABELS[:5])
    with pytest.raises(DataError, match=r"6 images need labels of shape \[6\], not \[5\]"):
        read(str(tmp_path / "mnist"), split="train")


def with_pixel(value: float) -> np.ndarray:
    images = IMAGES.astype(np.float64) / 255
    images[4, 0, 3, 3] = value
    return images


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"images": with_pixel(np.nan)}, "image 4 .*NaN or infinite"),
        ({"images": with_pixel(-np.inf)}, "image 4 .*NaN or infinite"),
        ({"images": with_pixel(np.inf)}, "image 4 .*NaN or infinite"),
        ({"images": with_pixel(-0.5)}, "image 4 .*outside 0 to 255"),
        ({"images": IMAGES.astype(np.int32) + 1}, "images 0, 1, 2, 3, 4 .*and 1 more: a pixel outside 0 to 255"),
        ({"images": IMAGES > 3}, "pixels must be numbers, not bool"),
        ({"images": IMAGES[:0]}, "there are no images"),
        ({"images": IMAGES.reshape(6, -1)}, r"\[6, 784\]: reshape"),
        ({"images": np.zeros((6, 4, 8, 8))}, "alpha"),
        ({"labels": np.array([0, 1, -1, 0, 0, 0])}, "no label was found for record 2 .*negative or empty.*drop"),
        ({"labels": LABELS.astype(np.float32) / 2}, r"whole numbers or names. They are not for records 1, 4 \(counted"),
        ({"labels": np.full(6, np.inf)}, "whole numbers or names. They are not for records 0, 1"),
        ({"labels": LABELS.astype(bytes)}, "whole numbers or names, not |S"),
        ({"labels": np.zeros((6, 1, 2))}, r"not \[6, 1, 2\]"),
        ({"labels": np.eye(3)[LABELS] / 2}, "one-hot labels, with one 1 .*not for records 0, 1, 2"),
        ({"labels": (np.arange(18).reshape(6, 3) % 4 > 1)}, "one-hot labels.*not for records"),
        ({"labels": np.full(6, 2**63, np.uint64)}, r"for records 0, 1, 2, 3, 4 \(counted from 0\) and 1 more"),
        ({"labels": np.array([None] * 6)}, "Python objects"),
    ],
)
def test_bad_arrays(tmp_path, arrays, words):
    path = save(tmp_path / "a.npz", **({"images": IMAGES, "labels": LABELS} | arrays))
    with pytest.raises(DataError, match=words) as caught:
        read(path, split="train")
    assert str(caught.value).startswith(path)


def test_bad_npz(tmp_path):
    path = tmp_path / "a.npz"
    save(path, pictures=IMAGES)
    with pytest.raises(DataError, match="no key train_images or images; the keys are: pictures"):
        read(str(path), split="train")
    save(path, images=IMAGES)
    with pytest.raises(DataError, match="no key labels; the keys are: images"):
        read(str(path), split="train")
    save(path, images=IMAGES, labels=LABELS)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"not a sound \.npz file"):
        read(str(path), split="train")
    path.write_bytes(whole.replace(IMAGES[3].tobytes(), IMAGES[2].tobytes()))
    with pytest.raises(DataError, match=r"'images' cannot be read: .*damaged"):
        read(str(path), split="train")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", b"not an array")
        archive.writestr("labels.npy", b"")
    with pytest.raises(DataError, match="'images' cannot be read"):
        read(str(path), split="train")


def test_bad_pictures(tmp_path):
    folder = pictures(tmp_path / "p")
    (folder / "1" / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=r"notes\.txt: a class folder holds"):
        read(str(folder), split="train")
    (folder / "1" / "notes.txt").unlink()
    (folder / "1" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\nrubbish")
    with pytest.raises(DataError, match=r"1\.png: this cannot be read as a picture"):
        read(str(folder), split="train")
    Image.new("RGB", (28, 28)).save(folder / "1" / "1.png")
    with pytest.raises(DataError, match=r"1\.png.*differs"):
        read(str(folder), split="train")


def test_values_stay_out_of_messages(tmp_path):
    path = save(tmp_path / "a.npz", images=np.full((1, 4, 4), 54321.0), labels=np.array([-98765]))
    with pytest.raises(DataError) as caught:
        read(path, split="train")
    assert "54321" not in str(caught.value)
    path = save(tmp_path / "a.npz", images=IMAGES[:1], labels=np.array([-98765]))
    with pytest.raises(DataError) as caught:
        read(path, split="train")
    assert "98765" not in str(caught.value)


DAMAGE = st.tuples(
    st.floats(0, 1),  # where to cut, as a share of the length
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=6),  # bytes to overwrite
)


def damaged(raw: bytes, damage) -> bytes:
    kept, writes = damage
    data = bytearray(raw[: round(kept * len(raw))] if kept < 0.7 else raw)
    for place, value in writes:
        if data:
            data[int(place * len(data))] = value
    return bytes(data)


@pytest.mark.parametrize("form", ["idx", "idx.gz", "npz", "npz compressed", "png"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=DAMAGE)
def test_damaged_files_give_records_or_a_data_error(tmp_path, form, damage):
    small, labels = IMAGES[:2, :, :5, :5], LABELS[:2]
    source, path = tmp_path, tmp_path / "a.npz"
    if form.startswith("idx"):
        gz = form.endswith("gz")
        path = write_idx(tmp_path, gz=gz, images=small, labels=labels) / ("train-images-idx3-ubyte" + ".gz" * gz)
    elif form == "png":
        path = pictures(tmp_path, small, labels) / "0" / "0.png"
    else:
        source = path
        (np.savez_compressed if form.endswith("compressed") else np.savez)(path, images=small, labels=labels)
    path.write_bytes(damaged(path.read_bytes(), damage))
    try:
        records = read(str(source), split="train")
    except DataError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(records, Records)
        assert records.images.dtype == np.uint8
        assert len(records.images) == len(records.labels)


# Real data


@needs("mnist", "fashion_mnist")
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_real_idx(name):
    test = read(f"{SHARED / name}", split="test")
    assert (len(test), test.shape) == (10_000, (1, 28, 28))
    expected = {"mnist": [7, 2, 1, 0, 4], "fashion_mnist": [9, 2, 1, 1, 6]}[name]  # the published first labels
    assert test.labels[:5].tolist() == expected


@needs("cifar10_subset", "lfw")
def test_real_npz():
    cifar = read(str(SHARED / "cifar10_subset" / "cifar10_5000_1000.npz"), Reading(shape=(3, 32, 32)), split="test")
    assert cifar.images.shape == (1000, 3, 32, 32)
    assert np.bincount(cifar.labels).tolist() == [100] * 10
    faces = str(SHARED / "lfw" / "lfwcrop_gray32.npz")
    people = read(Source(faces, labels_key="person_id", units=f"{faces}:person_id"), split="train")
    assert people.images.shape == (13_233, 1, 32, 32)
    assert people.population == 5_749
    with pytest.raises(DataError, match="it is negative or empty"):
        read(Source(faces, labels_key="gender"), split="train")
    known = read(
        Source(faces, labels_key="gender", units=f"{faces}:person_id"), Reading(missing_label="drop"), split="train"
    )
    assert sorted(set(known.labels.tolist())) == [0, 1]
    assert 0 < len(known) < len(people)
    assert known.population == len(np.unique(known.units)) == len(known.names)
    with pytest.raises(DataError, match="no key labels; the keys are: images, gender, person_id"):
        read(faces, split="train")


@needs("mnist", "mnist_writers/mnist_writer_ids.npz")
def test_real_units():
    writers = SHARED / "mnist_writers" / "mnist_writer_ids.npz"
    records = read(Source(f"{SHARED / 'mnist'}:test", units=f"{writers}:test_writer"), split="train")
    assert records.population == 297
    with pytest.raises(DataError, match="same split"):
        read(Source(f"{SHARED / 'mnist'}:test", units=f"{writers}:train_writer"), split="train")
