"""How numbers and dates among some texts may be written."""

import calendar
import datetime
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from gossamer.data.columns.numbers import Form
from gossamer.lazy import pa, pc

Texts: TypeAlias = "pa.Array"
_DAYS = (
    "%m/%d/%Y %d/%m/%Y %Y/%m/%d %m/%d/%y %d/%m/%y %d-%m-%Y %m-%d-%Y %Y-%m-%d %Y-%d-%m %d-%b-%Y %d-%b-%y "
    "%d.%m.%Y %Y.%m.%d %d.%m.%y %Y%m%d"
)
_DAYS_IN_WORDS = ("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", " %H:%M UTC", " %H:%M:%S UTC")
_FORMATS = [f"{day}{clock}" for day, clock in itertools.product([*_DAYS.split(), *_DAYS_IN_WORDS], _CLOCKS)]
_FORMATS += [f"%Y-%m-%dT{clock}" for clock in ("%H:%M:%SZ", "%H:%M:%S", "%H:%MZ", "%H:%M")]
"""How dates and times may be written, besides ISO. Of two orders of day and month, the first is proposed."""
_WORDS = {"am", "pm", "utc", "t", "z", *(name.casefold() for name in [*calendar.month_name, *calendar.month_abbr])}
_LIKE_ANY = {1: "1", 2: "01", 4: "2001", 8: "20010101"}
"""Digits in place of as many others, so that texts of one shape are one."""
DIGITS = "%Y%m%d"
_CLOCK = re.compile(r"\d{1,3}:\d\d(?P<seconds>:\d\d)?(?P<half> [ap]m)?", re.IGNORECASE)
_NO_DAY = re.compile(r"(?!(1[89]|2[01])\d\d(0[1-9]|1[0-2])([0-2]\d|3[01]))\d+|.{40,}", re.DOTALL)
_MONEY = re.compile(
    r"-?(?P<before>(?:[$€£¥₹₽₩]|USD|EUR|GBP|CHF|SEK|NOK|DKK|JPY|Fr\.|Rs\.?|kr)?\s?)-?(?P<digits>\d[\d.,'’\s]*?)"
    r"(?P<after>\s?[$€£¥₹₽₩%‰]|\s?(?:USD|EUR|GBP|CHF|SEK|NOK|DKK|JPY|kg|g|mg|km|cm|mm|m|ml|l|h|min|s)|\s[^\W\d]{1,5})?"
)
_ALIKE = {"’": "'", "\xa0": " ", "\u202f": " "}
_MOST_FORMS = 12
_PLAIN = ("", ".")
_SEPARATORS = (_PLAIN, ("", ","), (",", "."), (".", ","), ("'", "."), (" ", ","), (" ", "."))
"""Thousands sign and decimal sign of numbers."""


def number_forms(sample: list[str]) -> Iterator[Form]:
    """How numbers among some texts may be written, the plain form first."""
    yield Form()
    found: Counter[Form] = Counter()
    for money in filter(None, map(_MONEY.fullmatch, sample)):
        signs = {_ALIKE.get(sign, sign) for sign in money["digits"] if not sign.isdigit()}
        for separators in _SEPARATORS:
            if signs <= {*separators} and (signs or separators == _PLAIN):
                found[Form(money["before"], money["after"] or "", *separators)] += 1
    del found[Form()]
    yield from (form for form, _ in found.most_common(_MOST_FORMS))


def read_numbers(texts: Texts, form: Form) -> tuple[np.ndarray, np.ndarray]:
    """As `Form.read`. But 0.123 is no thousand, whatever separates thousands."""
    numbers, fits = form.read(texts)
    if form.thousands in (".", ","):
        fits &= ~np.asarray(pc.match_substring_regex(texts, rf"^\D*0\{form.thousands}"))
    return numbers, fits


def date_formats(text: str) -> tuple[str, ...]:
    """The formats that a text may have, if it is a date or a time; "": as 2031-12-24."""
    if _NO_DAY.fullmatch(text) or not _WORDS.issuperset(re.findall(r"[^\W\d_]+", text.casefold())):
        return ()
    return _formats_of(re.sub(r"\d+", lambda digits: _LIKE_ANY.get(len(digits[0]), "0" * len(digits[0])), text))


def clock_forms(sample: list[str]) -> list[str]:
    """The formats of durations that some texts may have, if they are hours and minutes."""
    found = [*filter(None, map(_CLOCK.fullmatch, sample))]
    clocks = {(bool(each["seconds"]), bool(each["half"])) for each in found}
    return [f"%{'HI'[half]}:%M{':%S' * seconds}{' %p' * half}" for seconds, half in sorted(clocks)]


@lru_cache(10_000)
def _formats_of(text: str) -> tuple[str, ...]:
    iso = [""] if text.startswith("2001-01-01") and _fits(text, "") else []
    return (*iso, *(form for form in _FORMATS if _fits(text, form)))


def _fits(text: str, form: str) -> bool:
    try:
        return bool(datetime.datetime.strptime(text, form) if form else datetime.datetime.fromisoformat(text))
    except ValueError:
        return False
