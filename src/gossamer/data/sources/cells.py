"""Cells of one column, from any library, as an array of Arrow: of its own type, or of one type for each kind of object.

The type of a column decides, never whether a value is missing, and of a column of objects each value decides for itself. So no
row changes how another is read.
"""

import datetime
import decimal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from gossamer.data.columns.texts import text_of
from gossamer.errors import DataError
from gossamer.lazy import pa, pc

_MISSING = ("NoneType", "NAType", "NaTType")
_PLAIN = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
_DAYS, _STAYS = (-719_162, 2_932_896), (-999_999, 999_999)
"""The first and the last day that Python's dates have, from 1970, and the most days that a card's durations have."""
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NANOSECONDS = -(2**63) // 1_000 * 1_000 + 1_000
"""The first of 64 bits that is a whole microsecond."""
_LONG = 10**76
"""From here, a whole number is no decimal of Arrow. It has an array of its own, or it would change the type of others."""
_TIME_UNITS = {"M": ("D", *_TICKS), "m": (*_TICKS,)}
"""The units of NumPy's times and durations that Arrow has. Others become seconds."""


def cells(values: Any) -> Any:
    """A column as an array of Arrow [n].

    Args:
        values: a list, an array of NumPy, a tensor, or a column of pandas, polars or pyarrow. Missing values are None, NaN,
            NaT, NA and what is masked.

    Raises:
        DataError: there is not one value for each row, or Arrow has no type for them.
    """
    try:
        return plain(_cells(values))
    except (TypeError, ValueError, NotImplementedError, OverflowError):  # some of pyarrow, whose texts quote values
        kind = getattr(values, "dtype", type(values).__name__)
        raise DataError(
            f"a column of type {kind} has not one known value for each row. Write text into it, or take it out"
        ) from None


def _cells(values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "to_list") and hasattr(values, "dtype"):  # of pandas or polars
        return values.to_numpy() if isinstance(values.dtype, np.dtype) else _of_frame(values)
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    return values if isinstance(values, np.ndarray) else [*values]


def _of_frame(values: Any) -> Any:
    """A column of pandas or polars, of a type that NumPy does not have; as objects if Arrow does not have it either."""
    with suppress(TypeError, ValueError, NotImplementedError, OverflowError):  # then as objects, each by its own type
        array = values.to_arrow() if hasattr(values, "to_arrow") else pa.array(values, from_pandas=True)
        kind = getattr(array.type, "value_type", array.type)
        if not isinstance(kind, pa.BaseExtensionType):  # of periods and intervals, it holds numbers
            return array
    return values.to_list()


def plain(values: Any) -> Any:
    """Values as one array, without dictionaries and with one type for text and one for bytes."""
    if isinstance(values, list):
        return of_objects(values)
    if isinstance(values, np.ndarray):
        return _of_numpy(values)
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    types = pa.types
    if types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if types.is_union(array.type) and array.type.mode == "sparse":
        return of_objects(array.to_pylist())
    if types.is_decimal32(array.type) or types.is_decimal64(array.type):
        return array.cast(pa.decimal128(array.type.precision, array.type.scale))
    if types.is_large_string(array.type) or types.is_string_view(array.type):
        return array.cast(pa.string())
    if types.is_large_binary(array.type) or types.is_binary_view(array.type) or types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    of_time = types.is_date(array.type) or types.is_timestamp(array.type) or types.is_duration(array.type)
    return _declarable(array) if of_time else array


def _declarable(times: Any) -> Any:
    """Dates and timestamps in the years 1 to 9999, and durations of days of six digits.

    Others, which no card can declare, become the nearest of these.
    """
    kind = times.type
    first, last = _STAYS if pa.types.is_duration(kind) else _DAYS
    if pa.types.is_date32(kind):
        whole, low, high = pa.int32(), first, last
    else:
        whole, ticks = pa.int64(), _TICKS[getattr(kind, "unit", "ms")]
        low, high = max(first * 86_400 * ticks, _NANOSECONDS), min(((last + 1) * 86_400 - 1) * ticks, 2**63 - 1)
    counts = pc.max_element_wise(times.view(whole), pa.scalar(low, whole), skip_nulls=False)
    return pc.min_element_wise(counts, pa.scalar(high, whole), skip_nulls=False).view(kind)


def _of_numpy(array: np.ndarray) -> Any:
    kind = array.dtype.kind
    if kind == "O":
        return of_objects(array.tolist())  # None where a value is masked
    if kind in _TIME_UNITS and np.datetime_data(array.dtype)[0] not in _TIME_UNITS[kind]:
        array = array.astype(f"{kind}8[s]")
    if kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float64)
    if array.dtype.byteorder not in "=|":
        array = array.astype(array.dtype.newbyteorder("="))
    return plain(pa.array(array))


def of_objects(values: Sequence[Any]) -> Any:
    """Objects as an array of their type; of several types, as a dense union of one array for each."""
    types = {*map(type, values)}
    if any(hasattr(kind, "detach") for kind in types):
        return of_objects([value.tolist() if hasattr(value, "detach") else value for value in values])
    is_mixed = len({kind for kind in types if kind.__name__ not in _MISSING}) > 1
    if not is_mixed and not any(issubclass(kind, datetime.datetime | int) for kind in types):
        return _of_one_type(values)
    kinds = [*map(_kind, values)]
    there = [kind for kind in dict.fromkeys(kinds) if kind is not None]
    if len(there) < 2:
        return _of_one_type([None if kind is None else value for kind, value in zip(kinds, values, strict=True)])
    child_of = {kind: at for at, kind in enumerate(there)} | {None: 0}
    child = np.fromiter(map(child_of.__getitem__, kinds), np.int8, len(values))
    offsets, children = np.zeros(len(values), np.int32), []
    for at in range(len(there)):
        here = np.flatnonzero(child == at)
        offsets[here] = np.arange(len(here))
        children.append(_of_one_type([None if kinds[row] is None else values[row] for row in here.tolist()]))
    return pa.UnionArray.from_dense(pa.array(child), pa.array(offsets), children)


def _kind(value: Any) -> Any:
    """What the array of a value is chosen by; None: it is missing."""
    kind = type(value)
    if kind.__name__ in _MISSING or (isinstance(value, float | np.floating) and np.isnan(value)):
        return None
    if isinstance(value, datetime.datetime):
        return kind, value.tzinfo is None
    if kind is int and abs(value) >= _LONG:
        return kind, "long"
    return next((plain for plain, of_numpy in _PLAIN.items() if kind is of_numpy), kind)


def _of_one_type(values: Sequence[Any]) -> Any:
    """Objects of one type, and missing ones, as an array.

    Whole numbers of more than 64 bits become decimals. What Arrow does not know becomes text.
    """
    for convert in (None, _decimal, _other):
        with suppress(TypeError, ValueError, NotImplementedError, OverflowError):  # then by the next conversion
            array = pa.array(values if convert is None else [*map(convert, values)], from_pandas=True)
            if not isinstance(array.type, pa.BaseExtensionType):
                return plain(array)
    raise ValueError


def _decimal(value: Any) -> decimal.Decimal | None:
    if not isinstance(value, int):
        if _kind(value) is not None:
            raise TypeError
        return None
    return decimal.Decimal(value)


def _other(value: Any) -> Any:
    """Text. Of containers, a list that holds it, which no column may."""
    if _kind(value) is None:
        return None
    return [str(value)] if isinstance(value, list | tuple | dict | set | np.ndarray) else text_of(value)
