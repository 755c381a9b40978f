"""The ids of units in a column that any library holds, as text."""

from typing import Any

import numpy as np

from gossamer.data.columns.texts import parts
from gossamer.data.labels import text_of
from gossamer.data.sources.cells import cells
from gossamer.data.units import LARGEST, ROUNDED
from gossamer.errors import DataError
from gossamer.lazy import pa, pc


def unit_ids(values: Any, where: str) -> list[str]:
    """The ids of units as text, [N]. Missing ones (None, NaN, NaT, NA, what is masked) are empty, and no other is.

    Args:
        values: texts, numbers or bytes in a list, an array, a tensor, or a column of pandas, polars or pyarrow.
        where: what messages call them.

    Raises:
        DataError: what is neither text nor a number. Floating-point numbers from 2^53, in single precision from 2^24: there
            neighbouring whole numbers are one, and with them persons.
    """
    largest = LARGEST
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind in "bcmMV":
            raise DataError(
                f"{where}: ids of units are whole numbers or text, one for each record, and not {values.dtype} "
                f"of shape {list(values.shape)}"
            )
        if values.dtype.kind == "U":
            text_of(values, where=where)
        if values.dtype.kind == "f":
            largest = 2 / float(np.finfo(values.dtype).eps)
    array = cells(values)
    ids = np.full(len(array), "", object)
    for positions, part in parts(array):
        if pa.types.is_string(part.type) or pa.types.is_integer(part.type):
            ids[positions] = pc.fill_null(part.cast(pa.string()), "").to_pylist()
            continue
        rows = np.arange(len(array))[positions]
        most = min(largest, 2.0**24) if str(part.type) == "float" else largest
        for at, value in zip(rows.tolist(), part.to_pylist(), strict=True):
            ids[at] = _id_of(value, part.type, most, f"{where}, index {at} (counted from 0)")
    return [*ids]


def _id_of(value: Any, kind: Any, largest: float, place: str) -> str:
    """One id as text. largest: from here, floating-point numbers are rounded. place: for messages."""
    types = pa.types
    if value is None or value != value:  # noqa: PLR0124 - only NaN differs from itself
        return ""
    if types.is_floating(kind) and np.isfinite(value) and abs(value) >= largest:
        raise DataError(f"{place}: {ROUNDED}")
    if types.is_binary(kind):
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{place}: the id of the unit is not text in UTF-8") from None
    if not any(of(kind) for of in (types.is_floating, types.is_decimal, types.is_string, types.is_integer)):
        raise DataError(f"{place}: the id of the unit must be a whole number or text")
    return format(value, "f") if types.is_decimal(kind) else str(value)
