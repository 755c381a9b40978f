"""From raw columns to codes, by the card alone: no other row decides how a row is encoded. No message quotes a value."""

import datetime
import decimal as decimals
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from gossamer.data.problems import SHOWN, Problems
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.column import Column, as_number
from gossamer.errors import DataError

Raw: TypeAlias = "Sequence[str] | np.ndarray"
"""Values of a column: texts, or an array of numbers, dates or objects."""

MISSING_WORDS = frozenset(("", "?", "na", "n/a", "nan", "none", "null", "<na>", "nat"))
"""What is read as missing, in any case, where it is no declared value of a category."""

_NAN = "nan"
_LARGEST = 2.0**53
"""From here, not every whole number is a floating-point number."""
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?")
_MOST_REMEMBERED = 100_000
_MOST_KINDS = 20
_MISSING, _UNKNOWN, _CASE, _TEXT, _COMMA, _WHOLE, _DATE, _OUTSIDE = range(-1, -9, -1)
_FAULTS = {
    _MISSING: "the value is missing. If it may be, say missing = true in the card",
    _UNKNOWN: 'the value is not declared. Declare it, or say outside = "other" in the card',
    _CASE: "the value differs from a declared one in upper and lower case only: write both the same way",
    _TEXT: 'the text is no number. If other text is to be kept as one code, say outside = "other"',
    _COMMA: 'the number has a comma. For a decimal comma, say decimal = "," in the card; else write no thousands separators',
    _WHOLE: 'the number is not whole. Declare kind = "number" in the card',
    _DATE: "the text is no date of the declared format, which is 2031-12-24 where the card says none",
    _OUTSIDE: 'the value is outside the bounds. Say outside = "clip" or "other" in the card, or correct the bounds',
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


class Encoder:
    """Encodes blocks of rows, and collects what is wrong with them.

    Args:
        card: declares the columns.
        faults: gets the faults. The codes of a faulty cell are negative.
    """

    def __init__(self, card: TableCard, faults: Faults) -> None:
        self._faults = faults
        self._columns = [
            (column, _Categories(column) if column.kind == "category" else _Numbers(column, card.decimal))
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
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return str(value).replace(".", decimal)
    if isinstance(value, decimals.Decimal):
        return format(value, "f").replace(".", decimal)
    text = value.isoformat() if isinstance(value, datetime.date) and value == value else str(value)  # noqa: PLR0124 (NaT)
    return "" if text.casefold() in MISSING_WORDS else text


def unit_ids(raw: Raw, where: str) -> Sequence[str]:
    """The ids of units as text, see `texts_of`.

    Raises:
        DataError: floating-point numbers from 2^53, where neighbouring whole numbers have become one, and with them persons.
    """
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "fO":
        floats = [value for value in raw.tolist() if isinstance(value, float) and math.isfinite(value)]
        if any(abs(value) >= _LARGEST for value in floats):
            raise DataError(
                f"{where}: ids of units are floating-point numbers above 2^53, where different ids may have become one. Give "
                "them as whole numbers or as text. pandas makes such numbers of whole ones where an id is missing."
            )
    return texts_of(raw)


class _Categories:
    """Codes of categories. Texts are remembered as they are written, so that each form is cleaned once."""

    def __init__(self, column: Column) -> None:
        self._codes = {value: code for code, value in enumerate(column.values)}
        self._cased = {value.casefold() for value in column.values}
        self._missing = _MISSING if column.missing_code is None else column.missing_code
        self._other = column.other_code
        self._seen = dict(self._codes)

    def __call__(self, raw: Raw) -> np.ndarray:
        if isinstance(raw, np.ndarray) and raw.dtype.kind in "iufb":
            different, position = np.unique(raw, return_inverse=True)
            return self(texts_of(different))[position]
        texts = texts_of(raw)
        codes = np.fromiter(map(self._seen.get, texts, repeat(-100)), np.int32, len(texts))
        for at in np.flatnonzero(codes == -100).tolist():
            codes[at] = self._code(texts[at])
        return codes

    def values(self, raw: Raw) -> np.ndarray:
        """The codes. float64 [n]"""
        return self(raw).astype(np.float64)

    def _code(self, text: str) -> int:
        clean = unicodedata.normalize("NFC", text).strip()
        code = self._codes.get(clean)
        if code is None and clean.casefold() in MISSING_WORDS:
            code = self._missing
        elif code is None:
            code = self._other if self._other is not None else _CASE if clean.casefold() in self._cased else _UNKNOWN
        if len(self._seen) < _MOST_REMEMBERED:
            self._seen[text] = code
        return code


class _Parser:
    """From texts to numbers; dates are days since 1970. What is none becomes NaN, with a fault."""

    def __init__(self, column: Column, decimal: str) -> None:
        self._number = self._date if column.kind == "date" else self._of_comma if decimal == "," else float
        self._column, self.decimal = column, decimal
        self._seen: dict[str, tuple[float, int]] = {}
        self._missing = {"": _NAN}
        """Texts that are missing values, as they are written."""

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers, float64 [n], and faults, int32 [n], 0 where there is none."""
        try:
            numbers = np.fromiter(map(self._number, map(self._missing.get, texts, texts)), np.float64, len(texts))
            return numbers, np.where(np.isnan(numbers), _MISSING, 0).astype(np.int32)
        except ValueError:
            pairs = [self._seen.get(text) or self._careful(text) for text in texts]
            return np.array([number for number, _ in pairs]), np.array([fault for _, fault in pairs], np.int32)

    def _careful(self, text: str) -> tuple[float, int]:
        try:
            number = self._number(text)
            found = (number, _MISSING if math.isnan(number) else 0)
        except ValueError:
            is_date = self._column.kind == "date"
            fault = _DATE if is_date else _COMMA if "," in text and self.decimal == "." and _is_number(text) else _TEXT
            if text.strip().casefold() in MISSING_WORDS:
                self._missing[text], fault = _NAN, _MISSING
            found = (math.nan, fault)
        if len(self._seen) < _MOST_REMEMBERED:
            self._seen[text] = found
        return found

    def _of_comma(self, text: str) -> float:
        if "." in text:
            if not _THOUSANDS.fullmatch(text.strip()):
                raise ValueError
            text = text.replace(".", "")
        return float(text.replace(",", "."))

    def _date(self, text: str) -> float:
        if text == _NAN:
            return math.nan
        if (known := self._seen.get(text)) and not known[1]:
            return known[0]
        clean = text.strip()
        try:
            day = datetime.datetime.fromisoformat(clean)
        except ValueError:
            if not self._column.format:
                raise
            day = datetime.datetime.strptime(clean, self._column.format)
        number = as_number(day.date())
        if len(self._seen) < _MOST_REMEMBERED:
            self._seen[text] = (number, 0)
        return number


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).strip(" +-").isdecimal()


class _Numbers:
    """Codes of numbers and dates."""

    def __init__(self, column: Column, decimal: str) -> None:
        self._column, self._parser = column, _Parser(column, decimal)

    def __call__(self, raw: Raw) -> np.ndarray:
        """int32 [n]"""
        return self._codes(*self._parsed(raw))

    def values(self, raw: Raw) -> np.ndarray:
        """The numbers, and dates in days since 1970. NaN for a missing value and for "other". float64 [n]"""
        column, (numbers, faults) = self._column, self._parsed(raw)
        codes = self._codes(numbers, faults)
        clips, top = column.outside == "clip", column.cuts[-1] - (column.kind != "number")
        numbers = np.where(clips & (codes < column.plain), numbers.clip(column.cuts[0], top), numbers)
        without = [code for code in (column.other_code, column.missing_code) if code is not None]
        return np.where(np.isin(codes, without), np.nan, numbers)

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
            if isinstance(raw, np.ndarray) and raw.dtype.kind == "O":
                # truth values are 1 and 0, as where none is missing
                raw = np.array([int(value) if isinstance(value, bool) else value for value in raw.tolist()], object)
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
