"""What a draft says of a column, and which kind and form its cells have."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gossamer.data.card import toml
from gossamer.data.columns.numbers import Form
from gossamer.data.sources.relation import Relation
from gossamer.data.tables.drafting.portrait import Portrait

_FIRST = ("name", "kind", "format", "zone")


@dataclass
class Proposal:
    """What a draft says of a column.

    Args:
        facts: entries of the column that stand as they are.
        measured: entries that hold values of records.
        comments: sentences above the entry.
        choices: lines of another reading, which no cell excludes. The entry shows them as comments.
        drop: why the column is left out; empty: it is not.
        hint: what the data owner must do to the file.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    drop: str = ""
    hint: str = ""

    def say(self, comment: str) -> None:
        """Add a comment."""
        self.comments.append(comment)

    @property
    def text(self) -> str:
        """The [[column]] entry, with what is measured as comments."""
        lines = {key: f"{key} = {toml(value)}" for key, value in self.facts.items()}
        first = [lines.pop(key) for key in _FIRST if key in lines]
        measured = [f"# measured: {key} = {toml(value)}" for key, value in self.measured.items()]
        comments, choices = ([f"# {line}" for line in each] for each in (self.comments, self.choices))
        return "\n".join([*comments, "[[column]]", *first, *measured, *choices, *lines.values(), ""])


@dataclass(frozen=True)
class Habits:
    """How a table writes its cells, seen in all columns.

    Args:
        decimal: the decimal point.
        groups: whether a point may separate thousands: cells end with a semicolon, and no number has a decimal point for sure.
        words: for a missing value, in columns of numbers and dates.
        guessed: whether a program may have guessed the types of columns.
    """

    decimal: str
    groups: bool
    words: frozenset[str]
    guessed: bool

    @classmethod
    def of(cls, portraits: Sequence[Portrait], table: Relation, *, comma: bool) -> "Habits":
        """How a table writes its cells. comma: whether a comma is its decimal point, as far as known."""
        best = {seen: each for seen in portraits if (each := seen.best(groups=True)) is not None}
        numbers = [(each.form, each.spread.is_whole) for each in best.values() if isinstance(each.form, Form)]
        groups = table.delimiter == ";" and all(form.decimal == "," or is_whole for form, is_whole in numbers)
        commas = any(form.decimal == "," for form, _ in numbers)
        words = frozenset(word for seen in best for word in seen.words)
        return cls("," if comma or (groups and commas) else ".", groups, words, table.guessed)
