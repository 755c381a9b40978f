"""One of several linked tables: what is declared of its rows, and how they belong to those of another table."""

from dataclasses import dataclass, field, fields
from typing import Any

from gossamer.data.card import check_facts, document, fact, is_text, meaning, meanings, plain, toml
from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard, column_toml
from gossamer.errors import CardError, did_you_mean

MOST_ROWS = 1_000
"""Largest `max_rows` of a table."""
SHARED = ("title", "data_set", "declared_size", "unit", "missing_unit", "max_rows")
"""Facts of a `TableCard` that the whole card states once, or that have another meaning here."""


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
    order: str = fact(
        "", 'the column by which the rows of a parent follow one another, such as a date; "": in no order'
    )
    max_rows: int = fact(0, "the largest number of rows of a parent that samples have", low=0, high=MOST_ROWS)
    card: TableCard
    """Declares the columns, without the keys."""

    def __post_init__(self) -> None:
        if not is_text(self.name) or not self.name.isidentifier():
            raise CardError(
                f"table {self.name!r}: its name must be a word of letters, digits and _, as in [table.visits]"
            )
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
        if column.values or column.no_values or column.apart or column.after or column.at_least or column.clock:
            plain_ = "every row has a value, none is special or a clock, and no rule counts it from another column"
            raise self.wrong("order", f"needs plain numbers, dates or times: in {self.order!r} {plain_}")
        if column.grid is None:
            raise self.wrong("order", f"needs decimals in {self.order!r}, such as decimals = 2")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        own = {
            each.name: plain(getattr(self, each.name)) for each in fields(self) if each.metadata and each.name != "name"
        }
        card = {key: value for key, value in self.card.to_dict().items() if key not in SHARED}
        return {key: value for key, value in own.items() if value} | card

    def section(self) -> str:
        """Its section of the TOML file of the card."""
        facts = self.to_dict()
        columns = [
            column_toml(each).replace("[[column]]", f"[[table.{self.name}.column]]", 1) for each in self.card.written
        ]
        drop, means = facts.pop("drop", {}), meanings(LinkedTable) | meanings(TableCard)
        lines = [
            f"# declared public: {means[key]}\n{key} = {toml(value)}\n" for key, value in facts.items() if key in means
        ]
        if drop:
            lines += [f"[table.{self.name}.drop]", *(f"{toml(name)} = {toml(why)}" for name, why in drop.items()), ""]
        return "\n".join([f"[table.{self.name}]", *lines, *columns])


document(LinkedTable)
