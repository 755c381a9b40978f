"""Trains methods on tables, and prints how good their samples are, the same figures for each.

    python -m benchmarks.tables                                                  marginals on Adult, four epsilons, three seeds
    python -m benchmarks.tables --held-out --epsilon 1 --set rounds=2            try a setting on training rows held out
    python -m benchmarks.tables --methods real fresh shuffled                    rows to compare with
    python -m benchmarks.tables --methods marginals dpmm-mst --data pima -o FILE    a peer; FILE keeps the results
    python -m benchmarks.tables show FILE ...                                    the means as a Markdown table
    python -m benchmarks.tables values --help                                    means, tails and categories of eight tables

Every method gets the same codes, of public bins and lists, and makes as many samples as it got rows. Gradient boosting trained
on the samples is tested on real rows. TV is the total variation against the rows that the method got: the mean over all pairs
of columns, and over 400 random triples. CPU seconds are those of the process, for training and sampling, without imports.
A method of another package runs in an environment of its own, below --environments: `lab/marginals.md` says how to make
them. A run whose result FILE has already is not made again. Nothing of this is covered by a guarantee.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import own, peers, values
from benchmarks.tables.datasets import READERS, Dataset, load
from benchmarks.tables.peers import PEERS, PeerFailed
from benchmarks.tables.scores import Figures, figures
from benchmarks.tables.show import markdown

OWN = ("marginals", "privae", "dpgan")
WITHOUT_TRAINING = ("real", "fresh", "shuffled")
"""The rows seen themselves, the test rows in place of samples, and the rows seen with each column shuffled by itself."""
ALL = (*OWN, *WITHOUT_TRAINING, *PEERS)
Result = dict[str, Any]


def result_of(run: Result, data: Dataset, asked: argparse.Namespace) -> Result:
    """Train, sample and measure; or the error of a peer that ended without samples. run: see `runs`."""
    try:
        samples, seconds = samples_of(run, data, asked)
    except PeerFailed as error:
        return {**run, "error": str(error)}
    found = figures(samples, data)
    if run["method"] == "fresh":
        found = {name: value for name, value in found.items() if name.startswith("tv")}
    return {**run, **rounded({**found, **seconds})}


def samples_of(run: Result, data: Dataset, asked: argparse.Namespace) -> tuple[np.ndarray, Figures]:
    """The samples of a method, int [n, columns], and its CPU and wall seconds."""
    method, epsilon, seed = run["method"], run["epsilon"], run["seed"]
    if method in WITHOUT_TRAINING:
        return without_training(method, data), {}
    if method in PEERS:
        asked.logs.mkdir(parents=True, exist_ok=True)
        log = asked.logs / f"{data.name}-{method}-eps{epsilon:g}-seed{seed}.log"
        return peers.samples(PEERS[method], data, epsilon, seed, run["settings"], asked.environments, log)
    wall, cpu = time.perf_counter(), time.process_time()
    samples = own.samples(method, data, epsilon, seed, run["settings"])
    return samples, {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def without_training(method: str, data: Dataset) -> np.ndarray:
    """Rows to compare with: see WITHOUT_TRAINING."""
    if method == "shuffled":
        return np.random.default_rng(0).permuted(data.seen, axis=0)
    return data.test if method == "fresh" else data.seen


def rounded(values: Figures) -> Figures:
    """To four digits."""
    return {name: round(value, 4) for name, value in values.items()}


def done(file: Path | None) -> list[Result]:
    """The results that a file has."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []


def runs(name: str, asked: argparse.Namespace) -> list[Result]:
    """The runs on a data set: method, epsilon, seed and settings of each. What is not trained has neither epsilon nor seed."""
    common = {"data": name, "settings": dict(asked.set), **({"held out": True} if asked.held_out else {})}
    found = []
    for method in asked.methods:
        trained = method not in WITHOUT_TRAINING
        for epsilon in asked.epsilon if trained else [None]:
            found += [
                {"method": method, "epsilon": epsilon, "seed": k, **common}
                for k in (asked.seeds if trained else [None])
            ]
    return found


def known(run: Result, results: list[Result]) -> bool:
    """Whether the results have this run already."""
    keys = (*run, "held out")
    return any(all(each.get(key) == run.get(key) for key in keys) for each in results)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.tables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--methods", nargs="+", choices=ALL, default=["marginals"], metavar="METHOD", help=", ".join(ALL)
    )
    options.add_argument("--data", nargs="+", choices=READERS, default=["adult"])
    options.add_argument("--epsilon", nargs="+", type=float, default=[0.3, 1.0, 3.0, 10.0])
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options.add_argument("--held-out", action="store_true", help="test on the last rows, which methods do not get")
    options.add_argument(
        "--set", nargs="*", type=own.setting, default=[], metavar="NAME=VALUE", help="a setting of the method"
    )
    options.add_argument("--environments", type=Path, default=Path("build/peers"), help="default: build/peers")
    options.add_argument(
        "--logs", type=Path, default=Path("build/tables"), help="for output of peers; default: build/tables"
    )
    options.add_argument("-o", "--output", type=Path, metavar="FILE", help="gets one line of JSON for each run")
    return options


def main(words: list[str] | None = None) -> None:
    """See the module."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["show"]:
        print(markdown([Path(word) for word in words[1:]]))
    elif words[:1] == ["values"]:
        values.main(words[1:])
    else:
        make(parser().parse_args(words))


def make(asked: argparse.Namespace) -> None:
    """Make the runs that were asked for, and print a line for each."""
    for name in asked.data:
        data = load(name, held_out=asked.held_out)
        for run in runs(name, asked):
            if known(run, done(asked.output)):
                continue
            line = json.dumps(result_of(run, data, asked))
            print(line, flush=True)
            if asked.output:
                with asked.output.open("a") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
