"""What `marginals` makes of Adult: gradient boosting trained on samples is tested on real rows; distances of marginals.

    python benchmarks/tables.py                                    the figures of the presets
    python benchmarks/tables.py --held-out --epsilon 1 --set rounds=2    try a setting on held-out training rows
    python benchmarks/tables.py --real                             real rows in place of samples

Without `--held-out` the method sees all 32,561 rows of adult.data, and adult.test is the test. With it, the method sees the
first 22,561 rows, and the last 10,000 are the test: adult.test is not read. Settings were chosen so. Codes are public: closed
lists of values from adult.names, and at most 16 bins a number. TV is the total variation against the rows that the method saw,
the mean over all pairs of columns, and over 400 random triples. One line for each seed, then the mean. CPU seconds are those of
the process, for training and sampling. Nothing of this is covered by a guarantee.
"""

import argparse
import csv
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from gossamer.data.tables.card import TableCard
from gossamer.data.tables.column import Column
from gossamer.data.tables.table import Table
from gossamer.methods.marginals import Marginals
from gossamer.methods.method import Job
from gossamer.privacy.accounting.calibrate import calibrate_noise
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng

ADULT = Path("../shared/data/adult")
DELTA, HELD_OUT, TRIPLES = 1e-5, 10_000, 400
NAMES = (
    *(
        "age",
        "workclass",
        "fnlwgt",
        "education",
        "education-num",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
    ),
    *("capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
NEVER_MISSING = ("education", "marital-status", "relationship", "race", "sex")


def steps(low: float, high: float, count: int) -> list[int]:
    """Rounded edges of bins that grow by a constant factor."""
    return [int(edge) for edge in np.geomspace(low, high, count).round()]


EDGES = {
    "age": [17, 20, 23, 26, 29, 32, 35, 38, 41, 44, 47, 50, 55, 60, 65, 70, 91],
    "fnlwgt": steps(10_000, 1_500_000, 17),
    "education-num": list(range(1, 18)),
    "capital-gain": [0, 1, *steps(1_000, 100_000, 15)],
    "capital-loss": [0, 1, *steps(1_000, 5_000, 15)],
    "hours-per-week": [1, 10, 20, 25, 30, 35, 36, 40, 41, 45, 46, 50, 51, 55, 60, 70, 100],
}


def card(rows: int) -> TableCard:
    """The public facts: adult.names has the values, and no row was looked at for the bins."""
    values = {"income": ["<=50K", ">50K"]}
    for line in (ADULT / "adult.names").read_text().splitlines():
        name, _, listed = line.strip().rstrip(".").partition(":")
        if name in NAMES and name not in EDGES and not line.startswith("|"):
            values[name] = [value.strip() for value in listed.split(",")]
    columns = [
        Column(name=name, kind="integer", edges=tuple(EDGES[name]))
        if name in EDGES
        else Column(name=name, kind="category", values=(*values[name], *(["?"] if missable(name) else [])))
        for name in NAMES
    ]
    return TableCard(columns=tuple(columns), declared_size=rows, label="income", title="Adult")


def missable(name: str) -> bool:
    """Whether "?" is a value of a category."""
    return name not in NEVER_MISSING and name != "income"


def read(file: str, facts: TableCard) -> np.ndarray:
    """Codes of a file. int32 [N, columns]"""
    with (ADULT / file).open(newline="") as lines:
        rows = [row for row in csv.reader(lines, skipinitialspace=True) if len(row) == len(NAMES)]
    codes = []
    for column, raw in zip(facts.columns, zip(*rows, strict=True), strict=True):
        if column.kind == "category":
            place = {value: code for code, value in enumerate(column.values)}
            codes.append([place[value.rstrip(".")] for value in raw])
        else:
            codes.append(np.searchsorted(EDGES[column.name], np.array(raw, float), side="right") - 1)
            codes[-1] = codes[-1].clip(0, column.size - 1)
    return np.array(codes, np.int32).T


def variation(a: np.ndarray, b: np.ndarray, domain: tuple[int, ...], order: int) -> float:
    """Mean total variation over the sets of so many columns; over 400 random ones where there are more."""
    sets = list(itertools.combinations(range(len(domain)), order))
    if len(sets) > TRIPLES:
        sets = [sets[k] for k in np.random.default_rng(0).choice(len(sets), TRIPLES, replace=False)]

    def shares(codes: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
        shape = [domain[column] for column in columns]
        cells = np.ravel_multi_index([codes[:, column] for column in columns], shape)
        return np.bincount(cells, minlength=int(np.prod(shape))) / len(codes)

    return float(np.mean([np.abs(shares(a, each) - shares(b, each)).sum() / 2 for each in sets]))


def figures(samples: np.ndarray, seen: np.ndarray, test: np.ndarray, facts: TableCard) -> dict[str, float]:
    """Accuracy and AUC on the test rows, and the distances from the rows that the method saw."""
    label, found = int(facts.label_index or 0), {}
    others = [column for column in range(len(facts.domain)) if column != label]
    if len(np.unique(samples[:, label])) > 1:
        model = HistGradientBoostingClassifier(random_state=0).fit(samples[:, others], samples[:, label])
        scores = model.predict_proba(test[:, others])[:, 1]
        found = {
            "accuracy": float(((scores > 0.5) == test[:, label]).mean()),
            "auc": float(roc_auc_score(test[:, label], scores)),
        }
    return {**found, **{f"tv{order}": variation(samples, seen, facts.domain, order) for order in (1, 2, 3)}}


def sampled(job: Job[Any, Any], seen: np.ndarray, seed: int) -> tuple[np.ndarray, dict[str, float]]:
    """As many samples as rows that the method saw, and the seconds that training and sampling took."""
    wall, cpu = time.perf_counter(), time.process_time()
    ledger = PrivacyLedger(budget=float("inf"), delta=DELTA, relation=job.relation)
    ledger.reserve(job.plan)
    rng = Rng(seed, noise_seed=seed)
    training = job.begin(rng)
    for _ in training.drive(Confined(Table(seen), ledger)):  # type: ignore[arg-type]  # a table
        pass
    codes, _ = job.sample(training.state.released, len(seen), None, rng.public("samples"))
    return codes.numpy(), {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def settings(given: list[str]) -> dict[str, Any]:
    """From `name=value`."""
    return {name: json.loads(value) for name, value in (each.split("=", 1) for each in given)}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--held-out", action="store_true", help="Test on the last training rows, which the method sees not"
    )
    parser.add_argument("--real", action="store_true", help="Real rows in place of samples")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="Settings in place of the preset's")
    asked = parser.parse_args()
    facts = card(32_561 - HELD_OUT * asked.held_out)
    rows = read("adult.data", facts)
    seen, test = (rows[:-HELD_OUT], rows[-HELD_OUT:]) if asked.held_out else (rows, read("adult.test", facts))
    if asked.real:
        for name, real in (("rows seen", seen), ("test rows", test)):
            print(json.dumps({"samples": name, **rounded(figures(real, seen, test, facts))}))
        return
    presets = Marginals().presets()
    for epsilon in asked.epsilon:
        preset = presets.get(f"adult-eps{epsilon:g}", {})
        chosen = {name: value for name, value in preset.items() if name not in ("about", "records")}
        chosen.update(settings(asked.set))
        job = Marginals().job({**chosen, "noise_multiplier": noise_for(epsilon)}, facts)
        results = []
        for seed in range(asked.seeds):
            samples, seconds = sampled(job, seen, seed)
            results.append({**figures(samples, seen, test, facts), **seconds})
            print(json.dumps({"epsilon": epsilon, "seed": seed, **rounded(results[-1])}), flush=True)
        mean = {name: float(np.mean([result[name] for result in results])) for name in results[0]}
        print(json.dumps({"epsilon": epsilon, "mean of": asked.seeds, **rounded(mean), "settings": chosen}), flush=True)


def noise_for(epsilon: float) -> float:
    """The noise multiplier of a run with this epsilon. All its queries together are one Gaussian."""
    facts = card(1)
    return calibrate_noise(
        lambda noise: Marginals().job({"noise_multiplier": noise}, facts).plan, epsilon=epsilon, delta=DELTA
    )


def rounded(values: dict[str, float]) -> dict[str, float]:
    """To four digits."""
    return {name: round(value, 4) for name, value in values.items()}


if __name__ == "__main__":
    main()
