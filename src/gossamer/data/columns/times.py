"""Dates and times: positions on an axis, and the texts that stand for them."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def read_dates(texts: "pa.StringArray", format: str = "", zone: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970, float64 [n], and which texts are dates, bool [n]; NaN for others. See `read_datetimes`."""
    raise NotImplementedError


def read_datetimes(
    texts: "pa.StringArray", format: str = "", zone: str = "", *, decimals: int = 6
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since 1970, float64 [n], and which texts are times, bool [n]; NaN for others.

    Args:
        texts: a text with an offset is turned into the zone. Another one is taken to be in it.
        format: as `strptime` takes it; empty: ISO, such as 2031-12-24 or 2031-12-24T10:00:00.
        zone: an IANA name; empty: UTC.
        decimals: digits of seconds; further ones are cut off.
    """
    raise NotImplementedError
