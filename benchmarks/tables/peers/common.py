"""What a peer's script gets and hands back: two files. It uses NumPy and the standard library, in every peer's environment.

    PEER/bin/python benchmarks/tables/peers/with_dpmm.py TASK.npz SAMPLES.npz METHOD EPSILON SEED '{"setting": 1}'

TASK.npz has `codes`, int [N, columns], and `domain`, the number of values of each column. SAMPLES.npz gets the samples, and the
CPU and wall seconds of training and sampling, without imports.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

DELTA = 1e-5


@dataclass(frozen=True)
class Task:
    """What a peer shall do.

    Args:
        codes: int [N, columns], each below its column's size.
        domain: the number of values of each column.
        method: a method's name in the peer's script.
        epsilon: for delta 1e-5, one row added or removed.
        seed: for what the peer lets seed.
        settings: in place of the peer's own defaults.
    """

    codes: np.ndarray
    domain: tuple[int, ...]
    method: str
    epsilon: float
    seed: int
    settings: dict[str, Any]
    delta: float = DELTA


def run(samples: Callable[[Task], np.ndarray]) -> None:
    """Do the task of the command line: write as many samples as rows, and the seconds that they took."""
    given, wanted, method, epsilon, seed, settings = sys.argv[1:]
    with np.load(given) as file:
        codes, domain = file["codes"], tuple(int(size) for size in file["domain"])
    task = Task(codes, domain, method, float(epsilon), int(seed), json.loads(settings))
    wall, cpu = time.perf_counter(), time.process_time()
    made = samples(task)
    seconds = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    np.savez_compressed(wanted, samples=made.astype(np.int32), **seconds)
