"""Write finished cells as measured runs: the generated part of `measured.toml`, which `plan` and `recommend` show.

Left out are rows whose noise is the paper's own: their epsilon is what that noise costs, and nobody asks for it. And methods
whose released classifier was measured by hand (`of = "release"`): a table measures one that learns from samples, and says less.
"""

import dataclasses
import json
import math
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
from gossamer.run.recommend.measured_runs import Measured, parsed

PAGE = "docs/results.md"
"""Where the figures stand."""
MARK = (
    "# From here on written by `python -m benchmarks.reproduce --measured`, "
    "from the cells on docs/results.md: do not edit.\n"
)
_NOISE = "noise_multiplier"


def rewritten(text: str, known: Mapping[str, Table], into: Path) -> str:
    """`measured.toml` with the best runs of all cells that are finished, after what was written by hand.

    Of a run by hand and a cell with its method, on its records, at its epsilon, the better one stays.

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
        by_hand = dict(zip(entries, parsed("".join([head, *entries])), strict=True))
    except (tomllib.TOMLDecodeError, TypeError, ValueError, KeyError) as error:
        raise RequestError(f"--measured: this is no table of measured runs ({error}). Give measured.toml.") from None
    if not by_hand:
        raise RequestError("--measured: no run by hand stands in this file. Give measured.toml.")
    released = {run.method for run in by_hand.values() if run.of == "release"}
    cells = [run for run in finished(known, into) if run.method not in released]
    best = _best([*cells, *by_hand.values()])
    kept = [entry for entry, run in by_hand.items() if run in best]
    usual = tomllib.loads(head)["usual"]
    entries = [_toml(run, usual) for run in best if run in cells]
    return "\n\n".join([*(part.strip() for part in (head, *kept)), MARK.strip(), *entries]) + "\n"


def _best(found: Sequence[Measured]) -> list[Measured]:
    """Of the runs of a method on the same records at the same epsilon, that with the highest accuracy."""
    best: dict[tuple[Any, ...], Measured] = {}
    for run in found:
        if (other := best.get(_key(run))) is None or run.accuracy > other.accuracy:
            best[_key(run)] = run
    return list(best.values())


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
    accuracies = [result_files.figures(each)[registry.ACCURACY.name]["value"] for each in found]
    machine = found[0]["machine"]
    assert cell.epsilon is not None, "asked for above"
    return Measured(
        method=row.method, data=data.title, pictures=data.pictures, records=row.size, epsilon=cell.epsilon,
        shape=data.shape, classes=data.classes, public=how.public or ("a part of the records" if how.public_share else ""),
        preset=how.preset, settings={name: value for name, value in how.settings.items() if name != _NOISE},
        accuracy=_as_shown(fmean(accuracies)), page=PAGE,
        minutes=round(fmean(result_files.minutes_of(each, ("fit",)) for each in found), 2),
        machine=f"{result_files.threads_of(machine)} of {machine.get('gpu', machine['processor'])}",
    )  # fmt: skip


def _as_shown(share: float) -> float:
    """A share as the page prints it: per cent with one decimal."""
    return round(float(f"{100 * share:.1f}") / 100, 3)


def _key(run: Measured) -> tuple[Any, ...]:
    """What was asked for, whatever the settings."""
    return run.method, run.data, run.records, run.epsilon, bool(run.public)


def _toml(run: Measured, usual: Mapping[str, Any]) -> str:
    """One entry of the file; what is usual or has its default is left out."""
    skipped: dict[str, Any] = {**{each.name: each.default for each in dataclasses.fields(run)}, **usual}
    names = ("accuracy", "of", "on", "minutes", *(() if run.minutes is None else ("machine",)), "page")
    parts = {
        "on": {name: getattr(run, name) for name in ("data", "records", "epsilon", "public") if getattr(run, name)},
        "settings": {**({"preset": run.preset} if run.preset else {}), **run.settings},
        "result": {name: value for name in names if (value := getattr(run, name)) != skipped[name]},
    }
    lines = [f"{name} = {{ {', '.join(_pairs(part))} }}" for name, part in parts.items() if part]
    return "\n".join(["[[run]]", f'method = "{run.method}"', *lines])


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, float) and math.isinf(value):
            yield f"{name} = inf"
        elif isinstance(value, Mapping):
            yield f"{name} = {{ {', '.join(_pairs(value))} }}"
        else:
            yield f"{name} = {f'{value:_}' if type(value) is int else json.dumps(value)}"
