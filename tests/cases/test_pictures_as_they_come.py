"""Pictures as people have them: kinds K11, K12, K13, K14, K18, K21 and K22 of public bug reports."""

import io
import json
import re
import tarfile

import numpy as np
import pyarrow as pa
import pydicom
import pytest
from PIL import Image
from pyarrow import parquet
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid
from stories import run

import gossamer
from gossamer.data.card import DataCard
from gossamer.errors import DataError

DRAW = np.random.default_rng(11)
PIXELS = DRAW.integers(0, 256, (60, 28, 28), np.uint8)
KINDS = ["cup", "jar", "pan"]


def png(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def members(count=60, **contents):
    """The files of an archive: a picture and others for each number, by their endings. Values are functions of the number."""
    return {
        f"{n:03}.{ending.replace('_', '.')}": content(n)
        for n in range(count)
        for ending, content in {"png": lambda n: png(PIXELS[n]), **contents}.items()
    }


def drafted(place, *options):
    """The draft of pictures as a card, and the records that it reads."""
    status, out, err = run("card", place, *options)
    assert status == 0, err
    card = DataCard.loads(out)
    keys = dict(zip(("labels_key", "images_key"), options[1::2], strict=False)) if "--labels-key" in options else {}
    return card, gossamer.read(gossamer.Source(place, **keys), card.reading), err


# ---------------------------------------------------------------------------------------------------- lists


@pytest.fixture
def listed(tmp_path):
    """A folder of pictures beside a list of them."""

    def make(text, *, encoding="utf-8", below=""):
        (tmp_path / below).mkdir(parents=True, exist_ok=True)
        for n in range(60):
            (tmp_path / below / f"p{n:02}.png").write_bytes(png(PIXELS[n]))
        (tmp_path / "labels.csv").write_bytes(text.encode(encoding))
        return tmp_path

    return make


def lines(head, form):
    return "\n".join([head, *(form(f"p{n:02}", n % 3) for n in range(60))]) + "\n"


LISTS = {
    "semicolons": (lines("file_name;label", lambda name, at: f"{name}.png;{KINDS[at]}"), {}),
    "tabs": (lines("file_name\tlabel", lambda name, at: f"{name}.png\t{KINDS[at]}"), {}),
    "latin-1": (lines("file_name,label,who", lambda name, at: f"{name}.png,{KINDS[at]},Zoë"), {"encoding": "latin-1"}),
    "UTF-16": (lines("file_name,label", lambda name, at: f"{name}.png,{KINDS[at]}"), {"encoding": "utf-16"}),
    "a BOM": (lines("file_name,label", lambda name, at: f"{name}.png,{KINDS[at]}"), {"encoding": "utf-8-sig"}),
    "other capitals": (lines("File_Name,Label", lambda name, at: f"{name}.png,{KINDS[at]}"), {}),
    "backslashes": (lines("file_name,label", lambda name, at: f"scans\\{name}.png,{KINDS[at]}"), {"below": "scans"}),
    "no endings": (lines("file_name,label", lambda name, at: f"{name},{KINDS[at]}"), {}),
    "carriage returns": (
        lines("file_name,label", lambda name, at: f"{name}.png,{KINDS[at]}").replace("\n", "\r\n"),
        {},
    ),
    "quoted names": (lines("file_name,label", lambda name, at: f'"{name}.png","{KINDS[at]}"'), {}),
}


@pytest.mark.parametrize("name", [*LISTS])
def test_a_list_of_pictures_is_read_as_tables_are(listed, name):
    """K18: the list had a reader of its own, which knew commas and UTF-8."""
    text, how = LISTS[name]
    card, records, _ = drafted(listed(text, **how))
    assert card.class_names == tuple(KINDS)
    np.testing.assert_array_equal(records.labels, np.arange(60) % 3)
    np.testing.assert_array_equal(records.images.squeeze(), PIXELS)


def test_a_list_with_a_column_for_each_class_has_one_label(listed):
    """Row 89: one-hot columns, as of skin pictures."""
    text = lines(
        "file_name,AKIEC,DF,VASC", lambda name, at: f"{name},{str(np.eye(3)[at].tolist())[1:-1].replace(' ', '')}"
    )
    card, records, _ = drafted(listed(text))
    assert card.class_names == ("AKIEC", "DF", "VASC")
    np.testing.assert_array_equal(records.labels, np.arange(60) % 3)


@pytest.mark.parametrize("texts", [["007", "7", "70"], ["00", "0", "1"], ["1e1", "1E1", "x"]])
def test_labels_keep_their_writing(listed, texts):
    """K14: `01` and `1` were one class."""
    card, records, _ = drafted(listed(lines("file_name,label", lambda name, at: f"{name}.png,{texts[at]}")))
    assert {*card.class_names} == {*texts}
    assert np.bincount(records.labels).tolist() == [20, 20, 20]


@pytest.mark.parametrize("texts", [["1e1", "10", "1E1"], ["+3", "3", "4"]])
def test_numbers_and_what_looks_like_them_are_not_merged(listed, texts):
    """K14: a name beside numbers is a mistake, or a class of its own."""
    status, out, err = run("card", listed(lines("file_name,label", lambda name, at: f"{name}.png,{texts[at]}")))
    assert (status == 2 and "some labels are names" in err) or "classes = 3" in out


def test_whole_numbers_that_pandas_wrote_as_floats_are_classes(listed):
    """K14: `0.0` matched no other source."""
    card, records, _ = drafted(listed(lines("file_name,label", lambda name, at: f"{name}.png,{float(at)}")))
    assert card.class_names in ((), ("0", "1", "2"))
    np.testing.assert_array_equal(records.labels, np.arange(60) % 3)


@pytest.mark.parametrize("form", ["npz", "parquet", "arrays", "tar"])
def test_text_labels_keep_their_writing_in_every_form(tmp_path, form):
    """K14, row 119."""
    labels = np.array(["02", "2", "20"])[np.arange(60) % 3]
    if form == "npz":
        np.savez(place := tmp_path / "t.npz", images=PIXELS, labels=labels)
    elif form == "parquet":
        table = pa.table({"image": [png(picture) for picture in PIXELS], "label": labels.tolist()})
        parquet.write_table(table, place := tmp_path / "t.parquet")
    elif form == "tar":
        place = archive(tmp_path, members(cls=lambda n: labels[n].encode()))
    else:
        place = (PIXELS, labels)
    records = gossamer.read(place)
    assert records.class_names == ("02", "2", "20")
    np.testing.assert_array_equal(records.labels, np.arange(60) % 3)


# ---------------------------------------------------------------------------------------------------- archives


def archive(folder, members):
    place = folder / "a.tar"
    with tarfile.open(place, "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return place


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (members(txt=lambda n: b"a cup"), ".cls"),
        (members(cls=lambda n: b"0", depth_png=lambda n: png(PIXELS[n])), "several pictures"),
        ({f"{kind}/{n}.png": png(PIXELS[n]) for n in range(30) for kind in KINDS}, ".cls"),
    ],
    ids=["text beside", "two pictures", "class folders"],
)
def test_the_draft_gives_the_reason_that_a_run_gives(tmp_path, files, words):
    """K21: the draft said that there are no pictures."""
    place = archive(tmp_path, files)
    status, _, err = run("card", place)
    assert status == 2 and "there are no pictures" not in err
    with pytest.raises(DataError) as caught:
        gossamer.read(place)
    assert words in str(caught.value)
    assert str(caught.value).split(": ", 1)[1][:40] in err, (err, str(caught.value))


def test_paths_in_place_of_pictures_are_called_so(tmp_path):
    """K21: in Parquet."""
    images = [{"bytes": None, "path": f"{n}.png"} for n in range(30)]
    table = pa.table({"image": images, "label": [n % 3 for n in range(30)]})
    parquet.write_table(table, tmp_path / "t.parquet")
    status, _, err = run("card", tmp_path / "t.parquet")
    assert status == 2 and "path" in err and "no pictures" not in err, err


def test_the_label_in_a_json_file_is_the_label(tmp_path):
    """Row 120: class names were the texts of the files."""
    place = archive(tmp_path, members(json=lambda n: json.dumps({"label": n % 3, "who": f"visitor {n}"}).encode()))
    card, records, _ = drafted(place, "--labels-key", "json")
    assert "visitor" not in card.dumps()
    np.testing.assert_array_equal(records.labels, np.arange(60) % 3)


# ---------------------------------------------------------------------------------------------------- files


def folders(place, save, *, counts=(20, 20)):
    number = 0
    for at, count in enumerate(counts):
        (place / KINDS[at]).mkdir(parents=True)
        for n in range(count):
            save(place / KINDS[at], n, PIXELS[number % 60], number)
            number += 1
    return place


@pytest.mark.parametrize("coloured", [{39}, {0}, {*range(1, 40)}, {5, 17}])
def test_colour_follows_from_all_pictures(tmp_path, coloured):
    """K13: the first picture spoke for all."""

    def save(folder, n, pixels, number):
        image = Image.fromarray(pixels)
        if number in coloured:
            image = Image.merge("RGB", (image, Image.fromarray(255 - pixels), Image.fromarray(pixels // 3)))
        image.save(folder / f"{n:02}.png")

    card, records, _ = drafted(folders(tmp_path / "d", save))
    assert card.shape == (3, 28, 28) and records.images.shape == (40, 3, 28, 28)
    grey = [n for n in range(40) if (records.images[n] == records.images[n][:1]).all()]
    assert {*grey} == {*range(40)} - coloured


def test_shares_of_classes_are_said(tmp_path):
    """Row 94: samples had as many of either class."""

    def save(folder, n, pixels, number):
        Image.fromarray(pixels).save(folder / f"{n}.png")

    place = folders(tmp_path / "d", save, counts=(90, 4))
    _, _, said = drafted(place)
    assert "label_prior" in said


@pytest.mark.parametrize("ending", ["jfif", "zip", "heic"])
def test_an_ending_is_read_or_named(tmp_path, ending):
    """Row 90."""

    def save(folder, n, pixels, number):
        Image.fromarray(pixels).save(folder / f"{n}.{ending}", format="JPEG")

    place = folders(tmp_path / "d", save)
    status, _, err = run("card", place)
    assert status == 0 or ending in err.lower(), err


# ---------------------------------------------------------------------------------------------------- DICOM


def dicom(pixels, **elements):
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = "1.2.840.10008.5.1.4.1.1.2.1", generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    made.SOPClassUID, made.SOPInstanceUID, made.PatientID = (
        meta.MediaStorageSOPClassUID,
        meta.MediaStorageSOPInstanceUID,
        "Q",
    )
    made.Rows, made.Columns = pixels.shape[-2:]
    made.BitsAllocated, made.BitsStored, made.HighBit, made.PixelRepresentation = 16, 12, 11, 0
    made.SamplesPerPixel, made.PhotometricInterpretation = 1, "MONOCHROME2"
    made.PixelData = np.ascontiguousarray(pixels.astype(np.uint16) * 16).tobytes()
    for key, value in elements.items():
        setattr(made, key, value)
    return made


def item(**elements):
    found = Dataset()
    for key, value in elements.items():
        setattr(found, key, value)
    return found


RESCALE = {"RescaleSlope": 2, "RescaleIntercept": -500, "RescaleType": "HU"}
WINDOW = {"WindowCenter": 3000, "WindowWidth": 5000}
SHARED = {"SharedFunctionalGroupsSequence": [item(
    PixelValueTransformationSequence=[item(**RESCALE)], FrameVOILUTSequence=[item(**WINDOW)]
)]}  # fmt: skip
PER_FRAME = {"PerFrameFunctionalGroupsSequence": [item(
    PixelValueTransformationSequence=[item(**RESCALE)], FrameVOILUTSequence=[item(**WINDOW)]
)]}  # fmt: skip


@pytest.mark.parametrize("groups", [SHARED, PER_FRAME], ids=["shared", "per frame"])
@pytest.mark.parametrize("how", [("--pixel-range", -500, 7500), ("--window",)], ids=["range", "window"])
def test_rescale_and_window_count_wherever_dicom_puts_them(tmp_path, groups, how):
    """K11: below the top level they were ignored, and the pictures were too bright."""
    read = []
    for name, elements in {"top": RESCALE | WINDOW, "groups": {"NumberOfFrames": 1, **groups}}.items():

        def save(folder, n, pixels, number, elements=elements):
            dicom(pixels, **elements).save_as(folder / f"{n:02}.dcm")

        place = folders(tmp_path / name, save)
        status, out, err = run("card", place, *how)
        assert status == 0, err
        read.append(gossamer.read(place, DataCard.loads(out).reading).images)
    np.testing.assert_array_equal(read[0], read[1])
    values = PIXELS[:20].astype(float) * 16 * 2 - 500
    low, high = (-500, 7500) if how[0] == "--pixel-range" else (500, 5500)
    expected = np.clip((values - low) / (high - low), 0, 1) * 255
    assert abs(read[0][:20].squeeze() - expected).max() < 3


def report(folder, n, pixels, number):
    made = dicom(pixels)
    if number == 12:
        for key in ("PixelData", "Rows", "Columns", "BitsAllocated"):
            delattr(made, key)
        made.SOPClassUID = made.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.88.33"
    made.save_as(folder / f"{n:02}.dcm")


def bare(folder, n, pixels, number):
    path = folder / f"{n:02}.dcm"
    dicom(pixels).save_as(path)
    path.write_bytes(path.read_bytes()[132:])


@pytest.mark.parametrize(
    ("save", "words"),
    [(report, ["12.dcm", "Comprehensive SR"]), (bare, ["DICM"])],
    ids=["a report among pictures", "files without their mark"],
)
def test_files_that_are_no_pictures_are_named_for_what_they_are(tmp_path, save, words):
    """K12: the name of an exception was the message."""
    place = folders(tmp_path / "d", save)
    status, _, err = run("card", place, "--pixel-range", 0, 4095)
    assert "Error" not in err and status in (0, 2), err
    if status:
        assert all(word in err for word in words), err
    assert pydicom.__version__ not in err


def test_a_record_without_its_picture_is_named():
    """K12: the item was not."""
    images = [Image.fromarray(pixels) for pixels in PIXELS[:30]]

    class Holes:
        def __len__(self):
            return 30

        def __getitem__(self, at):
            return {"image": None if at == 23 else images[at], "label": at % 3}

    with pytest.raises(DataError, match=r"23") as caught:
        gossamer.read(Holes())
    assert "Error" not in str(caught.value)


# ---------------------------------------------------------------------------------------------------- figures


def test_pictures_of_one_class_have_figures_or_a_reason_that_is_true(tmp_path):
    """K22: each metric that was left out advised another one that was left out."""
    np.savez(tmp_path / "t.npz", train_images=PIXELS.repeat(4, 0), test_images=PIXELS.repeat(4, 0)[::-1])
    card = DataCard(shape=(1, 28, 28), classes=1, declared_size=240)
    data = gossamer.Source(tmp_path / "t.npz", labels_key="none")
    made = gossamer.fit("moments", data=data, card=card, epsilon=100, delta=1e-4, out=tmp_path / "RUN")
    judged = gossamer.evaluate(made, train=data, test=data, metrics="all", count=200)
    assert {"precision", "recall"} <= {entry["metric"] for entry in judged.metrics}
    for name, reason in judged.left_out.items():
        if "Take " in reason:
            advised = set(re.findall(r"[\w-]+", reason.partition("Take ")[2])) & {
                "accuracy",
                "fid",
                "inception-score",
                "mmd",
                "neighbours",
            }
            assert advised - {*judged.left_out}, (name, reason)
