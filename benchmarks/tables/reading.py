"""How long does a table take to come in, and how much memory? Drafts and reading of CSV and Parquet, and readers beside ours.

Each measurement runs in a process of its own, on one thread. Times are of the processor, without imports. Private memory is
what the process has for itself. Pages of mapped files, which the system drops when it needs them, count in the peak alone.
The tables have 20 columns: 5 categories, 5 whole numbers, 5 numbers with two decimals, 2 dates, a time, a truth value, and an
id that is dropped.

    python -m benchmarks.tables.reading                        1 million rows
    python -m benchmarks.tables.reading --millions 1 5 20      larger tables; 20 million need 6 GB of disk for a while
    python -m benchmarks.tables.reading --forms parquet        one form alone
    python -m benchmarks.tables.reading --libraries            pyarrow, duckdb, polars, narwhals, those that are installed
    python -m benchmarks.tables.reading --evaluate             `gossamer evaluate` with so many training rows

`--evaluate` has a fifth as many test rows as training rows, and 60,000 other rows in place of samples. It counts imports.
"""

import argparse
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

ROWS = 200_000
"""Rows that are made at once."""
WRITERS: dict[str, Any] = {"csv": pyarrow.csv.CSVWriter, "parquet": pyarrow.parquet.ParquetWriter}
LIBRARIES = ("pyarrow", "duckdb", "polars", "narwhals")
NASTY = {
    "row of another length": b"a,b\n1,2\n3\n4,5,6\n7,8\n",
    "empty cell, quotes, NA": b'a,b\n1,\n2,""\n3,NA\n',
    "byte that is no UTF-8": "a,b\n1,Z\xfcrich\n".encode("latin-1"),
    "texts like numbers": b"a,b\n01,1.50\n5E3,2020-01-02\n",
}


def batch(rng: np.random.Generator, start: int) -> pa.RecordBatch:
    """Some rows."""
    columns: dict[str, Any] = {}
    for k in range(5):
        columns[f"category{k}"] = np.array([f"value {value}" for value in range(10)])[rng.integers(0, 10, ROWS)]
        columns[f"whole{k}"] = rng.integers(0, 1000, ROWS)
        columns[f"number{k}"] = np.round(rng.normal(0, 100, ROWS), 2)
    for k in range(2):
        columns[f"day{k}"] = rng.integers(15_000, 20_000, ROWS).astype("M8[D]")
    columns["time"] = rng.integers(1_500_000_000, 1_600_000_000, ROWS).astype("M8[s]")
    columns["truth"] = rng.random(ROWS) < 0.1 + 0.4 * (columns["whole0"] > columns["whole1"])
    columns["id"] = [f"K{number:09}" for number in range(start, start + ROWS)]
    return pa.record_batch(columns)


def make(folder: Path, millions: int, forms: list[str]) -> None:
    """Write the table in each of the forms."""
    rng = np.random.default_rng(millions)
    schema = batch(rng, 0).schema
    with ExitStack() as stack:
        files = [stack.enter_context(WRITERS[form](folder / f"t.{form}", schema)) for form in forms]
        for start in range(0, millions * 1_000_000, ROWS):
            rows = batch(rng, start)
            for file in files:
                file.write_batch(rows)


def memory(field: str = "RssAnon") -> int:
    """Memory of this process, in MB. RssAnon: what it has for itself; VmHWM: the peak of all."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{field}:")[2].split()[0]) // 1024


def measure(what: str, place: str) -> None:
    """Print what one piece of work takes."""
    from gossamer.data.sources.tables import open_table  # noqa: PLC0415 - each process imports what it measures
    from gossamer.data.tables.card import TableCard  # noqa: PLC0415 - the same
    from gossamer.data.tables.draft import draft_table_card  # noqa: PLC0415 - the same
    from gossamer.data.tables.read import read_table  # noqa: PLC0415 - the same

    open_table(place, split="train", where=place)
    before, most, done = memory(), [0], threading.Event()
    card = None
    if what == "read":
        text, _ = draft_table_card(place)
        card = TableCard.loads(text.replace("# measured: ", ""))

    def watch() -> None:
        while not done.wait(0.05):
            most[0] = max(most[0], memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.process_time()
    if what == "blocks":
        opened = open_table(place, split="train", where=place)
        count = sum(len(numbers) for numbers, _ in opened.blocks(range(len(opened.names))))
    elif card is None:
        count = len(draft_table_card(place)[0].splitlines())
    else:
        count = len(read_table(place, card))
    seconds = time.process_time() - start
    done.set()
    watcher.join()
    peak = memory("VmHWM")
    print(f"| {what} | {Path(place).suffix} | {count:,} | {seconds:.1f} | {most[0] - before} | {peak} |")


def evaluate(folder: Path) -> None:
    """Print what `gossamer evaluate` takes, with the usual metrics and with all."""
    from gossamer.data.tables.draft import draft_table_card  # noqa: PLC0415 - only here

    train, test, samples = (folder / f"{name}.parquet" for name in ("t", "test", "samples"))
    table = pyarrow.parquet.read_table(train)
    for path, rows in ((test, len(table) // 5), (samples, 60_000)):
        draws = np.random.default_rng(rows)
        with pyarrow.parquet.ParquetWriter(path, batch(draws, 0).schema) as file:
            for start in range(0, rows, ROWS):
                file.write_batch(batch(draws, start).slice(0, min(ROWS, rows - start)))
    text = draft_table_card(train)[0].replace("# measured: ", "").replace('label = ""', 'label = "truth"')
    card = folder / "card.toml"
    card.write_text(re.sub("^bounds = .*$", r'\g<0>\noutside = "clip"', text, flags=re.MULTILINE), encoding="utf-8")
    places = {"--card": card, "--train": train, "--test": test}
    words = [sys.executable, "-m", "gossamer", "evaluate", str(samples)]
    words += [word for flag, place in places.items() for word in (flag, str(place))]
    for more in ((), ("--metrics", "all")):
        process = subprocess.Popen([*words, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = usage.ru_utime + usage.ru_stime
        print(
            f"| evaluate {' '.join(more)} | {len(table):,} | {seconds:.1f} s | {usage.ru_maxrss // 1024} MB | {status} |"
        )


def read_by(library: str, path: Path) -> Iterator[Any]:
    """The batches of a CSV file, every column as text where the library can."""
    names = path.open("rb").readline().decode("utf-8", "replace").strip().split(",")
    if library == "pyarrow":
        texts = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
        return iter(pyarrow.csv.open_csv(path, pyarrow.csv.ReadOptions(use_threads=False), convert_options=texts))
    module = importlib.import_module(library)
    if library == "duckdb":
        types = dict.fromkeys(names, "VARCHAR")
        options = "header=true, auto_detect=false, delim=',', quote='\"', escape='\"'"
        found = module.connect(config={"threads": 1}).sql(
            f"select * from read_csv('{path}', columns={types}, {options})"
        )
        return iter(found.to_arrow_reader(1 << 16))
    if library == "polars":
        return iter(module.read_csv(path, infer_schema=False).to_arrow().to_batches())
    return iter(module.read_csv(str(path), backend="pyarrow").to_arrow().to_batches())


def compare(library: str, place: str) -> None:
    """Print what a library makes of a file."""
    start, path = time.process_time(), Path(place)
    try:
        rows = [
            row for each in read_by(library, path) for row in (each.to_pylist() if path.stat().st_size < 100 else [])
        ]
        said = rows or f"{time.process_time() - start:.1f} s, {memory('VmHWM')} MB"
    except Exception as error:  # what a library raises on such a file is what the table shows
        said = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    print(f"| {library} | {path.stem} | {said} |")


def main() -> None:
    """Make the tables, and measure each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, nargs="+", default=[1], help="rows (default 1)")
    parser.add_argument("--forms", nargs="+", choices=WRITERS, default=[*WRITERS], help="default: all")
    parser.add_argument("--libraries", action="store_true", help="compare readers of CSV")
    parser.add_argument("--evaluate", action="store_true", help="measure `gossamer evaluate`")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        (compare if given.one[0] in LIBRARIES else measure)(*given.one)
        return

    def run(*words: str | Path) -> None:
        subprocess.run([sys.executable, "-m", "benchmarks.tables.reading", "--one", *map(str, words)], check=False)

    for millions in given.millions:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
            folder = Path(scratch)
            make(folder, millions, given.forms)
            if given.evaluate:
                evaluate(folder)
                return
            if given.libraries:
                for name, raw in NASTY.items():
                    (folder / f"{name}.csv").write_bytes(raw)
                for library in filter(importlib.util.find_spec, LIBRARIES):
                    for path in sorted(folder.glob("*.csv")):
                        run(library, path)
                return
            print(
                "| work | form | rows | s of processor | private MB above the start | peak MB |\n|---|---|---|---|---|---|"
            )
            for what in ("blocks", "card", "read"):
                for path in sorted(folder.glob("t.*")):
                    run(what, path)


if __name__ == "__main__":
    main()
