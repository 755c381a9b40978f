"""A column of a table: the values that its owner declares, and the codes that stand for them.

A code is the position of a value, or of a bin of values, in the declaration. The codes of a column are numbered like this:
values or bins first, then zero, the special values, "other", and "missing". A column has only those that are declared.
"""

import datetime
import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from gossamer.data.card import (
    changed,
    check_facts,
    check_keys,
    document,
    fact,
    is_line,
    is_text,
    is_whole,
    meaning,
    meanings,
    plain,
)
from gossamer.data.columns import durations, times
from gossamer.data.columns.boolean import FORMS
from gossamer.data.columns.boolean import VALUES as BOOLEANS
from gossamer.data.columns.numbers import Form
from gossamer.data.units import number_of
from gossamer.errors import CardError

Kind = Literal["category", "boolean", "integer", "number", "date", "datetime", "duration"]
Outside = Literal["refuse", "clip", "other"]
Bound: TypeAlias = "int | float | str | datetime.date"
"""A number, a date, a time, or a duration as text."""

OTHER = "other"
"""What is written for a value that is not declared, where `outside` is "other"."""
NUMBERED = "column_{}"
"""The name of a column without one, by its position from 1."""
MOST_CODES = 10_000
"""Codes of one column."""
BINS = 16
FINE_BINS, OWN_BINS, WIDE = 1_000, 9_000, 100
"""Bins of a column of a draft. Up to OWN_BINS values have a bin each. Other bins grow if the bounds have the factor WIDE."""
_LARGEST = 2**53
"""Whole numbers up to here are exact as floats."""
_MOST_DECIMALS = 9

_OF_NUMBERS = ("integer", "number")
_OF_DATES = ("date", "datetime")
_OF_SECONDS = ("datetime", "duration")
_OF_SIZES = (*_OF_NUMBERS, "duration")
_OF_BINS = (*_OF_SIZES, *_OF_DATES)
_OF_VALUES = ("category", "boolean")


class Declared:
    """What columns of both sorts have in common: messages that name the column and the entry."""

    name: str

    def _check_facts(self) -> None:
        if not is_text(self.name):
            raise CardError("the name of a column must be a line of text in quotes, without space around it")
        check_facts(self, lambda key, problem: self.wrong(key, f"it {problem}"))

    def wrong(self, key: str, problem: str) -> CardError:
        return CardError(f"column {self.name!r}, {key}: {problem}")


@dataclass(frozen=True, kw_only=True)
class Column(Declared):
    """The public facts about a column of a table. Each field says what it declares.

    Raises:
        CardError: an entry that makes no sense; names the column, the entry and the remedy.
    """

    name: str = field(metadata=meaning("the column's name, as in the first line of the file"))
    kind: Kind = field(metadata=meaning('"category", "boolean", "integer", "number", "date", "datetime" or "duration"'))
    values: tuple[str, ...] = fact(
        (), "all values, known without looking at the records; of a boolean they are False and True", of=_OF_VALUES
    )
    bounds: tuple[Bound, ...] = fact(
        (), "the smallest and largest value, known without looking at the records", of=_OF_BINS
    )
    edges: tuple[Bound, ...] = fact(
        (), "edges of the bins, in place of bounds and bins; the last bin includes its upper edge", of=_OF_BINS
    )
    bins: int = fact(BINS, "number of bins between the bounds", high=MOST_CODES, of=_OF_BINS)
    log: bool = fact(False, "true: bins grow by a constant factor, and not by a constant step", of=_OF_BINS)
    decimals: int | None = fact(
        None,
        "digits after the point in samples; of times and durations, of their seconds",
        low=0,
        high=_MOST_DECIMALS,
        of=["number", "datetime", "duration"],
    )
    clock: bool = fact(False, "true: the last two digits are minutes, as in 1545, and never above 59", of=["integer"])
    format: str = fact(
        "",
        'how the file writes dates and times, such as "%d.%m.%Y"; "": as 2031-12-24 10:00:00. Of numbers, how it writes '
        '1234, such as "1.234,50 €". Of booleans, how it writes true: "true", "True" or "TRUE". Of durations that are times of '
        'day, such as "%H:%M"',
        of=["boolean", *_OF_SIZES, *_OF_DATES],
    )
    step: int = fact(
        1,
        "what all values are multiples of; of times and durations in seconds",
        high=_LARGEST,
        of=["integer", *_OF_SECONDS],
    )
    zone: str = fact(
        "",
        'the time zone, such as "Europe/Berlin": times with an offset are turned into it, others are in it; "": UTC',
        of=_OF_DATES,
    )
    zero: bool = fact(False, "true: zero has a code of its own", of=_OF_BINS)
    special: tuple[Bound, ...] = fact((), "values with a code of their own, such as [-1, 999]", of=_OF_BINS)
    missing: bool = fact(False, "true: the value may be missing, which has a code of its own")
    missing_words: tuple[str, ...] = fact(
        (), "texts that stand for a missing value, besides the empty one and the usual words"
    )
    ordered: bool = fact(False, "true: the values are listed in order, the smallest first", of=["category"])
    numbers: bool = fact(False, "true: the values are numbers, and samples have numbers and no text", of=["category"])
    at_least: str = fact(
        "", "a column whose value is never above this one's in samples, such as a start below an end", of=_OF_BINS
    )
    after: str = fact(
        "",
        "a column that values are counted from; bounds, bins and zero are of the difference",
        of=_OF_BINS,
    )
    only: tuple[tuple[str, ...], ...] = fact(
        (),
        'rows of a column, its value, and all that this one can be then: [["sex", "m", "no"]]',
    )
    missing_with: str = fact("", "a column that is missing in just the same rows")
    outside: Outside = fact(
        "refuse",
        'what another value becomes: "refuse" it as a mistake, "clip" it to the bounds, or "other", a code of its own',
    )

    def __post_init__(self) -> None:
        if self.kind in ("key", "derived"):
            raise self.wrong("kind", f'"{self.kind}" in Python is a GeneratedColumn of gossamer.data.columns.generated')
        self._check_facts()
        if self.outside == "clip" and self.kind in _OF_VALUES:
            raise self.wrong("outside", f'a {self.kind} has no bounds to clip to: say "refuse" or "other"')
        if self.kind in _OF_VALUES:
            self._check_values()
        else:
            self._check_format()
            for key in ("bounds", "edges", "special"):
                object.__setattr__(self, key, tuple(self._bound(key, value) for value in getattr(self, key)))
            self._check_numbers()
        self._check_missing_words()
        self._check_only()
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
        return len(self.values) or len(self.cuts) - 1

    @property
    def axis(self) -> str:
        """The kind of what has bins: the kind of the column, or of differences where it is `after` another one."""
        return {"date": "integer", "datetime": "duration"}.get(self.kind, self.kind) if self.after else self.kind

    @property
    def rules(self) -> list[tuple[str, str]]:
        """Entries on what values can stand together, each with the other column that it names."""
        found = [(key, getattr(self, key)) for key in ("after", "missing_with", "at_least")]
        return [("only", row[0]) for row in self.only] + [(key, name) for key, name in found if name]

    @property
    def in_order(self) -> int:
        """How many of the first codes follow an order: all bins, all values of an ordered category, else 0."""
        return self.plain if not self.values or self.ordered else 0

    @cached_property
    def known(self) -> np.ndarray:
        """The declared values as samples have them, [values]: numbers, truth values, or objects of text."""
        if self.numbers:
            return np.array([*map(number_of, self.values)])
        return np.array([False, True] if self.kind == "boolean" else self.values, dtype=object)

    @property
    def is_whole(self) -> bool:
        """Whether samples have whole numbers."""
        return self.kind == "integer" or self.known.dtype.kind == "i"

    @cached_property
    def unit(self) -> int:
        """What values are whole multiples of, if `decimals` is not above 0: 1, or 60 of times without seconds."""
        shown = self._shown if self.kind in _OF_SECONDS and self.format else 1
        return math.lcm(self.step, shown or 1)

    @property
    def _shown(self) -> int:
        """Seconds between two values that the format can tell apart; 0: it has fractions of seconds."""
        return times.step_of(self.format, of_day=self.kind == "duration")

    def form(self, decimal: str) -> Form:
        """How a column of numbers is written. decimal: the decimal point of the table."""
        if self.kind in _OF_NUMBERS and self.format:
            form = Form.of(self.format, decimal)
            return form if self.decimals is None else replace(form, digits=self.decimals)
        return Form(decimal=decimal, digits=self.digits)

    def position(self, value: Any, kind: str = "") -> float:
        """The position that a value of a kind, or its text, names. Raises ValueError or TypeError: it is none.

        kind: default: that of what has bins.
        """
        kind = kind or self.axis
        return float(value) if kind in _OF_NUMBERS else position(_BOUNDS[kind](value))

    def written(self, value: float) -> str:
        """A position on the axis, as people read it."""
        if self.axis in _OF_NUMBERS:
            return f"{value:.12g}"
        moment = datetime.timedelta(**{"days" if self.axis == "date" else "seconds": value})
        if self.axis == "duration":
            return durations.text(moment, self.decimals, "" if self.after else self.format, self.unit)
        day = times.EPOCH + moment
        return times.text(day.date() if self.kind == "date" else day, "", self.decimals)

    def interval(self, low: float, high: float) -> str:
        """The values from one edge to another, as people read them."""
        last = high if self.grid is None else self.from_steps(math.ceil(round(self.to_steps(high), 6)) - 1)
        return " to ".join(dict.fromkeys([self.written(low), self.written(last)]))

    @property
    def code_names(self) -> list[str]:
        """What each code is called: a value, or the ends of a bin."""
        names = [*self.values] or [self.interval(*ends) for ends in itertools.pairwise(self.cuts)]
        names += ["0"] * self.zero + [self.written(value) for value in self.apart[self.zero :]]
        return names + [OTHER] * (self.other_code is not None) + ["missing"] * self.missing

    @cached_property
    def cuts(self) -> np.ndarray:
        """The edges of the bins as float64 [bins + 1]; dates in days since 1970, times in seconds since then.

        A bin includes its lower edge only, and the last bin ends just beyond the largest value. Values on a grid have edges on
        it. Where there are fewer of them than bins, each has a bin of its own, but for zero and the special ones.
        """
        cuts = np.array([position(end) for end in self.edges or self.bounds])
        space = np.geomspace if self.log else np.linspace
        if self.bounds and self.grid is None:
            cuts = space(cuts[0], cuts[1], self.bins + 1)
        cuts[-1] = self.beyond(cuts[-1])
        if self.edges or self.grid is None:
            return cuts
        first, beyond = self.to_steps(cuts)
        count = min(self.bins, max(1, round(beyond - first)))
        steps = np.unique(np.floor(space(first, beyond, count + 1)[:-1].round(6)))
        cuts = np.array([cuts[0], *self.from_steps(steps[1:]), cuts[1]])
        kept = ~np.isin(cuts, self.apart) | (np.diff(self.to_steps(cuts), append=np.inf) > 1.5)
        return cuts[kept] if kept[:-1].any() else cuts

    def beyond(self, value: float) -> float:
        """The smallest value above one, which may lie between two steps of the grid."""
        if self.grid is None:
            return float(np.nextafter(value, np.inf))
        steps = round(self.to_steps(value))
        return float(self.from_steps(steps + (self.from_steps(steps) <= value)))

    def with_fine_bins(self) -> "Column":
        """The column with fine bins between its bounds. Where they grow, zero is apart."""
        low, high = map(position, self.bounds)
        step = 0.0 if self.grid is None else float(self.from_steps(1))
        facts = fine_bins(low or step, high, step, grow=self.kind in _OF_NUMBERS)
        if "log" in facts:
            exact = int if self.kind == "integer" else float
            facts["bounds"] = (exact(low or step), exact(high))
            facts["zero"] = self.zero or (not low and 0.0 not in self.apart)
        return replace(self, **facts)

    @property
    def apart(self) -> tuple[float, ...]:
        """Zero and the special values, in the order of their codes."""
        return (*([0.0] if self.zero else []), *map(position, self.special))

    @cached_property
    def skipped(self) -> list[float]:
        """Values that no bin gives: zero, the special ones, and those on the grid that are read as missing."""
        found = {*self.apart}
        for word in self.missing_words if self.grid and not self.after else ():
            with suppress(ValueError, TypeError, OverflowError):
                value = self.position(word.replace(",", "."))
                found |= {value} if value == self.from_steps(round(self.to_steps(value))) else set()
        return sorted(found)

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
        keys -= {"values"} if self.kind == "boolean" else set()
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
        if self.kind == "boolean":
            if self.values not in ((), BOOLEANS):
                raise self.wrong("values", "a boolean has the values False and True: leave them out")
            if self.format not in FORMS:
                raise self.wrong("format", 'it must show how true is written: "true", "True" or "TRUE"')
            object.__setattr__(self, "values", BOOLEANS)
            return
        texts = tuple(str(value) if is_whole(value) else value for value in self.values)
        if not texts:
            raise self.wrong(
                "values", 'give the list of its values, known without looking at the records, such as ["yes", "no"]'
            )
        if not all(map(is_text, texts)):
            raise self.wrong(
                "values",
                "each must be a line of text in quotes, without space around it. For the empty one, say missing = true",
            )
        texts = tuple(unicodedata.normalize("NFC", text) for text in texts)
        if len(set(texts)) < len(texts):
            raise self.wrong("values", "no two may be the same")
        numbers = {number for number in map(number_of, texts) if number is not None and abs(number) <= _LARGEST}
        if self.numbers and len(numbers) < len(texts):
            raise self.wrong("numbers", "each value must be a number, such as 36 or 0.5, and no two the same number")
        if self.outside == "other" and OTHER in texts:
            raise self.wrong("outside", f'"other" is a declared value too: rename the value {OTHER!r}')
        object.__setattr__(self, "values", texts)

    def _check_missing_words(self) -> None:
        words = tuple(unicodedata.normalize("NFC", word) if is_text(word) else "" for word in self.missing_words)
        object.__setattr__(self, "missing_words", words)
        if words and not self.missing:
            raise self.wrong("missing_words", "they need missing = true, which gives a missing value a code")
        if not all(words):
            raise self.wrong("missing_words", "each must be a line of text in quotes, without space around it")
        small = {word.casefold() for word in words}
        if len(small) < len(words) or small & {value.casefold() for value in self.values}:
            raise self.wrong("missing_words", "no two may be the same, and none may be a declared value")

    def _check_only(self) -> None:
        rows = tuple(tuple(row) if isinstance(row, list) else row for row in self.only)
        object.__setattr__(self, "only", rows)
        if not all(isinstance(row, tuple) and len(row) > 2 and all(map(is_line, row)) for row in rows):
            raise self.wrong("only", "each has a column, its value, and values of this one")
        if self.missing_with and not self.missing:
            raise self.wrong("missing_with", "it needs missing = true")

    def _check_format(self) -> None:
        """Refuse a format that cannot be read or written, and an unknown zone."""
        if self.zone and not times.is_zone(self.zone):
            raise self.wrong("zone", 'it must be the name of a time zone, such as "Europe/Berlin"')
        if self.kind in _OF_SECONDS and (self.decimals or 0) > (times.MOST_DECIMALS if self.step == 1 else 0):
            raise self.wrong("decimals", f"seconds have at most {times.MOST_DECIMALS}, and none with a step")
        if not self.format:
            return
        try:
            if self.kind in _OF_NUMBERS:
                digits = Form.of(self.format).digits
                if self.kind == "number" and self.decimals is None:
                    object.__setattr__(self, "decimals", digits)
            elif self._shown > (times.DAY if self.kind == "date" else times.HOUR):
                raise ValueError
        except ValueError:
            raise self.wrong("format", _FORMATS[self.kind]) from None
        if self.zone not in ("", "UTC") and self.format.endswith("Z") and not self.format.endswith("%Z"):
            raise self.wrong("format", "its Z says that times are in UTC: leave zone out, or the format")
        if self.kind in _OF_SECONDS and self.decimals and self._shown:
            raise self.wrong(
                "decimals", "the format shows no fractions of seconds: end it with .%f, or leave decimals out"
            )

    def _bound(self, key: str, value: object) -> Bound:
        """A bound of the kind of the column. Dates, times and durations may be text."""
        if self.axis in _OF_NUMBERS:
            return self._number(key, value)
        try:
            of_day = self.kind == "duration" and self.format
            bound = durations.to_text(value, self.format) if of_day else _BOUNDS[self.axis](value)
        except (ValueError, TypeError):
            raise self.wrong(key, f"it must hold {WRITTEN[self.axis]}") from None
        grid = 10 ** (self.decimals or 0)
        if round(position(bound) * 10**6) % (self.unit * 10**6 // grid):
            raise self.wrong(key, "it has smaller parts of time than samples: see decimals, format and step")
        self._check_size(key, position(bound) * grid)
        return bound

    def _number(self, key: str, value: object) -> int | float:
        if self.axis == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not is_whole(value) and not (self.axis == "number" and isinstance(value, float) and math.isfinite(value)):
            raise self.wrong(key, f"it must hold {'whole numbers' if self.axis == 'integer' else 'finite numbers'}")
        assert isinstance(value, int | float)
        if self.step > 1 and (value % self.step or self.clock):
            raise self.wrong(key, "it must hold multiples of step. Of a clock there is no step")
        self._check_size(key, value * 10 ** (self.decimals or 0))
        return value

    def _check_size(self, key: str, value: float) -> None:
        if abs(value) > _LARGEST:
            raise self.wrong(key, "numbers beyond 2^53 are not exact: measure in a larger unit, or take fewer decimals")

    def _check_numbers(self) -> None:
        """Refuse bounds and edges that do not rise, and bins that hold no value."""
        if bool(self.bounds) == bool(self.edges):
            raise self.wrong(
                "bounds", "give bounds = [low, high] or edges = [...], what is known without looking at the records"
            )
        key = "bounds" if self.bounds else "edges"
        ends = [position(end) for end in self.bounds or self.edges]
        if (self.bounds and len(ends) != 2) or len(ends) < 2 or any(a >= b for a, b in itertools.pairwise(ends)):
            raise self.wrong(key, "they must rise" if self.edges else "give two values, the smaller first")
        if self.edges and self.bins != BINS:
            raise self.wrong("bins", "edges say already how many there are: leave bins out")
        within = [*ends, *(value for value in self.apart if ends[0] <= value <= ends[-1])]
        if self.clock and (self.after or any(value < 0 or value % 100 > 59 for value in within)):
            raise self.wrong("clock", "the last two digits of bounds are minutes, below 60. Leave out after")
        beyond = math.inf if self.format.startswith("%H") else times.DAY
        if self.kind == "duration" and self.format and any(not 0 <= each < beyond for each in (*ends, *self.apart)):
            raise self.wrong(
                key, "in this format no duration is below 0, and only one that begins with %H reaches 1 day"
            )
        if self.zero and self.axis in _OF_DATES:
            raise self.wrong("zero", "a date has none: leave it out")
        if self.log and ends[0] <= 0:
            raise self.wrong("log", "it needs a smallest value above 0. With zero = true, zero has a code of its own")
        if len(set(self.apart)) < len(self.apart):
            raise self.wrong("special", "no two special values may be the same, and none may be 0 where zero = true")
        if self.grid is None:
            if np.any(np.diff(self.cuts) <= 0):
                raise self.wrong(key, "the bins are too narrow for floating-point numbers: take fewer")
        elif np.any(empty := self.grid_counts < 1):
            number = int(np.flatnonzero(empty)[0])
            raise self.wrong(
                key,
                f"bin {number} (counted from 0) holds only zero or special values: "
                "take wider bins, or begin above zero",
            )

    @property
    def digits(self) -> int | None:
        """Digits after the point of values; None: as many as they need."""
        return None if self.kind == "number" and self.decimals is None else self.decimals or 0

    @property
    def grid(self) -> int | None:
        """Steps in 1, where values are whole multiples of 1 / grid, and of `unit`. None: of any number."""
        return None if self.digits is None else 10**self.digits

    def to_steps(self, values: Any) -> Any:
        """Values in steps of the grid. Of a clock, these are minutes."""
        return (values - 40 * np.trunc(values / 100) if self.clock else values) * self.grid / self.unit

    def from_steps(self, steps: Any) -> Any:
        """The values of so many steps of the grid."""
        return (steps + 40 * np.trunc(steps / 60) if self.clock else steps) * self.unit / self.grid

    @cached_property
    def grid_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The first step of the grid in each bin, and the first beyond it. int64 [bins]"""
        first = np.rint(self.to_steps(self.cuts)).astype(np.int64)
        first += self.from_steps(first) < self.cuts
        return first[:-1], first[1:]

    @cached_property
    def grid_counts(self) -> np.ndarray:
        """How many values each bin has, without zero and the special values. int64 [bins]"""
        return self._counts(self.apart)

    def _counts(self, skipped: Sequence[float]) -> np.ndarray:
        first, beyond = self.grid_ends
        steps = self.to_steps(np.array(skipped))[:, None]
        return np.asarray(beyond - first - ((first <= steps) & (steps < beyond)).sum(0))

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """How many values each bin is drawn from, and the bin: another one where all are `skipped`. int64 [bins] each"""
        counts = self._counts(self.skipped)
        bins = np.flatnonzero(counts) if counts.any() else np.arange(len(counts))
        bins = bins[np.searchsorted(bins, np.arange(len(counts))).clip(max=len(bins) - 1)]
        return counts[bins], bins


document(Column)


def fine_bins(low: float, high: float, step: float, *, grow: bool = True) -> dict[str, Any]:
    """How many bins a draft has between two bounds, and whether they grow.

    step: between values; 0: there is none. grow: whether they may.
    """
    values = (high - low) / step + 2 if step else math.inf  # with zero
    if values <= OWN_BINS:
        return {"bins": FINE_BINS if values <= FINE_BINS else OWN_BINS}
    return {"bins": FINE_BINS} | ({"log": True} if grow and 0 < WIDE * low < high else {})


def position(value: Bound) -> float:
    """A bound as a number: days since 1970 of a date, seconds since then of a time, and seconds of a duration."""
    if isinstance(value, str):
        return durations.position(value)
    return times.position(value) if isinstance(value, datetime.date) else float(value)


_BOUNDS: dict[str, Callable[[object], Bound]] = {
    "date": times.to_date,
    "datetime": times.to_time,
    "duration": durations.to_text,
}
"""From what a card declares to a bound. ValueError or TypeError: it is none."""
WRITTEN = {
    "date": "dates as 2031-12-24",
    "datetime": "times as 2031-12-24T10:00:00, without an offset",
    "duration": 'durations as "2 days 03:00:00"',
}
"""What the bounds of each kind are, besides numbers."""
_FORMATS = {
    "date": 'it must be text with day, month and year, such as "%d.%m.%Y"',
    "datetime": 'it must be text with day, month, year and hours, such as "%d.%m.%Y %H:%M"',
    "duration": 'it must be text with the hours of a time of day, such as "%H:%M" or "%I:%M %p"',
    **dict.fromkeys(_OF_NUMBERS, 'it must show how 1234 is written, such as "1,234.50", "1.234,5 €" or "1234 %"'),
}


def entry_of(facts: dict[str, Any]) -> str:
    """What messages call a [[column]]."""
    return f"column {facts['name']!r}" if "name" in facts else "a [[column]]"


def is_numbered(names: Iterable[str]) -> bool:
    """Whether all names are those of columns without one. No row has such values."""
    return all(re.fullmatch(NUMBERED.format(r"\d+"), name) for name in names)


def same_name(names: Sequence[str]) -> str:
    """A name that occurs twice; empty: none does. How an accent is composed does not count."""
    composed = [unicodedata.normalize("NFC", name) for name in names]
    return next((name for name, count in Counter(composed).items() if count > 1), "")
