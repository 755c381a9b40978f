"""Dates and times as texts and as types of Arrow, on the clock of a zone."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.data.columns.times import days_of, read_dates, read_datetimes, seconds_of, step_of

BERLIN = "Europe/Berlin"
MIDNIGHT = 22_637 * 86_400
"""Of 2031-12-24, in seconds since 1970."""


def seconds(*texts: str, form: str = "", zone: str = "", **options: int) -> list[float | None]:
    """Seconds after midnight of 2031-12-24; None: it is no time."""
    found, fits = read_datetimes(pa.array(texts), form, zone, **options)
    return [second - MIDNIGHT if fit else None for second, fit in zip(found.tolist(), fits.tolist(), strict=True)]


def test_iso() -> None:
    texts = [
        "2031-12-24", "2031-12-24 01", "2031-12-24T01:00", " 2031-12-24 00:00:01.5 ", "2031-12-24T00:00:00.123456789",
        "20311224", "20311224T0100", "2031-W52-3",
    ]  # fmt: skip
    assert seconds(*texts) == [0, 3600, 3600, 1.5, pytest.approx(0.123456, abs=1e-6), 0, 3600, 0]
    assert read_dates(pa.array(texts))[0].tolist() == [22_637] * 8


@pytest.mark.parametrize(
    "text", ["", "x", "2031-02-30", "2031-13-01", "2031-12-24 25:00", "24.12.2031", "12:00", "2031-12", "٢٠٣١-12-24"]
)
def test_no_time(text: str) -> None:
    """One odd text changes no other one."""
    assert seconds(text, "2031-12-24 00:00:05") == [None, 5]


def test_offsets_are_turned_into_the_zone() -> None:
    texts = ["2031-12-24T00:30:00+01:00", "2031-12-23 23:30:00Z", "2031-12-23T22:30-0100", "2031-12-24 00:30"]
    assert seconds(*texts) == [-1800, -1800, -1800, 1800]
    assert seconds(*texts, zone=BERLIN) == [1800, 1800, 1800, 1800]
    assert read_dates(pa.array(texts))[0].tolist() == [22_636, 22_636, 22_636, 22_637]
    assert read_dates(pa.array(texts), zone=BERLIN)[0].tolist() == [22_637] * 4


def test_the_night_in_which_an_hour_comes_twice() -> None:
    """A clock in Berlin shows 02:30 at 00:30 and at 01:30 UTC. All ways to write either are one time."""
    night = ["2031-10-26T02:30:00+02:00", "2031-10-26T02:30:00+01:00", "2031-10-26T00:30:00Z", "2031-10-26T01:30:00Z"]
    shown, _ = read_datetimes(pa.array([*night, "2031-10-26 02:30"]), "", BERLIN)
    utc = [datetime.datetime(2031, 10, 26, hour, 30, tzinfo=datetime.UTC) for hour in (0, 1)]
    for unit in ("s", "ms", "us", "ns"):
        typed = seconds_of(pa.array(utc, pa.timestamp(unit, "UTC")), BERLIN, 0)
        assert {*typed.tolist()} == {*shown.tolist()} == {1_950_748_200.0}


def test_the_hour_that_a_clock_skips() -> None:
    """After 01:59:59, a clock in Berlin shows 03:00:00. A text without an offset may say 02:30 all the same."""
    texts = ["2031-03-30T00:59:59Z", "2031-03-30T01:00:00Z", "2031-03-30 02:30", "2031-03-30T02:30+01:00"]
    shown = read_datetimes(pa.array(texts), "", BERLIN)[0]
    assert (np.diff(shown) / 60).round(2).tolist() == [60.02, -30, 60]


FORMS = {
    "%d.%m.%Y %H:%M": ("24.12.2031 01:05", 3900),
    "%m/%d/%Y %H:%M:%S": ("12/24/2031 01:05:09", 3909),
    "%Y%m%d%H%M%S": ("20311224010509", 3909),
    "%d.%m.%Y %H:%M:%S.%f": ("24.12.2031 01:05:09.5", 3909.5),
    "%d %b %Y %I:%M %p": ("24 Dec 2031 01:05 PM", 47_100),
    "%y-%m-%d %Hh": ("31-12-24 01h", 3600),
    "%H:%M %d/%m/%Y": ("01:05 24/12/2031", 3900),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_declared_format_is_in_place_of_iso(form: str) -> None:
    text, expected = FORMS[form]
    assert seconds(text, "2031-12-24 01:05:09", "2031-12-24", "", text, form=form) == [
        expected,
        None,
        None,
        None,
        expected,
    ]


def test_days_of_a_format_that_iso_takes_for_others() -> None:
    """ISO takes 20101231 for the end of 2010, and 20311224 for a date."""
    assert read_dates(pa.array(["20102031", "20311224"]), "%d%m%Y")[1].tolist() == [True, False]
    assert read_dates(pa.array(["2031-24-12"]), "%Y-%d-%m")[0].tolist() == [22_637]
    assert read_dates(pa.array(["1.2.2031", "01.02.2031", "30.02.2031"]), "%d.%m.%Y")[0].tolist()[:2] == [22_311] * 2


@pytest.mark.parametrize(
    ("form", "step"),
    [
        ("%d.%m.%Y", 86_400),
        ("%d.%m.%Y %H", 3600),
        ("%d.%m.%Y %H:%M", 60),
        ("%y%m%d %H%M%S", 1),
        ("%c", 1),
        ("%Y-%m-%d %X.%f", 0),
    ],
)
def test_what_a_format_tells_apart(form: str, step: int) -> None:
    assert step_of(form) == step


@pytest.mark.parametrize("form", ["%d.%m", "%Y-%m-%d %I:%M", "%d%d", "x", "%Y-%m-%d %H:%M %z", "%Q", "%", "%H:%M:%S"])
def test_what_is_no_format(form: str) -> None:
    with pytest.raises(ValueError):
        step_of(form)


def test_digits_are_cut_off_and_never_rounded_up() -> None:
    last = ["9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "2031-12-24 00:00:00.1239"]
    assert read_datetimes(pa.array(last), decimals=0)[0].tolist() == [253_402_300_799, -1, MIDNIGHT]
    assert read_datetimes(pa.array(last), decimals=3)[0].tolist()[1:] == [-0.001, MIDNIGHT + 0.123]
    assert read_dates(pa.array(last))[0].tolist() == [2_932_896, -1, 22_637]
    fine = pa.array([-1, 0, 10**9 - 1, None], pa.timestamp("ns"))
    assert seconds_of(fine, "", 0)[:3].tolist() == [-1, 0, 0] and np.isnan(seconds_of(fine, "", 0)[3])
    assert days_of(fine, "")[:3].tolist() == [-1, 0, 0]


TIMES = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))


@given(st.lists(TIMES, min_size=1), st.sampled_from(["", BERLIN, "America/St_Johns", "Asia/Kathmandu"]))
def test_a_text_and_a_type_are_one_time(times: list[datetime.datetime], zone: str) -> None:
    plain, aware = pa.array(times, pa.timestamp("us")), pa.array(times, pa.timestamp("us", "UTC"))
    for typed, texts in (
        (plain, [time.isoformat(" ") for time in times]),
        (aware, [time.replace(tzinfo=datetime.UTC).isoformat() for time in times]),
    ):
        read, fits = read_datetimes(pa.array(texts), "", zone)
        assert fits.all() and read.tolist() == seconds_of(typed, zone, 6).tolist()
        assert read_dates(pa.array(texts), "", zone)[0].tolist() == days_of(typed, zone).tolist()
        slow = [
            (time.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(days=1)
            for time in ([*times] if typed is plain else aware.cast(pa.timestamp("us", zone or "UTC")).to_pylist())
        ]
        assert slow == days_of(typed, zone).tolist()
