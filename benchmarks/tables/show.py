"""The results of files as a Markdown table: one row for each method and epsilon, means over seeds."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HEAD = "| data | method | epsilon | accuracy | AUC | TV 1/2/3-way | CPU s | seeds |\n|---|---|---|---|---|---|---|---|"


def markdown(files: Sequence[Path]) -> str:
    """The table. Runs that ended with an error have rows too."""
    results = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return "\n".join([HEAD, *(row(group) for group in grouped(results))])


def grouped(results: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Runs that differ in the seed only, in the order of the first of each."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for result in results:
        key = tuple(
            json.dumps(result.get(name), sort_keys=True)
            for name in ("data", "method", "settings", "epsilon", "held out")
        )
        groups.setdefault(key, []).append(result)
    return list(groups.values())


def row(runs: Sequence[dict[str, Any]]) -> str:
    """A row of the table, from runs of which some may have failed."""
    first, finished = runs[0], [run for run in runs if "error" not in run]
    settings = " ".join([first["method"], *(f"{name}={value}" for name, value in first["settings"].items())])
    epsilon = "" if first["epsilon"] is None else f"{first['epsilon']:g}"
    about = [first["data"], settings, epsilon]
    if not finished:
        return line([*about, first["error"], "", "", "", len(runs)])

    def mean(name: str, digits: str) -> str:
        values = [run[name] for run in finished if name in run]
        return digits.format(sum(values) / len(values)) if values else ""

    distances = "/".join(mean(f"tv{order}", "{:.3f}").removeprefix("0") for order in (1, 2, 3))
    auc = mean("auc", "{:.3f}").removeprefix("0")
    return line([*about, mean("accuracy", "{:.1%}"), auc, distances, mean("cpu", "{:.0f}"), len(finished)])


def line(cells: Sequence[object]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"
