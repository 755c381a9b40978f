"""All problems of a data set are told at once: the first five, then how many more there are. Never a value of a record."""

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forms import GREY, encoded
from PIL import Image

from gossamer.data.problems import FORMS, Problems, records
from gossamer.data.source import Reading, Source
from gossamer.data.sources.pictures.read import read
from gossamer.data.split import split
from gossamer.errors import DataError

PICTURE = encoded(GREY[0], "PNG")
BROKEN = b"\x89PNG\r\n\x1a\nrubbish"
TEXT = f"Gossamer learns from pictures and tables. Give {FORMS}."
UNREADABLE = "this cannot be read as a picture: mend or remove it"


def told(source: object, **asked: Any) -> list[str]:
    """The lines of the refusal."""
    with pytest.raises(DataError) as refused:
        read(Source(str(source), units=asked.pop("units", None)), Reading(**asked))
    return str(refused.value).split("\n")


def folder(root: Path, broken: tuple[int, ...], count: int = 12) -> Path:
    for at in range(count):
        path = root / str(at % 2) / f"{at:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(BROKEN if at in broken else PICTURE)
    return root


def test_one_problem_is_a_sentence_and_five_are_named_by_kind() -> None:
    problems = Problems()
    problems.refuse()
    problems.add("a", DataError("a: no picture"))
    with pytest.raises(DataError, match=r"^a: no picture$"):
        problems.refuse()
    for place in "bcd":
        problems.add(place, "twice")
    for place in "efghijkl":
        problems.add(place, DataError("no picture"))
    with pytest.raises(DataError) as refused:
        problems.refuse()
    assert str(refused.value).split("\n") == [
        "there are 12 problems with the data:",
        "  a, e: no picture",
        "  b, c, d: twice",
        "  ... and 7 more",
    ]


@pytest.mark.parametrize(
    ("positions", "says"),
    [
        ([], ""),
        ([3], "record 3 (counted from 0)"),
        ([3, 7], "records 3, 7 (counted from 0)"),
        (range(17), "records 0, 1, 2, 3, 4 (counted from 0) and 12 more"),
    ],
)
def test_records_by_position(positions: Any, says: str) -> None:
    assert records(positions) == says


def test_every_bad_picture_of_a_folder_is_told(tmp_path: Path) -> None:
    root = folder(tmp_path, (0, 3, 4, 5, 6, 8, 9))
    Image.new("L", (3, 3)).save(root / "1" / "01.png")
    (root / "1" / "11.png").unlink()
    (root / "1" / "11.png").hardlink_to(root / "0" / "02.png")
    differs = f"the picture differs from {root}/0/02.png in size or colour"
    head, first, second, more = told(root)
    assert head == "there are 9 problems with the data:"
    assert first == "  " + ", ".join(f"{root}/0/{name}.png" for name in ("00", "04", "06", "08")) + f": {UNREADABLE}"
    assert second.startswith(f"  {root}/1/01.png: {differs}")
    assert more == "  ... and 4 more"
    Image.new("L", (3, 3)).save(root / "0" / "00.png")
    (root / "1" / "11.png").unlink()
    assert told(root, shape=(1, 28, 28))[0] == "there are 6 problems with the data:"


def test_the_card_command_names_them_all_even_if_the_first_is_one(gossamer: Any, tmp_path: Path) -> None:
    root = folder(tmp_path, (0, 7))
    answer = gossamer("card", root)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err == (
        f"gossamer: there are 2 problems with the data:\n  {root}/0/00.png, {root}/1/07.png: {UNREADABLE}\n"
    )


def test_files_and_folders_of_no_class(tmp_path: Path) -> None:
    root = folder(tmp_path, ())
    for name in ("loose.png", "0/notes.txt", "1/more.csv"):
        (root / name).write_bytes(PICTURE)
    (root / "0" / "ann").mkdir()
    head, *lines = told(root)
    assert head == "there are 4 problems with the data:"
    assert lines[0] == f"  {root}/loose.png: this picture lies beside the class folders and is of no class: move it"
    assert [line.split(": ")[0] for line in lines[1:]] == [
        f"  {root}/0/ann",
        f"  {root}/0/notes.txt, {root}/1/more.csv",
    ]


def test_a_split_names_all_pictures_that_it_cannot_read(tmp_path: Path) -> None:
    root = folder(tmp_path / "data", (1, 2))
    with pytest.raises(
        DataError, match=r"2 problems with the data:\n  .*02\.png, .*01\.png: this cannot be read as a picture"
    ):
        split(str(root), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_arrays_name_the_records(tmp_path: Path) -> None:
    images = np.tile(GREY, (5, 1, 1, 1))
    labels = np.arange(20) % 2
    path = tmp_path / "a.npz"
    wrong = images.astype(np.float32)
    wrong[[2, 3, 5, 8, 13, 19]] = np.nan
    wrong[0] = 54321
    np.savez(path, images=wrong, labels=labels)
    what = "images 2, 3, 5, 8, 13 (counted from 0) and 1 more: a pixel that is NaN or infinite: mend or remove it"
    assert told(path) == [f"{path}: {what}"]
    np.savez(path, images=images.astype(np.int16) * 99, labels=labels)
    assert told(path)[0].startswith(
        f"{path}: images 0, 1, 2, 3, 4 (counted from 0) and 15 more: a pixel outside 0 to 255"
    )
    np.savez(path, images=images, labels=np.where(labels, -777, 1))
    said = told(path)[0].removeprefix(str(path))
    assert said.startswith(": no label was found for records 1, 3, 5, 7, 9 (counted from 0) and 5 more")
    assert "777" not in said and "54321" not in said
    np.savez(path, images=images, labels=np.where(labels, "secretosis", "a"))
    said = told(path, class_names=("a", "b"))[0]
    assert "does not name the class of records 1, 3, 5, 7, 9 (counted from 0) and 5 more. It names a, b." in said
    assert "secretosis" not in said


def test_lines_of_lists_and_of_samples(tmp_path: Path) -> None:
    root = folder(tmp_path / "data", ())
    rows = [f"{at % 2}/{at:02}.png,ann" for at in range(12)]
    rows[2], rows[4], rows[5] = "0/02.png", "0/99.png,bob", "0/00.png,bob"
    people = tmp_path / "people.csv"
    people.write_text("\n".join(["name,unit", *rows]))
    assert told(root, units=str(people)) == [
        "there are 3 problems with the data:",
        f"  {people}, row 4 (counted from 0): there is no such picture: correct the row, or take it out",
        f"  {people}, row 5 (counted from 0): row 0 names this picture too: keep one",
        f"  {people}, row 2 (counted from 0): it has another number of cells than the first line",
    ]
    people.write_text("\n".join(["name,unit", *(f"{at % 2}/{at:02}.png,{'' if at < 3 else 'NA'}" for at in range(12))]))
    head, none, word, more = told(root, units=str(people))
    assert (head, more) == ("there are 12 problems with the data:", "  ... and 7 more")
    assert none.startswith(
        f"  {people}, row 0 (counted from 0), {people}, row 2 (counted from 0): this record has no unit"
    )
    places = ", ".join(f"{people}, row {row} (counted from 0)" for row in (4, 6, 8))
    assert word.startswith(f"  {places}: the id of the unit is a word")

    listed = root / "metadata.csv"
    listed.write_text("file_name,label\n0/00.png,1\n0/77.png,1\n../x.png,1\n0/02.png,1,2\n0/00.png,0\n")
    assert told(root) == [
        "there are 4 problems with the data:",
        f"  {listed}, row 1 (counted from 0), {listed}, row 2 (counted from 0): there is no such picture: correct the row, or "
        "take it out",
        f"  {listed}, row 4 (counted from 0): row 0 names this picture too: keep one",
        f"  {listed}, row 3 (counted from 0): it has another number of cells than the first line",
    ]
    samples = tmp_path / "s.csv"
    samples.write_text("label,pixel0\n0,1\n0,300\n0,7\nx,1\n")
    places = ", ".join(f"{samples}, row {row} (counted from 0)" for row in (1, 3))
    what = "a sample is a label and 1 pixels from 0 to 255: write the file again"
    assert told(samples) == ["there are 2 problems with the data:", f"  {places}: {what}"]


def tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as file:
        for name, raw in members.items():
            (path.parent / "raw").write_bytes(raw)
            file.add(path.parent / "raw", name)


def test_pieces_of_a_data_set(tmp_path: Path) -> None:
    tar(tmp_path / "train-0.tar", {"a.png": PICTURE, "a.cls": b"0", "b.png": PICTURE, "c.png": BROKEN, "c.cls": b"1"})
    (tmp_path / "train-1.tar").write_bytes(b"no tar at all" * 100)
    tar(tmp_path / "train-2.tar", {"d.cls": b"0", "e.png": PICTURE, "e.cls": b"0"})
    tar(tmp_path / "test-0.tar", {"f.png": PICTURE, "f.cls": b"0", "g.png": PICTURE})
    head, *lines = told(tmp_path)
    assert head == "there are 4 problems with the data:"
    assert lines[0].startswith(f"  {tmp_path}/train-0.tar, record 'b': the record lacks .cls")
    assert lines[1] == f"  {tmp_path}/train-0.tar, record 'c': {UNREADABLE}"
    assert lines[2] == f"  {tmp_path}/train-1.tar: this is not a sound, plain tar: write it again"
    assert lines[3] == f"  {tmp_path}/train-2.tar, record 'd': the record has no picture: add or remove it"
    for name in ("train-0", "train-1", "train-2"):
        (tmp_path / f"{name}.tar").unlink()
    tar(tmp_path / "train-3.tar", {"a.png": PICTURE, "a.cls": b"0"})
    assert told(tmp_path)[0].startswith(f"{tmp_path}/test-0.tar, record 'g': the record lacks .cls")


def test_rows_of_tables_with_pictures(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name, raws in (("train-0", [PICTURE, None, BROKEN]), ("train-1", None), ("train-2", [BROKEN, PICTURE])):
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(b"no parquet")
        if raws is not None:
            parquet.write_table(pa.table({"image": raws, "label": [0] * len(raws)}), path)
    at = f"{tmp_path}/train"
    assert told(tmp_path) == [
        "there are 4 problems with the data:",
        f"  {at}-0.parquet, row 1 (counted from 0): there is no picture in this row: store the bytes of files, not their paths",
        f"  {at}-0.parquet, row 2 (counted from 0), {at}-2.parquet, row 0 (counted from 0): {UNREADABLE}",
        f"  {at}-1.parquet: this is no sound .parquet file: copy or write it again",
    ]


@pytest.mark.parametrize(
    ("name", "kind", "remedy"),
    [
        ("people.ods", "a table in a form that Gossamer does not read", "Save it as .csv or .parquet."),
        ("people.sas7bdat", "a table in a form that Gossamer does not read", "Save it as .csv or .parquet."),
        ("story.md", "text", TEXT),
        ("story.json", "text", TEXT),
    ],
)
def test_who_brings_a_table_or_a_text_is_told_what_is_read(
    gossamer: Any, tmp_path: Path, name: str, kind: str, remedy: str
) -> None:
    path = tmp_path / name
    path.write_text("age,sex,diagnosis\n54,f,secretosis\n")
    for command in (["card", path], ["split", path, "-o", tmp_path / "out.npz"]):
        answer = gossamer(*command)
        assert (answer.status, answer.out, answer.err) == (2, "", f"gossamer: {path} holds {kind}. {remedy}\n")
    assert f"{path} holds {kind}." in gossamer("card", tmp_path).err


@pytest.mark.parametrize("name", ["people.csv", "people.tsv", "people.parquet"])
def test_a_table_is_told_from_pictures_by_its_columns(gossamer: Any, tmp_path: Path, name: str) -> None:
    """Its draft has names of columns, and no value that is no comment."""
    path = tmp_path / name
    mark = "\t" if name.endswith("tsv") else ","
    path.write_text("".join(mark.join(row) + "\n" for row in (["age", "sex"], ["54", "f"], ["61", "m"], ["54", "m"])))
    if path.suffix == ".parquet":
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.table({"age": [54, 61, 54], "sex": ["f", "m", "m"]}), path)
    answer = gossamer("card", path)
    assert answer.status == 0
    stated = [line for line in answer.out.splitlines() if not line.startswith("#")]
    assert 'name = "age"' in stated and 'kind = "integer"' in stated and "54" not in " ".join(stated)
    assert 'missing_unit = "refuse"' in stated
    refused = gossamer("card", path, "--labels-key", "sex")
    assert (refused.status, refused.err) == (
        2, "gossamer: --labels-key: this is for pictures, and the data are a table. Leave it out.\n",
    )  # fmt: skip
    with pytest.raises(DataError, match="holds a table, and pictures are to be read here"):
        read(str(path), split="train")
