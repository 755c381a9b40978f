"""How near samples come to the values of real tables: zeros, quantiles, means, tails and categories of each column.

    python -m benchmarks.tables values                                    marginals on eight tables, four epsilons, three seeds
    python -m benchmarks.tables values --only loans --epsilon 1 -o FILE   FILE keeps the results; what it has is not made again
    python -m benchmarks.tables values --methods rows card dpmm-mst       rows drawn from the real ones; no records; a peer
    python -m benchmarks.tables values --judge PYTHON                     SDMetrics' quality score too
    python -m benchmarks.tables values --methods rows --held-out          one half of the rows beside the other
    python -m benchmarks.tables values --held-out --set columns_share=1   a quarter held out; all of the budget in columns
    python -m benchmarks.tables values show FILE ...                      the worst column of each figure, and what is missed
    python -m benchmarks.tables values forecast FILE                      what `recommend` says of tables with as much noise

Samples are compared with the rows that the method got, or with those held out. Every person counts once. No guarantee
covers this.
"""

import argparse
import itertools
import json
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import own, peers
from benchmarks.tables.datasets import Dataset
from benchmarks.tables.described import EDITED, ROWS, Described, load
from benchmarks.tables.peers import PEERS, SCRIPTS, PeerFailed
from gossamer.data.columns.column import Column
from gossamer.data.tables.decode import to_numbers
from gossamer.data.tables.samples import TableSamples
from gossamer.methods.marginals import Config
from gossamer.methods.marginals.outlook import noise_of
from gossamer.run.recommend.recommend import usual_delta
from gossamer.run.training.plan import plan

DRAWN = 50_000
"""Samples that are compared."""
JUDGED = 10_000
"""Rows and samples that SDMetrics gets."""
PAIRS, MOST = 200, 256
"""Pairs of columns that are compared, at most, and groups of the values of a column."""
LIMITS = {
    "zeros": (0.01, "share of zeros"),
    "missing": (0.01, "share of missing values"),
    "quartiles": (0.05, "the worst of the median and quartiles, in interquartile ranges"),
    "mean": (0.05, "mean, in standard deviations"),
    "p99": (0.1, "99th percentile, in its distance from the median"),
    "new": (0.01, "share of values that no row has, where a further row would seldom have one"),
    "absent": (0.003, "share of the worst category that no row has"),
    "category": (0.2, "the worst category of 1 % or more, relative to its share"),
}
"""The largest error of each figure, and what it is. They are for epsilon 1 and 10,000 rows or more."""
FORECAST = """\
# What runs of `marginals` reached on six tables, for `outlook.py`, by `python -m benchmarks.tables values forecast FILE`.
#
#   noise      of a run beside its rows, see `outlook.noise_of`
#   seconds    of one core
#   pairs      error of pairs of columns, relative to that of independent columns
#   mean, p99  errors of half of the columns, and of nine in ten: in standard deviations, and in distances from the median
#
run = ["""
KEYS = {"noise": "noise", "seconds": "cpu"}
"""Entries of the forecast, and what a result calls them."""
Figures = dict[str, float]
Result = dict[str, Any]


def figures(column: Column, real: np.ndarray, weights: np.ndarray, made: np.ndarray) -> Figures:
    """The errors of a column of samples. real: float64 [N], with weights; made: float64 [n]; missing is NaN, or a code."""
    lost = [values == column.missing_code if column.values else np.isnan(values) for values in (real, made)]
    found = {"missing": abs(np.average(lost[0], weights=weights) - lost[1].mean())} if column.missing else {}
    real, weights, made = real[~lost[0]], weights[~lost[0]], made[~lost[1]]
    if not len(real) or not len(made):
        return found
    return found | (of_category if column.values else of_numbers)(real, weights, made)


def of_category(real: np.ndarray, weights: np.ndarray, made: np.ndarray) -> Figures:
    """The worst category without rows, and the worst of those with one row in a hundred. Values are codes."""
    true, own = (
        np.bincount(codes.astype(int), each, minlength=int(max(real.max(), made.max())) + 1)
        for codes, each in ((real, weights), (made, np.ones(len(made))))
    )
    true, own = true / true.sum(), own / own.sum()
    often = true >= 0.01
    return {"absent": own[true == 0].max(initial=0), "category": abs(own[often] / true[often] - 1).max()}


def of_numbers(real: np.ndarray, weights: np.ndarray, made: np.ndarray) -> Figures:
    """The errors of the distribution of numbers. A scale of 0 is the standard deviation."""
    mean = np.average(real, weights=weights)
    deviation = np.sqrt(np.average((real - mean) ** 2, weights=weights)) or 1.0
    true, own = quantiles(real, weights), quantiles(made, np.ones(len(made)))
    off = abs(own - true)
    found = {
        "quartiles": off[:3].max() / (true[2] - true[0] or deviation),
        "mean": abs(made.mean() - mean) / deviation,
        "p99": off[3] / (true[3] - true[1] or deviation),
    }
    if real.min() <= 0 <= real.max():
        found["zeros"] = abs(np.average(real == 0, weights=weights) - (made == 0).mean())
    known, times = np.unique(real, return_counts=True)
    if (times == 1).sum() < LIMITS["new"][0] * len(real):  # Good and Turing: how often a further row has a new value
        found["new"] = 1 - np.isin(made, known).mean()
    return found


def pairs(data: Described, made: np.ndarray) -> dict[str, float]:
    """The mean total variation of columns, of pairs, and of independent columns. Numbers are in tenths of the rows."""
    real, own = (
        [coarse(*each) for each in zip(data.card.columns, data.values.T, values.T, strict=True)]
        for values in (data.values, made)
    )
    every = [*itertools.combinations(range(len(real)), 2)]
    some = [every[k] for k in np.random.default_rng(0).permutation(len(every))[:PAIRS]]
    off, apart = [], []
    for a, b in some:
        true, found = joint(real[a], real[b], data.weights), joint(own[a], own[b], np.ones(len(made)))
        off.append(abs(true - found).sum() / 2)
        apart.append(abs(true - true.sum(1, keepdims=True) * true.sum(0)).sum() / 2)
    alone = [
        abs(np.bincount(a, data.weights, MOST) / data.weights.sum() - np.bincount(b, minlength=MOST) / len(b)).sum() / 2
        for a, b in zip(real, own, strict=True)
    ]
    means = {"columns": np.mean(alone), "pairs": np.mean(off), "independent": np.mean(apart)}
    return {name: float(mean) for name, mean in means.items()}


def coarse(column: Column, real: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Groups of values: categories as they are; of numbers the tenths of the real rows, and the missing ones. int64 [n]"""
    cuts = (
        np.arange(1, column.size)
        if column.values
        else np.unique([*np.nanquantile(real, np.arange(0.1, 1, 0.1)), np.inf])
    )
    groups: np.ndarray = np.searchsorted(cuts, values, side="right")
    return groups


def joint(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The shares of pairs of groups. float64 [MOST, MOST]"""
    counts: np.ndarray = np.bincount(a * MOST + b, weights, minlength=MOST**2)
    return counts.reshape(MOST, MOST) / float(weights.sum())


def quantiles(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The quartiles and the 99th percentile. float64 [4]"""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    at = np.searchsorted(below, np.array([0.25, 0.5, 0.75, 0.99]) * below[-1])
    found: np.ndarray = values[order[at]]
    return found


def samples(run: Result, data: Described, asked: argparse.Namespace) -> tuple[np.ndarray, Figures]:
    """Samples of a method as numbers, float64 [n, columns], its CPU seconds, and how much noise it has. Raises PeerFailed."""
    method, epsilon, seed = run["method"], run["epsilon"], run["seed"]
    if method == "rows":
        return data.drawn(DRAWN, seed), {}
    if method == "card":
        sizes = [column.size for column in data.card.columns]
        return to_numbers(np.random.default_rng(seed).integers(0, sizes, (DRAWN, len(sizes))), data.card, seed=seed), {}
    if method in PEERS:
        asked.logs.mkdir(parents=True, exist_ok=True)
        log = asked.logs / f"values-{data.name}-{method}-eps{epsilon:g}-seed{seed}.log"
        codes, seconds = peers.samples(
            PEERS[method],
            Dataset(data.name, data.card, data.table.codes, data.table.codes),
            epsilon,
            seed,
            run["settings"],
            asked.environments,
            log,
            asked.limit,
        )
        return to_numbers(codes, data.card, seed=seed), {"cpu": seconds["cpu"]}
    start = time.process_time()
    job = plan(method, data.card, run["settings"], epsilon=epsilon, delta=usual_delta(data.card)).job
    drawn = job.sample(own.trained(job, data.table, seed), DRAWN, None, own.stream(seed))
    codes = TableSamples.piece(data.card, (), seed, 0, drawn).codes
    made = to_numbers(codes, data.card, seed=seed)
    assert isinstance(job.config, Config)
    return made, {"cpu": time.process_time() - start, "noise": noise_of(job.config, data.card)}


def result_of(run: Result, data: Described, asked: argparse.Namespace) -> Result:
    """Train, sample and measure; or the error of a peer that ended without samples."""
    seen, data = data.parts(2 if run["method"] == "rows" else 4) if asked.held_out else (data, data)
    try:
        made, about = samples(run, seen, asked)
    except PeerFailed as error:
        return {**run, "error": str(error)}
    found: dict[str, Figures] = defaultdict(dict)
    for at, column in enumerate(data.card.columns):
        for name, value in figures(column, data.values[:, at], data.weights, made[:, at]).items():
            found[name][column.name] = round(float(value), 5)
    about |= pairs(data, made) | (judged(asked.judge, data, made) if asked.judge else {})
    return {**run, **{key: float(f"{value:.4g}") for key, value in about.items()}, "figures": found}


def judged(python: Path, data: Described, made: np.ndarray) -> Figures:
    """The quality score of SDMetrics: the mean of the scores of columns and of pairs, which it has too."""
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.npz"
        is_category = [bool(column.values) for column in data.card.columns]
        np.savez_compressed(task, real=data.drawn(JUDGED, 0), made=made[:JUDGED], is_category=is_category)
        ended = subprocess.run(
            [python, SCRIPTS / "with_sdmetrics.py", task], capture_output=True, text=True, check=True
        )
    shapes, trends = map(float, ended.stdout.split())
    return {"quality": (shapes + trends) / 2, "shapes": shapes, "trends": trends}


def show(results: Sequence[Result]) -> None:
    """The worst column of each figure, means over seeds, and each column that is beyond a limit."""
    for name, (limit, means) in LIMITS.items():
        print(f"{name}: {means}; at most {limit:g}")
    groups: dict[tuple[Any, ...], list[Result]] = defaultdict(list)
    for each in results:
        groups[each["data"], each["method"], each["epsilon"], json.dumps(each["settings"]), "held out" in each].append(
            each
        )
    for (data, method, epsilon, settings, held_out), runs in sorted(groups.items(), key=lambda item: item[0][:3]):
        rows = ", held-out rows" * held_out
        print(f"\n{data}{rows}, {method} {settings}, epsilon {epsilon:g}, {len(runs)} seeds", end="")
        finished = [run for run in runs if "error" not in run]
        for name in ("cpu", "quality", "shapes", "trends", "columns", "pairs", "independent"):
            if values := [run[name] for run in finished if name in run]:
                print(f", {name} {np.mean(values):.3g}", end="")
        print("".join(f"\n  {run['error']}" for run in runs if "error" in run))
        missed = [line for name in LIMITS for line in of_figure(name, finished)]
        print(f"  missed: {'; '.join(missed) or 'nothing'}")


def of_figure(name: str, runs: Sequence[Result]) -> list[str]:
    """Print the worst column of a figure; the columns that are beyond its limit, worst first."""
    limit, columns = LIMITS[name][0], {column for run in runs for column in run["figures"].get(name, ())}
    means = {column: np.mean([run["figures"][name].get(column, 0) for run in runs]) for column in columns}
    order = sorted(means, key=lambda column: -means[column])
    beyond = [f"{name} of {column} {means[column]:.3f}" for column in order if means[column] > limit]
    if order:
        print(f"  {name:<10}{means[order[0]]:.4f} {order[0]}; {len(beyond)} of {len(order)} columns missed")
    return beyond


def forecast(results: Sequence[Result]) -> None:
    """Print `methods/marginals/measured.toml`: what `recommend` says where a card has about as much noise."""
    groups: dict[tuple[str, float], list[Result]] = defaultdict(list)
    for each in results:
        groups[each["data"], each["epsilon"]].append(each)
    print(FORECAST)
    for (data, epsilon), runs in sorted(groups.items()):
        words = [f'table = "{data}"', f"epsilon = {epsilon}"]
        words += [f"{name} = {np.mean([run[key] for run in runs]):.2g}" for name, key in KEYS.items()]
        words.append(f"pairs = {np.mean([run['pairs'] / run['independent'] for run in runs]):.2g}")
        for name in ("mean", "p99"):
            errors = [error for run in runs for error in run["figures"][name].values()]
            half, most = np.quantile(errors, [0.5, 0.9])
            words.append(f"{name} = [{half:.2g}, {most:.2g}]")
        print(f"  {{ {', '.join(words)} }},")
    print("]")


def main(words: Sequence[str]) -> None:
    """See the module."""
    if words[:1] in (["show"], ["forecast"]):
        results = [json.loads(line) for word in words[1:] for line in Path(word).read_text().splitlines()]
        (show if words[0] == "show" else forecast)(results)
        return
    asked = parser().parse_args(words)
    results = [json.loads(line) for line in asked.output.read_text().splitlines()] if asked.output.exists() else []
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    wanted = [run for name in asked.only for run in runs_of(name, asked)]
    for name in asked.only:
        todo = [run for run in runs_of(name, asked) if not any(is_of(known, run) for known in results)]
        data = load(name) if todo else None
        for run in todo:
            assert data is not None
            results.append(result_of(run, data, asked))
            with asked.output.open("a") as file:
                file.write(json.dumps(results[-1]) + "\n")
    for name, lines in EDITED.items():
        print(f"edited lines of {name}: {lines}")
    show([each for each in results if any(is_of(each, run) for run in wanted)])


def is_of(result: Result, run: Result) -> bool:
    """Whether a result is of a run."""
    return all(result.get(key) == run.get(key) for key in (*run, "held out"))


def runs_of(name: str, asked: argparse.Namespace) -> list[Result]:
    """The runs on a table: method, epsilon, seed and settings of each."""
    common = {"data": name, "settings": dict(asked.set), **({"held out": True} if asked.held_out else {})}
    return [
        {**common, "method": method, "epsilon": epsilon, "seed": seed}
        for method in asked.methods
        for epsilon in asked.epsilon
        for seed in asked.seeds
    ]


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.tables values",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--only", nargs="+", choices=ROWS, default=[*ROWS], metavar="TABLE", help=", ".join(ROWS))
    options.add_argument("--methods", nargs="+", choices=["marginals", "rows", "card", *PEERS], default=["marginals"])
    options.add_argument("--epsilon", nargs="+", type=float, default=[0.3, 1.0, 3.0, 10.0])
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options.add_argument("--set", nargs="*", type=own.setting, default=[], metavar="NAME=VALUE")
    options.add_argument(
        "--held-out", action="store_true", help="compare with a quarter that methods do not get, `rows` with half"
    )
    options.add_argument("--judge", type=Path, metavar="PYTHON", help="with SDMetrics; default: no quality score")
    options.add_argument("--environments", type=Path, default=Path("build/peers"))
    options.add_argument("--limit", type=float, metavar="SECONDS", help="stop a peer after so long; default: never")
    options.add_argument("--logs", type=Path, default=Path("build/tables"))
    options.add_argument("-o", "--output", type=Path, default=Path("build/tables/values.jsonl"), metavar="FILE")
    return options
