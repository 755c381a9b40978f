"""Read, check and write the JSON files of cells. All figures that are printed come from these files."""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.reproduce.tables import Cell, digest_of
from gossamer.errors import RunFolderError
from gossamer.files import write_atomically

SCHEMA = 1
_DISCRIMINATORS = re.compile(r"(, max)? over \d+ discriminators$")
"""What the name of an attack says where there are several: the maximum over them is what stands beside the attack on one."""
CELLS, SAMPLES = "cells", "samples"
"""Folders below RESULTS. A cell that two tables have is there once."""


def path_of(results: Path, cell: Cell) -> Path:
    """Where the JSON of a cell lies."""
    return results / CELLS / f"{cell.name}.json"


def samples_of(results: Path, cell: Cell) -> Path:
    """Where some samples of a cell's release lie, as a picture: those that the release itself shows."""
    return results / SAMPLES / f"{cell.name}.png"


def load(results: Path, cell: Cell) -> dict[str, Any] | None:
    """What a cell gave; None: it has not been run.

    Raises:
        RunFolderError: if the file holds something else than the result of these settings.
    """
    path = path_of(results, cell)
    if not path.is_file():
        return None
    again = (
        f"Restore it, or delete it: `python -m benchmarks.reproduce` then runs the cell of row {cell.row.name} again."
    )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        schema, digest, resolved, seed = (found[key] for key in ("schema", "digest", "resolved", "seed"))
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} is not the JSON of a cell ({type(error).__name__}). {again}") from None
    if schema != SCHEMA:
        raise RunFolderError(f"{path} has schema {schema}, and this version reads {SCHEMA}. {again}")
    if (digest, seed) != (cell.digest, cell.seed) or digest_of(resolved) != digest:
        raise RunFolderError(f"{path} holds the result of other settings than its name says. {again}")
    return dict(found)


def certified(results: Path, cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """The results of those cells that have been run and have a guarantee."""
    found = [result for cell in cells if (result := load(results, cell)) is not None]
    return [result for result in found if isinstance(result["guarantee"], Mapping)]


def save(results: Path, cell: Cell, result: Mapping[str, Any], *, samples: Path | None = None) -> Path:
    """Write the JSON of a cell, whole or not at all; before that, if `samples` are given, their picture."""
    path = path_of(results, cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    if samples is not None:
        samples_of(results, cell).parent.mkdir(exist_ok=True)
        write_atomically(samples_of(results, cell), samples.read_bytes())
    write_atomically(path, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return path


def figures(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The figures of a cell by name; those of an attack are called "attack: measure", however many discriminators it asks."""
    measured = {entry["metric"]: entry for entry in result["metrics"]}
    attacked = {f"{_DISCRIMINATORS.sub('', entry['attack'])}: {entry['measure']}": entry for entry in result["attacks"]}
    return measured | attacked


def minutes_of(result: Mapping[str, Any], parts: Collection[str] = ()) -> float:
    """Minutes that parts of a cell took; of none: all.

    Those on the wall, but with one thread on a processor at most those in which it worked: a run that shared its core with
    something else is not slower for that.
    """
    machine = result["machine"]
    alone = machine["device"] == "cpu"
    return math.fsum(
        min(part["wall"], part["cpu"]) if alone and part.get("threads", machine["threads"]) == 1 else part["wall"]
        for name, part in result["seconds"].items()
        if not parts or name in parts
    ) / 60  # fmt: skip


def threads_of(machine: Mapping[str, Any]) -> str:
    """How many threads a cell had, in words."""
    return "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
