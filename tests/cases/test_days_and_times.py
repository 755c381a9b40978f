"""Days and times: kind K6 of public bug reports, durations of K5, and typed samples of K10."""

import dataclasses
import datetime

import numpy as np
import pandas as pd
import polars
import pytest

import gossamer
from gossamer.data.tables.check import CUT
from gossamer.data.tables.read import read_table
from gossamer.data.tables.samples import TableSamples
from gossamer.errors import CardError

N = 360
DRAW = np.random.default_rng(6)
STARTS = pd.Timestamp("2022-03-01") + pd.to_timedelta(DRAW.integers(0, 300 * 86_400, N), unit="s")


def column(name, kind, **entries):
    return gossamer.TableCard(declared_size=N, columns=(gossamer.Column(name=name, kind=kind, **entries),))


def test_the_time_of_day_is_kept(tell):
    told = tell(pd.DataFrame({"seen": STARTS.strftime("%Y-%m-%d %H:%M:%S")}))
    assert told.columns["seen"]["kind"] == "datetime"
    times = pd.to_datetime(told.samples["seen"])
    assert times.dt.normalize().ne(times).mean() > 0.9, "nearly none is at midnight"
    assert STARTS.min() <= times.min() and times.max() <= STARTS.max()


def test_days_that_can_be_read_in_two_ways_are_asked(tell):
    """All days of the month are the 1st to the 12th, so no cell decides between month first and day first."""
    days = [
        f"{m:02}/{d:02}/{y}"
        for m, d, y in zip(DRAW.integers(1, 13, N), DRAW.integers(1, 13, N), DRAW.integers(2001, 2020, N), strict=True)
    ]
    told = tell(pd.DataFrame({"visit": days}))
    assert "%d/%m/%Y" in told.about("visit") and "%m/%d/%Y" in told.about("visit")


def test_eight_digits_that_are_days_are_asked(tell):
    days = pd.Series(STARTS.strftime("%Y%m%d"))
    told = tell(pd.DataFrame({"day": days}))
    about = told.about("day")
    assert "%Y%m%d" in about
    if told.columns["day"]["kind"] == "date":
        assert pd.to_datetime(told.samples["day"], format="%Y%m%d", errors="coerce").notna().all()


@pytest.mark.parametrize("form", ["%Y/%m/%d", "%d.%m.%y", "%d-%b-%Y", "%m/%d/%Y %I:%M %p", "%Y-%m-%dT%H:%M:%SZ"])
def test_other_ways_to_write_a_day_are_days(tell, form):
    told = tell(pd.DataFrame({"day": STARTS.strftime(form)}))
    assert told.columns["day"]["kind"] in ("date", "datetime"), told.about("day")
    assert told.status == 0, told.said


def test_a_declared_form_is_tried_alone(tmp_path):
    """Each text is a day in ISO too, with day and month exchanged."""
    days = [f"2023-{d:02}-02" for d in DRAW.integers(1, 13, N)]
    pd.DataFrame({"day": days}).to_csv(tmp_path / "t.csv", index=False)
    card = column("day", "date", format="%Y-%d-%m", bounds=("2023-01-01", "2023-12-31"), bins=365)
    codes = read_table(tmp_path / "t.csv", card).codes
    assert codes[:, 0].tolist() == [31 + int(text[5:7]) - 1 for text in days], "all are in February"
    TableSamples(codes, card).save(tmp_path / "s.csv")
    assert pd.read_csv(tmp_path / "s.csv", dtype=str)["day"].tolist() == days, "and are written as they were"


def test_samples_are_written_in_the_declared_form(tmp_path):
    pd.DataFrame({"day": STARTS.strftime("%d.%m.%Y")}).to_csv(tmp_path / "t.csv", index=False, sep=";")
    card = column("day", "date", format="%d.%m.%Y", bounds=("2022-01-01", "2022-12-31"))
    TableSamples(read_table(tmp_path / "t.csv", card).codes, card).save(tmp_path / "s.csv")
    texts = pd.read_csv(tmp_path / "s.csv", dtype=str)["day"]
    assert all(datetime.datetime.strptime(text, "%d.%m.%Y").year == 2022 for text in texts)


def test_a_time_with_a_zone_is_the_same_day_in_every_form(tmp_path):
    """Half past midnight in Tokyo is the day before in UTC; the card says which zone counts."""
    times = pd.Series(pd.date_range("2024-05-01 00:30", periods=N, freq="h", tz="Asia/Tokyo"), name="at")
    frame = times.to_frame()
    frame.to_parquet(tmp_path / "t.parquet")
    frame.assign(at=[value.isoformat() for value in times]).to_csv(tmp_path / "t.csv", index=False)
    for zone in ("", "Asia/Tokyo", "America/New_York"):
        card = column("at", "date", zone=zone, bounds=("2024-04-01", "2024-06-30"), bins=91)
        forms = [tmp_path / "t.csv", tmp_path / "t.parquet", frame, polars.from_pandas(frame), {"at": times}]
        tables = [read_table(data, card).codes[:, 0].tolist() for data in forms]
        expected = times.dt.tz_convert(zone or "UTC").dt.date.map(lambda day: (day - datetime.date(2024, 4, 1)).days)
        for codes in tables:
            assert codes == expected.tolist(), zone


def test_lengths_of_stay_are_durations(tell, tmp_path):
    """K5: as a type of Parquet, and as text of a CSV with one cell missing."""
    stays = pd.Series(pd.to_timedelta(DRAW.integers(3_600, 9 * 86_400, N), unit="s"), name="stay").to_frame()
    stays.to_parquet(tmp_path / "stays.parquet")
    told = tell(tmp_path / "stays.parquet", ending="parquet")
    assert told.columns["stay"]["kind"] == "duration", told.about("stay")
    assert pd.api.types.is_timedelta64_dtype(told.samples["stay"])
    assert stays["stay"].min() <= told.samples["stay"].min() and told.samples["stay"].max() <= stays["stay"].max()
    stays.loc[7, "stay"] = pd.NaT
    text = tell(stays)
    drafted = {"name": "stay", "kind": "duration", "missing": True, "bounds": 0, "bins": 1000}
    assert text.columns["stay"] | {"bounds": 0} == drafted
    real = pd.to_timedelta(text.samples["stay"])
    assert real.max() <= stays["stay"].max()


def test_samples_have_the_types_of_a_parquet_file(tell, tmp_path):
    """K10: booleans, times, days and whole numbers with a missing one are what they were."""
    frame = pd.DataFrame({
        "smoker": DRAW.random(N) < 0.3,
        "count": pd.Series(DRAW.integers(0, 9, N), dtype="Int64").mask(DRAW.random(N) < 0.1),
        "seen": STARTS,
    })  # fmt: skip
    frame.to_parquet(tmp_path / "types.parquet")
    told = tell(tmp_path / "types.parquet", ending="parquet")
    assert told.status == 0, told.said
    made = told.samples
    assert made["smoker"].dtype == bool and 0.1 < made["smoker"].mean() < 0.5
    assert pd.api.types.is_datetime64_any_dtype(made["seen"]) and (made["seen"].dt.second != 0).any()
    counts = made["count"].dropna()
    assert (counts == counts.round()).all() and 0 < made["count"].isna().mean() < 0.3
    card = gossamer.TableCard.load(told.place / "card.toml")
    in_memory = TableSamples(read_table(frame, card).codes, card).to_pandas()
    assert str(in_memory["count"].dtype) == "Int64" and in_memory["smoker"].dtype == bool


def minutes(step, form):
    drawn = pd.to_timedelta(DRAW.integers(0, 1440 // step, 4 * N) * step, "min")
    return (pd.Timestamp("2022-03-01") + drawn).strftime(form)


def test_times_of_day_come_out_as_they_went_in(tell):
    frame = pd.DataFrame({
        "arrival": minutes(1, "%H:%M"), "exact": minutes(1, "%H:%M:%S"), "slot": minutes(15, "%I:%M %p"),
        "week": [f"{m // 60}:{m % 60:02}" for m in DRAW.integers(1_000, 3_000, 4 * N)],
        "shift": DRAW.choice(["06:00", "14:00", "22:00"], 4 * N),
    })  # fmt: skip
    told = tell(frame)
    kinds = {name: told.columns[name]["kind"] for name in frame}
    assert kinds == {
        "arrival": "duration",
        "exact": "duration",
        "slot": "duration",
        "week": "duration",
        "shift": "category",
    }
    assert (
        gossamer.Column.from_dict(told.columns["arrival"] | {"bounds": ["00:00", "23:59"]}).bounds[1]
        == "0 days 23:59:00"
    )
    made = told.samples
    written = [r"[0-2]\d:[0-5]\d", r"[0-2]\d:[0-5]\d:00", r"[01]\d:(00|15|30|45) [AP]M"]
    for name, pattern in zip(["arrival", "exact", "slot"], written, strict=True):
        assert made[name].str.fullmatch(pattern).all(), name
        hours = pd.to_datetime(made[name], format="mixed").dt.hour
        assert abs(hours.mean() - 11.5) < 1 and hours.nunique() == 24, "over the whole day, as in the records"
    weeks = made["week"].str.extract(r"^(\d\d):([0-5]\d)$").astype(int)
    assert weeks[0].max() in range(45, 51) and abs((weeks[0] + weeks[1] / 60).mean() - 33.3) < 2, "hours beyond a day"
    assert {*made["shift"]} == {"06:00", "14:00", "22:00"}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_hours_and_whole_days_have_no_seconds_in_samples(tell, tmp_path, ending):
    frame = pd.DataFrame({
        "hour": pd.Timestamp("2013-01-01") + pd.to_timedelta(DRAW.integers(0, 8_760, 4 * N), "h"),
        "minute": pd.Timestamp("2013-01-01") + pd.to_timedelta(DRAW.integers(0, 525_600, 4 * N), "min"),
        "stay": pd.to_timedelta(DRAW.integers(0, 60, 4 * N), "D"),
    })  # fmt: skip
    getattr(frame, f"to_{ending}")(tmp_path / f"own.{ending}", index=False)
    told = tell(tmp_path / f"own.{ending}", ending=ending)
    steps = {name: told.columns[name].get("step") for name in frame}
    assert steps == {"hour": 3_600, "minute": 60, "stay": 86_400}
    made = told.samples
    if ending == "csv":
        assert made["stay"].str.fullmatch(r"\d+ days").all()
    hours, clock = pd.to_datetime(made["hour"]), pd.to_datetime(made["minute"])
    assert (hours == hours.dt.floor("h")).all() and hours.dt.hour.nunique() == 24
    assert (clock == clock.dt.floor("min")).all() and clock.dt.minute.nunique() > 50
    assert abs(pd.to_timedelta(made["stay"]).dt.days.mean() - 29.5) < 3


def test_a_column_of_database_times_is_a_time_of_day(tell, tmp_path):
    times = [datetime.time(*divmod(int(minute), 60)) for minute in DRAW.integers(0, 1440, 4 * N)]
    pd.DataFrame({"at": times}).to_parquet(tmp_path / "own.parquet")
    told = tell(tmp_path / "own.parquet")
    assert told.columns["at"]["kind"] == "duration" and told.columns["at"]["step"] == 60
    assert told.samples["at"].str.fullmatch(r"[0-2]\d:[0-5]\d:00").all()


def test_hours_with_a_zone_stay_hours_and_another_zone_is_told(tell):
    """India is half an hour off, so a step of an hour would move every time: the check of the card says so."""
    hours = pd.date_range("2022-03-01", periods=N, freq="h", tz="Europe/Berlin")
    frame = pd.DataFrame({"at": [each.isoformat() for each in hours]})
    told = tell(frame)
    frame.to_csv(told.place / "own.csv", index=False)
    assert told.columns["at"]["step"] == 3_600
    assert (pd.to_datetime(told.samples["at"]).dt.minute == 0).all()
    (utc,) = gossamer.TableCard.load(told.place / "card.toml").columns
    india = dataclasses.replace(utc, zone="Asia/Kolkata", outside="clip")
    checked = gossamer.check_card(told.place / "own.csv", gossamer.TableCard(columns=(india,), declared_size=N))
    (cut,) = [each.cells for each in checked.findings if each.what == CUT]
    assert cut > 0.95 * N, "all but what lies beyond the bounds"


def test_a_stay_by_the_minute_after_an_hour(tell):
    came = pd.Timestamp("2013-01-01") + pd.to_timedelta(DRAW.integers(0, 8_760, 4 * N), "h")
    stay = pd.to_timedelta(DRAW.integers(0, 600, 4 * N), "min")
    frame = pd.DataFrame({"came": came, "left": came + stay})
    told = tell(frame)
    card = gossamer.TableCard.load(told.place / "card.toml")
    hour, minute = card.columns
    assert (hour.step, minute.step) == (3_600, 60)
    after = dataclasses.replace(minute, after="came", bounds=("0:00:00", "9:59:00"), bins=600)
    card = dataclasses.replace(card, columns=(hour, after))
    codes = read_table(frame, card).codes
    assert codes[:, 1].tolist() == (stay // pd.Timedelta("1min")).tolist()
    TableSamples(codes, card).save(told.place / "own.csv")
    made = pd.read_csv(told.place / "own.csv", parse_dates=["came", "left"])
    assert (made["left"] - made["came"]).tolist() == stay.tolist()
    swapped = dataclasses.replace(hour, after="left", bounds=("0:00:00", "10:00:00"))
    with pytest.raises(CardError, match="'left' must have the same kind, decimals, zone and step"):
        dataclasses.replace(card, columns=(swapped, minute))
