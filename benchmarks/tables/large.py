"""Time and memory of `marginals` on a large made-up table, by the commands of a user.

    python -m benchmarks.tables.large --rows 1000000 --columns 50 -o FILE

The columns are whole numbers: every third has 16 bins, the others are categories of 2 to 9 values. Each is a noisy function of
an earlier one. CPU and wall seconds and the largest resident memory are those of each command's process, imports included. One
line of JSON for each command; FILE keeps them. A command that refuses has its last line of output in the place of an answer.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import csv, table

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard

BINS = 16


def card(rows: int, columns: int) -> TableCard:
    """The public facts: the last column is the label."""
    return TableCard(
        columns=tuple(column(k) for k in range(columns)), declared_size=rows, label=f"c{columns - 1}", title="large"
    )


def column(k: int) -> Column:
    """16 bins of the numbers from 0 to 159, or a category."""
    if k % 3 == 0:
        return Column(name=f"c{k}", kind="integer", bounds=(0, 10 * BINS - 1), bins=BINS)
    return Column(name=f"c{k}", kind="category", values=tuple(map(str, range(2 + k % 8))))


def values(rows: int, columns: int, seed: int) -> dict[str, np.ndarray]:
    """Each column follows an earlier one in 7 of 10 rows, and is uniform in the others."""
    draws = np.random.default_rng(seed)
    made: list[np.ndarray] = []
    for k in range(columns):
        size = 10 * BINS if k % 3 == 0 else 2 + k % 8
        fresh = draws.integers(size, size=rows)
        parent = made[draws.integers(k)] if k else fresh
        follows = (parent * (2 * draws.integers(1, 50) + 1)) % size
        made.append(np.where(draws.random(rows) < 0.7, follows, fresh))
    return {f"c{k}": numbers for k, numbers in enumerate(made)}


def measured(words: list[str]) -> dict[str, Any]:
    """Run `gossamer` with these words in a process of its own: status, seconds, memory and the last line that it printed."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "gossamer", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines = process.stdout.read().strip().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    return {
        "command": words[0],
        "status": os.waitstatus_to_exitcode(status),
        "cpu": round(usage.ru_utime + usage.ru_stime, 1),
        "wall": round(time.perf_counter() - started, 1),
        "megabytes": usage.ru_maxrss // 1024,
        "said": lines[-1] if lines else "",
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument(
        "--folder", type=Path, default=Path("build/large"), help="for table and run; default: build/large"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    asked = parser.parse_args()
    place = asked.folder / f"{asked.rows}x{asked.columns}"
    place.mkdir(parents=True)
    csv.write_csv(table(values(asked.rows, asked.columns, 0)), place / "table.csv")
    (place / "card.toml").write_text(card(asked.rows, asked.columns).dumps())
    run = str(place / "run")
    public = ["--epsilon", str(asked.epsilon), "--delta", "1e-7", "--public-test-data"]
    fit = [
        "fit",
        "marginals",
        "--data",
        str(place / "table.csv"),
        "--card",
        str(place / "card.toml"),
        *public,
        "--out",
        run,
    ]
    for words in (fit, ["sample", run, "-n", str(asked.rows), "-o", str(place / "samples.csv")]):
        found = {"rows": asked.rows, "columns": asked.columns, "epsilon": asked.epsilon, **measured(words)}
        print(json.dumps(found), flush=True)
        if asked.output:
            with asked.output.open("a") as file:
                file.write(json.dumps(found) + "\n")
        if found["status"]:
            break


if __name__ == "__main__":
    main()
