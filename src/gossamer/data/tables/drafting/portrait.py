"""What one pass over its cells has seen of a column, in constant memory: how many cells fit each kind, and which do not."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from gossamer.data.columns import boolean, durations, times
from gossamer.data.columns.numbers import Form
from gossamer.data.columns.texts import MISSING_WORDS, TRUTH, parts, texts_of, widened
from gossamer.data.tables.decode import mixed
from gossamer.data.tables.drafting.forms import Texts, clock_forms, date_formats, number_forms, read_numbers
from gossamer.data.tables.drafting.sketches import DifferentValues, Spread
from gossamer.data.tables.raw_rows import hashes_of_texts
from gossamer.lazy import pa, pc

MOST_VALUES = 1_000
"""Different values of a column that are counted each. With more, a text is no category."""
NAMED = 5
"""Cells of each sort that are named by their rows."""
FEW = 20
"""Different numbers up to which a column with gaps between them is proposed as a category."""
_SAMPLE = 100
"""Different values of a block by which possible forms are found."""
_SOME = 10
"""A date may be written in a form that this part of them has."""
SHARE = 0.95
"""Share of cells that must fit a kind, so that it is proposed and the others are named."""
_FEW_WORDS, _MANY = 3, 0.75
"""Different texts at most that all other cells are, so that fewer cells may fit. And how many must, if these texts say much."""
NOTHING = re.compile(
    r"\W+|unknown|missing|refused|pending|no data|not (available|known|done|asked|tested)|"
    r"unbekannt|keine angabe|nicht bekannt|k\. ?a\.|n\. ?[abd]\.",
    re.IGNORECASE,
)
"""Words that say that there is no value."""
FEWEST = 20
"""Cells from which some may not fit, and from which a column whose cells all differ looks like an identifier."""

Kind: TypeAlias = Literal["number", "duration", "date", "boolean"]
"""Of two that fit as many cells, the later is more special."""
_OFFSET = re.compile(r":\d\d(\.\d+)?( ?UTC|Z|[+-]\d\d(:?\d\d)?)$")
CODES = {
    "a leading zero": r"^[+-]?0\d",
    "an exponent": r"^[+-]?\d+[eE]\d+$",
    "a plus sign": r"^\+\d",
    "digits beyond 2^53": r"^[+-]?\d{16,}$",
}
"""What makes a code of a number, which would lose it."""
_WORD = r"^\S{0,64}\d\S{0,64}$"
"""Short, of one word and with a digit, as identifiers are."""


@dataclass
class Odd:
    """Cells that do not fit: how many, and the first different ones with their rows, counted from 0."""

    count: int = 0
    first: dict[str, int] = field(default_factory=dict)
    _named: int = 0
    """How many cells the first ones are."""

    def add(self, values: "pa.Array", counts: np.ndarray, rows: np.ndarray) -> None:
        """Add different values, how often each occurs, and its first row. int64 [n]"""
        self.count += int(counts.sum())
        chosen = np.argsort(rows, kind="stable")[:NAMED]
        texts = texts_of(values.take(chosen)).to_pylist()
        for text, cells, row in zip(texts, counts[chosen].tolist(), rows[chosen].tolist(), strict=True):
            if text in self.first or len(self.first) < NAMED:
                self.first.setdefault(text, row)
                self._named += cells

    @property
    def are_named(self) -> bool:
        """Whether there are no other different ones than the first."""
        return self._named == self.count

    def __str__(self) -> str:
        """Where the first of these cells are."""
        rows = sorted(self.first.values())
        more = ", such as" if self.count > len(rows) else ","
        return f"{more} row{'s' if rows[1:] else ''} {', '.join(map(str, rows))} (counted from 0)" if rows else ""


@dataclass
class Candidate:
    """A kind that a column may have, in one written form.

    Args:
        kind: of the column.
        form: how numbers or dates are written; "": as 2031-12-24.
        spread: of the cells that fit, as numbers or in seconds.
        odd: the other cells.
        zone: of dates, see `read_datetimes`.
        step: what all whole numbers are multiples of, or dates and durations in microseconds. 1: nothing.
    """

    kind: Kind
    form: Form | str
    spread: Spread = field(default_factory=Spread)
    odd: Odd = field(default_factory=Odd)
    zone: str = ""
    step: int = 0

    @property
    def cells(self) -> int:
        """How many fit."""
        return self.spread.cells

    def read(self, cells: "pa.Array") -> tuple[np.ndarray, np.ndarray]:
        """Numbers, or seconds since 1970, float64 [n], and which cells fit, bool [n]."""
        of = (self.kind, kind_of(cells.type))
        if of == ("date", "date"):
            numbers = times.seconds_of(cells, self.zone, 6)
        elif of == ("duration", "duration"):
            numbers = durations.seconds_of(cells, 6)
        elif of in (("number", "number"), ("number", "whole")):
            numbers = np.asarray(cells.cast(pa.float64(), safe=False))
        elif self.kind == "date":
            return times.read_datetimes(any_texts(cells), str(self.form), self.zone)
        elif self.kind == "duration":
            return durations.read_durations(any_texts(cells), str(self.form))
        elif isinstance(self.form, Form):
            return read_numbers(any_texts(cells), self.form)
        else:
            return boolean.read_booleans(any_texts(cells))
        return numbers, np.isfinite(numbers)

    def rank(self, groups: bool) -> tuple[int, int, int]:
        """The best candidate has the most cells. Of equal ones, it is the more special kind, then the more likely form.

        groups: whether a point may separate thousands.
        """
        form = self.form
        likely = 2 * (form.decimal == ".,"[groups]) + (not form.thousands) if isinstance(form, Form) else "T" in form
        return self.cells, get_args(Kind).index(self.kind), likely

    def add(self, values: "pa.Array", counts: np.ndarray, rows: np.ndarray) -> None:
        """Add different values, see `Odd`."""
        numbers, fits = self.read(values)
        self.spread.add(numbers[fits], counts[fits])
        if self.kind != "boolean" and fits.any():
            whole = numbers[fits] * (1 if self.kind == "number" else 10**6)
            odd = self.kind == "number" and (not self.spread.is_whole or self.spread.is_beyond)
            self.step = 1 if odd else int(np.gcd.reduce(np.rint(whole).astype(np.int64), initial=self.step))
        if not fits.all():
            self.odd.add(values.filter(pa.array(~fits)), counts[~fits], rows[~fits])


class Portrait:
    """What is seen of a column.

    Args:
        name: of the column.
        kind: of its cells: "text", "whole", "number", "date", "duration", "clock", "lists", or "" before there are any.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: Any = ""
        self.types = set[Any]()
        """The types of Arrow that its cells have."""
        self.zone = ""
        """Of Arrow timestamps; empty: UTC, or none."""
        self.has_offset = False
        """Whether texts of times have an offset."""
        self.rows = self.cells = 0
        """All cells, and those that are not missing."""
        self.words = Counter[str]()
        """How often each word for a missing value occurs."""
        self.counts: dict[str, int] = {}
        """How often each value occurs, as text. Empty: there are too many different ones."""
        self.first_rows: dict[str, int] = {}
        self.is_exact = True
        """Whether each value is counted."""
        self.different = DifferentValues()
        self.candidates: dict[tuple[Kind, Form | str], Candidate] = {}
        self.codes: dict[str, Odd] = {}
        """Texts that a number would not keep, by what it would lose."""
        self.is_word = True
        """Whether all texts look like identifiers."""
        self.last: tuple[int, str] = (-1, "")
        """The last row, and its text."""

    def add(self, cells: "pa.Array", rows: np.ndarray) -> None:
        """Add cells. rows: their numbers in the source, int64 [n]."""
        self.rows += len(cells)
        types = {field.type for field in cells.type} if pa.types.is_union(cells.type) else {cells.type}
        self.types |= types
        kinds = {self.kind, kind_of(cells.type)} - {""}
        if "lists" in {*kinds, *map(kind_of, types)}:
            self.kind = "lists"
        else:
            self.kind = "number" if kinds == {"whole", "number"} else "text" if len(kinds) > 1 else "".join(kinds)
        if self.kind in ("", "lists"):
            return
        plain = self._plain(cells)
        values, counts, firsts = _different(plain, rows)
        if pa.types.is_string(values.type):
            values = pc.utf8_normalize(pc.utf8_trim_whitespace(values), form="NFC")
            absent = np.asarray(pc.is_in(pc.utf8_lower(values), pa.array([*MISSING_WORDS])))
            for text, count in zip(values.filter(pa.array(absent)).to_pylist(), counts[absent].tolist(), strict=True):
                self.words[text] += count
            values, counts, firsts = values.filter(pa.array(~absent)), counts[~absent], firsts[~absent]
            del self.words[""]
            self.last = (int(rows[-1]), plain[-1].as_py())
        self.cells += int(counts.sum())
        self.different.add(_hashes(values), counts)
        if self.is_exact and len(values) <= MOST_VALUES:
            for text, count, row in zip(texts_of(values).to_pylist(), counts.tolist(), firsts.tolist(), strict=True):
                self.counts[text] = self.counts.get(text, 0) + count
                self.first_rows.setdefault(text, row)
            if len(self.counts) <= MOST_VALUES:
                return
            values = values[:0]
        if self.is_exact:
            self.finish()
            self.counts, self.is_exact = {}, False
        self._judge(values, counts, firsts)

    def finish(self) -> None:
        """Judge the values that were counted."""
        self.different.merge()
        if self.is_exact:
            counts, rows = (np.array([*each.values()], np.int64) for each in (self.counts, self.first_rows))
            self._judge(pa.array([*self.counts], pa.string()), counts, rows)
        for candidate in self.candidates.values():  # also of blocks before its form was seen
            candidate.odd.count = self.cells - candidate.cells

    def best(self, groups: bool, *, fitting: bool = True) -> Candidate | None:
        """The kind and form that most cells fit. groups: see `Candidate.rank`.

        fitting: whether nearly all texts must fit, and must be meant so. Then None: they are text.
        """
        enough = 1.0 if self.kind != "text" else SHARE * self.cells if self.cells >= FEWEST else self.cells
        known = [*self.candidates.values()]
        if fitting:
            known = [each for each in known if (each.cells >= enough or self._but_words(each)) and self._means(each)]
        return max(known, key=lambda each: each.rank(groups), default=None)

    def _but_words(self, candidate: Candidate) -> bool:
        """Whether many different values fit, and all others are a few words."""
        words = candidate.odd.first
        if len(words) > _FEW_WORDS or not candidate.odd.are_named or self.different.number <= FEW:
            return False
        return candidate.cells >= _MANY * self.cells or all(map(NOTHING.fullmatch, words))

    def _means(self, fitting: Candidate) -> bool:
        """Whether a fitting form is meant: 0 and 1 are no truth values, and 007 is no number."""
        if fitting.kind == "boolean":
            return any(text.casefold() in TRUTH for text in self.counts)
        return fitting.kind != "number" or not self.lost_by(fitting)

    def lost_by(self, numbers: Candidate) -> str:
        """What numbers would lose that are codes; empty: nothing, or they are fractions by their type."""
        if self.kind == "number":
            return ""
        low = numbers.spread.lowest[0]
        for sign, odd in self.codes.items():
            if sign != "a plus sign" or (low >= 0 and 2 * odd.count >= self.cells):
                return sign
        return "digits beyond 2^53" if self.kind == "whole" and numbers.spread.is_beyond else ""

    def is_called(self, pattern: str) -> bool:
        """Whether a pattern is in the words of the name, such as patient_id or patientId, in small letters."""
        words = " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", self.name))
        return bool(re.search(pattern, words.casefold()))

    @property
    def each_differs(self) -> bool:
        """Whether each row has another value, and there are some."""
        return self.cells >= FEWEST and not self.different.repeats

    def _plain(self, cells: "pa.Array") -> "pa.Array":
        """Cells as texts, whole numbers, floats, times on the clock of their zone, or durations."""
        if self.kind == "number":
            cells = cells.cast(pa.string()) if pa.types.is_decimal(cells.type) else cells  # else it is rounded twice
            cells = widened(cells).cast(pa.float64(), safe=False)
            return pc.if_else(pc.is_nan(cells), pa.scalar(None, pa.float64()), cells)
        if self.kind == "date":
            zone = getattr(cells.type, "tz", None)
            self.zone = zone if zone and times.is_zone(zone) else ""
            return times.on_clock(cells, self.zone)
        if self.kind == "duration":
            return cells.cast(pa.duration("us"), safe=False)
        return cells if self.kind == "whole" else any_texts(cells)

    def _judge(self, values: "pa.Array", counts: np.ndarray, rows: np.ndarray) -> None:
        """Ask of each possible form which values fit."""
        if not len(values):
            return
        sample = values.take(np.linspace(0, len(values) - 1, min(_SAMPLE, len(values))).astype(int))
        texts = texts_of(sample).to_pylist()
        self.has_offset = self.has_offset or any(map(_OFFSET.search, texts))
        for kind, form in self._forms(texts):
            self.candidates.setdefault((kind, form), Candidate(kind, form))
        for candidate in self.candidates.values():
            (candidate if candidate.read(sample)[1].any() else candidate.odd).add(values, counts, rows)
        if pa.types.is_string(values.type):
            self.is_word = self.is_word and pc.all(pc.match_substring_regex(values, _WORD)).as_py()
            for sign, pattern in CODES.items():
                found = np.asarray(pc.match_substring_regex(values, pattern))
                if found.any():
                    self.codes.setdefault(sign, Odd()).add(values.filter(pa.array(found)), counts[found], rows[found])

    def _forms(self, sample: list[str]) -> Iterator[tuple[Kind, Form | str]]:
        """The kinds and forms that values may have, by texts of some."""
        if self.kind in ("date", "duration"):
            yield self.kind, ""
        else:
            is_text = self.kind == "text"
            yield from (("number", form) for form in (number_forms(sample) if is_text else [Form()]))
            found = Counter(written for text in sample for written in date_formats(text))
            yield from (("date", written) for written, count in found.items() if _SOME * count >= len(sample))
            yield from (("duration", form) for form in clock_forms(sample))
            yield from (("duration", ""), ("boolean", "")) if is_text else ()


_KINDS = {
    "u?int": "whole",
    "half|float|double|decimal": "number",
    "date|timestamp": "date",
    "duration": "duration",
    "time": "clock",
    "string|bool|dense_union": "text",
    "null": "",
}
"""Kinds of cells, by how the names of their Arrow types begin."""


def kind_of(kind: "pa.DataType") -> str:
    """What cells of an Arrow type are, see `Portrait`."""
    return next((each for begin, each in _KINDS.items() if re.match(begin, str(kind))), "lists")


def any_texts(cells: "pa.Array") -> Texts:
    """Cells as text, also where each has a type of its own."""
    if not pa.types.is_union(cells.type):
        return texts_of(cells)
    positions, texts = zip(*((here, texts_of(part)) for here, part in parts(cells)), strict=True)
    return pa.concat_arrays(texts).take(np.argsort(np.concatenate(positions)))


def _different(cells: "pa.Array", rows: np.ndarray) -> tuple["pa.Array", np.ndarray, np.ndarray]:
    """The different values of a block without null, how often each occurs, and the first row of each."""
    encoded = cells.dictionary_encode()
    codes, there = encoded.indices.drop_null().to_numpy(), rows[np.asarray(cells.is_valid())]
    firsts = np.empty(len(encoded.dictionary), np.int64)
    firsts[codes[::-1]] = there[::-1]
    return encoded.dictionary, np.bincount(codes, minlength=len(firsts)), firsts


def _hashes(values: "pa.Array") -> np.ndarray:
    """Hashes of different values, which whole numbers beyond 2^53 keep apart. uint64 [n]"""
    if pa.types.is_string(values.type):
        return hashes_of_texts(values)
    numbers = np.asarray(values)
    return mixed(numbers.astype(np.uint64) if numbers.dtype.kind in "iu" else numbers.view(np.uint64))
