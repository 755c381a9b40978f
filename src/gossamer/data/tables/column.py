"""A column of a table: the values that its owner declares, and the codes that stand for them.

A code is the position of a value, or of a bin of values, in the declaration. The codes of a column are numbered like this:
values or bins first, then zero, the special values, "other", and "missing". A column has only those that are declared.
"""

import datetime
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from gossamer.data.card import is_count
from gossamer.errors import CardError, did_you_mean

Kind = Literal["category", "integer", "number", "date"]
Outside = Literal["refuse", "clip", "other"]
Bound: TypeAlias = "int | float | datetime.date"

OTHER = "other"
"""What is written for a value that is not declared, where `outside` is "other"."""
NUMBERED = "column_{}"
"""The name of a column without one, by its position from 1."""
MOST_CODES = 10_000
"""Codes of one column."""
BINS = 16
_LARGEST = 2**53
"""Whole numbers up to here are exact as floats."""
_MOST_DECIMALS = 9

MEANING = {
    "name": "the column's name, as in the first line of the file",
    "kind": '"category", "integer", "number" or "date"',
    "values": "all values of a category, known without looking at the records",
    "bounds": "the smallest and largest value, known without looking at the records",
    "edges": "edges of the bins, in place of bounds and bins; the last bin includes its upper edge",
    "bins": "number of bins between the bounds",
    "log": "true: bins grow by a constant factor, and not by a constant step",
    "decimals": "digits after the point that samples have",
    "format": 'how dates are written in the file, such as "%d.%m.%Y"; "": as 2031-12-24',
    "zero": "true: zero has a code of its own",
    "special": "values with a code of their own, such as [-1, 999]",
    "missing": "true: the value may be missing, which has a code of its own",
    "ordered": "true: the values of a category are listed in order, the smallest first",
    "at_least": "a column whose value is never above this one's in samples, such as a start below an end",
    "outside": 'what another value becomes: "refuse" it as a mistake, "clip" it to the bounds, or "other", a code of its own',
}
_OF_NUMBERS = ("bounds", "edges", "bins", "log", "special", "at_least")
_ENTRIES: dict[str, tuple[str, ...]] = {
    "category": ("values", "ordered"),
    "integer": (*_OF_NUMBERS, "zero"),
    "number": (*_OF_NUMBERS, "zero", "decimals"),
    "date": (*_OF_NUMBERS, "format"),
}
"""The entries that a column of each kind may have, besides name, kind, missing and outside."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """The public facts about a column of a table. See `MEANING` for each entry.

    Raises:
        CardError: an entry that makes no sense; names the column, the entry and the remedy.
    """

    name: str
    kind: Kind
    values: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    edges: tuple[Bound, ...] = ()
    bins: int = BINS
    log: bool = False
    decimals: int | None = None
    format: str = ""
    zero: bool = False
    special: tuple[Bound, ...] = ()
    missing: bool = False
    ordered: bool = False
    at_least: str = ""
    outside: Outside = "refuse"

    def __post_init__(self) -> None:
        check_name(self.name)
        for key in ("values", "bounds", "edges", "special"):
            if isinstance(value := getattr(self, key), list):
                object.__setattr__(self, key, tuple(value))
            if not isinstance(getattr(self, key), tuple):
                raise self._wrong(key, "it must be a list in brackets")
        if self.kind not in get_args(Kind):
            raise self._wrong(
                "kind",
                f'it must be "category", "integer", "number" or "date".{did_you_mean(str(self.kind), get_args(Kind))} On a '
                'card it may be "key" or "derived" too, which in Python is a GeneratedColumn of gossamer.data.tables.generated',
            )
        self._check_entries()
        if self.kind == "category":
            self._check_values()
        else:
            for key in ("bounds", "edges", "special"):
                object.__setattr__(self, key, tuple(self._bound(key, value) for value in getattr(self, key)))
            self._check_numbers()
        if self.size > MOST_CODES:
            raise CardError(
                f"column {self.name!r} has {self.size:,} codes, and at most "
                f"{MOST_CODES:,} are possible. Join rare values, or take fewer bins"
            )

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.plain + self.zero + len(self.special) + (self.outside == "other") + self.missing

    @property
    def plain(self) -> int:
        """Number of values or bins: the first codes."""
        return len(self.values) if self.kind == "category" else len(self.cuts) - 1

    @property
    def in_order(self) -> int:
        """How many of the first codes follow an order: all bins, all values of an ordered category, else 0."""
        return self.plain if self.kind != "category" or self.ordered else 0

    @cached_property
    def cuts(self) -> np.ndarray:
        """The edges of the bins as float64 [bins + 1]; dates in days since 1970.

        A bin includes its lower edge only. The last bin of a number includes both. Whole numbers and dates end one above the
        largest, and where there are fewer of them than bins, each has a bin of its own.
        """
        whole = self.kind != "number"
        if self.edges:
            cuts = np.array([as_number(edge) for edge in self.edges])
            cuts[-1] += whole
            return cuts
        low, high = (as_number(bound) for bound in self.bounds)
        high += whole
        bins = min(self.bins, int(high - low)) if whole else self.bins
        cuts = np.geomspace(low, high, bins + 1) if self.log else np.linspace(low, high, bins + 1)
        cuts = np.unique(np.rint(cuts)) if whole else cuts
        cuts[0], cuts[-1] = low, high
        return cuts

    @property
    def apart(self) -> tuple[float, ...]:
        """Zero and the special values, in the order of their codes."""
        return (*([0.0] if self.zero else []), *map(as_number, self.special))

    @property
    def other_code(self) -> int | None:
        """The code of what is not declared; None: there is none."""
        return self.size - 1 - self.missing if self.outside == "other" else None

    @property
    def missing_code(self) -> int | None:
        """The code of a missing value; None: there is none."""
        return self.size - 1 if self.missing else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: name, kind, outside, bins where there are bounds, and what is not the default."""
        stated = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        defaults = {entry.name: entry.default for entry in fields(self)}
        return {
            key: [str(part) if isinstance(part, datetime.date) else part for part in value]
            if isinstance(value, tuple)
            else value
            for key, value in stated.items()
            if value != defaults[key] or key == "outside" or (key == "bins" and self.bounds)
        }

    @classmethod
    def from_dict(cls, facts: object) -> "Column":
        """A column from plain values, as `to_dict` gives them. Raises CardError."""
        if not isinstance(facts, dict):
            raise CardError("each [[column]] must have lines such as name = ... and kind = ...")
        for key in ("name", "kind"):
            if key not in facts:
                raise CardError(f"a [[column]] lacks {key} ({MEANING[key]}); add a line {key} = ...")
        for key in facts:
            if key not in MEANING:
                raise CardError(
                    f"column {facts['name']!r} has no entry {key!r}.{did_you_mean(key, MEANING)} Known: {', '.join(MEANING)}. "
                    "Facts about the whole table come before the first [[column]]."
                )
        return cls(**facts)

    def _wrong(self, key: str, problem: str) -> CardError:
        return CardError(f"column {self.name!r}, {key}: {problem}")

    def _check_entries(self) -> None:
        """Refuse entries of the wrong type, and those of another kind of column."""
        for key in ("log", "zero", "missing", "ordered"):
            if not isinstance(getattr(self, key), bool):
                raise self._wrong(key, "it must be true or false")
        if self.outside not in get_args(Outside):
            raise self._wrong("outside", 'it must be "refuse", "clip" or "other"')
        if self.outside == "clip" and self.kind == "category":
            raise self._wrong("outside", 'a category has no bounds to clip to: say "refuse" or "other"')
        allowed = ("name", "kind", "missing", "outside", *_ENTRIES[self.kind])
        for entry in fields(self):
            if entry.name not in allowed and getattr(self, entry.name) != entry.default:
                raise self._wrong(entry.name, f"a column of kind {self.kind} has no such entry: leave it out")
        if not is_count(self.bins) or self.bins > MOST_CODES:
            raise self._wrong("bins", f"it must be a whole number from 1 to {MOST_CODES:,}")
        if not isinstance(self.at_least, str):
            raise self._wrong("at_least", "it must be the name of another column")
        if self.decimals is not None and (not is_whole(self.decimals) or not 0 <= self.decimals <= _MOST_DECIMALS):
            raise self._wrong("decimals", f"it must be a whole number from 0 to {_MOST_DECIMALS}")
        if self.format and not _reads_dates(self.format):
            raise self._wrong("format", 'it must be text with day, month and year, such as "%d.%m.%Y"')

    def _check_values(self) -> None:
        """Refuse anything but a list of different texts. Whole numbers become text."""
        texts = tuple(str(value) if is_whole(value) else value for value in self.values)
        if not texts:
            raise self._wrong(
                "values", 'give the list of its values, known without looking at the records, such as ["yes", "no"]'
            )
        if not all(isinstance(text, str) and text.isprintable() and text and text == text.strip() for text in texts):
            raise self._wrong(
                "values",
                "each must be a line of text in quotes, without space around it. For the empty one, say missing = true",
            )
        texts = tuple(unicodedata.normalize("NFC", text) for text in texts)
        if len(set(texts)) < len(texts):
            raise self._wrong("values", "no two may be the same")
        if self.outside == "other" and OTHER in texts:
            raise self._wrong("outside", f'"other" is a declared value too: rename the value {OTHER!r}')
        object.__setattr__(self, "values", texts)

    def _bound(self, key: str, value: object) -> Bound:
        """A number, or a date, also as text 2031-12-24."""
        if self.kind == "date":
            if isinstance(value, str):
                try:
                    return datetime.date.fromisoformat(value)
                except ValueError:
                    pass
            if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
                return value
            raise self._wrong(key, "dates are written as 2031-12-24")
        if self.kind == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not is_whole(value) and not (self.kind == "number" and isinstance(value, float) and math.isfinite(value)):
            raise self._wrong(key, f"it must hold {'whole numbers' if self.kind == 'integer' else 'finite numbers'}")
        assert isinstance(value, int | float)
        if abs(value) > _LARGEST:
            raise self._wrong(key, "numbers beyond 2^53 are not exact: measure in a larger unit")
        return value

    def _check_numbers(self) -> None:
        """Refuse bounds and edges that do not rise, and bins that hold no value."""
        if bool(self.bounds) == bool(self.edges):
            raise self._wrong(
                "bounds", "give bounds = [low, high] or edges = [...], what is known without looking at the records"
            )
        key = "bounds" if self.bounds else "edges"
        ends = [as_number(end) for end in self.bounds or self.edges]
        if (self.bounds and len(ends) != 2) or len(ends) < 2 or any(a >= b for a, b in itertools.pairwise(ends)):
            raise self._wrong(key, "they must rise" if self.edges else "give two values, the smaller first")
        if self.edges and self.bins != BINS:
            raise self._wrong("bins", "edges say already how many there are: leave bins out")
        if self.log and ends[0] <= 0:
            raise self._wrong("log", "it needs a smallest value above 0. With zero = true, zero has a code of its own")
        if len(set(self.apart)) < len(self.apart):
            raise self._wrong("special", "no two special values may be the same, and none may be 0 where zero = true")
        if self.grid is None:
            if np.any(np.diff(self.cuts) <= 0):
                raise self._wrong(key, "the bins are too narrow for floating-point numbers: take fewer")
        elif np.any(empty := self.grid_counts < 1):
            number = int(np.flatnonzero(empty)[0])
            raise self._wrong(
                key,
                f"bin {number} (counted from 0) holds no value besides zero and the special ones: "
                "take wider bins, or begin above zero",
            )

    @property
    def grid(self) -> int | None:
        """Steps in 1: values are whole multiples of 1 / grid. None: of any number."""
        if self.kind == "number":
            return None if self.decimals is None else 10**self.decimals
        return 1

    @cached_property
    def grid_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The first multiple of 1 / grid in each bin, and the first beyond it. int64 [bins]"""
        assert self.grid is not None
        first = np.rint(self.cuts * self.grid).astype(np.int64)
        first += first / self.grid < self.cuts
        last = first[1:].copy()
        if self.kind == "number":  # its last bin is closed
            last[-1] += last[-1] / self.grid == self.cuts[-1]
        return first[:-1], last

    @cached_property
    def grid_counts(self) -> np.ndarray:
        """How many values each bin has, without zero and the special values. int64 [bins]"""
        assert self.grid is not None
        (first, beyond), counts = self.grid_ends, np.subtract(*reversed(self.grid_ends))
        for value in self.apart:
            counts = counts - ((first <= value * self.grid) & (value * self.grid < beyond))
        return np.asarray(counts)


def as_number(value: Bound) -> float:
    """A bound as a float; a date in days since 1970-01-01."""
    return float(value.toordinal() - _EPOCH) if isinstance(value, datetime.date) else float(value)


_EPOCH = datetime.date(1970, 1, 1).toordinal()


def _reads_dates(form: object) -> bool:
    """Whether `strptime` reads back what `strftime` writes in this form."""
    day = datetime.datetime(2031, 12, 24)
    try:
        return isinstance(form, str) and datetime.datetime.strptime(day.strftime(form), form) == day
    except ValueError:
        return False


def check_name(name: object) -> None:
    """Refuse what cannot be the name of a column, with a CardError."""
    if not isinstance(name, str) or not name.isprintable() or name != name.strip() or not name:
        raise CardError("the name of a column must be a line of text in quotes, without space around it")


def is_numbered(names: Iterable[str]) -> bool:
    """Whether all names are those of columns without one. No row has such values."""
    return all(re.fullmatch(NUMBERED.format(r"\d+"), name) for name in names)


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, and no true or false."""
    return isinstance(value, int) and not isinstance(value, bool)


def same_name(names: Sequence[str]) -> str:
    """A name that occurs twice; empty: none does. How an accent is composed does not count."""
    seen: set[str] = set()
    for name in names:
        if (one := unicodedata.normalize("NFC", name)) in seen:
            return name
        seen.add(one)
    return ""
