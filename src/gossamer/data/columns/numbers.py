"""Numbers as people write them: 1,234.50 or 1.234,5 or $1'234."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gossamer.data.columns.texts import matching, parsed, word_number
from gossamer.lazy import pa, pc

_EXAMPLE = re.compile(r"([^\d()+-]*)1([.,'’ \u00a0\u202f]?)234(?:([.,])(\d+))?([^\d()+-]*)")
_ALIKE = ("'’", " \u00a0\u202f")
"""Signs that stand for one another: keyboards have the first, typesetters the others."""


@dataclass(frozen=True)
class Form:
    """How a column writes numbers.

    Args:
        before: text before the digits, such as "$". A minus stands before it.
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
        found = _EXAMPLE.fullmatch(example)
        if found is None or found[2] == found[3]:
            raise ValueError
        before, thousands, point, digits, after = found.groups("")
        other = {",": ".", ".": ","}.get(thousands, decimal)
        return cls(before, after, thousands, point or other, len(digits))

    @property
    def example(self) -> str:
        """How 1234 is written."""
        return self.write([1234])[0]

    def read(self, texts: "pa.Array") -> tuple[np.ndarray, np.ndarray]:
        """Numbers, float64 [n], and which texts are numbers of this form, bool [n]; NaN for others.

        Text around the digits and the signs between thousands may be left out. Read too are exponents, a leading +, negative
        numbers in parentheses, and what programs that guess types take for numbers: true, false and 0x1A.

        texts: strings [n].
        """
        return parsed(_with_minus(texts), lambda clean: _cast(clean, self), word_number)

    def write(self, numbers: Iterable[float]) -> list[str]:
        """Numbers as text."""
        if self.before or self.after or self.thousands:
            return [*map(self._written, numbers)]
        texts = map(repr if self.digits is None else f"{{:.{self.digits}f}}".format, numbers)
        return [*texts] if self.decimal == "." else [text.replace(".", self.decimal) for text in texts]

    def _written(self, number: float) -> str:
        text = f"{abs(number):,.{self.digits or 0}f}"
        minus = "-" * (number < 0 and any(sign in text for sign in "123456789"))
        signs = str.maketrans({",": self.thousands, ".": self.decimal})
        return f"{minus}{self.before}{text.translate(signs)}{self.after}"


def _with_minus(texts: "pa.Array") -> "pa.Array":
    """Texts with a minus in place of parentheses."""
    return pc.replace_substring_regex(texts, r"^\s*([^\d()]*)\(([^()]*\d[^()]*)\)\s*$", r"-\1\2")


def _cast(texts: "pa.Array", form: Form) -> "pa.Array":
    """Texts as numbers, null where they are none of this form."""
    before, after = (_optional(text.strip()) for text in (form.before, form.after))
    space, point = f"[{_ALIKE[1]}]*", re.escape(form.decimal)
    thousands = next((f"[{alike}]" for alike in _ALIKE if form.thousands in alike), re.escape(form.thousands))
    groups = f"[0-9]{{1,3}}(?:{thousands}[0-9]{{3}})+(?:{point}[0-9]*)?|" if form.thousands else ""
    digits = f"{groups}[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+"
    sign = f"([+-]?){before}{space}|{before}{space}([+-])"
    pattern = f"(?:{sign})({digits})([eE][+-]?[0-9]+)?{space}{after}"
    found = matching(texts, pattern)
    if form.before or form.after:
        found = pc.replace_substring_regex(found, f"^{pattern}$", r"\1\2\3\4")
    if form.thousands:
        found = pc.replace_substring_regex(found, thousands, "")
    return pc.cast(found if form.decimal == "." else pc.replace_substring(found, form.decimal, "."), pa.float64())


def _optional(text: str) -> str:
    return f"(?:{re.escape(text)})?" if text else ""
