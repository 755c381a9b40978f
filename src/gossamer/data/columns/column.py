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
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from gossamer.data.card import (
    changed,
    check_facts,
    check_keys,
    document,
    fact,
    is_text,
    is_whole,
    meaning,
    meanings,
    plain,
)
from gossamer.errors import CardError

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

_OF_NUMBERS = ("integer", "number", "date")
_OF_SIZES = ("integer", "number")


class Declared:
    """What columns of both sorts have in common: messages that name the column and the entry."""

    name: str

    def _check_facts(self) -> None:
        if not is_text(self.name):
            raise CardError("the name of a column must be a line of text in quotes, without space around it")
        check_facts(self, lambda key, problem: self._wrong(key, f"it {problem}"))

    def _wrong(self, key: str, problem: str) -> CardError:
        return CardError(f"column {self.name!r}, {key}: {problem}")


@dataclass(frozen=True, kw_only=True)
class Column(Declared):
    """The public facts about a column of a table. Each field says what it declares.

    Raises:
        CardError: an entry that makes no sense; names the column, the entry and the remedy.
    """

    name: str = field(metadata=meaning("the column's name, as in the first line of the file"))
    kind: Kind = field(metadata=meaning('"category", "integer", "number" or "date"'))
    values: tuple[str, ...] = fact((), "all values, known without looking at the records", of=["category"])
    bounds: tuple[Bound, ...] = fact(
        (), "the smallest and largest value, known without looking at the records", of=_OF_NUMBERS
    )
    edges: tuple[Bound, ...] = fact(
        (), "edges of the bins, in place of bounds and bins; the last bin includes its upper edge", of=_OF_NUMBERS
    )
    bins: int = fact(BINS, "number of bins between the bounds", high=MOST_CODES, of=_OF_NUMBERS)
    log: bool = fact(False, "true: bins grow by a constant factor, and not by a constant step", of=_OF_NUMBERS)
    decimals: int | None = fact(None, "digits after the point in samples", low=0, high=_MOST_DECIMALS, of=["number"])
    format: str = fact("", 'how dates are written in the file, such as "%d.%m.%Y"; "": as 2031-12-24', of=["date"])
    zero: bool = fact(False, "true: zero has a code of its own", of=_OF_SIZES)
    special: tuple[Bound, ...] = fact((), "values with a code of their own, such as [-1, 999]", of=_OF_NUMBERS)
    missing: bool = fact(False, "true: the value may be missing, which has a code of its own")
    ordered: bool = fact(False, "true: the values are listed in order, the smallest first", of=["category"])
    at_least: str = fact(
        "", "a column whose value is never above this one's in samples, such as a start below an end", of=_OF_NUMBERS
    )
    outside: Outside = fact(
        "refuse",
        'what another value becomes: "refuse" it as a mistake, "clip" it to the bounds, or "other", a code of its own',
    )

    def __post_init__(self) -> None:
        if self.kind in ("key", "derived"):
            raise self._wrong("kind", f'"{self.kind}" in Python is a GeneratedColumn of gossamer.data.columns.generated')
        self._check_facts()
        if self.outside == "clip" and self.kind == "category":
            raise self._wrong("outside", 'a category has no bounds to clip to: say "refuse" or "other"')
        if self.format and not _reads_dates(self.format):
            raise self._wrong("format", 'it must be text with day, month and year, such as "%d.%m.%Y"')
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

    @property
    def no_values(self) -> list[int]:
        """The codes of what is not declared and of a missing value."""
        return [code for code in (self.other_code, self.missing_code) if code is not None]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: name, kind, outside, bins where there are bounds, and what is not the default."""
        always = {"outside", *(["bins"] if self.bounds else [])}
        keys = {entry.name for entry in changed(self)} | always
        return {key: plain(getattr(self, key)) for key in meanings(Column) if key in keys}

    @classmethod
    def from_dict(cls, facts: object) -> "Column":
        """A column from plain values, as `to_dict` gives them. Raises CardError."""
        if not isinstance(facts, dict):
            raise CardError("each [[column]] must have lines such as name = ... and kind = ...")
        hint = " Facts about the whole table come before the first [[column]]."
        check_keys(cls, facts, entry_of(facts), hint=hint)
        return cls(**facts)

    def _check_values(self) -> None:
        """Refuse anything but a list of different texts. Whole numbers become text."""
        texts = tuple(str(value) if is_whole(value) else value for value in self.values)
        if not texts:
            raise self._wrong(
                "values", 'give the list of its values, known without looking at the records, such as ["yes", "no"]'
            )
        if not all(map(is_text, texts)):
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


document(Column)


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


def entry_of(facts: dict[str, Any]) -> str:
    """What messages call a [[column]]."""
    return f"column {facts['name']!r}" if "name" in facts else "a [[column]]"


def is_numbered(names: Iterable[str]) -> bool:
    """Whether all names are those of columns without one. No row has such values."""
    return all(re.fullmatch(NUMBERED.format(r"\d+"), name) for name in names)


def same_name(names: Sequence[str]) -> str:
    """A name that occurs twice; empty: none does. How an accent is composed does not count."""
    seen: set[str] = set()
    for name in names:
        if (one := unicodedata.normalize("NFC", name)) in seen:
            return name
        seen.add(one)
    return ""
