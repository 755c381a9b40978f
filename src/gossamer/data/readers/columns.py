"""A column that any library holds, as an array; and the ids of units in it, as text."""

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.data.labels import text_of
from gossamer.data.readers.in_memory import array_of
from gossamer.data.units import LARGEST, ROUNDED, WORDS
from gossamer.errors import DataError

_NO_IDS = (bool, list, tuple, dict, set, datetime.date, datetime.time, datetime.timedelta)
"""Programs that guess types make some of these of texts, and several texts become one."""


def unit_ids(values: Any, where: str) -> list[str]:
    """The ids of units as text, [N]. Missing ones (None, NaN, NaT, NA, what is masked) are empty, and no other is.

    Args:
        values: texts, numbers or bytes in a list, an array, a tensor, or a column of pandas, polars or pyarrow.
        where: what messages call them.

    Raises:
        DataError: what is neither text nor a number. Floating-point numbers from 2^53, in single precision from 2^24: there
            neighbouring whole numbers are one, and with them persons.
    """
    array = column_array(values)
    if array.ndim != 1 or array.dtype.kind in "bcmMV":
        raise DataError(
            f"{where}: the ids of units must be whole numbers or text, one for each record, and not {array.dtype} of shape "
            f"{list(array.shape)}. A missing one is empty text, or NaN among numbers."
        )
    if array.dtype.kind == "U":
        return text_of(array, where=where)
    largest = 2 / float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else LARGEST
    return [_id_of(value, largest, where, at) for at, value in enumerate(array.tolist())]


def _id_of(value: Any, largest: float, where: str, at: int) -> str:
    """One id as text. largest: from here, floating-point numbers are rounded. at: its position, for messages."""
    if isinstance(value, str):
        return value
    place = f"{where}, index {at} (counted from 0)"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise DataError(f"{place}: the id of the unit is not text in UTF-8") from None
    if isinstance(value, np.floating):
        largest = 2 / float(np.finfo(value).eps)
    if getattr(value, "ndim", None) == 0:
        value = value.item()  # of NumPy or of a tensor
    if isinstance(value, float) and np.isfinite(value) and abs(value) >= largest:
        raise DataError(f"{place}: {ROUNDED}")
    text = format(value, "f") if isinstance(value, decimal.Decimal) else str(value)
    if text.casefold() in WORDS:
        return ""
    if isinstance(value, _NO_IDS) or getattr(value, "ndim", None):
        raise DataError(f"{place}: the id of the unit must be a whole number or text")
    return text


def column_array(values: Any) -> np.ndarray:
    """A column as an array; of mixed values, an array of objects.

    The type of the column decides, never whether a value is missing: else one row would change how others are read. Where a
    whole number is missing, `to_numpy` gives floating-point numbers, which merge ids from 2^53.
    """
    if hasattr(values, "null_count") and hasattr(values, "type"):  # of pyarrow
        # to_numpy would give a missing value of a dictionary as another value
        if hasattr(values.type, "index_type"):
            values = values.cast(values.type.value_type)
        if str(values.type) == "null":
            return np.full(len(values), np.nan)  # of no type: a reader of text makes it of words such as NA
        if values.null_count and str(values.type).startswith(("int", "uint", "bool")):
            return _objects(values.to_pylist())
        return np.asarray(values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(zero_copy_only=False))
    if hasattr(values, "to_numpy"):
        if isinstance(getattr(values, "dtype", None), np.dtype) or not hasattr(values, "to_list"):
            return np.asarray(values.to_numpy())
        return _of_categories(values) if hasattr(values, "cat") else _objects(values.to_list())
    if isinstance(values, np.ma.MaskedArray):
        values = values.tolist()  # None where a value is masked; asarray would give what lies below the mask
    if isinstance(values, list | tuple):
        return _objects(values)
    return array_of(values, where="a column") if hasattr(values, "detach") else np.asarray(values)


def _objects(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _of_categories(values: Any) -> np.ndarray:
    """A categorical column of pandas; None where a value is missing."""
    if not hasattr(values.cat, "codes"):
        return _objects(values.to_list())
    categories = _objects([*values.cat.categories.to_list(), None])
    found: np.ndarray = categories[np.asarray(values.cat.codes)]  # -1 where there is none
    return found
