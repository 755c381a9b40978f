"""How numbers and dates among some texts may be written."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from gossamer.data.columns.numbers import Form
from gossamer.lazy import pa, pc

Texts: TypeAlias = "pa.Array"
_DATES = {
    "Y/9/9": ("%Y/%m/%d",),
    "Y.9.9": ("%Y.%m.%d",),
    "9.9.Y": ("%d.%m.%Y",),
    "9/9/Y": ("%m/%d/%Y", "%d/%m/%Y"),
    "9-9-Y": ("%d-%m-%Y", "%m-%d-%Y"),
    "9.9.9": ("%d.%m.%y",),
    "9/9/9": ("%m/%d/%y", "%d/%m/%y"),
    "E": ("%Y%m%d",),
    "9-a-Y": ("%d-%b-%Y",),
    "9-a-9": ("%d-%b-%y",),
    "9 a Y": ("%d %b %Y", "%d %B %Y"),
    "a 9, Y": ("%b %d, %Y", "%B %d, %Y"),
    "Y-9-9": ("%Y-%m-%d", "%Y-%d-%m"),
}
"""How dates may be written, by their shape: 9, Y and E are one or two, four and eight digits, a is letters."""
_TIMES = {
    "": ("",),
    " 9:9": (" %H:%M",),
    " 9:9:9": (" %H:%M:%S",),
    " 9:9 a": (" %I:%M %p", " %H:%M UTC"),
    " 9:9:9 a": (" %I:%M:%S %p", " %H:%M:%S UTC"),
}
_ISO = re.compile(r"Y-9-9([ a]9:9(:9(\.\w)?)?(a|[+-]9(:9)?|[+-]Y)?)?")
_DIGITS = {1: "9", 2: "9", 4: "Y", 8: "E"}
_LONGEST_DATE = 40
_MONEY = re.compile(r"-?(\D{0,5}?)-?(\d[\d.,'’\s]*?)(\s?(?:[^\W\d]{1,5}|[^\w\s.,'’]))?")
_BEFORE = re.compile(r"(?:[$€£¥₹₽₩]|USD|EUR|GBP|CHF|SEK|NOK|DKK|JPY|Fr\.|Rs\.?|kr)?\s?")
_AFTER = re.compile(r"\s?[$€£¥₹₽₩%‰]|\s?(?:USD|EUR|GBP|CHF|SEK|NOK|DKK|JPY|kg|g|mg|km|cm|mm|m|ml|l|h|min|s)|\s\w{1,5}")
_ALIKE = {"’": "'", "\xa0": " ", "\u202f": " "}
_MOST_FORMS = 12
PLAIN = ("", ".")
SEPARATORS = (PLAIN, ("", ","), (",", "."), (".", ","), ("'", "."), (" ", ","), (" ", "."))
"""Thousands sign and decimal sign of numbers."""


def number_forms(sample: list[str]) -> Iterator[Form]:
    """How numbers among some texts may be written, the plain form first."""
    yield Form()
    found: Counter[Form] = Counter()
    for text in sample:
        if parts := _MONEY.fullmatch(text):
            before, core, after = parts[1], parts[2], parts[3] or ""
            signs = {_ALIKE.get(sign, sign) for sign in core if not sign.isdigit()}
            if (before and not _BEFORE.fullmatch(before)) or (after and not _AFTER.fullmatch(after)):
                continue
            for thousands, decimal in SEPARATORS:
                if signs <= {thousands, decimal} and (signs or (thousands, decimal) == PLAIN):
                    found[Form(before, after, thousands, decimal)] += 1
    del found[Form()]
    yield from (form for form, _ in found.most_common(_MOST_FORMS))


def read_numbers(form: Form, texts: Texts) -> tuple[np.ndarray, np.ndarray]:
    """As `Form.read`. But 0.123 is no thousand, whatever separates thousands."""
    numbers, fits = form.read(texts)
    if form.thousands in (".", ","):
        fits &= ~np.asarray(pc.match_substring_regex(texts, rf"^\D*0\{form.thousands}"))
    return numbers, fits


def date_formats(text: str) -> tuple[str, ...]:
    """The formats that a text may have, if it is a date or a time; "": as 2031-12-24."""
    if len(text) > _LONGEST_DATE or not any(map(str.isdecimal, text)):
        return ()
    letters = re.sub(r"[^\W\d_]+", "a", text)
    return _formats_of(re.sub(r"\d+", lambda digits: _DIGITS.get(len(digits[0]), "N"), letters))


@lru_cache(10_000)
def _formats_of(shape: str) -> tuple[str, ...]:
    """The formats that texts of a shape may have, see `_DATES`; "": as 2031-12-24."""
    formats = [
        f"{day}{time}"
        for date, days in _DATES.items()
        if shape.startswith(date)
        for time in _TIMES.get(shape.removeprefix(date).replace(",", "", 1), ())
        for day in days
    ]
    return ("", *formats) if _ISO.fullmatch(shape) else tuple(formats)
