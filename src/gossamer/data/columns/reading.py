"""From the cells of a column to its codes, by the card alone: no other row decides how a cell is read."""

from typing import TYPE_CHECKING

import numpy as np

from gossamer.data.columns.column import Column

if TYPE_CHECKING:
    import pyarrow as pa


class Reader:
    """Reads the cells of a column.

    Args:
        column: declares the values.
        decimal: the decimal point of the table.
        guessed: whether a program may have guessed types, from all rows. Then no value is used that would have another code
            as the text that it may have been.
    """

    def __init__(self, column: Column, decimal: str = ".", *, guessed: bool = False) -> None:
        raise NotImplementedError

    def codes(self, cells: "pa.Array") -> np.ndarray:
        """Codes, int32 [n]. A negative one is a fault."""
        raise NotImplementedError

    def values(self, cells: "pa.Array") -> np.ndarray:
        """Values as numbers, which no bin has made coarse. float64 [n]"""
        raise NotImplementedError
