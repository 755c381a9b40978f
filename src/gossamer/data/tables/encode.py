"""From raw columns to codes, by the card alone: no other row decides how a row is encoded. No message quotes a value."""

import datetime
import decimal as decimals
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from gossamer.data.problems import SHOWN, Problems
from gossamer.data.tables.card import TableCard
from gossamer.data.columns.column import Column
from gossamer.data.units import LARGEST, WORDS, number_of

Raw: TypeAlias = "Sequence[str] | np.ndarray"
"""Values of a column: texts, or an array of numbers, dates or objects."""

MISSING_WORDS = frozenset(("", "?", *WORDS))
"""What is read as missing, in any case, where it is no declared value of a category."""

_NAN = "nan"
_EPOCH = datetime.datetime(1970, 1, 1)
_TRUTH = {"true": 1, "false": 0}
_HEXADECIMAL = re.compile("0x[0-9a-f]+")
_FLOATS: tuple[type, ...] = (float, np.floating)
_NUMBERS: tuple[type, ...] = (int, float, np.number, np.bool_, decimals.Decimal)
_TIMES: tuple[type, ...] = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?")
MOST_REMEMBERED = 100_000
"""Different texts of a column whose codes are remembered."""
_MOST_KINDS = 20
_MISSING, _UNKNOWN, _CASE, _TEXT, _COMMA, _WHOLE, _DATE, _OUTSIDE, _GUESSED = range(-1, -10, -1)
_FAULTS = {
    _MISSING: "the value is missing. If it may be, say missing = true in the card",
    _UNKNOWN: 'the value is not declared. Declare it, or say outside = "other" in the card',
    _CASE: "the value differs from a declared one in upper and lower case only: write both the same way",
    _TEXT: 'the text is no number. If other text is to be kept as one code, say outside = "other"',
    _COMMA: 'the number has a comma. For a decimal comma, say decimal = "," in the card; else write no thousands separators',
    _WHOLE: 'the number is not whole. Declare kind = "number" in the card',
    _DATE: "the text is no date of the declared format, which is 2031-12-24 where the card says none",
    _OUTSIDE: 'the value is outside the bounds. Say outside = "clip" or "other" in the card, or correct the bounds',
    _GUESSED: "there are numbers or dates in place of text, and who guessed them may have changed values: 01000 to 1000, or "
    "1.500 to 1.5. Give the path of the CSV, or keep the column as text (pandas: dtype=str)",
}


class Faults:
    """What is wrong with a table: for each column and kind of fault, the first rows and the number of the others."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._rows: dict[str, tuple[list[int], int]] = {}

    def add(self, problem: str, rows: Iterable[int] = ()) -> None:
        """Add rows, counted from 0, with a problem; no rows: of the whole table."""
        first, count = self._rows.get(problem, ([], 0))
        rows = [*rows]
        self._rows[problem] = ([*first, *rows][:SHOWN], count + len(rows))

    def refuse(self) -> None:
        """Raise DataError if there is a fault, with all of them."""
        problems = Problems(_MOST_KINDS)
        for problem, (rows, count) in self._rows.items():
            which = f"row{'s' if rows[1:] else ''} {', '.join(map(str, rows))} (counted from 0)" if rows else ""
            more = f" and {count - len(rows):,} more" if count > len(rows) else ""
            problems.add(self._where, f"{which}{more}: {problem}" if rows else problem)
        problems.refuse()


class TableEncoder:
    """Encodes blocks of rows, and collects what is wrong with them.

    Args:
        card: declares the columns.
        faults: gets the faults. The codes of a faulty cell are negative.
        guessed: whether a program may have guessed the types of columns, from all rows. Then no value is used that would have
            another code as the text that it may have been: one row more would change it.
    """

    def __init__(self, card: TableCard, faults: Faults, *, guessed: bool = False) -> None:
        self._faults = faults
        self._columns = [
            (column, (_Categories if column.kind == "category" else _Numbers)(column, card.decimal, guessed=guessed))
            for column in card.columns
        ]

    def encode(self, block: Sequence[Raw], rows: np.ndarray) -> np.ndarray:
        """Codes of a block. int32 [n, columns]

        Args:
            block: the raw values of each column of the card, in its order; n each.
            rows: their numbers in the source, int64 [n]; for messages.
        """
        codes = np.empty((len(rows), len(self._columns)), np.int32)
        for at, ((column, coder), raw) in enumerate(zip(self._columns, block, strict=True)):
            codes[:, at] = coder(raw)
            codes[_of_types(raw, coder.refused, missing=coder.words), at] = _GUESSED
            if codes[:, at].min(initial=0) < 0:
                for fault, problem in _FAULTS.items():
                    if len(found := np.flatnonzero(codes[:, at] == fault)):
                        self._faults.add(f"column {column.name!r}: {problem}", rows[found].tolist())
        return codes

    def values(self, block: Sequence[Raw]) -> np.ndarray:
        """Values of a block as numbers, which no bin has made coarse. float64 [n, columns], see `decode.to_numbers`."""
        return np.column_stack([coder.values(raw) for (_, coder), raw in zip(self._columns, block, strict=True)])


def texts_of(raw: Raw, decimal: str = ".") -> Sequence[str]:
    """Values as text: whole numbers without a point, dates as 2031-12-24, missing ones (None, NaN, NaT, NA) as "".

    decimal: the decimal point that numbers get. Texts stay as they are.
    """
    if not isinstance(raw, np.ndarray):
        return raw
    if raw.dtype.kind == "S":
        return [value.decode("utf-8", "replace") for value in raw.tolist()]
    if raw.dtype.kind == "M":
        raw = raw.astype("datetime64[us]")  # of nanoseconds, numpy gives numbers
    return [value if isinstance(value, str) else _text(value, decimal) for value in raw.tolist()]


def _text(value: Any, decimal: str) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.floating):
        value = float(value)  # of single precision too, as in an array of numbers
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return str(value).replace(".", decimal)
    if isinstance(value, decimals.Decimal):
        return format(value, "f").replace(".", decimal)
    text = value.isoformat() if isinstance(value, datetime.date) and value == value else str(value)  # noqa: PLR0124 (NaT)
    return "" if text.casefold() in MISSING_WORDS else text


def _word(text: str) -> int | None:
    """The number that programs which guess types make of a word: true is 1, false is 0, 0x1A is 26. None: they make none."""
    word = text.strip().casefold()
    return int(word, 16) if _HEXADECIMAL.fullmatch(word) else _TRUTH.get(word)


def _guess(text: str) -> int | float | None:
    """The number that such a program makes of a text, if it takes its column for numbers. None: it makes none."""
    return number if (number := _word(text)) is not None else number_of(text)


def _of_types(raw: Raw, types: tuple[type, ...], *, missing: bool) -> np.ndarray:
    """Which values have one of these types, bool [n]. missing: whether a missing value in an array of them has it too."""
    if not isinstance(raw, np.ndarray) or raw.dtype.kind != "O":
        found = isinstance(raw, np.ndarray) and issubclass(raw.dtype.type, types)
        return np.full(len(raw), found) & (missing | (raw == raw)) if found else np.zeros(len(raw), bool)  # noqa: PLR0124 (NaN)
    values = raw.tolist()
    there = {kind for kind in set(map(type, values)) if issubclass(kind, types)}
    if not there:
        return np.zeros(len(values), bool)
    return np.array([type(value) in there and value == value for value in values], bool)  # noqa: PLR0124 (NaN, NaT)


def days(time: datetime.datetime) -> int:
    """The day of a time, from 1970. With a zone it is the day in UTC, as in columns of times."""
    return (time - _EPOCH.replace(tzinfo=None if time.tzinfo is None else datetime.UTC)).days


class _Categories:
    """Codes of categories. Texts are remembered as they are written, so that each form is cleaned once.

    Where all declared numbers are written as Python writes them, numbers are compared as numbers: 1, 01, 1.0 and true are one.
    Else texts are compared as texts, and numbers are refused.
    """

    def __init__(self, column: Column, _: str, *, guessed: bool) -> None:
        self._codes = {value: code for code, value in enumerate(column.values)}
        found = [(number, value) for value in column.values if (number := _guess(value)) is not None]
        numbers = {number: self._codes[value] for number, value in found}
        self.words = any(value.casefold() in MISSING_WORDS for value in column.values)
        plain = all(value.casefold() in _TRUTH or _text(number, ".") == value for number, value in found)
        self._numbers: Mapping[Any, int] = numbers if plain and len(numbers) == len(found) and not self.words else {}
        rounded = any(abs(number) >= LARGEST for number in numbers)
        self.refused = _NUMBERS if (found or self.words) and not self._numbers else _FLOATS if rounded else ()
        self.refused += _TIMES if guessed else ()
        self._cased = {value.casefold() for value in column.values}
        self._missing = _MISSING if column.missing_code is None else column.missing_code
        self._other = column.other_code
        self._code_of = lru_cache(MOST_REMEMBERED)(self._code)

    def __call__(self, raw: Raw) -> np.ndarray:
        if isinstance(raw, np.ndarray) and raw.dtype.kind in "iufb":
            different, position = np.unique(raw, return_inverse=True)
            return self(texts_of(different))[position]
        return np.fromiter(map(self._code_of, texts_of(raw)), np.int32, len(raw))

    def values(self, raw: Raw) -> np.ndarray:
        """The codes. float64 [n]"""
        return self(raw).astype(np.float64)

    def _code(self, text: str) -> int:
        clean = unicodedata.normalize("NFC", text).strip()
        code = self._codes.get(clean)
        if code is None and clean.casefold() in MISSING_WORDS:
            code = self._missing
        elif code is None:
            code = self._numbers.get(_guess(clean))
        if code is None:
            code = self._other if self._other is not None else _CASE if clean.casefold() in self._cased else _UNKNOWN
        return code


class _Parser:
    """From texts to numbers; dates are days since 1970. What is none becomes NaN, with a fault."""

    def __init__(self, column: Column, decimal: str) -> None:
        of_date = lru_cache(MOST_REMEMBERED)(self._date)
        self._number = of_date if column.kind == "date" else self._of_comma if decimal == "," else float
        self._column, self.decimal = column, decimal
        self._pair_of = lru_cache(MOST_REMEMBERED)(self._careful)
        self._missing = {"": _NAN}
        """Texts that are missing values, as they are written."""

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers, float64 [n], and faults, int32 [n], 0 where there is none."""
        try:
            numbers = np.fromiter(map(self._number, map(self._missing.get, texts, texts)), np.float64, len(texts))
            return numbers, np.where(np.isnan(numbers), _MISSING, 0).astype(np.int32)
        except ValueError:
            pairs = [*map(self._pair_of, texts)]
            return np.array([number for number, _ in pairs]), np.array([fault for _, fault in pairs], np.int32)

    def _careful(self, text: str) -> tuple[float, int]:
        try:
            number = self._number(text)
            return number, _MISSING if math.isnan(number) else 0
        except ValueError:
            is_date = self._column.kind == "date"
            word = None if is_date else _word(text)
            fault = _DATE if is_date else _COMMA if "," in text and self.decimal == "." and _is_number(text) else _TEXT
            if text.strip().casefold() in MISSING_WORDS:
                self._missing[text], fault = _NAN, _MISSING
            return (math.nan, fault) if word is None else (float(word), 0)

    def _of_comma(self, text: str) -> float:
        if "." in text:
            if not _THOUSANDS.fullmatch(text.strip()):
                raise ValueError
            text = text.replace(".", "")
        return float(text.replace(",", "."))

    def _date(self, text: str) -> float:
        if text == _NAN:
            return math.nan
        clean = text.strip()
        try:
            day = datetime.datetime.fromisoformat(clean)
        except ValueError:
            if not self._column.format:
                raise
            day = datetime.datetime.strptime(clean, self._column.format)
        return float(days(day))


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).strip(" +-").isdecimal()


class _Numbers:
    """Codes of numbers and dates."""

    words = False

    def __init__(self, column: Column, decimal: str, *, guessed: bool) -> None:
        self._column, self._parser = column, _Parser(column, decimal)
        of_dates = _NUMBERS + _TIMES if column.format else _NUMBERS
        refused = of_dates if column.kind == "date" else _FLOATS if decimal == "," else ()
        self.refused = refused if guessed else ()

    def __call__(self, raw: Raw) -> np.ndarray:
        """int32 [n]"""
        return self._codes(*self._parsed(raw))

    def values(self, raw: Raw) -> np.ndarray:
        """The numbers, and dates in days since 1970. NaN for a missing value and for "other". float64 [n]"""
        column, (numbers, faults) = self._column, self._parsed(raw)
        codes = self._codes(numbers, faults)
        clips, top = column.outside == "clip", column.cuts[-1] - (column.kind != "number")
        numbers = np.where(clips & (codes < column.plain), numbers.clip(column.cuts[0], top), numbers)
        return np.where(np.isin(codes, column.no_values), np.nan, numbers)

    def _parsed(self, raw: Raw) -> tuple[np.ndarray, np.ndarray]:
        """Numbers, float64 [n], and faults, int32 [n], 0 where there is none."""
        column = self._column
        if isinstance(raw, np.ndarray) and raw.dtype.kind in ("M" if column.kind == "date" else "iufb"):
            if column.kind == "date":
                days = raw.astype("datetime64[D]").astype(np.int64).astype(np.float64)
                numbers = np.where(np.isnat(raw), np.nan, days)
            else:
                numbers = raw.astype(np.float64)
            faults = np.where(np.isnan(numbers), _MISSING, 0).astype(np.int32)
        else:
            numbers, faults = self._parser(texts_of(raw, self._parser.decimal))
        if column.kind == "integer":
            faults[(faults == 0) & (np.isfinite(numbers)) & (numbers != np.rint(numbers))] = _WHOLE
        return numbers, faults

    def _codes(self, numbers: np.ndarray, faults: np.ndarray) -> np.ndarray:
        column = self._column
        bins, cuts, faults = column.plain, column.cuts, faults.copy()
        codes = np.searchsorted(cuts, numbers, side="right").astype(np.int32) - 1
        if column.kind == "number":
            codes[numbers == cuts[-1]] = bins - 1
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
