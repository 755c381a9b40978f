"""What goes in is what was meant: labels as they are written, values wherever DICOM has them, colour, lists, datasets."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from forms import COLOUR, GREY, LABELS, dicom_bytes, encoded, idx_bytes, in_classes
from PIL import Image
from pyarrow import parquet

from gossamer.data.card import DataCard
from gossamer.data.fingerprint import identify
from gossamer.data.labels import as_labels, numbered
from gossamer.data.pixels.to_uint8 import CLIPPED
from gossamer.data.records import Records, uneven
from gossamer.data.source import Reading, Source
from gossamer.data.sources.pictures.read import read
from gossamer.data.sources.tables import is_table
from gossamer.errors import DataError
from gossamer.kinds.draft import draft_text

WRITTEN = ["007", "7", "7.0", "007"]
"""Labels of GREY. `007` is a name, and the others are the number 7."""


def of(path: Path, **asked: Any) -> Records:
    return read(str(path), Reading(**asked))


def listed(folder: Path, text: str | bytes, name: str = "labels.csv", file: str = "scan_{}.png") -> Path:
    """A folder of GREY with a list."""
    folder.mkdir(exist_ok=True)
    for at, image in enumerate(GREY):
        path = folder / file.format(at)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encoded(image, "PNG"))
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def tarred(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as file:
        for name, raw in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(raw)
            file.addfile(entry, io.BytesIO(raw))
    return path


# Labels


def written_as_list(folder: Path) -> Any:
    lines = [f"scan_{at}.png,{label}" for at, label in enumerate(WRITTEN)]
    return str(listed(folder, "\n".join(["file,label", *lines])))


def written_as_json(folder: Path) -> Any:
    lines = [json.dumps({"file_name": f"scan_{at}.png", "label": label}) for at, label in enumerate(WRITTEN)]
    return str(listed(folder, "\n".join(lines), "metadata.jsonl"))


def written_as_npz(folder: Path) -> Any:
    np.savez(folder / "a.npz", images=GREY, labels=WRITTEN)
    return str(folder / "a.npz")


def written_as_parquet(folder: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(
        pa.table({"image": [encoded(each, "PNG") for each in GREY], "label": WRITTEN}), folder / "a.parquet"
    )
    return str(folder / "a.parquet")


def written_as_tar(folder: Path) -> Any:
    members = {f"{at}.png": encoded(GREY[at], "PNG") for at in range(4)}
    members |= {f"{at}.cls": label.encode() for at, label in enumerate(WRITTEN)}
    return str(tarred(folder / "a.tar", dict(sorted(members.items()))))


def written_in_memory(folder: Path) -> Any:
    return GREY, np.array(WRITTEN)


SOURCES = [written_as_list, written_as_json, written_as_npz, written_as_parquet, written_as_tar, written_in_memory]


@pytest.mark.parametrize("source", SOURCES)
def test_a_label_keeps_its_writing(tmp_path: Path, source: Callable[[Path], Any]) -> None:
    data = source(tmp_path)
    drafted = DataCard.loads(draft_text(data)[0])
    assert drafted.class_names == ("007", "7", "7.0"), "nothing is declared: each writing is a class"
    by_card = read(data, Reading(class_names=("7", "007")))
    assert by_card.labels.tolist() == [1, 0, 0, 1], "declared: `7.0` is the number 7, and `007` a name"
    with pytest.raises(DataError, match=r"does not name the class of records 0, 3 \(counted from 0\)"):
        read(data, Reading(class_names=tuple("01234567")))


def test_one_label_changes_no_other_where_a_card_declares_names() -> None:
    alone = {
        text: numbered([text], [], where="x", declared=names)[0].tolist()
        for names in [("b", "1", "01")]
        for text in ["b", "1", "01", "1.0", "-1", ""]
    }
    assert alone == {"b": [0], "1": [1], "01": [2], "1.0": [1], "-1": [-1], "": [-1]}
    together, names = numbered([*alone], [], where="x", declared=("b", "1", "01"))
    assert together.tolist() == [0, 1, 2, 1, -1, -1]
    assert names == ("b", "1", "01")


def test_numbers_stay_numbers() -> None:
    assert numbered(["10", "2", "0", "-1", ""], [], where="x")[0].tolist() == [10, 2, 0, -1, -1]
    assert numbered(["1.0", "0.0", "12.00"], [], where="x")[0].tolist() == [1, 0, 12]
    assert numbered(["1", "0"], [], where="x", declared=("cat", "dog"))[0].tolist() == [1, 0], "positions"
    assert numbered(["1", "2"], [], where="x", declared=("1", "2"))[0].tolist() == [0, 1], "declared names"
    assert numbered(["1", "1.0"], [], where="x", declared=("1.0", "1"))[0].tolist() == [1, 0], "the name comes first"
    with pytest.raises(DataError, match=r"record 2, counted from 0, is the first of another kind"):
        numbered(["3", "4", "cat"], [], where="x")


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (np.eye(4, dtype=int)[[2, 0, 3, 1]], [2, 0, 3, 1]),
        (np.eye(4, dtype=bool)[[2, 0, 3, 1]], [2, 0, 3, 1]),
        (np.array([True, False, False, True]), [1, 0, 0, 1]),
        (np.array([2.0, np.nan, 0.0, 1.0], np.float32), [2, -1, 0, 1]),
        (np.array([[3], [1], [0], [2]], np.uint8), [3, 1, 0, 2]),
    ],
)
def test_labels_of_programs(labels: np.ndarray, found: list[int]) -> None:
    assert as_labels(labels, count=4, where="x")[0].tolist() == found


def test_missing_labels_in_memory() -> None:
    pd = pytest.importorskip("pandas")
    drop = Reading(missing_label="drop")
    for labels in (
        pd.Series([1, None, 0, 1], dtype="Int64"),
        [1, None, 0, 1],
        [True, None, False, True],
        pd.Series([1.0, np.nan, 0, 1]),
        np.array([1, None, 0, 1], object),
    ):
        assert read((GREY, labels), drop).labels.tolist() == [1, 0, 1]
        with pytest.raises(DataError, match=r"no label was found for record 1 .*missing_label"):
            read((GREY, labels))
    assert read((GREY, ["b", None, "a", "b"]), drop).labels.tolist() == [1, 0, 1]


def test_labels_of_a_table_may_be_booleans_and_floats(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    raws = [encoded(each, "PNG") for each in GREY]
    for values, kept in [([True, False, None, True], [1, 0, 1]), ([3.0, 1.0, None, 0.0], [3, 1, 0])]:
        parquet.write_table(pa.table({"image": raws, "label": values}), tmp_path / "a.parquet")
        assert of(tmp_path / "a.parquet", missing_label="drop").labels.tolist() == kept


# DICOM


def nested(**elements: Any) -> Any:
    from pydicom.dataset import Dataset

    found = Dataset()
    for name, value in elements.items():
        setattr(found, name, value)
    return found


def group(slope: float, intercept: float, center: float, width: float) -> Any:
    return nested(
        PixelValueTransformationSequence=[nested(RescaleSlope=slope, RescaleIntercept=intercept)],
        FrameVOILUTSequence=[nested(WindowCenter=center, WindowWidth=width, VOILUTFunction="LINEAR_EXACT")],
    )


@pytest.mark.parametrize("place", ["SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"])
def test_rescale_and_window_of_functional_groups(tmp_path: Path, place: str) -> None:
    """They describe the first frame. Elements at the top, which enhanced files have not, do not count then."""
    stored = np.array([[0, 100], [250, 500]], np.uint16)
    both = stored.tobytes() + (stored + 7).tobytes()
    groups = [group(2, -100, 50, 400), group(9, 9, 9, 9)]
    raw = dicom_bytes(
        stored, PixelData=both, NumberOfFrames=2, RescaleIntercept=5, **{place: groups[: 1 + (place[0] == "P")]}
    )
    plain = dicom_bytes(stored, RescaleSlope=2, RescaleIntercept=-100)
    for name, each in (("enhanced", raw), ("plain", plain)):
        in_classes(tmp_path / name, [each] * 4, ".dcm")
        assert of(tmp_path / name, pixel_range=(-100, 900)).images[0, 0].tolist() == [[0, 51], [128, 255]]
    assert of(tmp_path / "enhanced", window=True).images[0, 0].tolist() == [[32, 159], [255, 255]]


def test_a_group_of_another_kind_leaves_the_elements_at_the_top(tmp_path: Path) -> None:
    stored = np.array([[0, 100], [250, 500]], np.uint16)
    other = [nested(PlanePositionSequence=[nested(ImagePositionPatient=[0, 0, 0])])]
    raw = dicom_bytes(stored, RescaleIntercept=-100, PerFrameFunctionalGroupsSequence=other)
    in_classes(tmp_path, [raw] * 4, ".dcm")
    assert of(tmp_path, pixel_range=(-100, 400)).images[0, 0].tolist() == [[0, 51], [128, 255]]


def test_what_is_no_picture_is_named(tmp_path: Path) -> None:
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import EncapsulatedPDFStorage, ExplicitVRLittleEndian

    in_classes(tmp_path, [dicom_bytes(GREY[0, 0])] * 4, ".dcm")
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = meta.MediaStorageSOPInstanceUID = EncapsulatedPDFStorage
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    letter = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    letter.SOPClassUID, letter.PatientName = EncapsulatedPDFStorage, "Doe^Jane"
    letter.save_as(tmp_path / "1" / "letter.dcm", enforce_file_format=True)
    old = tmp_path / "0" / "old.dcm"
    old.write_bytes(dicom_bytes(GREY[1, 0])[132:])
    with pytest.raises(DataError) as caught:
        of(tmp_path)
    said = str(caught.value)
    assert "letter.dcm: this DICOM file holds no PixelData (Encapsulated PDF Storage): move it away" in said
    assert f"{old}: the mark DICM is missing at byte 128" in said
    assert "Error" not in said and "Doe" not in said


def test_values_behind_a_table_are_refused(tmp_path: Path) -> None:
    table = [nested(LUTDescriptor=[2, 0, 16], LUTData=b"\5\0\t\0", ModalityLUTType="US")]
    in_classes(tmp_path, [dicom_bytes(GREY[0, 0], ModalityLUTSequence=table)] * 4, ".dcm")
    with pytest.raises(DataError, match=r"a table in the file \(Modality LUT\) maps its values"):
        of(tmp_path)


# Colour


@pytest.mark.parametrize("grey", [[0], [3], [0, 1, 2]])
def test_one_picture_in_colour_makes_a_draft_of_colour(tmp_path: Path, grey: list[int]) -> None:
    in_classes(tmp_path, [encoded(GREY[at] if at in grey else COLOUR[at], "PNG") for at in range(4)], ".png")
    text, hints = draft_text(str(tmp_path), shape="12x12")
    assert DataCard.loads(text).shape == (3, 12, 12)
    assert f"{4 - len(grey)} of 4 pictures are in colour" in " ".join(hints)
    in_classes(tmp_path, [encoded(each, "PNG") for each in GREY], ".png")
    text, hints = draft_text(str(tmp_path), shape="12x12")
    assert DataCard.loads(text).shape == (1, 12, 12)
    assert "in colour" not in " ".join(hints)


def test_colour_of_dicom_is_told_by_its_head(tmp_path: Path) -> None:
    raws = [dicom_bytes(GREY[0, 0]), *(dicom_bytes(each.transpose(1, 2, 0)) for each in COLOUR[:3])]
    in_classes(tmp_path, raws, ".dcm")
    assert DataCard.loads(draft_text(str(tmp_path))[0]).shape == (3, 32, 32)


# Lists


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("Image;Label\nscan_0.png;b\nscan_1.png;a\nscan_2.png;a\nscan_3.png;b\n", "scan_{}.png"),
        ("\ufefffile\tlabel\r\nscan_0.png\tb\r\nscan_1.png\ta\r\nscan_2.png\ta\r\nscan_3.png\tb\r\n", "scan_{}.png"),
        ("sep=|\nFILENAME|LABEL\nscan_0|b\nscan_1|a\nscan_2|a\nscan_3|b\n", "scan_{}.png"),
        ("path,label\nin\\scan_0.png,b\nin\\scan_1.png,a\nin\\scan_2.png,a\nin\\scan_3.png,b\n", "in/scan_{}.png"),
        ("image,label\nscan_0,b\nscan_1,a\nscan_2,a\nscan_3,b\n", "in/scan_{}.png"),
        ("image,label\nscan_0.png,b\n\nscan_1.png,a\n\"scan_2.png\",a\nscan_3.png,b\n", "in/scan_{}.png"),
        ("name,label\nscan_0,b\nscan_1,a\nscan_2,a\nscan_3,b\n", "scan_{}.jfif"),
        ("image_id,a,b\nscan_0,0,1\nscan_1,1.0,0.0\nscan_2,1,0\nscan_3,0.0,1.0\n", "scan_{}.png"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("coding", ["utf-8", "utf-16"])
def test_lists_as_people_write_them(tmp_path: Path, text: str, file: str, coding: str) -> None:
    text = text.removeprefix("\ufeff") if coding == "utf-16" else text
    found = of(listed(tmp_path, text.encode(coding), file=file))
    assert (found.class_names, found.labels.tolist()) == (("a", "b"), [1, 0, 0, 1])
    np.testing.assert_array_equal(found.images, GREY)


def test_a_list_in_latin_1_is_read(tmp_path: Path) -> None:
    text = "image,label\nscan_0,müde\nscan_1,wach\nscan_2,wach\nscan_3,müde\n"
    assert of(listed(tmp_path, text.encode("latin-1"))).class_names == ("müde", "wach")


def test_chosen_one_hot_columns(tmp_path: Path) -> None:
    text = "age,image,melanoma,nevus\n41,scan_0,0,1\n30,scan_1,1,0\n29,scan_2,1,0\n50,scan_3,0,1\n"
    folder = listed(tmp_path, text)
    found = read(Source(str(folder), labels_key="melanoma,nevus"))
    assert (found.class_names, found.labels.tolist()) == (("melanoma", "nevus"), [1, 0, 0, 1])
    with pytest.raises(DataError, match=r"a column label, and it names age, image, melanoma, nevus\..*labels_key"):
        of(folder)
    (folder / "labels.csv").write_text(text.replace("41,scan_0,0,1", "41,scan_0,1,1").replace("scan_2,1", "scan_2,0"))
    with pytest.raises(DataError, match=r"2 problems.*\n.*row 0 .*, .*row 2 .*: one-hot labels hold one 1 in each row"):
        read(Source(str(folder), labels_key="melanoma,nevus"))


def test_one_hot_columns_of_parquet(tmp_path: Path) -> None:
    bytes_of = [encoded(image, "PNG") for image in GREY[:4]]
    table = pa.table(
        {"nevus": [0, 1, 1, 0], "image": bytes_of, "melanoma": [1.0, 0.0, 0.0, 1.0], "age": [41, 30, 29, 50]}
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    found = read(Source(tmp_path / "a.parquet", labels_key="nevus,melanoma"))
    assert (found.class_names, found.labels.tolist()) == (("melanoma", "nevus"), [0, 1, 1, 0])
    for columns, says in (
        ("age,nevus", "one-hot labels, .*not for records 0, 1, 2, 3"),
        ("image,nevus", "holds no labels"),
    ):
        with pytest.raises(DataError, match=says):
            read(Source(tmp_path / "a.parquet", labels_key=columns))


def test_a_name_that_several_pictures_have_is_refused(tmp_path: Path) -> None:
    folder = listed(tmp_path, "image,label\nscan_0,a\nscan_1,a\nscan_2,b\nscan_3,b\n")
    (folder / "again").mkdir()
    (folder / "again" / "scan_2.jpg").write_bytes(encoded(GREY[0], "JPEG"))
    with pytest.raises(DataError, match=r"row 2 \(counted from 0\): several pictures have this name"):
        of(folder)


@pytest.mark.parametrize("below", ["", "train"])
def test_pictures_beside_a_table_are_named_with_both_readings(tmp_path: Path, below: str) -> None:
    listed(tmp_path, "file_name,label\nscan_0.png,a\n", "train.csv", file=str(Path(below) / "scan_{}.png"))
    with pytest.raises(DataError, match=r"two things.*train\.csv.*labels\.csv"):
        draft_text(str(tmp_path))


def test_units_are_listed_in_any_form(tmp_path: Path) -> None:
    in_classes(tmp_path / "data", [encoded(each, "PNG") for each in GREY], ".png")
    (tmp_path / "who.csv").write_text("Unit;Name\nana;0\\0\nbo;1\\1.png\nana;2\nbo;3.png\n")
    found = read(Source(str(tmp_path / "data"), units=str(tmp_path / "who.csv")))
    assert found.names is not None
    assert found.names[found.units].tolist() == ["ana", "bo", "bo", "ana"], "of pictures 0, 3, 1, 2"


# Tars


def test_the_label_in_json(tmp_path: Path) -> None:
    labels = ["cat", 7, None, "dog"]
    pairs = {}
    for at, label in enumerate(labels):
        pairs[f"{at}.png"], pairs[f"{at}.json"] = (
            encoded(GREY[at], "PNG"),
            json.dumps({"id": 3, "label": label}).encode(),
        )
    data = Source(str(tarred(tmp_path / "a.tar", pairs)), labels_key="json")
    asked = Reading(class_names=("dog", "cat", "7"), missing_label="drop")
    assert read(data, asked).labels.tolist() == [1, 2, 0]
    pairs["1.json"] = b'{"class": 7}'
    tarred(tmp_path / "a.tar", pairs)
    with pytest.raises(DataError, match=r"record '1': the label is not a JSON object whose field `label`"):
        read(data, asked)


@pytest.mark.parametrize(
    ("members", "says"),
    [
        (["0.png", "0.json"], "the record lacks .cls: add it"),
        (["cat/0.png", "dog/0.png"], "the record lacks .cls: add it"),
        (["0.left.png", "0.right.png", "0.cls"], "several pictures: choose their ending"),
        (["0.cls"], "no picture: add or remove it"),
    ],
)
def test_a_draft_gives_the_reason_of_a_run(tmp_path: Path, members: list[str], says: str) -> None:
    data = tarred(tmp_path / "a.tar", {name: encoded(GREY[0], "PNG") if "png" in name else b"0" for name in members})
    for call in (draft_text, read):
        with pytest.raises(DataError, match=says):
            call(str(data))


def test_a_draft_of_paths_in_place_of_pictures_says_so(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    structs = [{"bytes": None, "path": f"{at}.png"} for at in range(3)]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    parquet.write_table(pa.table({"image": pa.array(structs, kind), "label": [0, 1, 0]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="store the bytes of files, not their paths"):
        draft_text(str(tmp_path / "a.parquet"))


# In memory


class Items:
    """A dataset."""

    def __init__(self, item: Callable[[int], Any], count: int = len(GREY)) -> None:
        self.item, self.count = item, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> Any:
        return self.item(at)


def test_a_dict_of_columns(tmp_path: Path) -> None:
    pictures = [Image.fromarray(each[0]) for each in GREY]
    for images in (GREY, list(GREY), pictures):
        data = {"age": [1, 2, 3, 4], "img": images, "labels": LABELS}
        assert not is_table(data)
        found = read(data)
        np.testing.assert_array_equal(found.images, GREY)
        assert found.labels.tolist() == LABELS.tolist()
    assert is_table({"age": [1, 2], "labels": [0, 1]})
    with pytest.raises(DataError, match="there is no column 'age_'; the columns are: age, img, labels"):
        read(Source(data, labels_key="age_"))


def test_pictures_of_pillow_of_several_sizes_are_brought_to_the_card() -> None:
    pictures = [Image.fromarray(GREY[0, 0]), Image.fromarray(COLOUR[0].transpose(1, 2, 0)).resize((30, 20))]
    assert read((pictures, [0, 1]), Reading(shape=(1, 12, 12))).images.shape == (2, 1, 12, 12)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_list_of_dicts_with_pictures(count: int) -> None:
    rows = [{"image": Image.fromarray(GREY[at, 0]), "label": int(LABELS[at])} for at in range(count)]
    assert not is_table(rows)
    assert read(rows).labels.tolist() == LABELS[:count].tolist()


def test_picture_files_in_items_are_decoded_and_missing_ones_are_named() -> None:
    raws = [encoded(each, "PNG") for each in GREY]
    for item in (
        lambda at: {"image": {"bytes": raws[at], "path": None}, "label": int(LABELS[at])},
        lambda at: (raws[at], int(LABELS[at])),
    ):
        np.testing.assert_array_equal(read(Items(item)).images, GREY)
    for absent in (0, 2):
        held: list[Any] = [*raws]
        held[absent] = None
        gone = Items([(raw, 0) for raw in held].__getitem__)
        with pytest.raises(DataError, match=rf"item {absent} \(counted from 0\): there is no picture in this item"):
            read(gone)
    with pytest.raises(DataError, match=r"item 0 .*store the bytes of files, not their paths"):
        read(Items(lambda at: {"image": {"bytes": None, "path": "x.png"}, "label": 0}))


def test_a_loader_of_batches_is_told_to_pass_its_dataset() -> None:
    import torch

    loader: Any = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4, 1, 8, 8), torch.zeros(4)))
    with pytest.raises(DataError, match=r"gives batches.* Pass its dataset: loader\.dataset\."):
        read(loader)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("axis", [-1, -2])
def test_a_transform_of_one_in_ten_is_found(symmetric: bool, axis: int) -> None:
    """20 of 20 times, also if half of the pictures are their own mirror images."""
    pictures = np.random.default_rng(3).integers(0, 256, (400, 1, 9, 9), dtype=np.uint8)
    if symmetric:
        pictures[::2] = np.maximum(pictures[::2], np.flip(pictures[::2], axis))

    def turned(coins: np.random.Generator) -> Items:
        return Items(lambda at: (np.flip(pictures[at], axis) if coins.random() < 0.1 else pictures[at], 0), 400)

    for seed in range(20):
        with pytest.raises(DataError, match="is another picture each time it is read"):
            read(turned(np.random.default_rng(seed)))


def test_a_slight_overshoot_is_clipped_and_said() -> None:
    pixels = GREY / np.float64(255) * 1.0005 - 0.0001
    found = read((pixels, LABELS))
    np.testing.assert_allclose(found.images.astype(int), GREY, atol=1)
    assert found.notes == (CLIPPED,)
    assert read((GREY / np.float64(255), LABELS)).notes == ()
    with pytest.raises(DataError, match=r"a pixel outside 0 to 255"):
        read((pixels - 0.01, LABELS))
    with pytest.raises(DataError, match=r"different ranges"):
        read((np.concatenate([GREY[:2] / 255, GREY[2:] / 127]), LABELS))


# Shares and polarity


def test_uneven_classes_are_said_without_figures_unless_asked() -> None:
    images = np.zeros((60, 1, 28, 28), np.uint8)
    (said,) = uneven(Records(images, np.arange(60) // 50), "DATA")
    assert "at least 5 times" in said and "%" not in said
    (said,) = uneven(Records(images, np.arange(60) // 50), "DATA", shares=True)
    assert "The smallest has 16.67% of the records, and the largest 83.33%" in said
    assert uneven(Records(images, np.arange(60) // 49), "DATA") == []
    assert said in draft_text((images, np.arange(60) // 50))[1]


# One picture set in many forms


def nine_forms(folder: Path) -> dict[str, Any]:
    """One set of pictures, whose order is that of its classes."""
    import pyarrow as pa
    import torch
    from pyarrow import parquet

    labels = np.sort(LABELS)
    raws = [encoded(each, "PNG") for each in GREY]
    places = {name: folder / name for name in ("classes", "list", "json", "npy", "idx")}
    for place in places.values():
        place.mkdir(parents=True)
    for at, (raw, label) in enumerate(zip(raws, labels.tolist(), strict=True)):
        (places["classes"] / str(label)).mkdir(exist_ok=True)
        for place in (places["classes"] / str(label), places["list"], places["json"]):
            (place / f"{at}.png").write_bytes(raw)
    rows = [f"{at}.png,{label}" for at, label in enumerate(labels.tolist())]
    (places["list"] / "labels.csv").write_text("\n".join(["file,label", *rows]))
    objects = [json.dumps({"file_name": f"{at}.png", "label": label}) for at, label in enumerate(labels.tolist())]
    (places["json"] / "metadata.jsonl").write_text("\n".join(objects))
    np.savez(folder / "a.npz", images=GREY, labels=labels)
    for name, array in (("images", GREY), ("labels", labels)):
        np.save(places["npy"] / f"{name}.npy", array)
    (places["idx"] / "train-images-idx3-ubyte").write_bytes(idx_bytes(GREY[:, 0]))
    (places["idx"] / "train-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    table = pa.table({"image": raws, "label": labels})
    parquet.write_table(table, folder / "a.parquet")
    with pa.ipc.new_stream(str(folder / "a.arrow"), table.schema) as stream:
        stream.write_table(table)
    pairs = {
        f"{at}.{end}": raw for at in range(4) for end, raw in (("png", raws[at]), ("cls", str(labels[at]).encode()))
    }
    return {
        **{name: str(place) for name, place in places.items()},
        "npz": str(folder / "a.npz"),
        "parquet": str(folder / "a.parquet"),
        "arrow": str(folder / "a.arrow"),
        "tar": str(tarred(folder / "a.tar", pairs)),
        "arrays": (GREY, labels),
        "dict": {"images": GREY, "labels": labels},
        "one-hot": (GREY / np.float32(255), np.eye(2)[labels]),
        "torch": torch.utils.data.TensorDataset(torch.tensor(GREY), torch.tensor(labels)),
        "pillow": ([Image.fromarray(each[0]) for each in GREY], labels.tolist()),
        "items": Items(lambda at: {"image": Image.fromarray(GREY[at, 0]), "label": str(labels[at])}),
    }


def test_one_picture_set_has_one_digest_and_one_release(tmp_path: Path) -> None:
    import gossamer
    from gossamer.privacy.random.noise import Rng
    from gossamer.run.training.progress import Process

    card = DataCard(shape=(1, 12, 12), classes=2, declared_size=4)
    digests, releases = {}, {}
    for name, data in nine_forms(tmp_path).items():
        digests[name] = identify(read(data, card.reading))
        if name in ("json", "npy", "idx", "arrow", "dict", "one-hot"):  # a run takes a second
            continue
        run = gossamer.fit(
            "moments", data=gossamer.Source(data, public_test_data=True), card=card, epsilon=10, delta=1e-4,
            out=tmp_path / "runs" / name, process=Process(progress=False, sink=lambda event: None, rng=Rng(0, noise_seed=1)),
        )  # fmt: skip
        model = (tmp_path / "runs" / name / "model.safetensors").read_bytes()
        releases[name] = (hashlib.sha256(model).hexdigest(), run.sample(6, seed=2).images.tobytes())
    assert len(set(digests.values())) == 1, digests
    assert (len(digests), len(releases)) == (15, 9)
    assert len(set(releases.values())) == 1
