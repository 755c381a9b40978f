"""Releases replayed elsewhere: another number of threads, another NumPy, another PyTorch.

    python -m benchmarks.replay make DIR      five releases, of pictures and of a table
    python -m benchmarks.replay check DIR     replay them in this environment, and print a line for each

Run `make` in one environment and `check` in others. docs/certificate.md has the figures.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gossamer
from gossamer.run.cli.demo import TABLE_CARD, TRAIN, write_rows

CARD = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=1_437)
RUNS: dict[str, dict[str, Any]] = {
    "moments": {"axes": 20},
    "marginals": {},
    "evolve": {"candidates": 20, "steps": 2},
    "dp-mepf": {"start": "moments", "features_steps": 20, "matching_steps": 20, "width": 8},
    "teacher": {"steps": 10},
}
"""Methods, each with settings that keep its run short."""


def make(folder: Path) -> None:
    """Train and release each method that is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder)
    for method, settings in RUNS.items():
        table = method == "marginals"
        given: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-4, "accounts": folder / "log", **settings}
        began, run = time.monotonic(), folder / f"{method} run"
        if (folder / method).exists():
            continue
        data, card = (folder / TRAIN, TABLE_CARD) if table else ("digits", CARD)
        gossamer.fit(method, data=data, card=card, out=run, **given)
        gossamer.release(run, folder / method, samples=500)
        print(f"{method:10} {time.monotonic() - began:6.1f} s", flush=True)


def check(folder: Path) -> None:
    """Replay each release, and print what follows."""
    here = (
        f"torch {torch.__version__}, numpy {np.__version__}, OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS', '-')}"
    )
    print(f"{here}, {torch.get_num_threads()} threads")
    for method in (method for method in RUNS if (folder / method).exists()):
        began = time.monotonic()
        verdict = gossamer.verify(folder / method, replay=True)
        said = verdict.problems or [note for note in verdict.notes if note.startswith("Replayed")]
        print(f"{method:10} {time.monotonic() - began:6.1f} s  {' '.join(said)}", flush=True)


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
