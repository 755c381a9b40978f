"""How long does `gossamer fit marginals` take on many rows, with how much memory? `scale.py tables` and `plot` call this.

The tables are made up, three rows a person, as folders of Parquet in parts of a million rows. A row has a hidden number, and
each cell follows it or is random, half and half. Columns take turns through ten kinds, with the bins that a draft of a card
has. Rows of a person are anywhere in the table. All of a table follows from its size.

Each run is `gossamer fit marginals` at epsilon 1 in a process of its own. Wall clock, processor seconds and peak memory (the
largest resident set, so with pages of files) are what the system says of that process.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from pyarrow import parquet
from scipy.special import ndtri

import stored

SIZES = ("1000000x20", "10000000x20", "100000000x20", "100000x200", "1000000x200")
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "many-rows.png"
PART, PEOPLE, APART = 10**6, 3, 7_368_787
"""Rows of a part, rows of a person, and how far in the order of persons the next row is."""
SEEDS = {"table": [0]}
REGIONS = [f"region {k}" for k in range(12)]
DIAGNOSES = [f"{letter}{number:02}" for letter in "ABCDEF" for number in range(10)]

Column = tuple[str, Callable[[np.ndarray], Any]]
"""What the card says of it, and its cells, of numbers between 0 and 1."""


def texts(values: Sequence[str]) -> Column:
    """Texts, of which the first are more frequent."""
    there = pa.array(values)
    listed = json.dumps([*values])
    return f'kind = "category"\nvalues = {listed}', lambda u: there.take(
        pa.array((u**2 * len(values)).astype(np.int32))
    )


def missing(u: np.ndarray, cells: Any) -> Any:
    """One cell in twenty is missing."""
    return pa.array(cells, mask=np.asarray(u * 997 % 1 < 0.05))


DAY = "2020-01-01"
KINDS: list[Column] = [
    texts(["a", "b", "c", "d", "e", "f"]),
    ('kind = "integer"\nbounds = [0, 99]\nbins = 1000', lambda u: pa.array((u * 100).astype(np.int64))),
    ('kind = "boolean"', lambda u: pa.array(u > 0.7)),
    (
        'kind = "number"\nbounds = [0.01, 100000.0]\nbins = 1000\nlog = true\ndecimals = 2\nzero = true\noutside = "clip"',
        lambda u: pa.array(np.exp(ndtri(u * 0.998 + 0.001) * 1.5 + 4).round(2)),
    ),
    texts(REGIONS),
    (
        'kind = "date"\nbounds = [2020-01-01, 2025-12-31]\nbins = 9000',
        lambda u: pa.array(np.datetime64(DAY) + (u * 2192).astype(np.int64)),
    ),
    (
        'kind = "integer"\nbounds = [0, 5000]\nbins = 9000\nmissing = true',
        lambda u: missing(u, (u**3 * 5001).astype(np.int64)),
    ),
    texts(DIAGNOSES),
    (
        'kind = "datetime"\nbounds = [2020-01-01T00:00:00, 2025-12-31T00:00:00]\nbins = 1000',
        lambda u: pa.array(np.datetime64(DAY, "s") + (u * 2191 * 86_400).astype(np.int64)),
    ),
    ('kind = "number"\nbounds = [0.0, 1.0]\nbins = 1000\nmissing = true', lambda u: missing(u, u.astype(np.float64))),
]


def make(folder: Path, rows: int, columns: int) -> None:
    """A table and its card, in constant memory."""
    (folder / "rows").mkdir(parents=True)
    for part, start in enumerate(range(0, rows, PART)):
        numbers, rng = np.arange(start, min(rows, start + PART)), np.random.default_rng([0, rows, part])
        hidden = rng.random(len(numbers), np.float32)
        cells = {"person": pa.array(numbers * APART % rows // PEOPLE)}
        for k in range(columns):
            own = np.where(rng.random(len(numbers), np.float32) < 0.5, hidden, rng.random(len(numbers), np.float32))
            cells[f"column {k}"] = KINDS[k % len(KINDS)][1](own)
        parquet.write_table(pa.table(cells), folder / "rows" / f"{part:05}.parquet")
    card = [f'declared_size = {rows // PEOPLE}\nunit = "person"\nmax_rows = {PEOPLE}\n']
    card += [f'[[column]]\nname = "column {k}"\n{KINDS[k % len(KINDS)][0]}\n' for k in range(columns)]
    (folder / "card.toml").write_text("\n".join(card))


def measured(folder: Path, size: str, threads: int) -> dict[str, Any]:
    """One fit of a table in a folder."""
    rows, columns = map(int, size.split("x"))
    with tempfile.TemporaryDirectory(dir=folder) as run:
        command = [
            sys.executable,
            "-m",
            "gossamer",
            "fit",
            "marginals",
            "--data",
            str(folder / "rows"),
            "--units",
            "person",
        ]
        command += ["--card", str(folder / "card.toml"), "--epsilon", "1", "--delta", "1e-9", "--out", f"{run}/run"]
        command += ["--accounts", f"{run}/accounts"]
        begun = time.perf_counter()
        process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stdout=sys.stderr)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
    if status:
        sys.exit(f"{size}: the run failed")
    found = {"rows": rows, "columns": columns, "seconds": seconds, "cpu": used.ru_utime + used.ru_stime}
    conditions = {"threads": threads, "date": str(date.today()), "load": round(os.getloadavg()[1], 1)}
    return {**found, "memory_mb": used.ru_maxrss * 1024 / 1e6, **conditions}


def tables(options: argparse.Namespace) -> None:
    """Make each table that is not there yet, measure a run of it, print a table and write a file of results.

    The file keeps the figures of the last file for other sizes.
    """
    found = dict[str, dict[str, Any]]()
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        for size in options.sizes:
            folder = (options.keep or Path(scratch)) / size
            if not (folder / "card.toml").exists():
                make(folder, *map(int, size.split("x")))
            if options.only_make:
                continue
            found[size] = measured(folder, size, options.threads)
            print(line(found[size]), flush=True)
            if options.keep is None:
                shutil.rmtree(folder)
    if found:
        last = stored.newest("many-rows", options.results) or {"rows": []}
        rows = {f"{row['rows']}x{row['columns']}": row for row in last["rows"]} | found
        stored.keep("many-rows", [*rows.values()], threads=options.threads, seeds=SEEDS, folder=options.results)


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    numbers = [f"{row[key]:,.0f}" for key in ("columns", "seconds", "cpu", "memory_mb")]
    return f"| {row['rows']:,} | {' | '.join(numbers)} |"


def plot(options: argparse.Namespace) -> None:
    """Time and memory against rows, from the last results."""
    last = stored.newest("many-rows", options.results)
    if last is None:
        sys.exit(f"{options.results}: run `scale.py tables` first, whose results are drawn")
    drawn = Figure(figsize=(7, 3), layout="constrained")
    panels = (("seconds", "seconds, wall clock"), ("cpu", "seconds, processor"), ("memory_mb", "peak memory, MB"))
    for axes, (key, label) in zip(drawn.subplots(1, 3), panels, strict=True):
        for columns in sorted({row["columns"] for row in last["rows"]}):
            rows = sorted((row["rows"], row[key]) for row in last["rows"] if row["columns"] == columns)
            axes.plot(*zip(*rows, strict=True), marker="o", label=f"{columns} columns")
        axes.set(xscale="log", xlabel="rows", ylabel=label)
        if key == "memory_mb":
            axes.set_ylim(0, 2_000)
        else:
            axes.set_yscale("log")
        axes.spines[["top", "right"]].set_visible(False)
    drawn.axes[-1].legend(frameon=False, fontsize=8, loc="lower right")
    drawn.savefig(options.image, dpi=160)
    print(options.image)


def add_to(commands: Any) -> None:
    """The commands `tables` and `plot` of `scale.py`."""
    of_tables = commands.add_parser("tables", help="`fit marginals` against the number of rows")
    of_tables.add_argument("--sizes", nargs="+", default=SIZES, help="rows x columns")
    of_tables.add_argument("--threads", type=int, default=2)
    of_tables.add_argument("--folder", help="where tables are written for the time being (default: TMPDIR)")
    of_tables.add_argument("--keep", type=Path, help="write tables into this folder, and take those that are there")
    of_tables.add_argument("--only-make", action="store_true", help="make the tables of --keep, and run nothing")
    of_tables.set_defaults(command=tables)
    of_plot = commands.add_parser("plot", help="draw the last results of `tables`")
    of_plot.add_argument("--image", type=Path, default=IMAGE)
    of_plot.set_defaults(command=plot)
    for each in (of_tables, of_plot):
        each.add_argument("--results", type=Path, default=stored.RESULTS, help="folder of the JSON files")
