"""`gossamer attack` on a table: which attacks run, what is refused, units, and equal rows."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gossamer as package
from gossamer import Column, TableCard
from gossamer.attacks.marginals import frequencies
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.tables.table import Table
from gossamer.errors import DataError
from gossamer.kinds.kind import Target
from gossamer.kinds.tables import TABLES, _by_generator
from gossamer.methods.marginals.nets import MarkovField
from gossamer.run.report.wording import attacks_in_words

Run = Callable[..., Any]
NAMES = ["person", *"abcd"]
CARD = TableCard(
    columns=(
        *(Column(name=name, kind="category", values=tuple("uvwxyz")) for name in "abc"),
        Column(name="d", kind="integer", bounds=(0, 59), bins=6),
    ),
    declared_size=300,
    label="a",
    generated=(GeneratedColumn(name="person", kind="key", place=0),),
)
SETTINGS: dict[str, Any] = {"rounds": 1, "iterations": 30}


def write(path: Path, seed: int, count: int, first: int = 0) -> Path:
    """Random rows, two for each person."""
    draw = np.random.default_rng(seed)
    rows = [["uvwxyz"[k] for k in draw.integers(6, size=3)] + [int(draw.integers(60))] for _ in range(count)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([NAMES, *([f"p{first + k // 2}", *row] for k, row in enumerate(rows))])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Members, non-members, and a run of the members without noise."""
    folder = tmp_path_factory.mktemp("attacked")
    write(folder / "in.csv", 1, 300)
    write(folder / "out.csv", 2, 300, first=150)
    package.fit("marginals", data=folder / "in.csv", card=CARD, epsilon=float("inf"), out=folder / "RUN", **SETTINGS)
    return folder


def test_all_attacks_on_a_table(gossamer: Run, place: Path) -> None:
    words = ["attack", place / "RUN", "--members", place / "in.csv", "--nonmembers", place / "out.csv", "-n", 500]
    found = gossamer(*words, "--json")
    assert found.status == 0, found.err
    names = [entry["attack"] for entry in found.json["attacks"]]
    twice = ["DOMIAS", "marginals of samples", "marginals of the generator"]
    isolated = [f"{name}, the most isolated tenth" for name in twice]
    distances = ["GAN-Leaks, full black-box", "GAN-Leaks, calibrated", "near-copies"]
    assert sorted(names) == sorted([*distances, *twice, *isolated])
    assert all(attacks_in_words([entry]) for entry in found.json["attacks"])
    assert len(attacks_in_words(found.json["attacks"])) == 7, "the most isolated tenth is explained once"
    assert "marginals keeps no discriminator" in found.json["left_out"]["white-box and oracle TVD"]
    on = found.json["on"]
    assert "The members are the run's own records." in on and "150 of 300 members and 150 of 300 non-members" in on
    assert "of the non-members equal a member in all columns" in on
    assert any("The distance to the closest record shows nothing by itself" in each for each in found.json["verdict"])
    best = next(entry for entry in found.json["attacks"] if entry["attack"] == "marginals of the generator")
    assert best["low"] > 0.55  # no noise, and 300 rows in 36 cells a pair
    page = (place / "RUN" / "report.html").read_text()
    assert "rows whose values are more frequent in the generator" in page
    assert "ROC of marginals of the generator" in page and "The DCR Delusion" in page


def test_sets_that_cannot_be_used(gossamer: Run, place: Path, tmp_path: Path) -> None:
    members, others = place / "in.csv", place / "out.csv"
    for words, told in (
        ((members, members), "all of these records are among the members"),
        ((others, members), "the run was trained on these records"),
        ((members, write(tmp_path / "few.csv", 3, 39)), "300 members and 39 non-members are too few"),
        ((members, others, "--units", "person", "--labels-key", "a"), "this is for pictures, and the data are a table"),
        ((members, members, "--units", "person"), "all of these records are among the members"),
        ((members, write(tmp_path / "id.csv", 3, 78, 150), "--units", "person"), "counted by unit, are too few"),
    ):
        answer = gossamer("attack", place / "RUN", "--members", words[0], "--nonmembers", *words[1:])
        assert (answer.status, answer.out, told in answer.err) == (2, "", True), answer.err


def test_people_of_the_members_are_no_non_members() -> None:
    names = np.array(["p", "q", "r"])
    inside = Table(np.zeros((3, 4), np.int32), np.array([0, 1, 2]), names)
    outside = Table(np.ones((4, 4), np.int32), np.array([0, 1, 1, 2]), np.array(["r", "s", ""]))
    left, said = TABLES.apart(inside, outside)
    assert left.units is not None and left.units.tolist() == [1, 1, 2]
    assert said == "Rows of units that are among the members were left out of the non-members: 1."


def test_equal_rows_are_left_in_unless_all_come_from_the_members() -> None:
    draw = np.random.default_rng(0)
    rare, common = (draw.integers(size, size=(n, 4)).astype(np.int32) for size, n in ((6, 100), (2, 100)))
    with pytest.raises(DataError, match="among the members"):
        TABLES.apart(Table(rare), Table(rare[:40]))
    with pytest.raises(DataError, match="among the members"):
        TABLES.apart(Table(common), Table(common[::-1].astype(np.int64)))
    with pytest.raises(DataError, match="among the members"):
        TABLES.apart(Table(common, mark="of the rows of a file"), Table(common[::-1]))
    left, said = TABLES.apart(Table(common), Table(common[:40].astype(np.int16)))  # 16 cells: equal rows are no sign
    assert len(left) == 40
    assert said.startswith("100.0 % of the non-members equal a member in all columns, and 99.0 % of the members")


def test_the_generator_is_asked_in_its_merged_values() -> None:
    """Values 1 and 2 of the first column are one in the model. Score by hand: p_G / p_R of one pair."""
    field = MarkovField((3, 2), None)
    field.merge([torch.tensor([1, 0, 0]), torch.arange(2)], [torch.ones(3), torch.ones(2)])
    rows = np.array([[0, 0], [1, 0], [2, 1], [0, 1]], np.int32)
    tree = type(field.tree).over([(0, 1)], field.sizes)
    table = torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64)
    field.take(tree, [table])
    target: Any = Target(
        samples=None, members=None, nonmembers=None, held_out=Table(rows), training=None, synthesizer=None, seed=0,  # type: ignore[arg-type]  # neither is asked
    )  # fmt: skip
    found = _by_generator(field, target)(rows, rows)
    merged = np.array([[1, 0], [0, 0], [0, 1], [1, 1]])
    shares = frequencies(merged, (0, 1), (2, 2))
    expected = (np.array([0.3, 0.1, 0.2, 0.4]) + 0.25) / (shares[[2, 0, 1, 3]] + 0.25)
    assert found.roc is not None
    assert found.roc.member_scores == pytest.approx(np.sort(expected))
