"""DICOM as archives export it: no endings, windows, palettes, and patients whose id is hashed as it is read."""

import csv
from pathlib import Path

import numpy as np
import pytest
from forms import COLOUR, GREY, LABELS, dicom_bytes, in_classes

from gossamer.data.card import DataCard
from gossamer.data.pixels.polarity import CROWDED, crowded
from gossamer.data.pixels.to_uint8 import SCALED, WINDOWED, scaled
from gossamer.data.records import Records
from gossamer.data.source import Reading, Source
from gossamer.data.sources.pictures import decode_workers, dicom, image_files
from gossamer.data.sources.pictures.read import read
from gossamer.errors import DataError, RequestError
from gossamer.events import Event
from gossamer.kinds import draft

TWELVE = {"BitsStored": 12, "HighBit": 11}
DEEP = np.random.default_rng(0).integers(0, 4096, (4, 6, 8), dtype=np.uint16)


def scans(folder: Path, pictures=DEEP, suffix: str = "", **elements) -> str:
    """Class folders of DICOM files of 12 bits."""
    in_classes(folder, [dicom_bytes(each, **(TWELVE | elements)) for each in pictures], suffix)
    return str(folder)


def one(folder: Path, pixels: np.ndarray, *, pixel_range=None, window=False, **elements) -> Records:
    in_classes(folder, [dicom_bytes(pixels, **elements)] * 4, ".dcm")
    return read(str(folder), Reading(pixel_range=pixel_range, window=window), split="train")


# Files without an ending


@pytest.mark.parametrize("suffix", ["", ".IMA", ".840.113619"])
def test_files_without_an_ending_are_dicom_by_their_first_bytes(tmp_path, suffix):
    found = read(scans(tmp_path / "a", suffix=suffix), Reading(pixel_range=(0, 4095)), split="train")
    by_ending = read(scans(tmp_path / "b", suffix=".dcm"), Reading(pixel_range=(0, 4095)), split="train")
    np.testing.assert_array_equal(found.images, by_ending.images)
    assert found.labels.tolist() == sorted(LABELS)


def test_the_index_of_an_archive_is_no_picture_and_other_files_are_refused(tmp_path):
    data = scans(tmp_path)
    (tmp_path / "0" / "DICOMDIR").write_bytes(dicom_bytes(GREY[0, 0]))
    assert len(read(data, Reading(pixel_range=(0, 4095)), split="train")) == 4
    (tmp_path / "0" / "README").write_text("x" * 200)
    with pytest.raises(DataError, match=r"README: a class folder holds .*DICOM files without an ending only: move it"):
        read(data, Reading(pixel_range=(0, 4095)), split="train")


def test_an_export_is_read_by_its_list_of_labels(tmp_path):
    """Files below folders of patients and series, beside one list: the form in which an archive hands them out."""
    names = [f"PAT{number // 2}/SE1/IM{number}" for number in range(4)]
    for name, pixels in zip(names, DEEP, strict=True):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(dicom_bytes(pixels, **TWELVE))
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "diagnosis"), *zip(names, "abba", strict=True)])
    found = read(
        Source(str(tmp_path), labels_key="diagnosis", units="(PAT[0-9]+)/"),
        Reading(pixel_range=(0, 4095)),
        split="train",
    )
    assert (found.class_names, found.labels.tolist()) == (("a", "b"), [0, 1, 1, 0])
    assert (found.names.tolist(), found.units.tolist()) == (["PAT0", "PAT1"], [0, 0, 1, 1])
    np.testing.assert_array_equal(found.images[:, 0], scaled(DEEP, (0, 4095)))


# Scales


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16, np.int32])
def test_a_table_of_values_gives_what_scaling_each_pixel_gives(kind):
    """The table of at most 16 bits must keep every bit, the sign included."""
    limits = np.iinfo(kind)
    least, most = max(limits.min, -40_000), min(limits.max, 40_000)
    stored = np.random.default_rng(1).integers(least, most, (9, 7), endpoint=True).astype(kind)
    for rescale, ends in (((1.0, 0.0), (0, 4095)), ((-0.5, 7.25), (-1000, 1000))):
        found = dicom.Pixels(stored, False, False, rescale, (0, 1)).scaled(ends)
        slope, intercept = map(np.float32, rescale)
        np.testing.assert_array_equal(found, scaled(stored * slope + intercept, ends))
        assert found.shape == stored.shape and found.dtype == np.uint8


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ({"WindowCenter": 2048, "WindowWidth": 4096}, [0, 127, 255]),  # LINEAR: 0 is black, 4095 is white
        ({"WindowCenter": 1024, "WindowWidth": 1}, None),
        ({"WindowCenter": 1000, "WindowWidth": 2000, "VOILUTFunction": "LINEAR_EXACT"}, [0, 255, 255]),
        ({"WindowCenter": [2048, 40], "WindowWidth": [4096, 80]}, [0, 127, 255]),
        ({"WindowCenter": 2048, "WindowWidth": 4096, "PhotometricInterpretation": "MONOCHROME1"}, [255, 128, 0]),
        ({"WindowCenter": 1024, "WindowWidth": 4096, "RescaleSlope": 1, "RescaleIntercept": -1024}, [0, 127, 255]),
        ({"WindowCenter": 2048, "WindowWidth": 4096, "VOILUTFunction": "SIGMOID"}, None),
        ({}, None),
    ],
)
def test_a_file_is_scaled_by_its_own_window_where_the_card_says_so(tmp_path, elements, expected):
    pixels = np.array([[0, 2047, 4095]], np.uint16)
    if expected is None:
        with pytest.raises(DataError, match=r"declares no linear display window.*pixel_range=\(0, 4095\)"):
            one(tmp_path, pixels, window=True, **TWELVE, **elements)
        found = one(tmp_path, pixels, window=True, pixel_range=(0, 4095), **TWELVE, **elements)
        assert found.images[0, 0, 0].tolist() == [0, 127, 255] and SCALED in found.notes
        return
    found = one(tmp_path, pixels, window=True, **TWELVE, **elements)
    assert found.images[0, 0, 0].tolist() == expected
    assert found.notes == (WINDOWED,)


def test_a_window_is_passed_over_unless_the_card_says_so(tmp_path):
    found = one(
        tmp_path, np.array([[0, 4095]], np.uint16), pixel_range=(0, 8190), WindowCenter=9, WindowWidth=9, **TWELVE
    )
    assert found.images[0, 0, 0].tolist() == [0, 128]


def test_the_window_of_one_file_moves_no_other(tmp_path):
    """A scale that several files share would let one record change all others."""
    folders = []
    for name, width in (("a", 4096), ("b", 100)):
        raws = [dicom_bytes(each, WindowCenter=2048, WindowWidth=4096, **TWELVE) for each in DEEP[:3]]
        raws.append(dicom_bytes(DEEP[3], WindowCenter=2048, WindowWidth=width, **TWELVE))
        in_classes(tmp_path / name, raws, ".dcm")
        folders.append(read(str(tmp_path / name), Reading(window=True), split="train").images)
    same = [np.array_equal(one, other) for one, other in zip(*folders, strict=True)]
    assert same == [True, False, True, True]  # the last file is the second of class 0


@pytest.mark.parametrize(("bits", "depth"), [(8, np.uint8), (16, np.uint16)])
def test_a_palette_gives_its_colours(tmp_path, bits, depth):
    reds, greens, blues = ((np.arange(4) * step % 256).astype(depth) << (bits - 8) for step in (60, 90, 20))
    elements = {"PhotometricInterpretation": "PALETTE COLOR"}
    for name, values in zip(("Red", "Green", "Blue"), (reds, greens, blues), strict=True):
        elements[f"{name}PaletteColorLookupTableDescriptor"] = [4, 0, bits]
        elements[f"{name}PaletteColorLookupTableData"] = values.tobytes()
    found = one(tmp_path, np.array([[0, 1], [2, 3]], np.uint8), **elements)
    assert found.images[0].reshape(3, 4).tolist() == [[0, 60, 120, 180], [0, 90, 180, 14], [0, 20, 40, 60]]


def test_ybr_becomes_rgb(tmp_path):
    """Y, Cb, Cr of pure red are 76, 85 and 255: DICOM PS3.3, C.7.6.3.1.2."""
    pixels = np.full((2, 2, 3), (76, 85, 255), np.uint8)
    red = one(tmp_path, pixels, PhotometricInterpretation="YBR_FULL").images[0, :, 0, 0].astype(int)
    assert np.abs(red - [254, 0, 0]).max() <= 1


def test_a_card_says_whether_windows_serve():
    card = DataCard.loads("shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 10\nwindow = true")
    assert card.reading.window is True and "window = true" in card.dumps()
    with pytest.raises(Exception, match="window must be true or false"):
        DataCard.loads("shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 10\nwindow = 40")


# Pixels in a corner of the range


@pytest.mark.parametrize(
    ("top", "said"),
    [(4095, False), (2000, False), (1000, True)],
)
def test_pixels_that_crowd_into_a_corner_are_said_without_a_value(tmp_path, top, said):
    """Declared: 12 bits. The pixels reach `top`."""
    pictures = np.linspace(0, top, 4 * 48).reshape(4, 6, 8).astype(np.uint16)
    pictures = np.stack([np.roll(pictures.reshape(-1)[::4], shift).reshape(6, 8) for shift in range(4)])
    text, hints = draft.draft_text(scans(tmp_path, pictures), pixel_range=(0, 4095))
    assert (CROWDED in hints) is said
    assert str(top) not in " ".join(hints) and DataCard.loads(text).pixel_range == (0, 4095)


def test_a_bright_spot_and_a_bright_corner_are_crowded_too():
    dark = np.full((20, 1, 28, 28), 30, np.uint8)
    dark[:, :, :2, :3] = 255
    labels = np.zeros(20, np.int64)
    assert crowded(Records(dark, labels)) and crowded(Records(255 - dark, labels))
    dark[:, :, :4, :4] = 255
    assert not crowded(Records(dark, labels))
    assert not crowded(Records(dark[:0], labels[:0]))


# Patients


def patients(folder: Path, ids: list[str | None], **elements) -> str:
    raws = [dicom_bytes(each, PatientID=patient, **TWELVE, **elements) for each, patient in zip(DEEP, ids, strict=True)]
    in_classes(folder, raws, "")
    return str(folder)


def test_patients_are_read_from_the_head_and_only_a_hash_is_kept(tmp_path, monkeypatch):
    data = patients(tmp_path, ["P-77", "P-88", " P-88 ", "P-77"])
    found = read(Source(data, units="dicom:PatientID"), Reading(pixel_range=(0, 4095)), split="train")
    assert found.population == 2
    assert (found.units[0] == found.units[1]) and (found.units[2] == found.units[3])  # 0/0, 0/3 and 1/1, 1/2
    kept = [*found.names.tolist(), *map(repr, vars(found).values())]
    assert not any("P-77" in text or "P-88" in text for text in kept)
    assert all(len(name) == 32 for name in found.names)
    again = read(Source(data, units="dicom:PatientID"), Reading(pixel_range=(0, 4095)), split="train")
    assert again.names.tolist() == found.names.tolist()  # a public share and a split go by the name


@pytest.mark.parametrize("missing", ["", " ", "none", "1.5E+18"])
def test_a_missing_patient_is_refused_and_no_id_is_printed(tmp_path, missing):
    data = patients(tmp_path, ["P-77", missing, "P-88", "P-77"])
    with pytest.raises(DataError) as refused:
        read(Source(data, units="dicom:PatientID"), Reading(pixel_range=(0, 4095)), split="train")
    assert "1/1: " in str(refused.value) and "P-" not in str(refused.value)
    if not missing.strip():
        alone = read(
            Source(data, units="dicom:PatientID"), Reading(pixel_range=(0, 4095), missing_unit="own"), split="train"
        )
        assert alone.population == 3


def test_a_patient_with_a_negative_number_is_a_patient(tmp_path):
    """They were taken for missing, and each scan for a patient. Their number was kept as it is."""
    data = patients(tmp_path, ["-7", "P-88", "-7.0", "-7"])
    found = read(Source(data, units="dicom:PatientID"), Reading(pixel_range=(0, 4095)), split="train")
    assert found.population == 2 and all(len(name) == 32 for name in found.names)


def test_units_from_heads_that_are_not_there(tmp_path):
    data = patients(tmp_path, ["P-77"] * 4)
    with pytest.raises(RequestError, match=r"no element of this name. Did you mean 'PatientID'\?"):
        read(Source(data, units="dicom:Patientid"), Reading(pixel_range=(0, 4095)), split="train")
    for number in range(2):
        (tmp_path / "0" / f"x{number}.png").write_bytes(image_files_png())
    with pytest.raises(DataError, match=r"2 of 6 pictures are no sound DICOM files") as refused:
        read(Source(data, units="dicom:PatientID"), Reading(pixel_range=(0, 4095), shape=(1, 6, 8)), split="train")
    assert "x0" not in str(refused.value)


def image_files_png() -> bytes:
    from forms import encoded

    return encoded(GREY[0], "PNG")


def test_an_element_after_a_long_head_is_found(tmp_path):
    """The head is read first. Where a thumbnail fills it, the rest follows."""
    data = patients(tmp_path, ["P-1", "P-2", "P-1", "P-2"], TextValue="x" * (1 << 17))
    assert read(Source(data, units="dicom:PatientID"), Reading(pixel_range=(0, 4095)), split="train").population == 2
    assert dicom.head(tmp_path / "0" / "0") == (6, 8, False)


# Progress, and reading once


def test_reading_shows_its_progress_in_per_cent(tmp_path, monkeypatch):
    """The number of pictures is not public, and no event says it."""
    monkeypatch.setattr(image_files, "_SILENT", -1.0)
    events: list[Event] = []
    read(scans(tmp_path), Reading(pixel_range=(0, 4095)), split="train", sink=events.append)
    assert [(event.kind, event.phase, event.step, event.values["of"]) for event in events] == [
        ("progress", "reading pictures (per cent)", done, 100) for done in (0, 25, 50, 75, 100)
    ]


def test_progress_has_no_event_for_each_picture(monkeypatch):
    """Whoever counts the events must not learn how many pictures there are."""
    monkeypatch.setattr(image_files, "_SILENT", -1.0)
    events: list[Event] = []
    sources = [(str(number), Path(str(number))) for number in range(5_000)]
    assert list(image_files.counted(sources, 5_000, "reading", events.append)) == sources
    assert [event.step for event in events] == list(range(101))


def test_a_quick_reading_is_silent(tmp_path):
    events: list[Event] = []
    read(scans(tmp_path), Reading(pixel_range=(0, 4095)), split="train", sink=events.append)
    assert events == []


def test_workers_begin_when_pictures_take_long(tmp_path, monkeypatch):
    monkeypatch.setattr(decode_workers, "_SECONDS", -1.0)
    begun = []
    worker = decode_workers._Worker
    monkeypatch.setattr(decode_workers, "_Worker", lambda decoder: begun.append(1) or worker(decoder))
    found = read(scans(tmp_path), Reading(pixel_range=(0, 4095)), split="train")
    assert begun == [1]
    np.testing.assert_array_equal(found.images[0, 0], scaled(DEEP[0], (0, 4095)))


def test_all_unreadable_files_are_named_at_once(tmp_path):
    data = scans(tmp_path, suffix=".dcm")
    for name in ("0/0.dcm", "1/1.dcm", "1/2.dcm"):
        (tmp_path / name).write_bytes(b"no")
    with pytest.raises(DataError, match=r"there are 3 problems with the data") as refused:
        read(data, Reading(pixel_range=(0, 4095)), split="train")
    assert all(name in str(refused.value) for name in ("0/0.dcm", "1/1.dcm", "1/2.dcm"))


def test_colour_stays_colour(tmp_path):
    found = one(tmp_path, COLOUR[0].transpose(1, 2, 0), window=True, WindowCenter=9, WindowWidth=9)
    np.testing.assert_array_equal(found.images[0], COLOUR[0])
