"""Whose record is it: by name for pictures, by position for arrays, and never by chance."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gossamer.data.records import Records
from gossamer.data.source import Reading, Source
from gossamer.data.sources.pictures.read import read
from gossamer.data.split import split
from gossamer.data.units import grouping, matched
from gossamer.errors import DataError
from gossamer.kinds.draft import draft_text
from gossamer.run.storage.data_sources import DataSources

PICTURES = np.random.default_rng(0).integers(0, 256, (6, 4, 4), dtype=np.uint8)
LABELS = [0, 1, 2, 2, 1, 0]
NAMES = ["0/a.png", "1/b.png", "2/c.png", "2/d.png", "1/e.png", "0/f.png"]
OWNERS = ["ann", "bob", "ann", "cy", "bob", "ann"]


def folder(root: Path, names: list[str] = NAMES) -> Path:
    for name, picture in zip(names, PICTURES, strict=False):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(root / name)
    return root


def listed(path: Path, rows: list[tuple[str, str]], head: str = "name,unit") -> str:
    path.write_text("\n".join([head, *(f"{name},{unit}" for name, unit in rows)]) + "\n", encoding="utf-8")
    return str(path)


def owners(records: Records) -> dict[bytes, str]:
    """Who each picture belongs to."""
    assert records.units is not None and records.names is not None
    return {
        image.tobytes(): str(records.names[unit]) for image, unit in zip(records.images, records.units, strict=True)
    }


TRUE = {picture.tobytes(): owner for picture, owner in zip(PICTURES, OWNERS, strict=True)}


def npz(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


# Class folders


@pytest.mark.parametrize("rows", ["paths", "bare names", "shuffled", "in windows", "with more columns"])
def test_a_list_is_matched_by_name_in_whatever_order(tmp_path: Path, rows: str) -> None:
    data, given = folder(tmp_path / "data"), list(zip(NAMES, OWNERS, strict=True))
    head = "name,unit"
    if rows == "bare names":
        given = [(Path(name).name, owner) for name, owner in given]
    if rows == "shuffled":
        given = [("./" + given[index][0], given[index][1]) for index in (3, 5, 0, 2, 4, 1)]
    if rows == "with more columns":
        given, head = [(f"1999,{name}", owner) for name, owner in given], "year,name,unit"
    spec = listed(tmp_path / "people.csv", given, head)
    if rows == "in windows":
        Path(spec).write_bytes(b"\xef\xbb\xbf" + Path(spec).read_bytes().replace(b"\n", b"\r\n"))
    assert owners(read(Source(str(data), units=spec), split="train")) == TRUE


def test_a_folder_read_in_another_order_has_the_same_units(tmp_path: Path) -> None:
    """The ids of the order in which someone else lists the folder gave wrong people their records."""
    spec = listed(tmp_path / "people.csv", list(zip(NAMES, OWNERS, strict=True)))
    renamed = [name.replace("0/", "z/") for name in NAMES]
    other = listed(tmp_path / "renamed.csv", list(zip(renamed, OWNERS, strict=True)))
    first = read(Source(str(folder(tmp_path / "a")), units=spec), split="train")
    second = read(Source(str(folder(tmp_path / "b", renamed)), units=other), split="train")
    assert first.images.tobytes() != second.images.tobytes()
    assert owners(first) == owners(second) == TRUE


def test_arrays_have_no_place_in_folders_nor_names_in_arrays(tmp_path: Path) -> None:
    data, ids = folder(tmp_path / "data"), npz(tmp_path / "ids.npz", writer=np.arange(6))
    with pytest.raises(DataError, match=r"pictures in folders have no order.*FILE\.csv"):
        read(Source(str(data), units=f"{ids}:writer"), split="train")
    arrays = npz(tmp_path / "a.npz", images=PICTURES, labels=LABELS)
    spec = listed(tmp_path / "people.csv", list(zip(NAMES, OWNERS, strict=True)))
    for wrong in (spec, "folder"):
        with pytest.raises(DataError, match=r"is for pictures in folders.*FILE\.npz:KEY"):
            read(Source(arrays, units=wrong), split="train")


def test_one_list_serves_both_splits(tmp_path: Path) -> None:
    names = [("train/" if index < 4 else "test/") + name for index, name in enumerate(NAMES)]
    data = folder(tmp_path / "data", names)
    spec = listed(tmp_path / "people.csv", list(zip(names, OWNERS, strict=True)))
    found = {}
    for side in ("train", "test"):
        found |= owners(read(Source(f"{data}:{side}", units=spec), split="train"))
    assert found == TRUE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows[1:], "no row names the picture 0/a.png"),
        (lambda rows: [*rows, rows[2]], "row 6 .*: row 2 names this picture too"),
        (lambda rows: [*rows, ("c.png", "ann")], "row 6 .*: row 2 names this picture too"),
        (lambda rows: [*rows, ("2/x.png", "ann")], "row 6 .*: there is no such picture"),
        (lambda rows: [*rows, ("../2/c.png", "ann")], "row 6 .*: there is no such picture"),
        (lambda rows: [rows[0], ("1/b.png", ""), *rows[2:]], "row 1 .*: this record has no unit"),
        (lambda rows: [rows[0], ("1/b.png", "  "), *rows[2:]], "row 1 .*: this record has no unit"),
        (lambda rows: [rows[0], ("1/b.png", "#N/A"), *rows[2:]], "row 1 .*: the id of the unit is a word that"),
        (lambda rows: [rows[0], ("1/b.png", "4.61E+18"), *rows[2:]], "row 1 .*: .* different ids may have become one"),
        (
            lambda rows: [rows[0], ("1/b.png", "9007199254740994.0"), *rows[2:]],
            "row 1 .*: .* different ids may have become",
        ),
        (lambda rows: [rows[0], ("1/b.png", "NaN"), *rows[2:]], "row 1 .*: the id of the unit is a word that"),
        (lambda rows: [rows[0], ("1/b.png", "x,y"), *rows[2:]], "row 1 .*: it has another number of cells"),
    ],
    ids=[
        "none",
        "twice",
        "twice, once bare",
        "of nothing",
        "from above",
        "empty",
        "a space",
        "a word of spreadsheets",
        "rounded by a spreadsheet",
        "rounded by pandas",
        "a word",
        "too long",
    ],
)
def test_a_list_that_does_not_fit_is_refused_by_line(tmp_path: Path, change: Any, says: str) -> None:
    rows = list(zip(NAMES, OWNERS, strict=True))
    spec = listed(tmp_path / "people.csv", change(rows))
    with pytest.raises(DataError, match=says) as caught:
        read(Source(str(folder(tmp_path / "data")), units=spec), split="train")
    assert str(tmp_path / "people.csv") in str(caught.value)
    assert not any(owner in str(caught.value) for owner in ("ann", "bob"))


def test_a_bare_name_that_two_pictures_have_is_refused(tmp_path: Path) -> None:
    names = ["0/a.png", "1/a.png"]
    data = folder(tmp_path / "data", names)
    with pytest.raises(DataError, match=r"row 0 .*: several pictures have this name"):
        read(
            Source(str(data), units=listed(tmp_path / "people.csv", [("a.png", "ann"), ("1/a.png", "bob")])),
            split="train",
        )


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "the file or its first line is empty"),
        (b"picture,unit\n", "a column of pictures .file_name. and a column unit, and it names picture, unit"),
        (b"name,unit\n\xff,a\n", "row 0 .*: there is no such picture"),
        (b'name,unit\n"0/a.png,ann\n', "no sound CSV: a quote"),
        (None, "cannot be read"),
    ],
)
def test_a_damaged_list_is_refused(tmp_path: Path, raw: bytes | None, says: str) -> None:
    if raw is not None:
        (tmp_path / "people.csv").write_bytes(raw)
    with pytest.raises(DataError, match=says):
        read(Source(str(folder(tmp_path / "data")), units=str(tmp_path / "people.csv")), split="train")


def test_a_folder_of_each_unit_below_its_classes(tmp_path: Path) -> None:
    names = [f"{name[0]}/{owner}/{name[2:]}" for name, owner in zip(NAMES, OWNERS, strict=True)]
    data = str(folder(tmp_path / "data", names))
    records = read(Source(data, units="folder"), split="train")
    assert owners(records) == TRUE
    assert records.population == 3
    assert sorted(records.labels) == sorted(LABELS)
    with pytest.raises(DataError, match=r"0/ann, .*2/cy: .*a folder of each unit only with `units=folder`"):
        read(data, split="train")
    looked = read(data, Reading(unit_folders=True), split="train")
    assert looked.units is None
    np.testing.assert_array_equal(looked.images, records.images)
    folder(Path(data), ["0/lost.png"])
    with pytest.raises(DataError, match=r"0/lost\.png: this record has no unit"):
        read(Source(data, units="folder"), split="train")
    assert read(Source(data, units="folder"), Reading(missing_unit="own"), split="train").population == 4
    (Path(data) / "0" / "ann" / "deeper").mkdir()
    with pytest.raises(DataError, match="deeper: a class folder holds"):
        read(Source(data, units="folder"), split="train")


# Arrays


@pytest.mark.parametrize(
    "ids", [[70.0, np.nan, 30, 70, np.nan, 30], ["x", "", "a", " x ", " ", "a"], [b"x", b"", b"a", b"x", b" ", b"a"]]
)
def test_ids_are_numbers_or_text_and_a_missing_one_is_refused(tmp_path: Path, ids: list[Any]) -> None:
    spec = npz(tmp_path / "ids.npz", who=np.array(ids)) + ":who"
    data = npz(tmp_path / "a.npz", images=PICTURES, labels=LABELS)
    with pytest.raises(
        DataError, match=r"index 1 \(counted from 0\), .*index 4 .*: this record has no unit.*missing_unit"
    ):
        read(Source(data, units=spec), split="train")
    records = read(Source(data, units=spec), Reading(missing_unit="own"), split="train")
    assert records.units is not None and records.names is not None
    assert records.units.dtype == np.int64
    assert records.units.tolist() == [1, 2, 0, 1, 3, 0]
    assert records.names.tolist() == [*(["30", "70"] if ids[0] == 70 else ["a", "x"]), "", ""]
    assert records.population == 4 and records.without_id == 2


def test_a_negative_number_is_an_id(tmp_path: Path) -> None:
    """Half of all signed hashes are negative. They were taken for missing ids, so that each record was a person."""
    data = npz(tmp_path / "a.npz", images=PICTURES, labels=LABELS, who=np.array([-7, -1, -(2**62), -7, -1, 5]))
    found = read(Source(data, units=":who"), split="train")
    assert (found.population, found.without_id) == (4, 0)
    listing = listed(tmp_path / "people.csv", list(zip(NAMES, ["-7", "-1", "x", "-7.0", " -1", "-7"], strict=True)))
    assert read(Source(str(folder(tmp_path / "data")), units=listing), split="train").population == 3


@pytest.mark.parametrize(
    ("texts", "people"),
    [
        (["12", "12.0", "012", "+12", "12.", " 0012.00 "], 1),
        (["12", "-12", "-012.0", "+12", "-0", "000"], 3),
        (["0.5", ".50", "5e-1", "-0", "0", "-0.0"], 4),
        (["1000", "1e03", "0x3E8", "1.2e1", "12", "00e5"], 6),
        (["1_2", "12", "\uff11\uff12", "P12", "12a", "1.2.3"], 6),
        (["4611686018427387905", "4611686018427387904", "04611686018427387905", "12e34", "12e340", "9" * 5000], 5),
        (["true", "True", "0x1a", "26", "inf", "e5"], 6),
    ],
    ids=["whole", "signs", "parts", "hashes", "texts", "long", "words"],
)
def test_a_whole_number_is_one_id_with_zeros_in_front_or_behind(tmp_path: Path, texts: list[str], people: int) -> None:
    """As exports and guessed types change them. No more than that is one: two persons of one id would be bounded together."""
    data = npz(tmp_path / "a.npz", images=PICTURES, labels=LABELS, who=np.array(texts))
    assert read(Source(data, units=":who"), split="train").population == people


def test_one_person_in_two_spellings_is_one_unit(tmp_path: Path) -> None:
    ids = np.array(["M\u00fcller", "Mu\u0308ller", " M\u00fcller", "Muller", "muller", "Muller"])
    data = npz(tmp_path / "a.npz", images=PICTURES, labels=LABELS, who=ids)
    assert read(Source(data, units=":who"), split="train").population == 3


def test_ids_beside_the_pictures_follow_the_split(tmp_path: Path) -> None:
    arrays = {"train_images": PICTURES, "train_labels": LABELS, "test_images": PICTURES[:2], "test_labels": LABELS[:2]}
    data = npz(
        tmp_path / "a.npz", **arrays, train_who=np.array(OWNERS), test_who=np.array(["x", "y"]), who=np.arange(6)
    )
    assert owners(read(Source(data, units=":who"), split="train")) == TRUE
    assert read(Source(data, units=f"{data}:who"), split="test").names.tolist() == ["x", "y"]


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    data = npz(tmp_path / "a.npz", images=PICTURES, labels=LABELS)
    beyond = np.full(6, 0x110000, np.uint32).view("<U1")  # no such character
    arrays = {
        "who": np.arange(6),
        "short": np.arange(5),
        "f": np.ones((6, 1)),
        "truth": np.ones(6, bool),
        "single": np.arange(6, dtype=np.float32) + 2**24,
        "bad": np.array([b"\xff"] * 6),
        "beyond": beyond,
    }
    ids = npz(tmp_path / "ids.npz", **arrays)
    for key, says in (
        ("short", r"6 records need one unit each.*same split"),
        ("f", r"whole numbers or text, one for each record, and not float64 of shape \[6, 1\]"),
        ("truth", "whole numbers or text, .* not bool"),
        ("single", "index 0 .*different ids may have become one"),
        ("client", "no key client or train_client; the keys are: who, short, f"),
        ("bad", "index 0 .*not text in UTF-8"),
        ("beyond", "holds what is no text"),
    ):
        with pytest.raises(DataError, match=says):
            read(Source(data, units=f"{ids}:{key}"), split="train")
    for spec in ("ids.npz", "ids.npz:"):
        with pytest.raises(DataError, match=r"FILE\.npz:KEY"):
            read(Source(data, units=spec), split="train")
    with pytest.raises(DataError, match="no such file"):
        read(Source(data, units="none.npz:who"), split="train")
    with pytest.raises(DataError, match=r"FILE\.npz:KEY"):
        read(Source("digits", units=":who"), split="train")


# Patterns of file names

OF_PATIENTS = ["0/P1_a.png", "1/P2_a.png", "2/P1_b.png", "2/P3_a.png", "1/P2_b.png", "0/P1_c.png"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("(P[0-9]+)_", ["P1", "P2", "P3"]),
        ("^(.+)_", ["P1", "P2", "P3"]),  # of the file name, without its folder
        ("([0-9])/P", ["0", "1", "2"]),  # with a slash: of the path
        ("(?:P)([0-9]+)_([a-c])", ["1", "2", "3"]),  # the first group
    ],
)
def test_a_pattern_names_the_unit_of_each_picture(tmp_path: Path, pattern: str, names: list[str]) -> None:
    data = folder(tmp_path / "data", OF_PATIENTS)
    found = read(Source(str(data), units=pattern), split="train")
    assert found.names is not None and found.names.tolist() == names
    if "P1" in names:
        whose = [name.partition("/")[2][:2] for name in OF_PATIENTS]
        expected = {picture.tobytes(): owner for picture, owner in zip(PICTURES, whose, strict=True)}
        assert owners(found) == expected


def test_names_that_a_pattern_does_not_match_are_counted_and_not_told(tmp_path: Path) -> None:
    names = ["0/P1_a.png", "1/Smith.png", "2/P1_b.png", "2/Jones.png", "1/P_.png", "0/P1_c.png"]
    data = folder(tmp_path / "data", names)
    with pytest.raises(DataError, match=r"3 of 6 names of pictures do not match") as refused:
        read(Source(str(data), units="P([0-9]*)_"), split="train")
    assert not any(name in str(refused.value) for name in ("Smith", "Jones", "P1"))
    alone = read(Source(str(data), units="P([0-9]*)_"), Reading(missing_unit="own"), split="train")
    assert alone.names is not None and alone.names.tolist() == ["1", "", "", ""]


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(P[0-9]+", "no regular expression"),
        (r"\(P", "needs a group"),
        ("P[0-9]+", r"no order.*'\(PATTERN\)'"),
    ],
)
def test_a_pattern_that_is_none_is_refused(tmp_path: Path, pattern: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read(Source(str(folder(tmp_path / "data", OF_PATIENTS)), units=pattern), split="train")


def test_a_pattern_is_kept_as_it_is_and_names_no_file(tmp_path: Path) -> None:
    for units in ("(P[0-9]+)_", "dicom:PatientID"):
        sources = DataSources.of(Source(str(folder(tmp_path / "data", OF_PATIENTS)), units=units))
        assert sources.data.units == units
    assert [matched(spec) for spec in ("(a)", "dicom:PatientID", "a (1).csv", "a (1).npz:k", ":k", "folder", None)] == [
        "pattern", "dicom", "name", "position", "position", "folder", "none",
    ]  # fmt: skip


def test_a_split_by_a_pattern_keeps_people_whole(tmp_path: Path) -> None:
    names = [f"{number % 2}/P{number // 3}_{number}.png" for number in range(60)]
    for name in names:
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PICTURES[0]).save(tmp_path / "data" / name)
    done = split(Source(str(tmp_path / "data"), units="(P[0-9]+)_"), out=tmp_path / "parts", share=0.4)
    assert done.spec == "(P[0-9]+)_" and sum(done.units) == 20
    sides = [read(Source(f"{tmp_path / 'parts'}:{side}", units=done.spec), split="train") for side in ("train", "test")]
    people = [set(side.names.tolist()) for side in sides if side.names is not None]
    assert people[0].isdisjoint(people[1]) and len(people[0] | people[1]) == 20


@pytest.mark.parametrize(
    ("names", "classes", "sign"),
    [
        (OF_PATIENTS, 2, "_"),
        ([name.replace("_", "-") for name in OF_PATIENTS], 2, "-"),
        (OF_PATIENTS, 3, ""),  # as many groups as classes
        ([f"0/cat_{number}.png" for number in range(6)], 1, ""),
        ([f"0/P{number}_1.png" for number in range(6)], 1, ""),  # one picture of each
        ([f"0/{number}.png" for number in range(6)], 1, ""),
        ([*OF_PATIENTS, "0/other.png"], 2, ""),
    ],
)
def test_names_in_groups_are_noticed(names: list[str], classes: int, sign: str) -> None:
    assert grouping(names, classes) == sign


def test_card_says_that_names_come_in_groups_and_what_units_look_wrong(tmp_path: Path) -> None:
    data = str(folder(tmp_path / "data", [name.replace("2/", "1/") for name in OF_PATIENTS]))
    [said] = [hint for hint in draft_text(data)[1] if "groups" in hint]
    assert "add `units='(.+)_'` to every command" in said and "P1" not in said
    assert not [hint for hint in draft_text(Source(data, units="(.+)_"))[1] if "groups" in hint or "unit" in hint]
    assert any("Each record has a unit of its own" in hint for hint in draft_text(Source(data, units="(.+)"))[1])
    assert any("All records belong to one unit" in hint for hint in draft_text(Source(data, units="(P)"))[1])
