"""Cells as text, and how texts become numbers: whole arrays at once, and one by one only where a text is odd."""

import datetime
import decimal as decimals
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gossamer.data.units import WORDS, number_of
from gossamer.lazy import pa, pc

MISSING_WORDS = frozenset(("", "?", *WORDS))
"""What is read as missing, in any case, where it is no declared value of a category."""


TRUTH = {"true": 1, "false": 0}


def parts(array: "pa.Array") -> "Iterator[tuple[np.ndarray | slice, pa.Array]]":
    """The arrays of one type that a column is made of, each with the positions of its values."""
    if not pa.types.is_union(array.type):
        yield slice(None), array
        return
    here = slice(array.offset, array.offset + len(array))  # which `type_codes` and `offsets` of pyarrow do not heed
    _, types, starts, *_ = array.buffers()
    child, offsets = np.frombuffer(types, np.int8)[here], np.frombuffer(starts, np.int32)[here]
    for at, code in enumerate(array.type.type_codes):
        rows = np.flatnonzero(child == code)
        yield rows, array.field(at).take(pa.array(offsets[rows]))


def widened(cells: "pa.Array", *, guessed: bool = False) -> "pa.Array":
    """Fractions of 32 bits as those of 64 bits that are written alike: 0.1, and not 0.10000000149011612.

    guessed: whether a program may have chosen the type, from all rows. Then those among 64 bits that have only 32 count, too.
    """
    if not pa.types.is_float32(cells.type) and not (guessed and pa.types.is_float64(cells.type)):
        return cells
    exact = cells.cast(pa.float64())
    numbers = np.asarray(pc.fill_null(exact, np.nan))
    with np.errstate(over="ignore", invalid="ignore"):
        short = (numbers.astype(np.float32) == numbers) & (numbers % 1 != 0) & np.isfinite(numbers)
    return pc.if_else(pa.array(short), exact.cast(pa.float32()).cast(pa.string()).cast(pa.float64()), exact)


def texts_of(cells: "pa.Array") -> "pa.Array":
    """Cells of any one type as text. Whole numbers have no point, dates are as 2031-12-24, missing ones (null, NaN) are ""."""
    if not pa.types.is_string(cells.type):
        if pa.types.is_timestamp(cells.type):  # Python has no nanoseconds, and here no zone
            cells = cells.view(pa.timestamp(cells.type.unit)).cast(pa.timestamp("us"), safe=False)
        encoded = widened(cells).dictionary_encode()
        different = [text_of(value) for value in encoded.dictionary.to_pylist()]
        cells = pa.array(different, pa.string()).take(encoded.indices)
    return pc.fill_null(cells, "")


def text_of(value: Any) -> str:
    """One cell as text, see `texts_of`."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float | np.floating):
        value = float(value)
        if not math.isfinite(value):
            return "" if math.isnan(value) else str(value)
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, decimals.Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def parsed(
    texts: "pa.Array", vectorised: "Callable[[pa.Array], pa.Array]", careful: Callable[[str], float]
) -> tuple[np.ndarray, np.ndarray]:
    """Texts as numbers, float64 [n], and which of them are, bool [n]; NaN for others.

    Args:
        texts: space around them does not count.
        vectorised: from texts to numbers, null where it cannot tell. It may raise for all, if one text is odd.
        careful: from one text to its number, for all others. Raises ValueError or OverflowError: it has none.
    """
    texts = pc.utf8_trim_whitespace(pc.fill_null(texts, ""))
    try:
        numbers = np.array(vectorised(texts).cast(pa.float64()))
    except pa.ArrowInvalid:
        numbers = np.full(len(texts), np.nan)
    rest = ~np.isfinite(numbers)
    if rest.any():
        encoded = texts.filter(pa.array(rest)).dictionary_encode()
        different = np.array([_or_nan(careful, text) for text in encoded.dictionary.to_pylist()])
        numbers[rest] = different[np.asarray(encoded.indices)]
    return numbers, ~np.isnan(numbers)


def _or_nan(careful: Callable[[str], float], text: str) -> float:
    try:
        number = careful(text) if text else math.nan
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def matching(texts: "pa.Array", pattern: str) -> "pa.Array":
    """The texts that match a pattern from begin to end; null in place of others."""
    return pc.if_else(pc.match_substring_regex(texts, f"^(?:{pattern})$"), texts, pa.scalar(None, pa.string()))


def guess(text: str) -> int | float | None:
    """The number that programs which guess types make of a text, if they take its column for numbers. None: they make none.

    true is 1, false is 0, and 0x1A is 26.
    """
    number = number_of(text)
    return TRUTH.get(text.casefold()) if number is None else number


def word_number(text: str) -> int:
    """The same number of a word that has no digits before its letters. Raises ValueError: they make none of it."""
    word = text.casefold()
    number = guess(word) if word in TRUTH or word[:2] == "0x" else None
    if number is None:
        raise ValueError
    return int(number)
