"""From codes to values of the original columns. The values in a bin follow from a seed, and from no record."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gossamer.data.columns import boolean, durations, times
from gossamer.data.columns.column import OTHER, Column
from gossamer.data.columns.formulas import Numbers, compute
from gossamer.data.columns.generated import AnyColumn, GeneratedColumn, shown_as, start_of
from gossamer.data.columns.rules import in_turn
from gossamer.data.tables.card import TableCard


def decode(
    codes: np.ndarray,
    card: TableCard,
    *,
    seed: int,
    rows: np.ndarray | None = None,
    given: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """The columns by name, [n] each. `encode` gives the same codes back.

    Numbers are uniform within their bin, or uniform in their logarithm where the column says `log`. Whole numbers are int64,
    other numbers float64, dates datetime64[D]. Times are datetime64[s] and durations timedelta64[s], or [us] with decimals.
    Categories are texts in an array of objects, or numbers where the column says so, and truth values are bool.

    A missing value is NaN, NaT or "". Then whole numbers are float64. Truth values become objects, with None for a missing one.
    Any other column with `outside = "other"` is an array of objects, with the text "other" and "" for a missing value.

    Where a column is `at_least` another and their values are in the wrong order, the two are exchanged. `encode` then gives
    their codes exchanged. Special values stand for no number, so they stay.

    The values of a column that is `after` another are counted from those. Other rules are kept by `rules.keep_rules`.

    A key is int64, or a text where it has a prefix or digits, and follows from the number of the row. A derived column has
    texts, which follow from other columns in the same row, or is a copy, or has a formula. `encode` reads none of them.

    Args:
        codes: int [n, columns].
        card: declares the columns.
        seed: of the values in a bin.
        rows: int64 [n], the number of each row. The same seed, row and code give the same value, however rows are
            divided into pieces. None: from 0.
        given: values of some columns as numbers, float64 [n] by name, in place of such that follow from the codes.
    """
    rows = np.arange(len(codes)) if rows is None else rows
    numbers = _positions(codes, card, seed, rows, given)
    learnt = {column.name: (column, codes[:, at], numbers[column.name]) for at, column in enumerate(card.columns)}
    values: dict[str, np.ndarray] = {}
    for made in card.written:
        if isinstance(made, Column):
            values[made.name] = _values(*learnt[made.name])
        elif made.kind == "key":
            values[made.name] = _keys(made, rows)
        elif made.mapping:
            values[made.name] = mapped(made, learnt)
        else:
            values[made.name] = _values(*computed(made, learnt))
    return values


def _positions(
    codes: np.ndarray, card: TableCard, seed: int, rows: np.ndarray, given: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """The value of each column as a number, float64 [n]: the code, or the position on the axis. Arguments as of `decode`.

    For a missing value and "other", there is some number.
    """
    found = {
        column.name: _numbers(column, codes[:, at], _uniform(seed, at, rows)) for at, column in enumerate(card.columns)
    } | dict(given or {})
    plain = {column.name: codes[:, at] < column.plain + column.zero for at, column in enumerate(card.columns)}
    pairs = [(column.at_least, column.name) for column in card.columns if column.at_least]
    for low, high in pairs * len(pairs):  # in a chain, one exchange may undo another
        wrong = plain[low] & plain[high] & (found[low] > found[high])
        found[low][wrong], found[high][wrong] = found[high][wrong], found[low][wrong]
    for column in (card.columns[at] for at in in_turn(card.columns)):
        if column.after:
            total = found[column.name] + found[column.after]
            found[column.name] = column.from_steps(np.rint(column.to_steps(total)))
    return found


def _keys(column: GeneratedColumn, rows: np.ndarray) -> np.ndarray:
    """Running numbers of rows, int64 [n], or texts with them."""
    numbers = rows.astype(np.int64) + column.start
    if not column.prefix and column.digits == 1:
        return numbers
    return np.array([f"{column.prefix}{number:0{column.digits}}" for number in numbers.tolist()], dtype=object)


Learnt: TypeAlias = tuple[Column, np.ndarray, np.ndarray]
"""A column, its codes, and its values as numbers, see `_positions`."""


def mapped(column: GeneratedColumn, learnt: Mapping[str, Learnt]) -> np.ndarray:
    """Texts that follow from other columns by a mapping, objects [n]; their "other" and missing values stay."""
    sources = [learnt[name] for name in column.follows]
    source, codes, numbers = sources[0]
    if source.values:
        mapping = {row[:-1]: row[-1] for row in column.mapping}
        made = [mapping[values] for values in itertools.product(*(each.values for each, _, _ in sources))]
        at = np.zeros(len(codes), np.int64)
        for each, own, _ in sources:
            at = at * len(each.values) + np.minimum(own, len(each.values) - 1)
    else:
        starts = sorted((start_of(end, source), text) for end, text in column.mapping)
        ends, made = [start for start, _ in starts], [text for _, text in starts]
        at = np.searchsorted(ends, numbers, side="right") - 1
    found = np.array(made, dtype=object).take(at.clip(0, len(made) - 1))
    for each, own, _ in sources:
        found[own == each.other_code] = OTHER
    for each, own, _ in sources:
        found[own == each.missing_code] = ""
    return found


def computed(column: GeneratedColumn, learnt: Mapping[str, Learnt]) -> Learnt:
    """A copy of a column, or the values of a formula. There is none where a part of the formula has none."""
    form = shown_as(column, [each for each, _, _ in learnt.values()])
    assert isinstance(form, Column)
    if not column.formula:
        return form, *learnt[column.follows[0]][1:]

    def values(name: str) -> Numbers:
        source, codes, numbers = learnt[name]
        return np.where(np.isin(codes, source.no_values), np.nan, numbers), source.digits

    numbers, _ = compute(column.formula, values)
    numbers = numbers if form.digits is None else np.round(numbers, form.digits)
    return form, np.where(np.isnan(numbers), form.size - 1, 0), np.nan_to_num(numbers)


def to_numbers(codes: np.ndarray, card: TableCard, *, seed: int, rows: np.ndarray | None = None) -> np.ndarray:
    """The same values as numbers, float64 [n, columns].

    Categories and truth values are their codes. Dates are in days since 1970, times in seconds since then, and durations in
    seconds. A missing value and "other" of a column with bins are NaN. Arguments as of `decode`.
    """
    numbers = _positions(codes, card, seed, np.arange(len(codes)) if rows is None else rows)
    for at, column in enumerate(card.columns):
        if not column.values:
            numbers[column.name][np.isin(codes[:, at], column.no_values)] = np.nan
    return np.column_stack([*numbers.values()])


def texts(column: AnyColumn, values: np.ndarray, *, decimal: str = ".") -> Sequence[str]:
    """Decoded values as a text file has them: in the declared format, with the declared digits, missing ones empty."""
    if isinstance(column, GeneratedColumn) or (column.kind == "category" and not column.numbers):
        return [*map(str, values)]
    given = values.tolist()
    written = iter(_WRITERS[column.kind]([*filter(_is_there, given)], column, decimal))
    return [next(written) if _is_there(value) else value if isinstance(value, str) else "" for value in given]


def _is_there(value: Any) -> bool:
    """Whether a value is neither missing (NaT comes as None) nor "other"."""
    return not (value is None or isinstance(value, str) or (isinstance(value, float) and math.isnan(value)))


def _written_times(values: list[Any], column: Column, _: str) -> list[str]:
    return [times.text(value, column.format, column.decimals) for value in values]


def _written_values(values: list[Any], column: Column, _: str) -> list[str]:
    written = dict(zip(column.known.tolist(), column.values, strict=True))
    return [written[value] for value in values]


_WRITERS: dict[str, Callable[[list[Any], Column, str], list[str]]] = {
    "boolean": lambda values, column, _: [boolean.text(value, column.format) for value in values],
    "category": _written_values,
    **dict.fromkeys(["integer", "number"], lambda values, column, decimal: column.form(decimal).write(values)),
    **dict.fromkeys(["date", "datetime"], _written_times),
    "duration": lambda values, column, _: [
        durations.text(value, column.decimals, column.format, column.unit) for value in values
    ],
}
_ARRAYS: dict[str, Callable[[np.ndarray, int | None], np.ndarray]] = {
    "integer": lambda numbers, _: numbers.astype(np.int64),
    "number": lambda numbers, _: numbers,
    "date": lambda numbers, _: times.days(numbers),
    "datetime": lambda numbers, decimals: times.ticks(numbers, decimals, "M8"),
    "duration": lambda numbers, decimals: times.ticks(numbers, decimals, "m8"),
}


def _values(column: Column, codes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Values of one column. numbers: see `_positions`."""
    missing, other = codes == column.missing_code, codes == column.other_code
    if column.values and not column.numbers:
        blank = None if column.kind == "boolean" else ""
        written = np.array(
            [*column.known, *[OTHER] * (column.other_code is not None), *[blank] * column.missing], dtype=object
        )
        found: np.ndarray = written[codes]
        return found.astype(bool) if column.kind == "boolean" and column.size == column.plain else found
    values = column.known.take(codes, mode="clip") if column.numbers else _ARRAYS[column.kind](numbers, column.decimals)
    if column.other_code is None:
        none = np.full((), "NaT", values.dtype) if values.dtype.kind in "Mm" else np.nan
        return np.where(missing, none, values) if column.missing else values
    values = values.astype(object)
    values[other], values[missing] = OTHER, ""
    return values


def _numbers(column: Column, codes: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Values of one column as numbers, float64 [n]. uniform: float64 [n] in [0, 1)."""
    if column.values:
        return codes.astype(np.float64)
    numbers = _in_bins(column, np.minimum(codes, column.plain - 1), uniform)
    for code, value in enumerate(column.apart, column.plain):
        numbers[codes == code] = value
    return numbers


def _in_bins(column: Column, bins: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """A number in each bin, float64 [n], besides those that are `skipped`. bins: int [n]."""
    if column.grid is not None:
        counts, bins = (each[bins] for each in column.drawn)
    low, high = column.cuts[bins], column.cuts[bins + 1]
    numbers = low * (high / low) ** uniform if column.log else low + uniform * (high - low)
    if column.grid is None:
        return np.asarray(np.clip(numbers, low, np.nextafter(high, -np.inf)))
    first, beyond = (ends[bins] for ends in column.grid_ends)
    steps = column.to_steps(numbers) - first if column.log else uniform * counts
    steps = first + np.clip(np.floor(steps), 0, counts - 1).astype(np.int64)
    for value in map(column.to_steps, column.skipped):
        steps += (first <= value) & (value < beyond) & (value <= steps)
    return np.asarray(column.from_steps(steps))


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
