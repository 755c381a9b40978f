"""Print the JSON files of cells, as lines for the terminal and as a page in Markdown. Nothing here reads a record."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.reproduce import plot, result_files
from benchmarks.reproduce.run_cell import NONE, NOTHING_READ
from benchmarks.reproduce.tables import SCALES, SEEDS, Cell, Row, Scale, Table
from gossamer.files import write_atomically
from gossamer.metrics import registry
from gossamer.metrics.metric import of_baseline
from gossamer.privacy.guarantee import in_full, rounded_up
from gossamer.run.report.wording import aligned

NOT_RUN = "not run yet"
LARGE = 1_000_000
"""Beyond this the digits of an epsilon say nothing."""
USUAL = "add-or-remove-one record"
"""What a guarantee is about, where nothing is said."""
SPREAD = (
    "The figures of ours are means over seeds, with the lowest and the highest in brackets. "
    f"What holds is (epsilon, delta) for {USUAL}, unless a row says otherwise."
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of a table as far as it has been run.

    Args:
        row: the row.
        found: the JSON of its cells, by seed.
        all: its cells; those that a row of real records is read from.
    """

    row: Row
    found: Mapping[int, Mapping[str, Any]]
    all: Sequence[Cell]

    def value(self, figure: str) -> str:
        """A figure over seeds, in words; empty where there is none."""
        wanted = _of_real(figure) if self.row.real_of else figure
        entries = [each[wanted] for result in self.found.values() if wanted in (each := result_files.figures(result))]
        if not entries:
            return ""
        values = list(dict.fromkeys(entry["value"] for entry in entries)) if self.row.real_of else [
            entry["value"] for entry in entries
        ]  # fmt: skip
        return over_seeds(values, share="accuracy" in figure or registry.figure(figure).share)

    @property
    def first(self) -> Cell | None:
        """The cell of the row's own first seed, if it has been run."""
        return None if self.row.real_of else next((cell for cell in self.all[:1] if cell.seed in self.found), None)

    @property
    def claim(self) -> str:
        """What the paper claims, and what its own run has."""
        holds = self.row.holds
        return self.row.claimed + ("" if holds is None else f", and has {holds:g}")

    @property
    def guarantee(self) -> str:
        """What holds; of several runs, the weakest."""
        found = [result["guarantee"] for result in self.found.values()]
        if not found or self.row.real_of:
            return ""
        if NOTHING_READ in found:
            return "epsilon 0: no record is read"
        if NONE in found:
            return "none"
        worst = max(found, key=lambda each: float(each["epsilon"]))
        epsilon = float(worst["epsilon"])
        if epsilon > LARGE:
            return f"next to nothing (epsilon over {LARGE:,})"
        whose = f"{worst['relation']} {worst['unit']}"
        return f"({rounded_up(epsilon)}, {in_full(float(worst['delta']))})" + ("" if whose == USUAL else f", {whose}")

    @property
    def minutes(self) -> str:
        """Of fit and sampling, the mean."""
        taken = [result_files.minutes_of(result, ("fit", "sample")) for result in self.found.values()]
        return f"{fmean(taken):.1f}" if taken and self.row.method else ""

    @property
    def seeds(self) -> str:
        """How many of its cells are done."""
        return "" if self.row.real_of else f"{len(self.found)} of {len(self.all)}"


def over_seeds(values: Sequence[float], *, share: bool) -> str:
    """The mean, and the lowest and highest of several."""

    def said(value: float) -> str:
        return f"{100 * value:.1f} %" if share else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"

    spread = f" ({said(min(values)).removesuffix(' %')} to {said(max(values))})" if len(values) > 1 else ""
    return said(fmean(values)) + spread


def lines_of(table: Table, scale: Scale, into: Path, seeds: Sequence[int] = SEEDS) -> list[Line]:
    """The rows of a table, with what has been run."""
    cells: dict[str, list[Cell]] = {}
    for cell in table.cells(scale, seeds):
        cells.setdefault(cell.row.name, []).append(cell)
    found = {
        name: {cell.seed: result for cell in each if (result := result_files.load(into, cell)) is not None}
        for name, each in cells.items()
    }
    of = {row.name: row.real_of or row.name for row in table.rows}
    return [
        Line(row=row, found=found.get(of[row.name], {}), all=cells[of[row.name]])
        for row in table.rows
        if of[row.name] in cells
    ]


def grid(table: Table, lines: Sequence[Line]) -> list[list[str]]:
    """Head and rows: for each figure the paper's, where it has one, and ours; then guarantees, minutes, seeds."""
    claims = any(line.row.claimed for line in lines)
    some = any(line.found for line in lines)
    columns = [
        name
        for name in table.figures
        if not some or any(line.value(name) or name in line.row.published for line in lines)
    ]
    theirs = {name for name in columns if any(name in line.row.published for line in lines)}
    head = [""]
    for name in columns:
        head += [f"{name}, paper", f"{name}, ours"] if name in theirs else [name]
    head += [*(["the paper claims"] if claims else []), "what holds", "minutes a run", "seeds"]
    rows = []
    for line in lines:
        row = [line.row.label]
        for name in columns:
            row += [line.row.published.get(name, "")] if name in theirs else []
            row.append(line.value(name) or ("" if line.found or line.row.real_of else NOT_RUN))
        row += [*([line.claim] if claims else []), line.guarantee, line.minutes, line.seeds]
        rows.append(row)
    return [head, *rows]


def terminal(table: Table, scale: Scale, into: Path, seeds: Sequence[int] = SEEDS) -> list[str]:
    """A table for the terminal."""
    lines = lines_of(table, scale, into, seeds)
    return [f"{table.title} ({table.source}), scale: {scale}", *aligned(grid(table, lines)), SPREAD]


def markdown(known: Mapping[str, Table], into: Path, page: Path) -> str:
    """The page: every table at every scale at which a cell of it has been run, and at the laptop's in any case.

    Args:
        known: the tables.
        into: the folder of results; the plot is there, too.
        page: where the page will be.
    """
    told = [
        "# Results",
        "",
        "Tables of the papers with our figures, and tables of our own. Each of our figures comes from the JSON",
        "files to which its row links. A file holds commands, settings, versions, machine, date and times. You need a",
        "checkout of the repository to [run a table again](../docs/reproduce.md): the wheel does not have these programs.",
        "",
        "The commands in a file belong to the revision that it names. Older files have",
        "`python -m gossamer.run.reproduce.part`, which is now `python -m benchmarks.reproduce.subset`.",
        "",
        "Do not edit this page: `python -m benchmarks.reproduce --page lab/results.md` writes it.",
        "",
        f"{SPREAD}",
        "Seeds fix initialisation, public choices and samples; noise is fresh in every run. The classifiers and features of",
        "the evaluation have one seed in all runs. All figures are private figures: they were computed on real records, and no",
        "epsilon covers them.",
        "",
    ]
    for table in known.values():
        told += [
            f"## {table.title}",
            "",
            f"{table.source}. `python -m benchmarks.reproduce {table.name} --data ROOT`",
            "",
        ]
        told += [table.about.strip(), ""]
        if table.name == plot.TABLE:
            told += [f"![{plot.TITLE}]({_from(page, plot.path_of(into))})", "", plot.LEGEND, ""]
        for scale in SCALES:
            lines = lines_of(table, scale, into)
            if scale == "laptop" or any(line.found for line in lines):
                told += _section(table, scale, lines, into, page)
    return "\n".join(told).rstrip() + "\n"


def write(known: Mapping[str, Table], into: Path, page: Path) -> None:
    """Write the page, and the figure that it shows."""
    text, drawn = markdown(known, into, page), plot.drawn(known, into)
    into.mkdir(parents=True, exist_ok=True)
    write_atomically(plot.path_of(into), drawn)
    write_atomically(page, text)


_SCALE: dict[Scale, str] = {
    "laptop": " (smaller networks, or fewer steps, than in the paper)",
    "paper": " (the paper's own)",
}


def _section(table: Table, scale: Scale, lines: Sequence[Line], into: Path, page: Path) -> list[str]:
    head, *rows = grid(table, lines)
    if not rows:
        return []
    links = [_links(line, into, page) for line in lines]  # in place of the number of seeds
    body = [_markdown([*row[:-1], link]) for row, link in zip(rows, links, strict=True)]
    heads = [_markdown([*head[:-1], "files, by seed"]), _markdown(["---"] * len(head))]
    told = [f"Scale: {scale}{_SCALE[scale]}.", "", *heads, *body, ""]
    found = [result for line in lines for result in line.found.values()]
    for line in lines if table.show_samples else ():
        if (cell := line.first) is not None and (path := result_files.samples_of(into, cell)).is_file():
            told += [f"![Samples, {line.row.label}]({_from(page, path)})", ""]
    if found:
        machines = sorted({_machine(result) for result in found})
        told += [f"*Run on {'; '.join(machines)}.*", ""]
    return told


def _links(line: Line, into: Path, page: Path) -> str:
    cells = [cell for cell in line.all if cell.seed in line.found]
    return " ".join(f"[{cell.seed}]({_from(page, result_files.path_of(into, cell))})" for cell in cells)


def _from(page: Path, path: Path) -> str:
    """A link from the page."""
    return Path(os.path.relpath(path.absolute(), page.absolute().parent)).as_posix()


def _machine(result: Mapping[str, Any]) -> str:
    machine, software = result["machine"], result["software"]
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    return (
        f"{machine.get('gpu', machine['processor'])}, {cores}, {result_files.threads_of(machine)}, "
        f"torch {software['torch']}, {result['date']}"
    )


def _markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def listing(known: Mapping[str, Table], scale: Scale, into: Path) -> list[str]:
    """Every table: what it is, how many of its cells are done, and about how long the others take."""
    rows = [["table", "what", "cells done", "hours left"]]
    for table in known.values():
        cells = table.cells(scale)
        done = {cell.name: result for cell in cells if (result := result_files.load(into, cell)) is not None}
        left = sum(expected(cell, done, cells) for cell in cells if cell.name not in done) / 60
        rows.append([table.name, table.title, f"{len(done)} of {len(cells)}", f"{left:.1f}"])
    return aligned(rows)


def expected(cell: Cell, done: Mapping[str, Mapping[str, Any]], cells: Sequence[Cell]) -> float:
    """Minutes that a cell will take: as others of its row did, else as it was reckoned, at the pace of those that are done."""
    alike = [
        result_files.minutes_of(done[each.name]) for each in cells if each.name in done and each.digest == cell.digest
    ]
    if alike:
        return fmean(alike)
    reckoned = sum(each.how.minutes for each in cells if each.name in done)
    pace = sum(map(result_files.minutes_of, done.values())) / reckoned if reckoned else 1.0
    return cell.how.minutes * pace


def _of_real(figure: str) -> str:
    """The figure of the real records that stands beside this one in an evaluation."""
    return registry.floor(figure).name if figure in (registry.CLASSIFIER_FID.name, registry.FID.name) else (
        registry.INCEPTION_OF_REAL.name if figure == registry.INCEPTION.name else of_baseline(figure)
    )  # fmt: skip
