"""A column that samples have and no run learns: a key, or a column that follows from others.

Nothing of the records is read for it. Its values follow from the card, the number of the row, and other columns of the sample.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from gossamer.data.card import changed, check_keys, document, fact, is_text, is_whole, meaning, plain
from gossamer.data.columns.column import MOST_CODES, WRITTEN, Column, Declared, Kind, entry_of
from gossamer.data.columns.formulas import Numbers, compute
from gossamer.errors import did_you_mean

GeneratedKind = Literal["key", "derived"]
KINDS = get_args(GeneratedKind)
_MOST_DIGITS = 18
_LARGEST = 2**53


@dataclass(frozen=True, kw_only=True)
class GeneratedColumn(Declared):
    """The public facts about a column that is generated in samples and never learnt. Each field says what it declares.

    `mapping` has pairs of a value of the other column and the derived value; a dict is taken too. Of a column with
    bins, the first of a pair is the lower end from which the derived value holds. Where a column follows from several, each has
    a value in front of the derived one. Without a mapping, the column is a copy.

    Raises:
        CardError: an entry that makes no sense; names the column, the entry and the remedy.
    """

    name: str = field(metadata=meaning("the column's name in samples"))
    kind: GeneratedKind = field(metadata=meaning('"key": running numbers; "derived": it follows from others'))
    prefix: str = fact("", "text before the number of a key", of=["key"])
    digits: int = fact(1, "least number of digits of a key; zeros fill it up", high=_MOST_DIGITS, of=["key"])
    start: int = fact(1, "the first key", low=0, high=_LARGEST, of=["key"])
    follows: tuple[str, ...] = fact(
        (), "the column or columns that it follows from; without mapping, it is a copy", of=["derived"]
    )
    mapping: tuple[tuple[str, ...], ...] = fact(
        (), "the derived value for each value of that column, or from each lower end of a number on", of=["derived"]
    )
    formula: str = fact(
        "", 'in place of follows: columns and numbers with + - * /, such as "paid + fee"', of=["derived"]
    )
    decimals: int | None = fact(None, "digits after the point of a formula", low=0, high=9, of=["derived"])
    place: int | None = None
    """Position among all columns of samples. None: after the columns that are learnt."""

    def __post_init__(self) -> None:
        if isinstance(self.mapping, dict):
            object.__setattr__(self, "mapping", tuple(self.mapping.items()))
        if isinstance(self.follows, str):
            object.__setattr__(self, "follows", (self.follows,) if self.follows else ())
        self._check_facts()
        rows = tuple(tuple(row) if isinstance(row, list) else row for row in self.mapping)
        object.__setattr__(self, "mapping", rows)
        if self.place is not None and (not is_whole(self.place) or self.place < 0):
            raise self.wrong("place", "it must be a whole number from 0, or None")
        if self.kind == "derived":
            self._check_mapping()

    def _check_mapping(self) -> None:
        if bool(self.follows) == bool(self.formula) or not all(map(is_text, self.follows)):
            raise self.wrong(
                "follows", 'name the column that it follows from, as in follows = "city", or give a formula'
            )
        if bool(self.mapping if self.formula else self.decimals is not None):
            raise self.wrong("formula", "it goes with decimals, and without mapping")
        if not all(_is_row(row, len(self.follows) + 1) for row in self.mapping):
            raise self.wrong("mapping", 'give a value for each value of the other column, as in { Lyon = "France" }')
        if len({row[:-1] for row in self.mapping}) < len(self.mapping):
            raise self.wrong("mapping", "each value of the other column has one derived value: keep one")

    def check_source(self, columns: Sequence[Column]) -> None:
        """Refuse a derived column that does not fit the columns that it follows. Raises CardError."""
        by_name = {column.name: column for column in columns}
        for name in self.follows:
            if name not in by_name:
                raise self.wrong("follows", f"it must name a column that is learnt.{did_you_mean(name, [*by_name])}")
        try:
            shown_as(self, columns)
        except ValueError:
            raise self.wrong(
                "formula",
                "it must have learnt columns that are no categories, numbers, + - * /, and odd names in quotes",
            ) from None
        if self.mapping or len(self.follows) > 1:
            self._check_values([by_name[name] for name in self.follows])

    def _check_values(self, sources: Sequence[Column]) -> None:
        """Refuse a mapping that has not each value of the columns."""
        if all(source.values for source in sources):
            if math.prod(len(source.values) for source in sources) > MOST_CODES:
                raise self.wrong("follows", f"they have more than {MOST_CODES:,} values together")
            possible = {*itertools.product(*(source.values for source in sources))}
            if wrong := possible ^ {row[:-1] for row in self.mapping}:
                names = " with each of ".join(map(repr, self.follows))
                raise self.wrong(
                    "mapping", f"it must have each value of {names} once, and no other: {len(wrong)} differ"
                )
            return
        if len(sources) > 1:
            raise self.wrong("follows", "several must be categories or truth values")
        source = sources[0]
        if source.special or source.after:
            raise self.wrong("follows", f"{source.name!r} has special values, or is after another")
        try:
            starts = [start_of(row[0], source) for row in self.mapping]
        except ValueError:
            what = WRITTEN.get(source.kind, "numbers")
            raise self.wrong(
                "mapping", f"the lower ends must be {what}, as {source.name!r} is of kind {source.kind}"
            ) from None
        if len(set(starts)) < len(starts) or min(starts) > min([source.cuts[0], *source.apart]):
            raise self.wrong(
                "mapping", f"its lower ends must differ, and begin at the smallest value of {source.name!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON, without the place: name, kind and what is not the default."""
        stated = {entry.name: getattr(self, entry.name) for entry in changed(self) if entry.name != "place"}
        if len(self.follows) == 1:
            stated["follows"] = self.follows[0]
            if self.mapping:
                stated["mapping"] = {row[0]: row[1] for row in self.mapping}
        return {key: plain(value) for key, value in stated.items()}

    @classmethod
    def from_dict(cls, facts: dict[str, Any], place: int | None = None) -> "GeneratedColumn":
        """A column from plain values, as `to_dict` gives them. Raises CardError."""
        check_keys(cls, facts, entry_of(facts))
        return cls(**facts, place=place)


document(GeneratedColumn)

AnyColumn: TypeAlias = Column | GeneratedColumn


def in_order(columns: Sequence[Column], generated: Sequence[GeneratedColumn]) -> tuple[AnyColumn, ...]:
    """All columns in the order of samples."""
    found: list[AnyColumn] = [*columns]
    for each in sorted(generated, key=lambda column: math.inf if column.place is None else column.place):
        found.insert(len(found) if each.place is None else each.place, each)
    return tuple(found)


def start_of(key: str, source: Column) -> float:
    """The lower end that a key of a mapping names, on the axis of its column. Raises ValueError: it is none."""
    number = source.position(key)
    if not math.isfinite(number):
        raise ValueError
    return number


def _is_row(row: object, parts: int) -> bool:
    return isinstance(row, tuple) and len(row) == parts and all(map(is_text, row))


def shown_as(made: AnyColumn, columns: Sequence[Column]) -> AnyColumn:
    """The column whose form the values of a generated one have, where it is a copy or has a formula; else itself.

    columns: those that are learnt.

    Raises:
        ValueError: the formula is none, or names what is no column of numbers, times or truth values.
    """
    if isinstance(made, Column) or made.kind == "key" or made.mapping or len(made.follows) > 1:
        return made
    by_name = {column.name: column for column in columns}
    if made.follows:
        return replace(by_name[made.follows[0]], name=made.name)

    def digits_of(name: str) -> Numbers:
        if name not in by_name or by_name[name].kind == "category":
            raise ValueError
        return np.zeros(1), by_name[name].digits

    _, digits = compute(made.formula, digits_of)
    digits = digits if made.decimals is None else made.decimals
    kind: Kind = "number" if digits != 0 else "integer"
    return Column(name=made.name, kind=kind, decimals=digits or None, bounds=(0, 1), bins=1, missing=True)
