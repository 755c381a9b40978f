"""The commands that give the figures of a cell, as a user types them. ROOT is the folder of the data sets."""

import shlex
from typing import Any

from benchmarks.reproduce.datasets import data_set, source
from benchmarks.reproduce.tables import Cell
from gossamer.run.training import presets

CARD, SUBSET, RUN = "card.toml", "subset.npz", "RUN"
SAMPLES, METRICS, ATTACKS = "samples.npz", "metrics.json", "attacks.json"
INSTRUMENTS = 0
"""Seed of all classifiers and features that measure: the same in every cell, so that what differs is what is measured."""


def commands(cell: Cell, device: str) -> list[str]:
    """One command a line, in their order; `card.toml` is the card that the JSON holds."""
    row, measures, typed = cell.row, cell.measures, []
    whole = source(row.data, "ROOT")
    data, toy = whole, data_set(row.data).toy
    if row.records or toy:
        data = SUBSET
        typed.append(["python", "-m", "benchmarks.reproduce.subset", whole, row.size, SUBSET])
    if toy:
        whole = SUBSET
    if row.method:
        fit = ["gossamer", "fit", row.method, "--data", data, "--card", CARD, *_flags(fit_arguments(cell))]
        typed.append([*fit, "--device", device, "--out", RUN])
        if not measures.needs_run:
            typed.append(["gossamer", "sample", RUN, "-n", measures.samples, "--seed", cell.seed, "-o", SAMPLES])
    program = ["gossamer", "evaluate"]
    if measures.of_papers:
        program = ["python", "-m", "benchmarks.reproduce.metrics"]
    elif "classical" in measures.metrics:
        program = ["python", "-m", "benchmarks.reproduce.evaluate", str(measures.limit)]
    evaluate = [*program, evaluated(cell), "--train", data, "--test", whole]
    card = [] if measures.needs_run else ["--card", CARD]
    if measures.inception:
        card += ["--inception", "WEIGHTS", measures.inception]
    typed.append([*evaluate, *_flags(measured(cell) | {"seed": INSTRUMENTS}), *card, "-o", METRICS])
    if row.attack:
        attack = ["gossamer", "attack", RUN, "--members", data, "--nonmembers", whole]
        typed.append([*attack, "--seed", cell.seed, "-o", ATTACKS])
    return [" ".join(shlex.quote(str(word)) for word in words) for words in typed]


def fit_arguments(cell: Cell) -> dict[str, Any]:
    """What `fit` is given besides data, card, device and places."""
    known = {
        "epsilon": cell.epsilon, "delta": cell.row.delta, "public": cell.how.public, "public_share": cell.how.public_share,
        "preset": cell.how.preset, **cell.how.settings, "seed": cell.seed,
    }  # fmt: skip
    return {name: value for name, value in known.items() if value is not None}


def evaluated(cell: Cell) -> str:
    """What `evaluate` looks at."""
    return cell.row.samples_of or (RUN if cell.measures.needs_run else SAMPLES)


def measured(cell: Cell) -> dict[str, Any]:
    """What the evaluation measures, and how."""
    measures = cell.measures
    known: dict[str, Any] = {"metrics": ",".join(measures.metrics)}
    if measures.of_papers:
        return known | {"labelled": measures.labelled}
    return known | {"protocol": measures.protocol}


def _flags(arguments: dict[str, Any]) -> list[str]:
    return [word for flag in presets.flags(arguments) for word in flag.split(" ", 1)]
