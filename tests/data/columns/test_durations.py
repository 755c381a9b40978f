"""Durations in the spellings of pandas, Python, clocks and ISO 8601."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.data.columns.durations import position, read_durations, seconds_of, text, to_text

DAY = 86_400


def read(*texts: str, form: str = "", decimals: int = 6) -> list[float | None]:
    found, fits = read_durations(pa.array(texts), form, decimals=decimals)
    return [second if fit else None for second, fit in zip(found.tolist(), fits.tolist(), strict=True)]


def test_spellings() -> None:
    of_pandas = ["10 days", "1 days 02:00:00", "-1 days +23:00:00", "0 days 00:00:01.500000", "1 day 02:00:00"]
    assert read(*of_pandas) == [10 * DAY, 93_600, -3600, 1.5, 93_600]
    assert read("10 days, 0:00:00", "1 day, 2:00:00", "-1 day, 23:00:00", "2:00:00.25") == [
        10 * DAY,
        93_600,
        -3600,
        7200.25,
    ]
    assert read("27:30:00", "-27:30:00", "+0:00:01", " 100:00:00 ") == [99_000, -99_000, 1, 360_000]
    assert read("P1DT2H", "PT1H30M", "-PT1H", "P2W", "PT1.5S", "P0.5D", "PT0S") == [
        93_600,
        5400,
        -3600,
        14 * DAY,
        1.5,
        DAY / 2,
        0,
    ]


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "x",
        "5",
        "days",
        "P",
        "PT",
        "P1Y",
        "12:30",
        "1:2:3",
        "0:60:00",
        "0:00:60",
        "1 days 2 days",
        "٣ days",
        "1.5 days",
    ],
)
def test_no_duration(odd: str) -> None:
    assert read(odd, "0:00:05") == [None, 5]


def test_digits_are_cut_off() -> None:
    assert read("0:00:01.999", "-0:00:01.5", decimals=0) == [1, -2]
    assert read("0:00:01.2599", decimals=2) == [1.25]
    assert seconds_of(pa.array([1_999_999_999, -1, None], pa.duration("ns")), 0)[:2].tolist() == [1, -1]
    assert np.isnan(seconds_of(pa.array([None], pa.duration("s")), 0)).all()


LONG = st.timedeltas(datetime.timedelta(days=-10_000), datetime.timedelta(days=10_000))


@settings(deadline=None)
@given(st.lists(LONG, min_size=1))
def test_all_spellings_and_types_are_one_duration(durations: list[datetime.timedelta]) -> None:
    seconds = [duration / datetime.timedelta(seconds=1) for duration in durations]
    of_pandas = pd.Series(durations, dtype="m8[us]")
    for texts in ([*map(str, durations)], [*of_pandas.astype(str)], [text(each, 6) for each in durations]):
        assert read(*texts) == seconds
    assert read(*(each.isoformat() for each in of_pandas)) == seconds
    for unit in ("us", "ns"):
        assert seconds_of(pa.array(durations, pa.duration(unit)), 6).tolist() == seconds


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("%H:%M", ["00:00", "23:59"]),
        ("%H:%M:%S", ["00:00:00", "23:59:00"]),
        ("%I:%M %p", ["12:00 AM", "11:59 PM"]),
        ("%H.%M Uhr", ["00.00 Uhr", "23.59 Uhr"]),
    ],
)
def test_times_of_day(form: str, texts: list[str]) -> None:
    assert read(*texts, form=form) == [0, DAY - 60]
    assert [text(datetime.timedelta(minutes=each), None, form) for each in (0, 1439)] == texts
    assert read("24:60", "1 days", "12:30:00 x", "", form=form) == [None] * 4


def test_hours_beyond_a_day() -> None:
    assert read("38:30", "100:05", "0:07", "7", ":30", form="%H:%M") == [138_600, 360_300, 420, None, None]
    assert read("38:30 PM", "0:30 PM", "0:30 AM", form="%I:%M %p") == [None] * 3
    hours = [datetime.timedelta(minutes=each) for each in (7, 2_310, 6_005)]
    assert [text(each, None, "%H:%M") for each in hours] == ["00:07", "38:30", "100:05"]
    assert to_text("38:30", "%H:%M") == to_text("1 days 14:30:00", "%H:%M") == "1 days 14:30:00"


def test_whole_days_are_written_without_a_clock() -> None:
    days = [datetime.timedelta(days=each) for each in (-1, 0, 400)]
    assert [text(each, None, step=DAY) for each in days] == ["-1 days", "0 days", "400 days"]
    assert text(days[2], None, step=3600) == "400 days 00:00:00"


def test_as_people_declare_them() -> None:
    assert to_text(datetime.timedelta(hours=27)) == to_text("27:00:00") == to_text("P1DT3H") == "1 days 03:00:00"
    assert to_text("-0:00:01.5") == "-1 days 23:59:58.500000" and position(to_text("-0:00:01.5")) == -1.5
    for wrong in (5, None, "soon"):
        with pytest.raises((ValueError, TypeError)):
            to_text(wrong)
