"""Cells as text, and the words for a missing value."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

from gossamer.data.units import WORDS

MISSING_WORDS = frozenset(("", "?", *WORDS))
"""What is read as missing, in any case, where it is no declared value of a category."""


def texts_of(cells: "pa.Array", decimal: str = ".") -> "pa.StringArray":
    """Cells as text: whole numbers without a point, dates as 2031-12-24, missing ones (null, NaN) as "".

    decimal: the decimal point that numbers get. Texts stay as they are.
    """
    raise NotImplementedError
