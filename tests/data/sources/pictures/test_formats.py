"""Forms of data that people have: what is read, what is converted and said, what is refused. `docs/data.md` has the table."""

import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import forms
import numpy as np
import pytest
from forms import COLOUR, DEEP, FORMS, GREY, LABELS, encoded, in_classes
from PIL import Image

from gossamer.data import memory_mapped
from gossamer.data.card import DataCard
from gossamer.data.samples.samples import Samples
from gossamer.data.source import Reading, Source
from gossamer.data.sources.pictures import dicom, image_files, parquet_csv
from gossamer.data.sources.pictures.read import read
from gossamer.data.split import contents
from gossamer.errors import CardError, DataError, RequestError
from gossamer.run.cli.main import main

BY_CLASS = np.argsort(LABELS, kind="stable")
SCALED = np.rint(DEEP[:, None] / 65535 * 255).astype(np.uint8)


def one(tmp_path: Path, raw: bytes, suffix: str = ".png", **asked: object):
    """The records of class folders whose four pictures are the same one."""
    copies = tmp_path / f"one{suffix}"
    in_classes(copies, [raw] * 4, suffix)
    return read(str(copies), Reading(**asked), split="train")


def card(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `gossamer card`."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["card", *words])
    return int(ended.value.code or 0), *capsys.readouterr()


# What is read


@pytest.mark.parametrize("name", FORMS)
def test_the_card_of_every_form_is_drafted(tmp_path, capsys, name):
    data, flags, _ = FORMS[name](tmp_path)
    status, out, err = card(capsys, data, *flags)
    assert status == 0, err
    drafted = DataCard.loads(out)
    assert (drafted.classes, drafted.declared_size, drafted.shape[1:]) == (2, 10, (32, 32))
    assert "Traceback" not in err
    assert drafted.pixel_range == ((0, 65535) if flags == forms.RANGE else "stored")


@pytest.mark.parametrize(
    ("name", "images", "by_class"),
    [
        ("png", COLOUR, True),
        ("tiff", COLOUR, True),
        ("tiff lzw", COLOUR, True),
        ("bmp", COLOUR, True),
        ("webp lossless", COLOUR, True),
        ("png 16-bit", SCALED, True),
        ("tiff deflate", SCALED, True),
        ("dicom", SCALED, True),
        ("dicom rle", GREY, True),
        ("parquet of a hub", COLOUR, False),
        ("parquet zstd", GREY, False),
        ("parquet samples", GREY, False),
        ("csv samples", GREY, False),
        ("arrow", COLOUR, False),
        ("tar", GREY, False),
        ("metadata.csv", GREY, False),
        ("metadata.jsonl", GREY, False),
    ],
)
def test_pixels_and_labels_come_back(tmp_path, name, images, by_class):
    data, flags, _ = FORMS[name](tmp_path)
    key = {"labels_key": flags[1]} if "--labels-key" in flags else {}
    found = read(Source(data, **key), Reading(pixel_range=(0, 65535) if images is SCALED else None))
    order = BY_CLASS if by_class else np.arange(4)
    np.testing.assert_array_equal(found.images, images[order])
    assert found.labels.tolist() == LABELS[order].tolist()
    names = ("0", "1") if by_class else ("cat", "dog") if name in ("parquet of a hub", "metadata.jsonl") else ()
    assert found.class_names == names


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ""])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 10, 10), (1, 6, 10)])
def test_samples_of_every_form_are_read_back(tmp_path, suffix, shape):
    images = np.random.default_rng(1).integers(0, 256, (300, *shape), dtype=np.uint8)
    labels = np.arange(300) // 150
    Samples.write(
        tmp_path / f"s{suffix}", [Samples(images[:200], labels[:200]), Samples(images[200:], labels[200:])], count=300
    )
    found = read(str(tmp_path / f"s{suffix}"), Reading(shape=shape if suffix == ".csv" else None), split="test")
    np.testing.assert_array_equal(found.images, images)
    assert found.labels.tolist() == labels.tolist()


def test_a_csv_without_a_card_holds_square_pictures(tmp_path):
    data, _, _ = forms.samples(tmp_path / "grey.csv")
    assert read(data, split="train").shape == (1, 12, 12)
    data, _, _ = forms.samples(tmp_path / "colour.csv", COLOUR)
    assert read(data, split="train").shape == (3, 12, 12)
    assert read(data, Reading(shape=(1, 28, 28)), split="train").shape == (1, 28, 28)
    data, _, _ = forms.samples(tmp_path / "oblong.csv", GREY[:, :, :, :7])
    with pytest.raises(DataError, match=r"84 pixels make no square picture: give a card"):
        read(data, split="train")


CALLED = ('the "good", and', "bös", "7")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ""])
def test_samples_with_names_are_read_back_by_their_names(tmp_path, suffix):
    """Folders come in the order of their names, all else in that of the labels: the card's names decide."""
    images = np.random.default_rng(1).integers(0, 256, (300, 1, 8, 8), dtype=np.uint8)
    labels = np.arange(300) // 100
    Samples.write(tmp_path / f"s{suffix}", [Samples(images, labels, CALLED)], count=300)
    found = read(str(tmp_path / f"s{suffix}"), split="train")
    whose = {image.tobytes(): label for image, label in zip(images, labels, strict=True)}
    assert [found.class_names[label] for label in found.labels] == [
        CALLED[whose[each.tobytes()]] for each in found.images
    ]
    order = (1, 2, 0)
    asked = {"class_names": [CALLED[at] for at in order]}
    again = read(str(tmp_path / f"s{suffix}"), Reading(**asked), split="train")
    assert again.labels.tolist() == [order.index(whose[each.tobytes()]) for each in again.images]
    with pytest.raises(
        DataError, match=r"the card does not name the class of records 100, 101, 102, 103, 104 .* and 95 more"
    ):
        read(str(tmp_path / f"s{suffix}"), Reading(class_names=[CALLED[0], "bad", CALLED[2]]), split="train")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_class_without_samples_keeps_the_numbers_of_the_others(tmp_path, suffix):
    """Nothing says how it is called."""
    path = tmp_path / f"s{suffix}"
    Samples.write(path, [Samples(GREY[:, :, :8, :8], np.array([2, 0, 2, 2]), CALLED)], count=4)
    found = read(str(path), split="train")
    assert found.labels.tolist() == [2, 0, 2, 2]
    assert found.class_names == (CALLED[0], "class 1 (no sample)", CALLED[2])
    assert read(str(path), Reading(class_names=CALLED), split="train").labels.tolist() == [2, 0, 2, 2]
    assert read(str(path), Reading(class_names=CALLED[::-1]), split="train").labels.tolist() == [0, 2, 0, 0]


def test_a_csv_whose_names_contradict_its_labels(tmp_path):
    path = tmp_path / "s.csv"
    Samples.write(path, [Samples(GREY, LABELS, ("a", "b"))], count=4)
    sound = path.read_text()
    for old, new, says in (
        ('\n0,"a",', '\n0,"b",', "columns label and class contradict each other"),
        ('\n0,"a",', '\n0,"c",', "columns label and class contradict each other"),
        ('\n0,"a",', '\n10000,"z",', "a label is 10,000 or more"),
        ('\n0,"a",', '\n0,"a"', "a quote after line 1 is not closed, or stands inside a value"),
        ('\n0,"a",', '\n0,"a,', "a quote after line 1 is not closed"),
    ):
        path.write_text(sound.replace(old, new, 1))
        with pytest.raises(DataError, match=says):
            read(str(path), split="train")


# The card's form and names, whatever holds the pictures


@pytest.mark.parametrize(
    "name",
    [
        "png",
        "dicom rle",
        "npz",
        "idx",
        "tar",
        "arrow",
        "parquet of a hub",
        "metadata.csv",
        "parquet samples",
        "csv samples",
    ],
)
def test_every_form_is_inverted_once_and_cut(tmp_path, name):
    data, flags, _ = FORMS[name](tmp_path)
    assert flags == []
    plain = read(data, split="train")
    np.testing.assert_array_equal(read(data, Reading(invert=True), split="train").images, 255 - plain.images)
    wide = read(data, Reading(shape=(plain.shape[0], 6, 12), resize="crop", invert=True), split="train")
    np.testing.assert_array_equal(wide.images, 255 - plain.images[:, :, 3:9])
    if plain.shape[0] == 1:
        assert read(data, Reading(shape=(3, 6, 12), resize="pad"), split="train").shape == (3, 6, 12)


def test_names_of_labels_are_matched_with_the_card(tmp_path):
    """Names decide, not the order in which text is sorted; a record without a label is none of the last name."""
    np.savez(tmp_path / "a.npz", images=GREY, labels=["cat", "", "dog", "cat"])
    for folder in ("hub", "list", "tar"):
        (tmp_path / folder).mkdir()
    hub, _, _ = forms.parquet_hub(tmp_path / "hub")
    lines, _, _ = forms.metadata_jsonl(tmp_path / "list")
    shards, _, _ = forms.tar(tmp_path / "tar", ["cat", "dog", "dog", "cat"])
    asked = Reading(class_names=("emu", "dog", "cat"))
    for source in (hub, lines, shards):
        found = read(source, asked)
        assert found.labels.tolist() == [2, 1, 1, 2]
        assert found.class_names == ("emu", "dog", "cat")
        with pytest.raises(DataError, match=r"does not name the class of records 0, 3 .* It names dog, emu\. "):
            read(source, Reading(class_names=("dog", "emu")), split="train")
    with pytest.raises(DataError, match=r"no label was found for record 1 "):
        read(str(tmp_path / "a.npz"), asked)
    assert read(str(tmp_path / "a.npz"), replace(asked, missing_label="drop")).labels.tolist() == [2, 1, 2]
    np.savez(tmp_path / "a.npz", images=GREY, labels=["cat", "dog", "dog", "cat"], class_names=["dog", "cat"])
    found = read(str(tmp_path / "a.npz"), split="train")
    assert (found.labels.tolist(), found.class_names) == ([1, 0, 0, 1], ("dog", "cat")), "the file's own order"


@pytest.mark.parametrize("name", FORMS)
def test_nothing_but_pictures_in_folders_is_split_as_files(tmp_path, name):
    data, *_ = FORMS[name](tmp_path)
    pictures = sorted(path for path in Path(data).rglob("*") if path.suffix in image_files.SUFFIXES)
    listing, _ = contents(data)
    assert sorted(() if listing is None else listing.paths) == pictures
    listing, _ = contents(Source(data, labels_key="none"))
    assert sorted(() if listing is None else listing.paths) == pictures


def test_the_sizes_of_pictures_are_told_by_their_heads(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    lying = np.zeros((1, 8, 16), np.uint8)
    raws = {
        "a.png": encoded(lying, "PNG"),
        "b.jpg": encoded(lying, "JPEG", exif=exif),
        "c.png": encoded(lying, "PNG", exif=exif),
        "d.dcm": forms.dicom_bytes(np.zeros((5, 7), np.uint8)),
        "e.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n",
        "f.dcm": b"no",
    }
    for name, raw in raws.items():
        (tmp_path / name).write_bytes(raw)
    sizer = image_files.Sizer()
    pixels = [image for _, image in sizer.read_all((name, tmp_path / name) for name in raws)]
    assert sizer.sizes == {(8, 16): 1, (16, 8): 2, (5, 7): 1}
    assert sizer.channels == 1
    assert all(each.shape == (1, 1, 1) for each in pixels)
    assert len([*sizer.read_all([("bytes", raws["b.jpg"])])]) == 1
    assert sizer.sizes[16, 8] == 3


def test_scans_of_several_sizes_draft_a_card(tmp_path, capsys):
    raws = [forms.dicom_bytes(np.full(size, 9, np.uint8)) for size in ((40, 60), (60, 40), (40, 60), (40, 60))]
    in_classes(tmp_path, raws, ".dcm")
    status, out, err = card(capsys, str(tmp_path))
    assert (status, DataCard.loads(out).shape) == (0, (1, 32, 32))
    assert "60x40 pixels (width x height) and 1 other sizes and become 32x32" in err


# What is converted, and said


@pytest.mark.parametrize("suffix", [".png", ".npz"])
def test_colour_and_grey_follow_the_card(tmp_path, suffix):
    def found(images: np.ndarray, channels: int):
        folder = tmp_path / f"{len(images[0])}"
        if suffix == ".png":
            in_classes(folder, [encoded(image, "PNG") for image in images], ".png")
            return read(str(folder), Reading(shape=(channels, 12, 12)), split="train")
        np.savez(tmp_path / "a.npz", images=images[BY_CLASS], labels=LABELS)
        return read(str(tmp_path / "a.npz"), Reading(shape=(channels, 12, 12)), split="train")

    grey = found(COLOUR, 1)
    red, green, blue = COLOUR[BY_CLASS].astype(float).transpose(1, 0, 2, 3)
    np.testing.assert_allclose(grey.images[:, 0], 0.299 * red + 0.587 * green + 0.114 * blue, atol=0.51)
    assert grey.notes == (
        "Colour pictures were made grey (luma of ITU-R 601), because the card's shape begins with 1.",
    )
    colour = found(GREY, 3)
    np.testing.assert_array_equal(colour.images, np.repeat(GREY[BY_CLASS], 3, axis=1))
    assert colour.notes == ("Grey pictures were given three equal colours, because the card's shape begins with 3.",)
    assert found(GREY, 1).notes == found(COLOUR, 3).notes == ()


def test_folders_may_mix_grey_and_colour_where_a_card_decides(tmp_path):
    in_classes(tmp_path, [encoded(each, "PNG") for each in (GREY[0], COLOUR[1], GREY[2], COLOUR[3])], ".png")
    with pytest.raises(DataError, match=r"differs .* in size or colour: give a card.*three lines are enough"):
        read(str(tmp_path), split="train")
    assert read(str(tmp_path), Reading(shape=(1, 12, 12)), split="train").shape == (1, 12, 12)


@pytest.mark.parametrize(("mode", "ink"), [("RGBA", (10, 20, 30, 0)), ("LA", (10, 0)), ("RGBA", (0, 0, 0, 51))])
def test_transparent_parts_are_laid_on_white(tmp_path, mode, ink):
    picture = Image.new(mode, (8, 8), (*ink[:-1], 255))
    picture.putpixel((2, 5), ink)
    file = io.BytesIO()
    picture.save(file, "PNG")
    found = one(tmp_path, file.getvalue())
    share = ink[-1] / 255
    np.testing.assert_allclose(
        found.images[0, :, 5, 2], [share * each + (1 - share) * 255 for each in ink[:-1]], atol=1
    )
    assert found.images[0, :, 0, 0].tolist() == list(ink[:-1])
    assert found.notes == (image_files.ON_WHITE,)


def test_palettes_become_colours(tmp_path):
    picture = Image.new("P", (8, 8), 1)
    picture.putpalette([9, 8, 7, 200, 100, 50, 1, 2, 3])
    picture.putpixel((3, 4), 2)
    for kind, suffix in (("PNG", ".png"), ("GIF", ".gif"), ("BMP", ".bmp"), ("TIFF", ".tif")):
        file = io.BytesIO()
        picture.save(file, kind)
        found = one(tmp_path, file.getvalue(), suffix)
        assert found.images[0, :, 0, 0].tolist() == [200, 100, 50]
        assert found.images[0, :, 4, 3].tolist() == [1, 2, 3]
        assert found.notes == ()
    file = io.BytesIO()
    picture.save(file, "PNG", transparency=2)
    assert one(tmp_path, file.getvalue()).images[0, :, 4, 3].tolist() == [255, 255, 255]


def test_cmyk_is_converted(tmp_path):
    ink = Image.new("CMYK", (8, 8), (255, 0, 0, 0))
    file = io.BytesIO()
    ink.save(file, "TIFF")
    found = one(tmp_path, file.getvalue(), ".tif")
    assert found.images[0, :, 0, 0].tolist() == [0, 255, 255]
    assert found.notes == (image_files.FROM_CMYK,)


@pytest.mark.parametrize(("kind", "suffix"), [("PNG", ".png"), ("TIFF", ".tif"), ("WEBP", ".webp"), ("JPEG", ".jpg")])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_pictures_upright(tmp_path, kind, suffix, orientation):
    upright = np.zeros((8, 16), np.uint8)
    upright[:, :8] = 255
    upright[:4, :8] = 128  # grey above, white below; the right half is black
    stored = {  # how a camera stores what it then says to turn
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1], 5: upright.T, 6: np.rot90(upright),
        7: upright[::-1, ::-1].T, 8: np.rot90(upright, -1),
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    raw = encoded(np.repeat(stored[None], 3, axis=0), kind, exif=exif, **({"lossless": True} if kind == "WEBP" else {}))
    found = one(tmp_path, raw, suffix)
    np.testing.assert_allclose(found.images[0, 0].astype(int), upright, atol=12 if kind == "JPEG" else 0)
    assert found.notes == (() if orientation == 1 else (image_files.UPRIGHT,))


@pytest.mark.parametrize(("kind", "suffix"), [("GIF", ".gif"), ("PNG", ".png"), ("TIFF", ".tif"), ("WEBP", ".webp")])
def test_the_first_frame_is_read(tmp_path, kind, suffix):
    frames = [np.full((1, 8, 8), 40, np.uint8), np.full((1, 8, 8), 200, np.uint8)]
    options = {"lossless": True} if kind == "WEBP" else {}
    raw = encoded(frames[0], kind, save_all=True, append_images=[Image.fromarray(frames[1][0])], **options)
    found = one(tmp_path, raw, suffix)
    assert set(found.images.ravel().tolist()) == {40}
    assert found.notes == (dicom.FIRST_FRAME,)


def test_deep_pixels_are_scaled_by_the_declared_range(tmp_path, capsys):
    deep = np.array([[0, 1000, 1001], [2000, 3000, 65535]], np.uint16)
    for kind, suffix in (("PNG", ".png"), ("TIFF", ".tif")):
        raw = encoded(deep, kind)
        found = one(tmp_path, raw, suffix, pixel_range=(1000, 3000))
        assert found.images[0, 0].tolist() == [[0, 0, 0], [128, 255, 255]]  # 127.5 is rounded to even
        assert found.notes == (image_files.SCALED,)
        with pytest.raises(
            DataError, match=r"not plain 8-bit ones\. Declare .*pixel_range .*pixel_range=\(0, 65535\)\)`.*0 4095"
        ):
            one(tmp_path, raw, suffix)
    assert one(tmp_path, encoded(GREY[0], "PNG"), pixel_range=(0, 3000)).notes == ()
    np.savez(tmp_path / "a.npz", images=np.stack([deep, deep]).astype(np.int32) - 1000, labels=[0, 1])
    with pytest.raises(DataError, match=r"outside 0 to 255: declare .* as pixel_range in the card"):
        read(str(tmp_path / "a.npz"), split="train")
    found = read(str(tmp_path / "a.npz"), Reading(pixel_range=(0, 2000)), split="train")
    assert found.images[1, 0].tolist() == [[0, 0, 0], [128, 255, 255]]
    status, _, err = card(capsys, str(tmp_path / "a.npz"), "--pixel-range", "3", "3")
    assert status == 2 and "the smaller first" in err


@pytest.mark.parametrize("given", [(3, 3), (5, 1), (1,), (0, float("nan")), (0, True), (0, 1e300), "deep"])
def test_a_range_that_is_none(given):
    with pytest.raises(CardError, match=r"pixel_range must be"):
        DataCard(shape=(1, 28, 28), classes=2, declared_size=4, pixel_range=given)


def test_float_pictures_that_are_not_finite(tmp_path):
    raw = encoded(np.array([[0, 1], [np.inf, 0]], np.float32), "TIFF")
    with pytest.raises(DataError, match=r"NaN or infinite"):
        one(tmp_path, raw, ".tif", pixel_range=(0, 1))


# DICOM


def test_dicom_reads_pixels_and_no_identifier(tmp_path, monkeypatch):
    import pydicom

    read_as, kept = pydicom.dcmread, []
    monkeypatch.setattr(pydicom, "dcmread", lambda *given, **named: kept.append(read_as(*given, **named)) or kept[-1])
    data, _, _ = forms.dicom(tmp_path)
    found = read(data, Reading(pixel_range=(0, 65535)), split="train")
    assert len(kept) == len(found) == 4
    for each in kept:
        assert b"Doe" in Path(data, "0", "0.dcm").read_bytes()
        assert "PatientName" not in each and "PatientID" not in each
        assert "PixelData" in each


def test_dicom_speaks_its_own_unit(tmp_path):
    """A CT stores Hounsfield units plus 1024; small values are white in MONOCHROME1."""
    stored = np.array([[0, 1024], [2024, 4095]], np.int16)
    raw = forms.dicom_bytes(stored, RescaleSlope=1, RescaleIntercept=-1024)
    found = one(tmp_path, raw, ".dcm", pixel_range=(-1000, 1000))
    assert found.images[0, 0].tolist() == [[0, 128], [255, 255]]
    raw = forms.dicom_bytes(stored, RescaleSlope=1, RescaleIntercept=-1024, PhotometricInterpretation="MONOCHROME1")
    assert one(tmp_path, raw, ".dcm", pixel_range=(-1000, 1000)).images[0, 0].tolist() == [[255, 127], [0, 0]]
    with pytest.raises(DataError, match=r"not plain 8-bit ones"):
        one(tmp_path, raw, ".dcm")
    halves = forms.dicom_bytes(GREY[0, 0], RescaleSlope="0.5", RescaleIntercept=0)
    with pytest.raises(DataError, match=r"not plain 8-bit ones"):
        one(tmp_path, halves, ".dcm")
    np.testing.assert_array_equal(one(tmp_path, forms.dicom_bytes(GREY[0, 0]), ".dcm").images[0, 0], GREY[0, 0])
    colour = COLOUR[0].transpose(1, 2, 0)
    np.testing.assert_array_equal(one(tmp_path, forms.dicom_bytes(colour), ".dcm").images[0], COLOUR[0])


@pytest.mark.parametrize(
    ("pixels", "header", "possible"),
    [
        (np.uint16, {"BitsStored": 12, "HighBit": 11}, "0 4095"),
        (np.uint16, {"BitsStored": 16}, "0 65535"),
        (np.int16, {"BitsStored": 12, "HighBit": 11}, "-2048 2047"),
        (np.uint16, {"BitsStored": 12, "HighBit": 11, "RescaleSlope": 1, "RescaleIntercept": -1024}, "-1024 3071"),
        (np.uint16, {"BitsStored": 12, "HighBit": 11, "RescaleSlope": "-0.5", "RescaleIntercept": 0}, "-2047.5 0"),
        (np.int16, {"BitsStored": 10, "HighBit": 9, "RescaleSlope": 2, "RescaleIntercept": 1}, "-1023 1023"),
        (np.uint32, {}, "0 4294967295"),
    ],
)
def test_a_deep_dicom_file_is_offered_the_range_that_its_header_allows(tmp_path, capsys, pixels, header, possible):
    """Of 12 bits, 0 to 65535 was offered, and every picture became black."""
    brightest = np.array([[0, 511], [511, 0]], pixels)
    in_classes(tmp_path / "scans", [forms.dicom_bytes(brightest, **header)] * 4, ".dcm")
    status, _, err = card(capsys, str(tmp_path / "scans"))
    said = " ".join(err.split())
    assert status == 2
    assert f"`gossamer card DATA --pixel-range {possible}` drafts it with all values that its header allows" in said
    assert ("Hounsfield" in said) is possible.startswith("-")
    status, out, err = card(capsys, str(tmp_path / "scans"), "--pixel-range", *possible.split())
    assert status == 0, err
    assert DataCard.loads(out).pixel_range == tuple(map(float, possible.split()))


def test_the_ends_of_the_offered_range_are_black_and_white(tmp_path):
    stored = np.array([[0, 4095]], np.uint16)
    raw = forms.dicom_bytes(stored, BitsStored=12, HighBit=11, RescaleSlope=2, RescaleIntercept=-1000)
    with pytest.raises(DataError, match=r"pixel_range=\(-1000, 7190\)\)`"):
        one(tmp_path, raw, ".dcm")
    assert one(tmp_path, raw, ".dcm", pixel_range=(-1000, 7190)).images[0, 0].tolist() == [[0, 255]]


def test_dicom_frames_and_words_in_the_picture_are_said(tmp_path):
    two = forms.dicom_bytes(GREY[0, 0], NumberOfFrames=2, PixelData=GREY[:2, 0].tobytes(), BurnedInAnnotation="YES")
    found = one(tmp_path, two, ".dcm")
    np.testing.assert_array_equal(found.images[0, 0], GREY[0, 0])
    assert found.notes == tuple(sorted([dicom.FIRST_FRAME, dicom.BURNED_IN]))


def test_dicom_that_is_not_read(tmp_path):
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    with pytest.raises(DataError, match=r"deflated DICOM is not read"):
        one(tmp_path, forms.dicom_bytes(GREY[0, 0], syntax=DeflatedExplicitVRLittleEndian), ".dcm")
    with pytest.raises(DataError, match=r"the mark DICM is missing .* or another kind of file"):
        one(tmp_path, encoded(GREY[0], "PNG"), ".dcm")
    with pytest.raises(DataError, match=r"cannot be read"):
        one(tmp_path, forms.dicom_bytes(GREY[0, 0], PhotometricInterpretation="PALETTE COLOR"), ".dcm")
    with pytest.raises(DataError, match=r"declares more than [\d,]+ pixels"):
        one(tmp_path, forms.dicom_bytes(GREY[0, 0], Rows=65535, Columns=65535), ".dcm")


def test_a_missing_extra_is_named(tmp_path, monkeypatch, capsys):
    data, flags, _ = FORMS["dicom"](tmp_path)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    status, _, err = card(capsys, data, *flags)
    assert status == 2
    assert err.count("\n") == 1 and "pip install 'gossamer[dicom]'" in err


# Tables, tars and lists


def test_where_pictures_are_to_be_read_tables_are_refused_in_one_sentence(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    (tmp_path / "people.csv").write_text("age,income\n39,40000\n")
    (tmp_path / "latin.csv").write_bytes("Größe,Alter\n".encode("latin-1"))
    (tmp_path / "people.ods").write_bytes(b"PK")
    (tmp_path / "people.tsv").write_text("age\tincome\n")
    parquet.write_table(pa.table({"age": [39], "name": ["Doe"], "label": [1]}), tmp_path / "people.parquet")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(DataError) as refused:
            read(str(path), split="train")
        told = str(refused.value)
        assert told.startswith(f"{path} holds a table")
        assert ("Save it as .csv or .parquet" in told) == (path.suffix == ".ods")
        told = told.replace(str(tmp_path), "")  # whose number may hold a 39
        assert "\n" not in told and "39" not in told and "Doe" not in told


def test_damaged_samples_name_the_row(tmp_path):
    data, _, _ = forms.samples(tmp_path / "a.csv")
    sound = Path(data).read_text().splitlines()
    for bad in (
        "1",
        sound[3] + ",7",
        sound[3][:-1] + "x",
        sound[3].replace(",", ",256,", 1),
        "1" + ",-1" * 144,
        "1.5" + ",1" * 144,
    ):
        Path(data).write_text("\n".join([*sound[:3], bad, *sound[4:]]) + "\n")
        with pytest.raises(DataError, match=r"row 2 \(counted from 0\): a sample is a label and 144 pixels"):
            read(data, split="train")
    Path(data).write_text(sound[0] + "\n")
    with pytest.raises(DataError, match=r"no samples"):
        read(data, split="train")


def hub(folder: Path, **names: object) -> str:
    """Parquet files as they lie on a hub."""
    from pyarrow import parquet

    (folder / "data").mkdir(parents=True)
    for name, table in names.items():
        parquet.write_table(table, folder / "data" / f"{name}-00000-of-00001.parquet")
    return str(folder)


def test_splits_of_a_hub(tmp_path):
    source = hub(
        tmp_path / "hub",
        train=forms.hub_table(COLOUR, ["b", "b", "c", "c"]),
        test=forms.hub_table(COLOUR[::-1], ["a", "c", "b", "a"]),
        validation=forms.hub_table(GREY),
    )
    train, test = read(source, split="train"), read(source, split="test")
    np.testing.assert_array_equal(test.images, COLOUR[::-1])
    assert train.labels.tolist() == [1, 1, 2, 2] and test.labels.tolist() == [0, 2, 1, 0], "names of both splits count"
    assert train.class_names == test.class_names == ("a", "b", "c")
    np.testing.assert_array_equal(read(f"{source}:test", split="train").labels, test.labels)
    whole = hub(tmp_path / "whole", part=forms.hub_table(COLOUR))
    assert len(read(whole, split="test")) == 4
    with pytest.raises(DataError, match=r"no .parquet file is named after the split test: leave the split out"):
        read(f"{whole}:test", split="train")
    with pytest.raises(DataError, match=r"no .parquet file is named after the split test"):
        read(hub(tmp_path / "half", train=forms.hub_table(COLOUR)), split="test")


def test_columns_are_chosen_and_units_may_be_one(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    left, right = ([encoded(image, "PNG") for image in images] for images in (GREY, COLOUR))
    table = pa.table({"left": left, "right": right, "eye": [3, None, 5, 3], "who": ["x", "y", "x", None]})
    parquet.write_table(table, tmp_path / "a.parquet")
    source = str(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"several columns hold pictures \(left, right\): choose one with `images_key`"):
        read(source, split="train")
    with pytest.raises(
        DataError, match=r"no column label; the columns are: left, right, eye, who\. Name it with `labels_key`"
    ):
        read(Source(source, images_key="left"), split="train")
    with pytest.raises(DataError, match=r"the column eye holds no pictures"):
        read(Source(source, images_key="eye"), split="train")
    with pytest.raises(DataError, match=r"there is no column age; the columns are"):
        read(Source(source, images_key="left", labels_key="age"), split="train")
    with pytest.raises(DataError, match=r"no label was found for record 1 "):
        read(Source(source, images_key="right", labels_key="eye"), split="train")
    found = read(
        Source(source, images_key="right", labels_key="eye", units=":who"),
        Reading(missing_label="drop", missing_unit="own"),
        split="train",
    )
    np.testing.assert_array_equal(found.images, COLOUR[[0, 2, 3]])
    assert found.labels.tolist() == [3, 5, 3]
    assert found.names.tolist() == ["x", ""] and found.units.tolist() == [0, 0, 1], (
        "y has no record left, and is no unit"
    )
    with pytest.raises(DataError, match=r"no unit"):
        read(Source(source, images_key="left", labels_key="none", units=":who"), split="train")
    assert read(Source(source, images_key="left", labels_key="none"), split="train").labels.tolist() == [0] * 4
    parquet.write_table(pa.table({"image": [left[0], None], "label": [0, 1]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"row 1 \(counted from 0\): there is no picture in this row"):
        read(str(tmp_path / "b.parquet"), split="train")
    parquet.write_table(table.slice(0, 0).select(["left", "eye"]), tmp_path / "c.parquet")
    with pytest.raises(DataError, match=r"there are no pictures in it"):
        read(Source(str(tmp_path / "c.parquet"), labels_key="eye"), split="train")


def test_what_a_hub_calls_its_labels(tmp_path):
    stated = {"info": {"features": {"label": {"names": ["cat", "dog", "emu"], "_type": "ClassLabel"}}}}
    table = forms.hub_table().replace_schema_metadata({"huggingface": json.dumps(stated)})
    found = read(hub(tmp_path, train=table), split="train")
    assert found.labels.tolist() == LABELS.tolist()
    assert found.class_names == ("cat", "dog", "emu")


def test_splits_and_names_of_tars(tmp_path):
    for name, labels in (
        ("train-000", ["b", "c", "c", "b"]),
        ("train-001", ["b", "b", "b", "b"]),
        ("test-000", ["a", "b", "c", "c"]),
    ):
        forms.tar(tmp_path, labels)
        (tmp_path / "shard-000000.tar").rename(tmp_path / f"{name}.tar")
    train, test = read(str(tmp_path), split="train"), read(str(tmp_path), split="test")
    assert (train.labels.tolist(), test.labels.tolist()) == ([1, 2, 2, 1, 1, 1, 1, 1], [0, 1, 2, 2])
    assert train.class_names == ("a", "b", "c")
    one_tar = str(tmp_path / "test-000.tar")
    assert read(Source(one_tar, labels_key="none", images_key="png"), split="train").labels.tolist() == [0] * 4
    with pytest.raises(DataError, match=r"the record lacks .txt"):
        read(Source(one_tar, labels_key="txt"), split="train")
    with pytest.raises(DataError, match=r"the record lacks .jpg"):
        read(Source(one_tar, images_key="jpg"), split="train")


def test_a_link_in_a_tar_is_refused(tmp_path):
    import tarfile

    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        link = tarfile.TarInfo("a.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(DataError, match=r"only plain files"):
        read(str(tmp_path / "a.tar"), split="train")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("../0.png,1,x", "there is no such picture"),
        ("0.png,1,x", "row 0 names this picture too"),
        ("9.png,1,x", "there is no such picture"),
        ("notes.txt,1,x", "there is no such picture"),
        ("metadata.csv,1,x", "there is no such picture"),
        ("4.png,1", "another number of cells"),
        ('4.png,"1', "is no sound CSV"),
        ("3.png,cat,x", "some labels are names and some are numbers"),
    ],
)
def test_a_list_that_is_wrong(tmp_path, line, words):
    forms.metadata_csv(tmp_path)
    lines = (tmp_path / "metadata.csv").read_text().splitlines()
    (tmp_path / "metadata.csv").write_text("\n".join([*lines[:4], line]) + "\n")
    with pytest.raises(DataError, match=words):
        read(str(tmp_path), split="train")


def test_a_list_that_leaves_pictures_out_is_refused_with_their_number(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}.png").write_bytes(encoded(GREY[0], "PNG"))
    lines = ["file_name,label", *(f"{number:02}.png,{number % 2}" for number in range(20))]
    (tmp_path / "metadata.csv").write_text("\n".join(lines[:16]))
    with pytest.raises(DataError, match=r"are 5 problems.*\n.*/15\.png, .*/19\.png: the list in its folder has no row"):
        read(str(tmp_path), split="train")
    (tmp_path / "metadata.csv").write_text("\n".join(lines[:8]))
    with pytest.raises(DataError, match=r"are 13 problems.*\n.*/11\.png: the list in(.|\n)*and 8 more$"):
        read(str(tmp_path), split="train")
    (tmp_path / "metadata.csv").write_text("\n".join(lines))
    assert len(read(str(tmp_path), split="train")) == 20


def test_a_list_of_the_other_split_may_leave_none_out_either(tmp_path):
    for side in ("train", "test"):
        (tmp_path / side).mkdir()
        forms.metadata_csv(tmp_path / side)
    (tmp_path / "test" / "left.png").write_bytes(encoded(GREY[0], "PNG"))
    with pytest.raises(DataError, match=r"test/left\.png: the list in its folder has no row"):
        read(str(tmp_path), split="train")


@pytest.mark.parametrize("column", ["file_name", "image", "filename", "name"])
def test_labels_csv_beside_pictures_is_taken(tmp_path, column):
    for number, image in enumerate(GREY):
        (tmp_path / f"{number}.png").write_bytes(encoded(image, "PNG"))
    rows = [f"{number},{number}.png,{'cat' if label else 'dog'}" for number, label in enumerate(LABELS)]
    (tmp_path / "labels.csv").write_text("\n".join([f"row,{column},diagnosis", *rows]))
    found = read(Source(str(tmp_path), labels_key="diagnosis"), split="train")
    assert (found.class_names, found.labels.tolist()) == (("cat", "dog"), [1, 0, 0, 1])
    with pytest.raises(DataError, match=rf"a column label, and it names row, {column}, diagnosis\. Rename them"):
        read(str(tmp_path), split="train")


def test_pictures_beside_another_list_are_told_what_it_is_called(tmp_path):
    for number, image in enumerate(GREY):
        (tmp_path / f"{number}.png").write_bytes(encoded(image, "PNG"))
    (tmp_path / "diagnoses.csv").write_text("image,diagnosis\n0.png,a\n")
    with pytest.raises(DataError, match=r"a file labels\.csv beside them, with the columns file_name and label$"):
        read(str(tmp_path), split="train")


def test_a_list_of_something_else_and_stray_pieces(tmp_path):
    in_classes(tmp_path, [encoded(image, "PNG") for image in GREY], ".png")
    (tmp_path / "metadata.csv").write_text("name,unit\n0.png,a\n1.png,b\n2.png,a\n3.png,c\n")
    found = read(Source(str(tmp_path), units=str(tmp_path / "metadata.csv")), split="train")
    assert (found.labels.tolist(), found.units.tolist()) == ([0, 0, 1, 1], [0, 2, 1, 0])
    (tmp_path / "originals.tar").touch()
    with pytest.raises(DataError, match=r"holds \.tar files beside the folder 0: name the file"):
        read(str(tmp_path), split="train")


def test_units_by_name_work_with_lists(tmp_path):
    forms.metadata_csv(tmp_path)
    (tmp_path / "who.csv").write_text("name,unit\n0.png,a\n1.png,b\n2.png,a\n3.png,c\n")
    assert read(Source(str(tmp_path), units=str(tmp_path / "who.csv")), split="train").units.tolist() == [0, 1, 0, 2]
    assert read(Source(str(tmp_path), labels_key="text"), split="train").class_names == ("x, y",)
    with pytest.raises(DataError, match=r"a column age, and it names file_name, label, text\. Rename"):
        read(Source(str(tmp_path), labels_key="age"), split="train")


# Labels


def test_keys_of_an_npz(tmp_path):
    np.savez(tmp_path / "a.npz", train_x=GREY, train_y=LABELS, test_x=GREY[:2], test_y=LABELS[:2], x=COLOUR)
    source = str(tmp_path / "a.npz")
    np.testing.assert_array_equal(read(Source(source, images_key="x", labels_key="y"), split="train").images, GREY)
    np.testing.assert_array_equal(
        read(Source(f"{source}:test", images_key="x", labels_key="y"), split="train").images, GREY[:2]
    )
    np.testing.assert_array_equal(
        read(Source(source, images_key="x", labels_key="none"), split="train").labels, [0] * 4
    )
    with pytest.raises(DataError, match=r"no key train_z or z; the keys are"):
        read(Source(source, images_key="z"), split="train")


def test_unlabelled_pictures_are_one_class_if_somebody_says_so(tmp_path, capsys):
    for number, image in enumerate(GREY):
        (tmp_path / f"{number}.png").write_bytes(encoded(image, "PNG"))
    status, _, err = card(capsys, str(tmp_path))
    assert status == 2 and "no class folders" in err and "--labels-key none" in err
    status, out, _ = card(capsys, str(tmp_path), "--labels-key", "none")
    assert status == 0 and DataCard.loads(out).classes == 1
    np.testing.assert_array_equal(read(Source(str(tmp_path), labels_key="none"), split="train").images, GREY)


def test_names_of_labels_in_an_npz(tmp_path):
    np.savez(
        tmp_path / "a.npz",
        train_images=GREY,
        train_labels=["b", "c", "b", "c"],
        test_images=GREY[:1],
        test_labels=["a"],
    )
    found = read(str(tmp_path / "a.npz"), split="train")
    assert (found.labels.tolist(), found.class_names) == ([1, 2, 1, 2], ("a", "b", "c"))
    np.savez(tmp_path / "a.npz", images=GREY, labels=["b", "", "b", "c"])
    with pytest.raises(DataError, match=r'no label was found for record 1 .*missing_label = "drop"'):
        read(str(tmp_path / "a.npz"), split="train")
    assert read(str(tmp_path / "a.npz"), Reading(missing_label="drop"), split="train").labels.tolist() == [0, 0, 1]
    np.savez(tmp_path / "a.npz", images=GREY, labels=np.full(4, -1))
    with pytest.raises(DataError, match=r"no record has a label"):
        read(str(tmp_path / "a.npz"), Reading(missing_label="drop"), split="train")


def test_a_dropped_record_moves_no_other(tmp_path):
    np.savez(tmp_path / "a.npz", images=GREY, labels=[2, -1, 0, 1])
    np.savez(tmp_path / "b.npz", images=GREY[[0, 2, 3]], labels=[2, 0, 1])
    some, others = (read(str(tmp_path / f"{name}.npz"), Reading(missing_label="drop"), split="train") for name in "ab")
    np.testing.assert_array_equal(some.images, others.images)
    np.testing.assert_array_equal(some.labels, others.labels)
    assert some.notes == ("Records without a label were left out, as the card says.",)


# Files and folders


def test_links_are_followed_and_one_file_is_one_record(tmp_path):
    in_classes(tmp_path / "there", [encoded(image, "PNG") for image in GREY], ".png")
    here = tmp_path / "here"
    here.mkdir()
    (here / "0").symlink_to(tmp_path / "there" / "0")
    (here / "1").mkdir()
    (here / "1" / "a.png").symlink_to(tmp_path / "there" / "1" / "1.png")
    np.testing.assert_array_equal(read(str(here), split="train").images, GREY[[0, 3, 1]])
    (here / "1" / "b.png").symlink_to(tmp_path / "there" / "0" / "3.png")
    with pytest.raises(DataError, match=r"b\.png: this is the same file as .*3\.png, under two names"):
        read(str(here), split="train")
    (here / "1" / "b.png").unlink()
    os.link(tmp_path / "there" / "1" / "1.png", here / "1" / "b.png")
    with pytest.raises(DataError, match=r"under two names"):
        read(str(here), split="train")
    (here / "1" / "b.png").unlink()
    (here / "1" / "b.png").symlink_to(tmp_path / "gone.png")
    with pytest.raises(DataError, match=r"b\.png: a class folder holds"):
        read(str(here), split="train")


def test_a_single_picture_and_two_kinds_of_pieces(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(GREY[0], "PNG"))
    with pytest.raises(DataError, match=r"single picture: give the folder"):
        read(str(tmp_path / "a.png"), split="train")
    (tmp_path / "a.tar").touch()
    (tmp_path / "a.parquet").touch()
    with pytest.raises(DataError, match=r"holds both \.parquet and \.tar files"):
        read(str(tmp_path), split="train")


def test_a_picture_of_too_many_pixels(tmp_path):
    """A few bytes that declare gigabytes, in each format: nothing is decoded."""
    bomb = Image.new("L", (16384, 4096))
    for kind, suffix in (("PNG", ".png"), ("GIF", ".gif"), ("TIFF", ".tif")):
        file = io.BytesIO()
        bomb.save(file, kind, **({"compression": "tiff_lzw"} if kind == "TIFF" else {}))
        with pytest.raises(DataError, match=r"declares more than 33,554,432 pixels: shrink or remove it"):
            one(tmp_path, file.getvalue(), suffix)


def test_other_formats_of_pillow_are_not_tried(tmp_path):
    """Pillow would hand a PostScript file to a program outside."""
    for raw in (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n", b"P5 8 8 255\n" + bytes(64)):
        with pytest.raises(DataError, match=r"this cannot be read as a picture"):
            one(tmp_path, raw)


def test_libraries_do_not_print(tmp_path, capfd):
    raw = bytearray(encoded(DEEP[0], "TIFF", compression="tiff_adobe_deflate"))
    raw[10:40] = bytes(30)
    with pytest.raises(DataError, match=r"cannot be read"):
        one(tmp_path, bytes(raw), ".tif", pixel_range=(0, 65535))
    assert capfd.readouterr().err == ""


def test_what_is_unpacked_is_bounded_by_memory_and_disk(tmp_path, monkeypatch):
    """Zeros pack a thousandfold. Plain files are mapped, and may be of any size."""
    monkeypatch.setattr(memory_mapped, "free_memory", lambda: 2_000)
    monkeypatch.setattr(memory_mapped, "_LEFT", 1 << 60)
    np.savez_compressed(tmp_path / "a.npz", images=GREY, labels=LABELS)
    data, _, _ = forms.idx_gz(tmp_path)
    for source in (str(tmp_path / "a.npz"), data):
        with pytest.raises(DataError, match=r"too large for the memory.*TMPDIR"):
            read(source, split="train")


@pytest.mark.parametrize("form", ["parquet of a hub", "parquet samples"])
def test_the_space_for_all_pictures_of_parquet_is_asked_for_first(tmp_path, monkeypatch, form):
    """The file tells the number of its pictures."""
    data, *_ = FORMS[form](tmp_path)
    count = len(read(data, Reading(), split="train"))
    whole = read(data, Reading(), split="train").images.nbytes
    asked = []
    monkeypatch.setattr(
        image_files, "Filling", lambda expected=0: asked.append(expected) or memory_mapped.Filling(expected)
    )
    monkeypatch.setattr(parquet_csv, "Filling", image_files.Filling)
    read(data, Reading(), split="train")
    assert max(asked) == whole and count == 4


def test_extras_are_optional():
    """What is imported with the readers is what everybody has."""
    import subprocess

    code = (
        "import sys; sys.modules['pandas'] = None  # scikit-learn would import it, and with it pyarrow\n"
        "import gossamer.data.sources.pictures.read; print({'pyarrow', 'pydicom'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_a_request_error_for_pydicom_is_no_data_error(tmp_path, monkeypatch):
    data, _, _ = forms.dicom(tmp_path)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(RequestError, match=r"DICOM files need pydicom"):
        read(data, Reading(pixel_range=(0, 1)), split="train")
