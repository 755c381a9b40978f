"""Pages that show cells of `python -m benchmarks.reproduce`: each such table is what the JSON files say, and nothing else.

A comment before a table names it: `<!-- TABLE: row, row; figure; figure -->`. Run this file by itself to write all of them
anew; the sentences between them are for a reader of the new figures to mend.
"""

import re
from pathlib import Path

import pytest

from benchmarks.reproduce.results_page import NOT_RUN, lines_of
from benchmarks.reproduce.tables import tables

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "reproduce"
SHOWN = re.compile(
    r"^<!-- (?P<table>[\w-]+): (?P<rows>[^;]+); (?P<figures>.+) -->\n\n(?P<lines>(?:\|.*\n)+)", re.MULTILINE
)


def pages() -> list[Path]:
    """All pages with such a table."""
    return [path for path in sorted((ROOT / "docs").rglob("*.md")) if SHOWN.search(path.read_text(encoding="utf-8"))]


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


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_every_table_of_a_page_is_what_the_cells_say(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    shown = list(SHOWN.finditer(text))
    assert len(shown) == text.count("<!-- ") - text.count("<!-- expectations")
    for found in shown:
        assert found["lines"] == lines(found), found["table"]


def test_some_pages_show_cells() -> None:
    assert {"open-questions", "moments", "dpgan"} <= {path.stem for path in pages()}


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
        before = page.read_text(encoding="utf-8")
        page.write_text(
            SHOWN.sub(lambda found: found[0].removesuffix(found["lines"]) + lines(found), before), encoding="utf-8"
        )
