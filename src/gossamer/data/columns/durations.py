"""Durations in seconds, and the texts that stand for them."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def read_durations(texts: "pa.StringArray", *, decimals: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Seconds, float64 [n], and which texts are durations, bool [n]; NaN for others.

    Read are "2 days", "2 days 03:00:00", "2 days, 3:00:00", "27:30:00" and "P1DT2H".

    decimals: digits of seconds; further ones are cut off.
    """
    raise NotImplementedError
