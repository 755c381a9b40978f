"""Durations in seconds, and the texts that stand for them. A time of day is one, from midnight."""

import datetime
import re
from fractions import Fraction

import numpy as np

from gossamer.data.columns import times
from gossamer.data.columns.texts import parsed
from gossamer.lazy import pa, pc

_SECOND = 10**6
"""Microseconds."""
_SECONDS = {"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_CLOCK = r"(?P<sign>[+-]?)(?P<hours>\d{1,9}):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d(?:\.\d{1,9})?)"
_HOURS = re.compile("[0-9]{1,9}")
_WORDS = re.compile(rf"(?=.)(?:(?P<days>[+-]?\d{{1,6}}) ?days?,? ?)?(?:{_CLOCK})?", re.ASCII)
_ISO = re.compile(
    rf"(?P<sign>[+-]?)P(?=.)(?:(?P<weeks>{_NUMBER})W)?(?:(?P<days>[+-]?{_NUMBER})D)?"
    rf"(?:T(?=.)(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?(?:(?P<seconds>{_NUMBER})S)?)?",
    re.ASCII,
)


def read_durations(texts: "pa.Array", form: str = "", *, decimals: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Seconds, float64 [n], and which texts are durations, bool [n]; NaN for others.

    Args:
        texts: strings [n].
        form: as `strptime` takes it. One that begins with %H counts hours beyond 24, too. Empty: as "2 days 03:00:00",
            "2 days, 3:00:00", "27:30:00" or "P1DT2H".
        decimals: digits of seconds; further digits are cut off.
    """
    unit = _SECOND // 10**decimals
    counts, fits = parsed(texts, lambda clean: pa.nulls(len(clean)), lambda text: micros(text, form) // unit)
    return counts / 10**decimals, fits


def seconds_of(cells: "pa.Array", decimals: int) -> np.ndarray:
    """Seconds of durations, float64 [n]. NaN where there is none. See `read_durations`."""
    fine = cells.type.unit == "ns"  # a cast would cut off digits towards zero
    counts = cells.cast(pa.int64()) if fine else cells.cast(pa.duration("us")).cast(pa.int64())
    whole = np.asarray(pc.fill_null(counts, 0)) // (10 ** (6 - decimals) * (1000 if fine else 1))
    return np.where(np.asarray(cells.is_null()), np.nan, whole / 10**decimals)


def micros(text: str, form: str = "") -> int:
    """Whole microseconds in a duration. form: see `read_durations`. Raises ValueError: the text is none."""
    if form:
        hours = _HOURS.match(text) if form.startswith("%H") else None
        clock = "0" + text[hours.end() :] if hours else text
        since = datetime.datetime.strptime(clock, form) - times.MIDNIGHT
        return (since + datetime.timedelta(hours=int(hours[0]) if hours else 0)) // times.MICROSECOND
    found = _ISO.fullmatch(text) or _WORDS.fullmatch(text)
    if found is None:
        raise ValueError
    parts = {
        name: Fraction(part) * _SECONDS[name] for name, part in found.groupdict().items() if part and name in _SECONDS
    }
    minus = -1 if found["sign"] == "-" else 1
    days = parts.pop("days", Fraction(0)) + parts.pop("weeks", Fraction(0))
    rest = minus * sum(parts.values())
    return int(((minus * days if found.re is _ISO else days) + rest) * _SECOND // 1)


def position(text: str) -> float:
    """A duration in seconds. Raises ValueError: the text is none."""
    return micros(text) / _SECOND


def to_text(value: object, form: str = "") -> str:
    """A duration of a card, which may be text, as `text` writes it. Raises ValueError or TypeError: it is none.

    form: it may be written in this format, too.
    """
    clock = form if form and isinstance(value, str) and not _WORDS.fullmatch(value) else ""
    duration = datetime.timedelta(microseconds=micros(value, clock)) if isinstance(value, str) else value
    if not isinstance(duration, datetime.timedelta):
        raise TypeError
    return text(duration, 6 if duration.microseconds else 0)


def of_seconds(seconds: float) -> str:
    """A duration of so many seconds, as a card has it."""
    return to_text(datetime.timedelta(seconds=seconds))


def text(duration: datetime.timedelta, decimals: int | None, form: str = "", step: int = 1) -> str:
    """A duration in a format. Empty: as pandas writes it, such as 2 days 03:00:00, or 2 days where the step is a day."""
    if form:
        clock = (times.MIDNIGHT + duration - datetime.timedelta(duration.days)).strftime(form)
        return f"{duration // datetime.timedelta(hours=1):02}{clock[2:]}" if form.startswith("%H") else clock
    if step % times.DAY == 0:
        return f"{duration.days} days"
    clock = f"{datetime.timedelta(seconds=duration.seconds)!s:0>8}"
    return f"{duration.days} days {clock}" + (f".{duration.microseconds:06}"[: 1 + decimals] if decimals else "")
