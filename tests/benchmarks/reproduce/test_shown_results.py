"""What is made of cells besides tables: the figure against epsilon, and the measured runs of `recommend`."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reproduce import measured_runs, plot, result_files, results_page, run_cell, tables
from benchmarks.reproduce.tables import Cell, Table, parse
from gossamer.errors import RequestError
from gossamer.run.recommend.measured_runs import parsed

ROOT = Path(__file__).resolve().parents[3]
MEASURED = ROOT / "src" / "gossamer" / "run" / "recommend" / "measured.toml"
TABLE = """
title = "Two epsilons"
source = "Nobody 2026"
about = "."
order = 1
figures = ["accuracy", "classifier-FID"]

[laptop]
metrics = "accuracy,fid"
once = 0

[[row]]
name = "one"
label = "moments, epsilon 1"
data = "mnist"
method = "moments"
epsilon = 1.0
delta = 1e-5
laptop = { settings = { axes = 8 }, minutes = 1 }

[[row]]
name = "ten"
label = "moments, epsilon 10"
data = "mnist"
method = "moments"
epsilon = 10.0
delta = 1e-5
laptop = { settings = { axes = 8 }, minutes = 1 }

[[row]]
name = "other"
label = "moments, other axes"
data = "mnist"
method = "moments"
epsilon = 10.0
delta = 1e-5
laptop = { settings = { axes = 9 }, minutes = 1 }

[[row]]
name = "part"
label = "evolve, some records"
data = "mnist"
records = 5_000
method = "evolve"
epsilon = 3.0
delta = 1e-5
laptop = { public = "glyphs", settings = { candidates = 50 }, minutes = 1 }

[[row]]
name = "published"
label = "gs-wgan, as published"
data = "fashion_mnist"
method = "gs-wgan"
delta = 1e-5
claimed = "(10, 1e-5)"
holds = 610.3
published = { accuracy = "65 ± 1 %" }
laptop = { settings = { noise_multiplier = 1.07, draw = "paper" }, costs = 608.5, minutes = 5 }
"""
BY_HAND = """# What this file is.

[usual]
page = "docs/results.md"
machine = "1 thread of AMD EPYC"

[data.MNIST]
pictures = "digits"
shape = [1, 28, 28]
classes = 10

[[run]]
method = "moments"
on = { data = "MNIST", records = 60_000, epsilon = 1.0 }
settings = { axes = 8, cells = 1 }
result = { accuracy = 0.5, page = "docs/methods/moments.md" }

[[run]]
method = "teacher"
on = { data = "MNIST", records = 60_000, epsilon = 1.0 }
result = { accuracy = 0.9, of = "release", page = "docs/methods/teacher.md" }
"""


@pytest.fixture
def table() -> Table:
    return parse("tiny", TABLE)


def put(into: Path, cell: Cell, accuracy: float, *, epsilon: float | None = None, **other: Any) -> None:
    """The JSON of a cell, written by hand."""
    figures = {
        "accuracy": accuracy, "accuracy of the real-data baseline": 0.97, "classifier-FID": 100 * (1 - accuracy),
        "classifier-FID of real training records": 2.5,
    }  # fmt: skip
    guarantee = {
        "epsilon": epsilon or cell.row.epsilon,
        "delta": 1e-5,
        "relation": "add-or-remove-one",
        "unit": "record",
    }
    found = {
        "schema": result_files.SCHEMA, "seed": cell.seed, "digest": cell.digest, "resolved": cell.resolved, "attacks": [],
        "metrics": [{"metric": name, "value": value} for name, value in figures.items()], "guarantee": guarantee,
        "seconds": {part: {"wall": wall, "cpu": 1.0, "threads": 2} for part, wall in (("fit", 90.0), ("evaluate", 600.0))},
        "machine": {"processor": "Abacus", "cores": 2, "threads": 2, "device": "cpu"},
        "software": {"torch": "2.0"}, "date": "2026-11-22",
        **other,
    }  # fmt: skip
    result_files.save(into, cell, found)


def of(table: Table, row: str, seed: int = 0) -> Cell:
    return next(each for each in table.cells("laptop") if (each.row.name, each.seed) == (row, seed))


def test_the_figure_shows_what_the_cells_and_the_papers_say(table: Table, tmp_path: Path) -> None:
    put(tmp_path, of(table, "one", 0), 0.6, epsilon=0.97)
    put(tmp_path, of(table, "one", 1), 0.7, epsilon=0.99)
    put(tmp_path, of(table, "ten"), 0.9)
    put(tmp_path, of(table, "other"), 0.8)
    put(tmp_path, of(table, "part"), 0.4)  # other records: not to be compared
    put(tmp_path, of(table, "published"), 0.5, guarantee=run_cell.NONE)
    found = plot.points({"tiny": table}, tmp_path)
    shown = [(each.method, each.data, each.epsilon, each.values) for each in found if each.figure == "accuracy"]
    assert shown == [
        ("moments", "mnist", 0.99, (0.6, 0.7)), ("moments", "mnist", 10.0, (0.9,)), ("moments", "mnist", 10.0, (0.8,)),
        ("gs-wgan", "fashion_mnist", 610.3, (0.65,)),
    ]  # fmt: skip
    one, ten, other, published = (each.line for each in found if each.figure == "accuracy")
    assert one == ten != other and published == ""
    assert [each.values for each in found if each.figure == "classifier-FID"][1] == pytest.approx((10.0,))
    assert not any(each.full for each in found if each.line)
    assert plot.floors({"tiny": table}, tmp_path) == {
        ("mnist", "accuracy"): 0.97,
        ("mnist", "classifier-FID"): 2.5,
    }


def test_the_page_is_written_with_its_figure_and_both_are_the_same_again(table: Table, tmp_path: Path) -> None:
    into, out = tmp_path / "docs" / "results", tmp_path / "docs" / "results.md"
    put(into, of(table, "one"), 0.6)
    known = {plot.TABLE: parse(plot.TABLE, TABLE)}
    results_page.write(known, into, out)
    first = out.read_bytes(), plot.path_of(into).read_bytes()
    results_page.write(known, into, out)
    assert first == (out.read_bytes(), plot.path_of(into).read_bytes())
    assert b"](results/curves.svg)" in first[0] and b"(10, 1e-5), and has 610.3" in first[0]
    svg = first[1].decode()
    assert svg.startswith("<?xml") and "moments</text>" in svg and "evolve</text>" not in svg and "<dc:date>" not in svg


def test_every_method_with_a_guarantee_can_be_drawn() -> None:
    asked = {
        row.method for table in tables.tables().values() for row in table.rows if row.epsilon is not None and row.method
    }
    assert asked <= set(plot._LOOKS)


def test_finished_cells_become_measured_runs_and_replace_worse_ones_by_hand(table: Table, tmp_path: Path) -> None:
    for seed, accuracy in enumerate((0.6, 0.703, 0.65)):
        put(tmp_path, of(table, "one", seed), accuracy)
    put(tmp_path, of(table, "part"), 0.4)
    put(tmp_path, of(table, "other"), 0.8, guarantee=run_cell.NONE)  # no guarantee
    put(tmp_path, of(table, "published"), 0.5, epsilon=608.5)  # nobody asks for that epsilon
    text = measured_runs.rewritten(BY_HAND, {"tiny": table}, tmp_path)
    assert text.startswith("# What this file is.\n") and text.count(measured_runs.MARK) == 1
    teacher, one, part = parsed(text)
    assert (teacher.method, teacher.accuracy, teacher.of) == ("teacher", 0.9, "release")
    assert (one.method, one.data, one.records, one.epsilon, one.settings) == (
        "moments", "MNIST", 60_000, 1.0, {"axes": 8},
    )  # fmt: skip
    assert (one.accuracy, one.minutes, one.machine) == (0.651, 1.5, "2 threads of Abacus")
    assert (one.of, one.on, one.page, one.shape) == ("samples", "test records", "docs/results.md", (1, 28, 28))
    assert (part.public, part.records) == ("glyphs", 5_000)
    assert measured_runs.rewritten(text, {"tiny": table}, tmp_path) == text


def test_of_runs_that_were_asked_for_the_same_the_best_stays(table: Table, tmp_path: Path) -> None:
    put(tmp_path, of(table, "ten"), 0.7)
    put(tmp_path, of(table, "other"), 0.8)
    for by_hand, best in ((0.75, ["docs/results.md"]), (0.85, ["docs/methods/moments.md"])):
        text = BY_HAND.replace("epsilon = 1.0 }\nsettings", "epsilon = 10.0 }\nsettings").replace("0.5", str(by_hand))
        runs = parsed(measured_runs.rewritten(text, {"tiny": table}, tmp_path))
        assert [each.page for each in runs if each.method == "moments"] == best


def test_a_run_by_hand_stays_where_other_records_or_another_epsilon_were_run(table: Table, tmp_path: Path) -> None:
    put(tmp_path, of(table, "one"), 0.6)
    for old, new in (("epsilon = 1.0", "epsilon = 2.0"), ("60_000", "50_000")):
        text = measured_runs.rewritten(BY_HAND.replace(old, new), {"tiny": table}, tmp_path)
        assert [each["method"] for each in tomllib.loads(text)["run"]] == ["moments", "teacher", "moments"]


def test_a_method_that_was_measured_by_its_released_classifier_has_no_runs_of_samples(
    table: Table, tmp_path: Path
) -> None:
    put(tmp_path, of(table, "one"), 0.6)
    released = BY_HAND.replace('method = "teacher"', 'method = "moments"')
    assert (
        measured_runs.MARK
        not in measured_runs.rewritten(released, {"tiny": table}, tmp_path).rstrip().partition(measured_runs.MARK)[2]
    )
    assert (
        "docs/results.md"
        not in measured_runs.rewritten(released, {"tiny": table}, tmp_path).partition(measured_runs.MARK)[2]
    )


def test_what_is_no_table_of_measured_runs_is_refused_and_left_alone(
    reproduce: Callable[..., Any], tmp_path: Path
) -> None:
    for wrong in ("", "[[run]]\nmethod = 3\n", BY_HAND.replace("accuracy = 0.5", "accuracy = 50"), "[[run]]\n= 3\n"):
        with pytest.raises(RequestError, match=r"^--measured: "):
            measured_runs.rewritten(wrong, {}, tmp_path)
    path = tmp_path / "other.toml"
    path.write_text("[[run]]\nmethod = 3\n")
    answer = reproduce("--measured", path)
    assert answer.status == 2 and answer.err.count("\n") == 1 and "Give measured.toml." in answer.err
    assert path.read_text() == "[[run]]\nmethod = 3\n"


def test_the_committed_measured_runs_are_what_the_cells_say(reproduce: Callable[..., Any], tmp_path: Path) -> None:
    """Where this fails: `python -m benchmarks.reproduce --measured src/gossamer/run/recommend/measured.toml`."""
    copy = tmp_path / "measured.toml"
    copy.write_bytes(MEASURED.read_bytes())
    assert reproduce("--measured", copy, "--results", ROOT / "benchmarks" / "reproduce").status == 0
    assert copy.read_text(encoding="utf-8") == MEASURED.read_text(encoding="utf-8")
