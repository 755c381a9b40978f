"""The metrics of `gossamer evaluate` for linked tables: those of tables for the part of each, and what links rows.

A part has the columns of the rows above and before beside its own, and the numbers of rows (`data.linked.part`). So a metric of
a part sees how a row depends on the row before, and on the unit that it belongs to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gossamer.errors import DataError, RequestError
from gossamer.intervals import Estimate
from gossamer.lazy import Lazy
from gossamer.metrics import metric
from gossamer.metrics.metric import Figure, Figures, Registry, of_baseline
from gossamer.metrics.tables import registry as tables

if TYPE_CHECKING:
    import numpy as np

    from gossamer import intervals
    from gossamer.data.tables.card import TableCard
    from gossamer.data.tables.linked.card import LinkedCard
    from gossamer.data.tables.table import Table
    from gossamer.metrics.tables import distances
else:
    np, intervals, distances = Lazy("numpy"), Lazy("gossamer.intervals"), Lazy("gossamer.metrics.tables.distances")


@dataclass(frozen=True)
class PartSamples:
    """The samples of the part of a table: rows of units, as real ones are."""

    table: "Table"
    card: "TableCard"

    def __len__(self) -> int:
        return len(self.table)

    @property
    def codes(self) -> "np.ndarray":
        """int [n, columns]"""
        return self.table.codes

    @property
    def units(self) -> "np.ndarray | None":
        """int64 [n]"""
        return self.table.units


@dataclass(frozen=True, kw_only=True)
class Inputs(metric.Inputs):
    """What is measured of linked tables.

    Args:
        card: of all tables.
        parts: the rows of the part of each table, by its name.
        links: of the samples: rows, rows whose parent is not there, and rows that come before the row before.
    """

    card: "LinkedCard"
    parts: Mapping[str, tables.Inputs]
    links: tuple[int, int, int]


METRICS = Registry("linked tables", usual="links,transitions,columns,marginals,accuracy")
_BY_TABLE = "{}: "


def _of_tables(name: str) -> None:
    """Declare a metric of tables for the part of each table where it applies."""
    own = tables.METRICS[name]
    figures = [replace(each, name=_BY_TABLE + each.name, sentence="", bar="") for each in own.figures]

    @METRICS.metric(name, *figures, in_all=own.in_all)
    def compute(inputs: Inputs) -> Figures:
        found, reasons = dict[str, Estimate](), list[str]()
        for table, part in inputs.parts.items():
            try:
                found |= {f"{table}: {figure}": each for figure, each in own.compute(part).items()}
            except (DataError, RequestError) as error:
                reasons.append(f"{table}: {error}")
        if not found:
            raise RequestError(" ".join(reasons))
        return found


BROKEN = Figure(
    "broken links", "{value} of the synthetic rows have no parent or come before the row before.", share=True
)


@METRICS.metric("links", BROKEN)
def links(inputs: Inputs) -> Figures:
    """Keys without a row, and rows in the wrong order: a share of the synthetic rows."""
    rows, lost, wrong = inputs.links
    share = (lost + wrong) / max(1, rows)
    return {BROKEN.name: Estimate(share, share, share, rows, f"{rows:,} synthetic rows of all tables")}


NUMBERS = Figure("{}: TV of numbers of rows")
STEPS = Figure("{}: TV of transitions")


@METRICS.metric(
    "transitions",
    *(each for own in (NUMBERS, STEPS) for each in (own, Figure(of_baseline(own.name)))),
)
def transitions(inputs: Inputs) -> Figures:
    """Total variation of numbers of rows, and of each column with itself in the row before, from real training rows."""
    found: dict[str, Estimate] = {}
    for table, part in zip(inputs.card.tables, inputs.card.parts, strict=True):
        rows = inputs.parts[table.name]
        below: list[tuple[int, ...]] = [(part.below_at + at,) for at in range(len(part.below))]
        steps: list[tuple[int, ...]] = [(part.first_before + k, part.own + k) for k in part.before]
        for figure, sets in ((NUMBERS, below), (STEPS, steps)):
            for name, of in ((figure.name, "samples"), (of_baseline(figure.name), "tests")):
                if sets:
                    found[name.replace("{}", table.name)] = _variation(rows, of, sets)
    if not found:
        raise RequestError("transitions: no table is below another.")
    return found


def _variation(part: tables.Inputs, of: str, sets: list[tuple[int, ...]]) -> Estimate:
    """The mean total variation over sets of columns, from the real training rows."""
    found = [distances.total_variation(part.binned[of], part.binned["real"], each, domain=part.domain) for each in sets]
    mean, *without = np.array(found).mean(axis=0).tolist()
    on = f"{part.said(of)} against {part.said('real')}; {len(sets):,} sets of columns"
    return intervals.jackknife(mean, without, part.rows[of].units, on, lowest=0, highest=1)


for _name in ("columns", "marginals", "accuracy", "tell-apart", "ranges"):
    _of_tables(_name)
