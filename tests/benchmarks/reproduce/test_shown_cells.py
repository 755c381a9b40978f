"""Pages that show cells of `python -m benchmarks.reproduce`: each such table is what the JSON files say, and nothing else.

A comment before a table names it: `<!-- TABLE: row, row; figure; figure -->`. Run this file by itself to write all of them
anew; the sentences between them are for a reader of the new figures to mend.

Pages of methods choose their labels: `<!-- figures: TABLE/row, TABLE/row; figure; figure -->`. Of those tables the first
column is written by hand. It names the row's epsilon; the others are what the cells say.

The page of the five papers has whole tables beside the printed figures, `<!-- printed: TABLE; figure -->`, and means in the
middle of a line: `74.6 %<!-- TABLE/row: figure -->`.
"""

import re
from pathlib import Path

import pytest

from benchmarks.reproduce.results_page import NOT_RUN, lines_of
from benchmarks.reproduce.tables import SCALES, tables

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "reproduce"
SHOWN = re.compile(
    r"^<!-- (?P<table>(?!figures:|printed:)[\w-]+): (?P<rows>[^;]+); (?P<figures>.+) -->\n\n(?P<lines>(?:\|.*\n)+)",
    re.MULTILINE,
)

LABELLED = re.compile(
    r"^<!-- figures: (?P<rows>[^;]+); (?P<figures>.+) -->\n\n(?P<head>\|.*\n\|[-|]+\n)(?P<lines>(?:\|.*\n)+)",
    re.MULTILINE,
)
PRINTED = re.compile(r"^<!-- printed: (?P<table>[\w-]+); (?P<figure>.+) -->\n\n(?P<lines>(?:\|.*\n)+)", re.MULTILINE)
INLINE = re.compile(r"(?P<lines>[\d.]+(?: %)?)<!-- (?P<table>[\w-]+)/(?P<row>[\w-]+): (?P<figure>[^>]+) -->")


def pages() -> list[Path]:
    """All pages with such a table."""
    every = {
        path: path.read_text(encoding="utf-8")
        for path in sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "lab").glob("*.md")])
    }
    return [path for path, text in every.items() if any(kind.search(text) for kind in KINDS)]


def lines(found: re.Match[str]) -> str:
    """A table of the page as the cells have it."""
    rows, figures = found["rows"].split(", "), found["figures"].split("; ")
    known = {line.row.name: line for line in lines_of(tables()[found["table"]], "laptop", RESULTS)}
    assert set(rows) <= known.keys(), set(rows) - known.keys()
    grid = [["", *figures, "what holds", "seeds"], ["---"] * (len(figures) + 3)]
    grid += [
        [
            known[row].row.label,
            *(known[row].value(each) or NOT_RUN for each in figures),
            known[row].guarantee,
            known[row].seeds,
        ]
        for row in rows
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in grid)


def labelled_lines(found: re.Match[str]) -> str:
    """The rows of a table with labels of its own as the cells have them."""
    names, figures = found["rows"].split(", "), found["figures"].split("; ")
    labels = [row.split(" | ")[0].removeprefix("| ") for row in found["lines"].splitlines()]
    assert len(labels) == len(names), found["rows"]
    written = []
    for label, name in zip(labels, names, strict=True):
        table, row = name.split("/")
        (line,) = [line for line in lines_of(tables()[table], "laptop", RESULTS) if line.row.name == row]
        if line.row.method == "privgan":  # its epsilon is always infinity, and its page says so above the tables
            assert line.guarantee == "none"
        elif line.guarantee:
            epsilon = {"epsilon 0: no record is read": "0", "none": "infinity"}.get(line.guarantee, "")
            assert re.search(rf"epsilon {epsilon or f'{line.row.epsilon:g}'}(?![.\d])", label), (label, name)
        else:
            assert "real" in label, (label, name)
        written.append(f"| {' | '.join([label, *(line.value(each) for each in figures)])} |\n")
    return "".join(written)


def printed_lines(found: re.Match[str]) -> str:
    """All rows of a table that have been run, at either size, beside what the paper prints."""
    figure, table = found["figure"], tables()[found["table"]]
    rows = [
        (f"{line.row.label}{'' if scale == 'laptop' else ', the size of the paper'}", line)
        for scale in SCALES
        for line in lines_of(table, scale, RESULTS)
        if line.found
    ]
    theirs = any(figure in line.row.published for _, line in rows)
    guaranteed = any(line.guarantee.startswith("(") for _, line in rows)
    grid = [["", *(["printed"] if theirs else []), "here", *(["what holds here"] if guaranteed else []), "runs"]]
    grid.append(["---"] * len(grid[0]))
    for label, line in rows:
        printed = [line.row.published.get(figure, "")] if theirs else []
        holds = [line.guarantee] if guaranteed else []
        grid.append([label, *printed, line.value(figure), *holds, line.seeds.split(" ")[0]])
    left = [line for line in lines_of(table, "paper", RESULTS) if line.row.method and not line.found]
    if left:
        grid.append([f"{len(left)} rows at the size of the paper", *[""] * (len(grid[0]) - 2), "not run"])
    return "".join(f"| {' | '.join(row)} |\n" for row in grid)


def inline(found: re.Match[str]) -> str:
    """The mean of a figure."""
    (line,) = [each for each in lines_of(tables()[found["table"]], "laptop", RESULTS) if each.row.name == found["row"]]
    return line.value(found["figure"]).split(" (")[0]


KINDS = {SHOWN: lines, LABELLED: labelled_lines, PRINTED: printed_lines, INLINE: inline}
"""What a comment announces, and how it is written."""


@pytest.mark.parametrize("path", pages(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_table_of_a_page_is_what_the_cells_say(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    shown = [(found, written) for kind, written in KINDS.items() for found in kind.finditer(text)]
    assert len(shown) == text.count("<!-- ") - text.count("<!-- expectations")
    for found, written in shown:
        assert found["lines"] == written(found), found[0]


def test_some_pages_show_cells() -> None:
    assert {"papers", "moments", "dpgan"} <= {path.stem for path in pages()}


@pytest.mark.parametrize("line", ["| x | 1 |\n", "| | 1 |\n| --- | --- |\n"])
def test_a_table_is_found_by_its_comment(line: str) -> None:
    found = SHOWN.search(f"Words.\n\n<!-- curves: a, b; accuracy; classifier-FID -->\n\n{line}\nMore words.\n")
    assert found is not None
    assert (found["table"], found["rows"], found["figures"], found["lines"]) == (
        "curves",
        "a, b",
        "accuracy; classifier-FID",
        line,
    )


if __name__ == "__main__":
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for kind, written in KINDS.items():
            text = kind.sub(lambda found, new=written: found[0].replace(found["lines"], new(found), 1), text)
        page.write_text(text, encoding="utf-8")
