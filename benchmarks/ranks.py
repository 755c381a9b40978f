"""Steps per second and memory against ranks: the same training on 1, 2 and 4 gloo processes of one thread each.

    python benchmarks/ranks.py                        # dpgan, 512 records and as many fakes a step
    python benchmarks/ranks.py --batches 512 4096 --ranks 1 2 --rounds 5

All numbers of ranks take turns, round by round; ratios are medians of the ratios of a round. On a machine with C free cores,
more than C ranks cannot be faster than C of them. Prints a Markdown table, and keeps
what it found as JSON in benchmarks/results.
"""

import argparse
import resource
import statistics
import tempfile
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import stored
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import ALONE, Group, Ranks
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.distributed import part_of

N, WIDTH = 60_000, 32


def trains(end: Connection, number: int, count: int, store: str, batch: int, steps: int) -> None:
    """One rank: so many steps whenever it is asked; gives seconds, and peak memory in MiB."""
    torch.set_num_threads(1)
    ranks: Ranks = ALONE
    if count > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=number, world_size=count, timeout=timedelta(minutes=30)
        )
        ranks = Group()
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=N)
    draw = np.random.default_rng(0)
    records = Records(draw.integers(0, 256, (N, 1, 28, 28), np.uint8), draw.integers(10, size=N))
    settings = {
        "noise_multiplier": 1.0, "steps": 1_000_000, "expected_batch_size": batch, "width": WIDTH, "discriminator_steps": 5,
        "warm_steps": 0,
    }  # fmt: skip
    job = Job.of(METHODS["dpgan"], settings, card)
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5)
    ledger.reserve(job.plan)
    going = job.begin(rng := Rng(), ranks=ranks).drive(Confined(part_of(records, job, ranks, rng), ledger, rng, ranks))
    while end.recv():
        began = time.perf_counter()
        for _ in range(steps):
            next(going)
        end.send((time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--batches", type=int, nargs="+", default=[512, 4096])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=stored.RESULTS, help="folder of the JSON file")
    options = parser.parse_args()
    context = mp.get_context("spawn")
    rows = []
    print(f"{stored.machine()}, torch {torch.__version__}, gloo, 1 thread a rank\n")
    print(
        "| records a step | ranks | steps per second | against one rank | peak memory of a rank, MiB |\n|---|---|---|---|---|"
    )
    for batch in options.batches:
        groups: dict[int, list[Connection]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for count in options.ranks:
                groups[count] = []
                for number in range(count):
                    here, there = context.Pipe()
                    asked = (there, number, count, str(Path(folder) / str(count)), batch, options.steps)
                    context.Process(target=trains, args=asked, daemon=True).start()
                    groups[count].append(here)
            rounds = [{count: _turn(ends) for count, ends in groups.items()} for _ in range(options.rounds + 1)][1:]
            for ends in groups.values():
                for end in ends:
                    end.send(False)
        for count in options.ranks:
            rate = statistics.median(options.steps / each[count][0] for each in rounds)
            ratio = statistics.median(each[options.ranks[0]][0] / each[count][0] for each in rounds)
            memory = max(each[count][1] for each in rounds)
            print(f"| {batch:,} | {count} | {rate:.2f} | {ratio:.2f} | {memory:,.0f} |", flush=True)
            rows.append({"batch": batch, "ranks": count, "steps_per_s": rate, "ratio": ratio, "peak_mib": memory})
    conditions = {"method": "dpgan", "width": WIDTH, "n": N, "steps": options.steps, "rounds": options.rounds}
    seeds = {"records": 0, "initialisation": 0}
    stored.keep("ranks", [{**row, **conditions} for row in rows], threads=1, seeds=seeds, folder=options.results)


def _turn(ends: list[Connection]) -> tuple[float, float]:
    """Some steps of one group: seconds of the slowest rank, and the largest memory."""
    for end in ends:
        end.send(True)
    found = [end.recv() for end in ends]
    return max(seconds for seconds, _ in found), max(memory for _, memory in found)


if __name__ == "__main__":
    main()
