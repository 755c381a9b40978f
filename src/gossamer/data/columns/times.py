"""Dates and times of day: positions on an axis, and the texts that stand for them.

A time is what a clock on the wall shows, in the zone of its column. So an hour that a clock shows twice is one hour.
"""

import datetime
import re
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from gossamer.data.columns.texts import matching, parsed
from gossamer.lazy import pa, pc

EPOCH = datetime.datetime(1970, 1, 1)
MIDNIGHT = datetime.datetime(1900, 1, 1)
"""The day that `strptime` gives to a time of day."""
MICROSECOND = datetime.timedelta(microseconds=1)
_SECOND = 10**6
"""Microseconds."""
HOUR, DAY = 3600, 86_400
"""Seconds."""
_FIRST, _LAST = -62_135_000_000, 253_402_000_000
"""Of the years that Python knows, but for a few days. Beyond, clocks are as there."""
MOST_DECIMALS = 6
"""Digits of seconds."""
_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[ T][0-9]{2}(?::[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"
_OFFSET = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_BEFORE = {"Y": "", "m": "-", "d": "-", "H": " ", "M": ":", "S": ":", "f": "."}
"""What is before each part of a time in ISO."""
_DIGITS = {
    "Y": "[0-9]{4}", "m": "1[0-2]|0?[1-9]", "d": "3[01]|[12][0-9]|0?[1-9]", "H": "2[0-3]|[01]?[0-9]", "M": "[0-5]?[0-9]",
    "S": "[0-5]?[0-9]", "f": "[0-9]{1,6}",
}  # fmt: skip
"""What `strptime` reads for each part; without the question marks, all its digits."""


def read_dates(texts: "pa.Array", form: str = "", zone: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970, float64 [n], and which texts are dates, bool [n]; NaN for others. See `read_datetimes`."""
    return _read(texts, form, zone, DAY * _SECOND)


def read_datetimes(
    texts: "pa.Array", form: str = "", zone: str = "", *, decimals: int = 6
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since 1970, float64 [n], and which texts are times, bool [n]; NaN for others.

    Args:
        texts: strings [n]. A time with an offset is turned into the zone. Another time is taken to be in it.
        form: as `strptime` takes it; empty: ISO, such as 2031-12-24 or 2031-12-24T10:00:00.
        zone: an IANA name; empty: UTC.
        decimals: digits of seconds; further digits are cut off.
    """
    counts, fits = _read(texts, form, zone, _SECOND // 10**decimals)
    return counts / 10**decimals, fits


def days_of(times: "pa.Array", zone: str) -> np.ndarray:
    """Days since 1970 of dates or timestamps, float64 [n]. NaN where there is none. zone: see `read_datetimes`."""
    return _count(on_clock(times, zone), DAY * _SECOND)


def seconds_of(times: "pa.Array", zone: str, decimals: int) -> np.ndarray:
    """Seconds since 1970 of dates or timestamps, float64 [n]. NaN where there is none. See `read_datetimes`."""
    return np.asarray(_count(on_clock(times, zone), _SECOND // 10**decimals) / 10**decimals)


def on_clock(times: "pa.Array", zone: str = "") -> "pa.Array":
    """Dates or timestamps as microseconds on the clock of a zone. Without a zone of their own, they are on it already."""
    kind = times.type
    if not pa.types.is_timestamp(kind):
        return times.cast(pa.timestamp("us"))
    plain = times.view(pa.timestamp(kind.unit))
    if kind.unit == "ns":  # a cast would cut off digits towards 1970
        plain = pc.floor_temporal(plain, 1, "microsecond")
    plain = plain.cast(pa.timestamp("us"))
    return _moved(plain, zone, 1, of_clock=False) if kind.tz and zone not in ("", "UTC") else plain


def with_zone(times: "pa.Array", zone: str) -> "pa.Array":
    """Timestamps on the clock of a zone, with the zone. A time that comes twice is the first; a skipped one moves on."""
    moved = _moved(times.cast(pa.timestamp("us")), zone, -1, of_clock=True).cast(times.type)
    return moved.view(pa.timestamp(times.type.unit, zone))


def _moved(times: "pa.Array", zone: str, sign: int, *, of_clock: bool) -> "pa.Array":
    """Microseconds, forward (1) or back (-1) by what the clock of a zone is ahead of UTC.

    Each day is looked up once, and each time of the days on which a clock is changed. (pyarrow changes none after 2037.)
    """
    micros = np.asarray(pc.fill_null(times.view(pa.int64()), 0))
    days, at = np.unique(micros // (DAY * _SECOND), return_inverse=True)
    begins, ends = (
        np.array([_ahead(day * DAY, zone, of_clock=of_clock) for day in each.tolist()], np.int64)
        for each in (days, days + 1)
    )
    ahead, changing = begins[at], (begins != ends)[at]
    ahead[changing] = [_ahead(each, zone, of_clock=of_clock) for each in (micros[changing] // _SECOND).tolist()]
    return pa.array(micros + sign * ahead * _SECOND, pa.timestamp("us"), mask=np.asarray(times.is_null()))


@lru_cache(1 << 15)
def _ahead(second: int, zone: str, *, of_clock: bool) -> int:
    """Seconds that the clock of a zone is ahead of UTC. second: since 1970, on that clock or in UTC."""
    time = EPOCH + datetime.timedelta(seconds=min(max(second, _FIRST), _LAST))
    known = ZoneInfo(zone)
    there = time.replace(tzinfo=known) if of_clock else time.replace(tzinfo=datetime.UTC).astimezone(known)
    return (there.utcoffset() or datetime.timedelta()) // datetime.timedelta(seconds=1)


def _read(texts: "pa.Array", form: str, zone: str, unit: int) -> tuple[np.ndarray, np.ndarray]:
    pattern, iso, possible = _as_iso(form)

    def vectorised(clean: "pa.Array") -> "pa.Array":
        if form:
            clean = pc.replace_substring_regex(matching(clean, pattern), f"^{pattern}$", iso)
        naive = matching(clean, f"{_ISO}(?:{_CLOCK})?").cast(pa.timestamp("us"))
        if not form and naive.null_count:
            aware = matching(clean, f"{_ISO}{_CLOCK}{_OFFSET}").cast(pa.timestamp("us", "UTC"))
            naive = pc.coalesce(naive, on_clock(aware, zone))
        return pa.array(_count(naive, unit))  # NaN where there is none

    def careful(text: str) -> int:
        if form and not possible.match(text):  # ten times as fast as `strptime`
            raise ValueError
        time = datetime.datetime.strptime(text, form) if form else datetime.datetime.fromisoformat(text)
        if time.tzinfo is not None:
            time = time.astimezone(ZoneInfo(zone) if zone else datetime.UTC).replace(tzinfo=None)
        return (time - EPOCH) // MICROSECOND // unit

    return parsed(texts, vectorised, careful)


def _count(times: "pa.Array", unit: int) -> np.ndarray:
    """How many units of so many microseconds have passed since 1970, in whole numbers. float64 [n]"""
    micros = np.asarray(pc.fill_null(times.cast(pa.timestamp("us")).cast(pa.int64()), 0))
    return np.where(np.asarray(times.is_null()), np.nan, micros // unit)


@lru_cache
def _as_iso(form: str) -> tuple[str, str, re.Pattern[str]]:
    """A pattern for what is written in full in a format of numbers, and the replacement that makes ISO of it.

    And a pattern that all texts match which `strptime` reads. Of other formats, the first pattern matches none and the second
    matches all.
    """
    parts = re.split("%(.)", form)
    codes = parts[1::2]
    if "?" in form or len({*codes}) < len(codes) or not {"Y", "m", "d"} <= {*codes} <= _BEFORE.keys():
        return "[^\\s\\S]", "", re.compile("")
    groups = [f"({_DIGITS[code]})" if at % 2 else re.escape(code) for at, code in enumerate(parts)]
    known = [code for code in _BEFORE if code in codes]
    iso = "".join(f"{_BEFORE[code]}\\{codes.index(code) + 1}" for code in known)
    pattern = "".join(groups)
    return pattern.replace("?", ""), iso, re.compile(pattern.replace("\\ ", r"\s+") + "$")


def position(value: datetime.date) -> float:
    """A date in days since 1970, a time in seconds."""
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MICROSECOND / _SECOND
    return float(value.toordinal() - EPOCH.toordinal())


def step_of(form: str, *, of_day: bool = False) -> int:
    """Seconds between two times that a format can tell apart, at least 1; 0 if it has fractions of seconds.

    of_day: whether the format is one of times of day.

    Raises:
        ValueError: `strptime` does not read what `strftime` writes in this format.
    """
    day = MIDNIGHT if of_day else datetime.datetime(2031, 12, 24)
    time = day.replace(hour=23, minute=59, second=58, microsecond=765_432)
    steps = {0: 0, 765_432: 1, 58_765_432: 60, 3_598_765_432: HOUR, 86_398_765_432: DAY}
    try:
        return steps[(time - datetime.datetime.strptime(time.strftime(form), form)) // MICROSECOND]
    except (KeyError, TypeError, re.error):  # TypeError: of a time with an offset
        raise ValueError from None


def is_zone(name: str) -> bool:
    """Whether a time zone has this name."""
    try:
        return bool(ZoneInfo(name))
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return False


def to_date(value: object) -> datetime.date:
    """A date of a card, which may be text. Raises ValueError or TypeError: it is none."""
    if isinstance(value, str):
        return datetime.date.fromisoformat(value)
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        raise TypeError
    return value


def to_time(value: Any) -> datetime.datetime:
    """A time of a card, which may be a date or text. Raises ValueError or TypeError: it is none, or has an offset."""
    text = value.isoformat() if isinstance(value, datetime.date) else value
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is not None:
        raise ValueError
    return time


def days(positions: np.ndarray) -> np.ndarray:
    """Days since 1970 as datetime64[D]."""
    return positions.astype(np.int64).astype("datetime64[D]")


def ticks(positions: np.ndarray, decimals: int | None, dtype: str) -> np.ndarray:
    """Seconds as times ("M8") or durations ("m8"), in seconds, or in microseconds where there are decimals."""
    whole = np.rint(positions * _SECOND) if decimals else positions
    return whole.astype(np.int64).astype(f"{dtype}[{'us' if decimals else 's'}]")


def text(time: datetime.date, form: str, decimals: int | None) -> str:
    """A date or a time in a format; empty: as 2031-12-24 or 2031-12-24 10:00:00."""
    if form:
        return time.strftime(form)
    if not isinstance(time, datetime.datetime):
        return time.isoformat()
    return time.isoformat(" ", "microseconds")[: 20 + decimals if decimals else 19]
