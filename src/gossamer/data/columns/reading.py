"""From the cells of a column to its codes, by the card alone: no other row decides how a cell is read."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from gossamer.data.columns import durations, times
from gossamer.data.columns.column import Column
from gossamer.data.columns.numbers import Form
from gossamer.data.columns.texts import MISSING_WORDS, TRUTH, guess, parts, text_of, texts_of, widened
from gossamer.data.units import LARGEST
from gossamer.lazy import pa, pc

_MISSING, _UNKNOWN, _CASE, _TRUTH, _TEXT, _COMMA, _WHOLE, _DATE, _TIME, _DURATION, _OUTSIDE, _GUESSED, _CLOCK = range(
    -1, -14, -1
)
BROKEN = -14
FAULTS = {
    _MISSING: "the value is missing. If it may be, say missing = true in the card",
    _UNKNOWN: 'the value is not declared. Declare it, or say outside = "other" in the card',
    _CASE: "the value differs from a declared one in upper and lower case only: write both the same way",
    _TRUTH: 'the value is neither true nor false. Declare kind = "category", or say outside = "other" in the card',
    _TEXT: 'the text is no number. If other text is to be kept as one code, say outside = "other"',
    _COMMA: 'the number has a comma. For a decimal comma, say decimal = "," in the card. For thousands, show how 1234 is '
    'written, as in format = "1,234.50"',
    _WHOLE: 'the number is not whole. Declare kind = "number" in the card',
    _CLOCK: "the last two digits are no minutes. If the column has no times such as 1545, leave clock out of the card",
    _DATE: "the text is no date of the declared format, which is 2031-12-24 where the card says none",
    _TIME: "the text is no time of the declared format, which is 2031-12-24 10:00:00 where the card says none",
    _DURATION: "the text is no duration of the declared format: 2 days 03:00:00, 27:30:00 or P1DT2H where the card says none",
    _OUTSIDE: 'the value is outside the bounds. Say outside = "clip" or "other" in the card, or correct the bounds',
    _GUESSED: "there are numbers or dates in place of text, and who guessed them may have changed values: 01000 to 1000, or "
    "1.500 to 1.5. Give the path of the CSV, or keep the column as text (pandas: dtype=str)",
    BROKEN: 'the row breaks a rule: only, missing_with or after. Correct it, or say outside = "other"',
}
"""What is wrong with a cell, by its negative code. No message quotes a value."""
_NO_TEXT = {"integer": _TEXT, "number": _TEXT, "date": _DATE, "datetime": _TIME, "duration": _DURATION}


class Reader:
    """Reads the cells of a column.

    Args:
        column: declares the values.
        decimal: the decimal point of the table.
        guessed: whether a program may have guessed types, from all rows. Then no value is used that would have another code
            as the text that it may have been: one row more would change it.
    """

    def __init__(self, column: Column, decimal: str = ".", *, guessed: bool = False) -> None:
        kind = _Categories if column.values else _Numbers
        self._kind: _Categories | _Numbers = kind(column, decimal, guessed=guessed)

    def codes(self, cells: "pa.Array", base: np.ndarray | None = None) -> np.ndarray:
        """Codes, int32 [n]. A negative one is a fault, see `FAULTS`.

        Args:
            cells: of one type, or a dense union of types; [n].
            base: the values that those of the column are counted from, float64 [n], NaN where there is none. None: from 0.
        """
        kind, codes = self._kind, np.empty(len(cells), np.int32)
        for rows, part in parts(cells):
            found = kind.codes(part, None if base is None else base[rows])
            if self.refuses(part.type):
                there = ~np.asarray(pc.is_null(part, nan_is_null=True))
                found[there | (kind.words and len(part) == len(cells))] = _GUESSED
            codes[rows] = found
        return codes

    @property
    def places(self) -> np.ndarray:
        """Where codes of numbers, dates or times can change, float64 [n]: on the axis, or of declared numbers."""
        return self._kind.places

    def refuses(self, kind: "pa.DataType") -> bool:
        """Whether cells of a type are refused, as a program may have guessed it."""
        return any(_is_of(kind, _GUESSES[each]) for each in self._kind.refused)

    def values(self, cells: "pa.Array", base: np.ndarray | None = None) -> np.ndarray:
        """Values as numbers, which no bin has made coarse. float64 [n], see `decode.to_numbers`. base: as of `codes`."""
        values = np.empty(len(cells))
        for rows, part in parts(cells):
            values[rows] = self._kind.values(part, None if base is None else base[rows])
        return values


_GUESSES = {
    "float": ("is_floating", "is_null"),
    "number": ("is_integer", "is_boolean", "is_decimal"),
    "clock": ("is_time",),
    "time": ("is_timestamp", "is_date"),
    "duration": ("is_duration",),
}
"""What programs that guess types make of texts. A column without a value becomes one of floating-point numbers."""


def _is_of(kind: "pa.DataType", checks: Iterable[str]) -> bool:
    """Whether a type is one of these, which are named by the checks of pyarrow."""
    return any(getattr(pa.types, check)(kind) for check in checks)


class _Categories:
    """Codes of categories and truth values.

    Where the column says `numbers`, or all declared numbers are written as Python writes them, numbers are compared as numbers:
    1, 01, 1.0 and true are one. Else texts are compared as texts, and numbers are refused.
    """

    def __init__(self, column: Column, _: str, *, guessed: bool) -> None:
        self._guessed = guessed
        self._codes = {value: code for code, value in enumerate(column.values)}
        self._missing = _MISSING if column.missing_code is None else column.missing_code
        declared = {**dict.fromkeys(column.missing_words, self._missing), **self._codes}
        found = [(number, value) for value in declared if (number := guess(value)) is not None]
        numbers = {number: declared[value] for number, value in found}
        self.words = any(value.casefold() in MISSING_WORDS for value in column.values)
        plain = column.numbers or all(value.casefold() in TRUTH or text_of(number) == value for number, value in found)
        self.places = np.array([number for number in numbers if abs(number) < LARGEST], np.float64)
        self._numbers: Mapping[Any, int] = numbers if plain and len(numbers) == len(found) and not self.words else {}
        rounded = any(abs(number) >= LARGEST for number in numbers)
        unclear = (found or self.words) and not self._numbers
        self.refused: tuple[str, ...] = ("float", "number") if unclear else ("float",) if rounded else ()
        self.refused += ("time", "clock", "duration") if guessed else ()
        self._cased = {value.casefold() for value in column.values}
        self._absent = missing_words(column)
        self._unknown = _TRUTH if column.kind == "boolean" else _UNKNOWN
        self._other = column.other_code

    def codes(self, cells: "pa.Array", _: np.ndarray | None = None) -> np.ndarray:
        """int32 [n]"""
        cells = widened(cells, guessed=self._guessed)
        encoded = (cells if cells.type != pa.null() else cells.cast(pa.string())).dictionary_encode()
        codes = [*map(self._code, texts_of(encoded.dictionary).to_pylist()), self._code("")]
        return np.array(codes, np.int32).take(np.asarray(pc.fill_null(encoded.indices, -1)))

    def values(self, cells: "pa.Array", _: np.ndarray | None = None) -> np.ndarray:
        """The codes. float64 [n]"""
        return self.codes(cells).astype(np.float64)

    def _code(self, text: str) -> int:
        clean = unicodedata.normalize("NFC", text).strip()
        code = self._codes.get(clean)
        if code is None and clean.casefold() in self._absent:
            code = self._missing
        elif code is None:
            code = self._numbers.get(guess(clean))
        if code is None:
            code = self._other
        if code is None:
            code = _CASE if clean.casefold() in self._cased else self._unknown
        return code


class _Numbers:
    """Codes of numbers, dates, times and durations."""

    words = False

    def __init__(self, column: Column, decimal: str, *, guessed: bool) -> None:
        kind = "number" if column.kind == "integer" else column.kind
        form = column.form(decimal)
        self._guessed = guessed
        self._column, self._form = column, form if column.format else replace(form, thousands="." * (decimal == ","))
        self._types, self._of_type = _OF_TYPES[kind]
        self._parse = _PARSERS[kind](column, self._form)
        self._absent = missing_words(column)
        numbers, fits = self._parse(pa.array(column.missing_words, pa.string()))
        self._absent_numbers = numbers[fits]
        hours = np.arange(0, column.cuts[-1] * column.clock, 100)
        self.places = np.concatenate([column.cuts, column.apart, self._absent_numbers, hours, hours + 60])
        trusted = {
            "number": ["number", *(["float"] if self._form.decimal == "." else [])],
            "duration": ["duration"],
        }.get(kind, [] if column.format else ["time"])
        self.refused = tuple(_GUESSES.keys() - trusted) if guessed else ()

    def codes(self, cells: "pa.Array", base: np.ndarray | None = None) -> np.ndarray:
        """int32 [n]"""
        return self._in_bins(*self._parsed(cells, base))

    def values(self, cells: "pa.Array", base: np.ndarray | None = None) -> np.ndarray:
        """The positions on the axis of the column, also beyond its bounds. NaN for a missing value and "other". float64 [n]"""
        numbers, faults = self._parsed(cells, base)
        codes = self._in_bins(numbers, faults)
        numbers = np.where(np.isin(codes, self._column.no_values), np.nan, numbers)
        return numbers if base is None else numbers + base

    def _parsed(self, cells: "pa.Array", base: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Positions or differences, float64 [n], and faults, int32 [n], 0 where there is none."""
        column, cells = self._column, widened(cells, guessed=self._guessed)
        if _is_of(cells.type, self._types):
            numbers = self._of_type(cells, column)
            faults = np.where(np.isnan(numbers), _MISSING, 0).astype(np.int32)
            faults[np.isinf(numbers)] = _TEXT
        else:
            texts = texts_of(cells)
            numbers, fits = self._parse(texts)
            faults = np.zeros(len(texts), np.int32)
            if not fits.all():
                encoded = texts.filter(pa.array(~fits)).dictionary_encode()
                different = [*map(self._fault, encoded.dictionary.to_pylist())]
                faults[~fits] = np.array(different, np.int32)[np.asarray(encoded.indices)]
        faults[np.isin(numbers, self._absent_numbers)] = _MISSING
        if column.unit > 1:
            numbers = numbers // column.unit * column.unit
        if column.kind == "integer":
            faults[(faults == 0) & (numbers != np.rint(numbers))] = _WHOLE
        if column.clock:
            faults[(np.where(faults == 0, abs(numbers), 0) % 100 > 59) & ~np.isin(numbers, column.apart)] = _CLOCK
        if base is not None:
            numbers = column.from_steps(np.rint(column.to_steps(numbers - base)))
            faults[(faults == 0) & np.isnan(base)] = BROKEN if column.outside == "refuse" else _MISSING
        return numbers, faults

    def _fault(self, text: str) -> int:
        """What is wrong with a text that is no number, date or duration."""
        if unicodedata.normalize("NFC", text).strip().casefold() in self._absent:
            return _MISSING
        digits = text.replace(",", "").replace(".", "", 1).strip(" +-").isdecimal()
        comma = "," in text and not self._form.thousands and self._form.decimal == "." and digits
        fault = _NO_TEXT[self._column.kind]
        return _COMMA if fault == _TEXT and comma else fault

    def _in_bins(self, numbers: np.ndarray, faults: np.ndarray) -> np.ndarray:
        column = self._column
        bins, cuts, faults = column.plain, column.cuts, faults.copy()
        codes = _bins(cuts, numbers)
        apart = np.zeros(len(numbers), bool)
        for code, value in enumerate(column.apart, bins):
            apart |= (here := numbers == value)
            codes[here] = code
        if column.outside == "clip":
            codes[~apart] = codes[~apart].clip(0, bins - 1)
        else:
            faults[(faults == 0) & ~apart & ((codes < 0) | (codes >= bins))] = _OUTSIDE
        codes = np.where(faults < 0, faults, codes)
        if column.missing_code is not None:
            codes[faults == _MISSING] = column.missing_code
        if column.other_code is not None:
            codes[faults < _MISSING] = column.other_code
        return codes


def _bins(cuts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The bin of each number, int32 [n]; -1 below all, and len(cuts) - 1 above. NaN is above.

    A search takes ten times as long as a guess. Where bins are even, the guess is right.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        guess = (numbers - cuts[0]) * ((len(cuts) - 1) / (cuts[-1] - cuts[0]))
        bins = guess.clip(0, len(cuts) - 2).astype(np.int32)
    wrong = ~((cuts.take(bins, mode="clip") <= numbers) & (numbers < cuts.take(bins + 1, mode="clip")))
    bins[wrong] = np.searchsorted(cuts, numbers[wrong], side="right") - 1
    return np.asarray(bins)


def _floats(cells: "pa.Array", _: Column) -> np.ndarray:
    """Numbers as float64 [n], NaN where there is none."""
    if pa.types.is_decimal(cells.type):
        cells = cells.cast(pa.string())  # a cast to numbers rounds twice
    return np.array(cells.cast(pa.float64(), safe=False))


Parse: TypeAlias = "Callable[[pa.Array], tuple[np.ndarray, np.ndarray]]"
_PARSERS: dict[str, Callable[[Column, Form], Parse]] = {
    "number": lambda _, form: form.read,
    "date": lambda column, _: partial(times.read_dates, form=column.format, zone=column.zone),
    "datetime": lambda column, _: partial(
        times.read_datetimes, form=column.format, zone=column.zone, decimals=column.decimals or 0
    ),
    "duration": lambda column, _: partial(durations.read_durations, form=column.format, decimals=column.decimals or 0),
}
_TIMES = ("is_timestamp", "is_date")
_OF_TYPES: dict[str, tuple[tuple[str, ...], Callable[["pa.Array", Column], np.ndarray]]] = {
    "number": (("is_integer", "is_floating", "is_boolean", "is_decimal"), _floats),
    "date": (_TIMES, lambda cells, column: times.days_of(cells, column.zone)),
    "datetime": (_TIMES, lambda cells, column: times.seconds_of(cells, column.zone, column.decimals or 0)),
    "duration": (("is_duration",), lambda cells, column: durations.seconds_of(cells, column.decimals or 0)),
}
"""The types of pyarrow that a kind takes as they are, by the names of their checks, and how."""


def missing_words(column: Column) -> frozenset[str]:
    """What is read as missing in a column, in small letters."""
    return MISSING_WORDS | {word.casefold() for word in column.missing_words}
