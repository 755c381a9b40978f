"""The card of linked tables: a tree of tables whose root has one row for each unit, and what a run learns of each table."""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from gossamer.data.card import Card, check_facts, check_keys, document, fact, is_text, meaning, meanings, plain, toml
from gossamer.data.card import Kind as CardKind
from gossamer.data.columns.column import Column, same_name
from gossamer.data.linked.part import Part, parts_of
from gossamer.data.tables.card import TableCard, column_toml
from gossamer.errors import CardError, did_you_mean

if TYPE_CHECKING:
    import torch

MOST_ROWS = 1_000
"""Largest `max_rows` of a table."""
MOST_TABLES = 12
"""Tables of a card."""
_SHARED = ("title", "data_set", "declared_size", "unit", "missing_unit", "max_rows")
"""Facts of a `TableCard` that the whole card states once, or that have another meaning here."""
_DEEPEST = 3
"""Levels of the tree."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkedTable:
    """One of the tables. Each field says what it declares.

    Raises:
        CardError: a fact that makes no sense; names the table, the entry and the remedy.
    """

    name: str = field(metadata=meaning("the name of the table, as its file without the ending"))
    key: str = fact("", "the column with the key of each row, where other tables refer to it")
    parent: str = fact("", "the table that each row belongs to; of the root, leave it out")
    parent_key: str = fact("", 'the column with the key of the parent; "": it is called as there')
    order: str = fact("", 'the column by which the rows of a parent follow one another, such as a date; "": in no order')
    max_rows: int = fact(0, "the largest number of rows of a parent that samples have", low=0, high=MOST_ROWS)
    card: TableCard
    """Declares the columns, without the keys."""

    def __post_init__(self) -> None:
        if not is_text(self.name) or not self.name.isidentifier():
            raise CardError(f"table {self.name!r}: its name must be a word of letters, digits and _, as in [table.visits]")
        check_facts(self, lambda key, problem: self.wrong(key, problem))
        if self.parent and not self.max_rows:
            raise self.wrong("max_rows", f"is missing: {meanings(LinkedTable)['max_rows']}")
        if not self.parent and (self.order or self.parent_key or self.max_rows):
            raise self.wrong("parent", "is missing: order, parent_key and max_rows are for rows of a parent")
        if {self.key, self.parent_key} & {*self.card.names}:
            raise self.wrong("key", "is a number of rows, and nothing that can be learnt: take its [[column]] out")
        if self.order:
            self._check_order()

    @property
    def kind(self) -> str:
        """For `check_facts`: no fact depends on it."""
        return "table"

    def wrong(self, key: str, problem: str) -> CardError:
        """An error about an entry."""
        return CardError(f"table {self.name}: {key} {problem}")

    @property
    def order_column(self) -> Column:
        """The column of the order."""
        return self.card.columns[self.card.names.index(self.order)]

    def _check_order(self) -> None:
        if self.order not in self.card.names:
            near = did_you_mean(self.order, self.card.names)
            raise self.wrong("order", f"names no column of this table.{near} Columns: {', '.join(self.card.names)}")
        column = self.order_column
        if column.values or column.no_values or column.apart or column.after or column.at_least:
            raise self.wrong(
                "order", f"needs plain numbers, dates or times: in {self.order!r} every row has a value, none is special, and "
                "no rule counts it from another column"
            )  # fmt: skip
        if column.grid is None:
            raise self.wrong("order", f"needs decimals in {self.order!r}, such as decimals = 2")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        own = {each.name: plain(getattr(self, each.name)) for each in fields(self) if each.metadata and each.name != "name"}
        card = {key: value for key, value in self.card.to_dict().items() if key not in _SHARED}
        return {key: value for key, value in own.items() if value} | card

    def dumps(self) -> str:
        """Its part of the TOML file."""
        facts = self.to_dict()
        columns = [column_toml(each).replace("[[column]]", f"[[table.{self.name}.column]]", 1) for each in self.card.written]
        drop, means = facts.pop("drop", {}), meanings(LinkedTable) | meanings(TableCard)
        lines = [f"# declared public: {means[key]}\n{key} = {toml(value)}\n" for key, value in facts.items() if key in means]
        if drop:
            lines += [f"[table.{self.name}.drop]", *(f"{toml(name)} = {toml(why)}" for name, why in drop.items()), ""]
        return "\n".join([f"[table.{self.name}]", *lines, *columns])


document(LinkedTable)


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkedCard(Card):
    """The public facts about linked tables: `[table.NAME]` entries, with `[[table.NAME.column]]` below each.

    The root is the table without a parent: each of its rows is a unit. All rows that belong to it, in all tables, are protected
    together.

    Raises:
        CardError: a fact that makes no sense; names the table, the column, the entry and the remedy.
    """

    tables: tuple[LinkedTable, ...]
    kind: ClassVar[CardKind] = "linked"
    in_words: ClassVar[str] = "linked tables"
    takes_keys: ClassVar[bool] = False
    has_public: ClassVar[bool] = False
    whose: ClassVar[str] = ""
    class_names: ClassVar[tuple[str, ...]] = ()
    units_come: ClassVar[str] = "nothing: each row of the first table is a unit."
    rows_have_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit == "record":
            raise CardError('unit must say what a row of the root is, such as unit = "patient"')
        if self.missing_unit != "refuse":
            raise CardError("missing_unit is for one table: every row of linked tables belongs to a row of the root")
        given: Any = self.tables
        if not isinstance(given, tuple) or not all(isinstance(each, LinkedTable) for each in given):
            raise CardError("tables must be a tuple of LinkedTable")
        if not 2 <= len(given) <= MOST_TABLES or same_name([each.name for each in given]):
            raise CardError(f"linked tables are 2 to {MOST_TABLES} tables of different names. One table needs no [table.NAME].")
        object.__setattr__(self, "tables", tuple(_in_turn(given)))
        _ = self.parts

    def __repr__(self) -> str:
        return f"LinkedCard({', '.join(self.names)}, declared_size={self.declared_size}, unit={self.unit!r})"

    @classmethod
    def suits(cls, method: Any) -> bool:
        """Methods that learn a table after another."""
        return bool(method.takes_linked)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables, parents first."""
        return tuple(each.name for each in self.tables)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What is learnt of each table."""
        return parts_of(self.tables)

    def table(self, name: str) -> LinkedTable:
        """A table by its name."""
        return self.tables[self.names.index(name)]

    @property
    def breadth(self) -> str:
        """See `Card.breadth`."""
        return f"{len(self.tables)} tables with {sum(len(each.card.columns) for each in self.tables)} columns"

    def samples_in_words(self, classes: int) -> str:  # noqa: ARG002 (as every card)
        """See `Card.samples_in_words`."""
        return f"{self.unit}s with rows in {self.breadth}"

    def problem_of_samples(self, samples: "torch.Tensor", labels: "torch.Tensor", n: int) -> str:
        """See `Card`. samples: int64 [rows of all tables, 3 + columns], see `samples.LinkedSamples.piece`."""
        width = 3 + max(len(each.card.columns) for each in self.tables)
        if samples.ndim != 2 or samples.shape[1] != width or len(labels) != len(samples):
            return f"rows are {list(samples.shape)} and not [rows, {width}]"
        if int((samples[:, 0] == 0).sum()) != n:
            return f"they are not of {n} {self.unit}s"
        for at, table in enumerate(self.tables):
            own = samples[samples[:, 0] == at]
            for column, size in enumerate(table.card.domain):
                if not ((own[:, 3 + column] >= 0) & (own[:, 3 + column] < size)).all():
                    return f"a code of table {table.name} is none of its column"
        return ""

    @classmethod
    def _arguments(cls, facts: dict[str, Any]) -> dict[str, Any]:
        check_keys(cls, facts, "the card of linked tables", known=[*meanings(cls), "table"])
        tables, shared = facts.get("table"), {key: facts[key] for key in ("declared_size", "unit") if key in facts}
        if not isinstance(tables, dict):
            raise CardError("linked tables have entries [table.NAME], with [[table.NAME.column]] below each")
        own = {key: value for key, value in facts.items() if key != "table"}
        return {**own, "tables": tuple(_table(name, given, shared) for name, given in tables.items())}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return super().to_dict() | {"table": {each.name: each.to_dict() for each in self.tables}}

    def dumps(self) -> str:
        """The card as TOML, with a comment for each fact that says what is declared."""
        return "\n".join([*self.lines(vars(self), ["missing_unit"]), *(each.dumps() for each in self.tables)])


document(LinkedCard)


def _table(name: str, given: object, shared: dict[str, Any]) -> LinkedTable:
    """One table from plain values. shared: the facts of the whole card that its columns are checked with."""
    if not isinstance(given, dict):
        raise CardError(f"[table.{name}] must have lines such as key = ... and entries [[table.{name}.column]]")
    links = {each.name for each in fields(LinkedTable) if each.metadata}
    own = {key: value for key, value in given.items() if key in links}
    rest = {key: value for key, value in given.items() if key not in links}
    if wrong := {*rest} & {*_SHARED}:
        raise CardError(f"table {name}: {', '.join(sorted(wrong))} is said once, above the tables")
    card = TableCard.from_dict({**rest, **shared}, where=f"table {name}")
    return LinkedTable(**(own | {"name": name}), card=card)


def _in_turn(tables: tuple[LinkedTable, ...]) -> list[LinkedTable]:
    """The root, and each table after its parent. Raises CardError: they are no tree."""
    by_name = {each.name: each for each in tables}
    roots = [each for each in tables if not each.parent]
    if len(roots) != 1:
        raise CardError(f"one table has no parent, that of the units. Here are {len(roots)} such tables.")
    for each in tables:
        if each.parent and each.parent not in by_name:
            raise each.wrong("parent", f"names no table.{did_you_mean(each.parent, by_name)} Known: {', '.join(by_name)}")
    found, level = [], roots
    for _ in range(_DEEPEST):
        found += level
        above = {each.name for each in level}
        level = [each for each in tables if each.parent in above]
    if len(found) < len(tables):
        raise CardError(f"tables are linked over more than {_DEEPEST} levels, or in a circle: take some out")
    keys = {each.name: each.key for each in found}
    for each in found:
        if any(other.parent == each.name for other in found) and not each.key:
            raise each.wrong("key", "is missing: other tables refer to this one")
    return [
        replace(each, parent_key=each.parent_key or keys[each.parent]) if each.parent else each for each in found
    ]

