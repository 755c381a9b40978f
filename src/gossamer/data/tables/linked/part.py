"""What a run learns of one of several linked tables: a flat table with more columns, each of which depends on one unit alone.

Beside the own columns of a row, it has
- those of the rows above it, such as the patient of a visit: `patients.sex`;
- how many rows of this table their parent has: `rows.visits`;
- where rows have an order, those of the row before, of the same parent: `before.state`, and how far it is: `step.date`;
- how many rows each table below has of it: `rows.drugs`.

The columns of rows above and before, and the number of rows, are known as a row is drawn. The others are drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gossamer.data.columns import durations
from gossamer.data.columns.column import Column, position
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.linked.table import LinkedTable

_STEP: dict[str, Any] = {"date": "integer", "datetime": "duration"}
"""The kind of the difference of two values; of the others their own."""
STEPS = 64
"""Bins of the distance between two rows. They grow by a constant factor."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PartCard(TableCard):
    """The card of a flat table.

    Args:
        known: the columns that are known as a row is drawn.
        before: each column of the row before, with the same column of the row.
        steps: tables that tell how a row follows from the row before, and from the number of rows.
    """

    known: tuple[int, ...] = ()
    before: tuple[tuple[int, int], ...] = ()
    steps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Part:
    """What is learnt of a table.

    Args:
        name: of the table.
        card: of the flat table.
        above: for each column of the rows above, the table and the position of the column there.
        before: the positions of the own columns of which the row before has one; empty: rows have no order.
        own: the position of the first own column in the flat table.
        below: the names of the tables below.
    """

    name: str
    card: PartCard
    above: tuple[tuple[str, int], ...]
    before: tuple[int, ...]
    own: int
    below: tuple[str, ...]

    @property
    def count(self) -> int:
        """The position of the number of rows of the parent, where there is one."""
        return len(self.above)

    @property
    def first_before(self) -> int:
        """The position of the first column of the row before."""
        return len(self.above) + 1

    @property
    def step(self) -> int:
        """The position of the distance from the row before; it is drawn, so it is the last before the own columns."""
        return self.own - 1

    @property
    def below_at(self) -> int:
        """The position of the first number of rows below."""
        return len(self.card.columns) - len(self.below)


def parts_of(tables: Sequence[LinkedTable]) -> tuple[Part, ...]:
    """The part of each table. tables: parents first. Raises CardError: columns that nobody can tell apart."""
    by_name = {each.name: each for each in tables}
    return tuple(_part(each, by_name) for each in tables)


def _part(table: LinkedTable, by_name: dict[str, LinkedTable]) -> Part:
    ancestors: list[LinkedTable] = []
    at = table
    while at.parent:
        at = by_name[at.parent]
        ancestors.insert(0, at)
    above = [(each.name, k) for each in ancestors for k in range(len(each.card.columns))]
    columns = [_renamed(by_name[name].card.columns[k], name) for name, k in above]
    before: tuple[int, ...] = ()
    if table.parent:
        columns.append(_count(table))
    if table.order:
        before = tuple(range(len(table.card.columns)))
        columns += [replace(_renamed(each, "before"), missing=True) for each in table.card.columns]
        columns.append(_step_of(table.order_column))
    own = len(columns)
    below = [each for each in by_name.values() if each.parent == table.name]
    columns += [*map(_bare, table.card.columns), *map(_count, below)]
    facts = {each.name: getattr(table.card, each.name) for each in fields(TableCard)}
    pairs = [(len(above) + 1 + k, own + k) for k in before]
    steps: list[tuple[int, int]] = []
    if table.order:
        order = pairs[table.card.names.index(table.order)]
        steps = [(len(above), own - 1), (order[0], own - 1), (own - 1, order[1]), *pairs]
        steps.remove(order)  # the step says more
    facts |= {"columns": tuple(columns), "generated": (), "drop": ()}
    card = PartCard(**facts, known=tuple(range(own - bool(before))), before=tuple(pairs), steps=tuple(steps))
    return Part(table.name, card, tuple(above), before, own, tuple(each.name for each in below))


def _bare(column: Column) -> Column:
    """A column for its codes alone. Rules are applied as rows are read, and again to samples."""
    bare = replace(column, at_least="", only=(), missing_with="")
    if not column.after:
        return bare
    return replace(bare, after="", kind=_STEP.get(column.kind, column.kind), format="", zone="", step=column.unit)


def _renamed(column: Column, table: str) -> Column:
    """A column of another row."""
    return replace(_bare(column), name=f"{table}.{column.name}")


def _count(table: LinkedTable) -> Column:
    """The number of rows that a parent has."""
    return Column(
        name=f"rows.{table.name}", kind="integer", bounds=(0, table.max_rows), bins=table.max_rows + 1, outside="clip"
    )


def _step_of(order: Column) -> Column:
    """The distance of a row from the row before. Zero is apart, and it is missing in the first row."""
    ends = order.edges or order.bounds
    kind: Any = _STEP.get(order.kind, order.kind)
    least, most = float(order.from_steps(1)), position(ends[-1]) - position(ends[0])
    written: Any = {"duration": durations.of_seconds, "integer": round}.get(kind, float)
    return Column(
        name=f"step.{order.name}",
        kind=kind,
        bounds=(written(least), written(max(most, 2 * least))),
        bins=STEPS,
        log=True,
        zero=True,
        missing=True,
        outside="clip",
        decimals=None if kind == "integer" else order.decimals,
        step=order.unit,
    )


def codes_of(column: Column, numbers: np.ndarray) -> np.ndarray:
    """The codes of values on the axis of a column that clips: NaN is missing. int64 [n]"""
    steps = np.floor(column.to_steps(np.nan_to_num(numbers)) + 0.5)
    values = column.from_steps(steps).clip(column.cuts[0], None)
    codes = (np.searchsorted(column.cuts, values, side="right") - 1).clip(0, column.plain - 1)
    for code, value in enumerate(column.apart, column.plain):
        codes[numbers == value] = code
    codes[np.isnan(numbers)] = column.size - 1
    return np.asarray(codes)
