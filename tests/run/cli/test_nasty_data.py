"""Data as people bring them, through the command line: nothing is wrong without a word.

The collection is made by `tests/fixtures/nasty.py`.
"""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nasty import collection
from PIL import Image

from gossamer.data.card import DataCard
from gossamer.data.source import Reading, Source
from gossamer.data.sources.pictures.read import read
from gossamer.kinds.pictures import read_samples
from gossamer.methods import METHODS
from kinds import OF_PICTURES

Run = Callable[..., Any]
SMALL = [
    "--steps",
    4,
    "--expected-batch-size",
    16,
    "--width",
    4,
    "--latent-size",
    8,
    "--noise-multiplier",
    4,
    "--delta",
    1e-3,
]


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collection(tmp_path_factory.mktemp("nasty"))


@pytest.fixture
def drafted(gossamer: Run, tmp_path: Path) -> Callable[..., tuple[Path, str]]:
    """Drafts a card of some data; gives its path, and what was said."""

    def make(data: Path, *words: object) -> tuple[Path, str]:
        path = tmp_path / "drafted.toml"
        answer = gossamer("card", data, "-o", path, "--force", *words)
        assert answer.status == 0, answer.err
        return path, answer.err

    return make


def refused(answer: Any, *says: str) -> None:
    assert answer.status == 2, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    (paragraph,) = [line for line in answer.err.strip().split("\n") if line.startswith("gossamer: ")]
    for words in says:
        assert words in paragraph, paragraph


def fitted(gossamer: Run, data: object, card: Path, out: Path, *words: object) -> Any:
    answer = gossamer("fit", "dpgan", "--data", data, "--card", card, "--out", out, *SMALL, *words)
    assert answer.status == 0, answer.err
    return answer


# 1. Names


def test_names_go_from_the_folders_to_all_that_is_handed_out(
    gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any
) -> None:
    card, said = drafted(nasty / "two" / "pictures")
    assert DataCard.load(card).class_names == ("benign", "malignant")
    assert "keep no class that exists because of one person" in said
    run = tmp_path / "run"
    fitted(gossamer, nasty / "two" / "pictures", card, run)
    certificate = json.loads((run / "certificate.json").read_text())
    assert certificate["card"]["class_names"] == ["benign", "malignant"]
    assert any("2 classes (benign, malignant)" in line for line in certificate["assumptions"])
    assert any("they would be the same without it" in line for line in certificate["assumptions"])
    assert gossamer("release", run, "-o", tmp_path / "out").status == 0
    assert gossamer("verify", tmp_path / "out").status == 0
    assert "benign, malignant" in (tmp_path / "out" / "report.html").read_text()

    for name in ("s", "s.npz", "s.csv", "s.parquet"):
        assert gossamer("sample", tmp_path / "out", "-n", 12, "-o", tmp_path / name, "--seed", 3).status == 0
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["benign", "malignant"]
    samples = read(str(tmp_path / "s.npz"), split="train")
    assert samples.class_names == read(str(tmp_path / "s"), split="train").class_names == ("benign", "malignant")
    called = [samples.class_names[label] for label in samples.labels]
    with (tmp_path / "s.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == called
    assert [int(row["label"]) for row in rows] == samples.labels.tolist()
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(tmp_path / "s.parquet")["class"].to_pylist() == called
    assert gossamer("sample", run, "-n", 6, "-o", tmp_path / "s", "--force").status == 0
    (tmp_path / "s" / "benign" / "mine.png").write_bytes(b"")
    refused(gossamer("sample", run, "-n", 6, "-o", tmp_path / "s", "--force"), "holds more than samples")


def test_the_grid_has_the_names_beside_the_rows(gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any) -> None:
    card, _ = drafted(nasty / "two" / "pictures")
    fitted(gossamer, nasty / "two" / "pictures", card, tmp_path / "named")
    card.write_text(card.read_text().replace('["benign", "malignant"]', "[]"))
    real = read(str(nasty / "two" / "pictures"), split="train")
    np.savez(tmp_path / "numbers.npz", images=real.images, labels=real.labels)
    fitted(gossamer, tmp_path / "numbers.npz", card, tmp_path / "unnamed")
    grids = []
    for name in ("named", "unnamed"):
        with Image.open(tmp_path / name / "samples.png") as opened:
            grids.append(np.asarray(opened))
    named, unnamed = grids
    margin = named.shape[1] - unnamed.shape[1]
    assert margin > 20
    np.testing.assert_array_equal(named[:, margin:], unnamed)
    alpha, half = named[:, :margin, 3], len(named) // 2
    assert alpha[:half].any()
    assert alpha[half:].any()


def test_a_missing_class_is_no_renumbering(gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any) -> None:
    """Folders 0, 2, 3, and a test folder without 2. Renumbered, the classifier's class 1 is 2, and the test's is 3."""
    data, tests = nasty / "gap_alone" / "train_part", nasty / "gap_alone" / "test_part"
    card, _ = drafted(data)
    assert DataCard.load(card).class_names == ("0", "2", "3")
    fitted(gossamer, data, card, tmp_path / "run")
    asked = ["evaluate", tmp_path / "run", "--train", data, "--test", tests, "-n", 60, "--protocol", "reduced"]
    answer = gossamer(*asked, "--json")
    measured = {entry["metric"]: entry["value"] for entry in answer.json["metrics"]}
    assert measured["accuracy of the real-data baseline"] > 0.9
    assert f"{tests} holds no record of 1 of its classes: 2" in answer.err

    assert gossamer("sample", tmp_path / "run", "-n", 60, "-o", tmp_path / "s").status == 0
    asked[1] = tmp_path / "s"  # a file of samples has the names from its folders
    measured = {entry["metric"]: entry["value"] for entry in gossamer(*asked, "--json").json["metrics"]}
    assert measured["accuracy of the real-data baseline"] > 0.9


def test_classes_of_a_card_without_names_are_called_by_their_numbers(
    gossamer: Run, nasty: Path, tmp_path: Path
) -> None:
    """Folders 0, 2 and 3 are classes 0, 2 and 3 of four. By their places they would be 0, 1 and 2, until somebody is in 1."""
    card = tmp_path / "old.toml"
    card.write_text("shape = [1, 28, 28]\nclasses = 3\ndeclared_size = 120\n")
    words = ["fit", "dpgan", "--card", card, "--out", tmp_path / "run", *SMALL]
    refused(gossamer(*words, "--data", nasty / "gap"), "the class of record", "It names 0, 1, 2.")
    refused(gossamer(*words, "--data", nasty / "two" / "pictures"), "the class of record", "in class_names")
    assert not (tmp_path / "run").exists()
    card.write_text(card.read_text().replace("classes = 3", "classes = 4"))
    fitted(gossamer, nasty / "gap", card, tmp_path / "run")
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert "shape 1 x 28 x 28, 4 classes, label prior uniform" in certificate["assumptions"]
    assert gossamer("sample", tmp_path / "run", "-n", 40, "-o", tmp_path / "s").status == 0
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["0", "1", "2", "3"]
    read_again = read(str(nasty / "gap"), DataCard.load(card).reading)
    assert set(read_again.labels.tolist()) == {0, 2, 3}, "as evaluate and attack read them beside the run"
    shutil.copytree(tmp_path / "s", tmp_path / "few", ignore=shutil.ignore_patterns("1"))
    samples = read_samples(tmp_path / "few", DataCard.load(card))
    assert (set(samples.labels.tolist()), samples.class_names) == ({0, 2, 3}, ()), "a class that no sample is of"
    samples = read_samples(tmp_path / "few", None)
    assert (set(samples.labels.tolist()), samples.class_names) == ({0, 2, 3}, ()), "and without the card"
    found = gossamer(
        "evaluate", tmp_path / "s", "--train", nasty / "gap", "--test", nasty / "gap", "--protocol", "reduced"
    )
    assert found.status == 0, found.err


def test_an_empty_folder_is_a_class_and_is_said(gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any) -> None:
    card, said = drafted(nasty / "words")
    assert DataCard.load(card).class_names == ("benign", "borderline", "malignant", "unsure")
    assert "holds no record of 2 of its classes: borderline, unsure. Each keeps its number." in said
    fitted(gossamer, nasty / "words", card, tmp_path / "run")
    assert gossamer("sample", tmp_path / "run", "-n", 8, "-o", tmp_path / "s").status == 0
    assert len(list((tmp_path / "s").iterdir())) == 4


def test_a_class_that_the_card_does_not_name_is_refused_and_not_quoted(
    gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any
) -> None:
    card, _ = drafted(nasty / "two" / "pictures")
    words = ["fit", "dpgan", "--data", nasty / "stranger", "--card", card, "--out", tmp_path / "run", *SMALL]
    answer = gossamer(*words)
    refused(answer, "the class of record", "It names benign, malignant.", "take its records out")
    assert "patient_17" not in answer.err
    assert not (tmp_path / "run").exists()
    fitted(gossamer, nasty / "two" / "pictures", card, tmp_path / "run")
    for asked in (
        ["evaluate", tmp_path / "run", "--train", nasty / "two" / "pictures", "--test", nasty / "stranger"],
        ["attack", tmp_path / "run", "--members", nasty / "two" / "pictures", "--nonmembers", nasty / "stranger"],
    ):
        answer = gossamer(*asked)
        refused(answer, "the class of record")
        assert "patient_17" not in answer.err


def test_how_an_accent_is_composed_does_not_count(gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any) -> None:
    card, _ = drafted(nasty / "accents" / "composed")
    fitted(gossamer, nasty / "accents" / "apart", card, tmp_path / "run")


def test_an_npz_may_name_its_classes(gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any) -> None:
    """Named the other way round than the card: label 0 is "malignant" here."""
    card, _ = drafted(nasty / "two" / "pictures")
    named, plain = (read(str(nasty / "two" / name), DataCard.load(card).reading) for name in ("named.npz", "plain.npz"))
    assert named.labels.tolist() == (1 - plain.labels).tolist()
    fitted(gossamer, nasty / "two" / "named.npz", card, tmp_path / "run")
    words = ["fit", "dpgan", "--card", card, "--out", tmp_path / "no", *SMALL, "--data", nasty / "two" / "short.npz"]
    refused(gossamer(*words), "names 2 classes, labels from 0. A larger label was found for records 2, ")


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ('["benign"]', "one name for each class: it has 1 for 2"),
        ('["benign", "benign"]', "no two may be the same"),
        ('["be/nign", "malignant"]', "no slash"),
        ('["..", "malignant"]', "no slash, no dot"),
        ('["train", "test"]', "are splits and no classes"),
        ('"benign"', "a list in brackets"),
        ("[0, 1]", "a line of text in quotes"),
    ],
)
def test_names_that_no_class_can_have(gossamer: Run, card: Path, names: str, says: str) -> None:
    card.write_text(f"{card.read_text()}class_names = {names}\n")
    refused(gossamer("plan", "dpgan", "--card", card, *SMALL), "card.toml", "class_names", says)


# 2. Who is a member


def test_other_writers_are_told_from_members_by_whoever_never_saw_the_run(
    gossamer: Run, nasty: Path, tmp_path: Path
) -> None:
    """Their hands differ in brightness: the control sees it, and what attacks see is no news."""
    card = tmp_path / "writers.toml"
    card.write_text("shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 160\nclass_names = ['a', 'b']\n")
    mine, yours = nasty / "writers" / "mine", nasty / "writers" / "yours"
    flat = tmp_path / "mine.npz"
    records = read(str(mine), Reading(unit_folders=True), split="train")
    np.savez(flat, images=records.images, labels=records.labels)
    fitted(gossamer, flat, card, tmp_path / "run")
    found = gossamer("attack", tmp_path / "run", "--members", mine, "--nonmembers", yours, "-n", 200, "--json").json
    assert found["control"]["low"] > 0.9
    assert found["verdict"][0].startswith(
        "Members and non-members differ in ways that have nothing to do with membership"
    )
    assert "`gossamer split DATA`" in found["verdict"][0]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "differ in ways that have nothing to do with membership" in page


def test_a_split_by_unit_before_the_run_leaves_the_control_nothing_to_see(
    gossamer: Run, nasty: Path, tmp_path: Path
) -> None:
    """The way that the command names, from split to attack. The hands are the same on either side but for chance."""
    dealt = gossamer("split", nasty / "writers" / "all", "--units", "folder", "--share", 0.5, "-o", tmp_path / "dealt")
    assert dealt.status == 0, dealt.err
    card = tmp_path / "writers.toml"
    card.write_text('shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 60\nunit = "writer"\nclass_names = ["a", "b"]\n')
    fitted(gossamer, tmp_path / "dealt", card, tmp_path / "run", "--units", "folder")
    both = ["--members", tmp_path / "dealt", "--nonmembers", tmp_path / "dealt", "-n", 200, "--json"]
    found = gossamer("attack", tmp_path / "run", *both, "--units", "folder").json
    assert found["control"]["low"] < 0.5
    assert "The members are the run's own records." in found["on"]
    assert not any("nothing to do with membership" in sentence for sentence in found["verdict"])
    assert not any("Give the units" in sentence for sentence in found["verdict"])
    assert any("Give the units" in sentence for sentence in gossamer("attack", tmp_path / "run", *both).json["verdict"])


def units_on(side: Path) -> set[str]:
    return {path.parent.name for path in side.rglob("*.png")}


def test_split_deals_whole_units_and_replaces_nothing(gossamer: Run, nasty: Path, tmp_path: Path) -> None:
    data = nasty / "writers" / "all"
    words = ["split", data, "--units", "folder", "--share", 0.3]
    assert gossamer(*words, "-o", tmp_path / "one").out.startswith("train: ")
    train, test = (units_on(tmp_path / "one" / side) for side in ("train", "test"))
    assert not train & test
    assert train | test == units_on(data)
    assert 20 <= len(test) <= 53  # 120 coins of 0.3: beyond 20 to 53 less than once in 500
    for path in data.rglob("*.png"):
        side = "test" if path.parent.name in test else "train"
        assert (tmp_path / "one" / side / path.relative_to(data)).read_bytes() == path.read_bytes()
    assert sum(1 for _ in (tmp_path / "one").rglob("*.png")) == 480
    assert gossamer(*words, "-o", tmp_path / "again").status == 0
    assert units_on(tmp_path / "again" / "test") == test
    assert gossamer(*words, "-o", tmp_path / "other", "--seed", 1).status == 0
    assert units_on(tmp_path / "other" / "test") != test
    refused(gossamer(*words, "-o", tmp_path / "one"), "replaces nothing")
    refused(gossamer(*words, "-o", tmp_path / "one.npz"), "a new folder")
    refused(gossamer("split", nasty / "two" / "plain.npz", "-o", tmp_path / "two"), "a new .npz file")
    refused(gossamer("split", data, "-o", tmp_path / "none", "--share", 1), "between 0 and 1")


def test_split_says_that_a_test_split_is_left_out(gossamer: Run, nasty: Path, tmp_path: Path) -> None:
    """It was dropped without a word: 240 scans of two splits came out as 200."""
    with np.load(nasty / "two" / "plain.npz") as held:
        sides = {f"{side}_{key}": held[key] for side in ("train", "test") for key in ("images", "labels")}
    np.savez(tmp_path / "both.npz", **sides)
    for data, out in ((tmp_path / "both.npz", "one.npz"), (dealt(gossamer, nasty, tmp_path), "one")):
        said = gossamer("split", data, "-o", tmp_path / out, "--share", 0.5, "--seed", 1)
        assert "has a split test already, which is left out" in said.err
        spoken = gossamer("split", f"{data}:train", "-o", tmp_path / f"spoken_{out}", "--share", 0.5, "--seed", 1)
        assert (spoken.status, "left out" in spoken.err) == (0, False)
    for side in ("train", "test"):
        listed = tmp_path / "listed" / side
        shutil.copytree(nasty / "two" / "pictures" / "benign", listed)
        rows = [f"{path.name},{number % 2}" for number, path in enumerate(sorted(listed.glob("*.png")))]
        (listed / "metadata.csv").write_text("\n".join(["file_name,label", *rows]))
    said = gossamer("split", tmp_path / "listed", "-o", tmp_path / "listed parts", "--share", 0.5)
    assert "has a split test already, which is left out" in said.err
    flat = gossamer("split", nasty / "two" / "pictures", "--units", "folder", "-o", tmp_path / "flat")
    refused(flat, "DATA/CLASS/UNIT/picture, and there is none")
    spaced = gossamer("split", nasty / "two" / "plain.npz", "-o", tmp_path / "two words.npz")
    assert f"--data '{tmp_path / 'two words.npz'}'" in spaced.out


def dealt(gossamer: Run, nasty: Path, tmp_path: Path) -> Path:
    assert gossamer("split", nasty / "two" / "pictures", "-o", tmp_path / "dealt_once", "--share", 0.5).status == 0
    return tmp_path / "dealt_once"


def test_whoever_leaves_moves_nobody_else(gossamer: Run, nasty: Path, tmp_path: Path) -> None:
    """A shuffle would deal everyone anew, and the guarantee of a run on train would not hold for the whole."""
    data = nasty / "two" / "plain.npz"
    with np.load(data) as held:
        images, labels = held["images"], held["labels"]
    np.savez(tmp_path / "fewer.npz", images=np.delete(images, 7, 0), labels=np.delete(labels, 7))
    sides = []
    for source in (data, tmp_path / "fewer.npz"):
        out = tmp_path / f"dealt_{source.name}"
        assert gossamer("split", source, "-o", out, "--share", 0.5).status == 0
        sides.append(
            [{image.tobytes() for image in read(f"{out}:{side}", split="train").images} for side in ("train", "test")]
        )
    left = {images[7].tobytes()}
    assert [side - left for side in sides[0]] == sides[1]


def test_a_split_of_arrays_keeps_units_and_names(gossamer: Run, nasty: Path, tmp_path: Path) -> None:
    with np.load(nasty / "two" / "named.npz") as held:
        np.savez(tmp_path / "data.npz", **held, who=np.arange(60) % 20)
    words = ["split", tmp_path / "data.npz", "--units", ":who", "--share", 0.4, "-o", tmp_path / "dealt.npz"]
    answer = gossamer(*words)
    assert answer.status == 0, answer.err
    assert "--units :unit" in answer.out
    assert (tmp_path / "dealt.npz").stat().st_mode & 0o077 == 0
    train, test = (
        read(Source(f"{tmp_path / 'dealt.npz'}:{side}", units=":unit"), split="train") for side in ("train", "test")
    )
    assert len(train) + len(test) == 60
    assert train.names is not None
    assert test.names is not None
    assert not set(train.names) & set(test.names)
    assert train.class_names == ("malignant", "benign")


def test_a_split_of_pictures_with_a_list_of_units(gossamer: Run, nasty: Path, tmp_path: Path) -> None:
    data = nasty / "two" / "pictures"
    names = sorted(path.relative_to(data).as_posix() for path in data.rglob("*.png"))
    rows = [f"{name},person {index % 15}" for index, name in enumerate(names)]
    (tmp_path / "who.csv").write_text("\n".join(["name,unit", *rows]))
    answer = gossamer("split", data, "--units", tmp_path / "who.csv", "-o", tmp_path / "dealt", "--share", 0.4)
    assert answer.status == 0, answer.err
    train, test = (
        read(Source(f"{tmp_path / 'dealt'}:{side}", units=str(tmp_path / "dealt" / "units.csv")), split="train")
        for side in ("train", "test")
    )
    assert len(train) + len(test) == 120
    assert train.names is not None
    assert test.names is not None
    assert not set(train.names) & set(test.names)
    assert train.class_names == test.class_names == ("benign", "malignant")


def test_a_split_of_pictures_that_a_list_labels(gossamer: Run, nasty: Path, tmp_path: Path) -> None:
    """As archives export them: one folder, and a list beside them. They were put into an .npz, without their patients."""
    data = tmp_path / "export"
    (data / "b").mkdir(parents=True)
    rows = []
    for number, path in enumerate(sorted((nasty / "two" / "pictures").rglob("*.png"))):
        name = f"{'b/' if number % 2 else ''}P{number % 15:02}_{number}.png"
        shutil.copyfile(path, data / name)
        rows.append((name, "" if number == 7 else path.parent.name))
    (data / "labels.csv").write_text("\n".join(["image,kind", *map(",".join, rows)]))
    words = ["split", data, "--units", "(P[0-9]+)_", "--share", 0.4, "--labels-key", "kind", "-o", tmp_path / "parts"]
    answer = gossamer(*words)
    assert answer.status == 0, answer.err
    assert "--units '(P[0-9]+)_'" in answer.out
    assert "--labels-key" not in answer.out
    classes, units = {}, {}
    for side in ("train", "test"):
        found = read(
            Source(f"{tmp_path / 'parts'}:{side}", units="(P[0-9]+)_"), Reading(missing_label="drop"), split="train"
        )
        assert found.class_names == ("benign", "malignant")
        with (tmp_path / "parts" / side / "labels.csv").open(newline="") as file:
            classes |= {row["file_name"]: row["label"] for row in csv.DictReader(file)}
        units[side] = set(() if found.names is None else found.names)
    assert classes == dict(rows)
    assert units["train"] | units["test"] == {f"P{number:02}" for number in range(15)}
    assert not units["train"] & units["test"]


def test_a_split_of_pictures_without_labels(gossamer: Run, nasty: Path, tmp_path: Path) -> None:
    data = nasty / "two" / "pictures"
    answer = gossamer("split", data, "--labels-key", "none", "--share", 0.4, "-o", tmp_path / "parts")
    assert answer.status == 0, answer.err
    assert f"--data {tmp_path / 'parts'} --labels-key none" in answer.out
    found = [
        read(Source(f"{tmp_path / 'parts'}:{side}", labels_key="none"), split="train") for side in ("train", "test")
    ]
    assert sum(map(len, found)) == 120
    assert not list((tmp_path / "parts").rglob("*.csv"))


# 3. Ink on white


def test_ink_on_white_is_said_and_inverted_everywhere(gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any) -> None:
    card, _said = drafted(nasty / "paper")
    run = tmp_path / "run"
    answer = fitted(gossamer, nasty / "paper", card, run, "--public", "digits", "--warm-steps", 1)
    assert "nearly all look like ink on white, and those of --public like white on black" in answer.err
    for path in run.rglob("*"):
        assert not path.is_file() or b"ink on white" not in path.read_bytes(), "it was learnt from records"

    card.write_text(card.read_text().replace("invert = false", "invert = true"))
    answer = fitted(gossamer, nasty / "paper", card, tmp_path / "inverted", "--public", "digits", "--warm-steps", 1)
    assert "ink on white" not in answer.err
    certificate = json.loads((tmp_path / "inverted" / "certificate.json").read_text())
    assert certificate["card"]["invert"] is True
    assert any("dark and light were exchanged" in line for line in certificate["assumptions"])
    assert gossamer("verify", tmp_path / "inverted").status == 0
    for name in ("run", "inverted"):
        found = gossamer("attack", tmp_path / name, "--members", nasty / "paper", "--nonmembers", "digits", "-n", 200)
        assert found.status == 0, found.err
        assert "The members are the run's own records." in found.out


def test_digits_and_glyphs_stay_white_on_black(nasty: Path) -> None:
    upright, asked = (read("digits:test", Reading(invert=invert), split="test") for invert in (False, True))
    np.testing.assert_array_equal(upright.images, asked.images)
    plain, inverted = (
        read(str(nasty / "two" / "plain.npz"), Reading(invert=invert), split="train") for invert in (False, True)
    )
    np.testing.assert_array_equal(inverted.images, 255 - plain.images)


def test_a_file_of_samples_is_measured_by_the_card(gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any) -> None:
    card, _ = drafted(nasty / "paper")
    card.write_text(card.read_text().replace("invert = false", "invert = true"))
    real = read(str(nasty / "paper"), Reading(invert=True), split="train")
    np.savez(tmp_path / "s.npz", images=real.images, labels=real.labels, class_names=np.array(real.class_names))
    asked = [
        "evaluate",
        tmp_path / "s.npz",
        "--train",
        nasty / "paper",
        "--test",
        nasty / "paper",
        "--protocol",
        "reduced",
    ]
    assert "the samples: nearly all look like white on black" in gossamer(*asked).err
    answer = gossamer(*asked, "--card", card)
    assert (answer.status, "ink on white" in answer.err) == (0, False)


# 4. Sizes and labels


def test_photographs_are_said_to_be_squashed_and_may_be_cut_or_padded(
    gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any
) -> None:
    card, said = drafted(nasty / "photographs")
    assert DataCard.load(card).shape == (1, 32, 32)
    assert "640x480 pixels (width x height) and 1 other sizes and become 32x32" in said
    for word in ('"squash" (as drafted) distorts them', '"crop" keeps the middle', '"pad" adds black bars'):
        assert word in said
    fitted(gossamer, nasty / "photographs", card, tmp_path / "squash", "--expected-batch-size", 8)
    for how in ("crop", "pad"):
        card.write_text(
            card.read_text().replace('resize = "squash"', f'resize = "{how}"').replace('"crop"\n', f'"{how}"\n')
        )
        assert DataCard.load(card).resize == how
        fitted(gossamer, nasty / "photographs", card, tmp_path / how, "--expected-batch-size", 8)
        certificate = json.loads((tmp_path / how / "certificate.json").read_text())
        assert certificate["card"]["resize"] == how
        assert f"pictures of other proportions were made to fit the shape: {how}" in certificate["assumptions"]
    refused(
        gossamer("plan", "dpgan", "--card", _with(card, "pad", "stretch"), *SMALL),
        'resize must be one of "squash", "crop", "pad"',
    )


def _with(card: Path, old: str, new: str) -> Path:
    card.write_text(card.read_text().replace(f'resize = "{old}"', f'resize = "{new}"'))
    return card


@pytest.mark.parametrize("method", [name for name in OF_PICTURES if name != "feature-moments"])  # it makes no picture
def test_a_shape_that_no_net_makes_is_refused_before_anything_is_written(
    gossamer: Run, method: str, tmp_path: Path
) -> None:
    """The plan makes the generator. Dense pairs and linear latents make any size that has enough numbers."""
    card, out = tmp_path / "card.toml", tmp_path / "run"
    card.write_text("shape = [1, 5, 7]\nclasses = 2\ndeclared_size = 5000\n")
    words: list[object] = [] if METHODS[method].without_guarantee else ["--epsilon", 10, "--delta", 1e-5]
    words += ["--network", "conv"] if method in ("privae", "privgan") else []
    refused(gossamer("plan", method, "--card", card, *words))
    refused(gossamer("fit", method, "--data", "digits", "--card", card, "--out", out, *words))
    assert not out.exists()


@pytest.mark.parametrize("what", ["offset", "years", "numbers"])
def test_labels_that_number_no_classes_draft_no_card(gossamer: Run, nasty: Path, tmp_path: Path, what: str) -> None:
    answer = gossamer("card", nasty / what / "data.npz", "-o", tmp_path / "card.toml")
    refused(answer, "do not look like the numbers of classes", "np.unique", "Number the classes from 0")
    assert not any(value in answer.err for value in ("1950", "1959", str(2**40)))
    assert not (tmp_path / "card.toml").exists()


def test_a_card_cannot_declare_more_classes_than_nets_have_parts_for(gossamer: Run, tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text(f"shape = [1, 28, 28]\nclasses = {2**40}\ndeclared_size = 100\n")
    refused(
        gossamer("plan", "dpgan", "--card", tmp_path / "card.toml", *SMALL), "classes must be a whole number from 1 to"
    )


@pytest.mark.parametrize("named", [True, False])
def test_two_classes_with_glyphs_are_told_what_to_do(
    gossamer: Run, nasty: Path, tmp_path: Path, drafted: Any, named: bool
) -> None:
    card, _ = drafted(nasty / "two" / "pictures")
    if not named:
        card.write_text(card.read_text().replace('["benign", "malignant"]', "[]"))
    words = ["fit", "dpgan", "--data", nasty / "two" / "pictures", "--card", card, "--out", tmp_path / "run", *SMALL]
    answer = gossamer(*words, "--public", "glyphs")
    refused(answer, "the ten digits 0 to 9", "2 classes", "or leave it out", "with --public,", "--public-share")
    assert ("benign, malignant" in answer.err) == named
    assert not (tmp_path / "run").exists()
