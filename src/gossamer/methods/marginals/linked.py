"""Linked tables: a field for the part of each table, and rows that are drawn table by table, each row after the one before.

The queries are those of `loop.py`, asked of one part after another. Each has a share of the privacy budget. The rows of a unit
weigh 1 together in each part, whatever their number. So `counts.py` bounds every query, and the whole is one composition.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gossamer.methods import contract
from gossamer.methods.contract import Draw, Logs, Run
from gossamer.methods.marginals import loop, measurements, selection, steps
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.tree import Clique, JunctionTree, spread, summed
from gossamer.privacy.confined import Confined

if TYPE_CHECKING:
    from gossamer.methods.marginals import Config

CELLS = 1 << 23
"""Cells of all cliques that are worked on at once: so many rows are drawn together."""
LEAST = 1e-300
"""Stands for a probability of zero."""


class LinkedField(nn.Module):
    """A `MarkovField` for the part of each table."""

    classes = 1

    def __init__(self, card: Any) -> None:
        super().__init__()
        self.fields = nn.ModuleList(MarkovField(part.card.domain, part.card.label_index) for part in card.parts)


@dataclass
class State(contract.State):
    """All of it has been released, or follows from what has."""

    net: LinkedField
    parts: list[loop.State] = field(default_factory=list)

    def check_sent(self) -> None:
        """See `loop.State`."""
        for part in self.parts:
            part.check_sent()

    @property
    def released(self) -> LinkedField:
        """The generator that the run hands out."""
        return self.net


def start(run: "Run[Config]") -> State:
    """Uniform rows in each part."""
    card: Any = run.card  # a LinkedCard
    net, fields = LinkedField(card), list[Any]()
    fields += net.fields
    return State(net, [loop.State(own, float(card.declared_size)) for own in fields])


def of_part(
    number: int,
    config: "Config",
    phase: contract.Phase[Any, Any],
    run: "Run[Config]",
    state: State,
    private: Confined[Any],
) -> Iterator[Logs]:
    """A phase of one part, as `loop.py` has it.

    Args:
        number: of the part.
        config: with the noise of this part.
        phase: of a table.
        run: of the linked tables.
        state: of the run.
        private: its `LinkedRecords`.
    """
    card: Any = run.card  # a LinkedCard
    inner = state.parts[number]
    inner.phase, inner.step = phase.name, state.step
    if phase.name == "columns":
        merge_known(card, card.parts[number], state)
    rows = private.map(lambda records: records.parts[number])
    for logs in phase.body(replace(run, card=card.parts[number].card, config=config), inner, rows):
        yield logs
        inner.step = state.step


def follow(run: "Run[Config]", state: loop.State, private: Confined[Any]) -> Iterator[Logs]:
    """How rows follow from the rows before. One query."""
    asked = steps.query(run.card, state.net)
    release = loop.a_bound_each(run.query("steps"), asked, selection.noise_weights(asked.sizes))
    if state.step == 0 and private.remaining(release.event):
        answers = measurements.released(asked, private.release(release, asked), release)
        state.folds = [(each[0], groups, *each[1:]) for each, groups in zip(answers, asked.groups, strict=True)]
        state.duals = None
        loop.fit_all(replace(run, config=run.config.resolved(run.card)), state)
        yield {"steps": float(len(answers))}


def merge_known(card: Any, part: Any, state: State) -> None:
    """Merge values of known columns as the tables above have them. Of rows before, `loop.merge_rare` knows."""
    nets = dict(zip(card.names, (each.net for each in state.parts), strict=True))
    maps = nets[part.name].maps
    for k, (name, column) in enumerate(part.above):
        maps[k] = nets[name].maps[_own(card, name) + column]
    if parent := card.tables[card.names.index(part.name)].parent:
        above = card.parts[card.names.index(parent)]
        maps[part.count] = nets[parent].maps[above.below_at + above.below.index(part.name)]
    nets[part.name].merge(maps, [torch.ones_like(each) for each in maps])


def sample(net: LinkedField, draw: "Draw[Config]") -> tuple[Tensor, Tensor]:
    """Rows of all tables, int64 [rows, 3 + columns], and zeros [rows].

    The first columns are the number of the table, the position of the parent among all rows, and the code of the step from the
    row before. In the root, both are -1.
    """
    card: Any = draw.card  # a LinkedCard
    width = max(len(each.card.columns) for each in card.tables)
    drawn: dict[str, Tensor] = {}
    places: dict[str, dict[str, Tensor]] = {}
    begins, packed, count = {}, [], 0
    for at, (table, part) in enumerate(zip(card.tables, card.parts, strict=True)):
        own: Any = net.fields[at]
        if table.parent:
            numbers = _numbers(drawn[table.parent], card, table)
            parents = torch.repeat_interleave(torch.arange(len(numbers)), numbers)
            above = {name: rows[parents] for name, rows in places[table.parent].items()} | {table.parent: parents}
            context = torch.stack([drawn[name][above[name], _own(card, name) + k] for name, k in part.above], 1)
            rows = _in_turn(own, part, context, numbers, parents, draw.stream)
        else:
            above, parents = {}, torch.full((draw.n,), -1)
            rows = own.sample(draw.n, None, draw.stream)
        drawn[table.name], places[table.name], begins[table.name] = rows, above, count
        codes = torch.full((len(rows), 3 + width), -1)
        codes[:, 0], codes[:, 1] = at, parents + (begins[table.parent] if table.parent else 0)
        if part.before:
            codes[:, 2] = rows[:, part.step]
        codes[:, 3 : 3 + len(table.card.columns)] = rows[:, part.own : part.own + len(table.card.columns)]
        packed.append(codes)
        count += len(rows)
    joined = torch.cat(packed)
    return joined, torch.zeros(len(joined), dtype=torch.int64)


def _own(card: Any, name: str) -> int:
    own: int = card.parts[card.names.index(name)].own
    return own


def _numbers(rows: Tensor, card: Any, table: Any) -> Tensor:
    """How many rows of a table each row of its parent has. Its column has a bin for each number."""
    parent = card.parts[card.names.index(table.parent)]
    return rows[:, parent.below_at + parent.below.index(table.name)]


def _in_turn(
    own: MarkovField, part: Any, context: Tensor, numbers: Tensor, parents: Tensor, stream: torch.Generator
) -> Tensor:
    """The rows of one table: the first of every parent, then the second, and so on. int64 [rows, columns of the part]

    Args:
        own: the field of the part.
        part: see `data.linked.part`.
        context: codes of the rows above, int64 [rows, columns].
        numbers: of rows of each parent, int64 [parents].
        parents: of each row, int64 [rows], rising.
        stream: fixes the rows.
    """
    rows = torch.zeros(len(parents), len(part.card.columns), dtype=torch.int64)
    rows[:, : part.count] = context
    rows[:, part.count] = numbers[parents]
    if not part.before:
        return given(own, part.card.known, rows, {}, stream)
    turn = torch.arange(len(parents)) - (numbers.cumsum(0) - numbers)[parents]
    steps = part.card.columns[part.step]
    first = torch.arange(steps.size) == steps.size - 1
    none = torch.tensor([column.size - 1 for column in part.card.columns[part.first_before : part.step]])
    own_columns = slice(part.own, part.own + len(part.before))
    for k in range(int(numbers.max()) if len(rows) else 0):
        at = torch.nonzero(turn == k)[:, 0]
        rows[at, part.first_before : part.step] = none if k == 0 else rows[at - 1, own_columns]
        allowed = first if k == 0 else ~first
        rows[at] = given(own, part.card.known, rows[at], {part.step: allowed.double()}, stream)
    return rows


def given(
    own: MarkovField, known: Sequence[int], rows: Tensor, weights: dict[int, Tensor], stream: torch.Generator
) -> Tensor:
    """Rows whose other columns are drawn, given the known ones: exactly, by one pass over the tree for each row.

    Args:
        own: a field.
        known: the columns whose codes are in `rows`.
        rows: int64 [n, columns].
        weights: factors on the values of columns that are drawn, float64 [values].
        stream: fixes what is drawn.
    """
    tree = own.tree
    factors = _conditionals(own, tree)
    values = {column: own.maps[column][rows[:, column]] for column in known}
    for column, factor in weights.items():
        inside = (
            torch.zeros(tree.sizes[column]).double().index_add_(0, own.maps[column], own.shares_of(column) * factor)
        )
        home = tree.home((column,))
        assert home is not None
        factors[home] = factors[home] * spread(inside, (column,), tree.cliques[home])
    free = [tuple(column for column in clique if column not in values) for clique in tree.cliques]
    cells = sum(math.prod(tree.sizes[column] for column in own_free) for own_free in free)
    size, found = max(1, CELLS // max(1, cells)), []
    for begin in range(0, len(rows), size):
        here = {column: each[begin : begin + size] for column, each in values.items()}
        found.append(_drawn(tree, factors, free, here, stream))
    merged = torch.cat(found) if found else torch.zeros(0, len(tree.sizes), dtype=torch.int64)
    split = {column: factor * own.shares_of(column) for column, factor in weights.items()}
    columns = [
        rows[:, column] if column in values else own.split_value(column, merged[:, column], stream, split.get(column))
        for column in range(len(tree.sizes))
    ]
    return torch.stack(columns, 1)


def _conditionals(own: MarkovField, tree: JunctionTree) -> list[Tensor]:
    """The probabilities of each clique, given what it shares with its parent."""
    return [
        table / spread(summed(table, clique, shared), shared, clique).clamp(min=LEAST)
        for table, clique, shared in zip(own.tables, tree.cliques, tree.separators, strict=True)
    ]


def _drawn(
    tree: JunctionTree,
    factors: Sequence[Tensor],
    free: Sequence[Clique],
    known: dict[int, Tensor],
    stream: torch.Generator,
) -> Tensor:
    """Merged values of all columns, int64 [n, columns], given those of the known columns: upwards, then downwards."""
    n = len(next(iter(known.values())))
    tables = [_at_known(tree, k, factors[k], known, n) for k in range(len(tree.cliques))]
    for k in range(len(tables) - 1, 0, -1):
        shared = tuple(column for column in tree.separators[k] if column not in known)
        parent = tree.parents[k]
        joint = tables[parent] * spread(summed(tables[k], free[k], shared), shared, free[parent])
        most = joint.reshape(n, -1).amax(1).clamp(min=LEAST)
        tables[parent] = joint / most.view(-1, *[1] * len(free[parent]))
    found, done = torch.full((n, len(tree.sizes)), -1), {*known}
    for column, values in known.items():
        found[:, column] = values
    for own, table in zip(free, tables, strict=True):
        new = [column for column in own if column not in done]
        if not new:
            continue
        before = [column for column in own if column in done]
        turned = table.permute([0, *(1 + own.index(column) for column in (*before, *new))])
        at = torch.zeros(n, dtype=torch.int64)
        for column in before:
            at = at * tree.sizes[column] + found[:, column]
        flat = turned.reshape(n, math.prod(tree.sizes[column] for column in before), -1)[torch.arange(n), at]
        last = (flat + LEAST).cumsum(1)
        uniform = torch.rand(n, 1, generator=stream, dtype=torch.float64) * last[:, -1:]
        cells = torch.searchsorted(last, uniform, right=True)[:, 0].clamp(max=flat.shape[1] - 1)
        for column in reversed(new):
            found[:, column], cells = cells % tree.sizes[column], cells // tree.sizes[column]
        done.update(new)
    return found


def _at_known(tree: JunctionTree, k: int, table: Tensor, known: dict[int, Tensor], n: int) -> Tensor:
    """The table of a clique at the known values of each row: float64 [n, values of the free columns]."""
    clique = tree.cliques[k]
    fixed, rest = ([column for column in clique if (column in known) == which] for which in (True, False))
    turned = table.permute([clique.index(column) for column in (*fixed, *rest)])
    if not fixed:
        return turned[None].expand(n, *turned.shape)
    at = torch.zeros(n, dtype=torch.int64)
    for column in fixed:
        at = at * tree.sizes[column] + known[column]
    return turned.reshape(-1, *(tree.sizes[column] for column in rest))[at]
