"""From codes to values of the original columns. The values in a bin follow from a seed, and from no record."""

import math
from collections.abc import Sequence

import numpy as np

from gossamer.data.tables.card import TableCard
from gossamer.data.columns.column import OTHER, Column
from gossamer.data.columns.generated import AnyColumn, GeneratedColumn, start_of


def decode(codes: np.ndarray, card: TableCard, *, seed: int, rows: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """The columns by name, [n] each. `encode` gives the same codes back.

    Numbers are uniform within their bin, or uniform in their logarithm where the column says `log`. Whole numbers are int64,
    other numbers float64, dates datetime64[D]; categories are texts in an array of objects. A missing value is NaN, NaT or "",
    and then whole numbers are float64. A column of numbers or dates with `outside = "other"` is an array of objects, with the
    text "other" and "" for a missing value.

    Where a column is `at_least` another and their values are in the wrong order, the two are exchanged. `encode` then gives
    their codes exchanged.

    A key is int64, or a text where it has a prefix or digits, and follows from the number of the row. A derived column has
    texts, which follow from another column in the same row. `encode` reads neither.

    Args:
        codes: int32 [n, columns].
        card: declares the columns.
        seed: of the values in a bin.
        rows: int64 [n], the number of each row. The same seed, row and code give the same value, however rows are
            divided into pieces. None: from 0.
    """
    rows = np.arange(len(codes)) if rows is None else rows
    values = {
        column.name: _values(column, codes[:, at], _uniform(seed, at, rows)) for at, column in enumerate(card.columns)
    }
    plain = {column.name: codes[:, at] < column.plain for at, column in enumerate(card.columns)}
    pairs = [(column.at_least, column.name) for column in card.columns if column.at_least]
    for low, high in pairs * len(pairs):  # in a chain, one exchange may undo another
        both = np.flatnonzero(plain[low] & plain[high])
        wrong = both[(values[low][both] > values[high][both]).astype(bool)]
        values[low][wrong], values[high][wrong] = values[high][wrong], values[low][wrong]
    sources = {column.name: (column, codes[:, at]) for at, column in enumerate(card.columns)}
    for made in card.written:
        if made.kind == "key":
            values[made.name] = _keys(made, rows)
        elif made.kind == "derived":
            source, own = sources[made.follows]
            values[made.name] = _derived(made, source, own, values[source.name])
    return {column.name: values[column.name] for column in card.written}


def _keys(column: GeneratedColumn, rows: np.ndarray) -> np.ndarray:
    """Running numbers of rows, int64 [n], or texts with them."""
    numbers = rows.astype(np.int64) + column.start
    if not column.prefix and column.digits == 1:
        return numbers
    return np.array([f"{column.prefix}{number:0{column.digits}}" for number in numbers.tolist()], dtype=object)


def _derived(column: GeneratedColumn, source: Column, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Texts that follow from another column; "other" and missing values stay so. objects [n]. codes, values: of that column."""
    mapping = dict(column.mapping)
    found = np.full(len(codes), "", dtype=object)
    if source.other_code is not None:
        found[codes == source.other_code] = OTHER
    there = ~np.isin(codes, source.no_values)
    if source.kind == "category":
        found[there] = [mapping[value] for value in values[there]]
        return found
    ends = sorted(mapping, key=lambda key: start_of(key, source))
    numbers = _as_floats(source, values[there])
    at = np.searchsorted([start_of(key, source) for key in ends], numbers, side="right") - 1
    found[there] = [mapping[ends[each]] for each in at.tolist()]
    return found


def _as_floats(column: Column, values: np.ndarray) -> np.ndarray:
    """Values of a number or a date, none of them missing or "other"; dates in days since 1970. float64 [n]"""
    days = column.kind == "date"
    return np.asarray((values.astype("datetime64[D]").astype(np.int64) if days else values).astype(np.float64))


def to_numbers(codes: np.ndarray, card: TableCard, *, seed: int, rows: np.ndarray | None = None) -> np.ndarray:
    """The same values as numbers, float64 [n, columns]: categories as their codes, dates in days since 1970.

    A missing value and "other" of a number or a date are NaN. Arguments as of `decode`.
    """
    numbers = codes.astype(np.float64)
    values = decode(codes, card, seed=seed, rows=rows)
    for at, column in enumerate(card.columns):
        if column.kind != "category":
            apart = np.isin(codes[:, at], column.no_values)
            numbers[~apart, at] = _as_floats(column, values[column.name][~apart])
            numbers[apart, at] = np.nan
    return numbers


def texts(column: AnyColumn, values: np.ndarray, *, decimal: str = ".") -> Sequence[str]:
    """Decoded values as a text file has them: numbers with the declared digits, dates as 2031-12-24, missing ones empty."""
    if isinstance(column, GeneratedColumn) or column.kind == "category":
        return [str(value) for value in values]
    return [_text(value, column, decimal) for value in values.tolist()]


def _text(value: object, column: Column, decimal: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):  # NaT comes as None
        return ""
    if isinstance(value, int | float):
        digits = 0 if column.kind == "integer" else column.decimals
        return (repr(value) if digits is None else f"{value:.{digits}f}").replace(".", decimal)
    return str(value)


def _values(column: Column, codes: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Values of one column. uniform: float64 [n] in [0, 1)."""
    if column.kind == "category":
        written = [*column.values, *[OTHER] * (column.other_code is not None), *[""] * column.missing]
        texts: np.ndarray = np.array(written, dtype=object)[codes]
        return texts
    numbers = _in_bins(column, np.minimum(codes, column.plain - 1), uniform)
    for code, value in enumerate(column.apart, column.plain):
        numbers[codes == code] = value
    missing, none = codes == column.missing_code, np.datetime64("NaT") if column.kind == "date" else np.nan
    values: np.ndarray = numbers if column.kind == "number" else numbers.astype(np.int64)
    values = values.astype("datetime64[D]") if column.kind == "date" else values
    if column.other_code is None:
        return np.where(missing, none, values) if column.missing else values
    values = values.astype(object)
    values[codes == column.other_code], values[missing] = OTHER, ""
    return values


def _in_bins(column: Column, bins: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """A number in each bin, float64 [n], besides zero and the special values. bins: int [n]."""
    low, high = column.cuts[bins], column.cuts[bins + 1]
    numbers = low * (high / low) ** uniform if column.log else low + uniform * (high - low)
    if column.grid is None:
        return np.asarray(np.clip(numbers, low, np.nextafter(high, -np.inf)))
    first, beyond = (ends[bins] for ends in column.grid_ends)
    counts = column.grid_counts[bins]
    steps = numbers * column.grid - first if column.log else uniform * counts
    steps = first + np.clip(np.floor(steps), 0, counts - 1).astype(np.int64)
    for value in sorted(column.apart):
        steps += (first <= value * column.grid) & (value * column.grid < beyond) & (value * column.grid <= steps)
    return np.asarray(steps / column.grid)


def _uniform(seed: int, column: int, rows: np.ndarray) -> np.ndarray:
    """Numbers in [0, 1) of 53 bits, one for each row: SplitMix64 (Steele et al. 2014) of its number. float64 [n]"""
    start = np.random.SeedSequence([seed, column]).generate_state(1, np.uint64)
    with np.errstate(over="ignore"):
        bits = start + (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed(bits) >> np.uint64(11)) * 2.0**-53)


def mixed(bits: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64: every bit of a result depends on every bit of its number. uint64 [n]"""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
