"""A column that samples have and no run learns: a key, or a column that follows from another one.

Nothing of the records is read for it. Its values follow from the card, the number of the row, and other columns of the sample.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from gossamer.data.card import changed, check_keys, document, fact, is_text, is_whole, meaning
from gossamer.data.columns.column import WRITTEN, Column, Declared, entry_of
from gossamer.errors import did_you_mean

GeneratedKind = Literal["key", "derived"]
KINDS = get_args(GeneratedKind)
_MOST_DIGITS = 18
_LARGEST = 2**53


@dataclass(frozen=True, kw_only=True)
class GeneratedColumn(Declared):
    """The public facts about a column that is generated in samples and never learnt. Each field says what it declares.

    `mapping` has pairs of a value of the other column and the derived value; a dict is taken too. Of a column with
    bins, the first of a pair is the lower end from which the derived value holds.

    Raises:
        CardError: an entry that makes no sense; names the column, the entry and the remedy.
    """

    name: str = field(metadata=meaning("the column's name in samples"))
    kind: GeneratedKind = field(metadata=meaning('"key": running numbers; "derived": it follows from another column'))
    prefix: str = fact("", "text before the number of a key", of=["key"])
    digits: int = fact(1, "least number of digits of a key; zeros fill it up", high=_MOST_DIGITS, of=["key"])
    start: int = fact(1, "the first key", low=0, high=_LARGEST, of=["key"])
    follows: str = fact("", "the column that a derived column follows from", of=["derived"])
    mapping: tuple[tuple[str, str], ...] = fact(
        (), "the derived value for each value of that column, or from each lower end of a number on", of=["derived"]
    )
    place: int | None = None
    """Position among all columns of samples. None: after the columns that are learnt."""

    def __post_init__(self) -> None:
        if isinstance(self.mapping, dict):
            object.__setattr__(self, "mapping", tuple(self.mapping.items()))
        self._check_facts()
        if self.place is not None and (not is_whole(self.place) or self.place < 0):
            raise self.wrong("place", "it must be a whole number from 0, or None")
        if self.kind == "derived":
            self._check_mapping()

    def _check_mapping(self) -> None:
        if not self.follows:
            raise self.wrong("follows", 'name the column that it follows from, as in follows = "city"')
        if not self.mapping or not all(map(_is_pair, self.mapping)):
            raise self.wrong("mapping", 'give a value for each value of the other column, as in { Lyon = "France" }')
        if len(dict(self.mapping)) < len(self.mapping):
            raise self.wrong("mapping", "each value of the other column has one derived value: keep one")

    def check_source(self, columns: Sequence[Column]) -> None:
        """Refuse a derived column whose mapping does not fit the column that it follows. Raises CardError."""
        if self.kind != "derived":
            return
        source = {column.name: column for column in columns}.get(self.follows)
        if source is None:
            near = did_you_mean(self.follows, [column.name for column in columns])
            raise self.wrong("follows", f"it must name a column that is learnt.{near}")
        if source.values:
            known = dict(self.mapping)
            if wrong := [*(v for v in source.values if v not in known), *(v for v in known if v not in source.values)]:
                raise self.wrong(
                    "mapping", f"it must have each value of {source.name!r} once, and no other: {len(wrong)} differ"
                )
            return
        if source.special:
            raise self.wrong(
                "follows", f"{source.name!r} has special values, which are no numbers: take another column"
            )
        try:
            starts = [start_of(key, source) for key, _ in self.mapping]
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
        return stated | ({"mapping": dict(self.mapping)} if self.mapping else {})

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


def _is_pair(pair: object) -> bool:
    return isinstance(pair, tuple | list) and len(pair) == 2 and all(map(is_text, pair))
