"""What one pass over its cells has seen of a column, in constant memory: how many cells fit each kind, and which do not."""

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from gossamer.data.columns import boolean, durations, times
from gossamer.data.columns.numbers import Form
from gossamer.data.columns.texts import MISSING_WORDS, parts, text_of, texts_of
from gossamer.data.tables.decode import mixed
from gossamer.data.tables.drafting.forms import Texts, date_formats, number_forms, read_numbers
from gossamer.data.tables.drafting.sketches import DifferentValues, Frequent, Spread
from gossamer.lazy import pa, pc

MOST_VALUES = 1_000
"""Different values of a column that are counted each. With more, a text is no category."""
NAMED = 5
"""Cells of each sort that are named by their rows."""
DAY = 86_400
_SAMPLE = 100
"""Different texts of a block by which possible forms are found."""
_LONGEST_KEY = 64

Kind: TypeAlias = Literal["number", "date", "duration", "boolean"]
_OFFSET = re.compile(r":\d\d(\.\d+)?( ?UTC|Z|[+-]\d\d(:?\d\d)?)$")
_CODES = {
    "a leading zero": r"^[+-]?0\d",
    "an exponent": r"^[+-]?\d+[eE]\d+$",
    "a plus sign": r"^\+\d",
    "digits beyond 2^53": r"^[+-]?\d{16,}$",
}
"""What makes a code of a number, which would lose it."""
_DAYS = (18_500_101, 21_501_231)
"""Whole numbers that may be dates such as 20311224."""


@dataclass
class Odd:
    """Cells that do not fit: how many, and the first different ones with their rows, counted from 0."""

    count: int = 0
    first: dict[str, int] = field(default_factory=dict)

    def add(self, texts: Texts, counts: np.ndarray, rows: np.ndarray) -> None:
        """Add different texts, how often each occurs, and its first row. int64 [n]"""
        self.count += int(counts.sum())
        if len(self.first) < NAMED:
            chosen = np.argsort(rows, kind="stable")[:NAMED]
            for text, row in zip(texts.take(chosen).to_pylist(), rows[chosen].tolist(), strict=True):
                if len(self.first) < NAMED:
                    self.first.setdefault(text, row)


class Candidate:
    """A kind that a column of text may have, in one written form.

    Args:
        kind: of the column.
        form: how numbers or dates are written.
        read: from texts to numbers, float64 [n], and which fit, bool [n].
    """

    def __init__(self, kind: Kind, form: Form | str, read: Callable[[Texts], tuple[np.ndarray, np.ndarray]]) -> None:
        self.kind, self.form, self.read = kind, form, read
        self.spread, self.odd = Spread(), Odd()
        self.has_time = self.has_offset = False
        self.is_run = True
        """Whether numbers grow by one step from row to row."""
        self._run: tuple[float, float, float] | None = None
        self.is_monthly = True
        """Whether all dates are the first of a month."""

    @property
    def cells(self) -> int:
        """How many fit."""
        return self.spread.cells

    def add(self, texts: Texts, counts: np.ndarray, rows: np.ndarray) -> None:
        """Add different texts, see `Odd`."""
        numbers, fits = self.read(texts)
        self.add_numbers(numbers[fits], counts[fits])
        self.follow(numbers[fits], rows[fits])
        if not fits.all():
            odd = np.flatnonzero(~fits)
            self.odd.add(texts.take(odd), counts[odd], rows[odd])

    def add_numbers(self, numbers: np.ndarray, counts: np.ndarray) -> None:
        """Add numbers, float64 [n], or times in seconds since 1970."""
        self.spread.add(numbers, counts)
        if self.kind == "date" and len(numbers):
            self.has_time = self.has_time or bool((numbers % DAY != 0).any())
            if self.is_monthly:
                days = np.floor(numbers / DAY).astype("datetime64[D]")
                self.is_monthly = bool((days == days.astype("datetime64[M]")).all())

    def follow(self, numbers: np.ndarray, rows: np.ndarray) -> None:
        """Look whether numbers, float64 [n], grow by the same step from row to row."""
        if self.is_run and len(numbers) and self.kind == "number":
            if self._run is None and len(numbers) > 1:
                self._run = (numbers[0], rows[0], (numbers[1] - numbers[0]) / (rows[1] - rows[0]))
            begin, row, step = self._run or (numbers[0], rows[0], 1.0)
            self.is_run = bool(step and (numbers == begin + step * (rows - row)).all())


class Portrait:
    """What is seen of a column.

    Args:
        name: of the column.
        kind: of its cells: "text", "whole", "number", "boolean", "date", "datetime", "duration", "lists", or "" before there
            are any.
    """

    def __init__(self, name: str) -> None:
        self.name, self.kind = name, ""
        self.zone = ""
        """Of Arrow timestamps; empty: UTC, or none."""
        self.is_clock = False
        """Whether cells are times of day."""
        self.rows = self.missing = 0
        self.words: dict[str, int] = {}
        """How often each word for a missing value occurs."""
        self.frequent = Frequent(MOST_VALUES)
        self.different = DifferentValues()
        self.first_rows: dict[Any, int] = {}
        self.candidates: dict[tuple[Kind, Form | str], Candidate] = {}
        self.codes: dict[str, Odd] = {}
        """Texts that a number would not keep, by what it would lose."""
        self.is_word = True
        """Whether all texts are short, of one word and with a digit, as identifiers are."""
        self.last: tuple[int, str] = (-1, "")
        """The last row, and its text."""

    def add(self, cells: "pa.Array", rows: np.ndarray) -> None:
        """Add cells. rows: their numbers in the source, int64 [n]."""
        self.rows += len(cells)
        kind = kind_of(cells.type)
        if kind == "null":
            self.missing += len(cells)
            return
        self._join(kind)
        if self.kind == "lists":
            self.missing += cells.null_count
        elif self.kind in ("date", "datetime", "duration"):
            self._add_times(cells)
        elif self.kind == "text":
            self.is_clock = self.is_clock or pa.types.is_time(cells.type)
            self._add_texts(any_texts(cells), rows)
        else:
            self._add_numbers(cells, rows)

    def _join(self, kind: str) -> None:
        """Take cells of another kind than before for text. Whole numbers and others are numbers."""
        before, self.kind = self.kind, kind
        if before in ("", kind):
            return
        self.kind = "number" if {before, kind} == {"whole", "number"} else "text"
        if self.kind == "text" != before:
            self.frequent.is_exact &= sum(self.frequent.counts.values()) == self.cells
            named = [(text_of(value), value) for value in self.frequent.counts]
            self.first_rows = {text: self.first_rows.get(value, 0) for text, value in named}
            self.frequent.counts = {text: self.frequent.counts[value] for text, value in named}
            self.candidates = {} if self.frequent.is_exact else self.candidates  # each text is judged at the end

    def finish(self) -> None:
        """Judge the texts, if there are so few that each was counted."""
        if self.kind == "text" and self.frequent.is_exact:
            self._judge(*self._counted())

    @property
    def cells(self) -> int:
        """Cells that are not missing."""
        return self.rows - self.missing

    @property
    def is_unique(self) -> bool:
        """Whether each row has another value."""
        return self.different.each_differs

    def _add_texts(self, cells: Texts, rows: np.ndarray) -> None:

        texts, counts, firsts = _different(cells, rows)
        texts = pc.utf8_normalize(pc.utf8_trim_whitespace(texts), form="NFC")
        is_missing = pc.is_in(pc.utf8_lower(texts), value_set=pa.array(sorted(MISSING_WORDS)))
        absent = np.flatnonzero(is_missing.to_numpy(zero_copy_only=False))
        for text, count in zip(texts.take(absent).to_pylist(), counts[absent].tolist(), strict=True):
            self.missing += count
            if text:
                self.words[text] = self.words.get(text, 0) + count
        self.missing += cells.null_count
        if len(absent):
            there = np.delete(np.arange(len(texts)), absent)
            texts, counts, firsts = texts.take(there), counts[there], firsts[there]
        if len(cells):
            self.last = (int(rows[-1]), cells[-1].as_py() or "")
        before, was_exact = self._counted(), self.frequent.is_exact
        self._count(texts, counts, np.fromiter(map(hash, texts.to_pylist()), np.int64, len(texts)).view(np.uint64))
        self._remember(texts, firsts)
        if not self.frequent.is_exact:
            if was_exact:
                self._judge(*before)
            self._judge(texts, counts, firsts)

    def _remember(self, values: "pa.Array", firsts: np.ndarray) -> None:
        """Note the first row of each value, as long as all are counted."""
        if not self.frequent.is_exact:
            self.first_rows = {}
        elif len(self.first_rows) < len(self.frequent.counts):
            for value, row in zip(values.to_pylist(), firsts.tolist(), strict=True):
                self.first_rows.setdefault(value, row)

    def _counted(self) -> tuple[Texts, np.ndarray, np.ndarray]:
        """Each text, how often it occurs, and its first row."""
        counts = self.frequent.counts if self.first_rows else {}
        texts = pa.array(list(counts), pa.string())
        return texts, np.array([*counts.values()], np.int64), np.array([*map(self.first_rows.get, counts)], np.int64)

    def _count(self, values: "pa.Array", counts: np.ndarray, hashes: np.ndarray) -> None:
        self.frequent.add(values, counts)
        self.different.add(mixed(hashes), counts)

    def _judge(self, texts: Texts, counts: np.ndarray, rows: np.ndarray) -> None:
        """Ask of each possible form which texts fit."""
        if not len(texts):
            return
        sample = texts if len(texts) <= _SAMPLE else texts.take(np.linspace(0, len(texts) - 1, _SAMPLE).astype(int))
        self._find_forms(sample.to_pylist())
        for candidate in self.candidates.values():
            if len(texts) > len(sample) and not candidate.read(sample)[1].any():
                candidate.odd.add(texts, counts, rows)
            else:
                candidate.add(texts, counts, rows)
        self.is_word = self.is_word and bool(
            pc.all(pc.match_substring_regex(texts, rf"^\S{{1,{_LONGEST_KEY}}}$")).as_py()
        )
        self.is_word = self.is_word and bool(pc.all(pc.match_substring_regex(texts, r"\d")).as_py())
        for sign, pattern in _CODES.items():
            found = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
            if found.any():
                at = np.flatnonzero(found)
                self.codes.setdefault(sign, Odd()).add(texts.take(at), counts[at], rows[at])

    def _find_forms(self, sample: list[str]) -> None:
        """Add the forms that texts may have, and which are no candidates yet."""
        for form in number_forms(sample):
            if ("number", form) not in self.candidates:
                self._propose("number", form, partial(read_numbers, form))
        for written in dict.fromkeys(each for text in sample for each in date_formats(text)):
            if ("date", written) not in self.candidates:
                self._propose_date(written)
        if ("duration", "") not in self.candidates:
            self._propose("duration", "", durations.read_durations)
            self._propose("boolean", "", boolean.read_booleans)
        for candidate in self.candidates.values():
            if candidate.kind == "date" and not candidate.has_offset:
                candidate.has_offset = any(map(_OFFSET.search, sample))

    def _propose_date(self, written: str) -> None:
        self._propose("date", written, partial(times.read_datetimes, form=written))

    def _propose(self, kind: Kind, form: Form | str, read: Callable[[Texts], tuple[np.ndarray, np.ndarray]]) -> None:
        """Add a candidate. What was seen before counts for it if it was whole numbers, which every form has."""
        new = self.candidates[kind, form] = Candidate(kind, form, read)
        plain = self.candidates.get(("number", Form()))
        if kind == "number" and plain is not None and plain.spread.is_whole and form != Form():
            new.spread, new.odd = copy.deepcopy((plain.spread, plain.odd))
        elif plain is not None:
            new.odd = copy.deepcopy(plain.odd)
            new.odd.count += plain.cells

    def _add_numbers(self, cells: "pa.Array", rows: np.ndarray) -> None:
        """Add numbers or truth values of an Arrow type."""
        self.missing += cells.null_count
        values, counts, firsts = _different(cells, rows)
        by_text = pa.types.is_decimal(cells.type)  # a cast to numbers rounds twice
        written = values.cast(pa.string()) if by_text else values
        numbers = np.asarray(written.cast(pa.float64(), safe=False))
        if self.kind == "number":
            keep = np.flatnonzero(~np.isnan(numbers))
            self.missing += int(counts.sum() - counts[keep].sum())
            values, numbers, counts, firsts = values.take(keep), numbers[keep], counts[keep], firsts[keep]
        if self.kind == "whole" and len(values) and numbers.min() >= _DAYS[0] and numbers.max() <= _DAYS[1]:
            if ("date", "%Y%m%d") not in self.candidates:
                self._propose_date("%Y%m%d")
            self.candidates["date", "%Y%m%d"].add(texts_of(values), counts, firsts)
        is_finite = np.isfinite(numbers)
        kind: Kind = "boolean" if self.kind == "boolean" else "number"
        form: Form | str = Form() if kind == "number" else ""
        if (kind, form) not in self.candidates:
            self.candidates[kind, form] = Candidate(kind, form, Form().read)
        candidate = self.candidates[kind, form]
        candidate.add_numbers(numbers[is_finite], counts[is_finite])
        if not is_finite.all():
            odd = np.flatnonzero(~is_finite)
            candidate.odd.add(texts_of(values.take(odd)), counts[odd], firsts[odd])
        candidate.follow(numbers, firsts)
        self.frequent.add(values, counts)
        self._remember(values, firsts)
        if self.kind == "whole" or not self.different.repeats:
            is_whole = pa.types.is_integer(values.type)
            exact = np.asarray(values).astype(np.uint64) if is_whole else numbers.view(np.uint64)
            self.different.add(mixed(exact), counts)

    def _add_times(self, cells: "pa.Array") -> None:
        """Add dates, times or durations of an Arrow type."""
        kind: Kind = "duration" if self.kind == "duration" else "date"
        if (kind, "") not in self.candidates:
            self.candidates[kind, ""] = Candidate(kind, "", durations.read_durations)
        self.missing += cells.null_count
        if self.kind == "duration":
            numbers = durations.seconds_of(cells, 6)
        else:
            self.zone = _zone_of(cells.type)
            numbers = times.seconds_of(cells, self.zone, 6)
        numbers = numbers[~np.isnan(numbers)]
        self.candidates[kind, ""].add_numbers(numbers, np.ones(len(numbers), np.int64))


def _zone_of(kind: "pa.DataType") -> str:
    """The zone of timestamps; empty: none, UTC, or one without a name."""
    name = getattr(kind, "tz", None) or "UTC"
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return ""
    return "" if name == "UTC" else name


def kind_of(kind: "pa.DataType") -> str:
    """What cells of an Arrow type are. See `Portrait`."""
    types = pa.types
    if types.is_null(kind):
        return "null"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind):
        return "whole"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_date(kind):
        return "date"
    if types.is_timestamp(kind):
        return "datetime"
    if types.is_duration(kind):
        return "duration"
    return "text" if types.is_string(kind) or types.is_time(kind) or types.is_union(kind) else "lists"


def any_texts(cells: "pa.Array") -> Texts:
    """Cells as text, also where each has a type of its own."""
    if not pa.types.is_union(cells.type):
        return texts_of(cells)
    positions, texts = zip(*((here, texts_of(part)) for here, part in parts(cells)), strict=True)
    return pa.concat_arrays(texts).take(np.argsort(np.concatenate(positions)))


def _different(cells: "pa.Array", rows: np.ndarray) -> tuple["pa.Array", np.ndarray, np.ndarray]:
    """The different values of a block without null, how often each occurs, and the first row of each."""
    encoded = cells.dictionary_encode()
    at = encoded.indices
    if cells.null_count:
        rows = rows[cells.is_valid().to_numpy(zero_copy_only=False)]
        at = at.drop_null()
    codes, different = at.to_numpy(), len(encoded.dictionary)
    firsts = np.empty(different, np.int64)
    firsts[codes[::-1]] = rows[::-1]
    return encoded.dictionary, np.bincount(codes, minlength=different), firsts
