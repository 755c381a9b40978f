"""Does a run care how many records there are? Steps per second, start-up and memory against N.

`records` writes drawn glyphs as a folder of .npy files, one for each N, into a temporary folder (784 bytes a record: 7.8 GB for
ten million; removed at the end), and trains on each in a process of its own, with the same expected batch. The processes take
turns, a few steps each, so that whatever else the machine does falls on all alike. Prints a Markdown table.

Start-up is what `gossamer fit` does with the records before the first step (open, check and hash all of them), and that step.
A ratio is of steps per second to those with the first N: the median over turns, and its middle half; by the clock, and by the
time of the processor, which other work on the machine disturbs less. Memory is anonymous memory (RssAnon), sampled every 5 ms:
pages of a mapped file are not counted, because the system drops them when it needs the room. --cold drops them before every
turn, so that every record drawn is read from the disk.

    python benchmarks/scale.py records --n 60000 10000000
"""

import argparse
import json
import mmap
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gossamer.data.card import DataCard
from gossamer.data.glyphs import draw
from gossamer.methods import METHODS
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.noise import Rng
from gossamer.run.memory import keep_pages
from gossamer.run.sources import Sources

SETTINGS: dict[str, dict[str, Any]] = {
    "dpgan": {"width": 8, "expected_batch_size": 128},
    "privae": {"network": "dense", "expected_batch_size": 512},
}
"""Small trainings, so that what depends on N would show."""


def write(folder: Path, n: int) -> None:
    """So many drawn glyphs, as images.npy and labels.npy."""
    rng, pool = np.random.default_rng(0), draw(6_000, seed=0)
    folder.mkdir()
    images = np.lib.format.open_memmap(folder / "images.npy", "w+", np.uint8, (n, *pool.shape))
    labels = np.lib.format.open_memmap(folder / "labels.npy", "w+", np.int64, (n,))
    for lo in range(0, n, 50_000):
        some = rng.integers(len(pool), size=min(50_000, n - lo))
        images[lo : lo + 50_000], labels[lo : lo + 50_000] = pool.images[some], pool.labels[some]
    images.flush()
    labels.flush()


class Anonymous(threading.Thread):
    """The most anonymous memory that this process held since the last look, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self.start()

    def run(self) -> None:
        while True:
            lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
            now = next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
            self.most = max(self.most, now)
            time.sleep(0.005)

    def look(self) -> int:
        time.sleep(0.02)
        most, self.most = self.most, 0
        return most


def child(folder: str, n: int, method: str, threads: int, *, cold: bool) -> None:
    """A run on one set of records, which trains when it is told to. Speaks in lines of JSON."""
    torch.set_num_threads(threads)
    memory, begun, work = Anonymous(), time.perf_counter(), time.process_time()
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=n)
    job = METHODS[method].job({"noise_multiplier": 1.0, "steps": 100_000, **SETTINGS[method]}, card)
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-9)
    ledger.reserve(job.plan)
    found = Sources.of(folder, public=None, labels_key=None, units=None).read(card)
    keep_pages()
    steps = job.begin(Rng(0)).drive(Confined(found.private, ledger))
    next(steps)
    tell(begun, work, memory)
    for line in sys.stdin:
        if cold:
            forget(found.private.images, Path(folder) / "images.npy")
        begun, work = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            next(steps)
        tell(begun, work, memory)


def tell(begun: float, work: float, memory: Anonymous) -> None:
    """How long something took, by the clock and of the processor, and what it held."""
    took = {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - work}
    print(json.dumps({**took, "memory": memory.look()}), flush=True)


def forget(array: np.ndarray, path: Path) -> None:
    """Drop a mapped file from the memory."""
    if isinstance(array, np.memmap):
        array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]  # of numpy.memmap
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Run:
    """A run in a process of its own."""

    def __init__(self, folder: Path, n: int, method: str, options: argparse.Namespace) -> None:
        arguments = [str(folder), str(n), method, str(options.threads), *(["--cold"] if options.cold else [])]
        self.n, self.method = n, method
        self.process = subprocess.Popen(
            [sys.executable, __file__, "child", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.started = self.said()
        self.turns = list[dict[str, float]]()

    def said(self) -> dict[str, float]:
        assert self.process.stdout is not None
        answer: dict[str, float] = json.loads(self.process.stdout.readline())
        return answer

    def turn(self, steps: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        self.turns.append(self.said())


def records(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folders = {n: Path(scratch) / str(n) for n in options.n}
        for n, folder in folders.items():
            write(folder, n)
        print(f"{options.threads} threads, {options.rounds} turns of {options.steps} steps, torch {torch.__version__},")
        print(f"{platform.machine()}, {'every turn from the disk' if options.cold else 'records in the page cache'}\n")
        print(
            "| method | N | start-up, s | CPU s | steps/s | ratio, clock | ratio, CPU | start-up, MB | training, MB |"
        )
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        for method in options.methods:
            runs = [Run(folder, n, method, options) for n, folder in folders.items()]
            for turn in range(options.rounds + 1):  # the first warms up
                for run in runs if turn % 2 else reversed(runs):
                    run.turn(options.steps)
            for run in runs:
                run.process.communicate()
                show(run, runs[0], options.steps)


def show(run: Run, base: Run, steps: int) -> None:
    """One line of the table. A ratio is the median over turns, of two processes side by side."""
    started, memory = run.started, max(turn["memory"] for turn in run.turns)
    columns = [run.method, f"{run.n:,}", f"{started['seconds']:.1f}", f"{started['cpu']:.1f}"]
    columns.append(f"{steps / statistics.median(turn['seconds'] for turn in run.turns[1:]):.2f}")
    for clock in ("seconds", "cpu"):
        ratios = [other[clock] / own[clock] for own, other in zip(run.turns[1:], base.turns[1:], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        columns.append(f"{middle:.3f} ({low:.3f}-{high:.3f})")
    print(f"| {' | '.join(columns)} | {started['memory'] / 1e6:.0f} | {memory / 1e6:.0f} |", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        folder, n, method, threads, *rest = sys.argv[2:]
        return child(folder, int(n), method, int(threads), cold=bool(rest))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    of_records = commands.add_parser("records", help="against the number of records")
    of_records.add_argument("--n", type=int, nargs="+", default=[60_000, 10_000_000])
    of_records.add_argument("--methods", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    of_records.add_argument("--steps", type=int, default=20, help="steps of a turn")
    of_records.add_argument("--rounds", type=int, default=15, help="turns of each run")
    of_records.add_argument("--threads", type=int, default=1)
    of_records.add_argument("--folder", help="where the records are written for the time being (default: TMPDIR)")
    of_records.add_argument("--cold", action="store_true", help="read every turn's records from the disk")
    of_records.set_defaults(command=records)
    options = parser.parse_args()
    options.command(options)
    return None


if __name__ == "__main__":
    main()
