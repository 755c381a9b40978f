"""Truth values as people and programs write them."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def read_booleans(texts: "pa.StringArray") -> tuple[np.ndarray, np.ndarray]:
    """0 for false and 1 for true, float64 [n], and which texts are either, bool [n]; NaN for others.

    Read are true and false in any case, and 1 and 0.
    """
    raise NotImplementedError
