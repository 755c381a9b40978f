"""The card of linked tables: a tree of tables whose root has one row for each unit, and what a run learns of each table."""

import re
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from gossamer.data.card import Card, check_keys, document, meanings
from gossamer.data.card import Kind as CardKind
from gossamer.data.columns.column import same_name
from gossamer.data.tables.card import TableCard, TextDraft
from gossamer.data.tables.linked.part import Part, parts_of
from gossamer.data.tables.linked.table import SHARED, LinkedTable
from gossamer.errors import CardError, did_you_mean

if TYPE_CHECKING:
    import torch

MOST_TABLES = 12
"""Tables of a card."""
_WAITS = re.compile(r"^# measured: .*", re.MULTILINE)
_DEEPEST = 3
"""Levels of the tree."""


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
            raise CardError(
                f"linked tables are 2 to {MOST_TABLES} tables of different names. One table needs no [table.NAME]."
            )
        said: Any = {"declared_size": self.declared_size, "unit": self.unit, "max_rows": 1, "missing_unit": "refuse"}
        tables = (replace(each, card=replace(each.card, **said, title="", data_set="")) for each in _in_turn(given))
        object.__setattr__(self, "tables", tuple(tables))
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

    @property
    def breadth(self) -> str:
        """See `Card.breadth`."""
        return f"{len(self.tables)} tables with {sum(len(each.card.columns) for each in self.tables)} columns"

    def samples_in_words(self, classes: int) -> str:
        """See `Card.samples_in_words`."""
        del classes
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
        tables = facts.get("table")
        shared: dict[str, Any] = {key: facts[key] for key in ("declared_size", "unit") if key in facts}
        if not isinstance(tables, dict):
            raise CardError("linked tables have entries [table.NAME], with [[table.NAME.column]] below each")
        own = {key: value for key, value in facts.items() if key != "table"}
        return {**own, "tables": tuple(_table(name, given, shared) for name, given in tables.items())}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return super().to_dict() | {"table": {each.name: each.to_dict() for each in self.tables}}

    def dumps(self) -> str:
        """The card as TOML, with a comment for each fact that says what is declared."""
        return "\n".join([*self.lines(vars(self), ["missing_unit"]), *(each.section() for each in self.tables)])


document(LinkedCard)


@dataclass(frozen=True, repr=False)
class LinkedDraft(TextDraft):
    """A draft of the card of linked tables."""

    remedy: ClassVar[str] = "Save it with draft.save(PATH), declare what is measured, and pass PATH."

    def __repr__(self) -> str:
        """Show how many lines wait, and no value."""
        return f"LinkedDraft({len(_WAITS.findall(self.text))} measured lines to declare)"

    def declared(self) -> LinkedCard:
        """The card, once nothing in the draft is measured. Raises CardError: how many lines wait."""
        if waiting := len(_WAITS.findall(self.text)):
            raise CardError(
                f"card: this is a draft, whose measured lines count for nothing ({waiting} of them). Save it with "
                'draft.save("card.toml"), declare them in the file, and pass its path.'
            )
        return LinkedCard.loads(self.text)


def _table(name: str, given: object, shared: dict[str, Any]) -> LinkedTable:
    """One table from plain values. shared: the facts of the whole card that its columns are checked with."""
    if not isinstance(given, dict):
        raise CardError(f"[table.{name}] must have lines such as key = ... and entries [[table.{name}.column]]")
    links = {each.name for each in fields(LinkedTable) if each.metadata}
    own = {key: value for key, value in given.items() if key in links}
    rest = {key: value for key, value in given.items() if key not in links}
    if wrong := {*rest} & {*SHARED}:
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
            raise each.wrong(
                "parent", f"names no table.{did_you_mean(each.parent, by_name)} Known: {', '.join(by_name)}"
            )
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
    named = [replace(each, parent_key=each.parent_key or keys[each.parent]) if each.parent else each for each in found]
    if twice := next((each for each in named if each.key and each.key == each.parent_key), None):
        raise twice.wrong("key", "is the column with the key of the parent, which many rows may have: name another one")
    return named
