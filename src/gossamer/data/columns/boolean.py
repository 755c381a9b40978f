"""Truth values as people and programs write them."""

import numpy as np

from gossamer.data.columns.texts import guess, parsed
from gossamer.lazy import pa

VALUES = ("False", "True")
"""The values of a column of truth values, in the order of their codes."""
FORMS = ("", "true", "True", "TRUE")
"""How true may be written; "" is as "True"."""


def read_booleans(texts: "pa.Array") -> tuple[np.ndarray, np.ndarray]:
    """0 for false and 1 for true, float64 [n], and which texts are either, bool [n]; NaN for others.

    Read are true and false in any case, and 1 and 0 in any spelling, such as 1.0.

    texts: strings [n].
    """
    return parsed(texts, lambda clean: pa.nulls(len(clean)), _truth)


def text(value: bool, form: str) -> str:
    """A truth value as text. form: how true is written, "True" where it is empty."""
    return str(value).lower() if form.islower() else str(value).upper() if form.isupper() else str(value)


def _truth(text: str) -> int:
    number = guess(text)
    if number not in (0, 1):
        raise ValueError
    return int(number)
