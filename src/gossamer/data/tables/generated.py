"""A column that samples have and no run learns: a key, or a column that follows from another one.

Nothing of the records is read for it. Its values follow from the card, the number of the row, and other columns of the sample.
"""

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

from gossamer.data.card import is_count
from gossamer.data.tables.column import Column, as_number, check_name, is_whole
from gossamer.errors import CardError, did_you_mean

GeneratedKind = Literal["key", "derived"]
KINDS = get_args(GeneratedKind)
MEANING = {
    "name": "the column's name in samples",
    "kind": '"key": running numbers; "derived": it follows from another column',
    "prefix": "text before the number of a key",
    "digits": "least number of digits of a key; zeros fill it up",
    "start": "the first key",
    "follows": "the column that a derived column follows from",
    "mapping": "the derived value for each value of that column, or for a number or date from each lower end on",
}
_ENTRIES: dict[str, tuple[str, ...]] = {"key": ("prefix", "digits", "start"), "derived": ("follows", "mapping")}
_MOST_DIGITS = 18
_LARGEST = 2**53


@dataclass(frozen=True, kw_only=True)
class GeneratedColumn:
    """The public facts about a column that is generated in samples and never learnt. See `MEANING` for each entry.

    Args:
        name: of the column in samples.
        kind: "key" or "derived".
        prefix: of keys.
        digits: of keys, at least.
        start: the first key.
        follows: the column that a derived one follows from.
        mapping: pairs of a value of that column and the derived value; a dict is taken too. Of a number or a date, the first
            of a pair is the lower end from which the derived value holds.
        place: position among all columns of samples. None: after the columns that are learnt.

    Raises:
        CardError: an entry that makes no sense; names the column, the entry and the remedy.
    """

    name: str
    kind: GeneratedKind
    prefix: str = ""
    digits: int = 1
    start: int = 1
    follows: str = ""
    mapping: tuple[tuple[str, str], ...] = ()
    place: int | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.kind not in KINDS:
            raise self._wrong("kind", f'it must be "key" or "derived".{did_you_mean(str(self.kind), KINDS)}')
        for entry in fields(self):
            allowed = ("name", "kind", "place", *_ENTRIES[self.kind])
            if entry.name not in allowed and getattr(self, entry.name) != entry.default:
                raise self._wrong(entry.name, f"a column of kind {self.kind} has no such entry: leave it out")
        if self.place is not None and (not is_whole(self.place) or self.place < 0):
            raise self._wrong("place", "it must be a whole number from 0, or None")
        if self.kind == "key":
            self._check_key()
        else:
            self._check_mapping()

    def _check_key(self) -> None:
        if not isinstance(self.prefix, str) or not self.prefix.isprintable():
            raise self._wrong("prefix", "it must be a line of text in quotes")
        if not is_count(self.digits) or self.digits > _MOST_DIGITS:
            raise self._wrong("digits", f"it must be a whole number from 1 to {_MOST_DIGITS}")
        if not is_whole(self.start) or not 0 <= self.start <= _LARGEST:
            raise self._wrong("start", "it must be a whole number from 0 to 2^53")

    def _check_mapping(self) -> None:
        if isinstance(self.mapping, dict):
            object.__setattr__(self, "mapping", tuple(self.mapping.items()))
        if not isinstance(self.follows, str) or not self.follows:
            raise self._wrong("follows", 'name the column that it follows from, as in follows = "city"')
        if not self.mapping or not isinstance(self.mapping, tuple) or not all(map(_is_pair, self.mapping)):
            raise self._wrong("mapping", 'give a value for each value of the other column, as in { Lyon = "France" }')
        if len(dict(self.mapping)) < len(self.mapping):
            raise self._wrong("mapping", "each value of the other column has one derived value: keep one")

    def check_source(self, columns: Sequence[Column]) -> None:
        """Refuse a derived column whose mapping does not fit the column that it follows. Raises CardError."""
        if self.kind != "derived":
            return
        source = {column.name: column for column in columns}.get(self.follows)
        if source is None:
            near = did_you_mean(self.follows, [column.name for column in columns])
            raise self._wrong("follows", f"it must name a column that is learnt.{near}")
        if source.kind == "category":
            known = dict(self.mapping)
            if wrong := [*(v for v in source.values if v not in known), *(v for v in known if v not in source.values)]:
                raise self._wrong(
                    "mapping", f"it must have each value of {source.name!r} once, and no other: {len(wrong)} differ"
                )
            return
        if source.special:
            raise self._wrong(
                "follows", f"{source.name!r} has special values, which are no numbers: take another column"
            )
        try:
            starts = [start_of(key, source) for key, _ in self.mapping]
        except ValueError:
            what = "dates as 2031-12-24" if source.kind == "date" else "numbers"
            raise self._wrong(
                "mapping", f"the lower ends must be {what}, as {source.name!r} is of kind {source.kind}"
            ) from None
        if len(set(starts)) < len(starts) or min(starts) > min([source.cuts[0], *source.apart]):
            raise self._wrong(
                "mapping", f"its lower ends must differ, and begin at the smallest value of {source.name!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON, without the place: name, kind and what is not the default."""
        stated = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "place"}
        defaults = {entry.name: entry.default for entry in fields(self)}
        return {
            key: dict(value) if key == "mapping" else value for key, value in stated.items() if value != defaults[key]
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any], place: int | None = None) -> "GeneratedColumn":
        """A column from plain values, as `to_dict` gives them. Raises CardError."""
        for key in facts:
            if key not in MEANING:
                raise CardError(
                    f"column {facts.get('name')!r} has no entry {key!r}.{did_you_mean(key, MEANING)} Known of a column of kind "
                    f"{facts['kind']}: {', '.join(('name', 'kind', *_ENTRIES[facts['kind']]))}."
                )
        if "name" not in facts:
            raise CardError(f"a [[column]] lacks name ({MEANING['name']}); add a line name = ...")
        return cls(**facts, place=place)

    def _wrong(self, key: str, problem: str) -> CardError:
        return CardError(f"column {self.name!r}, {key}: {problem}")


AnyColumn: TypeAlias = Column | GeneratedColumn


def in_order(columns: Sequence[Column], generated: Sequence[GeneratedColumn]) -> tuple[AnyColumn, ...]:
    """All columns in the order of samples."""
    found: list[AnyColumn] = [*columns]
    for each in sorted(generated, key=lambda column: math.inf if column.place is None else column.place):
        found.insert(len(found) if each.place is None else each.place, each)
    return tuple(found)


def start_of(key: str, source: Column) -> float:
    """The lower end that a key of a mapping names; a date in days since 1970. Raises ValueError: it is none."""
    number = as_number(datetime.date.fromisoformat(key)) if source.kind == "date" else float(key)
    if not math.isfinite(number):
        raise ValueError
    return number


def _is_pair(pair: object) -> bool:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return False
    return all(isinstance(text, str) and text.isprintable() and text and text == text.strip() for text in pair)
