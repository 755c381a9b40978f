"""The card of a table: the public facts about it, declared by its owner and never measured.

It is a TOML file like the card of pictures. `[[column]]` entries tell the two apart.
"""

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from gossamer.data.card import Card, check_keys, document, fact, is_line, meanings, parsed, problem_of_labels, toml
from gossamer.data.card import Kind as CardKind
from gossamer.data.columns.column import Column, is_numbered, same_name
from gossamer.data.columns.generated import KINDS as GENERATED
from gossamer.data.columns.generated import AnyColumn, GeneratedColumn, in_order
from gossamer.data.columns.rules import check_rules
from gossamer.errors import CardError, did_you_mean
from gossamer.files import at_home, write_private
from gossamer.lazy import torch

MEASURED = "measured_"
"""Before the name of an entry of a column that a draft has as a comment."""
COLUMN = re.compile(r"^(?:#(?! declared public).*\n)*\[\[column\]\]\n(?:.+\n?)*", re.MULTILINE)
"""The entry of a column in a draft, with the remarks above it."""
MOST_COLUMNS = 200
"""Columns that methods for tables take. Beyond, the errors of all pairs have too much noise to choose by."""
MOST_ROWS = 1_000
"""Largest `max_rows`. The noise grows in proportion to it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TableCard(Card):
    """The public facts about a table. Each field says what it declares.

    The columns that a run learns are in the order of the codes. A dict is taken for `drop`.

    Raises:
        CardError: a fact that makes no sense; names the column, the entry and the remedy.
    """

    columns: tuple[Column, ...]
    max_rows: int = fact(
        1,
        "rows of a unit that count in full; the rows of a unit with more weigh less, so that all count as so many",
        high=MOST_ROWS,
    )
    label: str | None = fact(None, 'the column that a model trained on the samples is to predict; "": none')
    header: bool | None = fact(
        None,
        "true: the first line of a file has names, whatever they look like; false: it is a row, and columns are called "
        "column_1, column_2 ...; left out: names that look like values are refused",
    )
    decimal: Literal[".", ","] = fact(".", 'how the file writes a decimal point: "." or ","')
    drop: tuple[tuple[str, str], ...] = fact((), "columns that are left out, each with the reason")
    generated: tuple[GeneratedColumn, ...] = ()
    """Columns that samples have and no run learns."""
    kind: ClassVar[CardKind] = "table"
    in_words: ClassVar[str] = "a table"
    whose: ClassVar[str] = "COLUMN"
    class_names: ClassVar[tuple[str, ...]] = ()
    shape: ClassVar[tuple[int, ...]] = ()
    units_come: ClassVar[str] = "the name of the column that holds the id of each row's unit."

    def __post_init__(self) -> None:
        if isinstance(self.drop, dict):
            object.__setattr__(self, "drop", tuple(self.drop.items()))
        super().__post_init__()
        learnt: Any = self.columns
        if not isinstance(learnt, tuple) or not learnt or not all(isinstance(each, Column) for each in learnt):
            raise CardError("a table needs at least one column that is learnt: add [[column]] with name and kind")
        self._place_generated()
        if self.max_rows > 1 and self.unit == "record":
            raise CardError(
                'max_rows is for units with several rows: say whose rows belong together, as in unit = "patient"'
            )
        if not all(isinstance(pair, tuple) and len(pair) == 2 and all(map(is_line, pair)) for pair in self.drop):
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
        check_rules(self.columns, self.label)
        for each in self.generated:
            each.check_source(self.columns)

    def __repr__(self) -> str:
        return f"TableCard({len(self.columns)} columns, declared_size={self.declared_size}, unit={self.unit!r})"

    def problem_of_samples(self, samples: "torch.Tensor", labels: "torch.Tensor", n: int) -> str:
        """See `Card`. samples: codes int64 [n, columns]. labels: the codes of the label column."""
        domain = torch.tensor(self.domain)
        if tuple(samples.shape) != (n, len(domain)) or samples.dtype != torch.int64:
            return f"codes are {samples.dtype} {list(samples.shape)} and not int64 {[n, len(domain)]}"
        if not ((samples >= 0) & (samples < domain)).all():
            return "a code is none of its column"
        return problem_of_labels(labels, n, 1 if self.label_index is None else self.domain[self.label_index])

    def samples_in_words(self, classes: int) -> str:  # noqa: ARG002 (as every card)
        """See `Card.samples_in_words`."""
        return f"rows of {self.breadth}"

    @property
    def breadth(self) -> str:
        """See `Card.breadth`."""
        return f"{len(self.columns)} columns"

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

    def with_column(self, name: str, **entries: Any) -> "TableCard":
        """Return the card with a column declared so, in its place, or at the end if it was not on the card.

        Args:
            name: of the column.
            entries: as in `Column`. Its other entries stay. Where `kind` changes, those that belong to the old kind go.

        Raises:
            CardError: there is no such entry, or it makes no sense; or the column is new, and its kind is missing.
        """
        facts = self.to_dict()
        entry = _declared(facts, name, entries)
        places = {each["name"]: each for each in facts["column"]} | {name: entry}
        dropped = {other: why for other, why in self.drop if other != name}
        return self.from_dict(facts | {"column": [*places.values()], "drop": dropped})

    @classmethod
    def _arguments(cls, facts: dict[str, Any]) -> dict[str, Any]:
        if "column" not in facts and "shape" in facts:
            raise CardError(
                "this card describes pictures, and the data are a table. `gossamer.draft_card(DATA)` drafts its card."
            )
        hint = " What is said of one column stands below its [[column]]."
        check_keys(cls, facts, "the card of a table", known=[*meanings(cls), "column"], hint=hint)
        stated = facts.get("column", [])
        columns = [column_from(entry, at) for at, entry in enumerate(stated)] if isinstance(stated, list) else []
        return {
            **{key: value for key, value in facts.items() if key != "column"},
            "columns": tuple(column for column in columns if isinstance(column, Column)),
            "generated": tuple(column for column in columns if isinstance(column, GeneratedColumn)),
            "label": facts.get("label") or None,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        columns = [column.to_dict() for column in self.written]
        facts = super().to_dict() | {"label": self.label or "", "drop": dict(self.drop), "column": columns}
        return {key: value for key, value in facts.items() if value is not None}

    def dumps(self) -> str:
        """The card as TOML, with a comment for each fact that says what is declared."""
        return "\n".join([common_toml(vars(self)), *map(column_toml, self.written)])


document(TableCard)


@dataclass(frozen=True, repr=False)
class TextDraft:
    """A draft of a card. It is private: it holds values of records, as comments. No run takes them.

    Args:
        text: the draft as TOML. Each line that begins with "# measured: " waits for what you declare.
    """

    text: str
    remedy: ClassVar[str]
    """How the owner declares what is measured."""

    def save(self, path: str | Path) -> None:
        """Write the draft to a file that only you can read, over what was there."""
        write_private(at_home(path), self.text)


@dataclass(frozen=True, repr=False)
class TableDraft(TextDraft):
    """A draft of the card of a table."""

    remedy: ClassVar[str] = (
        "Declare each column in draft.measured, as in draft = draft.with_column(NAME, bounds=(0, 120)), and pass the draft as "
        'card. Or save it with draft.save("card.toml"), replace what is measured, and pass the path.'
    )

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

    def with_column(self, name: str, **entries: Any) -> "TableDraft":
        """Return the draft with a column declared so. What it measured of these entries, and its remarks on the column, go.

        A column that the draft drops is at the end. Arguments and errors: as of `TableCard.with_column`.
        """
        facts = self.facts
        entry = _declared(facts, name, entries)
        measured = [key.removeprefix(MEASURED) for key in entry if key.startswith(MEASURED)]
        lines = column_toml(column_from({key.removeprefix(MEASURED): value for key, value in entry.items()}))
        for key in measured:
            lines = lines.replace(f"\n{key} = ", f"\n# measured: {key} = ")
        text = self.text
        if reason := facts.get("drop", {}).get(name):
            text = text.replace(f"\n{toml(name)} = {toml(reason)}\n", "\n", 1)
        for found in COLUMN.finditer(text):
            if facts_of_draft(found[0])["column"][0]["name"] == name:
                return TableDraft(text[: found.start()] + lines + text[found.end() :])
        return TableDraft(f"{text.rstrip()}\n\n{lines}")

    def declared(self) -> TableCard:
        """The card, once nothing in the draft is measured. Raises CardError: names the columns that wait."""
        if waiting := self.measured:
            raise CardError(
                f"card: this is a draft, whose measured bounds and values count for nothing ({len(waiting)} columns, such as "
                f"{waiting[0]!r}). Declare each, as in draft = draft.with_column({waiting[0]!r}, ...). Or save the draft with "
                'draft.save("card.toml"), declare them in the file, and pass its path.'
            )
        return TableCard.loads(self.text)


def _declared(facts: dict[str, Any], name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The entries of a column once these are declared; those that a draft has measured keep their prefix. Raises CardError."""
    columns = {each["name"]: each for each in facts["column"]}
    if name not in columns and "kind" not in given:
        known = [*columns, *facts.get("drop", ())]
        raise CardError(f"the card has no column {name!r}.{did_you_mean(name, known)} For a new column, give its kind.")
    old = columns.get(name, {"name": name, "kind": given.get("kind")})
    kind = given.get("kind", old["kind"])
    every_kind = fields(GeneratedColumn if kind in GENERATED else Column)
    own = {entry.name for entry in every_kind if entry.metadata and not entry.metadata["of"]}
    if kind == old["kind"]:
        own = {*old} - {MEASURED + key for key in given}
    if "edges" in given:
        own -= {"bounds", "bins", MEASURED + "bounds"}
    if "bounds" in given:
        own.discard("edges")
    return {key: value for key, value in old.items() if key in own} | given


def facts_of_draft(text: str) -> dict[str, Any]:
    """The facts of a draft of any card. What is measured of a column is under `measured_values` and `measured_bounds`."""
    return parsed(re.sub(r"^# measured: (?=\w+)", MEASURED, text, flags=re.MULTILINE), where="the draft")


def common_toml(facts: dict[str, Any]) -> str:
    """The lines of a card above its columns. facts: those that are not the default, by the names of the fields."""
    open_facts = {"header": facts.get("header") is None, "max_rows": facts["unit"] == "record", "drop": True}
    lines = TableCard.lines(facts, [key for key, left_out in open_facts.items() if left_out])
    if dropped := dict(facts["drop"]):
        reasons = [f"{toml(name)} = {toml(why)}" for name, why in dropped.items()]
        lines += [f"# declared public: {meanings(TableCard)['drop']}", "[drop]", *reasons, ""]
    return "\n".join([*lines, "# declared public: the columns and everything that is said of them"])


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
