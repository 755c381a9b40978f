"""The tables "what to expect" of README and docs/choosing-epsilon.md: each figure is that of a result file, or of a page.

`python tests/benchmarks/reproduce/test_expectations.py` writes both tables again. Check the sentences around them by hand.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.reproduce.results_page import NOT_RUN, Line, lines_of
from benchmarks.reproduce.tables import tables
from gossamer.metrics.registry import ACCURACY

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "reproduce"
BUDGETS = ("0.3", "1", "10")
SHOWN = re.compile(r"^<!-- expectations -->\n\n(?P<lines>(?:\|.*\n)+)", re.MULTILINE)
FULL, ELSEWHERE, REPLACED = "*", "†", "‡"
"""By the full protocol; of the released classifier itself, on its page; at an epsilon against a replaced record."""


@dataclass(frozen=True)
class Expected:
    """A row: what stands before the figures, and where each comes from.

    Args:
        method: with a link to METHOD.md.
        how: what of it.
        public: public inputs.
        cells: table and row of each budget.
        page: figures of a method's page, as they stand there.
        note: to each figure.
        everywhere: one row for all budgets.
    """

    method: str
    how: str
    public: str
    cells: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    page: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    everywhere: tuple[str, str] | None = None


def at(table: str, name: str, *budgets: str) -> dict[str, tuple[str, str]]:
    return {each: (table, name.format(each)) for each in budgets}


DRAWING = "a program that draws digits"
ROWS = (
    Expected(
        "teacher",
        "the released classifier itself, no pictures",
        "none",
        page={"1": "98.1 %", "10": "98.7 %"},
        note=ELSEWHERE,
    ),
    Expected(
        "moments",
        "aligned, four or ten clusters per class",
        "none",
        at("pictures", "mnist-eps{}-none", "1", "10"),
        note=FULL,
    ),
    Expected("evolve", "soft labels", DRAWING, at("pictures", "mnist-eps{}-soft-labels", "1", "10"), note=FULL),
    Expected(
        "dp-mepf", "after `evolve` as pre-training", DRAWING, at("pictures", "mnist-eps{}-glyphs", "10"), note=FULL
    ),
    Expected("moments", "one Gaussian per class", "none", at("curves", "mnist-moments-eps{}", *BUDGETS)),
    Expected("evolve", "labels as drawn", DRAWING, at("curves", "mnist-evolve-eps{}", *BUDGETS)),
    Expected("dp-diffusion", "after `evolve` as pre-training", DRAWING, at("curves", "mnist-dp-diffusion-eps{}", "10")),
    Expected(
        "teacher", "computer-drawn digits that it labels", DRAWING, at("curves", "mnist-teacher-eps{}", "1", "10")
    ),
    Expected("privae", "", DRAWING, at("privae-labelled", "eps{}", "1", "10")),
    Expected("dpgan", "", "none", at("bie-table2", "mnist-eps{}-adaptive", "1", "10")),
    Expected("dp-wgan", "at epsilon 4", "none", {"10": ("dp-gan-table1", "mnist-scratch")}),
    Expected("gs-wgan", "", DRAWING, at("gs-wgan-table1", "mnist-corrected", "10"), note=REPLACED),
    Expected(
        "feature-moments", "labels of photographs, [other figures](encoders.md#what-to-expect)", "public pictures"
    ),
    Expected("", "computer-drawn digits alone, no record read", "", everywhere=("pictures", "mnist-public"), note=FULL),
    Expected("", "real records", "", everywhere=("curves", "mnist-real")),
    Expected("privgan", "", "none", page=dict.fromkeys(BUDGETS, "no guarantee")),
)


@dataclass(frozen=True)
class Short:
    """A row of the README: what a reader wants, the method, and where its figures come from."""

    wanted: str
    method: str = ""
    cells: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    page: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


SHORT = (
    Short("digits like the records", "moments", at("pictures", "mnist-eps{}-none", "1", "10"), note=FULL),
    Short("the most realistic digits", "dp-mepf", at("pictures", "mnist-eps{}-glyphs", "10"), note=FULL),
    Short("a classifier, no pictures", "teacher", page={"1": "98.1 %", "10": "98.7 %"}, note=ELSEWHERE),
    Short("real records", cells=dict.fromkeys(BUDGETS[1:], ("pictures", "mnist-real")), note=FULL),
)


def line_of(table: str, name: str) -> Line:
    return next(line for line in lines_of(tables()[table], "laptop", RESULTS) if line.row.name == name)


def figure(table: str, name: str) -> str:
    return line_of(table, name).value(ACCURACY.name).split(" (")[0] or NOT_RUN


def short_lines() -> str:
    """The table of the README."""
    told = ["| you want | method | epsilon 1 | epsilon 10 |", "|---|---|---|---|"]
    for row in SHORT:
        shown = []
        for budget in BUDGETS[1:]:
            found = figure(*row.cells[budget]) if budget in row.cells else row.page.get(budget, "")
            shown.append(found + (row.note if found and found != NOT_RUN else ""))
        name = f"[`{row.method}`](docs/methods/{row.method}.md)" if row.method else ""
        told.append(f"| {row.wanted} | {name} | {' | '.join(shown)} |")
    return "\n".join(told) + "\n"


def lines() -> str:
    """The table of docs/choosing-epsilon.md."""
    told = ["| | public inputs | " + " | ".join(f"epsilon {each}" for each in BUDGETS) + " |", "|---|---|---|---|---|"]
    for row in ROWS:
        name = f"[`{row.method}`](methods/{row.method}.md)" if row.method else ""
        what = ", ".join(filter(None, [name, row.how]))
        shown = []
        for each in BUDGETS:
            where = row.everywhere or row.cells.get(each)
            found = figure(*where) if where else row.page.get(each, "")
            shown.append(found + (row.note if found and found != NOT_RUN else ""))
        told.append(f"| {what} | {row.public} | {' | '.join(shown)} |")
    return "\n".join(told) + "\n"


PAGES = {"README.md": short_lines, "docs/choosing-epsilon.md": lines}


@pytest.mark.parametrize("page", PAGES)
def test_what_is_to_be_expected_is_what_the_cells_say(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    (found,) = SHOWN.finditer(text)
    assert found["lines"] == PAGES[page]()


def test_rows_are_of_one_data_set_and_one_protocol() -> None:
    """A row that has no note is by the reduced protocol, as the real records are; one that has stands in the first table."""
    of_readme = [(row, cell) for row in SHORT for cell in row.cells.values()]
    for row, (table, name) in of_readme:
        assert (row.note == FULL) == (tables()[table].measures["laptop"].protocol == "paper"), name
    for row in ROWS:
        for table, name in (*row.cells.values(), *filter(None, [row.everywhere])):
            line, protocol = line_of(table, name), tables()[table].measures["laptop"].protocol
            assert line.row.data == "mnist"
            assert line.row.size == 60_000
            assert (row.note == FULL) == (protocol == "paper"), name
            if row.cells and row.method != "dp-wgan":
                assert {f"{line.row.epsilon:g}"} <= set(BUDGETS)


def test_figures_of_a_page_stand_there() -> None:
    page = (ROOT / "docs" / "methods" / "teacher.md").read_text(encoding="utf-8")
    (runs,) = re.findall(r"^\| MNIST \| ([\d., ]+) % \| ([\d., ]+) % \|$", page, re.MULTILINE)
    (row,) = [row for row in ROWS if row.note == ELSEWHERE]
    for told, of in zip((row.page["1"], row.page["10"]), runs, strict=True):
        found = [float(each) for each in of.split(", ")]
        assert told == f"{sum(found) / len(found):.1f} %"


if __name__ == "__main__":
    for name, table_of in PAGES.items():
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        table = "<!-- expectations -->\n\n" + table_of()
        path.write_text(SHOWN.sub(lambda _, table=table: table, text), encoding="utf-8")
