"""What is made of cells besides tables: the figure against epsilon, and the measured runs of `recommend`."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.reproduce import plot, result_files, results_page, run_cell, tables
from benchmarks.reproduce.tables import Cell, Table, parse

ROOT = Path(__file__).resolve().parents[3]
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
