"""Numbers as people write them: 1,234.50 or 1.234,5 or $1'234."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Form:
    """How a column writes numbers.

    Args:
        before: text before the digits, such as "$".
        after: text after the digits, such as " €".
        thousands: the sign between thousands; empty: there is none.
        decimal: the decimal point.
        digits: after the decimal point; None: as many as a number needs.
    """

    before: str = ""
    after: str = ""
    thousands: str = ""
    decimal: str = "."
    digits: int | None = None

    @classmethod
    def of(cls, example: str, decimal: str = ".") -> "Form":
        """The form of an example that shows how 1234 is written. decimal: what it is where the example does not tell.

        Raises:
            ValueError: the text does not show 1234.
        """
        raise NotImplementedError

    @property
    def example(self) -> str:
        """How 1234 is written, with as many zeros as there are digits."""
        raise NotImplementedError

    def read(self, texts: "pa.StringArray") -> tuple[np.ndarray, np.ndarray]:
        """Numbers, float64 [n], and which texts are numbers of this form, bool [n]; NaN for others."""
        raise NotImplementedError

    def write(self, numbers: Iterable[float]) -> list[str]:
        """Numbers as text."""
        raise NotImplementedError
