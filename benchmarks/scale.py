"""Does a run care how many records there are, and how many a step draws? Steps per second, start-up and memory.

`records` writes drawn glyphs as a folder of .npy files, one for each N, into a temporary folder (784 bytes a record: 7.8 GB for
ten million; removed at the end), and trains on each in a process of its own, with the same expected batch. `batches` trains on
one such folder with several expected batches. The processes take turns, a few steps each, so that whatever else the machine
does falls on all alike. Each prints a Markdown table and keeps what it found as JSON in benchmarks/results. `figure` draws
docs/images/scale.png from the last of these files, and from that of ranks.py.

Start-up is what `gossamer fit` does with the records before the first step (open, check and hash all of them), and that step.
A ratio is of steps per second to those of the first row: the median over turns, and its middle half; by the clock, and by the
time of the processor, which other work on the machine disturbs less. Memory is anonymous memory (RssAnon), sampled every 5 ms:
pages of a mapped file are not counted, because the system drops them when it needs the room. --cold drops them before every
turn, so that every record drawn is read from the disk.

    python benchmarks/scale.py records --n 60000 10000000
    python benchmarks/scale.py batches --batches 128 512 2048
    python benchmarks/scale.py figure

`tables` makes tables of up to 100,000,000 rows, and measures `gossamer fit marginals` on each, see many_rows.py. `plot` draws
docs/images/many-rows.png from its last results.

    python benchmarks/scale.py tables --sizes 1000000x20 100000x200
    python benchmarks/scale.py plot
"""

import argparse
import json
import mmap
import os
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
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

import many_rows
import stored
from gossamer.data.card import DataCard
from gossamer.data.synthetic.glyphs import draw
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.training.memory import tune_malloc

SETTINGS: dict[str, dict[str, Any]] = {
    "dpgan": {"width": 8, "expected_batch_size": 128},
    "privae": {"network": "dense", "expected_batch_size": 512},
}
"""Small trainings, so that what depends on N would show."""
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "scale.png"
MIDDLE = ("low", "middle", "high")
SEEDS = {"glyphs": 0, "which glyph a record is": 0, "initialisation": 0}
"""Noise and draws are secret."""


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


def child(folder: str, n: int, method: str, batch: int, threads: int, *, cold: bool) -> None:
    """A run on one set of records, which trains when it is told to. Speaks in lines of JSON."""
    torch.set_num_threads(threads)
    memory, begun, work = Anonymous(), time.perf_counter(), time.process_time()
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=n)
    settings = {**SETTINGS[method], "expected_batch_size": batch, "noise_multiplier": 1.0, "steps": 100_000}
    job = Job.of(METHODS[method], settings, card)
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-9)
    ledger.reserve(job.plan)
    found = DataSources.of(folder).read_unconfined(card)
    tune_malloc()
    steps = job.begin(rng := Rng(0)).drive(Confined(found.private, ledger, rng))
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

    def __init__(self, folder: Path, n: int, method: str, batch: int, options: argparse.Namespace) -> None:
        arguments = [folder, n, method, batch, options.threads, *(["--cold"] if options.cold else [])]
        self.n, self.method, self.batch = n, method, batch
        self.process = subprocess.Popen(
            [sys.executable, __file__, "child", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
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
    """The same batch, of more and more records."""
    compare("scale-records", options.n, None, options)


def batches(options: argparse.Namespace) -> None:
    """Larger and larger batches, of the same records."""
    compare("scale-batches", [options.n], options.batches, options)


def compare(name: str, sizes: list[int], wanted: list[int] | None, options: argparse.Namespace) -> None:
    """Runs on every N and with every expected batch (None: the method's own), side by side; a table and a file."""
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folders = {n: Path(scratch) / str(n) for n in sizes}
        for n, folder in folders.items():
            write(folder, n)
        print(f"{stored.machine()}, {options.threads} threads, {options.rounds} turns of {options.steps} steps, torch")
        print(f"{torch.__version__}, {'every turn from the disk' if options.cold else 'records in the page cache'}\n")
        print(
            "| method | N | batch | start-up, s | CPU s | steps/s | ratio, clock | ratio, CPU | start-up, MB | training, MB |"
        )
        print("|---" * 10 + "|", flush=True)
        for method in options.methods:
            asked = wanted or [SETTINGS[method]["expected_batch_size"]]
            runs = [Run(folder, n, method, batch, options) for n, folder in folders.items() for batch in asked]
            for turn in range(options.rounds + 1):  # the first warms up
                for run in runs if turn % 2 else reversed(runs):
                    run.turn(options.steps)
            for run in runs:
                run.process.communicate()
                rows.append(row(run, runs[0], options.steps))
                print(line(rows[-1]), flush=True)
    conditions = {"steps": options.steps, "rounds": options.rounds, "cold": options.cold}
    stored.keep(
        name, [{**each, **conditions} for each in rows], threads=options.threads, seeds=SEEDS, folder=options.results
    )


def row(run: Run, base: Run, steps: int) -> dict[str, Any]:
    """What one run showed. A ratio is the median over turns, of two processes side by side, with its middle half."""
    times = [turn["seconds"] / steps for turn in run.turns[1:]]
    found: dict[str, Any] = {
        "method": run.method, "n": run.n, "batch": run.batch, "startup_s": run.started["seconds"],
        "startup_cpu_s": run.started["cpu"], "steps_per_s": 1 / statistics.median(times), "step_s": quartiles(times),
        "startup_mb": run.started["memory"] / 1e6, "training_mb": max(turn["memory"] for turn in run.turns) / 1e6,
    }  # fmt: skip
    for clock in ("seconds", "cpu"):
        ratios = [other[clock] / own[clock] for own, other in zip(run.turns[1:], base.turns[1:], strict=True)]
        found[f"ratio_{clock}"] = quartiles(ratios)
    return found


def quartiles(values: list[float]) -> dict[str, float]:
    found = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return dict(zip(MIDDLE, found, strict=True))


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    ratios = ["{middle:.3f} ({low:.3f}-{high:.3f})".format(**row[f"ratio_{clock}"]) for clock in ("seconds", "cpu")]
    columns = [
        row["method"],
        f"{row['n']:,}",
        f"{row['batch']:,}",
        f"{row['startup_s']:.1f}",
        f"{row['startup_cpu_s']:.1f}",
    ]
    columns += [f"{row['steps_per_s']:.2f}", *ratios, f"{row['startup_mb']:.0f}", f"{row['training_mb']:.0f}"]
    return f"| {' | '.join(columns)} |"


def figure(options: argparse.Namespace) -> None:
    """Four panels from the last results: a step, start-up and memory against N, and steps per second against ranks."""
    of_records, of_ranks = (stored.newest(name, options.results) for name in ("scale-records", "ranks"))
    if of_records is None or of_ranks is None:
        sys.exit(f"{options.results}: run `scale.py records` and `ranks.py` first, whose results are drawn")
    drawn = Figure(figsize=(7, 5.2), layout="constrained")
    (step, startup), (memory, ranks) = drawn.subplots(2, 2)
    for method in dict.fromkeys(row["method"] for row in of_records["rows"]):
        rows = [row for row in of_records["rows"] if row["method"] == method]
        n, label = [row["n"] for row in rows], f"{method}, batch {rows[0]['batch']:,}"
        low, middle, high = ([row["step_s"][part] for row in rows] for part in MIDDLE)
        around = [
            [m - each for m, each in zip(middle, low, strict=True)],
            [each - m for m, each in zip(middle, high, strict=True)],
        ]
        step.errorbar(n, middle, yerr=around, marker="o", capsize=3, label=label)
        (solid,) = startup.plot(n, [row["startup_s"] for row in rows], marker="o", label=f"{method}, by the clock")
        worked = [row["startup_cpu_s"] for row in rows]
        startup.plot(n, worked, marker="o", linestyle=":", color=solid.get_color(), label=f"{method}, processor")
        memory.plot(n, [max(row["startup_mb"], row["training_mb"]) for row in rows], marker="o", label=method)
    for batch in dict.fromkeys(row["batch"] for row in of_ranks["rows"]):
        rows = [row for row in of_ranks["rows"] if row["batch"] == batch]
        (drawing,) = ranks.plot(
            [row["ranks"] for row in rows],
            [row["steps_per_s"] for row in rows],
            marker="o",
            label=f"dpgan, batch {batch:,}",
        )
        first = rows[0]["steps_per_s"] / rows[0]["ranks"]
        ideal = [first * row["ranks"] for row in rows]
        ranks.plot([row["ranks"] for row in rows], ideal, linestyle="--", color=drawing.get_color(), linewidth=0.8)
    for axes, x, y in (
        (step, "records", "seconds of a step"), (startup, "records", "start-up, seconds"),
        (memory, "records", "anonymous memory, MB"), (ranks, "ranks (dashed: as many times one)", "steps per second"),
    ):  # fmt: skip
        dress(axes, x, y)
    ranks.set_xticks(sorted({row["ranks"] for row in of_ranks["rows"]}))
    for axes in (step, startup, memory):
        axes.set_xticks(sorted({row["n"] for row in of_records["rows"]}))
    options.image.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(options.image, dpi=160)
    print(options.image)


def dress(axes: Axes, x: str, y: str) -> None:
    """Log axes, with room above and below so that what is flat looks flat, and plain numbers."""
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    low, high = axes.get_ylim()
    middle, half = (low * high) ** 0.5, max((high / low) ** 0.5, 5.0)
    axes.set_ylim(middle / half, middle * half)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        folder, n, method, batch, threads, *rest = sys.argv[2:]
        return child(folder, int(n), method, int(batch), int(threads), cold=bool(rest))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    of_records = commands.add_parser("records", help="against the number of records")
    of_records.add_argument("--n", type=int, nargs="+", default=[60_000, 10_000_000])
    of_records.set_defaults(command=records)
    of_batches = commands.add_parser("batches", help="against the expected batch")
    of_batches.add_argument("--n", type=int, default=60_000)
    of_batches.add_argument("--batches", type=int, nargs="+", default=[128, 512, 2_048])
    of_batches.set_defaults(command=batches)
    for each in (of_records, of_batches):
        each.add_argument("--methods", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
        each.add_argument("--steps", type=int, default=20, help="steps of a turn")
        each.add_argument("--rounds", type=int, default=15, help="turns of each run")
        each.add_argument("--threads", type=int, default=1)
        each.add_argument("--folder", help="where the records are written for the time being (default: TMPDIR)")
        each.add_argument("--cold", action="store_true", help="read every turn's records from the disk")
    many_rows.add_to(commands)
    of_figure = commands.add_parser("figure", help="draw the last results")
    of_figure.add_argument("--image", type=Path, default=IMAGE)
    of_figure.set_defaults(command=figure)
    for each in (of_records, of_batches, of_figure):
        each.add_argument("--results", type=Path, default=stored.RESULTS, help="folder of the JSON files")
    options = parser.parse_args()
    options.command(options)
    return None


if __name__ == "__main__":
    main()
