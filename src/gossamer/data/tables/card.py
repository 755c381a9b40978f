"""The card of a table: the public facts about it, declared by its owner and never measured.

It is a TOML file like the card of pictures. `[[column]]` entries tell the two apart.
"""

import re
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from gossamer.data.card import Card, is_count, parsed, toml
from gossamer.data.card import Kind as CardKind
from gossamer.data.tables.column import MEANING as MEANING_OF_COLUMNS
from gossamer.data.tables.column import Column, is_numbered, same_name
from gossamer.data.tables.generated import KINDS as GENERATED
from gossamer.data.tables.generated import MEANING as MEANING_OF_GENERATED
from gossamer.data.tables.generated import AnyColumn, GeneratedColumn, in_order
from gossamer.data.units import Missing
from gossamer.errors import CardError, did_you_mean
from gossamer.files import write_private

_MEANING = {
    "title": "what the table is called in reports and on the certificate",
    "data_set": 'the name under which all runs on these records are counted together; "": the place they are read from',
    "declared_size": "number of rows, or of units where the unit is not the record; rates are computed from it",
    "unit": 'whose contribution is protected: "record", or "patient", "household" ... (then the data come with --units)',
    "missing_unit": 'a row without a unit: "refuse" it as a mistake, or "own": it is a unit of its own',
    "max_rows": "rows of a unit that count in full; the rows of a unit with more weigh less, so that all count as so many",
    "label": 'the column that a model trained on the samples is to predict; "": none',
    "header": "true: the first line of a file has names, whatever they look like; false: it is a row, and columns are called "
    "column_1, column_2 ...; left out: names that look like values are refused",
    "decimal": 'how the file writes a decimal point: "." or ","',
    "drop": "columns that are left out, each with the reason",
}
MEASURED = "measured_"
"""Before the name of an entry of a column that a draft has as a comment."""
MOST_ROWS = 1_000
"""Largest `max_rows`. The noise grows in proportion to it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TableCard(Card):
    """The public facts about a table.

    Args:
        columns: the columns that a run learns, in the order of the codes.
        declared_size: number of units (rows, unless `unit` says otherwise).
        label: name of the column that a model is to predict, or None.
        unit: whose contribution is protected.
        missing_unit: what a row without a unit is: a mistake, or a unit of its own.
        max_rows: rows of a unit that count in full. The rows of a unit with more weigh less, so that all count as so many.
        title: name of the table, for people.
        data_set: name in the budget log: runs under one name are added up. Empty: the place of the records.
        decimal: the decimal point of numbers in text files, "." or ",".
        header: whether the first line of a file has names. False: it is a row, and columns are called column_1, column_2 and so
            on. None: it has names, and names that look like values of a row are refused.
        drop: name and reason of each column that is left out. A dict is taken too.
        generated: columns that samples have and no run learns.

    Raises:
        CardError: a fact that makes no sense; names the column, the entry and the remedy.
    """

    columns: tuple[Column, ...]
    declared_size: int
    label: str | None = None
    unit: str = "record"
    missing_unit: Missing = "refuse"
    max_rows: int = 1
    title: str = ""
    data_set: str = ""
    header: bool | None = None
    decimal: str = "."
    drop: tuple[tuple[str, str], ...] = ()
    generated: tuple[GeneratedColumn, ...] = ()
    kind: ClassVar[CardKind] = "table"
    takes_keys: ClassVar[bool] = False
    has_public: ClassVar[bool] = False
    class_names: ClassVar[tuple[str, ...]] = ()
    units_come: ClassVar[str] = "the name of the column that holds the id of each row's unit."

    def __post_init__(self) -> None:
        if isinstance(self.columns, list):
            object.__setattr__(self, "columns", tuple(self.columns))
        if isinstance(self.drop, dict):
            object.__setattr__(self, "drop", tuple(self.drop.items()))
        if (
            not isinstance(self.columns, tuple)
            or not self.columns
            or not all(isinstance(c, Column) for c in self.columns)
        ):
            raise CardError("a table needs at least one column that is learnt: add [[column]] with name and kind")
        self._place_generated()
        self.check_common(_MEANING)
        if not is_count(self.max_rows) or self.max_rows > MOST_ROWS:
            raise CardError(f"max_rows must be a whole number from 1 to {MOST_ROWS:,}: {_MEANING['max_rows']}")
        if self.max_rows > 1 and self.unit == "record":
            raise CardError(
                'max_rows is for units with several rows: say whose rows belong together, as in unit = "patient"'
            )
        if self.decimal not in (".", ","):
            raise CardError(f'decimal must be "." or ",": {_MEANING["decimal"]}')
        if self.header is not None and not isinstance(self.header, bool):
            raise CardError(f"header must be true or false: {_MEANING['header']}")
        if not isinstance(self.drop, tuple) or not all(
            isinstance(t, str) and t.isprintable() for p in self.drop for t in p
        ):
            raise CardError('drop must name columns with a reason in quotes each, such as "patient id" = "identifier"')
        names = [*(column.name for column in self.written), *(name for name, _ in self.drop)]
        if self.header is False and not is_numbered(names):
            raise CardError(
                "header = false: columns have no names of their own. Call them column_1, column_2 and so on"
            )
        if twice := same_name(names):
            raise CardError(f"column {twice!r} is on the card twice: keep one entry")
        if self.label is not None and self.label not in self.names:
            near = did_you_mean(str(self.label), self.names)
            raise CardError(f"label must name a column, or be left out.{near} Columns: {', '.join(self.names)}.")
        for column in self.columns:
            self._check_order(column)
        for each in self.generated:
            each.check_source(self.columns)

    def __repr__(self) -> str:
        return f"TableCard({len(self.columns)} columns, declared_size={self.declared_size}, unit={self.unit!r})"

    def samples_in_words(self, classes: int) -> str:  # noqa: ARG002 (as every card)
        """See `Card.samples_in_words`."""
        return f"rows of {len(self.columns)} columns"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that are learnt."""
        return tuple(column.name for column in self.columns)

    @property
    def written(self) -> tuple[AnyColumn, ...]:
        """All columns of samples, in their order: those that are learnt, and those that are generated."""
        return in_order(self.columns, self.generated)

    @property
    def domain(self) -> tuple[int, ...]:
        """The number of codes of each column."""
        return tuple(column.size for column in self.columns)

    @property
    def label_index(self) -> int | None:
        """The position of the label column; None: there is none."""
        return None if self.label is None else self.names.index(self.label)

    def _place_generated(self) -> None:
        """Give each generated column the position that it has in samples."""
        given: Any = self.generated
        if not isinstance(given, tuple | list) or not all(isinstance(each, GeneratedColumn) for each in given):
            raise CardError("generated must be a tuple of GeneratedColumn")
        placed = in_order(self.columns, given)
        own = tuple(replace(each, place=at) for at, each in enumerate(placed) if isinstance(each, GeneratedColumn))
        object.__setattr__(self, "generated", own)

    def _check_order(self, column: Column) -> None:
        """Refuse `at_least` of a column that is no other one, or whose values could not be exchanged with it."""
        below = {each.name: each for each in self.columns}
        seen = [column.name]
        while name := below[seen[-1]].at_least:
            if name not in below or name in seen:
                raise CardError(
                    f"column {seen[-1]!r}, at_least: it must name another column, in no circle."
                    f"{did_you_mean(name, [each for each in self.names if each not in seen])}"
                )
            seen.append(name)
        if len(seen) > 1:
            low = below[seen[1]]
            if (low.kind, low.decimals) != (column.kind, column.decimals):
                raise CardError(f"column {column.name!r}, at_least: {low.name!r} must have the same kind and decimals")
            if low.cuts[0] > column.cuts[0] or low.cuts[-1] > column.cuts[-1]:
                raise CardError(
                    f"column {column.name!r}, at_least: neither bound may be below that of {low.name!r}, so that the two "
                    "values can be exchanged"
                )

    @classmethod
    def from_dict(cls, facts: dict[str, Any], *, where: str = "the card") -> "TableCard":
        """A card from plain values, as `to_dict` gives them. Raises CardError."""
        if "column" not in facts and "shape" in facts:
            raise CardError(
                f"{where}: this card describes pictures, and the data are a table. `gossamer card DATA` drafts its card."
            )
        try:
            return cls(**_arguments(facts))
        except CardError as error:
            raise CardError(f"{where}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        common = {key: getattr(self, key) for key in _MEANING if key not in ("label", "drop")}
        if self.header is None:
            del common["header"]
        return {
            **common,
            "label": self.label or "",
            "drop": dict(self.drop),
            "column": [c.to_dict() for c in self.written],
        }

    def dumps(self) -> str:
        """The card as TOML, with a comment for each fact that says what is declared."""
        return "\n".join([common_toml(self.to_dict()), *map(column_toml, self.written)])


@dataclass(frozen=True, repr=False)
class TableDraft:
    """A draft of the card of a table. It is private: it holds values of records, as comments. No run takes them.

    Args:
        text: the draft as TOML. Each line that begins with "# measured: " waits for what you declare.
    """

    text: str

    def __repr__(self) -> str:
        """Show which columns wait, and no value."""
        waiting = ", ".join(map(repr, self.measured)) or "nothing"
        return f"TableDraft({len(self.facts['column'])} columns, to declare: {waiting})"

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the draft. What is measured of a column is under `measured_values` and `measured_bounds`."""
        return facts_of_draft(self.text)

    @property
    def measured(self) -> tuple[str, ...]:
        """The names of the columns whose bounds or values are measured. You have to declare them."""
        return tuple(
            column["name"] for column in self.facts["column"] if any(key.startswith(MEASURED) for key in column)
        )

    def save(self, path: str | Path) -> None:
        """Write the draft to a file that only you can read, over what was there."""
        write_private(Path(path), self.text)

    def declared(self) -> TableCard:
        """The card, once nothing in the draft is measured. Raises CardError: names the columns that wait."""
        if waiting := self.measured:
            raise CardError(
                f"card: this is a draft, whose measured bounds and values count for nothing ({len(waiting)} columns, such as "
                f'{waiting[0]!r}). Save it with draft.save("card.toml"), declare them in the file, and pass its path.'
            )
        return TableCard.loads(self.text)


def facts_of_draft(text: str) -> dict[str, Any]:
    """The facts of a draft of any card. What is measured of a column is under `measured_values` and `measured_bounds`."""
    return parsed(re.sub(r"^# measured: (?=\w+)", MEASURED, text, flags=re.MULTILINE), where="the draft")


def common_toml(facts: dict[str, Any]) -> str:
    """The lines of a card above its columns. facts: see `TableCard.to_dict`."""
    keys = [key for key in _MEANING if key in facts and key != "drop"]
    if facts["unit"] == "record":
        keys.remove("max_rows")
    lines = [f"# declared public: {_MEANING[key]}\n{key} = {toml(facts[key])}\n" for key in keys]
    if facts["drop"]:
        dropped = [f"{toml(name)} = {toml(why)}" for name, why in facts["drop"].items()]
        lines += [f"# declared public: {_MEANING['drop']}", "[drop]", *dropped, ""]
    return "\n".join([*lines, "# declared public: the columns and everything that is said of them"])


def _arguments(facts: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a card. Refuses unknown keys with the nearest name, and missing ones with what they mean."""
    known = [entry.name for entry in fields(TableCard) if entry.name not in ("columns", "generated")]
    for key in facts:
        if key not in (*known, "column"):
            near = did_you_mean(key, [*known, "column"]) or (
                " It may belong below a [[column]]." if key in {**MEANING_OF_COLUMNS, **MEANING_OF_GENERATED} else ""
            )
            raise CardError(f"the card of a table has no key {key!r}.{near} Known: {', '.join(known)}, and [[column]].")
    for entry in fields(TableCard):
        if entry.default is MISSING and entry.name != "columns" and entry.name not in facts:
            raise CardError(f"the card lacks {entry.name} ({_MEANING[entry.name]}); add a line {entry.name} = ...")
    stated = facts.get("column", [])
    columns = [column_from(entry, at) for at, entry in enumerate(stated)] if isinstance(stated, list) else []
    return {
        **{k: v for k, v in facts.items() if k != "column"},
        "columns": tuple(column for column in columns if isinstance(column, Column)),
        "generated": tuple(column for column in columns if isinstance(column, GeneratedColumn)),
        "label": facts.get("label") or None,
    }


def column_from(facts: object, place: int | None = None) -> AnyColumn:
    """A column of either sort from plain values, as `to_dict` gives them. place: of a generated one. Raises CardError."""
    if isinstance(facts, dict) and facts.get("kind") in GENERATED:
        return GeneratedColumn.from_dict(facts, place)
    return Column.from_dict(facts)


def column_toml(column: AnyColumn) -> str:
    """A [[column]] entry."""
    entries = column.to_dict()
    if isinstance(column, Column):  # with dates as dates
        entries = {key: getattr(column, key) for key in entries}
    return "\n".join(["[[column]]", *(f"{key} = {toml(value)}" for key, value in entries.items()), ""])
