"""Write finished cells as measured runs: the generated part of `measured.toml`, from which `plan` and `recommend` forecast.

Left out are rows whose noise is the paper's own: their epsilon is what that noise costs, and nobody asks for it. And methods
whose released classifier was measured by hand (`of = "release"`): a table measures one that learns from samples, and says less.
"""

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.reproduce import result_files
from benchmarks.reproduce.datasets import data_set
from benchmarks.reproduce.tables import Cell, Table, rows_of_all
from gossamer.errors import RequestError
from gossamer.metrics import registry
from gossamer.run.recommend.measured_runs import Measured, from_entry
from gossamer.run.training import presets

PAGE = "docs/results.md"
"""Where the figures stand."""
MARK = (
    "# From here on written by `python -m benchmarks.reproduce --measured`, "
    "from the cells on docs/results.md: do not edit.\n"
)
PER_RECORD = ("moments", "evolve", "teacher")
"""Methods whose time goes with the number of records."""
_NOISE = "noise_multiplier"


def rewritten(text: str, known: Mapping[str, Table], into: Path) -> str:
    """`measured.toml` with the runs of all cells that are finished, after what was written by hand.

    A run by hand goes when a cell has been run with its settings, on its records, at its epsilon.

    Args:
        text: the file as it is.
        known: the tables.
        into: the folder of results.

    Raises:
        RequestError: if the text is no table of measured runs.
        RunFolderError: if the JSON of a cell is not what its name says.
    """
    head, *entries = re.split(r"(?m)^(?=\[\[run\]\]$)", text.partition(MARK)[0])
    try:
        by_hand = {entry: from_entry(tomllib.loads(entry)["run"][0]) for entry in entries}
    except (tomllib.TOMLDecodeError, TypeError, ValueError, KeyError) as error:
        raise RequestError(f"--measured: this is no table of measured runs ({error}). Give measured.toml.") from None
    if not by_hand:
        raise RequestError("--measured: no run by hand stands in this file. Give measured.toml.")
    released = {run.method for run in by_hand.values() if run.of == "release"}
    found = [run for run in finished(known, into) if run.method not in released]
    taken = [_key(run) for run in found]
    kept = [entry for entry, run in by_hand.items() if _key(run) not in taken]
    return "\n\n".join([*(part.strip() for part in (head, *kept)), MARK.strip(), *map(_toml, found)]) + "\n"


def finished(known: Mapping[str, Table], into: Path) -> Iterator[Measured]:
    """The rows of which a cell is finished that has a guarantee, an epsilon that was asked for and an accuracy, once each."""
    for cells in rows_of_all(known):
        if cells[0].row.method and cells[0].epsilon is not None:
            found = result_files.certified(into, cells)
            accurate = [each for each in found if registry.ACCURACY.name in result_files.figures(each)]
            if accurate:
                yield _run(cells[0], accurate)


def _run(cell: Cell, found: Sequence[Mapping[str, Any]]) -> Measured:
    """The runs of a row with several seeds, as one."""
    row, how, data = cell.row, cell.how, data_set(cell.row.data)
    accuracies, reals = (
        [figures[name]["value"] for each in found if name in (figures := result_files.figures(each))]
        for name in (registry.ACCURACY.name, registry.BASELINE.name)
    )
    machine = found[0]["machine"]
    several = len(accuracies) > 1
    assert cell.epsilon is not None, "asked for above"
    return Measured(
        method=row.method, data=data.title, pictures=data.pictures, records=row.size, epsilon=cell.epsilon,
        delta=float(found[0]["guarantee"]["delta"]), shape=data.shape, classes=data.classes,
        public=how.public or ("a part of the records" if how.public_share else ""), preset=how.preset,
        settings={name: value for name, value in how.settings.items() if name != _NOISE},
        accuracy=_as_shown(fmean(accuracies)), low=_as_shown(min(accuracies)) if several else None,
        high=_as_shown(max(accuracies)) if several else None, real=_as_shown(fmean(reals)) if reals else None,
        of="samples", on="test records", minutes=round(fmean(result_files.minutes_of(each, ("fit",)) for each in found), 2),
        per_record=row.method in PER_RECORD, page=PAGE,
        machine=f"{result_files.threads_of(machine)} of {machine.get('gpu', machine['processor'])}",
    )  # fmt: skip


def _as_shown(share: float) -> float:
    """A share as the page prints it: per cent with one decimal."""
    return round(float(f"{100 * share:.1f}") / 100, 3)


def _key(run: Measured) -> tuple[Any, ...]:
    """What was run: equal for a run by hand and a cell that are the same experiment."""
    settings = {**presets.defaults(run.method), **run.all_settings}
    settings.pop(_NOISE, None)
    return run.of, run.method, run.data, run.records, run.epsilon, run.delta, run.public, settings


def _toml(run: Measured) -> str:
    """One entry of the file; what has its default is left out."""
    told = ["[[run]]"]
    for each in dataclasses.fields(run):
        value = getattr(run, each.name)
        if value in (each.default, {}):
            continue
        if isinstance(value, Mapping):
            said = "{ " + ", ".join(f"{name} = {json.dumps(one)}" for name, one in value.items()) + " }"
        else:
            said = json.dumps(value)
        told.append(f"{each.name} = {said}")
    return "\n".join(told)
